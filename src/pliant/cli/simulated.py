"""``pliant simulate --report``: which simulations it is for, and its files."""

from __future__ import annotations

import os
from pathlib import Path

from pliant.cli.outputs import check_report, unwritable
from pliant.files.partial import save
from pliant.history.energy import Power
from pliant.history.metrics import RunMetrics
from pliant.model.bookings import Booking
from pliant.model.errors import BatchError
from pliant.model.jobs import JobClass
from pliant.model.words import count
from pliant.page.simulated import Picture, Simulated, json_of, page
from pliant.plan.cost import INSTANT
from pliant.report.words import seconds
from pliant.sim.instant import Instant
from pliant.sim.simulator import SimEnd
from pliant.study.grid import Grid
from pliant.workloads.data import NONE
from pliant.workloads.estimates import EXACT, REQUESTED
from pliant.workloads.failures import Failures
from pliant.workloads.machine import Checkpoints
from pliant.workloads.malleability import PUBLISHED
from pliant.workloads.partitions import Partition
from pliant.workloads.sources import OWN_SHARES, Workload, WorkloadRequest


def check_one(report: Path | None, grid: Grid) -> None:
    """BatchError before anything is simulated, if there will be no report: it shows one simulation, and its
    directory must be one where files can be written."""
    if report is None:
        return
    asked = (
        ("--policy", len(grid.policies), "policy"),
        ("--malleable", len(grid.percents or ()), "percentage"),
        ("--seeds", grid.seeds, "seed"),
        ("--window", grid.windows, "window"),
    )
    for option, number, one in asked:
        if number > 1:
            raise BatchError(
                f"--report {report}: it shows one simulation, and {option} asks for {number}; give one {one}"
            )
    for path in (report, report.with_suffix(".json")):
        if os.path.lexists(path) and not path.is_file():
            raise BatchError(f"--report {report}: {path} is there, and is no file; choose another place")
    check_report(report)


def write(report: Path, picture: Picture, of: Simulated, metrics: RunMetrics) -> None:
    """The page and the JSON beside it, both or none. Raises BatchError."""
    contents = {
        report.with_suffix(".json"): json_of(picture, of, metrics),
        report: page(picture, of, metrics).encode(),
    }
    try:
        save(contents)
    except OSError as error:
        raise unwritable(report, error) from None


def facts(
    wish: WorkloadRequest, load: Workload, start: str | None, instant: Instant, end: SimEnd
) -> list[str]:
    """What the user asked for beside workload, policy (whose name tells the queue's order) and nodes, and
    what no chart shows."""
    stated = (
        (wish.rigid, "every job at its preferred size"),
        (wish.percent is not None, _converted(wish)),
        (wish.dependencies, "jobs follow others as in the trace"),
        (wish.compat, "run times in the published, longer form"),
        (wish.estimates != REQUESTED, f"estimates {wish.estimates}"),
        (wish.belief != EXACT, f"policies believe run times by {wish.belief}"),
        (wish.data != NONE, f"resizes move data: {wish.data}"),
        (bool(start), f"start rule {start}"),
        (load.settings.pass_interval_s > 0, f"a pass every {seconds(load.settings.pass_interval_s)}"),
    )
    patience = (
        ("cooldown_s", "between two resizes of a job"),
        ("offer_deadline_s", "for an answer to an offer"),
        ("resize_deadline_s", "for a resize"),
    )
    asked = wish.overrides._asdict()
    found = [text for so, text in stated if so]
    found += [f"{seconds(asked[key])} {what}" for key, what in patience if asked[key] is not None]
    found += [_of_partition(each) for each in (load.partitions.each if load.partitions is not None else ())]
    found += [_of_booking(each) for each in load.bookings]
    found += _left_out(load)
    found += _window(wish, load)
    found += [row.says() for row in load.unmapped]
    found += _saving(load.checkpoints)
    found += _failing(load.failures, end)
    found += _drawing(load.power, end)
    if _resizes_at_once(load):
        found.append("resizes take no time")
    if instant is not Instant.TOGETHER:
        found.append(f"events of one instant in {instant} order")
    if not load.fixed:
        found.append(f"seed {wish.seed}")
    return found


def _converted(wish: WorkloadRequest) -> str:
    made = f"{wish.percent or 0:g} % of rigid jobs made malleable"
    if wish.text.partition(":")[0] in OWN_SHARES:
        return made
    return f"{made}: {PUBLISHED if wish.compat else wish.conversion}"


def _of_partition(partition: Partition) -> str:
    name, nodes, speed, max_time_s, _ = partition
    of = f"partition {name} of {count(nodes, 'node')}"
    of += f", {speed:g} times as quick" if speed != 1 else ""
    return of + (f", for jobs of at most {seconds(max_time_s)}" if max_time_s is not None else "")


def _of_booking(booking: Booking) -> str:
    name, start_s, end_s, nodes, partition = booking
    of = f"reservation {name}: {count(nodes, 'node')}{f' of {partition}' if partition else ''}"
    return f"{of} from {start_s:,.0f} to {end_s:,.0f} s"


def _left_out(load: Workload) -> list[str]:
    """How many jobs of the workload were not simulated, and why."""
    reasons = (
        (load.left_out, "of the trace left out, for want of a run time or processors"),
        (len(load.too_wide), "left out, too wide for the machine"),
        (len(load.too_long), "left out, too long for their partition"),
    )
    return [f"{count(number, 'job')} {why}" for number, why in reasons if number]


def _window(wish: WorkloadRequest, load: Workload) -> list[str]:
    if wish.window is None:
        return []
    around = len(load.jobs) - len(load.counts)
    return [f"figures of {count(len(load.counts), 'job')} ({wish.window.text}), and {around:,} around them"]


def _resizes_at_once(load: Workload) -> bool:
    """Whether there is something to resize, and it takes no time."""
    some = any(job.spec.job_class is JobClass.MALLEABLE for job in load.jobs)
    own = any(job.adapting is not None for job in load.jobs)
    return some and not own and load.settings.cost == INSTANT


def _saving(checkpoints: Checkpoints | None) -> list[str]:
    if checkpoints is None:
        return []
    interval_s, cost_s, restart_s = checkpoints
    how = f"a checkpoint after each {seconds(interval_s)} of computing, written in {seconds(cost_s)}"
    return [how + (f", and read in {seconds(restart_s)}" if restart_s else "")]


def _drawing(power: Power | None, end: SimEnd) -> list[str]:
    if power is None or end.energy_kwh is None:
        return []
    found = [
        f"a node draws {power.idle_w:g} W idle and {power.busy_w:g} W busy",
        f"{end.energy_kwh:,.2f} kWh",
    ]
    if end.off_node_h is not None:
        found[:1] = [
            f"{found[0]}, {power.off_w:g} W when it is off, {seconds(power.after_s)} after its last use"
        ]
        found.append(f"{end.off_node_h:,.1f} node hours off, {count(end.boots or 0, 'boot')}")
    return found


def _failing(failures: Failures | None, end: SimEnd) -> list[str]:
    """Which nodes fail, what becomes of their jobs, and what did."""
    if failures is None:
        return []
    if (drawn := failures.drawn) is not None:
        how = f"each node fails every {seconds(drawn.mtbf_s)} on average"
        how += f", and is repaired in {seconds(drawn.repair_s)}"
    else:
        how = f"{count(len(failures.listed), 'node failure')} from a file"
    how += "" if failures.requeue else "; jobs that lose a node are not submitted again"
    lost = f"{end.lost_node_s:,.0f} node seconds of work lost"
    what = f"{count(end.node_failures, 'node failure')}, {count(end.requeued, 'job')} requeued, {lost}"
    return [how, what]

"""One simulation of a study, as a task for another process, and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from pliant.files.policy import PolicySpec
from pliant.history.turnarounds import Turnarounds
from pliant.sim.instant import Instant
from pliant.study.differences import Times
from pliant.study.files import Files
from pliant.study.groups import LABELS
from pliant.study.simulation import Simulation, SimulationResult, simulation
from pliant.workloads.sources import WorkloadRequest

FIGURES = (
    "wait_mean_s",
    "turnaround_mean_s",
    "turnaround_p95_s",
    "turnaround_max_s",
    "bounded_slowdown_mean",
    "bounded_slowdown_preferred_mean",
    "malleable_to_rigid_turnaround",
    "makespan_s",
    "utilisation",
    "expands",
    "shrinks",
    "resizes_withdrawn",
    "resizes_declined",
    "resizes_failed",
    "left_out",
    "too_wide",
    "too_long",
    "reserved_node_s",
    "reserved_late_node_s",
    "failed",
    "promised",
    "promises_broken",
    "thrash",
    "users_jain",
    "wait_median_s",
    "wait_p99_s",
    "node_failures",
    "requeued",
    "lost_node_s",
    "energy_kwh",
    "node_hours",
    "node_hours_price",
    "off_node_h",
    "boots",
)
"""Metrics whose means a row has."""
NO_FILES = Files()


class KeptCell(NamedTuple):
    """What is kept of the single jobs of a simulation: their turnarounds, and their groups ``by`` these names."""

    turnarounds: bool = False
    by: tuple[str, ...] = ()


class StudyCell(NamedTuple):
    """One simulation of a ``row`` of the grid; ``fixed`` says that other seeds would give the same. ``policy`` is what
    its policy is called: of two users' own, it may be the same. ``figures`` are those of ``SimulationResult.figures``.
    ``note``: which jobs were left out, and ``doubt``: why its figures are doubtful, for people. Of each job that
    counts, in order of submission, ``times`` has turnaround and wait and ``groups`` the name of its group, for
    each of the names by which they are told apart. ``drawn``: another ``seed`` has other jobs. The jobs that count
    were submitted from ``begin_s`` to ``end_s``. ``cost`` are the coefficients of what resizes take."""

    row: int
    run: int
    cut: int
    percent: float | None
    policy: str
    nodes: int
    fixed: bool
    figures: dict[str, Any]
    note: str
    doubt: str
    times: Times
    groups: dict[str, list[str]]
    drawn: bool
    seed: int
    begin_s: float
    end_s: float
    cost: dict[str, float]


def one(  # noqa: PLR0913, PLR0917 -- a task has its arguments in order
    row: int, wish: WorkloadRequest, chosen: PolicySpec, instant: Instant, files: Files, kept: KeptCell
) -> StudyCell:
    """A simulation of the workload, in this process."""
    made = simulation(wish, chosen, instant)
    turns = Turnarounds([job.spec for job in made.load.counts] if kept.turnarounds else [])
    with files.opened(made, wish.text) as (listeners, keep):
        ended = made.run(*listeners, *([turns] if kept.turnarounds else []), keep=keep)
    return cell(row, wish, made, ended, Times(turns.turnarounds, turns.waits), kept.by)


def cell(  # noqa: PLR0913, PLR0917 -- what there is of a simulation
    row: int,
    wish: WorkloadRequest,
    made: Simulation,
    ended: SimulationResult,
    times: Times = Times([], []),  # noqa: B008 -- nobody changes it
    by: Sequence[str] = (),
) -> StudyCell:
    """Keep the numbers of a finished simulation."""
    load = made.load
    specs = [job.spec for job in load.counts]
    return StudyCell(
        row,
        wish.run,
        wish.cut,
        wish.percent,
        made.policy.name,
        load.nodes,
        load.fixed,
        ended.figures(load),
        load.note,
        ended.doubt(load),
        times,
        {name: [LABELS[name](spec) for spec in specs] for name in by},
        load.drawn,
        wish.seed + wish.run,
        min(spec.submit_s for spec in specs),
        max(spec.submit_s for spec in specs),
        msgspec.structs.asdict(load.settings.cost),
    )

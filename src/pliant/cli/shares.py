"""``pliant simulate`` over several shares of malleable jobs and several seeds, in parallel processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple, Self

from rich import box
from rich.table import Table
from rich.text import Text

from pliant.cli.policies import choose
from pliant.core.metrics import Metrics
from pliant.model.errors import BatchError
from pliant.policy.view import Policy
from pliant.sim.confidence import interval
from pliant.sim.instant import Instant
from pliant.sim.simulator import simulate
from pliant.sim.sources import Wish, Workload, read_workload

FIGURES = {
    "wait_mean_s": ("wait,\ns", 1.0),
    "turnaround_mean_s": ("turn-\naround, s", 1.0),
    "bounded_slowdown_mean": ("bounded\nslowdown", 1.0),
    "makespan_s": ("makespan,\ns", 1.0),
    "utilisation": ("util.,\n%", 100.0),
    "expands": ("expan-\nsions", 1.0),
    "shrinks": ("shrinks", 1.0),
    "failed": ("failed", 1.0),
    "node_failures": ("node\nfailures", 1.0),
    "requeued": ("re-\nqueued", 1.0),
    "lost_node_s": ("lost,\nnode-s", 1.0),
}
"""What a row has: its title and unit in the table."""
IF_ANY = ("failed", "requeued")
"""Shown only if there were any."""
IN_JSON = ("node_failures", "lost_node_s")
"""Not shown in the table, which has no room for more."""


class Chosen(NamedTuple):
    """The policy, as the command line names it."""

    name: str = ""
    start: str = ""
    order: str = "submission"
    weights: tuple[str, ...] = ()
    half_life_s: float = 0.0

    def make(self, load: Workload, default: str = "easy") -> Policy:
        """This policy, else the workload's own, else ``default``."""
        return choose(
            self.name or load.policy or default,
            self.start or load.start,
            order=self.order,
            weights=self.weights,
            half_life_s=self.half_life_s,
        )


class Run(NamedTuple):
    """One simulation; ``fixed`` says that other seeds would give the same."""

    percent: float | None
    run: int
    fixed: bool
    nodes: int
    policy: str
    figures: dict[str, float]


def percentages(text: str) -> list[float]:
    """``0,20,100`` as numbers; BatchError for others than 0 .. 100."""
    numbers: list[float] = []
    for part in text.split(","):
        try:
            number = float(part)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 100:
            raise BatchError(f"malleable: {part.strip()!r} is no percentage; write --malleable 0,50,100")
        numbers.append(number)
    return list(dict.fromkeys(numbers))


def one(wish: Wish, chosen: Chosen, instant: Instant) -> Run:
    """A simulation of the workload, in this process."""
    load = read_workload(wish)
    policy = chosen.make(load, "easy" if wish.percent is None else "malleable")
    metrics = Metrics(keep_jobs=False)
    end = simulate(
        load.jobs,
        load.nodes,
        policy,
        load.settings,
        metrics.add,
        starting=load.starting,
        instant=instant,
        failures=load.failures,
    )
    summary = metrics.summary(load.nodes)
    figures = {key: float(getattr(end if key in end._fields else summary, key)) for key in FIGURES}
    figures["failed"] -= end.requeued
    return Run(wish.percent, wish.run, load.fixed, load.nodes, policy.name, figures)


def study(
    wish: Wish,
    percents: Sequence[float] | None,
    seeds: int,
    chosen: Chosen,
    *,
    instant: Instant = Instant.TOGETHER,
    workers: int = 0,
    progress: Callable[[int], None] = lambda _done: None,
) -> dict[str, Any]:
    """Every percentage with ``seeds`` seeds from the wish's on, in ``workers`` processes (0: one a processor).

    What no seed changes runs once. The result has a row for each percentage, with means and half the width
    of their 95 % confidence intervals, None if there was one run.
    """
    shares: Sequence[float | None] = percents if percents is not None else (None,)
    firsts = [wish._replace(percent=percent) for percent in shares]
    done: list[Run] = []
    with _Pool(workers) as pool:
        for run in pool.each(firsts, chosen, instant):
            done.append(run)
            progress(len(done))
        vary = {run.percent for run in done if not run.fixed}
        more = [first._replace(run=i) for first in firsts if first.percent in vary for i in range(1, seeds)]
        for run in pool.each(more, chosen, instant):
            done.append(run)
            progress(len(done))
    return {
        "workload": wish.text,
        "nodes": done[0].nodes,
        "policy": done[0].policy,
        "seed": wish.seed,
        "rows": [_row(percent, [run for run in done if run.percent == percent]) for percent in shares],
    }


def _row(percent: float | None, runs: list[Run]) -> dict[str, Any]:
    runs.sort(key=lambda run: run.run)  # sums must not depend on which process was first
    row: dict[str, Any] = {"malleable_percent": percent, "runs": len(runs)}
    for key in FIGURES:
        row[key] = interval([run.figures[key] for run in runs])._asdict()
    return row


class _Pool:
    """Processes for simulations; with one worker, this process."""

    def __init__(self, workers: int) -> None:
        self._workers = workers or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def each(self, wishes: Sequence[Wish], chosen: Chosen, instant: Instant) -> Iterator[Run]:
        """Their runs as they end."""
        if self._workers == 1 or (len(wishes) == 1 and self._pool is None):
            yield from (one(wish, chosen, instant) for wish in wishes)
            return
        if self._pool is None:
            # Fresh processes: a fork would copy whatever threads the display has running.
            self._pool = ProcessPoolExecutor(self._workers, multiprocessing.get_context("spawn"))
        for future in as_completed([self._pool.submit(one, wish, chosen, instant) for wish in wishes]):
            yield future.result()

    def __exit__(self, *_error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def table(result: Mapping[str, Any]) -> Table:
    """The rows for people: means, and where there were several runs their intervals."""
    title = f"{Path(result['workload']).name}: {result['policy']} on {result['nodes']} nodes; mean ± 95 % interval"
    shown = Table(
        title=Text(title, style="table.title"), box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    shown.add_column("mall-\neable")
    shown.add_column("runs", justify="right")
    rows = result["rows"]
    keys = [key for key in FIGURES if key not in IN_JSON]
    keys = [key for key in keys if key not in IF_ANY or any(row[key]["mean"] for row in rows)]
    for key in keys:
        shown.add_column(FIGURES[key][0], justify="right")
    for row in result["rows"]:
        percent = row["malleable_percent"]
        cells = ["as is" if percent is None else f"{percent:g} %", str(row["runs"])]
        for key in keys:
            unit = FIGURES[key][1]
            cell = _short(row[key]["mean"] * unit)
            if row[key]["half"] is not None:
                cell += f"\n± {_short(row[key]['half'] * unit)}"
            cells.append(cell)
        shown.add_row(*cells)
    return shown


def _short(number: float) -> str:
    """About four digits."""
    return f"{number:,.{0 if number >= 1000 else 1 if number >= 10 else 2}f}"

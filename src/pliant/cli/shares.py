"""``pliant simulate`` over several policies, shares of malleable jobs and seeds, in parallel processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pliant.cli.policies import choose, weights_of
from pliant.core.metrics import Metrics
from pliant.model.errors import BatchError, PolicyError
from pliant.policy.view import Policy
from pliant.sim.confidence import interval
from pliant.sim.instant import Instant
from pliant.sim.jobs_csv import JobsCsv
from pliant.sim.references import reference_times
from pliant.sim.simulator import simulate
from pliant.sim.workers import pool, processes
from pliant.workloads.sources import Wish, Workload, read_workload

FIGURES = {
    "wait_mean_s": ("wait,\ns", 1.0),
    "turnaround_mean_s": ("turn-\naround", 1.0),
    "bounded_slowdown_mean": ("bounded\nslowd.", 1.0),
    "bounded_slowdown_preferred_mean": ("by pre-\nferred", 1.0),
    "malleable_to_rigid_turnaround": ("mall./\nrigid", 1.0),
    "makespan_s": ("make-\nspan, s", 1.0),
    "utilisation": ("util.,\n%", 100.0),
    "expands": ("expan-\nsions", 1.0),
    "shrinks": ("shrinks", 1.0),
    "failed": ("failed", 1.0),
    "node_failures": ("node\nfailures", 1.0),
    "requeued": ("re-\nqueued", 1.0),
    "lost_node_s": ("lost,\nnode-s", 1.0),
}
"""What a row has: its title and unit in the table."""
IN_JSON = ("node_failures", "lost_node_s")
"""Not shown in the table, which has no room for more."""


NOTHING = {"mean": None, "half": None}
"""In place of an interval, where no run has the figure."""
OFTEN_EMPTY = ("failed", "requeued", "malleable_to_rigid_turnaround")
"""Shown only if some row has it."""
DISPENSABLE = ("shrinks", "expands", "bounded_slowdown_mean", "malleable_to_rigid_turnaround", "makespan_s")
"""What a narrow table does without, first to last."""


class Chosen(NamedTuple):
    """The policy, as the command line names it."""

    name: str = ""
    start: str = ""
    order: str = ""
    weights: tuple[str, ...] = ()
    half_life_s: float = 0.0

    def check(self) -> None:
        """PolicyError if what is named does not exist, or does not go together."""
        choose(
            self.name or "malleable",
            self.start or None,
            order=self.order or "submission",
            weights=weights_of(self.weights),
            half_life_s=self.half_life_s,
        )

    def make(self, load: Workload, default: str = "easy") -> Policy:
        """This policy, else the workload's own with its start rule, else ``default``."""
        return choose(
            self.name or load.policy or default,
            self.start or (None if self.name else load.start),
            order=self.order or load.order,
            weights=weights_of(self.weights) or load.weights,
            half_life_s=self.half_life_s,
        )


class Run(NamedTuple):
    """One simulation; ``fixed`` says that other seeds would give the same. ``policy`` is what ``chosen`` is
    called: of two users' own, it may be the same."""

    percent: float | None
    chosen: Chosen
    run: int
    fixed: bool
    nodes: int
    policy: str
    figures: dict[str, float | None]


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


def policies(text: str) -> list[str]:
    """``easy,malleable`` as names, each once; a file's name may have a comma. PolicyError if one is empty."""
    file, colon, kind = text.rpartition(".py:")
    path = f"{file}.py" if colon and "," not in kind else text
    if ".py" in path and Path(path).is_file():
        return [text]
    names = [name.strip() for name in text.split(",")]
    if len(names) > 1 and "" in names:
        raise PolicyError(f"policy: {text!r} has an empty name; write --policy easy,malleable")
    return list(dict.fromkeys(names))


def one(wish: Wish, chosen: Chosen, instant: Instant, jobs_csv: Path | None = None) -> Run:
    """A simulation of the workload, in this process."""
    if jobs_csv is not None:
        with JobsCsv(jobs_csv) as lines:
            return _one(wish, chosen, instant, lines)
    return _one(wish, chosen, instant)


def _one(wish: Wish, chosen: Chosen, instant: Instant, lines: JobsCsv | None = None) -> Run:
    load = read_workload(wish)
    policy = chosen.make(load, "easy" if wish.percent is None else "malleable")
    metrics = Metrics(keep_jobs=False, reference=reference_times(load.jobs))
    sink = lines.beside(metrics.add) if lines is not None else metrics.add
    end = simulate(
        load.jobs,
        load.nodes,
        policy,
        load.settings,
        sink,
        starting=load.starting,
        instant=instant,
        failures=load.failures,
    )
    summary = metrics.summary()
    figures = {key: getattr(end if key in end._fields else summary, key) for key in FIGURES}
    return Run(wish.percent, chosen, wish.run, load.fixed, load.nodes, policy.name, figures)


def study(
    wish: Wish,
    percents: Sequence[float] | None,
    seeds: int,
    several: Sequence[Chosen],
    *,
    instant: Instant = Instant.TOGETHER,
    workers: int = 0,
    jobs_csv: Path | None = None,
    progress: Callable[[int], None] = lambda _done: None,
) -> dict[str, Any]:
    """Every percentage under every policy with ``seeds`` seeds from the wish's on, in ``workers`` processes
    (0: one a processor). ``jobs_csv`` is for a study of one simulation.

    What no seed changes runs once. The result has a row for each percentage and policy, with means and half
    the width of their 95 % confidence intervals, None if there was one run. PolicyError before anything is
    simulated if a policy is unknown.
    """
    for chosen in several:
        chosen.check()
    shares: Sequence[float | None] = percents if percents is not None else (None,)
    firsts = [(wish._replace(percent=percent), chosen) for percent in shares for chosen in several]
    done: list[Run] = []
    with _Pool(workers) as pool:
        for run in pool.each(firsts, instant, jobs_csv):
            done.append(run)
            progress(len(done))
        vary = {run.percent for run in done if not run.fixed}
        more = [
            (first._replace(run=i), chosen)
            for first, chosen in firsts
            if first.percent in vary
            for i in range(1, seeds)
        ]
        for run in pool.each(more, instant):
            done.append(run)
            progress(len(done))
    rows = [
        _row([run for run in done if run.percent == first.percent and run.chosen == chosen])
        for first, chosen in firsts
    ]
    return {
        "workload": wish.text,
        "nodes": done[0].nodes,
        "policy": ", ".join(dict.fromkeys(row["policy"] for row in rows)),
        "seed": wish.seed,
        "rows": rows,
    }


def _row(runs: list[Run]) -> dict[str, Any]:
    """Of the runs of one percentage under one policy."""
    runs.sort(key=lambda run: run.run)  # sums must not depend on which process was first
    first = runs[0]
    row: dict[str, Any] = {
        "malleable_percent": first.percent,
        "policy": first.policy,
        "runs": len(runs),
    }
    for key in FIGURES:
        values = [value for run in runs if (value := run.figures[key]) is not None]
        row[key] = interval([float(value) for value in values])._asdict() if values else NOTHING
    return row


class _Pool:
    """Processes for simulations; with one worker, this process."""

    def __init__(self, workers: int) -> None:
        self._workers = processes(workers)
        self._pool: ProcessPoolExecutor | None = None
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        self._ends.__enter__()
        return self

    def each(
        self, wanted: Sequence[tuple[Wish, Chosen]], instant: Instant, jobs_csv: Path | None = None
    ) -> Iterator[Run]:
        """Their runs as they end."""
        if self._workers == 1 or (len(wanted) == 1 and self._pool is None):
            yield from (one(wish, chosen, instant, jobs_csv) for wish, chosen in wanted)
            return
        if self._pool is None:
            self._pool = self._ends.enter_context(pool(self._workers))
        for future in as_completed([self._pool.submit(one, *each, instant) for each in wanted]):
            yield future.result()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.__exit__(kind, error, trace)


def table(result: Mapping[str, Any], console: Console) -> Table:
    """The rows for people: means, and where there were several runs their intervals.

    Columns that ``console`` has no room for are left out, and named below: numbers cut short would mislead.
    """
    rows = result["rows"]
    keys = [key for key in FIGURES if key not in IN_JSON]
    keys = [key for key in keys if key not in OFTEN_EMPTY or any(row[key]["mean"] for row in rows)]
    shown = _table(result, keys)
    wide = console.options.update(max_width=1000)
    left_out: list[str] = []
    for key in DISPENSABLE:
        if Measurement.get(console, wide, shown).maximum <= console.width:
            break
        if key in keys:
            keys.remove(key)
            left_out.append(key)
            shown = _table(result, keys)
    if left_out:
        shown.caption = f"No room for {', '.join(left_out)}: see --json, or widen the terminal."
        shown.caption_justify = "left"
    return shown


def _table(result: Mapping[str, Any], keys: Sequence[str]) -> Table:
    rows = result["rows"]
    compared = len({row["policy"] for row in rows}) > 1
    policy = "" if compared else f"{result['policy']} on "
    title = f"{Path(result['workload']).name}: {policy}{result['nodes']} nodes; mean ± 95 % interval"
    heading = Text(title, style="table.title")
    shown = Table(title=heading, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    # Where policies are compared, the table is wide: what is the same everywhere gives way.
    shares = not compared or any(row["malleable_percent"] is not None for row in rows)
    counts = not compared or any(row["runs"] > 1 for row in rows)
    heads = (("mall-\neable", shares), ("policy", compared), ("runs", counts))
    for head, wanted in heads:
        if wanted:
            shown.add_column(head, justify="right" if head == "runs" else "left", no_wrap=head == "policy")
    for key in keys:
        shown.add_column(FIGURES[key][0], justify="right")
    for row in rows:
        percent = row["malleable_percent"]
        first = ("as is" if percent is None else f"{percent:g} %", row["policy"], str(row["runs"]))
        cells = [cell for cell, (_, wanted) in zip(first, heads, strict=True) if wanted]
        cells += [_cell(row[key], FIGURES[key][1]) for key in keys]
        shown.add_row(*cells)
    return shown


def _cell(figure: Mapping[str, float | None], unit: float) -> str:
    mean, half = figure["mean"], figure["half"]
    if mean is None:
        return "-"
    return _short(mean * unit) + (f"\n± {_short(half * unit)}" if half is not None else "")


def _short(number: float) -> str:
    """About four digits."""
    return f"{number:,.{0 if number >= 1000 else 1 if number >= 10 else 2}f}"

"""One workload with several shares of malleable jobs, policies, seeds and windows: a row a share and policy, and what
differs between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from pliant.files.external import at_work
from pliant.files.policy import PolicySpec
from pliant.model.errors import BatchError
from pliant.sim.instant import Instant
from pliant.study.cells import FIGURES, NO_FILES, KeptCell, StudyCell, one
from pliant.study.confidence import interval
from pliant.study.files import Files
from pliant.study.pairs import differs, groups, paired
from pliant.study.workers import Task, Workers
from pliant.workloads.sources import WorkloadRequest

NOTHING = {"mean": None, "half": None}
"""In place of an interval, where no run has the figure."""
MOST = 100_000
"""So many simulations may be in a study."""


class Against(NamedTuple):
    """With which row each is compared: that of a policy, by its place, else its own, at a percentage, else at its
    own."""

    policy: int | None = None
    percent: float | None = None


class Grid(NamedTuple):
    """Every percentage of malleable jobs (None: the workload as it is) under every policy, with ``seeds``
    seeds from the wish's on and in each of its windows. What differs is told for all jobs, and ``by`` groups of them
    (``groups.LABELS``): under several policies from the first at the same percentage, under one from the first
    percentage, or as ``against`` says."""

    wish: WorkloadRequest
    policies: Sequence[PolicySpec]
    percents: Sequence[float] | None = None
    seeds: int = 1
    instant: Instant = Instant.TOGETHER
    by: Sequence[str] = ()
    against: Against | None = None

    @property
    def windows(self) -> int:
        return self.wish.window.several if self.wish.window is not None else 1

    @property
    def most(self) -> int:
        """How many simulations these are at most: what no seed changes runs once."""
        return len(self.percents or (0,)) * self.seeds * self.windows * len(self.policies)

    @property
    def rows(self) -> list[tuple[float | None, PolicySpec]]:
        """The percentage and the policy of each."""
        shares: Sequence[float | None] = self.percents if self.percents is not None else (None,)
        return [(percent, policy) for percent in shares for policy in self.policies]

    def beside(self, row: int) -> int:
        """The row with which a row is compared, which may be itself."""
        several = len(self.policies)
        share, policy = divmod(row, several)
        if self.against is None:
            return share * several if several > 1 else 0
        named, percent = self.against
        policy = policy if named is None else named
        if percent is not None:
            share = list(self.percents or ()).index(percent)
        return share * several + policy

    def unit(self, cell: StudyCell) -> tuple[int, int]:
        """Over what intervals are: runs, but where a trace is cut into windows these, as seeds that change little of
        the same window are no further samples of it."""
        return (0 if self.windows > 1 and not cell.drawn else cell.run, cell.cut)

    def tasks(
        self, runs: range, files: Files = NO_FILES, varying: Collection[int] | None = None
    ) -> list[Task]:
        """The simulations with the seeds numbered ``runs``, of all rows or those that are ``varying``."""
        kept = KeptCell(len(self.rows) > 1, tuple(self.by))
        return [
            (
                one,
                (
                    row,
                    self.wish._replace(percent=percent, run=run, cut=cut),
                    policy,
                    self.instant,
                    files,
                    kept,
                ),
            )
            for row, (percent, policy) in enumerate(self.rows)
            if varying is None or row in varying
            for run in runs
            for cut in range(self.windows)
        ]


def study(  # noqa: PLR0913 -- who is told what
    grid: Grid,
    *,
    workers: int = 0,
    files: Files = NO_FILES,
    progress: Callable[[int], None] = lambda _done: None,
    note: Callable[[str], None] = lambda _text: None,
    doubt: Callable[[str], None] = lambda _text: None,
) -> dict[str, Any]:
    """Its simulations in ``workers`` processes (0: one a processor). ``files`` are for a grid of one.

    What no seed changes runs once. The result is that of ``told``.
    At the end ``note`` is told which jobs the first simulation that left some out left out, and ``doubt`` why figures
    are doubtful. PolicyError before
    anything is simulated if a policy is unknown, or its process does not greet.
    """
    if grid.most > MOST:
        raise BatchError(f"a study of {grid.most:,} simulations is too large; the most is {MOST:,}")
    for chosen in grid.policies:
        with at_work(chosen.over(PolicySpec("malleable")).make()):
            pass
    with Workers(workers, progress) as several:
        cells: list[StudyCell] = list(several.each(grid.tasks(range(1), files)))
        varying = {cell.row for cell in cells if not cell.fixed}
        if varying:
            cells += several.each(grid.tasks(range(1, grid.seeds), varying=varying))
    if notes := [cell.note for cell in cells if cell.note]:
        note(notes[0])
    if doubts := [cell.doubt for cell in cells if cell.doubt]:
        doubt(f"{len(doubts):,} of {len(cells):,} simulations: {doubts[0]}" if len(cells) > 1 else doubts[0])
    return told(grid, cells)


def told(grid: Grid, cells: Sequence[StudyCell]) -> dict[str, Any]:
    """What ``pliant simulate --json`` gives, of one simulation as of many.

    ``rows`` has a row for each percentage and policy, with means and half the width of their 95 % confidence
    intervals, None if there was one; ``differences`` has one for each row that is compared with another
    (``Grid.beside``), and ``groups`` the same of groups of jobs. ``runs`` has each simulation by itself.
    """
    of_rows = [[cell for cell in cells if cell.row == row] for row in range(len(grid.rows))]
    rows = [_row(grid, each) for each in of_rows]
    compared = [
        paired(grid.unit, of_rows[grid.beside(row)], each)
        for row, each in enumerate(of_rows)
        if grid.beside(row) != row
    ]
    units = [each for each in compared if each]
    window = grid.wish.window
    return {
        "workload": grid.wish.text,
        "nodes": cells[0].nodes,
        "policy": ", ".join(dict.fromkeys(row["policy"] for row in rows)),
        "seed": grid.wish.seed,
        "cost": cells[0].cost,
        "window": None if window is None else window.text,
        "windows": grid.windows,
        "rows": rows,
        "differences": [differs(each) for each in units],
        "groups": [row for each in units for name in grid.by for row in groups(each, name)],
        "runs": [_run(cell) for cell in cells],
    }


def _run(cell: StudyCell) -> dict[str, Any]:
    """A simulation by itself; ``window`` counts from 0."""
    return {
        "malleable_percent": cell.percent,
        "policy": cell.policy,
        "seed": cell.seed,
        "window": cell.cut,
        "begin_s": cell.begin_s,
        "end_s": cell.end_s,
        **cell.figures,
    }


def _row(grid: Grid, cells: Sequence[StudyCell]) -> dict[str, Any]:
    """Of the simulations of one percentage under one policy. ``units`` are what the intervals are over: the mean of
    each counts once."""
    units: dict[Hashable, list[StudyCell]] = {}
    for cell in cells:
        units.setdefault(grid.unit(cell), []).append(cell)
    row: dict[str, Any] = {
        "malleable_percent": cells[0].percent,
        "policy": cells[0].policy,
        "runs": len(cells),
        "units": len(units),
    }
    for key in FIGURES:
        means = [_mean([cell.figures[key] for cell in unit]) for unit in units.values()]
        values = [mean for mean in means if mean is not None]
        row[key] = interval(values)._asdict() if values else NOTHING
    return row


def _mean(figures: Sequence[float | None]) -> float | None:
    values = [float(value) for value in figures if value is not None]
    return fmean(values) if values else None

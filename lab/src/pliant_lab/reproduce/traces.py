"""Every policy on real traces and Lublin's model, at six shares of malleable jobs, against rigid EASY.

The method is that of arXiv 2602.17318 (its conversion of rigid jobs, ``PUBLISHED``; its shares), with what it lacks: a
true EASY as the baseline, and differences that are paired. Each window of a trace, or seed of the model, is
simulated rigid under EASY and then under each policy with each share; of the pairs the geometric mean of the ratios is
taken, with its 95 % interval over the windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import isnan, nan
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from pliant.core.settings import Settings
from pliant.plan.cost import INSTANT
from pliant.policy.registry import POLICIES, make
from pliant.report.words import seconds
from pliant.study.differences import ratio
from pliant.study.workers import Task
from pliant.workloads.formats.swf import read_swf, rigid_jobs
from pliant.workloads.generators.lublin import lublin_jobs
from pliant.workloads.generators.paper2 import COST
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import PUBLISHED, make_malleable
from pliant_lab.reproduce import charts
from pliant_lab.reproduce.folder import Folder
from pliant_lab.reproduce.runs import Outcome, with_turnarounds

SEED = 42
BASE = "easy"
LUBLIN_NODES, LUBLIN_LOAD = 256, 0.8
SHARES = (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
METRICS = ("turnaround_mean_s", "wait_mean_s", "bounded_slowdown_mean", "makespan_s", "utilisation")
LINES = ("marginal", "malleable", "keep-preferred", "equipartition", "conservative", "dmr-wide")
"""Those that are drawn as lines; all are in the tables."""
COSTLY = ("marginal", "malleable", "keep-preferred", "min-agreement", "min-steal", "min-pool")
"""Those that are run once more with what resizes cost in Finnerty et al. 2024."""
LIMIT = 60.0
"""The worst change in the line charts, in per cent."""
START = {"dmr-wide": "preferred", "dmr-preferred": "preferred"}
"""Their own rule is to start at the maximum, or to wait: here that may be the whole machine."""
TABLE_SHARES = (20.0, 60.0, 100.0)
LATER = 1.1
"""A job is later than under rigid EASY if its turnaround is so many times as long, or more."""


class Source(NamedTuple):
    """Where ``windows`` windows of ``jobs`` jobs come from; no file stands for Lublin's model."""

    name: str
    file: str
    nodes: int
    windows: int
    jobs: int


FULL = (
    Source("KTH-SP2", "KTH-SP2.filtered.swf.gz", 100, 8, 1500),
    Source("Theta 2022", "theta_2022.swf.gz", 4360, 8, 1000),
    Source("Lublin-Feitelson", "", LUBLIN_NODES, 12, 1000),
)
QUICK = (
    Source("KTH-SP2", "KTH-SP2.filtered.swf.gz", 100, 3, 600),
    Source("Theta 2022", "theta_2022.swf.gz", 4360, 3, 400),
    Source("Lublin-Feitelson", "", LUBLIN_NODES, 4, 400),
)
QUICK_SHARES = (0.0, 20.0, 60.0, 100.0)
DRAWN = (("turnaround_mean_s", "turnaround"), ("wait_mean_s", "wait"), ("makespan_s", "makespan"))
"""The metrics that are drawn as lines, and the names of their figures behind ``traces-``."""


class Case(NamedTuple):
    """A simulation of window ``window`` of ``source``; ``costly``: resizes take Finnerty et al.'s time."""

    source: Source
    window: int
    policy: str
    percent: float
    costly: bool


class Promises(NamedTuple):
    """How many jobs were promised a start, how many started later, and by how much at most."""

    made: int
    broken: int
    latest_s: float

    @property
    def text(self) -> str:
        if not self.made:
            return "none made"
        return f"{self.broken:,} of {self.made:,}" + (
            f", by up to {seconds(self.latest_s)}" if self.broken else ""
        )


class Change(NamedTuple):
    """By how many per cent something is more: by the geometric mean of ratios, and the ends of its 95 % interval, None
    if there is one ratio. ``mean`` is NaN where there is none."""

    mean: float
    low: float | None
    high: float | None

    @property
    def around(self) -> tuple[float, float]:
        """What the interval has below the mean and above it."""
        if self.low is None or self.high is None:
            return 0.0, 0.0
        return self.mean - self.low, self.high - self.mean


class Study(NamedTuple):
    """The outcomes of all cases, and the share of their jobs that are ``LATER`` than under rigid EASY."""

    sources: Sequence[Source]
    shares: Sequence[float]
    by: dict[Case, Outcome]
    later: dict[Case, float]

    def changes(
        self, source: Source, policy: str, percent: float, metric: str, *, costly: bool = False
    ) -> Change:
        """Against rigid EASY, over the windows."""
        pairs = [
            (
                getattr(self.by[Case(source, i, BASE, 0.0, costly=False)], metric),
                getattr(self.by[Case(source, i, policy, percent, costly)], metric),
            )
            for i in range(source.windows)
        ]
        found = ratio([[pair] for pair in pairs])
        mean, low, high = (None if each is None else 100.0 * (each - 1.0) for each in found.values())
        return Change(nan if mean is None else mean, low, high)

    def promises(
        self, source: Source, policy: str, shares: Iterable[float], *, costly: bool = False
    ) -> Promises:
        """What became of the promises under ``policy``, over the windows and ``shares``."""
        found = [
            self.by[Case(source, i, policy, share, costly)] for share in shares for i in range(source.windows)
        ]
        return Promises(
            sum(each.promised for each in found),
            sum(each.promises_broken for each in found),
            max(each.promise_delay_max_s for each in found),
        )


def sources(traces: Path | None, *, quick: bool) -> list[Source]:
    """Those that there are: without the traces, only the model."""
    return [
        each
        for each in (QUICK if quick else FULL)
        if not each.file or (traces and (traces / each.file).is_file())
    ]


def missing(found: Sequence[Source], *, quick: bool) -> list[Source]:
    """Those whose traces are not among ``found``."""
    return [each for each in (QUICK if quick else FULL) if each not in found]


def cases(found: Sequence[Source], *, quick: bool) -> Iterator[Case]:
    shares = QUICK_SHARES if quick else SHARES
    for source in found:
        for policy in POLICIES:
            for percent in shares:
                for index in range(source.windows):
                    yield Case(source, index, policy, percent, costly=False)
        for policy in COSTLY:
            for percent in TABLE_SHARES:
                for index in range(source.windows):
                    yield Case(source, index, policy, percent, costly=True)


def tasks(found: Sequence[Source], traces: Path | None, *, quick: bool) -> list[Task]:
    return [(one, (case, str(traces) if traces else "")) for case in cases(found, quick=quick)]


def collect(found: Sequence[Source], results: Sequence[tuple[Outcome, float]], *, quick: bool) -> Study:
    """The results of ``tasks``, in their order."""
    by = dict(zip(cases(found, quick=quick), results, strict=True))
    return Study(
        found,
        QUICK_SHARES if quick else SHARES,
        {case: outcome for case, (outcome, _) in by.items()},
        {case: later for case, (_, later) in by.items()},
    )


def one(case: Case, traces: str) -> tuple[Outcome, float]:
    """A window under a policy, and the share of its jobs that are ``LATER`` than under rigid EASY."""
    source = case.source
    rigid = window_jobs(source, case.window, traces)
    jobs = make_malleable(rigid, case.percent, source.nodes, SEED + case.window, conversion=PUBLISHED)
    settings = Settings(cost=COST if case.costly else INSTANT)
    outcome, turnarounds = with_turnarounds(
        jobs, source.nodes, make(case.policy, START.get(case.policy)), settings
    )
    base = _base(source, case.window, traces)
    later = sum(turnarounds[number] > LATER * before for number, before in base.items())
    return outcome, later / len(base)


@lru_cache(maxsize=max(each.windows for each in FULL))
def _base(source: Source, window: int, traces: str) -> dict[int, float]:
    """Each job's turnaround under rigid EASY, by its number."""
    jobs = window_jobs(source, window, traces)
    return with_turnarounds(jobs, source.nodes, make(BASE), Settings(cost=INSTANT))[1]


def window_jobs(source: Source, number: int, traces: str) -> list[SimJob]:
    """Rigid jobs: of a trace, one of its windows, evenly spread, its first submission at 0."""
    if not source.file:
        return lublin_jobs(source.jobs, source.nodes, SEED + number, load=LUBLIN_LOAD)
    jobs = trace_jobs(str(Path(traces) / source.file), source.nodes)
    first = (len(jobs) - source.jobs) * (2 * number + 1) // (2 * source.windows)
    cut = jobs[first : first + source.jobs]
    start = cut[0].spec.submit_s
    return [
        structs.replace(job, spec=structs.replace(job.spec, submit_s=job.spec.submit_s - start))
        for job in cut
    ]


@lru_cache(maxsize=4)
def trace_jobs(path: str, nodes: int) -> tuple[SimJob, ...]:
    return tuple(sorted(rigid_jobs(read_swf(Path(path)), nodes), key=lambda job: job.spec.submit_s))


# ---- what comes of it --------------------------------------------------------------------------------------


def write(folder: Folder, study: Study) -> str:
    """Figures and tables; the result is this study's section of the README."""
    folder.table(
        "traces-runs",
        (
            "workload",
            "window",
            "policy",
            "malleable_percent",
            "resize_costs",
            *Outcome._fields,
            "later_jobs",
        ),
        [
            (
                case.source.name,
                case.window,
                case.policy,
                case.percent,
                "Finnerty et al. 2024" if case.costly else "none",
                *found,
                study.later[case],
            )
            for case, found in study.by.items()
        ],
    )
    folder.table(
        "traces-changes",
        ("workload", "policy", "malleable_percent", "metric", "change_percent", "low_95", "high_95"),
        [
            (source.name, policy, percent, metric, *study.changes(source, policy, percent, metric))
            for source in study.sources
            for policy in POLICIES
            for percent in study.shares
            for metric in METRICS
        ],
    )
    _heat(folder, study)
    for metric, name in DRAWN:
        _lines(folder, study, metric, name)
    return _section(study)


def _heat(folder: Folder, study: Study) -> None:
    made, axes = charts.figure(len(study.sources), high=0.24 * len(POLICIES) + 1.0)
    columns = [f"{share:g} %" for share in study.shares]
    for ax, source in zip(axes, study.sources, strict=True):
        values = [
            [study.changes(source, policy, share, "turnaround_mean_s").mean for share in study.shares]
            for policy in POLICIES
        ]
        charts.heat(ax, list(POLICIES), columns, values, 100.0)
        ax.set_title(source.name, fontsize=10)
        ax.set_xlabel("malleable jobs")
    charts.title(made, "Mean turnaround against rigid EASY, change in per cent (less is better)")
    folder.figure("traces-turnaround-all", made)


def _lines(folder: Folder, study: Study, metric: str, name: str) -> None:
    made, axes = charts.figure(len(study.sources))
    shown = [policy for policy in LINES if policy in POLICIES]
    for ax, source in zip(axes, study.sources, strict=True):
        series = []
        for policy in shown:
            found = [study.changes(source, policy, share, metric) for share in study.shares]
            series.append(
                charts.Series(
                    policy,
                    study.shares,
                    [i.mean for i in found],
                    [i.around for i in found],
                    LINES.index(policy),
                )
            )
        charts.lines(ax, series)
        ax.axhline(0.0, color="#444444", linewidth=0.9)
        ax.set_ylim(-100.0, LIMIT)  # what is worse than that leaves the picture, but not the tables
        ax.set_title(source.name, fontsize=10)
        ax.set_xlabel("malleable jobs, %")
    made.supylabel(f"change of the {name} against rigid EASY, %", fontsize=charts.FONT + 1)
    charts.legend(made, axes[0])
    folder.figure(f"traces-{name}", made)


def _section(study: Study) -> str:
    lines = [
        "## Real traces and Lublin's model: all policies, all shares",
        "",
        (
            "Jobs are made malleable by the published conversion. "
            "Changes against rigid EASY on the same window, in per cent: geometric mean of the ratios over the "
            "windows, and its 95 % interval; resizes cost nothing, as in the studies before. An interval that "
            "does not reach 0 is a difference that the choice of windows does not explain. Promises broken: "
            "of the jobs that were promised a start when they were first in the queue, at all shares "
            "together, those that started later than that, and by how much at most. Agreement, steal and "
            "pool differ in who gets nodes that are on their way: while resizes take no time, in nothing."
        ),
        "",
    ]
    for source in study.sources:
        lines += _table(study, source)
    figures = [f"![](traces-{name}.png)" for name in ("turnaround-all", *(name for _, name in DRAWN))]
    return "\n".join([*lines, *_verdict(study), *figures, ""])


def _table(study: Study, source: Source) -> list[str]:
    """All policies on one workload, the best first."""
    origin = "windows" if source.file else "seeds"
    lines = [
        f"### {source.name}: {source.windows} {origin} of {source.jobs:,} jobs, {source.nodes:,} nodes",
        "",
        "| policy | "
        + " | ".join(f"turnaround, {share:g} %" for share in TABLE_SHARES)
        + " | makespan, 100 % | promises broken |",
        "|---|" + "---|" * (len(TABLE_SHARES) + 2),
    ]
    ranked = sorted(
        POLICIES,
        key=lambda policy: sum(
            study.changes(source, policy, share, "turnaround_mean_s").mean for share in TABLE_SHARES
        ),
    )
    for policy in ranked:
        cells = [_cell(study.changes(source, policy, share, "turnaround_mean_s")) for share in TABLE_SHARES]
        cells.append(_cell(study.changes(source, policy, 100.0, "makespan_s")))
        cells.append(study.promises(source, policy, study.shares).text)
        lines.append(f"| {policy} | {' | '.join(cells)} |")
    lines += [
        "",
        "With what resizes cost in Finnerty et al. 2024 (14.55 s to grow, 7.41 s to shrink), turnaround:",
        "",
    ]
    lines += [
        f"- {policy}: "
        + ", ".join(
            f"{share:g} % {_cell(study.changes(source, policy, share, 'turnaround_mean_s', costly=True))}"
            for share in TABLE_SHARES
        )
        + f"; promises broken: {study.promises(source, policy, TABLE_SHARES, costly=True).text}"
        for policy in COSTLY
    ]
    return [*lines, ""]


def _cell(found: Change) -> str:
    if isnan(found.mean):
        return "-"
    if found.low is None or found.high is None:
        return f"{found.mean:+.1f}"
    return f"{found.mean:+.1f} ({found.low:+.1f}, {found.high:+.1f})"


def _unlike_ours(study: Study, source: Source, policy: str, share: float) -> str:
    """Whether ``policy`` keeps what EASY promises to the head of the queue, as ours does."""
    promises = study.promises(source, policy, [share])
    if not promises.made:
        return "; it promises nothing to who is first"
    return f"; promises it breaks: {promises.text}" if promises.broken else ""


def _verdict(study: Study) -> list[str]:
    """Whether ours is ever worse than rigid EASY, and who is better than ours, from these runs."""
    worse: list[str] = []
    beaten: list[str] = []
    by_rivals = 0
    for source in study.sources:
        for share in study.shares[1:]:
            ours = study.changes(source, "marginal", share, "turnaround_mean_s")
            if ours.mean > 0:
                worse.append(f"{source.name} at {share:g} % ({_cell(ours)})")
            better = [
                (found.mean, policy)
                for policy in POLICIES
                if policy != "marginal"
                and (found := study.changes(source, policy, share, "turnaround_mean_s")).mean < ours.mean
            ]
            by_rivals += any(not _unlike_ours(study, source, policy, share) for _, policy in better)
            beaten += [
                f"{source.name} at {share:g} %: {policy} {mean:+.1f}, ours {ours.mean:+.1f}"
                f"{_unlike_ours(study, source, policy, share)}"
                for mean, policy in sorted(better)[:1]
            ]
    count = len(study.sources) * (len(study.shares) - 1)
    lines = [
        f"**marginal** has a longer mean turnaround than rigid EASY in {len(worse)} of {count} cases "
        f"(workload and share){': ' + '; '.join(worse) if worse else ''}. "
        "Another policy that keeps what EASY promises to the head of the queue has a shorter one than "
        "marginal in "
        f"{by_rivals} of {count}, any other in {len(beaten)}" + (":" if beaten else "."),
        "",
    ]
    lines += [f"- {each}" for each in beaten]
    return [*lines, "", *_windows(study), "", *_losses(study), ""]


def _windows(study: Study) -> list[str]:
    """In how many single windows ours is worse than rigid EASY, and where most."""
    ratios = [
        (
            study.by[Case(source, i, "marginal", share, costly=False)].turnaround_mean_s
            / study.by[Case(source, i, BASE, 0.0, costly=False)].turnaround_mean_s,
            f"{source.name}, number {i} at {share:g} %",
        )
        for source in study.sources
        for share in study.shares[1:]
        for i in range(source.windows)
    ]
    worse = [each for each in ratios if each[0] > 1]
    text = f"Window by window, marginal is longer than rigid EASY in {len(worse)} of {len(ratios)}"
    if worse:
        ratio, where = max(worse)
        text += f", at worst by {100 * (ratio - 1):.0f} % ({where})"
    return [text + "."]


def _losses(study: Study) -> list[str]:
    """What the mean over jobs and windows hides of ours: single jobs that are worse off."""
    more = f"{100 * (LATER - 1):.0f} %"
    lines = [
        (
            "All this holds for these windows and says nothing of other traces, whole ones, or other "
            "machines. How long a running malleable job still takes, marginal is told by the job's model, "
            "and that is the true one here; a user's may be wrong. And the mean hides who pays for it: jobs "
            f"whose turnaround is more than {more} longer than under rigid EASY on the same window, and the "
            "longest turnaround of each window."
        ),
        "",
        f"| marginal | malleable | jobs more than {more} later | longest turnaround rises in | by at most |",
        "|---|---|---|---|---|",
    ]
    for source in study.sources:
        for share in TABLE_SHARES:
            ours = [Case(source, i, "marginal", share, costly=False) for i in range(source.windows)]
            base = [Case(source, i, BASE, 0.0, costly=False) for i in range(source.windows)]
            longer = [
                100 * (study.by[one].turnaround_max_s / study.by[other].turnaround_max_s - 1)
                for one, other in zip(ours, base, strict=True)
            ]
            rises = sum(each > 0 for each in longer)
            later = 100 * sum(study.later[one] for one in ours) / len(ours)
            most = f"{max(longer):.0f} %" if rises else "-"
            windows = f"{rises} of {len(ours)} windows"
            lines.append(f"| {source.name} | {share:g} % | {later:.1f} % | {windows} | {most} |")
    return [*lines, "", "traces-runs.csv has both figures for every policy, share and window."]

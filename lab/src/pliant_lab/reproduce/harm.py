"""Who pays for a shorter mean: whole traces, job by job, against rigid EASY.

There are two of it. The baseline is rigid EASY where nothing but the work takes time. Where resizes and ends cost
something, nodes come free later under EASY too, and it makes another schedule: each job is compared with that as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pliant.core.settings import Settings, patient
from pliant.plan.cost import INSTANT
from pliant.policy.registry import make
from pliant.report.words import seconds
from pliant.study.differences import later
from pliant.study.workers import Task
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import PUBLISHED, make_malleable
from pliant_lab.reproduce import charts
from pliant_lab.reproduce.folder import Folder
from pliant_lab.reproduce.runs import Outcome, with_turnarounds
from pliant_lab.reproduce.traces import BASE, SEED, trace_jobs

POLICIES = ("entitled", "marginal", "malleable")
SOFTER = ("entitled:certain=0.5", "entitled:certain=0.2")
"""Between the first two: for the curve, with free resizes."""
SHARES = (20.0, 50.0, 100.0)
FREE = Settings(cost=INSTANT, cooldown_s=0.0)
"""Resizes take no time and may follow one another at once."""
TAIL = 0.95


class Trace(NamedTuple):
    """The first ``jobs`` jobs of a trace, all of them if 0."""

    name: str
    file: str
    nodes: int
    jobs: int = 0


FULL = (
    Trace("KTH-SP2", "KTH-SP2.filtered.swf.gz", 100),
    Trace("NASA-iPSC", "NASA-iPSC-1993-3.1-cln.swf.gz", 128),
    Trace("Theta 2022", "theta_2022.swf.gz", 4360),
    Trace("Lublin-Feitelson", "lublin_256.swf.gz", 256),
)
QUICK = (
    Trace("KTH-SP2", "KTH-SP2.filtered.swf.gz", 100, 800),
    Trace("Theta 2022", "theta_2022.swf.gz", 4360, 300),
)


class Case(NamedTuple):
    """``costly``: resizes take what they take by default, and are cooled down."""

    trace: Trace
    policy: str
    percent: float
    costly: bool


class Harm(NamedTuple):
    """Against rigid EASY where nothing but the work takes time: changes of the turnaround's mean, 95th percentile and
    maximum and of the mean bounded slowdown, in per cent; the share of jobs whose turnaround is longer by a minute and
    by more than 1 or 10 %, in per cent, and by how many seconds at most; promises to the head of the queue that were
    broken, of so many. ``costed`` are the same against rigid EASY at the costs of this case."""

    jobs: int
    mean: float
    slowdown: float
    p95: float
    most: float
    later_1: float
    later_10: float
    worst_s: float
    broken: int
    promised: int
    costed_1: float
    costed_10: float
    costed_worst_s: float


class Wanted(NamedTuple):
    """The traces of a study, and those of its quick form."""

    full: Sequence[Trace]
    quick: Sequence[Trace]

    def there(self, folder: Path | None, *, quick: bool) -> list[Trace]:
        """Those that ``folder`` has."""
        wanted = self.quick if quick else self.full
        return [each for each in wanted if folder is not None and (folder / each.file).is_file()]

    def missing(self, found: Sequence[Trace], *, quick: bool) -> list[Trace]:
        return [each for each in (self.quick if quick else self.full) if each not in found]


WANTED = Wanted(FULL, QUICK)


def cases(found: Sequence[Trace]) -> Iterator[Case]:
    for trace in found:
        for costly in (False, True):
            for policy in policies(costly=costly):
                for percent in shares(policy):
                    yield Case(trace, policy, percent, costly)


def policies(*, costly: bool) -> tuple[str, ...]:
    """From the least harm to the most; with costs first the baseline itself."""
    first, *others = POLICIES
    return (BASE, *POLICIES) if costly else (first, *SOFTER, *others)


def shares(policy: str) -> tuple[float, ...]:
    return (0.0,) if policy == BASE else SHARES


def tasks(found: Sequence[Trace], folder: Path | None) -> list[Task]:
    return [(one, (case, str(folder))) for case in cases(found)]


def one(case: Case, folder: str) -> Harm:
    """A simulation, compared with those of rigid EASY."""
    jobs = jobs_of(case.trace, folder)
    mixed = make_malleable(jobs, case.percent, case.trace.nodes, SEED, conversion=PUBLISHED)
    found = with_turnarounds(
        mixed, case.trace.nodes, make(case.policy), _settings(case.trace, costly=case.costly)
    )
    _, costed = base(case.trace, folder, costly=case.costly)
    return compared(*base(case.trace, folder), *found, costed)


def compared(
    before: Outcome,
    turnarounds: dict[int, float],
    after: Outcome,
    others: dict[int, float],
    costed: dict[int, float],
) -> Harm:
    """``others`` are the turnarounds under another policy, by the same numbers, and ``costed`` those under rigid EASY
    at its costs."""
    who = later(list(turnarounds.values()), [others[number] for number in turnarounds])
    there = later(list(costed.values()), [others[number] for number in costed])

    def change(now: float, then: float) -> float:
        return 100.0 * (now / then - 1.0) if then else 0.0

    return Harm(
        who.jobs,
        change(after.turnaround_mean_s, before.turnaround_mean_s),
        change(after.bounded_slowdown_mean, before.bounded_slowdown_mean),
        change(_tail(others), _tail(turnarounds)),
        change(max(others.values()), max(turnarounds.values())),
        100.0 * who.later_1 / who.jobs,
        100.0 * who.later_10 / who.jobs,
        who.worst_s,
        after.promises_broken,
        after.promised,
        100.0 * there.later_1 / there.jobs,
        100.0 * there.later_10 / there.jobs,
        there.worst_s,
    )  # fmt: skip


def _tail(turnarounds: dict[int, float]) -> float:
    return sorted(turnarounds.values())[int(TAIL * (len(turnarounds) - 1))]


@lru_cache(maxsize=2)
def base(trace: Trace, folder: str, *, costly: bool = False) -> tuple[Outcome, dict[int, float]]:
    """Rigid EASY."""
    return with_turnarounds(jobs_of(trace, folder), trace.nodes, make(BASE), _settings(trace, costly=costly))


def _settings(trace: Trace, *, costly: bool) -> Settings:
    return patient(Settings(), trace.nodes) if costly else FREE


def jobs_of(trace: Trace, folder: str) -> list[SimJob]:
    jobs = trace_jobs(str(Path(folder) / trace.file), trace.nodes)
    return list(jobs[: trace.jobs] if trace.jobs else jobs)


# ---- what comes of it --------------------------------------------------------------------------------------


def write(folder: Folder, found: Sequence[Trace], results: Sequence[Harm]) -> str:
    """The table, the figure and this study's section of the README; ``results`` are those of ``tasks``, in order."""
    by = dict(zip(cases(found), results, strict=True))
    folder.table(
        "harm",
        ("workload", "policy", "malleable_percent", "resize_costs", *Harm._fields),
        [
            (case.trace.name, case.policy, case.percent, "default" if case.costly else "none", *harm)
            for case, harm in by.items()
        ],
    )
    if found:
        _curve(folder, found, by)
    lines = [
        "## Who pays: whole traces, job by job",
        "",
        (
            "Jobs are made malleable by the published conversion. The baseline is rigid EASY where nothing but the "
            "work takes time. "
            "Changes against it in per cent: mean, bounded slowdown, 95th percentile and maximum of the "
            "turnaround. Later than under it: the jobs, in per cent, whose turnaround is longer by more than a minute "
            "and by more than 1 % and 10 %, and by how much at most. A job's slowdown is by the time that it has run "
            "for, which shortens as it grows: it may rise where nobody is later."
        ),
        "",
        (
            "Where nodes come free only a while after a job has left them, EASY makes another schedule too, and some "
            "jobs are later than without that: a row has rigid EASY itself. The last columns compare with that, "
            "rigid EASY at the same costs."
        ),
        "",
    ]
    for trace in found:
        for costly in (False, True):
            lines += _table(trace, by, costly=costly)
    lines += ["The mean against the harm, from 20 to 100 % of the jobs malleable:", "", "![](harm.png)", ""]
    return "\n".join(lines) if found else ""


def _table(trace: Trace, by: dict[Case, Harm], *, costly: bool) -> list[str]:
    jobs = by[Case(trace, POLICIES[0], SHARES[0], costly)].jobs
    how = "resizes take what they take by default" if costly else "resizes take no time"
    beside = " later than rigid EASY at that cost | at most |" if costly else ""
    heads = "| policy, malleable | mean | slowdown | p95 | maximum | later than rigid EASY at no cost by 1 %, 10 % "
    lines = [
        f"### {trace.name}: {jobs:,} jobs, {trace.nodes:,} nodes; {how}",
        "",
        f"{heads}| at most | promises broken |{beside}",
        "|---|---:|---:|---:|---:|---:|---:|---:|" + ("---:|---:|" if costly else ""),
    ]
    for policy in policies(costly=costly):
        for percent in shares(policy):
            harm = by[Case(trace, policy, percent, costly)]
            row = (
                f"| {policy}, {percent:g} % | {harm.mean:+.1f} | {harm.slowdown:+.1f} | {harm.p95:+.1f} "
                f"| {harm.most:+.1f} | {harm.later_1:.2f}, {harm.later_10:.2f} | {seconds(harm.worst_s)} "
                f"| {harm.broken:,} of {harm.promised:,} |"
            )
            if costly:
                row += f" {harm.costed_1:.2f}, {harm.costed_10:.2f} | {seconds(harm.costed_worst_s)} |"
            lines.append(row)
    return [*lines, ""]


def _curve(folder: Folder, found: Sequence[Trace], by: dict[Case, Harm]) -> None:
    made, axes = charts.figure(len(found), high=3.8)
    for ax, trace in zip(axes, found, strict=True):
        harms = {
            policy: [by[Case(trace, policy, share, costly=False)] for share in SHARES]
            for policy in policies(costly=False)
        }
        charts.lines(
            ax,
            [
                charts.Series(policy, [each.later_1 for each in row], [each.mean for each in row], look=look)
                for look, (policy, row) in enumerate(harms.items())
            ],
        )
        ax.set_title(trace.name)
        ax.set_xlabel("jobs later than under rigid EASY at no cost, %")
    made.supylabel("change of the mean turnaround, %", fontsize=charts.FONT + 1)
    charts.legend(made, axes[0])
    folder.figure("harm", made)

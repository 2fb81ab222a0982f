"""Finnerty et al.'s experiment ("Evaluation"): 10 batches of 25 jobs on 32 nodes, six shares of malleable jobs.

Figures 8 to 11 and the headline, with the article's values beside ours. Its text gives the values at 0 and
100 %; those in between are in its figures only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import NamedTuple

import msgspec

from pliant.files.policy import PolicySpec
from pliant.study.confidence import Interval, interval
from pliant.study.workers import Task
from pliant.workloads.generators.paper2 import NODES, PERCENTAGES, SEEDS, paper2_jobs, paper2_settings
from pliant_lab.reproduce import charts
from pliant_lab.reproduce.folder import Folder
from pliant_lab.reproduce.runs import Outcome, outcome

PASS_INTERVAL_S = 5.0
"""The article's scheduler looks at its queue every five seconds."""


class Algorithm(NamedTuple):
    """What the article calls ``label``, as a policy."""

    label: str
    policy: PolicySpec


ALGORITHMS = (
    Algorithm("FCFS", PolicySpec("fcfs", "free")),
    Algorithm("Backfilling", PolicySpec("firstfit", "free")),
    Algorithm("EASY", PolicySpec("easy", "free")),
    Algorithm("Malleable", PolicySpec("malleable", "free")),
    Algorithm("Malleable from min", PolicySpec("malleable", "min")),
    Algorithm("marginal (ours)", PolicySpec("marginal")),
)


class Published(NamedTuple):
    """Makespan and turnaround in seconds, utilisation as a share; None where the text is silent."""

    makespan_s: float
    utilisation: float
    turnaround_mean_s: float | None


PUBLISHED = {
    ("FCFS", 0): Published(1157.46, 0.7552, 366.20),
    ("FCFS", 100): Published(1021.68, 0.8818, 306.31),
    ("Backfilling", 0): Published(1035.23, 0.8445, 284.41),
    ("Backfilling", 100): Published(1005.20, 0.8954, 281.86),
    ("EASY", 0): Published(1171.95, 0.7483, None),
    ("EASY", 100): Published(1014.40, 0.8875, None),
    ("Malleable", 0): Published(1168.0, 0.7478, 368.87),
    ("Malleable", 100): Published(1006.13, 0.9052, 352.99),
}
"""From the article's section "Scheduler Performance"."""
PUBLISHED_ORDERS = {20: (0.78, 0.96), 100: (0.71, 0.58)}
"""Shrink and grow orders per malleable job (section "Malleable Runtime Performance")."""
PUBLISHED_HEADLINE = {"makespan_s": -13.09, "utilisation": 19.86, "turnaround_mean_s": -3.61}
"""Change in per cent of Malleable at 100 % against FCFS at 0 % (section "Discussion")."""
FIGURES = (
    "paper2-figure-8-orders",
    "paper2-figure-9-makespan",
    "paper2-figure-10-utilisation",
    "paper2-figure-11-turnaround",
)


class Runs(NamedTuple):
    """All simulations: for each algorithm's label and percentage, an outcome a seed."""

    percentages: Sequence[int]
    by: dict[tuple[str, int], list[Outcome]]

    def figure(self, label: str, percent: int, value: Callable[[Outcome], float]) -> Interval:
        return interval([value(each) for each in self.by[label, percent]])


def look(label: str) -> int:
    """Which look an algorithm has in all figures."""
    return [each.label for each in ALGORITHMS].index(label)


def one(seed: int, percent: int, policy: PolicySpec) -> Outcome:
    """A batch under a policy."""
    settings = msgspec.structs.replace(paper2_settings(), pass_interval_s=PASS_INTERVAL_S)
    return outcome(paper2_jobs(seed, percent), NODES, policy.make(), settings)


def _cases() -> list[tuple[Algorithm, int, int]]:
    return [(each, percent, seed) for each in ALGORITHMS for percent in PERCENTAGES for seed in SEEDS]


def tasks() -> list[Task]:
    return [(one, (seed, percent, each.policy)) for each, percent, seed in _cases()]


def collect(outcomes: Sequence[Outcome]) -> Runs:
    """The outcomes of ``tasks``, in their order."""
    by: dict[tuple[str, int], list[Outcome]] = {}
    for (each, percent, _), result in zip(_cases(), outcomes, strict=True):
        by.setdefault((each.label, percent), []).append(result)
    return Runs(PERCENTAGES, by)


def write(folder: Folder, runs: Runs) -> str:
    """Figures 8 to 11 and their tables; the result is this study's section of the README."""
    cases = _cases()
    flat = {(label, percent): iter(found) for (label, percent), found in runs.by.items()}
    folder.table(
        "paper2-runs",
        ("algorithm", "malleable_percent", "seed", *Outcome._fields),
        [(each.label, percent, seed, *next(flat[each.label, percent])) for each, percent, seed in cases],
    )
    _orders(folder, runs)
    _over_shares(folder, runs, MAKESPAN)
    _over_shares(folder, runs, UTILISATION)
    _turnaround(folder, runs)
    return _section(runs)


class Figure(NamedTuple):
    """What a figure over the shares of malleable jobs shows, as ``key`` of ``Published`` times ``unit``."""

    name: str
    title: str
    key: str
    unit: float = 1.0

    def value(self, outcome: Outcome) -> float:
        return self.unit * float(getattr(outcome, self.key))


MAKESPAN = Figure(FIGURES[1], "makespan, s", "makespan_s")
UTILISATION = Figure(FIGURES[2], "node utilisation, %", "utilisation", 100.0)


def _over_shares(folder: Folder, runs: Runs, of: Figure) -> None:
    made, (axes,) = charts.figure(1, high=4.6)
    found = {
        each.label: [runs.figure(each.label, percent, of.value) for percent in runs.percentages]
        for each in ALGORITHMS
    }
    published = {
        label: [
            (float(p), of.unit * getattr(row, of.key)) for (who, p), row in PUBLISHED.items() if who == label
        ]
        for label, _ in PUBLISHED
    }
    charts.lines(
        axes,
        [
            charts.Series(
                label, runs.percentages, [i.mean for i in each], [i.half for i in each], look(label)
            )
            for label, each in found.items()
        ],
        published,
    )
    axes.set_xlabel("malleable (moldable) jobs, %")
    axes.set_ylabel(of.title)
    axes.set_title("mean of the batches with 95 % intervals; stars: the article", fontsize=9)
    charts.legend(made, axes)
    folder.figure(of.name, made)
    folder.table(
        of.name,
        ("algorithm", "malleable_percent", "mean", "half_width_95", "article"),
        [
            (label, p, i.mean, i.half, dict(published.get(label, ())).get(float(p)))
            for label, each in found.items()
            for p, i in zip(runs.percentages, each, strict=True)
        ],
    )


def _orders(folder: Folder, runs: Runs) -> None:
    """Figure 8: orders per malleable job."""
    shares = [percent for percent in runs.percentages if percent]
    labels = [each.label for each in ALGORITHMS if each.policy.name in ("malleable", "marginal")]
    rows = []
    made, pair = charts.figure(2, high=3.2)
    for axes, what, value, column in (
        (pair[0], "shrink orders", lambda o: o.shrinks_per_malleable, 0),
        (pair[1], "grow orders", lambda o: o.expands_per_malleable, 1),
    ):
        series = []
        for label in labels:
            found = [runs.figure(label, percent, value) for percent in shares]
            series.append(
                charts.Series(label, shares, [i.mean for i in found], [i.half for i in found], look(label))
            )
            for percent, each in zip(shares, found, strict=True):
                article = PUBLISHED_ORDERS.get(percent) if label == "Malleable" else None
                rows.append(
                    (what, label, percent, each.mean, each.half, article[column] if article else None)
                )
        stars = {"Malleable": [(float(p), both[column]) for p, both in PUBLISHED_ORDERS.items()]}
        charts.lines(axes, series, stars)
        axes.set_title(f"{what} per malleable job", fontsize=10)
        axes.set_xlabel("malleable jobs, %")
        axes.set_ylim(bottom=0)
    charts.legend(made, pair[0])
    folder.figure(FIGURES[0], made)
    folder.table(
        FIGURES[0],
        ("order", "algorithm", "malleable_percent", "mean", "half_width_95", "article"),
        rows,
    )


def _turnaround(folder: Folder, runs: Runs) -> None:
    """Figure 11: waiting and computing."""
    made, (axes,) = charts.figure(1, high=4.2)
    waits, computes, rows = [], [], []
    for each in ALGORITHMS:
        wait = [runs.figure(each.label, p, lambda o: o.wait_mean_s) for p in runs.percentages]
        compute = [runs.figure(each.label, p, lambda o: o.run_mean_s) for p in runs.percentages]
        waits.append(charts.Series("", runs.percentages, [i.mean for i in wait]))
        computes.append(
            charts.Series(each.label, runs.percentages, [i.mean for i in compute], look=look(each.label))
        )
        for p, w, c in zip(runs.percentages, wait, compute, strict=True):
            total = runs.figure(each.label, p, lambda o: o.turnaround_mean_s)
            known = PUBLISHED.get((each.label, p))
            rows.append(
                (
                    each.label,
                    p,
                    w.mean,
                    c.mean,
                    total.mean,
                    total.half,
                    known.turnaround_mean_s if known else None,
                )
            )
    charts.bars(axes, [f"{p} %" for p in runs.percentages], computes, waits)
    axes.set_xlabel("malleable (moldable) jobs")
    axes.set_ylabel("mean turnaround, s: run, and wait (lighter)")
    charts.legend(made, axes)
    folder.figure(FIGURES[3], made)
    folder.table(
        FIGURES[3],
        (
            "algorithm",
            "malleable_percent",
            "wait_mean_s",
            "run_mean_s",
            "turnaround_mean_s",
            "half_width_95",
            "article",
        ),
        rows,
    )


def _section(runs: Runs) -> str:
    lines = [
        "## Finnerty et al. 2024: elastic jobs on 32 nodes (Figures 8 to 11)",
        "",
        (
            f"25 jobs a batch, {len(SEEDS)} batches, a pass every {PASS_INTERVAL_S:g} s, "
            "resizes as long as the article measured. Run times are calibrated, since the article's are not "
            "public: each program has the same share of all work, scaled to the article's mean run time of "
            "195.36 s."
        ),
        "",
        (
            "| algorithm | jobs malleable | makespan, s | article | | utilisation | article | "
            "turnaround, s | article | |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (label, percent), article in PUBLISHED.items():
        found = runs.by[label, percent]
        makespan = mean(o.makespan_s for o in found)
        used = mean(o.utilisation for o in found)
        turnaround = mean(o.turnaround_mean_s for o in found)
        told = article.turnaround_mean_s
        off = f"{turnaround / told - 1:+.1%}" if told else ""
        lines.append(
            f"| {label} | {percent} % | {makespan:.0f} | {article.makespan_s:.0f} | "
            f"{makespan / article.makespan_s - 1:+.1%} | {used:.1%} | {article.utilisation:.1%} | "
            f"{turnaround:.0f} | {told or '-'} | {off} |"
        )
    lines += ["", "The headline, 100 % malleable against 0 %, in per cent:", ""]
    lines += ["| | makespan | utilisation | turnaround |", "|---|---|---|---|"]
    cells = [f"{value:+.2f}" for value in PUBLISHED_HEADLINE.values()]
    lines.append(f"| the article, Malleable against FCFS | {' | '.join(cells)} |")
    for label in ("Malleable", "Malleable from min", "marginal (ours)"):
        for base in ("FCFS", "EASY"):
            cells = [f"{change(runs, label, base, key):+.2f}" for key in PUBLISHED_HEADLINE]
            lines.append(f"| {label} against {base} | {' | '.join(cells)} |")
    figures = [f"![]({name}.png)" for name in FIGURES]
    return "\n".join([*lines, "", *_verdict(runs), "", *figures, ""])


def change(runs: Runs, label: str, base: str, key: str) -> float:
    """In per cent: the mean of ``label`` at 100 % against that of ``base`` at 0 %."""
    after: float = mean(getattr(o, key) for o in runs.by[label, 100])
    before: float = mean(getattr(o, key) for o in runs.by[base, 0])
    return 100 * (after / before - 1)


def _verdict(runs: Runs) -> list[str]:
    """What agrees and what differs, from the figures of these runs."""

    def makespan(label: str, percent: int) -> float:
        return mean(o.makespan_s for o in runs.by[label, percent])

    apart = {
        label: makespan(label, 0) / PUBLISHED[label, 0].makespan_s - 1 for label in ("FCFS", "Backfilling")
    }
    within = all(abs(off) < 0.05 for off in apart.values())
    shown = " and ".join(f"{label} {off:+.1%}" for label, off in apart.items())
    easy, fcfs = makespan("EASY", 0), makespan("FCFS", 0)
    wait_s = mean(o.wait_mean_s for o in runs.by["Malleable", 100])
    return [
        (
            f"**{'Agrees' if within else 'Differs'}**: rigid FCFS and first-fit backfilling, against the "
            f"article: {shown}."
        ),
        "",
        (
            "**Differs**: EASY. The article's makespan at 0 % is that of FCFS "
            f"({PUBLISHED['EASY', 0].makespan_s:.0f} against {PUBLISHED['FCFS', 0].makespan_s:.0f} s). Its "
            "program gives every job an estimate of 800 s and has no rule for nodes that the head of the "
            "queue leaves over, so that nothing can ever pass the head. True EASY, with the same estimates, "
            f"needs {easy:.0f} s ({easy / fcfs - 1:+.1%} against FCFS here): part of the published gain is "
            "over FCFS, not over EASY."
        ),
        "",
        (
            f"**Differs**: at 100 % the malleable algorithm waits {wait_s:.0f} s on average "
            "(article: 140.67 s), and its turnaround is shorter for it. Its published program takes from "
            "each donor as much as the head needs, instead of just enough from all together, and ignores "
            "nodes that are free already; ours does neither, so fewer jobs are made small."
        ),
    ]

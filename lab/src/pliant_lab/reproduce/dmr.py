"""Iserte et al. 2018 with real processes: Flexible Sleep's resizes (Figure 3), and batches of fixed and flexible jobs
with what their checks and resizes took (Tables 2 and 3), each beside the article's values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from pliant.apps.checked import ASYNC, NO_ACTION, SYNC, Spent
from pliant_lab.measure.dmr import (
    FIXED,
    NODE,
    NODES,
    WAYS,
    JobTimes,
    Spread,
    Statistic,
    WayRun,
    gain,
    spread,
    statistic,
)
from pliant_lab.measure.programs import Figures
from pliant_lab.reproduce import charts, paper3
from pliant_lab.reproduce.folder import Folder

FIGURES = ("dmr-figure-3-resizes", "dmr-table-2-actions", "dmr-table-3-measures")
JOBS = "dmr-jobs"
ACTIONS = (NO_ACTION, "expand", "shrink")
FLEXIBLE = (SYNC, ASYNC)
NAMES = {FIXED: "fixed", SYNC: "synchronous", ASYNC: "asynchronous"}
TABLE2 = {
    (NO_ACTION, SYNC): Statistic(0, 0.0, 0.0010, 0.2078, 0.0094, 0.0102),
    (NO_ACTION, ASYNC): Statistic(0, 0.0, 0.0003, 0.1140, 0.0137, 0.0112),
    ("expand", SYNC): Statistic(50, 0.125, 0.367, 0.530, 0.423, 0.146),
    ("expand", ASYNC): Statistic(107, 0.267, 0.366, 40.418, 8.820, 12.688),
    ("shrink", SYNC): Statistic(194, 0.485, 0.233, 0.541, 0.425, 0.498),
    ("shrink", ASYNC): Statistic(303, 0.757, 0.334, 0.555, 0.422, 0.049),
}
"""The article's; of 400 jobs. How often nothing was done it does not say: 0 here. The deviation of synchronous shrinks
is as printed, and larger than times between its minimum and maximum can have."""
UTILISATION = {FIXED: Spread(83.607, 5.353), SYNC: Spread(93.909, 1.012), ASYNC: Spread(86.687, 8.735)}
TABLE3 = {
    ("wait", SYNC): Spread(27.980, 12.124),
    ("wait", ASYNC): Spread(30.575, 17.282),
    ("execution", SYNC): Spread(-58.482, 26.731),
    ("execution", ASYNC): Spread(-97.294, 34.378),
    ("completion", SYNC): Spread(12.786, 4.083),
    ("completion", ASYNC): Spread(7.799, 5.548),
}
"""Per cent, over workloads of several sizes."""
OF_JOBS: dict[str, Callable[[JobTimes], float]] = {
    "wait": lambda job: job.wait_s,
    "execution": lambda job: job.run_s,
    "completion": lambda job: job.completion_s,
}
LATER = 1.1
"""A job that takes so many times as long to be completed as the fixed one has lost by it."""


AGREES, DIFFERS, OPEN = "**Agrees**", "**Differs**", "**Open**"
NOTHING = Spread(0.0, 0.0)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured on this machine. ``resizes`` are rows of ``measure.redistributing.resized``; ``why`` there are
    none. Times are ``times`` of the article's."""

    processors: int
    load_average: float
    python: str
    architecture: str
    quick: bool
    bytes: int
    policy: str
    times: float
    resizes: list[Figures]
    why: str
    runs: list[WayRun]


def problems(found: Measured) -> list[str]:
    """What has gone wrong while it was measured."""
    sleep = [f"Flexible Sleep: {found.why}"] if found.why else []
    return [*sleep, *(each for run in found.runs for each in run.problems)]


def write(folder: Folder, found: Measured, simulated: paper3.Runs) -> None:
    """Figures, tables and README.md; what ``pliant reproduce scheduling`` says of the same article comes last."""
    sections = [_heading(found), _resizes(folder, found)]
    if found.runs:
        sections += [_actions(folder, found.runs), _measures(folder, found.runs)]
        _each_job(folder, found.runs)
    sections.append(paper3.write(folder, simulated))
    sections.append("## Files\n\n" + "\n".join(f"- [{name}]({name})" for name in folder.files) + "\n")
    folder.readme("\n".join(sections))


def _heading(found: Measured) -> str:
    wrong = "".join(f"- **Failed**: {each}\n" for each in problems(found))
    return (
        "# Iserte et al. 2018, the DMR API, measured again\n\n"
        f"Written by `pliant reproduce dmr{' --quick' if found.quick else ''}`: real processes on {found.processors} "
        f"processors ({found.architecture}, Python {found.python}) with a load of {found.load_average} at the start. "
        "The article had 64 nodes of 16 cores, MPICH 3.2 and Slurm: what is compared is how things relate, not "
        "seconds. Table 4 and Figures 4 to 8 are simulated on 64 nodes.\n\n"
        f"The batches: {NODES} virtual nodes of one process each, so that a node stands for {NODE}; sizes of jobs are "
        f"an eighth of Table 1's and at least 1; times, gaps between submissions, scheduling periods and the "
        f"iterations of CG and Jacobi are {found.times:g} of the article's (N-body keeps its 25), and steps are "
        "paced by the models that this project fits to Table 4. All jobs are submitted at their maximum, in an order "
        f"that a seed gives, three times: fixed, under EASY; flexible, under `{found.policy}`, with a loop that "
        "waits for the scheduler's answer before each step (synchronous); and with one that uses it at the next step "
        "(asynchronous). Starting processes is not scaled down, and weighs more than there. Each result is "
        "compared with a serial run. **Open** is what these figures cannot tell: of one batch only, or within their "
        "deviation.\n\n" + (wrong or "No job failed, and all results were those of serial runs.\n")
    )


# ---- Figure 3 ---------------------------------------------------------------------------------------------


def _resizes(folder: Folder, found: Measured) -> str:
    lines = ["## Figure 3: resizes of Flexible Sleep", ""]
    if not found.resizes:
        return "\n".join([*lines, f"Not measured: {found.why}.", ""])
    rows = sorted(found.resizes, key=lambda row: (row["before"] > row["after"], row["before"]))
    folder.table(FIGURES[0], list(rows[0]), [list(row.values()) for row in rows])
    _draw_resizes(folder, rows)
    lines += [
        (
            f"A job that holds {found.bytes / (1 << 30):.3g} GiB. Scheduling: from the offer until all are there, "
            "joined and stopped, so that of an expansion the start of processes is in it; resize: until the data are "
            "where they belong and the job goes on. Means, as in the article, with the median and the longest."
        ),
        "",
        "| nodes | times | scheduling, s | median | longest | resize, s | median | longest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = " | ".join(
            f"{row[f'{name}{of}']:.3f}"
            for name in ("scheduling_s", "resize_s")
            for of in ("", "_median", "_max")
        )
        lines.append(f"| {row['before']} to {row['after']} | {row['repetitions']} | {cells} |")
    return "\n".join([*lines, "", *resize_claims(rows), "", f"![]({FIGURES[0]}.png)", ""])


def _draw_resizes(folder: Folder, rows: Sequence[Figures]) -> None:
    made, axes = charts.figure(2, high=1.0 + 0.3 * len(rows))
    labels, places = [f"{row['before']} to {row['after']}" for row in rows], range(len(rows))
    for look, (ax, name) in enumerate(zip(axes, ("scheduling_s", "resize_s"), strict=True)):
        ax.barh(places, [row[name] for row in rows], 0.7, color=charts.COLOURS[look], label="mean")
        ax.plot(
            [row[f"{name}_max"] for row in rows], places, "D", color="#444444", markersize=4, label="longest"
        )
        ax.set_yticks(places, labels)
        ax.invert_yaxis()
        ax.set_xlim(left=0.0)
        ax.set_xlabel(f"{'scheduling' if look == 0 else 'resize'}, s")
        ax.grid(visible=True, axis="x", alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_ylabel("nodes")
    charts.legend(made, axes[0])
    folder.figure(FIGURES[0], made)


def resize_claims(rows: Sequence[Figures]) -> list[str]:
    """What the article says of Figure 3, each with whether these rows agree."""
    kinds = [
        ("expansions", [row for row in rows if row["after"] > row["before"]]),
        ("shrinks", [row for row in rows if row["after"] < row["before"]]),
    ]
    lines = []
    for name, some in kinds:
        if len(some) < 2:
            continue
        few, many = (pick(some, key=lambda row: row["before"] + row["after"]) for pick in (min, max))
        lines.append(
            _told(
                f"scheduling takes slightly longer with more nodes: {name}",
                less=few, more=many, shown=(few, many), field="scheduling_s",
            )
        )  # fmt: skip
        lines.append(
            _told(
                f"the more processes, the shorter the resize: {name}",
                less=many, more=few, shown=(few, many), field="resize_s",
            )
        )  # fmt: skip
    return lines


def _told(claim: str, *, less: Figures, more: Figures, shown: Sequence[Figures], field: str) -> str:
    """Open where means and medians do not say the same."""
    found = {more[name] > less[name] for name in (field, f"{field}_median")}
    word = OPEN if len(found) > 1 else AGREES if found.pop() else DIFFERS
    values = ", ".join(f"{row[field]:.3f} s from {row['before']} to {row['after']}" for row in shown)
    return f"- {word}: {claim}: {values}."


# ---- Table 2 ----------------------------------------------------------------------------------------------


def table2(runs: Sequence[WayRun]) -> dict[tuple[str, str], Statistic]:
    """By action and way, of all jobs that have told."""
    found = {}
    for way in FLEXIBLE:
        jobs = [job for run in runs if run.way == way for job in run.spent]
        for action in ACTIONS:
            found[action, way] = statistic((job.get(action, Spent()) for job in jobs), len(jobs))
    return found


def _actions(folder: Folder, runs: Sequence[WayRun]) -> str:
    ours = table2(runs)
    fields = ("quantity", "per_job", "min_s", "max_s", "mean_s", "std_s")
    folder.table(
        FIGURES[1],
        ("action", "way", "field", "ours", "article"),
        [
            (action, NAMES[way], field, getattr(mine, field), _article(action, way, field))
            for (action, way), mine in ours.items()
            for field in fields
        ],
    )
    _draw_actions(folder, ours)
    lines = [
        "## Table 2: what checks and resizes take",
        "",
        (
            "Measured by rank 0 around each check, with the resize that followed it if there was one: how long the "
            "job stood still, waiting for its other ranks too. Checks that the inhibitor answers do not count; a "
            "growth whose newcomers did not come in time does, as no action, and shows in its longest."
        ),
        "",
        "| action | way | count | a job | least, s | longest, s | mean, s | deviation, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (action, way), mine in ours.items():
        for who, each in (("", mine), ("article, ", TABLE2[action, way])):
            seconds = " | ".join(_seconds(getattr(each, field)) for field in fields[2:])
            much = f"{each.quantity} | {each.per_job:.3f}" if each.quantity else " | "
            lines.append(f"| {action} | {who}{NAMES[way]} | {much} | {seconds} |")
    return "\n".join([*lines, "", *action_claims(ours), *_came(runs), "", f"![]({FIGURES[1]}.png)", ""])


def _article(action: str, way: str, field: str) -> float | None:
    value: float = getattr(TABLE2[action, way], field)
    return value or None


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def action_claims(ours: dict[tuple[str, str], Statistic]) -> list[str]:
    """What the article says of Table 2, each with whether these figures agree."""
    lines = []
    for way in FLEXIBLE:
        nothing = ours[NO_ACTION, way].mean_s
        done = [each for kind in ACTIONS[1:] if (each := ours[kind, way].mean_s) is not None]
        if nothing is not None and done:
            word = AGREES if nothing < min(done) / 10 else DIFFERS
            lines.append(
                f"- {word}: nothing to do takes less than a tenth of an action: {nothing:.4f} s beside "
                f"{min(done):.3f} s, {NAMES[way]}."
            )
    total = {way: sum(ours[kind, way].quantity for kind in ACTIONS[1:]) for way in FLEXIBLE}
    word = _fewer(total[SYNC], total[ASYNC])
    lines.append(
        f"- {word}: fewer actions where it waits: {total[SYNC]}, and {total[ASYNC]} where it does not."
    )
    grown, gave = (ours[kind, SYNC].quantity for kind in ACTIONS[1:])
    lines.append(f"- {_fewer(grown, gave)}: more shrinks than expansions: {gave} and {grown}, synchronous.")
    return lines


def _fewer(few: int, many: int) -> str:
    """Open where two counts are no further apart than two deviations of such counts."""
    if abs(many - few) <= 2 * math.sqrt(many + few):
        return OPEN
    return AGREES if few < many else DIFFERS


def _came(runs: Sequence[WayRun]) -> list[str]:
    """What became of the scheduler's offers."""
    lines = []
    for way in FLEXIBLE:
        came: dict[str, int] = {}
        for run in runs:
            for what, many in run.came.items() if run.way == way else ():
                came[what] = came.get(what, 0) + many
        told = ", ".join(f"{what} {many}" for what, many in sorted(came.items())) or "none"
        lines.append(f"- Offers by what came of them, {NAMES[way]}: {told}.")
    return lines


def _draw_actions(folder: Folder, ours: dict[tuple[str, str], Statistic]) -> None:
    made, (axes,) = charts.figure(1, high=4.2)
    for look, way in enumerate(FLEXIBLE):
        for x, action in enumerate(ACTIONS):
            for side, each, face in ((-0.09, ours[action, way], None), (0.09, TABLE2[action, way], "white")):
                if each.min_s is None or each.max_s is None or each.mean_s is None:
                    continue
                at, colour = x + (look - 0.5) * 0.44 + side, charts.COLOURS[look]
                whose = "" if face is None else ", article"
                axes.plot([at, at], [each.min_s, each.max_s], color=colour, linewidth=1.6, alpha=0.7)
                axes.plot(
                    [at], [each.mean_s], charts.MARKERS[look], color=colour, markerfacecolor=face or colour,
                    markersize=7, linestyle="none", label=f"{NAMES[way]}{whose}" if action == NO_ACTION else None,
                )  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylabel("seconds: least to longest, and mean")
    axes.set_xticks(range(len(ACTIONS)), ACTIONS)
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    charts.legend(made, axes)
    folder.figure(FIGURES[1], made)


# ---- Table 3 ----------------------------------------------------------------------------------------------


def utilisation(runs: Sequence[WayRun]) -> dict[str, Spread]:
    """Per cent, over the batches."""
    return {way: spread([100.0 * run.utilisation for run in runs if run.way == way]) for way in WAYS}


def gains(runs: Sequence[WayRun]) -> dict[tuple[str, str], Spread]:
    """Per cent, of the means of the jobs of a batch, over the batches."""
    found = {}
    for name, value in OF_JOBS.items():
        for way in FLEXIBLE:
            found[name, way] = spread(
                [
                    gain(
                        statistics.mean(value(a) for a, _ in pairs),
                        statistics.mean(value(b) for _, b in pairs),
                    )
                    for pairs in _pairs(runs, way)
                ]
            )
    return found


def _pairs(runs: Sequence[WayRun], way: str) -> list[list[tuple[JobTimes, JobTimes]]]:
    """For each batch its jobs that ended both ways: as fixed ones and as flexible ones."""
    fixed = {run.seed: {job.name: job for job in run.jobs} for run in runs if run.way == FIXED}
    found = [
        [(fixed[run.seed][job.name], job) for job in run.jobs if job.name in fixed[run.seed]]
        for run in runs
        if run.way == way
    ]
    return [pairs for pairs in found if pairs]


class Losses(NamedTuple):
    """``later`` of ``jobs`` were completed at more than ``LATER`` times as late; the ``worst`` so many times."""

    jobs: int
    later: int
    worst: float


def losses(runs: Sequence[WayRun], way: str) -> Losses:
    ratios = [b.completion_s / a.completion_s for pairs in _pairs(runs, way) for a, b in pairs]
    return Losses(len(ratios), sum(each > LATER for each in ratios), max(ratios))


def _measures(folder: Folder, runs: Sequence[WayRun]) -> str:
    used, gained = utilisation(runs), gains(runs)
    rows = [("utilisation", way, used[way], UTILISATION[way]) for way in WAYS]
    rows += [(f"{name} gain", way, mine, TABLE3[name, way]) for (name, way), mine in gained.items()]
    folder.table(
        FIGURES[2],
        ("measure", "way", "ours_percent", "ours_std", "article_percent", "article_std"),
        [(measure, NAMES[way], *mine, *article) for measure, way, mine, article in rows],
    )
    _draw_measures(folder, used, gained)
    batches = len({run.seed for run in runs})
    lines = [
        "## Table 3: fixed, synchronous, asynchronous",
        "",
        (
            f"Per cent, over {batches} {'batch' if batches == 1 else 'batches'} of {len(runs[0].jobs)} jobs (the "
            "article: over workloads of several sizes); gains are of the means of a batch's jobs against the fixed "
            "ones. The article does not say with which mode of its policy Tables 2 and 3 were made; its text speaks of "
            "jobs that shrink for queued ones and of nearly full use, which is mode 3, wide optimisation. Table 4 is "
            "of mode 2."
        ),
        "",
        "| measure | way | mean | deviation | article | deviation |",
        "|---|---|---|---|---|---|",
    ]
    for measure, way, mine, article in rows:
        std = "-" if mine.std is None else f"{mine.std:.1f}"
        lines.append(
            f"| {measure} | {NAMES[way]} | {mine.mean:.1f} | {std} | {article.mean:.1f} | {article.std:.1f} |"
        )
    return "\n".join(
        [*lines, "", *measure_claims(used, gained), *_tails(runs), "", f"![]({FIGURES[2]}.png)", ""]
    )


def measure_claims(used: dict[str, Spread], gained: dict[tuple[str, str], Spread]) -> list[str]:
    """What the article says of Table 3, each with whether these figures agree."""
    wait, run, whole = ({way: gained[name, way] for way in FLEXIBLE} for name in OF_JOBS)
    claims = [
        (
            [_more(used[SYNC], used[FIXED])],
            f"flexible jobs use more of the nodes: {used[SYNC].mean:.1f} and {used[FIXED].mean:.1f} %",
        ),
        ([_more(each, NOTHING) for each in wait.values()], _both("jobs wait less in both modes", wait)),
        ([_more(NOTHING, each) for each in run.values()], _both("each job runs longer", run)),
        ([_more(whole[SYNC], NOTHING)], _both("flexible jobs are completed earlier", whole)),
        ([_more(whole[SYNC], whole[ASYNC])], _both("asynchronous scheduling does not pay", whole)),
    ]
    return [f"- {_all(words)}: {claim}." for words, claim in claims]


def _more(one: Spread, other: Spread) -> str:
    """Whether the one is more; open within the larger deviation of both, or where there is one batch only."""
    if one.std is None or other.std is None or abs(one.mean - other.mean) <= max(one.std, other.std):
        return OPEN
    return AGREES if one.mean > other.mean else DIFFERS


def _all(words: Sequence[str]) -> str:
    return next(word for word in (DIFFERS, OPEN, AGREES) if word in words)


def _both(claim: str, values: dict[str, Spread]) -> str:
    return f"{claim}: {values[SYNC].mean:+.1f} % (synchronous), {values[ASYNC].mean:+.1f} % (asynchronous)"


def _tails(runs: Sequence[WayRun]) -> list[str]:
    lines = []
    for way in FLEXIBLE:
        if _pairs(runs, way):
            lost = losses(runs, way)
            lines.append(
                f"- Losses, {NAMES[way]}: {lost.later} of {lost.jobs} jobs took more than {LATER:g} times as long to "
                f"be completed as when fixed; the worst {lost.worst:.2f} times."
            )
    for way in WAYS:
        jobs = [job for run in runs if run.way == way for job in run.jobs]
        lines.append(
            f"- Longest, {NAMES[way]}: wait {max(job.wait_s for job in jobs):.1f} s, completion "
            f"{max(job.completion_s for job in jobs):.1f} s; last end of a batch "
            f"{max(run.makespan_s for run in runs if run.way == way):.1f} s."
        )
    return lines


def _draw_measures(folder: Folder, used: dict[str, Spread], gained: dict[tuple[str, str], Spread]) -> None:
    made, axes = charts.figure(2, high=3.6)
    for ax, groups, ours, theirs in (
        (axes[0], [NAMES[way] for way in WAYS], list(used.values()), [UTILISATION[way] for way in WAYS]),
        (
            axes[1], [f"{name},\n{NAMES[way]}" for name, way in gained], list(gained.values()),
            [TABLE3[each] for each in gained],
        ),
    ):  # fmt: skip
        charts.bars(
            ax, groups,
            [
                charts.Series("ours", (), [each.mean for each in ours], look=0),
                charts.Series("article", (), [each.mean for each in theirs], look=7),
            ],
        )  # fmt: skip
        for side, some in ((-0.2, ours), (0.2, theirs)):
            spreads = [(x + side, each.mean, each.std) for x, each in enumerate(some) if each.std is not None]
            if spreads:
                at, mean, std = zip(*spreads, strict=True)
                ax.errorbar(at, mean, yerr=std, fmt="none", ecolor="#444444", capsize=2.5, elinewidth=0.9)
        ax.axhline(0.0, color="#444444", linewidth=0.9)
        ax.tick_params(axis="x", labelsize=charts.FONT - 1)
    axes[0].set_ylabel("utilisation, %")
    axes[1].set_ylabel("gain against fixed jobs, %")
    charts.legend(made, axes[0])
    folder.figure(FIGURES[2], made)


def _each_job(folder: Folder, runs: Sequence[WayRun]) -> None:
    folder.table(
        JOBS,
        ("seed", "way", "job", "wait_s", "execution_s", "completion_s"),
        [
            (run.seed, NAMES[run.way], job.name, job.wait_s, job.run_s, job.completion_s)
            for run in runs
            for job in run.jobs
        ],
    )

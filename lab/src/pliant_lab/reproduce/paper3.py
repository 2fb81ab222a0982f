"""Iserte et al.'s throughput evaluation (their section 7.5): 50 to 400 jobs, fixed and flexible, on 64 nodes.

Table 4 with the article's values beside ours, and its Figures 4 to 8. The flexible jobs run under DMR's
policy as in the article, and once more under ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pliant.core import records as r
from pliant.history.timeline import ROWS, Life, Listener
from pliant.model.jobs import JobSpec
from pliant.policy.registry import make
from pliant.study.workers import Task
from pliant.workloads.generators.paper3 import (
    COUNTS,
    NODES,
    PUBLISHED,
    PUBLISHED_ACTIONS,
    TABLE1,
    paper3_jobs,
    paper3_settings,
)
from pliant_lab.reproduce import charts
from pliant_lab.reproduce.folder import Folder
from pliant_lab.reproduce.runs import Outcome, simulation_of, summed

VERSIONS = ("fixed", "flexible", "ours")
"""Fixed jobs under EASY; flexible ones under DMR's policy, mode 2; the same under the marginal policy."""
LABELS = {
    "fixed": "fixed (EASY)",
    "flexible": "flexible (dmr-preferred)",
    "ours": "flexible (marginal, ours)",
}
DETAILED = COUNTS[0]
"""The article looks closely at its smallest workload."""
FIGURES = (
    "paper3-figure-4-makespan",
    "paper3-figure-5-wait",
    "paper3-figure-6-evolution",
    "paper3-figure-7-jobs",
    "paper3-figure-8-differences",
)
COLUMNS: tuple[tuple[str, str, Callable[[Outcome], float]], ...] = (
    ("utilisation", "utilisation", lambda o: o.utilisation),
    ("wait_s", "wait, s", lambda o: o.wait_mean_s),
    ("execution_s", "execution, s", lambda o: o.run_mean_s),
    ("completion_s", "completion, s", lambda o: o.turnaround_mean_s),
)
"""Table 4: the published field, its title, and ours."""


class JobTimes(NamedTuple):
    """A job of a run, in seconds from the first submission."""

    program: str
    wait_s: float
    run_s: float


class Step(NamedTuple):
    """From ``at`` on, so many nodes and jobs are in use, and so many jobs have completed."""

    at: float
    nodes: int
    running: int
    completed: int


class WorkloadRun(NamedTuple):
    outcome: Outcome
    expands: int
    shrinks: int
    jobs: list[JobTimes]
    steps: list[Step]


Runs = dict[tuple[int, str], WorkloadRun]


def one(count: int, version: str) -> WorkloadRun:
    """A workload of ``count`` jobs in one of ``VERSIONS``."""
    jobs = paper3_jobs(count, flexible=version != "fixed")
    policy = make({"fixed": "easy", "flexible": "dmr-preferred", "ours": "marginal"}[version])
    follower = _Follower()
    made = simulation_of(jobs, NODES, policy, paper3_settings())
    summary = made.run(follower, keep_jobs=True).metrics
    times = [
        JobTimes(
            follower.programs[i],
            (each.start_s or 0.0) - each.submit_s,
            (each.end_s or 0.0) - (each.start_s or 0.0),
        )
        for i, each in enumerate(summary.jobs, 1)
    ]
    return WorkloadRun(summed(summary, jobs), summary.expands, summary.shrinks, times, follower.steps)


class _Follower(Listener):
    """Nodes in use, jobs running and jobs completed over time."""

    IGNORES = frozenset(ROWS) - {"submitted", "started", "resized", "groups_lost", "ended"}

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.programs: dict[int, str] = {}
        self._completed = 0

    def submitted(self, life: Life) -> None:
        self.programs[life.job] = program_of(life.spec)

    def started(self, _life: Life) -> None:
        self._step()

    def resized(self, _life: Life, _done: r.ResizeDone, _kind: str, _before: int) -> None:
        self._step()

    def groups_lost(self, _life: Life, _loss: r.GroupsLost) -> None:
        self._step()

    def ended(self, _life: Life, _end: r.JobEnded, _size: int) -> None:
        self._completed += 1
        self._step()

    def _step(self) -> None:
        """One an instant: what lasted for no time would be a line down and up again."""
        lives = self.lives
        if self.steps and self.steps[-1].at == lives.now:
            self.steps.pop()
        self.steps.append(Step(lives.now, lives.held, len(lives.jobs) - lives.waiting, self._completed))


def program_of(spec: JobSpec) -> str:
    """Which of Table 1's programs the job is: they name it."""
    return next(program for program in TABLE1 if program in spec.name)


def tasks() -> list[Task]:
    return [(one, case) for case in _cases()]


def _cases() -> list[tuple[int, str]]:
    return [(count, version) for count in COUNTS for version in VERSIONS]


def collect(results: Sequence[WorkloadRun]) -> Runs:
    """The results of ``tasks``, in their order."""
    return dict(zip(_cases(), results, strict=True))


def write(folder: Folder, runs: Runs) -> str:
    """Table 4, Figures 4 to 8; the result is this study's section of the README."""
    rows: list[tuple[object, ...]] = []
    for (count, version), run in runs.items():
        article = PUBLISHED.get((count, version))
        for field, _, value in COLUMNS:
            rows.append(
                (count, version, field, value(run.outcome), getattr(article, field) if article else None)
            )
    folder.table("paper3-table-4", ("jobs", "version", "metric", "ours", "article"), rows)
    _bars(folder, runs, FIGURES[0], "workload execution time (makespan), s", lambda o: o.makespan_s)
    _bars(folder, runs, FIGURES[1], "mean waiting time, s", lambda o: o.wait_mean_s)
    _evolution(folder, runs)
    _jobs(folder, runs)
    _differences(folder, runs)
    return _section(runs)


def _bars(folder: Folder, runs: Runs, name: str, title: str, value: Callable[[Outcome], float]) -> None:
    """Figures 4 and 5: bars, with the gain against the fixed version upon them."""
    made, (axes,) = charts.figure(1, high=4.2)
    values = {version: [value(runs[count, version].outcome) for count in COUNTS] for version in VERSIONS}
    charts.bars(
        axes,
        [f"{count} jobs" for count in COUNTS],
        [
            charts.Series(LABELS[version], COUNTS, values[version], look=i)
            for i, version in enumerate(VERSIONS)
        ],
    )
    for i, version in enumerate(VERSIONS[1:], 1):
        for x, (ours, fixed) in enumerate(zip(values[version], values["fixed"], strict=True)):
            at = x + (i - 1) * 0.8 / 3
            axes.text(at, ours, f"{ours / fixed - 1:+.0%}", ha="center", va="bottom", fontsize=8)
    axes.set_ylabel(title)
    charts.legend(made, axes)
    folder.figure(name, made)
    folder.table(
        name,
        ("jobs", "version", "seconds", "change_percent"),
        [
            (count, version, mine, 100 * (mine / fixed - 1))
            for version in VERSIONS
            for count, mine, fixed in zip(COUNTS, values[version], values["fixed"], strict=True)
        ],
    )


def _evolution(folder: Folder, runs: Runs) -> None:
    """Figure 6: allocated nodes, running jobs and completed jobs over time. Each version has nodes of its own: their
    lines would hide one another."""
    found = {version: runs[DETAILED, version].steps for version in VERSIONS}
    end = max(steps[-1].at for steps in found.values())
    made, axes = charts.figure(len(VERSIONS) + 2, high=1.5)
    of_nodes, (running, completed) = axes[: len(VERSIONS)], axes[len(VERSIONS) :]
    for i, (version, steps) in enumerate(found.items()):
        colour, x = charts.COLOURS[i], [step.at for step in steps]
        nodes = [step.nodes for step in steps]
        of_nodes[i].fill_between(x, nodes, step="post", color=colour, alpha=0.25, linewidth=0)
        of_nodes[i].step(x, nodes, where="post", color=colour, linewidth=0.8)
        of_nodes[i].set_ylim(0, NODES * 1.06)
        of_nodes[i].set_title(f"nodes allocated, {LABELS[version]}", fontsize=charts.FONT, loc="left")
        look: dict[str, Any] = {"color": colour, "linestyle": charts.DASHES[i], "linewidth": 1.4}
        for ax, what in ((running, "running"), (completed, "completed")):
            ax.step(x, [getattr(step, what) for step in steps], where="post", label=LABELS[version], **look)
            ax.set_title(f"jobs {what}", fontsize=charts.FONT, loc="left")
    for ax in axes:
        ax.set_xlim(0, 1.02 * end)
        ax.tick_params(labelbottom=ax is completed)
        ax.grid(visible=True, alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    completed.set_xlabel(f"time, s ({DETAILED} jobs)")
    charts.legend(made, completed)
    folder.figure(FIGURES[2], made)
    folder.table(
        FIGURES[2],
        ("version", "at_s", "allocated_nodes", "running_jobs", "completed_jobs"),
        [(version, *step) for version in VERSIONS for step in runs[DETAILED, version].steps],
    )


def _jobs(folder: Folder, runs: Runs) -> None:
    """Figure 7: execution and waiting of each job, a row a program."""
    made, axes = charts.figure(2 * len(TABLE1), across=2, high=2.3)
    for program, row in zip(TABLE1, zip(axes[::2], axes[1::2], strict=True), strict=True):
        for i, version in enumerate(VERSIONS):
            mine = [job for job in runs[DETAILED, version].jobs if job.program == program]
            look: dict[str, Any] = {
                "color": charts.COLOURS[i],
                "marker": charts.MARKERS[i],
                "markersize": 4,
                "linestyle": "none",
            }
            row[0].plot([job.run_s for job in mine], label=LABELS[version], **look)
            row[1].plot([job.wait_s for job in mine], label=LABELS[version], **look)
        for ax, what in zip(row, ("execution", "wait"), strict=True):
            ax.set_title(f"{program}: {what}, s", fontsize=charts.FONT + 1)
            ax.locator_params(axis="x", integer=True)
            ax.grid(visible=True, alpha=0.3)
    for ax in axes[-2:]:
        ax.set_xlabel("job, in order of submission")
    charts.legend(made, axes[0])
    folder.figure(FIGURES[3], made)
    folder.table(
        FIGURES[3],
        ("version", "job", "program", "wait_s", "execution_s"),
        [(version, i, *job) for version in VERSIONS for i, job in enumerate(runs[DETAILED, version].jobs, 1)],
    )


def _differences(folder: Folder, runs: Runs) -> None:
    """Figure 8: what each job gains as a flexible one; above 0 it is quicker than as a fixed one."""
    made, axes = charts.figure(len(TABLE1), high=2.8)
    rows = []
    for ax, program in zip(axes, TABLE1, strict=True):
        pairs = [
            (i, fixed, flexible)
            for i, (fixed, flexible) in enumerate(
                zip(runs[DETAILED, "fixed"].jobs, runs[DETAILED, "flexible"].jobs, strict=True), 1
            )
            if fixed.program == program
        ]
        gains = [
            (i, a.run_s - b.run_s, a.wait_s - b.wait_s, a.run_s + a.wait_s - b.run_s - b.wait_s)
            for i, a, b in pairs
        ]
        rows += [(program, *gain) for gain in gains]
        x = list(range(len(gains)))
        series = [
            charts.Series(label, x, [gain[column] for gain in gains], look=column - 1)
            for column, label in ((1, "execution"), (2, "wait"), (3, "completion"))
        ]
        charts.lines(ax, series)
        ax.locator_params(axis="x", integer=True)
        ax.axhline(0.0, color="#444444", linewidth=0.9)
        ax.set_title(program, fontsize=10)
        ax.set_xlabel("job, in order of submission")
    made.supylabel("fixed minus flexible, s", fontsize=charts.FONT + 1)
    charts.legend(made, axes[0])
    folder.figure(FIGURES[4], made)
    folder.table(FIGURES[4], ("program", "job", "execution_s", "wait_s", "completion_s"), rows)


def _section(runs: Runs) -> str:
    lines = [
        "## Iserte et al. 2018: the DMR API's jobs on 64 nodes (Table 4, Figures 4 to 8)",
        "",
        (
            "Jobs of CG, Jacobi and N-body as in its Table 1, each submitted at its maximum, one every 10 s "
            "on average. Run times and the order of the jobs are calibrated on Table 4 itself, since neither "
            "is published: that the values are near is their doing; that the same run times serve four "
            "workloads and both versions is not."
        ),
        "",
        "| jobs | version | " + " | ".join(f"{title} | article" for _, title, _ in COLUMNS) + " |",
        "|---|---|" + "---|---|" * len(COLUMNS),
    ]
    for (count, version), run in runs.items():
        article = PUBLISHED.get((count, version))
        cells = [
            f"{_told(field, value(run.outcome))} | "
            f"{_told(field, getattr(article, field)) if article else '-'}"
            for field, _, value in COLUMNS
        ]
        lines.append(f"| {count} | {LABELS[version]} | {' | '.join(cells)} |")
    largest = runs[COUNTS[-1], "flexible"]
    return "\n".join(
        [
            *lines,
            "",
            *_verdict(runs),
            (
                f"**Differs**: {COUNTS[-1]} flexible jobs make {largest.expands} expansions and "
                f"{largest.shrinks} shrinks here, {PUBLISHED_ACTIONS['expand']} and "
                f"{PUBLISHED_ACTIONS['shrink']} in its Table 2. By its rules every job above its preferred "
                "size is shrunk as soon as it asks while somebody waits, and somebody waits nearly all the "
                "time; why half of the jobs were not, the article does not say."
            ),
            "",
            *(f"![]({name}.png)" for name in FIGURES),
            "",
        ]
    )


def _told(field: str, value: float) -> str:
    return f"{value:.1%}" if field == "utilisation" else f"{value:,.0f}"


def _verdict(runs: Runs) -> list[str]:
    """How far Table 4 is off, and what flexible jobs gain, from these runs."""
    off = {
        (count, version, field): value(run.outcome) / getattr(PUBLISHED[count, version], field) - 1
        for (count, version), run in runs.items()
        if (count, version) in PUBLISHED
        for field, _, value in COLUMNS
    }
    (count, version, field), most = max(off.items(), key=lambda entry: abs(entry[1]))
    near = sum(abs(each) <= 0.05 for each in off.values())

    def gain(many: int, after: str) -> float:
        return runs[many, after].outcome.turnaround_mean_s / runs[many, "fixed"].outcome.turnaround_mean_s - 1

    def told(many: int) -> float:
        return PUBLISHED[many, "flexible"].completion_s / PUBLISHED[many, "fixed"].completion_s - 1

    gains = "; ".join(
        f"{many} jobs {gain(many, 'flexible'):+.0%} (article {told(many):+.0%})" for many in COUNTS
    )
    ours = ", ".join(f"{gain(many, 'ours'):+.0%}" for many in COUNTS)
    return [
        (
            f"**Agrees**: {near} of Table 4's {len(off)} values within 5 %; the furthest is off by "
            f"{most:+.1%} ({field.removesuffix('_s')}, {count} jobs, {version})."
        ),
        "",
        f"**Agrees**: completion, flexible against fixed: {gains}. Under marginal: {ours}.",
        "",
    ]

"""Finnerty et al.'s programs ("Malleable Runtime Performance"): their scaling, what resizes consist of, and how many
a job is offered in a batch beside MPI jobs.

Figures 6 to 8, measured on this machine, beside what the article measured on its cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple

from pliant.history.outcomes import JobOutcome
from pliant.model.kinds import JobKind
from pliant.report.runs import Run
from pliant_lab.measure import scaling
from pliant_lab.measure.programs import Figures
from pliant_lab.reproduce import charts
from pliant_lab.reproduce.folder import Folder

FIGURES = ("apgas-figure-6-scaling", "apgas-figure-7-resizes", "apgas-figure-8-offers")
MODELS = "programs.toml"
TABLES = {"programs": FIGURES[0], "startup": "apgas-startup", "resizes": FIGURES[1]}
"""The measured tables, and the files that they go to."""
SHAPES = ("1 place", "1 place, 2 workers", "2 places")
PHASES = (*(f"{phase}_s" for phase in scaling.PHASES), "clean_s")
EXPAND, SHRINK = "expand", "shrink"


class Published(NamedTuple):
    """Seconds of the article for a resize by ``places`` on average: all, of the runtime, of the handler."""

    places: float
    seconds: float
    runtime_s: float
    handler_s: float


PUBLISHED = {"grow": Published(3.8, 14.55, 14.09, 0.46), "shrink": Published(2.55, 7.41, 6.31, 1.1)}
"""From the article's section "Malleable Runtime Performance", as are the next two."""
PUBLISHED_STARTUP_S = 6.0
PUBLISHED_ORDERS = {EXPAND: 0.58, SHRINK: 0.71}
"""Orders for each malleable job, when all jobs are."""


def write(folder: Folder, figures: Figures, run: Run, *, quick: bool) -> None:
    """The figures of ``bench scaling`` and of a mixed batch that has run, with a README.md."""
    for key, name in TABLES.items():
        folder.table(name, list(figures[key][0]), [list(row.values()) for row in figures[key]])
    folder.text(MODELS, scaling.batch_text(figures))
    _scaling(folder, figures["programs"])
    _resizes(folder, figures["resizes"])
    _offers(folder, run)
    sections = [
        _heading(figures, quick=quick),
        _scaling_section(figures["programs"]),
        _resizes_section(figures),
        _offers_section(run),
        "## Files\n\n" + "\n".join(f"- [{name}]({name})" for name in folder.files) + "\n",
    ]
    folder.readme("\n".join(sections))


def offers(job: JobOutcome, kind: str) -> int:
    """How many offers to grow, or to shrink, the job was made, whatever came of them."""
    return sum(resize.kind == kind for resize in job.resizes)


def _with_kinds(run: Run) -> list[tuple[JobOutcome, JobKind]]:
    return [(job, run.kinds[number]) for number, job in run.jobs.items()]


def _by_shape(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each program: the kernel's, then those of SHAPES."""
    names = dict.fromkeys(row["program"] for row in rows)
    return {name: [row for row in rows if row["program"] == name] for name in names}


def _scaling(folder: Folder, rows: Sequence[dict[str, Any]]) -> None:
    found = _by_shape(rows)
    made, (axes,) = charts.figure(1, high=4.2)
    series = [
        charts.Series(label, (), [each[i]["speedup"] for each in found.values()], look=i)
        for i, label in enumerate(SHAPES, 1)
    ]
    charts.bars(axes, list(found), series)
    axes.set_ylabel("speed, of the bare kernel's on one core")
    charts.legend(made, axes)
    folder.figure(FIGURES[0], made)


def _resizes(folder: Folder, rows: Sequence[dict[str, Any]]) -> None:
    made, (axes,) = charts.figure(1, high=4.2)
    groups = [f"{row['kind']} by {row['nodes']}" for row in rows]
    charts.bars(
        axes, groups,
        [charts.Series(name[:-2], (), [row[name] for row in rows], look=i) for i, name in enumerate(PHASES)],
    )  # fmt: skip
    axes.set_ylabel("seconds")
    charts.legend(made, axes)
    folder.figure(FIGURES[1], made)


def _offers(folder: Folder, run: Run) -> None:
    jobs = run.metrics.jobs
    made, (axes,) = charts.figure(1, high=4.0)
    charts.bars(
        axes, [job.name for job in jobs],
        [
            charts.Series(f"offers to {word}", (), [float(offers(job, kind)) for job in jobs], look=i)
            for i, (kind, word) in enumerate(((EXPAND, "grow"), (SHRINK, "shrink")))
        ],
    )  # fmt: skip
    charts.legend(made, axes)
    folder.figure(FIGURES[2], made)
    folder.table(
        FIGURES[2],
        ("job", "kind", "state", "verified", "grow_offers", "shrink_offers", "start_s", "end_s"),
        [
            (
                job.name, kind.value, job.state.value, job.verified,
                offers(job, EXPAND), offers(job, SHRINK), job.start_s, job.end_s,
            )
            for job, kind in _with_kinds(run)
        ],
    )  # fmt: skip


def _heading(figures: Figures, *, quick: bool) -> str:
    load, sha = figures["load_average"], figures["sha"]
    return (
        "# Task programs that grow and shrink, measured again\n\n"
        f"Written by `pliant reproduce apgas{' --quick' if quick else ''}`: real runs on "
        f"{figures['processors']} processors with a load of {load} at the start, SHA-1 kernel {sha}. The "
        "article's programs are Java's, on a cluster with 48 workers a place: the times of resizes are "
        "compared, those of programs are not.\n"
    )


def _scaling_section(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "## Figure 6: strong scaling",
        "",
        (
            "Seconds within the main function, and in brackets the speed, of the bare kernel's on one core. "
            f"The same times are the jobs' models in [{MODELS}]({MODELS})."
        ),
        "",
        f"| program | kernel | {' | '.join(SHAPES)} |",
        "|---|---|---|---|---|",
    ]
    for name, (bare, *others) in _by_shape(rows).items():
        cells = [f"{row['work_s']:.2f} ({row['speedup']:.2f})" for row in others]
        lines.append(f"| {name} {bare['options']} | {bare['work_s']:.2f} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"![]({FIGURES[0]}.png)", ""])


def _resizes_section(figures: Figures) -> str:
    startup = ", ".join(f"{row['places']}: {row['seconds']:.2f} s" for row in figures["startup"])
    lines = [
        "## Figure 7: start, grow and shrink",
        "",
        (
            f"From the start of a job until it can be resized, by places: {startup} "
            f"(article: {PUBLISHED_STARTUP_S:g} s)."
        ),
        "",
        (
            "Medians of resizes while a tree is searched, in seconds: from the offer until the scheduler has "
            "booked a growth, or until the nodes of a shrink are proved clean. What the article's runtime "
            "takes is the start and the connection of processes, or their end; its handler's time is in prepare "
            "and commit."
        ),
        "",
        f"| | count | seconds | {' | '.join(scaling.PHASES)} | until clean |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in figures["resizes"]:
        cells = " | ".join(f"{row[name]:.3f}" for name in ("seconds", *PHASES))
        lines.append(f"| {row['kind']} by {row['nodes']} | {row['count']} | {cells} |")
    for kind, known in PUBLISHED.items():
        runtime = f"{known.runtime_s} in all"
        ends = (
            (known.handler_s, runtime, "", "", "", "", "")
            if kind == "grow"
            else (known.handler_s, "", "", "", runtime, "", "")
        )
        cells = " | ".join(str(each) for each in (known.seconds, *ends))
        lines.append(f"| article: {kind} by {known.places} | | {cells} |")
    return "\n".join([*lines, "", *_quicker(figures["resizes"]), "", f"![]({FIGURES[1]}.png)", ""])


def _quicker(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The longest median of each kind against the article's mean."""
    lines = []
    for kind, known in PUBLISHED.items():
        longest = max((row["seconds"] for row in rows if row["kind"] == kind), default=None)
        if longest is not None:
            word = "**Shorter**" if longest < known.seconds else "**Not shorter**"
            lines.append(
                f"- {word}: {kind}, {longest:.2f} s at the most of these medians; the article's "
                f"{known.seconds} s for {known.places} places."
            )
    return lines


def _offers_section(run: Run) -> str:
    jobs = _with_kinds(run)
    lines = [
        "## Figure 8: offers in a mixed batch",
        "",
        (
            f"{len(jobs)} jobs of both kinds under the policy {run.policy}, all of them malleable; each "
            "result is compared with a serial run."
        ),
        "",
        "| job | kind | result | offers to grow | to shrink |",
        "|---|---|---|---|---|",
    ]
    for job, kind in jobs:
        said = "as expected" if job.verified else f"**{job.state.value}, not verified**"
        lines.append(
            f"| {job.name} | {kind.value} | {said} | {offers(job, EXPAND)} | {offers(job, SHRINK)} |"
        )
    for kind in JobKind:
        some = [job for job, its in jobs if its is kind]
        if some:
            grow, shrink = (mean(offers(job, each) for job in some) for each in (EXPAND, SHRINK))
            lines.append(f"| mean of {kind.value} | | | {grow:.2f} | {shrink:.2f} |")
    lines.append(
        f"| article, mean of 10 batches of 25 | | | {PUBLISHED_ORDERS[EXPAND]} | {PUBLISHED_ORDERS[SHRINK]} |"
    )
    return "\n".join([*lines, "", f"![]({FIGURES[2]}.png)", ""])

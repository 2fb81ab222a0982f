"""Tables for the terminal. Words and signs say everything; colour only repeats it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from pliant.history.metrics import JobOutcome
from pliant.model.jobs import JobState
from pliant.model.kinds import JobKind
from pliant.report.compare import MetricCell, change_text, compare, unlike_nodes
from pliant.report.runs import RESULT_WIDTH, Run, alike_in_nodes, sizes_text, state_text
from pliant.report.words import cause, percent, plain, seconds, shorten

# Blue and yellow are told apart in every common kind of colour blindness; red and green are not.
STYLES = {"better": "bold cyan", "worse": "bold yellow", "same": "dim", "": "dim"}
WIDE = 100
STATE_STYLES = {JobState.COMPLETED: "", JobState.RUNNING: "cyan", JobState.RESIZING: "cyan"}


def compare_table(runs: Sequence[Run]) -> Table:
    """The runs side by side, a metric a row; each later run is compared with the first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    for i, run in enumerate(runs):
        table.add_column(Text(plain(run.name)), justify="right", no_wrap=True)
        if i:
            table.add_column("", no_wrap=True)
    table.add_row("policy", *_policy_cells(runs))
    table.add_row("nodes", *_nodes_cells(runs))
    for row in compare(runs):
        cells: list[Text] = []
        for i, cell in enumerate(row.cells):
            cells.append(Text(cell.text))
            if i:
                cells.append(verdict(cell))
        table.add_row(Text(row.metric.label), *cells)
    if any(run.metrics.pace_overrun is not None for run in runs):
        table.add_row("pace overrun", *_pace_cells(runs))
    if said := unlike_nodes(runs):
        table.title, table.title_justify, table.title_style = Text(f"! {said}"), "left", "bold yellow"
    return table


def verdict(cell: MetricCell) -> Text:
    """``↓ 23 % less, better``."""
    text = change_text(cell)
    if not text:
        return Text(cell.verdict, style=STYLES[cell.verdict])
    if cell.verdict == "same":
        return Text("= same", style=STYLES["same"])
    arrow = "↑" if (cell.change or 0.0) > 0 else "↓"
    said = f"{arrow} {text}" + (f", {cell.verdict}" if cell.verdict else "")
    return Text(said, style=STYLES[cell.verdict])


def _policy_cells(runs: Sequence[Run]) -> list[Text]:
    cells: list[Text] = []
    for i, run in enumerate(runs):
        cells += [Text(plain(run.policy))] + ([Text()] if i else [])
    return cells


def _nodes_cells(runs: Sequence[Run]) -> list[Text]:
    unlike = Text() if alike_in_nodes(runs) else Text("! not the same", style="bold yellow")
    cells: list[Text] = []
    for i, run in enumerate(runs):
        cells += [Text(run.nodes_text)] + ([unlike] if i else [])
    return cells


def _pace_cells(runs: Sequence[Run]) -> list[Text]:
    cells: list[Text] = []
    for i, run in enumerate(runs):
        overrun = run.metrics.pace_overrun
        shown = Text("-" if overrun is None else percent(max(0.0, overrun)))
        said = Text() if run.pace_valid else Text("! not valid", style="bold yellow")
        if i:
            cells += [shown, said]
        else:
            cells.append(shown if run.pace_valid else shown.append(" !", style="bold yellow"))
    return cells


def job_table(run: Run, width: int = WIDE) -> Table:
    """A run's jobs. Times in seconds since the first submission. Where all are of one class, that is not said,
    nor a kind where all are of kind mpi.

    In less than WIDE columns classes and ends, which are the sum of other columns, are left out, results are cut
    off, and sizes and, at last, names break into lines; times and states never do.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("job", overflow="fold", min_width=8)
    wide = width >= WIDE
    classes = wide and len({job.job_class for job in run.jobs.values()}) > 1
    kinds = set(run.kinds.values()) - {JobKind.MPI} != set()
    for title, wanted in (("class", classes), ("kind", kinds), ("state", True)):
        if wanted:
            table.add_column(title, no_wrap=True)
    for title in ("submitted", "waited", "ran", "ended") if wide else ("submitted", "waited", "ran"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("nodes", min_width=5)
    table.add_column("result", min_width=8)
    for number in run.jobs:
        table.add_row(*_job_cells(run, number, classes=classes, kinds=kinds, ends=wide))
    return table


def _job_cells(run: Run, number: int, *, classes: bool, kinds: bool, ends: bool) -> list[Text]:
    job = run.jobs[number]
    start, end = job.start_s, job.end_s
    return [
        Text(plain(job.name)),
        *([Text(str(job.job_class))] if classes else []),
        *([Text(str(run.kinds[number]))] if kinds else []),
        Text(state_text(job), style=STATE_STYLES.get(job.state, "bold yellow")),
        Text(seconds(job.submit_s - run.origin_s)),
        Text(seconds(start - job.submit_s) if start is not None else "-"),
        Text(seconds(end - start) if start is not None and end is not None else "-"),
        *([Text(seconds(end - run.origin_s) if end is not None else "-")] if ends else []),
        Text(sizes_text(run, number)),
        result_text(job),
    ]


def result_text(job: JobOutcome) -> Text:
    """The result and what its check said, else what went wrong. Lines are cut off where they do not fit, but for why a
    job was cancelled: that is short, and nothing else tells of it."""
    if job.state is JobState.CANCELLED and job.error:
        return Text(cause(job.error), overflow="fold")
    text = Text(no_wrap=True, overflow="ellipsis")
    result = "-" if job.result is None else shorten(job.result, RESULT_WIDTH)
    if job.verified is False:
        text.append("✗ WRONG", style="bold yellow reverse").append(f": {result}\n")
        return text.append(f"expected: {shorten(job.expected or '-', RESULT_WIDTH)}")
    if job.unchecked:
        return text.append("not checked", style="bold yellow").append(f": {plain(job.unchecked)}\n{result}")
    if job.error:
        return text.append(cause(job.error, job.exit_code))
    if job.verified:
        return text.append("✓ as expected")
    return text.append(result if job.result is not None else "")

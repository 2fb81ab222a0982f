"""What went wrong in runs, in full: printed below the tables, which have room for a line a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from pliant.core.metrics import JobOutcome
from pliant.report.compare import names_text
from pliant.report.runs import Run
from pliant.report.tables import state_text
from pliant.report.words import cause, count, details, plain

MOST_TOLD = 10
"""So many different failures of a run are told in full."""


def told(runs: Sequence[Run]) -> Iterator[Text]:
    """Lines that are not to be broken: jobs that did not complete, with what they printed last, and jobs whose
    results are wrong."""
    for run in runs:
        of = f"{plain(run.name)}: " if len(runs) > 1 else ""
        yield from _failed(run, of)
        for job in run.differing:
            said = f"{of}the result of job {plain(job.name)} is WRONG: {plain(job.result or '')}"
            yield Text(said, style="bold red")


def _failed(run: Run, of: str) -> Iterator[Text]:
    """Jobs that ended alike are told once."""
    alike: dict[tuple[str, str], list[JobOutcome]] = {}
    for job in run.failed:
        alike.setdefault((state_text(job), job.error), []).append(job)
    for (state, error), jobs in list(alike.items())[:MOST_TOLD]:
        said = cause(error, jobs[0].exit_code)
        head = f"{of}{'job' if len(jobs) == 1 else 'jobs'} {names_text([job.name for job in jobs])} {state}"
        yield Text(head + (f": {said}" if said else ""), style="bold yellow")
        yield from (Text(f"    {line}") for line in details(error))
    if left := sum(len(jobs) for jobs in list(alike.values())[MOST_TOLD:]):
        yield Text(
            f"{of}{count(left, 'job')} more did not complete; the table names them", style="bold yellow"
        )

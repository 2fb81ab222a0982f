"""What went wrong in runs, in full: printed below the tables, which have room for a line a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from pliant.history.metrics import JobOutcome
from pliant.model.jobs import JobState
from pliant.model.words import count
from pliant.report.compare import names_text
from pliant.report.runs import Run, state_text
from pliant.report.words import cause, details, plain, shorten

MOST_TOLD = 10
"""So many different failures of a run are told in full."""
RESULT_CHARACTERS = 1000


def told(runs: Sequence[Run]) -> Iterator[Text]:
    """Jobs that did not complete, with what they printed last, and jobs whose results are wrong or could not be
    checked. What comes from a job is in lines that are not to be broken."""
    for run in runs:
        of = f"{plain(run.name)}: " if len(runs) > 1 else ""
        if run.policy_failed:
            said = f"{of}the policy went wrong, and the run went on without it: {plain(run.policy_failed)}"
            yield Text(said, style="bold yellow")
        yield from _failed(run, of)
        for job in run.differing:
            yield Text(f"{of}the result of job {plain(job.name)} is WRONG", style="bold yellow")
            yield Text(f"    expected: {_shown(job.expected)}", no_wrap=True)
            yield Text(f"    it gave:  {_shown(job.result)}", no_wrap=True)
        problems: dict[str, list[str]] = {}
        for job in run.unchecked:
            problems.setdefault(job.unchecked, []).append(job.name)
        for problem, names in problems.items():
            said = f"{of}the result of {_jobs(names)} was not checked: verify: {plain(problem)}"
            yield Text(said, style="bold yellow")


def _failed(run: Run, of: str) -> Iterator[Text]:
    """Jobs that ended alike are told once."""
    alike: dict[tuple[str, str], list[JobOutcome]] = {}
    for job in run.failed:
        alike.setdefault((state_text(job), job.error), []).append(job)
    for (state, error), jobs in list(alike.items())[:MOST_TOLD]:
        said = cause(error, jobs[0].exit_code)
        cancelled = "was cancelled" if len(jobs) == 1 else "were cancelled"
        ended = cancelled if jobs[0].state is JobState.CANCELLED else state
        head = f"{of}{_jobs([job.name for job in jobs])} {ended}"
        yield Text(head + (f": {said}" if said else ""), style="bold yellow")
        yield from (Text(f"    {line}", no_wrap=True) for line in details(error))
    if left := sum(len(jobs) for jobs in list(alike.values())[MOST_TOLD:]):
        yield Text(
            f"{of}{count(left, 'job')} more did not complete; the table names them", style="bold yellow"
        )


def _jobs(names: Sequence[str]) -> str:
    return f"{'job' if len(names) == 1 else 'jobs'} {names_text(names)}"


def _shown(result: str | None) -> str:
    return "nothing" if result is None else shorten(result, RESULT_CHARACTERS)

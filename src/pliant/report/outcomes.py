"""What became of a job, in a few signs: for tables in a terminal and on a page."""

from __future__ import annotations

from pliant.history.metrics import JobOutcome
from pliant.model.jobs import JobState
from pliant.report.runs import Run

SIGNS = {"expand": "▲", "shrink": "▼", "migrate": "⇄", "slots": "◐"}
"""Of the kinds of resizes."""
RESULT_WIDTH = 24
"""Of a result that is shown; report.json has all of it."""


def state_text(job: JobOutcome) -> str:
    """``FAILED (3)``; a job that was ended from outside has the code of the signal, which tells nothing."""
    failed = job.state is JobState.FAILED and job.exit_code
    return f"{job.state} ({job.exit_code})" if failed else str(job.state)


def sizes_text(run: Run, number: int) -> str:
    """The sizes a job has had, with a sign between that says which way: ``2 ▲ 4 ▼ 1``."""
    job = run.jobs[number]
    done = [resize for resize in job.resizes if resize.outcome == "done" and resize.kind != "slots"]
    if not done:
        size = run.first_size(number)
        return str(size) if size else "-"
    parts = [str(done[0].before)]
    parts += [f"{SIGNS[resize.kind]} {resize.after}" for resize in done]
    return " ".join(parts)

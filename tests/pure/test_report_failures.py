"""What people see of a job that did not do what it should: a line in the table, all of it below."""

from __future__ import annotations

import pytest
from report_runs import RAISED, one_resize
from rich.console import Console

from pliant.core import records as r
from pliant.model.jobs import Bounds, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.page.html import page
from pliant.policy.view import Reason
from pliant.report.runs import Run
from pliant.terminal.events import EventTexts
from pliant.terminal.failures import MOST_TOLD, told
from pliant.terminal.tables import job_table

End = tuple[JobState, int, str]


def run_that_ended(*ends: End, name: str = "job") -> Run:
    """A run of one-node jobs that ended so, a second after one another."""
    records: list[r.Record] = [r.NodesGranted(0.0, NodeSet.first(len(ends)))]
    for number in range(1, len(ends) + 1):
        records.append(r.JobSubmitted(0.0, number, JobSpec(name=f"{name}{number}", nodes=Bounds.exactly(1))))
        records.append(r.JobStarted(0.0, number, NodeSet.of([number - 1]), Reason("fits")))
    for number, (state, code, error) in enumerate(ends, 1):
        nodes = NodeSet.of([number - 1])
        records.append(r.JobEnded(float(number), number, state, code, nodes, None, error))
    return Run("malleable", "malleable", [f"n{i}" for i in range(len(ends))], records)


def table(run: Run, width: int = 80) -> list[str]:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(job_table(run, width))
    return capture.get().splitlines()


def below(*runs: Run) -> list[str]:
    return [line.plain for line in told(runs)]


def live(run: Run) -> list[str]:
    names = EventTexts(run.names)
    return [event.text for record in run.records if (event := names.tell(record)) is not None]


@pytest.mark.parametrize("width", [80, 120])
def test_a_traceback_takes_one_line_of_the_table(width: int) -> None:
    lines = table(run_that_ended((JobState.FAILED, 1, RAISED), (JobState.COMPLETED, 0, "")), width)
    assert len(lines) == 3, lines
    assert "FAILED (1)" in lines[1]
    assert "ValueError: no" in lines[1]
    assert not any("\N{REPLACEMENT CHARACTER}" in line or "Traceback" in line for line in lines)


def test_below_the_table_stands_all_of_it_in_lines_of_its_own() -> None:
    assert below(one_resize()) == [
        "job head FAILED (3): ValueError: no; rank 0 of group 0 on n1 exited with 3",
        "    Traceback (most recent call last):",
        '      File "head.py", line 3, in <module>',
        '            raise ValueError("no")',
        "    ValueError: no",
        "    Abort(3) on node 0 (rank 0 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 0",
    ]
    assert below(one_resize(), one_resize())[0].startswith("malleable: job head FAILED (3)")


def test_the_reason_is_the_first_line_of_the_error_wherever_one_line_is_shown() -> None:
    run = run_that_ended((JobState.FAILED, 3, RAISED))
    assert live(run)[-1] == (
        "job1 ended as FAILED (exit code 3) after 1.00 s: ValueError: no; rank 0 of group 0 on n1 exited with 3"
    )
    text = page([run])
    assert "ValueError: no; rank 0 of group 0 on n1 exited with 3" in text
    assert "MPI_Abort" not in text


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (135, "rank 0 of group 0 on n1 was ended by signal 7"),
        (1, "rank 0 exited with 1\nCaught signal 7 (Bus error)"),
    ],
)
def test_a_bus_error_points_to_the_doctor(code: int, error: str) -> None:
    run = run_that_ended((JobState.FAILED, code, error))
    for line in (live(run)[-1], below(run)[0], page([run])):
        assert "/dev/shm is full: see pliant doctor" in line
    other = run_that_ended((JobState.FAILED, 1, "rank 7 of group 7 was ended by signal 70"))
    assert "doctor" not in below(other)[0]


def test_jobs_that_were_ended_are_not_said_to_have_failed_with_the_signal() -> None:
    run = run_that_ended(
        (JobState.CANCELLED, 137, "ended by SIGINT"),
        (JobState.CANCELLED, 137, "ended by SIGINT"),
        (JobState.TIMEOUT, 143, "walltime of 5 s is over"),
    )
    assert below(run) == [
        "jobs job1, job2 were cancelled: ended by SIGINT",
        "job job3 TIMEOUT: walltime of 5 s is over",
    ]
    assert live(run)[-1] == "job3 ended as TIMEOUT after 3.00 s: walltime of 5 s is over"
    assert "(143)" not in "".join([*table(run), page([run])])


def test_many_failures_are_told_in_part() -> None:
    run = run_that_ended(*((JobState.FAILED, 1, f"reason {i}\nlast words") for i in range(MOST_TOLD + 3)))
    lines = below(run)
    assert len(lines) == 2 * MOST_TOLD + 1
    assert lines[-1] == "3 jobs more did not complete; the table names them"


def test_an_exception_that_holds_an_array_does_not_fill_the_screen() -> None:
    run = run_that_ended((JobState.FAILED, 1, f"ValueError: {'0.0, ' * 10_000}"))
    assert max(map(len, [*below(run), *live(run)])) < 600


def test_a_job_cannot_forge_lines_or_move_the_cursor() -> None:
    run = run_that_ended((JobState.FAILED, 1, "why\x1b[2J\nlast\x07\rwords"), name="x\x1b]0;")
    assert all(ord(c) >= 32 for line in [*below(run), *table(run), *live(run)] for c in line)


def test_a_job_that_is_cancelled_has_its_whole_reason_in_the_table_and_below_it() -> None:
    why = "it needs 4 nodes, and 3 are left (n2 was lost at 12.3 s)"
    run = Run(
        "m",
        "p",
        ["n0"],
        [
            r.JobSubmitted(0.0, 1, JobSpec(name="wide", nodes=Bounds.exactly(4))),
            r.JobEnded(13.0, 1, JobState.CANCELLED, 0, NodeSet(), None, why),
        ],
    )
    lines = table(run)
    assert why in " ".join(" ".join(line[lines[0].index("result") :] for line in lines[1:]).split())
    assert below(run) == [f"job wide was cancelled: {why}"]
    assert why in page([run])

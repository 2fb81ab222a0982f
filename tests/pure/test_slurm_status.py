"""What Slurm is asked about an allocation, and what its answers mean."""

from __future__ import annotations

import pytest

from pliant.drivers.slurm import AllocationOver, Status, how_ended, question, seconds_of, status_of
from pliant.model.jobs import JobState


def test_a_status_is_asked_for_in_a_line() -> None:
    assert question("12") == ["squeue", "--noheader", "--jobs=12", "--format=%A|%T|%r|%L"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("12|RUNNING|None|1:00\n", Status("RUNNING", "", 60.0)),
        ("12|RUNNING|None|INVALID\n", Status("RUNNING", "", 0.0)),
        ("12|RUNNING|None|UNLIMITED", Status("RUNNING", "", None)),
        ("12|COMPLETING|TimeLimit|INVALID\n", Status("COMPLETING", "TimeLimit", 0.0)),
        ("11|RUNNING|None|1:00\n12|COMPLETING|None|0:00\n", Status("COMPLETING", "", 0.0)),
        ("11|RUNNING|None|1:00\n", None),
        ("slurm_load_jobs error: Unable to contact slurm controller\n", None),
        ("", None),
    ],
)
def test_an_answer_is_read_or_says_nothing(answer: str, status: Status | None) -> None:
    assert status_of("12", answer) == status


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:05", 5.0),
        ("59:59", 3599.0),
        ("2:00:00", 7200.0),
        ("1-02:03:04", 93784.0),
        ("NOT_SET", None),
        ("", None),
    ],
)
def test_time_is_read_as_slurm_writes_it(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("status", "over"),
    [
        (
            Status("COMPLETING", "TimeLimit"),
            AllocationOver("Slurm job 7 has come to its time limit", JobState.TIMEOUT),
        ),
        (Status("TIMEOUT"), AllocationOver("Slurm job 7 has come to its time limit", JobState.TIMEOUT)),
        (Status("COMPLETING"), AllocationOver("Slurm job 7 was cancelled", JobState.CANCELLED)),
        (Status("CANCELLED"), AllocationOver("Slurm job 7 was cancelled", JobState.CANCELLED)),
        (Status("PREEMPTED"), AllocationOver("Slurm has ended job 7: PREEMPTED", JobState.CANCELLED)),
        (
            Status("COMPLETING", "NodeDown"),
            AllocationOver("Slurm has ended job 7: NodeDown", JobState.CANCELLED),
        ),
    ],
)
def test_how_an_allocation_has_ended_is_told_in_words(status: Status, over: AllocationOver) -> None:
    assert status.is_over
    assert how_ended("7", status) == over


def test_an_allocation_that_runs_or_is_stopped_is_not_over() -> None:
    assert not any(Status(state).is_over for state in ("RUNNING", "SUSPENDED", "SIGNALING", "RESIZING"))

"""Real MPI jobs with loops of their own, which ask the scheduler by job.check() and do what it says by job.resize()."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import PROGRAMS, BatchRun, is_right, job

Start = Callable[..., BatchRun]
KEEP = 'policy = "easy"\ncooldown_s = 0'
SIZES = "{ min = 1, max = 4 }"


def owns(late_s: float, timeout_s: float) -> str:
    return job("owns", f"python {PROGRAMS / 'owns.py'} {late_s} {timeout_s}", SIZES)


def test_a_loop_of_its_own_grows_and_shrinks_and_its_result_is_right(start: Start) -> None:
    ends = start(f"nodes = 4\n{KEEP}", owns(0, 30)).finish()["owns"]
    steps, found, *seen = ends["result"].split()
    assert is_right(f"{steps} {found}")
    assert seen == ["EXPAND:1-3", "SHRINK:3-1"]
    assert [(x["from"], x["to"], x["outcome"]) for x in ends["resizes"]] == [(1, 3, "done"), (3, 1, "done")]


def test_newcomers_that_are_late_are_called_off_and_the_job_is_as_before(start: Start) -> None:
    ends = start(f"nodes = 4\n{KEEP}", owns(60, 0.5)).finish()["owns"]
    steps, found, *seen = ends["result"].split()
    assert is_right(f"{steps} {found}")
    assert not seen
    [resize] = ends["resizes"]
    assert (resize["from"], resize["to"], resize["outcome"]) == (1, 3, "failed")


@pytest.mark.parametrize(
    ("how", "told"),
    [("bounds", "job.check() differs in its arguments"), ("action", "the last check said NONE")],
)
def test_ranks_that_err_are_all_told_and_the_job_goes_on(start: Start, how: str, told: str) -> None:
    run = start(f"nodes = 1\nslots = 2\n{KEEP}", job("a", f"python {PROGRAMS / 'unlike.py'} {how}", SIZES))
    assert run.finish()["a"]["result"] == "as it was", run.story()
    said = "".join(path.read_text() for path in run.out.glob("*.log"))
    assert all(f"rank {rank} is told:" in said for rank in range(2)), said
    assert said.count(told) == 2


def test_a_check_by_one_rank_of_two_ends_the_job_even_where_that_rank_goes_on(start: Start) -> None:
    run = start(f"nodes = 1\nslots = 2\n{KEEP}", job("a", f"python {PROGRAMS / 'unlike.py'} some", SIZES))
    assert run.finish(None)["a"]["state"] == "FAILED"
    said = "".join(path.read_text() for path in run.out.glob("*.log"))
    assert said.count("rank 0 is at job.check(), rank 1 at the end of the block") >= 1, said

"""Real MPI jobs with loops of their own, which ask the scheduler by job.check() and do what it says by job.resize()."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from harness import PROGRAMS, BatchRun, is_right, job

from pliant.core import records as r

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
    [
        ("bounds", "job.check() differs in its arguments"),
        ("action", "the last check said NO_ACTION"),
        pytest.param("time", "job.check() differs in its arguments", marks=pytest.mark.long),
        pytest.param(
            "nothing",
            "job.resize(None): the last check said NO_ACTION; pass what job.check() returned",
            marks=pytest.mark.long,
        ),
        pytest.param("kinds", "rank 0 is at job.check(), rank 1 at job.icheck()", marks=pytest.mark.long),
        pytest.param(
            "forgotten",
            "the check before said EXPAND, and job.resize() was not called: call it",
            marks=pytest.mark.long,
        ),
        pytest.param("halves", "rank 0 is at job.resize(), rank 1 at job.check()", marks=pytest.mark.long),
    ],
)
def test_ranks_that_err_are_all_told_and_the_job_goes_on(start: Start, how: str, told: str) -> None:
    run = start(f"nodes = 2\nslots = 2\n{KEEP}", job("a", f"python {PROGRAMS / 'unlike.py'} {how}", SIZES))
    assert run.finish()["a"]["result"] == "as it was", run.story()
    said = "".join(path.read_text() for path in run.out.glob("*.log"))
    assert all(f"rank {rank} is told:" in said for rank in range(2)), said
    assert said.count(told) == 2


def test_a_check_by_one_rank_of_two_ends_the_job_even_where_that_rank_goes_on(start: Start) -> None:
    run = start(f"nodes = 1\nslots = 2\n{KEEP}", job("a", f"python {PROGRAMS / 'unlike.py'} some", SIZES))
    assert run.finish(None)["a"]["state"] == "FAILED"
    said = "".join(path.read_text() for path in run.out.glob("*.log"))
    assert said.count("rank 0 is at job.check(), rank 1 at the end of the block") >= 1, said


def ahead(how: str) -> str:
    return job("ahead", f"python {PROGRAMS / 'ahead.py'} {how}", SIZES)


@pytest.mark.long
def test_what_an_icheck_asks_comes_at_a_later_one(start: Start) -> None:
    ends = start(f"nodes = 4\n{KEEP}", ahead("both")).finish()["ahead"]
    steps, found, *seen = ends["result"].split()
    assert is_right(f"{steps} {found}")
    assert seen == ["EXPAND", "SHRINK"]
    assert int(steps) < 4000
    assert [(x["from"], x["to"], x["outcome"]) for x in ends["resizes"]] == [(1, 3, "done"), (3, 1, "done")]


@pytest.mark.long
def test_newcomers_have_their_time_from_when_the_offer_is_seen(start: Start) -> None:
    """The turns of the loop are longer than that, and nobody looks in between."""
    ends = start(f"nodes = 4\n{KEEP}", ahead("slow")).finish()["ahead"]
    steps, found, *seen = ends["result"].split()
    assert is_right(f"{steps} {found}")
    assert seen == ["EXPAND", "SHRINK"]
    assert [(x["from"], x["to"], x["outcome"]) for x in ends["resizes"]] == [(1, 3, "done"), (3, 1, "done")]


@pytest.mark.long
def test_an_expansion_that_an_icheck_asked_for_is_called_off_if_it_takes_too_long(start: Start) -> None:
    ends = start(f"nodes = 4\n{KEEP}", ahead("late")).finish()["ahead"]
    steps, found, *seen = ends["result"].split()
    assert is_right(f"{steps} {found}")
    assert not seen
    assert ends["resizes"][0]["outcome"] == "failed"


def test_what_is_open_at_the_end_is_dropped(start: Start) -> None:
    """200 turns are over before newcomers can be there, or they are: it is right in both cases."""
    ends = start(f"nodes = 4\n{KEEP}", ahead("open")).finish()["ahead"]
    steps, found, *_ = ends["result"].split()
    assert is_right(f"{steps} {found}")


def test_ranks_that_do_not_icheck_alike_are_told_and_nothing_comes_of_it(start: Start) -> None:
    run = start(f"nodes = 4\nslots = 2\n{KEEP}", ahead("unlike"))
    ends = run.finish()["ahead"]
    steps, found, *seen = ends["result"].split()
    assert is_right(f"{steps} {found}")
    assert not seen
    said = "".join(path.read_text() for path in run.out.glob("*.log"))
    assert all(f"rank {rank} is told:" in said for rank in range(2)), said
    assert said.count("job.icheck() differs in its arguments") == 2
    assert not [x for x in ends["resizes"] if x["outcome"] == "done"]


@pytest.mark.parametrize(
    ("variable", "value", "turn_s"), [("PLIANT_INHIBIT_STEPS", "10", 0), ("PLIANT_INHIBIT", "0.2", 0.002)]
)
def test_an_inhibited_check_asks_nothing(start: Start, variable: str, value: str, turn_s: float) -> None:
    turns = 40 if variable.endswith("STEPS") else 300
    command = f"env {variable}={value} python {PROGRAMS / 'inhibited.py'} {turns} {turn_s}"
    run = start(f"nodes = 1\nslots = 2\n{KEEP}", job("a", command, SIZES))
    asked, median_s, whole_s = run.finish()["a"]["result"].split()
    assert float(median_s) < 1e-3
    at = [int(turn) for turn in asked.split(",")]
    if variable.endswith("STEPS"):
        assert at == [10, 20, 30, 40]
    else:
        assert 1 <= len(at) <= float(whole_s) / 0.2


def inhibited_steps(start: Start, flag: Path, seconds: float) -> list[r.AnyRecord]:
    command = f"env PLIANT_INHIBIT={seconds} python {PROGRAMS / 'until.py'} {flag}"
    run = start('nodes = 2\npolicy = "easy"\ncooldown_s = 0', job("a", command, "{ min = 1, max = 2 }"))
    run.wait_for(r.JobMalleable)
    assert run.order("a", "2").returncode == 0
    run.wait_for(r.ResizeDone if seconds < 10 else r.ResizeDeclined)
    flag.touch()
    return run.records()


@pytest.mark.long
def test_in_steps_an_offer_waits_for_the_end_of_the_period(start: Start, tmp_path: Path) -> None:
    records = inhibited_steps(start, tmp_path / "flag", 1.5)
    [began] = [each.at for each in records if isinstance(each, r.JobMalleable)]
    [accepted, *_] = [each.at for each in records if isinstance(each, r.ResizeAccepted)]
    assert accepted - began >= 1.4
    assert not [each for each in records if isinstance(each, r.ResizeDeclined)]


def test_in_steps_an_offer_that_would_outlast_its_deadline_is_declined_at_once(
    start: Start, tmp_path: Path
) -> None:
    records = inhibited_steps(start, tmp_path / "flag", 300)
    [declined, *_] = [each for each in records if isinstance(each, r.ResizeDeclined)]
    assert "its inhibitor (PLIANT_INHIBIT)" in declined.reason
    assert declined.late

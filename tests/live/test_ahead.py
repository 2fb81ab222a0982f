"""Constant data that move while the job computes: what it computes is the same, and whatever fails meanwhile costs the
resize alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from harness import PROGRAMS, BatchRun, job, until

from pliant.core import records as r

Start = Callable[..., BatchRun]

KEEP = 'policy = "easy"'  # never resizes by itself: only orders do
RIGHT = "wrong: []"


def is_resize(number: int, record: r.ResizeDone) -> bool:
    return record.resize == number


def start_run(start: Start, flag: Path, keys: str, mib: int = 64, env: str = "") -> BatchRun:
    program = f"env PLIANT_VERIFY=1 {env} python {PROGRAMS / 'constants.py'} {flag} {mib}"
    run = start(f"nodes = 3\n{KEEP}\n{keys}", job("job", program, "{ min = 1, max = 4 }"))
    run.wait_for(r.JobMalleable)
    return run


def ordered(run: BatchRun, size: int) -> None:
    until(lambda: run.order("job", str(size)).returncode == 0, f"the order to {size} nodes")


@pytest.mark.long
def test_constants_come_through_growth_and_shrink_and_the_job_computes_meanwhile(
    start: Start, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    run = start_run(start, flag, "", 40)
    moved = []
    for number, size in enumerate((2, 3, 1), 1):
        ordered(run, size)
        moved.append(run.wait_for(r.ResizeDone, partial(is_resize, number)))
    flag.touch()
    assert run.finish()["job"]["result"] == RIGHT, run.story()
    for done in moved[:2]:
        # What moves beside the steps is no time in which the job stands still.
        assert sum(done.phases[phase] for phase in ("redistribute", "commit")) > done.blocked_s - 1e-3
    assert moved[2].released


def moving(run: BatchRun, flag: Path, size: int) -> list[int]:
    """The newcomers of the resize to this size, when their constant data are on their way."""
    until(lambda: len(list(flag.parent.glob("moving.*"))) >= size, "constant data to move")
    return [pid for pid, cookie in run.ranks(1).items() if cookie["PLIANT_RESIZE"] != "0"]


@pytest.mark.long
@pytest.mark.parametrize("how", ["dies", "stands still"])
def test_a_newcomer_that_is_lost_meanwhile_costs_the_resize_alone(
    start: Start, tmp_path: Path, how: str
) -> None:
    flag = tmp_path / "flag"
    run = start_run(start, flag, "resize_deadline_s = 6.0", 256, "PLIANT_DEADLINE=9")
    ordered(run, 2)
    for pid in moving(run, flag, 2):
        os.kill(pid, signal.SIGKILL if how == "dies" else signal.SIGSTOP)
    failed = run.wait_for(r.ResizeFailed)
    assert failed.phase == "redistribute"
    flag.touch()
    assert run.finish()["job"]["result"] == RIGHT, run.story()


@pytest.mark.long
def test_a_job_that_ends_meanwhile_ends_well(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = start_run(start, flag, "", 256)
    ordered(run, 3)
    moving(run, flag, 3)
    flag.touch()
    assert run.finish()["job"]["result"] == RIGHT, run.story()
    assert not any(isinstance(each, r.ResizeDone) for each in run.records())


@pytest.mark.long
def test_a_rank_that_cannot_move_its_own_fails_the_resize_alone(start: Start, tmp_path: Path) -> None:
    flag, given = tmp_path / "flag", tmp_path / "given"
    run = start_run(start, flag, "", 64, f"GIVEN={given}")
    given.touch()
    until(lambda: not given.exists(), "the program to give its memory back")
    ordered(run, 2)
    failed = run.wait_for(r.ResizeFailed)
    assert "rank 0: " in failed.error
    assert "given its memory back" in failed.error
    flag.touch()
    run.finish()

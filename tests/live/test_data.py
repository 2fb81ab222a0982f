"""Data of all layouts in jobs that change size, against what a serial program has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from harness import PROGRAMS, BatchRun, job

from pliant.apps.heat import solve_serial
from pliant.core import records as r
from pliant_lab.measure.trials import MPIEXEC

Start = Callable[..., BatchRun]
KEEP = 'policy = "easy"'  # never resizes by itself: only orders do
VERIFIED = "env PLIANT_VERIFY=1 python"
DISAGREE = """
from mpi4py import MPI
from pliant import mpi
import os
with mpi.malleable() as job:
    job.array("rows", (5 + int(os.environ["PLIANT_GROUP"]),))
    for step in job.steps(1):
        print("computed")
"""


def test_every_layout_comes_through_growth_and_shrinks(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    shared = VERIFIED.replace(" python", " PLIANT_REDISTRIBUTE=shared python")
    program = f"{shared} {PROGRAMS / 'layouts.py'} 1000000 {flag}"
    run = start(f"nodes = 3\n{KEEP}", job("job", program, "{ min = 1, max = 4 }"))
    run.wait_for(r.JobMalleable)
    for number, (size, leave) in enumerate(((3, ""), (2, "n0")), 1):
        ordered = run.order("job", str(size), *(("--leave", leave) if leave else ()))
        assert ordered.returncode == 0, ordered.stderr
        done = run.wait_for(r.ResizeDone, partial(_is, number))
        if done.released:
            run.wait_for(r.NodesClean, partial(_after, done.at))
    flag.touch()
    ends = run.finish()["job"]
    assert ends["result"] == "wrong: [], resizes: 1-3 3-2", run.story()


def _is(number: int, done: r.ResizeDone) -> bool:
    return done.resize == number


def _after(at: float, clean: r.NodesClean) -> bool:
    return clean.at > at


def test_every_layout_comes_through_resizes_of_its_own() -> None:
    env = {"PLIANT_VERIFY": "1", "PLIANT_REDISTRIBUTE": "alltoall", "PLIANT_RESIZE_AT": "2:4,4:2,6:3,8:1"}
    ran = subprocess.run(
        [MPIEXEC, "-launcher", "fork", "-n", "1", sys.executable, str(PROGRAMS / "layouts.py"), "10"],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.strip()) == (0, "wrong: [], resizes: 1-4 4-2 2-3 3-1"), ran.stderr


def test_every_layout_is_right_on_four_ranks_of_mpiexec_and_so_is_the_plate() -> None:
    for words, said in (
        ([str(PROGRAMS / "layouts.py"), "3"], "wrong: [], resizes:"),
        (
            ["-m", "pliant.apps.heat", "--rows", "64", "--cols", "64", "--steps", "20"],
            solve_serial(64, 64, 20),
        ),
    ):
        ran = subprocess.run(
            [MPIEXEC, "-n", "4", sys.executable, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ran.returncode, ran.stdout.strip()) == (0, said), ran.stderr


@pytest.mark.long
def test_what_is_not_the_same_after_a_resize_fails_it_and_the_job_goes_on_as_it_was(
    start: Start, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    (tmp_path / "disagree.py").write_text(DISAGREE)
    torn = f"{VERIFIED} {PROGRAMS / 'torn.py'} {flag}"
    run = start(
        f"nodes = 6\n{KEEP}",
        job("grows", torn, "{ min = 1, max = 2 }"),
        job("shrinks", torn, "{ min = 1, max = 2, preferred = 2 }"),
        job("disagrees", f"python {tmp_path / 'disagree.py'}", "2"),
    )
    said = "PLIANT_VERIFY: 'counters' would not have been the same after the resize as before"
    for number, (name, size) in enumerate((("grows", "2"), ("shrinks", "1")), 1):
        run.wait_for(r.JobMalleable, partial(_of, number))
        ordered = run.order(name, size)
        assert ordered.returncode == 0, ordered.stderr
        failed = run.wait_for(r.ResizeFailed, partial(_of, number))
        assert said in failed.error, run.story()
    flag.touch()
    jobs = run.finish(code=1)
    assert re.fullmatch(r"\[(1, )*1\] \[7\] True", jobs["grows"]["result"]), run.story()
    assert re.fullmatch(r"\[(2, )*2\] \[7, 7\] True", jobs["shrinks"]["result"]), run.story()
    log = (run.out / "disagrees.log").read_text()
    for rank, rows in enumerate((5, 6)):
        assert (
            f"those of rank 1 differ from those of rank 0; here, on rank {rank}, there are arrays [('rows', ({rows},)"
            in log
        ), log
    assert "computed" not in log


def _of(number: int, record: r.JobMalleable | r.ResizeFailed) -> bool:
    return record.job == number

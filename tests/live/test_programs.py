"""Programs that do what comes naturally and cannot be right: they are told so, and nothing else is harmed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from harness import BatchRun, job

from pliant.core import records as r

Start = Callable[..., BatchRun]

ONE_BLOCK = "a program has one `with mpi.malleable()` block"
TWICE = """
from pliant import mpi
for _ in range(2):
    with mpi.malleable(min=1, max=4) as job:
        for step in job.steps(3):
            pass
"""
NESTED = """
from pliant import mpi
with mpi.malleable(min=1, max=4) as job:
    for step in job.steps(3):
        with mpi.malleable(min=1, max=4):
            pass
"""
IN_PLACE = """
import pathlib, sys, time
from pliant import mpi
flag = pathlib.Path(sys.argv[1])
with mpi.malleable(min=1, max=2) as job:
    seen = job.value("seen", [])
    if job.fresh:
        seen.value.append(lambda: 0)
    for step in job.steps(1_000_000):
        time.sleep(0.005)
        if flag.exists():
            break
    job.result(f"{job.size} {len(seen.value)}")
"""
WIDE = """
import time
import numpy as np
from mpi4py import MPI
from pliant import mpi
with mpi.malleable(min=1) as job:
    grid, marks = job.array("grid", (2, 3), "f8", mpi.Block(halo=1)), job.array("marks", (2,), "i4")
    done = job.value("done", [])
    if job.fresh:
        grid.local[...] = 1
        marks.local[...] = 1
        done.value = [0]
        kept = grid.owned
    for step in job.steps(1_000_000):
        time.sleep(0.005)
        arrived = done.value == [step] and grid.local.shape == (2, 3) and grid.local.all()
        done.value = [step + 1]
        if job.nodes == 2:
            break
    arrived = job.comm.allreduce(arrived, MPI.LAND)
    whole = grid.gather()
    if whole is not None:
        job.result(f"{job.size} {whole.sum():.0f} {np.isnan(kept).all()} {kept.flags.writeable} {arrived}")
"""


@pytest.mark.long
def test_programs_that_cannot_be_right_are_told_so(start: Start, tmp_path: Path) -> None:
    def program(name: str, text: str) -> str:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        return f"python {path}"

    run = start(
        "nodes = 14\ncooldown_s = 60",
        job("twice", program("twice", TWICE), "{ min = 2, max = 3 }"),
        job("nested", program("nested", NESTED), "2"),
        job("inplace", f"{program('inplace', IN_PLACE)} {tmp_path / 'flag'}", "{ min = 1, max = 2 }"),
        job("wide", program("wide", WIDE), "{ min = 1, max = 2 }"),
        job("moldable", program("wide", WIDE), "{ min = 2, max = 3 }", **{"class": "moldable"}),
        job("tall", program("wide", WIDE), "{ min = 1, max = 3 }"),
    )
    run.wait_for(r.ResizeFailed, lambda x: "the value 'seen' cannot be pickled" in x.error)
    (tmp_path / "flag").touch()
    jobs = run.finish(code=1)
    for name in ("twice", "nested"):
        assert (jobs[name]["state"], jobs[name]["exit_code"]) == ("FAILED", 1)
        assert ONE_BLOCK in jobs[name]["error"]
    assert (jobs["inplace"]["state"], jobs["inplace"]["result"]) == ("COMPLETED", "1 1")
    [growth] = jobs["inplace"]["resizes"]
    assert growth["outcome"] == "failed"
    assert (jobs["wide"]["state"], jobs["wide"]["result"]) == ("COMPLETED", "2 6 True False True")
    assert (jobs["moldable"]["state"], jobs["moldable"]["result"]) == ("COMPLETED", "2 6 False True True")
    # Without a max of its own a program grows no further than its rows.
    assert (jobs["tall"]["state"], jobs["tall"]["result"]) == ("COMPLETED", "2 6 True False True")
    named = [line for line in (run.out / "wide.log").read_text().splitlines() if line.startswith("pliant: ")]
    assert len(named) == 1
    assert "the job went from 1 to 2 nodes, and on 1 of its ranks the program still holds" in named[0]
    assert "array 'grid'" in named[0]

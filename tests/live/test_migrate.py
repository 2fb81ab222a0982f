"""Real MPI jobs that move to other nodes while they run, and go on with their data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness import PROGRAMS, BatchRun, is_right, job, until, until_told

from pliant.core import records as r
from pliant.model.nodes import NodeSet

Start = Callable[..., BatchRun]
KEEP = 'policy = "easy"\ncooldown_s = 0'  # never resizes by itself: only orders do


def is_resize(number: int, record: r.ResizeDone) -> bool:
    return record.resize == number


def moved(run: BatchRun, number: int, *words: str) -> r.ResizeDone:
    """Resize ``number`` of the run is ordered, when the nodes of those before are clean."""
    until(lambda: run.order(*words).returncode == 0, f"order {number}")
    done: r.ResizeDone = run.wait_for(r.ResizeDone, partial(is_resize, number))
    return done


def test_every_layout_moves_with_its_ranks(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    program = f"env PLIANT_VERIFY=1 python {PROGRAMS / 'layouts.py'} 1000000 {flag}"
    run = start(f"nodes = 5\n{KEEP}", job("a", program, "{ min = 1, max = 4, preferred = 2 }"))
    run.wait_for(r.JobMalleable)
    one = moved(run, 1, "a", "2", "--leave", "n0")  # the root's
    assert (one.gained, one.released, one.root) == (NodeSet.of([2]), NodeSet.of([0]), 2)
    all_of_them = moved(run, 2, "a", "2", "--leave", "n[1-2]")
    assert all_of_them.released == NodeSet.of([1, 2])
    assert all_of_them.root > 2
    flag.touch()
    assert run.finish()["a"]["result"] == "wrong: [], resizes: 2-2 2-2", run.story()


def test_a_solver_that_moves_has_the_result_of_a_serial_run(start: Start, tmp_path: Path) -> None:
    run = start(
        f"nodes = 4\nslots = 2\n{KEEP}",
        until_told("a", "{ min = 1, max = 3, preferred = 2 }", tmp_path / "flag"),
    )
    run.wait_for(r.JobMalleable)
    moved(run, 1, "a", "2", "--leave", "n1")
    moved(run, 2, "a", "2", "--leave", "n0")
    moved(run, 3, "a", "2", "--leave", "n[1-2]")
    (tmp_path / "flag").touch()
    ends = run.finish()["a"]
    assert is_right(ends["result"])
    assert [(x["kind"], x["outcome"]) for x in ends["resizes"]] == [("migrate", "done")] * 3

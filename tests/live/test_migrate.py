"""Real MPI jobs that move to other nodes while they run, and go on with their data."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from harness import PROGRAMS, BatchRun, is_right, job, pliant, until, until_told

from pliant.core import records as r
from pliant.core.moving import ASKED_BACK
from pliant.model.nodes import NodeSet

Start = Callable[..., BatchRun]
KEEP = 'policy = "easy"\ncooldown_s = 0'  # never resizes by itself: only orders do


def is_resize(number: int, record: r.ResizeDone | r.ResizeFailed) -> bool:
    return record.resize == number


def moved(run: BatchRun, number: int, *words: str) -> r.ResizeDone:
    """Resize ``number`` of the run is ordered, when the nodes of those before are clean."""
    until(lambda: "ordered to move" in pliant(run, "migrate", "a", *words), f"order {number}")
    done: r.ResizeDone = run.wait_for(r.ResizeDone, partial(is_resize, number))
    return done


@pytest.mark.long
def test_every_layout_moves_with_its_ranks(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    program = f"env PLIANT_VERIFY=1 python {PROGRAMS / 'layouts.py'} 1000000 {flag}"
    run = start(f"nodes = 5\n{KEEP}", job("a", program, "{ min = 1, max = 4, preferred = 2 }"))
    run.wait_for(r.JobMalleable)
    one = moved(run, 1, "--leave", "n0")  # the root's
    assert (one.gained, one.released, one.root) == (NodeSet.of([2]), NodeSet.of([0]), 2)
    all_of_them = moved(run, 2)
    assert all_of_them.released == NodeSet.of([1, 2])
    assert all_of_them.root > 2
    flag.touch()
    assert run.finish()["a"]["result"] == "wrong: [], resizes: 2-2 2-2", run.story()


@pytest.mark.long
def test_a_solver_that_moves_there_and_back_has_the_result_of_a_serial_run(
    start: Start, tmp_path: Path
) -> None:
    run = start(
        f"nodes = 4\nslots = 2\n{KEEP}",
        until_told("a", "{ min = 1, max = 3, preferred = 2 }", tmp_path / "flag"),
    )
    run.wait_for(r.JobMalleable)
    assert "n3 is none of the nodes of job 1, which holds n[0-1]" in pliant(
        run, "migrate", "a", "--leave", "n3"
    )
    moved(run, 1, "--leave", "n1")
    assert not run.order("a", "--slots", "n0=1").returncode
    run.wait_for(r.ResizeDone, partial(is_resize, 2))
    moved(run, 3, "--leave", "n0")  # with a rank that sleeps there
    moved(run, 4)
    (tmp_path / "flag").touch()
    ends = run.finish()["a"]
    assert is_right(ends["result"])
    assert [(x["kind"], x["outcome"]) for x in ends["resizes"]] == [
        (kind, "done") for kind in ("migrate", "slots", "migrate", "migrate")
    ]


@pytest.mark.long
def test_newcomers_that_die_while_a_job_moves_leave_it_where_it_was(start: Start, tmp_path: Path) -> None:
    flag, plan = tmp_path / "flag", tmp_path / "plan"
    program = f"python {PROGRAMS / 'killed.py'} {flag} {plan}"
    run = start(f"nodes = 2\n{KEEP}", job("a", program, "{ min = 1, max = 2 }"))
    plan.write_text("none start 0")
    run.wait_for(r.JobMalleable)
    for number, (words, phase) in enumerate(
        {"0 connect 0": "connect", "0 merged 0": "reorder", "0 data 0": "redistribute"}.items(), 1
    ):
        plan.write_text(words)
        until(lambda: "ordered to move" in pliant(run, "migrate", "a"), f"order {number}")
        failed: r.ResizeFailed = run.wait_for(r.ResizeFailed, partial(is_resize, number))
        assert failed.phase == phase, failed
    plan.write_text("none start 0")
    assert moved(run, 4).released == NodeSet.of([0])
    flag.touch()
    assert is_right(run.finish()["a"]["result"])


@pytest.mark.long
def test_a_node_that_is_asked_back_is_emptied(start: Start, tmp_path: Path) -> None:
    run = start(
        f"nodes = 3\n{KEEP}",
        until_told("a", "{ min = 1, max = 3, preferred = 2 }", tmp_path / "flag"),
    )
    run.wait_for(r.JobMalleable)
    said = pliant(run, "nodes", "remove", "n0")
    emptied = "n0 will be given back; job 1 (a) is asked to move from n0 to 1 free node"
    assert said == f"run {run.run}: {emptied}\n"
    run.wait_for(r.NodesReturned, lambda record: record.nodes == NodeSet.of([0]))
    said = pliant(run, "nodes", "remove", "n1", "--json")
    emptied = "n1 will be given back; job 1 (a) is asked to leave n1 and go from 2 to 1 node"
    assert json.loads(said) == {"run": run.run, "nodes": ["n1"], "text": emptied}
    run.wait_for(r.NodesReturned, lambda record: record.nodes == NodeSet.of([1]))
    assert {each.reason.code for each in run.records() if isinstance(each, r.ResizeOffered)} == {ASKED_BACK}
    (tmp_path / "flag").touch()
    ends = run.finish()["a"]
    assert is_right(ends["result"])
    assert [(x["kind"], x["outcome"]) for x in ends["resizes"]] == [("migrate", "done"), ("shrink", "done")]

"""Real MPI processes that grow and shrink, under the policy and by order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from harness import PROGRAMS, BatchRun, heat, is_right, job, until, until_told

from pliant.core import records as r
from pliant.model.jobs import JobState
from pliant.model.nodes import NodeSet

Start = Callable[..., BatchRun]


def is_resize(number: int, record: r.ResizeDone) -> bool:
    return record.resize == number


def is_after(at: float, record: r.Record) -> bool:
    return record.at >= at


KEEP = 'policy = "easy"'  # never resizes by itself: only orders do


def test_a_lone_malleable_job_grows_to_what_is_free_and_its_result_is_right(
    start: Start, tmp_path: Path
) -> None:
    run = start("nodes = 4", until_told("solo", "{ min = 1, max = 4 }", tmp_path / "flag"))
    run.wait_for(r.ResizeDone)
    (tmp_path / "flag").touch()
    job = run.finish()["solo"]
    assert is_right(job["result"])
    assert [(x["from"], x["to"], x["outcome"]) for x in job["resizes"]] == [(1, 4, "done")]
    assert job["resizes"][0]["blocked_s"] > 0


@pytest.mark.long
def test_a_job_shrinks_for_the_one_that_waits_and_grows_again(start: Start, tmp_path: Path) -> None:
    run = start(
        "nodes = 4\ncooldown_s = 0.1",
        until_told("long", "{ min = 1, max = 4 }", tmp_path / "flag", walltime=600),
        heat("late", "2", submit=10.0, work_s=2.0),  # when the other has long grown
    )
    run.wait_for(r.ResizeDone, partial(is_resize, 3))
    (tmp_path / "flag").touch()
    jobs = run.finish()
    assert is_right(jobs["long"]["result"])
    assert jobs["late"]["verified"] is True
    done = [(x["from"], x["to"]) for x in jobs["long"]["resizes"] if x["outcome"] == "done"]
    assert done == [(1, 4), (4, 2), (2, 4)]
    assert jobs["long"]["resizes"][1]["reason"]["code"] == "shrink_for_head"


@pytest.mark.long
def test_under_entitled_who_is_due_gets_what_the_other_has_beyond_its_own(
    start: Start, tmp_path: Path
) -> None:
    """It begins on all that is idle, and is entitled to its preferred two; nobody waits, and nobody is behind."""
    run = start(
        'nodes = 4\npolicy = "entitled"\ncooldown_s = 0.1',
        until_told("long", "{ min = 1, max = 4, preferred = 2 }", tmp_path / "flag", walltime=600),
        heat("late", "2", submit=6.0, work_s=2.0),
    )
    run.wait_for(r.ResizeDone, partial(is_resize, 2))
    (tmp_path / "flag").touch()
    jobs = run.finish()
    assert is_right(jobs["long"]["result"])
    assert jobs["late"]["verified"] is True
    [begun] = [each for each in run.records() if isinstance(each, r.JobStarted) and each.job == 1]
    assert (len(begun.nodes), begun.reason.code) == (4, "entitled")
    done = [(x["from"], x["to"], x["reason"]["code"]) for x in jobs["long"]["resizes"]]
    assert done == [(4, 2, "lead_lent"), (2, 4, "best_use")]


@pytest.mark.long
def test_jobs_expand_while_others_queue_and_no_node_is_held_twice(start: Start) -> None:
    run = start(
        "nodes = 4\ncooldown_s = 0.2",
        heat("a", "{ min = 1, max = 3 }", work_s=8.0),
        heat("wide", "4", submit=0.5, work_s=4.0),
        heat("b", "{ min = 1, max = 2 }", submit=0.6, work_s=3.0),
    )
    jobs = run.finish()
    assert all(job["verified"] for job in jobs.values())
    held: dict[int, int] = {}
    for record in run.records():
        match record:
            case r.JobStarted(job=number, nodes=nodes):
                assert not any(nodes.mask & mask for mask in held.values())
                held[number] = nodes.mask
            case r.ResizeDone(job=number, gained=gained, released=released):
                assert not any(gained.mask & mask for mask in held.values())
                held[number] = (held[number] | gained.mask) & ~released.mask
            case r.JobEnded(job=number):
                held.pop(number, None)


def test_orders_from_another_terminal_grow_shrink_and_take_the_first_group(
    start: Start, tmp_path: Path
) -> None:
    run = start(f"nodes = 4\n{KEEP}", until_told("job", "{ min = 1, max = 4 }", tmp_path / "flag"))
    run.wait_for(r.JobMalleable)
    assert (run.place / "stderr").read_text().startswith(f"run {run.run}: 1 job on 4 nodes, policy easy\n")
    for number, (size, leave) in enumerate((("3", ""), ("2", "n0"), ("4", ""), ("1", "n[1-2]")), 1):
        ordered = run.order("job", size, "--run", run.run, *(("--leave", leave) if leave else ()))
        assert ordered.returncode == 0, ordered.stderr
        run.wait_for(r.ResizeDone, partial(is_resize, number))
        if leave:
            run.wait_for(r.NodesClean)  # else the next order might find too few nodes free
    (tmp_path / "flag").touch()
    job = run.finish()["job"]
    assert is_right(job["result"]), run.story()
    assert "still holds" not in (run.out / "job.log").read_text()
    assert [(x["from"], x["to"]) for x in job["resizes"]] == [(1, 3), (3, 2), (2, 4), (4, 1)]
    gone = [x.released for x in run.records() if isinstance(x, r.ResizeDone) and x.released]
    assert gone[0] == NodeSet.of([0])  # the first group, and the root with it
    assert NodeSet.of([1, 2]) <= gone[1]


@pytest.mark.long
def test_a_group_that_comes_again_is_forked_from_a_process_that_has_imported_all(
    start: Start, tmp_path: Path
) -> None:
    run = start(f"nodes = 2\n{KEEP}", until_told("job", "{ min = 1, max = 2 }", tmp_path / "flag"))
    run.wait_for(r.JobMalleable)
    numbers = count(1)

    def is_forked() -> bool:
        """Grow and shrink once more."""
        for size in ("2", "1"):
            ordered = run.order("job", size, "--run", run.run)
            assert ordered.returncode == 0, ordered.stderr
            done = run.wait_for(r.ResizeDone, partial(is_resize, next(numbers)))
            if done.released:
                run.wait_for(r.NodesClean, partial(is_after, done.at))
        return "forked" in (run.out / "job.log").read_text()

    until(is_forked, "a group that is forked")
    (tmp_path / "flag").touch()
    assert is_right(run.finish()["job"]["result"]), run.story()
    assert "executed" in (run.out / "job.log").read_text()


def test_a_program_without_mpi_grows_and_shrinks_by_the_protocol_alone(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = start(
        f"nodes = 3\n{KEEP}", job("bare", f"python {PROGRAMS / 'bare.py'} {flag}", "{ min = 1, max = 3 }")
    )
    run.wait_for(r.JobMalleable)
    for number, words in enumerate((("3",), ("1", "--leave", "n0")), 1):
        ordered = run.order("bare", *words)
        assert ordered.returncode == 0, ordered.stderr
        run.wait_for(r.ResizeDone, partial(is_resize, number))
    assert ordered.stdout == f"run {run.run}: job 1 (bare): ordered from 3 to 1 node, without n0\n"
    flag.touch()
    bare = run.finish()["bare"]
    assert bare["result"] == "True [1, 3, 1]", run.story()
    assert (run.out / "bare.log").read_text() == "without MPI\n" * 3
    assert run.wait_for(r.JobProgressed).fraction == 1.0


@pytest.mark.long
def test_an_order_that_cannot_be_followed_is_refused_with_the_reason(start: Start) -> None:
    run = start(f"nodes = 2\n{KEEP}", heat("job", "{ min = 1, max = 4 }", work_s=600.0))
    run.wait_for(r.JobMalleable)
    for words, said in (
        (("job", "5"), "no allowed size"),
        (("job", "3"), "would need 2 more nodes"),
        (("nobody", "1"), "there are: 1 (job)"),
        (("job", "0"), "whole number"),
        (("job", "1", "--leave", "mars"), "there is no node 'mars'; there are n[0-1]"),
        (("job", "1", "--leave", "n[0-99999999]"), "at most 65,536 nodes"),
    ):
        ordered = run.order(*words)
        assert ordered.returncode == 2
        assert said in ordered.stderr
    assert not any(isinstance(record, r.ResizeOffered) for record in run.records())


def test_a_node_with_two_slots_runs_groups_of_two_ranks(start: Start, tmp_path: Path) -> None:
    run = start("nodes = 2\nslots = 2", until_told("pair", "{ min = 1, max = 2 }", tmp_path / "flag"))
    run.wait_for(r.ResizeDone)
    (tmp_path / "flag").touch()
    job = run.finish()["pair"]
    assert is_right(job["result"])
    assert [(x["from"], x["to"]) for x in job["resizes"]] == [(1, 2)]
    assert job["state"] == JobState.COMPLETED


@pytest.mark.long
def test_a_program_asks_for_nodes_and_for_fewer_and_its_result_is_right(start: Start) -> None:
    run = start(
        f"nodes = 4\n{KEEP}", job("asks", f"python {PROGRAMS / 'asks.py'} 100000", "{ min = 1, max = 4 }")
    )
    asked = run.finish()["asks"]
    assert is_right(asked["result"])
    resizes = [(x["from"], x["to"], x["outcome"], x["reason"]["code"]) for x in asked["resizes"]]
    assert resizes == [(1, 3, "done", "wanted"), (3, 1, "done", "wanted")]

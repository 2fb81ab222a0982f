"""Real MPI ranks that sleep on nodes that stay their job's, and wake up again."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from harness import BatchRun, is_right, until, until_told

from pliant.core import records as r
from pliant.model.nodes import NodeSet

Start = Callable[..., BatchRun]
CLUSTER = 'nodes = 3\nslots = 2\npolicy = "easy"\ncooldown_s = 0'


def is_resize(number: int, record: r.ResizeDone) -> bool:
    return record.resize == number


def ticks(pid: int) -> int:
    """What a process has taken of processors, in ticks of the kernel's clock."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def ranks_on(run: BatchRun, node: str) -> dict[int, int]:
    """Pids of job 1 on this node, by local rank."""
    found = {}
    for pid, cookie in run.ranks(1).items():
        words = dict(
            word.partition("=")[::2]
            for word in Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        )
        if cookie["PLIANT_NODE"] == node:
            found[int(words["PMI_RANK"])] = pid
    return found


def steps_done(run: BatchRun) -> float:
    """How far the job says that it is."""
    said = [each.fraction for each in run.records() if isinstance(each, r.JobProgressed)]
    return said[-1] if said else 0.0


def ordered(run: BatchRun, *words: str) -> None:
    said = run.order(*words)
    assert not said.returncode, said.stderr


@pytest.mark.long
def test_ranks_sleep_and_wake_and_the_result_is_that_of_a_serial_run(start: Start, tmp_path: Path) -> None:
    run = start(
        CLUSTER, until_told("a", "{ min = 1, max = 3, preferred = 2 }", tmp_path / "flag", walltime=600)
    )
    run.wait_for(r.JobMalleable)
    refused = run.order("a", "--slots", "n7=1")
    assert "there is no node 'n7'" in refused.stderr
    ordered(run, "a", "--slots", "n1=1")
    run.wait_for(r.ResizeDone, partial(is_resize, 1))
    assert [job["awake"] for job in run.queue()[0]["jobs"]] == [{"n1": 1}]
    assert "ranks awake on n1 already; nothing would change" in run.order("a", "--slots", "n1=1").stderr

    here = ranks_on(run, "n1")
    before, at = {rank: ticks(pid) for rank, pid in here.items()}, steps_done(run)
    until(lambda: steps_done(run) > at and ticks(here[0]) > before[0] + 10, "the other rank to compute")
    until(
        lambda: len({x.at for x in run.records() if isinstance(x, r.JobProgressed) and x.fraction > at}) > 2,
        "steps",
    )
    assert ticks(here[1]) - before[1] <= 1, "who sleeps takes no processor"

    ordered(run, "a", "3")  # newcomers are joined to those who are awake
    run.wait_for(r.ResizeDone, partial(is_resize, 2))
    ordered(run, "a", "--slots", "n[0,2]=1")
    run.wait_for(r.ResizeDone, partial(is_resize, 3))
    ordered(run, "a", "--slots", "n[0-1]=2")  # two parties wake up, and n2's rank does not
    run.wait_for(r.ResizeDone, partial(is_resize, 4))
    assert [job["awake"] for job in run.queue()[0]["jobs"]] == [{"n2": 1}]
    ordered(run, "a", "--slots", "n0=1,n2=2")  # one falls asleep while another wakes up
    run.wait_for(r.ResizeDone, partial(is_resize, 5))
    ordered(run, "a", "2", "--leave", "n0")  # the root, and who sleeps there
    run.wait_for(r.ResizeDone, partial(is_resize, 6))
    run.wait_for(r.NodesClean)
    ordered(run, "a", "--slots", "n1=1")  # who sleeps at the end of the job ends with it
    run.wait_for(r.ResizeDone, partial(is_resize, 7))
    (tmp_path / "flag").touch()
    job = run.finish()["a"]
    assert is_right(job["result"])
    assert [(x["kind"], x["outcome"]) for x in job["resizes"]] == [
        (kind, "done") for kind in ("slots", "expand", "slots", "slots", "slots", "shrink", "slots")
    ]
    [clean] = [x.nodes for x in run.records() if isinstance(x, r.NodesClean)][:1]
    assert clean == NodeSet.of([0])


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_cannot_be_put_to_sleep_fails_the_resize_alone(
    start: Start, tmp_path: Path, rank: int
) -> None:
    run = start(
        CLUSTER, until_told("a", "{ min = 1, max = 3, preferred = 2 }", tmp_path / "flag", walltime=600)
    )
    run.wait_for(r.JobMalleable)
    pid = ranks_on(run, "n1")[rank]
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))  # it cannot open another file
    ordered(run, "a", "--slots", "n1=1")
    failed = run.wait_for(r.ResizeFailed)
    assert "no rank can be put to sleep on n1: [Errno 24]" in failed.error
    assert "awake" not in run.queue()[0]["jobs"][0]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    ordered(run, "a", "--slots", "n1=1")
    run.wait_for(r.ResizeDone)
    (tmp_path / "flag").touch()
    assert is_right(run.finish()["a"]["result"])


@pytest.mark.long
@pytest.mark.parametrize(
    "end", ["cancel", "kill root", "kill leader", "kill sleeper", "kill agent", "kill controller"]
)
def test_who_sleeps_ends_with_its_job(start: Start, tmp_path: Path, end: str) -> None:
    run = start(
        CLUSTER, until_told("a", "{ min = 1, max = 3, preferred = 2 }", tmp_path / "flag", walltime=600)
    )
    run.wait_for(r.JobMalleable)
    ordered(run, "a", "--slots", "n1=1")
    run.wait_for(r.ResizeDone)
    sleeper = ranks_on(run, "n1")[1]
    match end:
        case "cancel":
            run.process.terminate()
        case "kill root":
            os.kill(ranks_on(run, "n0")[0], 9)
        case "kill leader":
            os.kill(ranks_on(run, "n1")[0], 9)
        case "kill sleeper":
            os.kill(sleeper, 9)
        case "kill agent":
            os.kill(run.agents()["n1"], 9)
        case "kill controller":
            os.kill(run.process.pid, 9)
            until(lambda: not run.agents(), "the agents to leave")
    until(lambda: not Path(f"/proc/{sleeper}").exists(), "who slept to end")
    until(lambda: not run.ranks(1), "all to end")

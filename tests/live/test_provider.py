"""Nodes that come and go while a run goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fleets import Nodes
from harness import PATIENCE_S, PLIANT, PROGRAMS, BatchRun, is_right, until, until_told

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.daemon.controller import Controller
from pliant.drivers.fork import ForkedNodes
from pliant.launch import processes
from pliant.live.cluster import orders as o
from pliant.model.jobs import Bounds, JobSpec, JobState
from pliant.model.need import Need
from pliant.model.nodes import NodeSet
from pliant.policy.fcfs import Fcfs
from pliant.policy.view import Reason

Start = Callable[..., BatchRun]
FULL = "3 nodes are the most here"
GONE = "its agent is gone"


def nodes(run: BatchRun, *words: str) -> str:
    done = subprocess.run(
        [PLIANT, "nodes", *words], env=run.env, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def holds(*numbers: int) -> Callable[[Any], bool]:
    return lambda record: record.nodes == NodeSet.of(numbers)


@pytest.mark.long
def test_nodes_are_added_for_a_job_that_waits_and_given_back_when_they_are_free(
    start: Start, tmp_path: Path
) -> None:
    """One node is in use and the job that waits needs two: three in all, of which two are there."""
    first, second = tmp_path / "first", tmp_path / "second"
    run = start(
        "nodes = 2\npolicy = 'easy'",
        until_told("first", "1", first),
        until_told("second", "2", second, **{"class": "rigid"}),
    )
    run.wait_for(r.JobRunning)
    assert (
        nodes(run, "remove", "n1")
        == f"pliant: run {run.run}: job 2 (second) waits for 2 nodes, and 1 would be left\n"
    )
    assert nodes(run, "add", "1") == f"run {run.run}: 1 node more asked for\n"
    run.wait_for(r.NodesGranted, holds(2))
    run.wait_for(r.JobStarted, lambda record: record.job == 2 and record.nodes == NodeSet.of([1, 2]))
    assert nodes(run, "add", "1") == f"run {run.run}: 1 node more asked for\n"
    run.wait_for(r.NodesGranted, holds(3))
    assert set(run.agents()) == {"n0", "n1", "n2", "n3"}
    asked = nodes(run, "remove", "n[1,3]")
    assert (
        asked
        == f"run {run.run}: n[1,3] will be given back; n1 when job 2 (second) has left it: that job is rigid\n"
    )
    run.wait_for(r.NodesReturned, holds(3))
    assert set(run.agents()) == {"n0", "n1", "n2"}
    assert "no node 'n3'" in nodes(run, "remove", "n3")
    second.touch()
    run.wait_for(r.NodesReturned, holds(1))
    assert set(run.agents()) == {"n0", "n2"}
    first.touch()
    jobs = run.finish()
    assert all(is_right(jobs[name]["result"]) for name in ("first", "second"))
    told = [type(record) for record in run.records() if getattr(record, "job", 2) == 2]
    assert told.index(r.JobEnded) < len(told) - told[::-1].index(r.NodesReturned)


@pytest.mark.long
def test_nodes_are_asked_for_by_their_slots_and_labels_and_listed(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    labels = "labels = { gpu = 'n[2-3]', big = 'n3' }"
    run = start(f"nodes = 1\nslots = 2\n{labels}", until_told("first", "1", flag))
    run.wait_for(r.JobRunning)
    assert nodes(run, "add", "1", "--slots", "2", "--label", "gpu") == (
        f"run {run.run}: 1 node more asked for, with 2 slots, labelled gpu\n"
    )
    granted = run.wait_for(r.NodesGranted, lambda record: "n2" in record.names)
    assert (granted.labels, granted.source, granted.need) == ((("gpu",),), "virtual", Need(2, ("gpu",)))
    nodes(run, "add", "2", "--label", "gpu", "--label", "big")
    assert run.wait_for(r.NodesGranted, lambda record: "n3" in record.names)
    refused = run.wait_for(r.NodesRefused)
    assert (refused.count, refused.why) == (1, "of 1 node labelled big and gpu 1 is there to be added")
    nodes(run, "add", "1", "--slots", "3")
    refused = run.wait_for(r.NodesRefused, lambda record: record.need == Need(3))
    assert refused.why == "nodes have 2 slots here, and 3 are asked for"
    assert "'a b' is no label" in nodes(run, "add", "1", "--label", "a b")
    known = {"slots": 2, "source": "virtual"}
    assert json.loads(nodes(run, "list", "--json")) == {
        "run": run.run,
        "nodes": [
            {"node": "n0", **known, "labels": [], "use": "job 1 (first)"},
            {"node": "n2", **known, "labels": ["gpu"], "use": "free"},
            {"node": "n3", **known, "labels": ["big", "gpu"], "use": "free"},
        ],
        "awaited": [],
    }
    listed = nodes(run, "list")
    assert "SLOTS" in listed
    assert "SOURCE" not in listed, "all are virtual"
    assert "big,gpu" in listed
    flag.touch()
    run.finish()


@pytest.mark.long
def test_a_job_whose_node_is_taken_back_is_queued_again(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = start("nodes = 2\npolicy = 'easy'", until_told("first", "1", flag, requeue=True, outlast=True))
    run.wait_for(r.JobRunning)
    assert "is ended in time" in nodes(run, "remove", "n0", "--within", "18")
    ended = run.wait_for(r.JobEnded)
    assert (ended.state, ended.requeued) == (JobState.TIMEOUT, True)
    again = run.wait_for(r.JobStarted, lambda record: record.job == 2)
    assert again.nodes == NodeSet.of([1])
    run.wait_for(r.NodesReturned, holds(0))
    flag.touch()
    jobs = run.finish()
    assert list(jobs) == ["first"]
    assert (jobs["first"]["state"], is_right(jobs["first"]["result"])) == ("COMPLETED", True)


def agent_of(run: str, node: str) -> int:
    """The pid of an agent that is a child of this process."""
    for pid in processes.children():
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if run in words and node in words:
            return pid
    raise AssertionError(f"{node} has no agent")


def test_what_cannot_be_had_is_refused_and_a_node_with_a_process_that_cannot_be_ended_is_lost_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process is real: it is stopped by its tracer on its way out, and deaf to a second SIGKILL."""
    monkeypatch.setattr("pliant.drivers.fork.BURIALS", 20)
    run = f"t{os.getpid():x}"
    cookie = (f"PLIANT_RUN={run}", "PLIANT_JOB=1", "PLIANT_GROUP=0", "PLIANT_NODE=n1")
    tracer = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "unkillable.py"), *cookie],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert tracer.stdin is not None
    assert tracer.stdout is not None
    pid = int(tracer.stdout.readline() or 0)
    if not pid:
        tracer.wait()
        pytest.skip("no process may be traced here")

    async def all_of_it(place: Path) -> None:
        driver = ForkedNodes(1, run, place)
        nodes = Nodes(driver, msgspec.structs.replace(driver.site, most=3))
        try:
            await nodes.begin(2)
            nodes.fleet.request(2)
            nodes.go_on()
            assert await nodes.wait_for(o.Refused) == o.Refused(1, FULL)
            assert await nodes.wait_for(o.Granted, "n2") == o.Granted(("n2",), (1,), source="virtual")
            nodes.fleet.give_back(["n0"])
            nodes.go_on()
            assert await nodes.wait_for(o.Returned, "n0") == o.Returned(("n0",))
            with monkeypatch.context() as broken:
                broken.setattr("sys.executable", "/bin/false")
                nodes.events.clear()
                nodes.fleet.request(1)
                nodes.go_on()
                assert await nodes.wait_for(o.Refused) == o.Refused(1, f"n0: {GONE}")
            os.kill(agent_of(run, "n1"), signal.SIGKILL)
            assert await nodes.wait_for(o.Lost, "n1") == o.Lost("n1", final=True, why=GONE)
            assert nodes.notices == [f"n1 is not used again: process {pid} there cannot be ended"]
            nodes.fleet.request(3)
            nodes.go_on()
            for name in ("n0", "n3"):
                await nodes.wait_for(o.Granted, name)
        finally:
            await nodes.stop()
        assert not any(isinstance(event, o.Back) for event in nodes.events)
        assert processes.find(run) == {pid: processes.cookie_of(pid)}

    try:
        with tempfile.TemporaryDirectory(prefix="plt") as place:
            asyncio.run(all_of_it(Path(place)))
    finally:
        tracer.stdin.close()
        tracer.stdout.close()
        tracer.wait(PATIENCE_S)
    until(lambda: not processes.find(run), "the end of what was traced")


def test_nodes_that_outlive_their_controller_are_added_given_back_and_come_again() -> None:
    run = f"k{os.getpid():x}"

    async def all_of_it(place: Path) -> None:
        nodes = Nodes(ForkedNodes(1, run, place, grace=PATIENCE_S))
        try:
            await nodes.begin(2)
            assert nodes.events == [o.Granted(("n0", "n1"), (1, 1), source="virtual")]
            nodes.fleet.request(1)
            nodes.go_on()
            assert await nodes.wait_for(o.Granted, "n2") == o.Granted(("n2",), (1,), source="virtual")
            nodes.fleet.give_back(["n0", "n0", "n7"])
            nodes.go_on()
            assert await nodes.wait_for(o.Returned, "n0") == o.Returned(("n0",))
            with pytest.raises(AssertionError, match="n0 has no agent"):
                agent_of(run, "n0")
            nodes.events.clear()
            os.kill(agent_of(run, "n1"), signal.SIGKILL)
            await nodes.wait_for(o.Back, "n1")
            assert nodes.events == [o.Unlinked("n1"), o.Lost("n1", why=GONE), o.Back("n1")]
        finally:
            await nodes.stop()
        # A node that was lost before its controller was is begun anew by the next one.
        nodes = Nodes(ForkedNodes(1, run, place, grace=PATIENCE_S))
        try:
            await nodes.take_up([], ["n1"])
            await nodes.wait_for(o.Back, "n1")
            assert [type(event) for event in nodes.events] == [o.Lost, o.Back]
        finally:
            await nodes.stop()

    with tempfile.TemporaryDirectory(prefix="plt") as place:
        asyncio.run(all_of_it(Path(place)))
        assert not list(Path(place).iterdir())
    with pytest.raises(AssertionError, match="n1 has no agent"):
        agent_of(run, "n1")


def test_a_controller_that_begins_again_without_a_grace_ends_what_ran_and_starts_its_nodes_anew(
    tmp_path: Path,
) -> None:
    run = f"g{os.getpid():x}"
    small, large = (JobSpec(name=f"j{size}", nodes=Bounds(size, size), command=("true",)) for size in (1, 2))
    records: list[r.Record] = [
        r.NodesGranted(0.0, NodeSet.of([0, 1]), ("n0", "n1"), (1, 1)),
        r.JobSubmitted(1.0, 1, small),
        r.JobStarted(1.0, 1, NodeSet.of([0]), Reason("fits")),
        r.JobSubmitted(2.0, 2, large),
    ]
    made: list[r.Record] = []

    async def all_of_it(place: Path) -> None:
        driver = ForkedNodes(1, run, place)
        controller = Controller(Fcfs(), Settings(), driver, output=tmp_path, records=records)
        controller.sinks.append(made.append)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await controller.start()
                await controller.run(())
        finally:
            await controller.stop()

    with tempfile.TemporaryDirectory(prefix="plt") as place:
        asyncio.run(all_of_it(Path(place)))
    ends = {each.job: each.state for each in made if isinstance(each, r.JobEnded)}
    assert ends == {1: JobState.NODE_FAIL, 2: JobState.COMPLETED}
    assert not processes.find(run)

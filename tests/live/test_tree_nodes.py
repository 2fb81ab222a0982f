"""Nodes whose agents are started along a tree, here by fork: how they come and go."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import pytest
from fleets import Nodes
from harness import PROGRAMS, alive, parent

from pliant.drivers.tree import Hosts, TreeNodes
from pliant.launch.tree import shell
from pliant.launch.tree.posting import Starting
from pliant.live.cluster import orders as o
from pliant.model.errors import PliantError
from pliant.model.world import MpiWorld
from pliant.protocol import messages as m
from pliant.recorder import RECORD


def opened(descriptor: Path) -> str:
    """What it is; nothing if it has been closed."""
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""


def agent_of(node: str, mark: str) -> int:
    """The pid of the node's agent; its parent is the node's process in the tree."""
    rows = Path("/proc/net/unix").read_text().splitlines()
    [inode] = {row.split()[6] for row in rows if row.endswith(f"{mark[:8]}/{node}/agent.sock")}
    for pid in alive(mark):
        with contextlib.suppress(FileNotFoundError):  # it closes some meanwhile, or has ended
            for descriptor in sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda path: int(path.name)):
                if opened(descriptor) == f"socket:[{inode}]":
                    return pid
    raise AssertionError(f"{node} has no agent")


@pytest.mark.long
def test_nodes_come_and_go_and_are_lost_and_the_others_stay(mark: str, tmp_path: Path) -> None:
    """In a chain, so that what leaves or dies has others below it."""

    async def all_of_it() -> None:
        hosts = Hosts(names=("n0", "n1", "n2", "n3", "n4"), starting=Starting(), degree="1")
        nodes = Nodes(TreeNodes(hosts, 2, mark[:8], tmp_path))
        try:
            await nodes.begin(3)
            assert nodes.events == [o.Granted(("n0", "n1", "n2"), (2, 2, 2), source="fork")]
            nodes.fleet.give_back(["n1"])
            nodes.go_on()
            assert await nodes.wait_for(o.Returned) == o.Returned(("n1",))
            await nodes.answers("n2", 1)
            nodes.events.clear()
            nodes.fleet.request(4)
            nodes.go_on()
            assert await nodes.wait_for(o.Refused) == o.Refused(1, "of 5 hosts 3 are there to be added")
            for name in ("n1", "n3", "n4"):
                assert await nodes.wait_for(o.Granted, name)
            await nodes.answers("n1", 2)
            os.kill(parent(agent_of("n0", mark)), signal.SIGKILL)
            os.kill(agent_of("n3", mark), signal.SIGKILL)
            for name in ("n0", "n3"):
                gone = await nodes.wait_for(o.Lost, name)
                assert (gone.node, gone.final, bool(gone.why)) == (name, True, True)
            await nodes.answers("n2", 3)
            nodes.fleet.send(["n0", "n2"], m.Prove(4))
            await nodes.answers("n4", 4)
            nodes.fleet.request(1)
            nodes.go_on()
            assert nodes.events[-1] == o.Refused(1, "of 5 hosts 0 are there to be added"), "none that is lost"
        finally:
            await nodes.stop()
        lost = [event for event in nodes.events if isinstance(event, o.Lost)]
        assert len(lost) == 2

    asyncio.run(all_of_it())


def test_what_is_too_long_for_an_agent_is_refused_and_comes_to_nobody(mark: str, tmp_path: Path) -> None:
    async def all_of_it() -> None:
        nodes = Nodes(TreeNodes(Hosts(names=("n0",), starting=Starting()), 1, mark[:8], tmp_path))
        try:
            await nodes.begin(1)
            long = m.StartGroup(
                7, 0, MpiWorld(0, (1,)), ("x" * 3_000_000,), {}, "/", "/dev/null", "token", "none"
            )
            nodes.fleet.send(["n0"], long)
            await nodes.answers("n0", 1)
        finally:
            await nodes.stop()
        failed = nodes.said[0][1]
        assert isinstance(failed, m.StartFailed)
        assert (failed.job, "bytes as a message to n0" in failed.error) == (7, True)

    asyncio.run(all_of_it())


@pytest.mark.long
def test_nodes_that_do_not_come_are_named_with_the_reasons(
    mark: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHON", sys.executable)
    monkeypatch.delenv(RECORD)  # one of another version is not played again by this one

    async def all_of_it() -> None:
        starting = Starting(python=str(PROGRAMS / "odd_starts.sh"))
        hosts = Hosts(names=("n0", "n1", "n2", "n3"), starting=starting, patience_s=3.0)
        nodes = Nodes(TreeNodes(hosts, 1, mark[:8], tmp_path))
        try:
            with pytest.raises(PliantError, match="of 4 nodes cannot be had: ") as refused:
                await nodes.begin(4)
        finally:
            await nodes.stop()
        for why in (
            "n1: the agent ended with code 3: no disk",
            "n2: it has not called within 3 s",
            "n3: it speaks version 99 of the protocol, and this is 1",
        ):
            assert why in str(refused.value)
        assert not nodes.events

    asyncio.run(all_of_it())


def test_a_stop_of_the_controller_is_no_delay_of_a_node_that_leaves(
    mark: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A loop that is kept is as good as a process that is stopped."""
    monkeypatch.setattr(shell, "LINK_BEAT_S", 0.1)

    async def all_of_it() -> None:
        driver = TreeNodes(Hosts(names=("n0", "n1"), starting=Starting()), 1, mark[:8], tmp_path)
        nodes = Nodes(driver, msgspec.structs.replace(driver.site, stop_s=1.0))
        try:
            await nodes.begin(2)
            nodes.fleet.give_back(["n1"])
            nodes.go_on()
            time.sleep(1.5)  # noqa: ASYNC251 - a stop
            assert await nodes.wait_for(o.Returned | o.Lost) == o.Returned(("n1",))  # type: ignore[arg-type]
        finally:
            await nodes.stop()

    asyncio.run(all_of_it())

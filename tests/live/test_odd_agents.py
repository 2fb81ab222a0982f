"""What agents say is read from its envelopes; what cannot be read costs nobody a node."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from fleets import Nodes
from harness import PATIENCE_S, PROGRAMS

from pliant.drivers import Event
from pliant.drivers.fork import ForkedAgent, ForkedNodes
from pliant.live.cluster import orders as o
from pliant.model.errors import PliantError
from pliant.protocol import codec
from pliant.protocol import messages as m


def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> Nodes:
    """Run one node with the odd agent, until it has said something that can be read."""
    monkeypatch.setenv("ODD_VERSION", str(version))
    monkeypatch.setattr(sys, "executable", str(PROGRAMS / "odd_agent.sh"))

    async def one_node() -> Nodes:
        driver = ForkedNodes(1, "odd", tmp_path)
        nodes = Nodes(driver, msgspec.structs.replace(driver.site, begin_s=2.0))
        try:
            await nodes.begin(1)
            async with asyncio.timeout(PATIENCE_S):
                while not nodes.said:
                    await nodes.news()
        finally:
            await nodes.stop()
        return nodes

    return asyncio.run(one_node())


def test_what_an_agent_says_beyond_us_is_named_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nodes = play(tmp_path, monkeypatch, 1)
    assert nodes.said == [("n0", m.Proof(3, clean=True))]
    assert not any(isinstance(event, o.Lost) for event in nodes.events)
    said = capfd.readouterr().err
    for each in ("garbage", "dance", "a message of 'n7'", "no way to n5"):
        assert each in said + " ".join(nodes.notices)
    assert 'told {"type":"to","nodes":["n0"],"message":{"type":"shutdown"}}' in said


def test_an_agent_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PliantError, match="n0: it speaks version 9 of the protocol, and this is 1"):
        play(tmp_path, monkeypatch, 9)


def test_what_an_agent_has_said_that_is_being_ended_is_not_told_of_the_next(tmp_path: Path) -> None:
    told: list[Event] = []

    async def listen(*, is_ended: bool) -> None:
        driver = ForkedNodes(1, "odd", tmp_path)
        driver._tell = told.append
        agent = ForkedAgent(os.getpid(), None)
        if not is_ended:
            driver._agents["n0"] = agent
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.sendall(codec.encode(m.From("n0", codec.raw(m.Proof(3, clean=True)), 1)))
        await driver._listen("n0", agent, *await asyncio.open_unix_connection(sock=ours))
        asyncio.get_running_loop().remove_reader(agent._watch)
        os.close(agent._watch)

    asyncio.run(listen(is_ended=True))
    assert not told
    asyncio.run(listen(is_ended=False))
    assert [type(event) for event in told] == [o.Heard, o.Cut]


def test_a_driver_that_is_closed_before_it_is_open_ends_no_other_child_of_its_process(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        asyncio.run(ForkedNodes(1, "odd", tmp_path).close())
        lives = other.poll() is None
        other.kill()
    assert lives

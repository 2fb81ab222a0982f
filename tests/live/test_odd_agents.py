"""What agents say is read from its envelopes; what cannot be read costs nobody a node."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from harness import PATIENCE_S, PROGRAMS

from pliant.live.cluster import orders as o
from pliant.model.errors import PliantError
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.providers import Event, local


def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> tuple[list[object], list[bool]]:
    """Run one node with the odd agent; what the provider passed on, and the losses of the node."""
    heard: list[object] = []
    losses: list[bool] = []
    monkeypatch.setenv("ODD_VERSION", str(version))
    monkeypatch.setattr(sys, "executable", str(PROGRAMS / "odd_agent.sh"))

    async def one_node() -> None:
        came = asyncio.Event()

        def tell(event: Event) -> None:
            if isinstance(event, o.Said):
                heard.append((event.node, codec.from_agent().decode(event.message)))
                came.set()
            elif isinstance(event, o.Lost):
                losses.append(event.final)
                if event.final:
                    came.set()

        nodes = local.LocalNodes(1, 1, "odd", tmp_path)
        try:
            await nodes.start(tell)
            await asyncio.wait_for(came.wait(), PATIENCE_S)
        finally:
            await nodes.stop()

    asyncio.run(one_node())
    return heard, losses


def test_what_an_agent_says_beyond_us_is_named_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    heard, losses = play(tmp_path, monkeypatch, 1)
    assert heard == [("n0", m.Proof(3, clean=True))]
    assert not losses
    said = capfd.readouterr().err
    for each in ("garbage", "dance", "a message of 'n7'", "no way to n5"):
        assert each in said
    assert 'told {"type":"to","nodes":["n0"],"message":{"type":"shutdown"}}' in said


def test_an_agent_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "START_S", 2.0)
    with pytest.raises(PliantError):
        play(tmp_path, monkeypatch, 9)
    assert "it speaks version 9 of the protocol, and this is 1" in capfd.readouterr().err

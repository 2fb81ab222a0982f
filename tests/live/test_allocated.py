"""Nodes of a Slurm allocation, where ``squeue`` is a script: what is told when Slurm takes them back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from pliant.drivers import Event, Tell
from pliant.drivers.slurm import PAUSE_S, Allocated, AllocationOver
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Site
from pliant.model.jobs import JobState
from pliant.protocol import codec
from pliant.protocol import messages as m

LOST = o.Ended("n1", "its agent is gone")


class TwoNodes:
    """A driver of which the test tells what happens."""

    def __init__(self) -> None:
        self.env: dict[str, str] = {}
        self.site = Site()
        self.secret = b""

    async def open(self, tell: Tell) -> None:
        self.tell = tell

    def start(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self.tell(hello(node))

    def send(self, node: str, envelope: m.To) -> None: ...

    def clear(self, node: str) -> None: ...

    async def close(self) -> None: ...


def hello(node: str) -> o.Heard:
    return o.Heard(node, codec.raw(m.Heartbeat()))


def heard_from_agent(message: m.AgentMessage) -> o.Heard:
    return o.Heard("n0", codec.raw(message), 1)


class Slurm:
    """Its answer, a file."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch) -> None:
        self.answer = place / "answer"
        script = place / "squeue"
        script.write_text(f'#!/bin/sh\necho "$@" >> {place}/asked\n. {place}/first\ncat {self.answer}\n')
        self.first = place / "first"
        """What it does before it answers."""
        self.first.write_text(":\n")
        script.chmod(0o755)
        self.asked = place / "asked"
        patch.setenv("PATH", f"{place}:/usr/bin:/bin")

    def says(self, status: str) -> None:
        self.answer.write_text(f"7|{status}\n")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    return Slurm(tmp_path, monkeypatch)


async def begin(allocated: Allocated, tell: Tell) -> None:
    """Slurm answers how long the nodes are there, which is asked once, and both come."""

    def rounded(event: Event) -> None:
        if isinstance(event, o.Granted) and event.left_s is not None:
            event = o.Granted((), (), round(event.left_s))
        tell(event)

    await allocated.open(rounded)
    allocated.start(["n0", "n1"])


async def told_of(answers: Iterable[tuple[str, tuple[Event, ...]]], slurm: Slurm, count: int) -> list[Event]:
    """What is told, ``count`` events in all, where Slurm answers so before these happen."""
    nodes, told, enough = TwoNodes(), list[Event](), asyncio.Event()
    allocated = Allocated(nodes, "7", {})

    def tell(event: Event) -> None:
        told.append(event)
        if len(told) == count:
            enough.set()

    for number, (answer, events) in enumerate(answers):
        slurm.says(answer)
        if not number:
            await begin(allocated, tell)
        for event in events:
            nodes.tell(event)
    async with asyncio.timeout(10):
        await enough.wait()
    await allocated.close()
    return told


CAME: list[Event] = [hello("n0"), hello("n1")]
GRANTED: list[Event] = [*CAME, o.Granted((), (), 120.0)]


@pytest.mark.parametrize("end", [m.Exited(1, 0, 0, -15), m.Exited(1, 0, 0, 0, early=True)])
def test_a_failure_is_told_behind_the_end_of_the_allocation_and_so_is_what_follows(
    end: m.Exited, slurm: Slurm
) -> None:
    failed, beat = heard_from_agent(end), heard_from_agent(m.Heartbeat())
    over = ("COMPLETING|TimeLimit|INVALID", (failed, beat, LOST))
    told = asyncio.run(told_of([("RUNNING|None|2:00", ()), over], slurm, 7))
    ended = o.EndAll("Slurm job 7 has come to its time limit", JobState.TIMEOUT)
    assert told == [*GRANTED, ended, failed, beat, LOST]


def test_a_failure_in_an_allocation_that_goes_on_is_a_failure(slurm: Slurm) -> None:
    failed, ended = heard_from_agent(m.Exited(1, 0, 0, 1)), heard_from_agent(m.Exited(2, 0, 0, 0))
    told = asyncio.run(told_of([("RUNNING|None|2:00", (ended, failed, LOST))], slurm, 6))
    assert told == [*GRANTED, ended, failed, LOST]
    assert len(slurm.asked.read_text().splitlines()) == 2, "at the start, and once for both"


def test_slurm_is_asked_once_a_second_however_many_ranks_fail(slurm: Slurm) -> None:
    failed = tuple(heard_from_agent(m.Exited(number, 0, 0, 1)) for number in range(5))

    async def told() -> None:
        nodes, heard, news = TwoNodes(), list[Event](), asyncio.Event()
        slurm.says("RUNNING|None|UNLIMITED")

        def tell(event: Event) -> None:
            heard.append(event)
            news.set()

        allocated = Allocated(nodes, "7", {})
        await begin(allocated, tell)
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(10):
            for number, event in enumerate(failed, 3):
                nodes.tell(event)
                if number in (3, 5):  # the answer has come: the next one is a question of its own
                    while len(heard) < number:
                        news.clear()
                        await news.wait()
            while len(heard) < 7:
                news.clear()
                await news.wait()
        assert heard == [*CAME, *failed]
        assert asyncio.get_running_loop().time() - began >= 2 * PAUSE_S
        await allocated.close()

    asyncio.run(told())
    assert len(slurm.asked.read_text().splitlines()) == 4, "at the start, and three times"


def test_more_time_that_slurm_gives_is_told_before_the_end(slurm: Slurm) -> None:
    answers = [("RUNNING|None|0:31", ()), ("RUNNING|None|5:00", ())]
    told = asyncio.run(told_of(answers, slurm, 4))
    assert told == [*CAME, o.Granted((), (), 31.0), o.Granted((), (), 300.0)]


def test_a_question_that_is_ended_with_the_allocation_is_asked_again(slurm: Slurm, tmp_path: Path) -> None:
    """Slurm ends all that has come from a job script: what asks it, too."""
    once = f"test -e {tmp_path}/killed || {{ touch {tmp_path}/killed; kill -TERM $$; }}\n"

    async def told() -> AllocationOver | None:
        slurm.says("COMPLETING|TimeLimit|INVALID")
        slurm.first.write_text(once)
        return await Allocated(TwoNodes(), "7", {}).over()

    assert asyncio.run(told()) == AllocationOver("Slurm job 7 has come to its time limit", JobState.TIMEOUT)


def test_where_slurm_says_nothing_all_is_told_as_it_happens(slurm: Slurm) -> None:
    told = asyncio.run(told_of([("squeue: error: no controller", (LOST,))], slurm, 3))
    assert told == [*CAME, LOST]

"""What both ends of ``pliant launch`` decide, and the small parts of its shell."""

from __future__ import annotations

import ast
import asyncio
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.launch.connection import Connection, Listener
from pliant.launch.loop import EventLoop
from pliant.launch.tree import arriving, interfaces, links, pipes, shell
from pliant.launch.tree.interfaces import InterfaceError, facing, listening_at
from pliant.launch.tree.pipes import Spill
from pliant.launch.tree.posting import Posting, Starting
from pliant.launch.tree.shell import House, TreeShell
from pliant.live.tree.launching import ForAll, ForOne, Launching, Note, Print
from pliant.live.tree.messages import Seat
from pliant.live.tree.part import JOB, LineCutter, start_of
from pliant.model.hosts import apart
from pliant.protocol import codec, pmix
from pliant.protocol import launching as t
from pliant.protocol import messages as m
from pliant.report.timeline import timeline
from pliant_lab.injection.tree.launches import launch

ANSWERS: codec.Decoder[t.ForAll] = codec.Decoder(t.ForAll)


def from_node(node: str, message: m.Message) -> m.From:
    return m.From(node, codec.raw(message))


def launching(*sizes: int, dialect: str = "launch") -> Launching:
    return Launching(t.Launch(("true",), {}, "/", sizes, dialect), [f"n{i}" for i in range(len(sizes))])


@pytest.mark.parametrize("seed", range(40))
def test_programs_over_trees_with_losses(seed: int) -> None:
    launch(seed, 1)


# ---- the controller's end ----------------------------------------------------------------------------------


def test_the_code_is_the_highest() -> None:
    life = launching(2, 0, 1)
    assert life.ranks == 3
    life.arrived(from_node("n0", m.Exited(JOB, 0, 0, 3)))
    life.arrived(from_node("n0", m.Exited(JOB, 0, 0, 90)))  # once more: it has ended already
    life.arrived(from_node("n0", m.Exited(JOB, 0, 1, -15)))
    assert (life.is_over, life.is_open("n0"), life.is_open("n2")) == (False, False, True)
    life.arrived(from_node("n2", m.StartFailed(JOB, 2, "no such file", 127)))
    assert life.is_over
    assert life.code == 128 + 15
    assert {rank: end.node for rank, end in life.ended.items()} == {0: "n0", 1: "n0", 2: "n2"}


def test_what_a_lost_node_had_is_lost() -> None:
    life = launching(1, 2)
    life.arrived(from_node("n1", m.Exited(JOB, 1, 1, 0)))
    assert life.gone("n1", "cut") == [Note("n1 is lost: cut")]
    assert {rank: end.code for rank, end in life.ended.items()} == {1: 0, 2: 255}


def test_why_a_launch_has_failed_names_process_and_node() -> None:
    life = launching(2, 1, 1)
    assert life.why == ""
    life.arrived(from_node("n0", m.Exited(JOB, 0, 0, 0)))
    assert life.why == ""
    life.arrived(from_node("n0", m.Exited(JOB, 0, 1, 7)))
    assert life.why == "process 1 on n0 has ended with 7"
    life.arrived(from_node("n1", m.StartFailed(JOB, 1, "'x': No such file or directory", 127)))
    assert life.why == "process 2 on n1 was not started: 'x': No such file or directory; 1 more have failed"
    life.gone("n2", "cut")
    assert life.why == "process 3 on n2 is lost with its node: cut; 2 more have failed"
    life = launching(1)
    life.arrived(from_node("n0", m.Exited(JOB, 0, 0, -15)))
    assert life.why == "process 0 on n0 has ended by signal 15"
    life = launching(1, 1, 1, dialect="pmi1")
    life.arrived(from_node("n1", m.Exited(JOB, 1, 1, 5)))
    life.arrived(from_node("n0", m.Exited(JOB, 0, 0, -9)))
    assert life.why == "process 1 on n1 has ended with 5"


def test_one_world_goes_on_together_or_not_at_all() -> None:
    life = launching(1, 1, 1, dialect="pmi1")
    assert not life.gathered((0, 2), 0, {"a": "1", "b": "2"})
    assert not life.gathered((2,), 0, {"b": "2"}), "once more, as its way up was lost"
    assert life.fences == 0
    [fenced] = life.gathered((1, 2), 0, {"b": "2", "c": "3"})
    assert isinstance(fenced, ForAll)
    assert life.fences == 1
    assert not life.gathered((1,), 0, {"c": "3"}), "all have it"
    assert life.gathered((3,), 1, {}) == [Note("group 3 is not of this world")]
    assert life.gathered((1,), 2, {}) == [Note("groups [1] are at fence 2, their world at 1")]
    assert ANSWERS.decode(fenced.message) == m.Fenced(JOB, 0, 0, {"a": "1", "b": "2", "c": "3"})
    note, kill = life.arrived(from_node("n1", m.Exited(JOB, 1, 1, 5)))
    assert note == Note("process 1 on n1 has ended with 5, and the others with it")
    assert isinstance(kill, ForAll)
    assert ANSWERS.decode(kill.message) == m.Signal(JOB, 9)
    assert not life.arrived(from_node("n0", m.Exited(JOB, 0, 0, -9))), "they are ended once"
    assert not life.arrived(from_node("n2", m.Exited(JOB, 2, 2, -9)))
    assert (life.is_over, life.code) == (True, 5), "how we have ended the others says nothing"


def test_a_process_that_ends_with_0_before_mpi_finalize_ends_the_world() -> None:
    life = launching(1, 1, dialect="pmi1")
    note, kill = life.arrived(from_node("n1", m.Exited(JOB, 1, 1, 0, early=True)))
    assert note == Note("process 1 on n1 ended with exit code 0 before MPI_Finalize, and the others with it")
    assert isinstance(kill, ForAll)
    life.arrived(from_node("n0", m.Exited(JOB, 0, 0, -9)))
    assert (life.code, life.why) == (1, "process 1 on n1 ended with exit code 0 before MPI_Finalize")


@pytest.mark.parametrize(
    ("dialect", "codes", "code"),
    [
        ("pmi1", (5, 15, 0), 5),
        ("pmi1", (5, -15, -9), 5),
        ("pmi1", (75, 42, -9), 75),
        ("openmpi", (42, 75, -9), 42),
        ("openmpi", (75, 42, -9), 42),
        ("openmpi", (75, -11, 42), 128 + 11),
        ("openmpi", (75, -9, -9), 75),
        ("openmpi", (0, -9, 75), 128 + 9),
        ("launch", (5, 15, -9), 128 + 9),
    ],
)
def test_the_code_of_a_world_is_that_of_its_first_failure(
    dialect: str, codes: tuple[int, ...], code: int
) -> None:
    """Word of a rank that has failed may come behind word of those that its MPI has told of it."""
    life = launching(1, 1, 1, dialect=dialect)
    for rank, each in enumerate(codes):
        life.arrived(from_node(f"n{rank}", m.Exited(JOB, rank, rank, each)))
    assert life.is_over
    assert life.code == code
    first = next(rank for rank, each in enumerate(codes) if code == (128 - each if each < 0 else each))
    assert life.why.startswith(f"process {first} on n{first} ")


def asked(life: Launching, part: int, number: int, ask: m.Message) -> tuple[str, int]:
    """Which node is answered, and with which status."""
    [answer] = life.arrived(from_node(f"n{part}", m.Asked(JOB, part, number, codec.raw(ask))))
    assert isinstance(answer, ForOne)
    answered = msgspec.json.decode(answer.message, type=m.Answered)
    done = msgspec.json.decode(answered.answer, type=pmix.Done)
    assert (answered.group, answered.number, done.id) == (part, number, number)
    return answer.node, done.status


def test_what_a_node_asks_of_others_it_is_told_alone() -> None:
    life = launching(0, 2, 1, dialect="pmi1")
    item = pmix.Item("here", 0, 0, pmix.STRING, "port")
    assert asked(life, 2, 1, pmix.Lookup(("here",))) == ("n2", pmix.NOT_FOUND)
    assert asked(life, 1, 1, pmix.Publish((item,), new=True)) == ("n1", 0)
    assert asked(life, 2, 2, pmix.Lookup(("here",))) == ("n2", 0)
    assert asked(life, 2, 3, m.Withdraw(3)) == ("n2", pmix.BAD_PARAM)
    life.arrived(from_node("n1", m.Exited(JOB, 1, 0, 0)))
    assert asked(life, 2, 4, pmix.Lookup(("here",))) == ("n2", 0), "one of its processes is there"
    life.arrived(from_node("n1", m.Exited(JOB, 1, 1, 0)))
    assert asked(life, 2, 5, pmix.Lookup(("here",))) == ("n2", pmix.NOT_FOUND)


class Spawning:
    """A launch of one world, whose first process spawns ``programs``."""

    def __init__(self, sizes: tuple[int, ...], *programs: int) -> None:
        self.life = launching(*sizes, dialect="pmi1")
        asks = tuple(pmix.Program((f"program {i}",), ranks) for i, ranks in enumerate(programs))
        ask = codec.raw(pmix.Spawn(asks, {"key": "x"}))
        self.first = next(number for number, size in enumerate(sizes) if size)
        outputs = self.life.arrived(from_node(f"n{self.first}", m.Asked(JOB, self.first, 1, ask)))
        self.starts = [
            (each.node, msgspec.json.decode(each.message, type=t.Start))
            for each in outputs
            if isinstance(each, ForOne)
        ]

    def say(self, node: str, message: m.Message) -> list[m.Answered | m.Signal | m.Fenced | str]:
        """What follows, at one node or for people."""
        found: list[m.Answered | m.Signal | m.Fenced | str] = []
        for each in self.life.arrived(from_node(node, message)):
            if isinstance(each, ForOne):
                found.append(msgspec.json.decode(each.message, type=m.Answered | m.Signal | m.Fenced))
            elif isinstance(each, Note):
                found.append(each.text)
        return found

    def started(self, which: int) -> list[m.Answered | m.Signal | m.Fenced | str]:
        node, order = self.starts[which]
        return self.say(node, m.Started(JOB, order.start.group, ()))

    def ended(self, which: int, rank: int, code: int = 0) -> list[m.Answered | m.Signal | m.Fenced | str]:
        node, order = self.starts[which]
        return self.say(node, m.Exited(JOB, order.start.group, rank, code))


def status_of(answered: m.Answered | m.Signal | m.Fenced | str) -> int:
    assert isinstance(answered, m.Answered)
    return msgspec.json.decode(answered.answer, type=pmix.Done).status


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=5).filter(any),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
)
def test_a_spawned_world_is_complete_and_its_processes_are_where_the_fewest_were(
    sizes: list[int], programs: list[int]
) -> None:
    spawning = Spawning(tuple(sizes), *programs)
    worlds = [order.start.world for _, order in spawning.starts]
    assert {(world.number, world.sizes) for world in worlds} == {
        (1, tuple(len(each.ranks) for each in worlds))
    }
    assert [rank for world in worlds for rank in world.ranks] == list(range(sum(programs)))
    ran = [order.start.appnum for _, order in spawning.starts for _ in order.start.world.ranks]
    assert ran == [i for i, ranks in enumerate(programs) for _ in range(ranks)]
    assert {order.first for _, order in spawning.starts} == {sum(sizes)}
    assert len({order.start.group for _, order in spawning.starts} | set(range(len(sizes)))) == len(
        worlds
    ) + len(sizes)
    load = {f"n{i}": size for i, size in enumerate(sizes) if size}
    before = dict(load)
    for node, order in spawning.starts:
        load[node] += len(order.start.world.ranks)
    filled = [load[node] for node in load if load[node] > before[node]]
    assert max(filled) <= min(load.values()) + 1


def test_a_spawned_world_passes_its_fences_and_ends() -> None:
    spawning = Spawning((1, 0, 1), 1, 1)
    [(node, one), (other, two)] = spawning.starts
    assert (node, other, one.start.env["PMI_SPAWNED"], one.start.values) == ("n0", "n2", "1", {"key": "x"})
    assert not spawning.started(0)
    [answered] = spawning.started(1)
    assert status_of(answered) == 0
    assert not spawning.say("n0", m.Fence(JOB, one.start.group, 0, {"a": "1"}))
    fenced = spawning.say("n2", m.Fence(JOB, two.start.group, 0, {"b": "2"}))
    whole = {"a": "1", "b": "2"}
    assert fenced == [m.Fenced(JOB, order.start.group, 0, whole) for order in (one, two)]
    spawning.ended(0, 0)
    spawning.say("n0", m.Exited(JOB, 0, 0, 0))
    spawning.say("n2", m.Exited(JOB, 2, 1, 0))
    assert not spawning.life.is_over
    spawning.ended(1, 1)
    assert (spawning.life.is_over, spawning.life.code, sorted(spawning.life.ended)) == (True, 0, [0, 1, 2, 3])


def test_a_spawned_world_that_cannot_be_started_is_an_answer() -> None:
    spawning = Spawning((1, 1), 2)
    (_, one), (_, two) = spawning.starts
    assert not spawning.started(0)
    said = spawning.say("n1", m.StartFailed(JOB, two.start.group, "no such program", 127))
    *signals, answered = said[1:]
    assert said[0] == "n1: no such program"
    assert m.Signal(JOB, 9, one.start.group) in signals
    assert status_of(answered) == pmix.FAILED
    assert not spawning.ended(0, 0, -9)
    assert not spawning.life.killed
    spawning.say("n0", m.Exited(JOB, 0, 0, 0))
    spawning.say("n1", m.Exited(JOB, 1, 1, 0))
    assert (spawning.life.is_over, spawning.life.code, sorted(spawning.life.ended)) == (True, 0, [0, 1])


def test_what_comes_of_a_spawned_world_that_is_over_changes_nothing() -> None:
    """Of a group that could not be started whole its agent tells then how the others have ended."""
    spawning = Spawning((2, 0), 2)
    [(_, order)] = spawning.starts
    spawning.say("n0", m.StartFailed(JOB, order.start.group, "no processes left", 126))
    assert not spawning.ended(0, 0, -9)
    assert not spawning.started(0)
    assert (spawning.life.is_over, spawning.life.ended, spawning.life.killed) == (False, {}, False)


def test_who_has_spawned_may_be_over_when_that_is_started() -> None:
    spawning = Spawning((1,), 1)
    [(_, order)] = spawning.starts
    spawning.started(0)
    ask = codec.raw(pmix.Spawn((pmix.Program(("a",), 1),), {}))
    [nested] = spawning.life.arrived(from_node("n0", m.Asked(JOB, order.start.group, 1, ask)))
    assert isinstance(nested, ForOne)
    spawning.ended(0, 0)
    again = msgspec.json.decode(nested.message, type=t.Start)
    assert (again.start.group, again.start.world.number, again.first) == (2, 2, 2)
    assert not spawning.say("n0", m.Started(JOB, 2, ()))


def test_a_spawned_process_that_fails_ends_all_also_those_that_start_later() -> None:
    spawning = Spawning((1, 1), 2)
    spawning.started(0)
    assert spawning.ended(0, 0, 3) == ["process 2 on n0 has ended with 3, and the others with it"]
    assert spawning.started(1) == [m.Signal(JOB, 9, spawning.starts[1][1].start.group)]
    spawning.ended(1, 1, -9)
    spawning.say("n0", m.Exited(JOB, 0, 0, -9))
    spawning.say("n1", m.Exited(JOB, 1, 1, -9))
    assert (spawning.life.is_over, spawning.life.code) == (True, 3)
    assert spawning.life.why == "process 2 on n0 has ended with 3"


def test_a_spawned_world_whose_part_ends_before_a_fence_ends_all() -> None:
    spawning = Spawning((1, 1), 2)
    assert not spawning.say("n0", m.Fence(JOB, spawning.starts[0][1].start.group, 0, {}))
    assert spawning.ended(1, 1) == ["n1: ended while others wait for it in MPI"]


@pytest.mark.parametrize("programs", [(0,), (3, 0), (9_999, 2)])
def test_a_spawn_of_none_or_too_many_is_refused(programs: tuple[int, ...]) -> None:
    life = launching(1, 1, dialect="pmi1")
    asks = tuple(pmix.Program(("a",), ranks) for ranks in programs)
    assert asked(life, 0, 1, pmix.Spawn(asks, {})) == ("n0", pmix.BAD_PARAM)


def test_a_fence_that_is_never_passed_ends_the_world() -> None:
    life = launching(1, 1, dialect="pmi1")
    life.gathered((0,), 0, {})
    note, kill = life.arrived(from_node("n1", m.Exited(JOB, 1, 1, 0)))
    assert note == Note("n1: ended while others wait for it in MPI")
    assert isinstance(kill, ForAll)
    life.arrived(from_node("n0", m.Exited(JOB, 0, 0, -9)))
    assert life.code == 128 + 9
    assert life.why == "n1: ended while others wait for it in MPI"


def test_what_cannot_be_read_is_told_and_harms_nothing() -> None:
    life = launching(1)
    [note] = life.arrived(m.From("n0", codec.raw(m.Withdraw(3))))
    assert isinstance(note, Note)
    assert note.text.startswith("n0: not a message")
    output = t.Output(0, b"text\n")
    assert life.arrived(from_node("n0", output)) == [Print("n0", output)]


def test_each_agent_starts_its_part() -> None:
    order = t.Launch(("a", "b"), {"X": "1"}, "/d", (2, 0, 3))
    assert start_of(order, 1, "o", "token") is None
    start = start_of(order, 2, "/io/", "token")
    assert start is not None
    assert (start.world.ranks, start.world.size, start.group) == (range(2, 5), 5, 2)
    assert (start.argv, start.env, start.cwd, start.output, start.streams) == (
        ("a", "b"),
        {"X": "1"},
        "/d",
        "/io/",
        True,
    )


# ---- output ---------------------------------------------------------------------------------------------


@given(st.binary(max_size=400), st.lists(st.integers(1, 50)), st.integers(5, 60))
def test_lines_are_cut_at_their_ends(data: bytes, cuts: list[int], limit: int) -> None:
    parts: list[bytes] = []
    cutter, rest = LineCutter(limit), data
    for cut in [*cuts, len(data)]:
        parts += cutter.feed(rest[:cut])
        rest = rest[cut:]
    last = cutter.rest()
    assert b"".join(parts) + last == data
    assert all(len(part) <= limit + 50 for part in parts)
    if all(len(line) < limit for line in data.split(b"\n")) and max([*cuts, 0]) < limit:
        assert b"\n" not in last


@given(st.lists(st.integers(0, 30)), st.lists(st.integers(1, 80)))
def test_only_a_line_that_is_too_long_is_cut(lengths: list[int], cuts: list[int]) -> None:
    data = b"".join(b"x" * length + b"\n" for length in lengths)
    parts: list[bytes] = []
    cutter = LineCutter(31)
    for cut in [*cuts, len(data)]:
        parts += cutter.feed(data[:cut])
        data = data[cut:]
    assert all(part.endswith(b"\n") and len(part) <= 31 for part in parts)
    assert len(b"".join(parts)) == sum(lengths) + len(lengths)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(1, 400)), max_size=80), st.integers(0, 40), st.integers(0, 40)
)
def test_what_is_spilled_comes_back_in_order(
    steps: list[int | None], full_from: int, full_until: int
) -> None:
    """In and out, also while the disk is full for some time."""
    write, wrote = os.pwrite, [0]

    def pwrite(*order: Any) -> int:
        wrote[0] += 1
        if full_from <= wrote[0] < full_until:
            raise OSError(28, "No space left on device")
        return write(*order)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipes, "KEEP", 500)
        patch.setattr(os, "pwrite", pwrite)
        spill, kept, number = Spill(), [], 0
        for step in steps:
            if step is not None:
                number += 1
                line = b"%d " % number * step
                spill.put(step, line)
                kept.append((step, line))
            elif kept:
                size, line = kept.pop(0)
                assert (spill.peek(), spill.get()) == (size, line)
            assert bool(spill) == bool(kept)
        assert [(spill.peek(), spill.get()) for _ in kept] == kept
        spill.close()


def test_where_no_file_can_be_made_output_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/directory")
    monkeypatch.setattr(pipes, "KEEP", 10)
    spill = Spill()
    for number in range(5):
        spill.put(8, b"line %03d" % number)
    assert spill.is_full
    assert [spill.get() for _ in range(5)] == [b"line %03d" % number for number in range(5)]
    spill.close()


def test_a_full_disk_makes_writers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    spill = Spill()
    monkeypatch.setattr(os, "pwrite", full)
    line = b"x" * 100_000
    for _ in range(30):
        spill.put(len(line), line)
    full_before = spill.is_full
    assert [spill.get() for _ in range(30)] == [line] * 30
    assert (full_before, spill.is_full) == (True, False)
    spill.close()


def test_what_is_spilled_has_a_limit_beyond_which_writers_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[Any] = []
    make = tempfile.TemporaryFile

    def kept(**options: Any) -> Any:
        files.append(make(dir=tmp_path, **options))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", kept)
    spill, number, limit = Spill(limit=1_500_000), 0, 1_500_000
    for _ in range(3):
        lines: list[bytes] = []
        while not spill.is_full:
            lines.append(b"%099999d\n" % (number := number + 1))
            spill.put(len(lines[-1]), lines[-1])
        assert limit - 100_000 < os.fstat(files[0].fileno()).st_size <= limit
        assert len(lines) < 50
        assert [spill.get() for _ in lines] == lines, "none is lost, and there is room again"
        assert not spill
        assert not spill.is_full
    spill.close()


# ---- links -----------------------------------------------------------------------------------------------


@contextmanager
def listening(secret: str) -> Iterator[tuple[str, list[int | Exception]]]:
    """An end that accepts calls, in a thread."""
    heard: list[int | Exception] = []
    loop, server = EventLoop(), socket.create_server(("127.0.0.1", 0))
    over, end = socket.socketpair()

    def known(connection: Connection, rank: int, _rest: bytes) -> None:
        heard.append(rank)
        connection.close()

    listener = Listener(loop, server, lambda sock: links.Greeting(loop, sock, secret, known, heard.append))
    loop.add_reader(over, loop.stop)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}", heard
    finally:
        end.close()
        thread.join(10)
        listener.close()
        over.close()


def until_heard(heard: list[int | Exception]) -> int | Exception:
    for _ in range(1000):
        if heard:
            return heard[0]
        threading.Event().wait(0.01)
    raise AssertionError("nobody was heard")


def test_both_ends_of_a_link_know_the_secret() -> None:
    with listening("one") as (contact, heard):
        links.call(contact, 7, "one").close()
        assert until_heard(heard) == 7
    with listening("one") as (contact, heard):
        with pytest.raises(links.StrangerError, match=r"127\.0\.0\.1:[0-9]+ does not belong to this launch"):
            links.call(contact, 7, "other")
        assert isinstance(until_heard(heard), ConnectionError)


def test_what_was_said_before_opens_no_link() -> None:
    """An answer is good for one link alone, and its own end's answer does not serve the other."""
    with listening("one") as (contact, heard), socket.create_connection(apart(contact), 5) as call:
        call.sendall(b"0" * 32)
        answer = call.recv(96, socket.MSG_WAITALL)
        call.sendall(b"00000007" + answer[32:])
        assert isinstance(until_heard(heard), links.StrangerError)


@pytest.mark.long
def test_the_time_for_which_it_was_stopped_is_nobodys_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that is kept is as good as a process that is stopped."""
    monkeypatch.setattr(shell, "LINK_BEAT_S", 0.1)
    called: list[float] = []
    stops: list[tuple[float, float]] = []

    async def live() -> None:
        tree = TreeShell(Posting(Seat(0, ""), "", "run", "secret", "", Starting()), cast("House", None))
        tree.begin(asyncio.get_running_loop(), "127.0.0.1")
        began = time.monotonic()
        tree.wait("soon", 0.5, lambda: called.append(time.monotonic() - began))
        await asyncio.sleep(0)
        time.sleep(1.0)  # noqa: ASYNC251 - a stop
        async with asyncio.timeout(60):
            while not called:  # noqa: ASYNC110 - time itself
                await asyncio.sleep(0.01)
        stops.extend(tree.stops)
        await shell.end(tree)

    asyncio.run(live())
    assert called[0] > 1.3, "what was left of it comes after the stop"
    [(since, until)] = stops
    assert 0.5 < until - since < 60.0


def test_a_process_that_is_stopped_has_a_machine_that_answers() -> None:
    """Also when it can take no more."""

    async def live(sock: socket.socket) -> None:
        connection = Connection(asyncio.get_running_loop(), sock, print, print)
        link = links.TreeLink(0, connection, 0.0)
        assert link.answers(60.0)
        while not link.is_full:
            connection.write(b"x" * (1 << 20))
        async with asyncio.timeout(60):
            while not link.answers(0.0):  # noqa: ASYNC110 - the kernel's affair
                await asyncio.sleep(0.01)
        connection.unsent.clear()
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        stopped = subprocess.Popen([sys.executable, "-c", STOPPED.format(server.getsockname()[1])])
        try:
            sock, _ = server.accept()
            os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
            asyncio.run(live(sock))
        finally:
            stopped.kill()
            stopped.wait()


STOPPED = "import os, socket; it = socket.create_connection(('127.0.0.1', {})); os.kill(os.getpid(), 19)"


# ---- where and how ---------------------------------------------------------------------------------------


def test_where_agents_listen() -> None:
    assert (
        listening_at("lo")
        == listening_at("127.0.0.0/8")
        == listening_at("127.0.0.1")
        == facing("127.0.0.1")
        == "127.0.0.1"
    )
    with pytest.raises(InterfaceError, match=r"nothing here is 'eth77'; this machine has .*lo 127\.0\.0\.1"):
        listening_at("eth77")
    with pytest.raises(InterfaceError, match=r"there is no way to no\.such\.host\.invalid"):
        facing("no.such.host.invalid")


def test_where_agents_listen_by_ipv6(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = "{0:032x} 01 80 10 80 lo\nfe80{0:028x} 02 40 20 80 eth0\n20010db8{0:024x} 02 40 00 80 eth0\n"
    monkeypatch.setattr(interfaces, "IPV6", str(tmp_path / "if_inet6"))
    (tmp_path / "if_inet6").write_text(rows.format(1))
    assert listening_at("::1") == listening_at("::/64") == listening_at("lo", "2001:db8::7") == "::1"
    assert listening_at("lo", "10.0.0.1") == "127.0.0.1"
    assert listening_at("2001:db8::/32") == "2001:db8::1"
    with pytest.raises(InterfaceError, match=r"nothing here is 'fe80::/64'; .* eth0 2001:db8::1"):
        listening_at("fe80::/64")  # the same network is on each link
    with pytest.raises(InterfaceError, match=r"there is no way to 127\.0\.0\.1: "):
        facing("127.0.0.1", "inet6")


def test_a_node_has_the_port_of_its_sshd() -> None:
    here = Starting("ssh", ("-p", "1"))
    assert here.command("me@[2001:db8::1]:2222")[-9:-1] == [
        "-p", "2222", "-p", "1", "-o", "ConnectTimeout=20", "--", "me@2001:db8::1",
    ]  # fmt: skip
    assert here.command("node7:22")[-2] == "node7"


def test_how_agents_are_started() -> None:
    ssh = Starting("ssh", ("-p", "2222"), "/opt/py thon").command("node7")
    assert ssh[:2] == ["ssh", "-T"]
    assert ssh[-7:-1] == ["-p", "2222", "-o", "ConnectTimeout=20", "--", "node7"], "the first one counts"
    assert "ConnectTimeout=60" in Starting("ssh").command("node7", 90.0)
    assert "ConnectTimeout=1" in Starting("ssh").command("node7", 0.5), "0 is for ever"
    words = shlex.split(ssh[-1])
    assert words[:3] == ["exec", "sh", "-c"]
    assert shlex.split(words[3])[:4] == ["for", "each", "in", "/opt/py thon"]
    assert words[5:8] == ["-I", "-S", "-c"]
    assert words[9:12] == ["pliant.launch.tree", *Starting().places]
    assert words[-2:] == ["", "leaving"], "a job sends no code"
    sent = Starting("ssh", ships=True).command("node7", run="1234")
    assert shlex.split(sent[-1])[-2:] == ["1234/node7.code", "leaving"]
    srun = Starting("srun", python="/p").command("node7")
    assert srun[0] == "srun"
    assert "--nodelist=node7" in srun
    assert srun[-9:-4] == ["--", "/p", "-S", "-P", "-c"]
    assert srun[-3:] == ["pliant.launch.tree", *Starting().places]


def test_any_python_can_say_that_it_is_the_wrong_one() -> None:
    ast.parse(Path(arriving.__file__).read_text(), feature_version=(3, 7))


def test_an_agent_loads_little() -> None:
    """Most of the processor time of a launch is that of loading modules, on each node again."""
    code = "import sys; sys.path += sys.argv[2:4]; from pliant.launch.tree.__main__ import load; load(); print(*sys.modules)"
    words = Starting().command("n0")
    words[words.index("-c") + 1] = code
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    absent = {
        "site",
        "_ssl",
        "asyncio",
        "subprocess",
        "traceback",
        "_distutils_hack",
        "dataclasses",
        "json",
        "random",
        "runpy",
        "shutil",
        "tempfile",
    }
    assert not absent & set(done.stdout.split())


def test_a_stop_of_the_launcher_is_no_part_of_what_a_phase_took() -> None:
    stops = [(101.0, 103.0), (107.0, 109.0)]
    told = timeline([], 100.0, {"contacts": 0.5, "started": 2.0, "ended": 5.0, "over": 8.0}, {}, stops)
    spans = [(each["name"], each["ts"] / 1e6, each["dur"] / 1e6) for each in told["traceEvents"][1:]]
    assert spans == [
        ("the launcher was stopped", 1.0, 2.0),
        ("the launcher was stopped", 7.0, 2.0),
        ("contacts", 0.0, 0.5),
        ("started", 0.5, 0.5),
        ("ended", 3.0, 2.0),
        ("over", 5.0, 2.0),
    ]


def test_a_timeline_has_a_row_for_each(tmp_path: Path) -> None:
    told = timeline(
        ["a", "b"],
        100.0,
        {"contacts": 1.0, "over": 2.0},
        {"b": t.Counted(100.5, {1: 100.6, 2: 100.9, 3: 100.8}, 2)},
    )
    spans = [
        (each["tid"], each["name"], each["ts"], each["dur"])
        for each in told["traceEvents"]
        if each["ph"] == "X"
    ]
    assert spans == [
        (0, "contacts", 0, 1_000_000),
        (0, "over", 1_000_000, 1_000_000),
        (2, "start the agents below", 500_000, 100_000),
        (2, "learn how all are reached", 600_000, 300_000),
        (2, "start the program", 800_000, 0),
    ]

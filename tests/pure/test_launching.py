"""What both ends of ``pliant launch`` decide, and the small parts of its shell."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.launch.tree import links, pipes
from pliant.launch.tree.interfaces import InterfaceError, facing, listening_at
from pliant.launch.tree.pipes import Spill
from pliant.launch.tree.posting import Starting
from pliant.live.tree.launching import JOB, ForAll, Launching, LineCutter, Note, Print, start_of
from pliant.protocol import codec
from pliant.protocol import launching as t
from pliant.protocol import messages as m
from pliant.report.timeline import timeline
from pliant.testing.tree.launches import launch

ANSWERS: codec.Decoder[t.ForAll] = codec.Decoder(t.ForAll)


def said(node: str, message: m.Message) -> m.From:
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
    life.arrived(said("n0", m.Exited(JOB, 0, 0, 3)))
    life.arrived(said("n0", m.Exited(JOB, 0, 0, 90)))  # once more: it has ended already
    life.arrived(said("n0", m.Exited(JOB, 0, 1, -15)))
    assert (life.is_over, life.is_open("n0"), life.is_open("n2")) == (False, False, True)
    life.arrived(said("n2", m.StartFailed(JOB, 2, "no such file", 127)))
    assert life.is_over
    assert life.code == 128 + 15
    assert {rank: end.node for rank, end in life.ended.items()} == {0: "n0", 1: "n0", 2: "n2"}


def test_what_a_lost_node_had_is_lost() -> None:
    life = launching(1, 2)
    life.arrived(said("n1", m.Exited(JOB, 1, 1, 0)))
    assert life.gone("n1", "cut") == [Note("n1 is lost: cut")]
    assert {rank: end.code for rank, end in life.ended.items()} == {1: 0, 2: 255}


def test_one_world_goes_on_together_or_not_at_all() -> None:
    life = launching(1, 1, 1, dialect="pmi1")
    assert not life.arrived(said("n0", m.Fence(JOB, 0, 0, {"a": "1"})))
    assert not life.arrived(said("n2", m.Fence(JOB, 2, 0, {"b": "2"})))
    [fenced] = life.arrived(said("n1", m.Fence(JOB, 1, 0, {"c": "3"})))
    assert isinstance(fenced, ForAll)
    assert ANSWERS.decode(fenced.message) == m.Fenced(JOB, 0, 0, {"a": "1", "b": "2", "c": "3"})
    note, kill = life.arrived(said("n1", m.Exited(JOB, 1, 1, 5)))
    assert note == Note("process 1 on n1 has ended with 5, and the others with it")
    assert isinstance(kill, ForAll)
    assert ANSWERS.decode(kill.message) == m.Signal(JOB, 9)
    assert not life.arrived(said("n0", m.Exited(JOB, 0, 0, -9))), "they are ended once"
    assert not life.arrived(said("n2", m.Exited(JOB, 2, 2, -9)))
    assert (life.is_over, life.code) == (True, 5), "how we have ended the others says nothing"


def test_a_fence_that_is_never_passed_ends_the_world() -> None:
    life = launching(1, 1, dialect="pmi1")
    life.arrived(said("n0", m.Fence(JOB, 0, 0, {})))
    note, kill = life.arrived(said("n1", m.Exited(JOB, 1, 1, 0)))
    assert note == Note("n1: ended while others wait for it in MPI")
    assert isinstance(kill, ForAll)
    life.arrived(said("n0", m.Exited(JOB, 0, 0, -9)))
    assert life.code == 128 + 9


def test_what_cannot_be_read_is_told_and_harms_nothing() -> None:
    life = launching(1)
    [note] = life.arrived(m.From("n0", codec.raw(m.Withdraw(3))))
    assert isinstance(note, Note)
    assert note.text.startswith("n0: not a message")
    output = t.Output(0, b"text\n")
    assert life.arrived(said("n0", output)) == [Print("n0", output)]


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


@settings(max_examples=50, deadline=None)
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


# ---- links -----------------------------------------------------------------------------------------------


@contextmanager
def listening(secret: str) -> Iterator[tuple[str, list[int | Exception]]]:
    """An end that accepts calls, in a thread."""
    heard: list[int | Exception] = []
    ready, over, contact, loop = threading.Event(), asyncio.Event(), [""], asyncio.new_event_loop()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heard.append(await links.accept(reader, writer, secret))
        except Exception as error:  # noqa: BLE001 - it is looked at
            heard.append(error)
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        contact[0] = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await over.wait()
        server.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield contact[0], heard
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()


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
    with listening("one") as (contact, heard), socket.create_connection(links.address(contact), 5) as call:
        call.sendall(b"0" * 32)
        answer = call.recv(96, socket.MSG_WAITALL)
        call.sendall(b"00000007" + answer[32:])
        assert isinstance(until_heard(heard), links.StrangerError)


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


def test_how_agents_are_started() -> None:
    ssh = Starting("ssh", ("-p", "2222"), "/opt/py thon").command("node7")
    assert ssh[:2] == ["ssh", "-T"]
    assert ssh[-5:] == ["-p", "2222", "--", "node7", "exec '/opt/py thon' -m pliant.launch.tree"]
    srun = Starting("srun", python="/p").command("node7")
    assert srun[0] == "srun"
    assert "--nodelist=node7" in srun
    assert srun[-4:] == ["--", "/p", "-m", "pliant.launch.tree"]


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

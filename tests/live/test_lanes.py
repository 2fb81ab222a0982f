"""Large buffers between places of one machine: they come as they were, belong to who got them, and leave nothing open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.apgas.transport.lanes import LEAST, PAGE, Lanes

PAIR = ("tcp://127.0.0.1:1", "tcp://127.0.0.1:2")
LENGTHS = st.sampled_from(
    [0, 1, LEAST - 1, LEAST, LEAST + 1, LEAST + PAGE - 1, 2 * LEAST, 2 * LEAST + 7 * PAGE]
)


def opened() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def lanes() -> Iterator[tuple[Lanes, Lanes]]:
    before = opened()
    both = Lanes(1, PAIR[0], "secret"), Lanes(2, PAIR[1], "secret")
    yield both
    for each in both:
        each.close()
    assert opened() == before, "descriptors are left open"


def sent(lanes: tuple[Lanes, Lanes], payload: list[bytearray]) -> list[bytes]:
    """What place 2 has of what place 1 sends; only small parts are left for the socket."""
    put = lanes[0].put(2, PAIR[1], payload)
    if put is None:
        assert all(len(part) < LEAST for part in payload)
        return [bytes(part) for part in payload]
    mark, rest = put
    assert all(len(part) < LEAST for part in rest)
    for own in payload:
        if len(own) >= LEAST:
            own[:] = bytes(len(own))  # the sender goes on to use its memory
    found = lanes[1].take(1, mark, rest)
    for part in found:
        if len(part) >= LEAST:
            assert isinstance(part, memoryview)
            part[:1] = bytes(part[:1])  # it can be written to
    return [bytes(part) for part in found]


@given(st.data())
def test_what_is_put_down_is_taken_as_it_was(data: st.DataObject) -> None:
    both = Lanes(1, PAIR[0], "secret"), Lanes(2, PAIR[1], "secret")
    try:
        for _ in range(data.draw(st.integers(1, 3))):
            payload = [bytearray(os.urandom(length)) for length in data.draw(st.lists(LENGTHS, max_size=5))]
            before = [bytes(part) for part in payload]
            assert sent(both, payload) == before
    finally:
        for each in both:
            each.close()


def test_messages_may_be_taken_later_and_in_any_order(lanes: tuple[Lanes, Lanes]) -> None:
    puts = [lanes[0].put(2, PAIR[1], [bytes([number]) * LEAST]) for number in range(5)]
    lanes[0].forget(2)  # what was put down stays
    for number in (3, 0, 4):
        put = puts[number]
        assert put is not None
        [part] = lanes[1].take(1, *put)
        assert part == bytes([number]) * LEAST


def test_what_nobody_has_put_down_is_missed(lanes: tuple[Lanes, Lanes]) -> None:
    put = lanes[0].put(2, PAIR[1], [bytes(LEAST)])
    assert put is not None
    with pytest.raises(LookupError):
        lanes[1].take(7, *put)


def test_a_place_of_another_machine_gets_all_by_the_socket(lanes: tuple[Lanes, Lanes]) -> None:
    assert lanes[0].put(3, "tcp://127.0.0.1:3", [bytes(LEAST)]) is None


def test_without_memory_all_goes_by_the_socket(
    lanes: tuple[Lanes, Lanes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        assert lanes[0].put(2, PAIR[1], [bytes(LEAST)]) is None
    assert lanes[0].put(2, PAIR[1], [bytes(LEAST)]) is not None


def test_a_place_that_takes_nothing_in_does_not_hold_up_who_sends(lanes: tuple[Lanes, Lanes]) -> None:
    puts = [lanes[0].put(2, PAIR[1], [bytes(LEAST)]) for _ in range(400)]
    there = [put for put in puts if put is not None]
    assert there
    for put in there:
        [part] = lanes[1].take(1, *put)
        assert len(part) == LEAST


def test_a_place_that_has_gone_is_none_that_can_be_reached(lanes: tuple[Lanes, Lanes]) -> None:
    assert lanes[0].put(2, PAIR[1], [bytes(LEAST)]) is not None
    lanes[1].close()
    assert lanes[0].put(2, PAIR[1], [bytes(LEAST)]) is None


def test_a_child_that_writes_to_what_was_taken_changes_its_own_copy(lanes: tuple[Lanes, Lanes]) -> None:
    put = lanes[0].put(2, PAIR[1], [bytes(LEAST)])
    assert put is not None
    [part] = lanes[1].take(1, *put)
    assert isinstance(part, memoryview)
    child = os.fork()
    if not child:
        part[0] = 1
        os._exit(0)
    os.waitpid(child, 0)
    assert part[0] == 0


def test_who_is_not_of_the_program_is_not_let_in(
    lanes: tuple[Lanes, Lanes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another user, at either end."""
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert lanes[0].put(2, PAIR[1], [bytes(LEAST)]) is None
    monkeypatch.undo()
    other = Lanes(3, "tcp://127.0.0.1:3", "secret")
    put = other.put(2, PAIR[1], [bytes(LEAST)])
    assert put is not None
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(LookupError):
        lanes[1].take(3, *put)
    other.close()

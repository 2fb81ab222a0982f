"""How ranks sleep and are woken, in one process: the sockets are real."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from pliant.mpi.resizing.parking import ParkedRank, ParkedRanks, WakeOrder, WakerGone

LIMIT_S = 20.0


def nothing() -> None: ...


def asleep(*ranks: int) -> tuple[ParkedRanks, dict[int, ParkedRank]]:
    sleepers = ParkedRanks()
    door = sleepers.open()
    beds = {rank: ParkedRank(door, rank, LIMIT_S) for rank in ranks}
    sleepers.admit(ranks, LIMIT_S, nothing)
    assert len(sleepers) == len(ranks)
    return sleepers, beds


def later(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Timer(0.05, call)
    thread.start()
    return thread


def test_those_who_are_meant_wake_up_and_others_sleep_on_until_all_end() -> None:
    sleepers, beds = asleep(1, 2, 3)
    thread = later(lambda: sleepers.wake(1, 3, "a port", 4))
    assert [beds[rank].sleep(nothing) for rank in (1, 2)] == [WakeOrder(False, "a port", 1, 3, 4)] * 2
    thread.join()
    assert len(sleepers) == 1
    thread = later(sleepers.release)
    assert beds[3].sleep(nothing) == WakeOrder(True)
    thread.join()
    assert not len(sleepers)


def test_who_slept_can_sleep_again() -> None:
    sleepers, beds = asleep(1)
    sleepers.wake(1, 2, "p", 0)
    beds[1].sleep(nothing)
    bed = ParkedRank(sleepers.open(), 1, LIMIT_S)
    sleepers.admit([1], LIMIT_S, nothing)
    sleepers.release()
    assert bed.sleep(nothing).end


def test_who_sleeps_learns_that_nobody_will_wake_it() -> None:
    sleepers, beds = asleep(1)
    thread = later(lambda: sleepers.forget([1]))
    with pytest.raises(WakerGone):
        beds[1].sleep(nothing)
    thread.join()
    sleepers.release()


def test_a_bed_that_was_given_up_is_not_taken_for_a_later_one() -> None:
    sleepers = ParkedRanks()
    ParkedRank(sleepers.open(), 1, LIMIT_S).leave()
    sleepers.forget([1])
    bed = ParkedRank(sleepers.open(), 1, LIMIT_S)
    sleepers.admit([1], LIMIT_S, nothing)
    sleepers.release()
    assert bed.sleep(nothing).end


def test_who_does_not_come_is_not_waited_for_without_end() -> None:
    sleepers = ParkedRanks()
    door = sleepers.open()
    with pytest.raises(TimeoutError, match=r"ranks \[1\] of this node did not come"):
        sleepers.admit([1], 0.01, nothing)
    sleepers.release()
    with pytest.raises(ConnectionRefusedError):
        ParkedRank(door, 1, LIMIT_S)

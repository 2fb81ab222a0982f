"""The agent's half of a PMIx server, which is a process of the group's own."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_driver import HOME, Driver, start_order

from pliant.live.node import messages as n
from pliant.live.node.life import NodeLife
from pliant.live.node.pmi import AtFence, PmiError
from pliant.live.node.pmix import SEGMENTS, SERVER, Begin, PmixGroup
from pliant.live.node.warmth import key_of
from pliant.model.world import MpiWorld
from pliant.protocol import codec, pmix
from pliant.protocol import messages as m
from pliant.protocol.fence import Rounds

PROGRAMS = {"pmix": ("serve",)}
UP = codec.encode(pmix.Opened(({"PMIX_RANK": "0"}, {"PMIX_RANK": "1"})))


def driver(orphan_grace: float = 0.0) -> Driver:
    """Of an agent that has the server's program."""
    driver = Driver()
    driver.life = NodeLife(msgspec.structs.replace(HOME, programs=PROGRAMS, orphan_grace=orphan_grace))
    return driver


def messages_of_kind(asked: list[n.AnyOutput], kind: type[m.Message]) -> list[m.Message]:
    return [each.message for each in asked if isinstance(each, n.Tell) and isinstance(each.message, kind)]


def killed_pids(asked: list[n.AnyOutput]) -> set[int]:
    return {pid for each in asked if isinstance(each, n.Kill) for pid in each.pids}


def started(driver: Driver) -> list[int]:
    """Start a group; the pids of its server and ranks."""
    first = driver.next_pid + 1
    driver.order(start_order(dialect="openmpi"))
    driver.put(n.RankSaid(1, 0, SERVER, UP))
    return list(range(first, first + 3))


def test_ranks_are_started_when_their_server_is_up() -> None:
    driver_ = driver()
    asked = driver_.order(start_order(dialect="openmpi"))
    spawns = [each for each in asked if isinstance(each, n.Spawn)]
    assert [(each.rank, each.connect) for each in spawns] == [(SERVER, True)]
    assert spawns[0].argv[0] == "serve"
    assert spawns[0].env["PLIANT_JOB"] == "1"
    asked = driver_.put(n.RankSaid(1, 0, SERVER, UP))
    spawns = [each for each in asked if isinstance(each, n.Spawn)]
    assert [(each.rank, each.connect, each.env["PMIX_RANK"]) for each in spawns] == [
        (0, False, "0"),
        (1, False, "1"),
    ]
    assert messages_of_kind(asked, m.Started) == [m.Started(1, 0, (102, 103))]


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (n.RankSaid(1, 0, SERVER, codec.encode(pmix.Failed("no libpmix"))), "no libpmix"),
        (n.RankSaid(1, 0, SERVER, b"nonsense\n"), "not a message"),
        (n.Exited(101, 1), "has ended with 1"),
        (n.TimerFired("start 1 0"), "not within"),
    ],
)
def test_a_server_that_does_not_come_up_fails_the_start(happens: n.AnyInput, why: str) -> None:
    driver_ = driver()
    driver_.order(start_order(dialect="openmpi"))
    asked = driver_.put(happens)
    failed = messages_of_kind(asked, m.StartFailed)
    assert len(failed) == 1
    assert why in str(failed[0])
    assert isinstance(happens, n.Exited) or 101 in killed_pids(asked)


def test_an_agent_without_the_program_says_so() -> None:
    asked = Driver().order(start_order(dialect="openmpi"))
    assert "pmix" in str(messages_of_kind(asked, m.StartFailed)[0])


def test_a_group_ends_with_its_server() -> None:
    driver_ = driver()
    server, *ranks = started(driver_)
    asked = driver_.put(n.Exited(server, -11))
    assert killed_pids(asked) == set(ranks)
    assert b"was ended by signal 11" in bytes(messages_of_kind(asked, m.Relay)[0].message)  # type: ignore[attr-defined]


def test_a_server_ends_with_the_last_rank() -> None:
    driver_ = driver()
    server, *ranks = started(driver_)
    assert server not in killed_pids(driver_.put(n.Exited(ranks[0], 0)))
    assert server in killed_pids(driver_.put(n.Exited(ranks[1], 0)))
    asked = driver_.put(n.Exited(server, -9))
    assert not messages_of_kind(asked, m.Relay)
    assert not messages_of_kind(asked, m.Exited)


def test_a_proof_waits_for_the_server_and_takes_its_directory() -> None:
    driver_ = driver()
    server, *ranks = started(driver_)
    driver_.put(*(n.Exited(pid, 0) for pid in ranks))
    assert not any(isinstance(each, n.Scan) for each in driver_.order(m.Prove(1)))
    asked = driver_.put(n.Exited(server, -9))
    key = next(each.key for each in asked if isinstance(each, n.Scan))
    asked = driver_.put(n.Found(key))
    assert any(isinstance(each, n.ClearFiles) and f"{HOME.shm}/1.0" in each.paths for each in asked)


@given(st.lists(st.binary(max_size=200_000), min_size=2, max_size=4))
def test_a_fence_brings_all_blobs_in_order(blobs: list[bytes]) -> None:
    sizes = (1,) * len(blobs)
    groups = [PmixGroup(MpiWorld(0, sizes, part), "ns") for part in range(len(blobs))]
    rounds = Rounds(tuple(range(len(blobs))))
    merged = None
    for part, (group, blob) in enumerate(zip(groups, blobs, strict=True)):
        line = codec.encode(pmix.Fence(7, base64.b64encode(blob).decode())).decode()
        (at,) = group.receive(SERVER, line)
        assert isinstance(at, AtFence)
        merged = rounds.arrive(part, at.round, at.entries, more=False)
    assert merged is not None
    for group in groups:
        assert not group.fenced(1, merged, more=False)
        (reply,) = group.fenced(0, merged, more=False)
        done = msgspec.json.decode(reply.line, type=pmix.Done)
        assert b"".join(map(base64.b64decode, done.blobs)) == b"".join(blobs)
        assert done.id == 7
        assert not group.fenced(0, merged, more=False)


@pytest.mark.parametrize(
    ("said", "why", "code"),
    [
        (pmix.Aborted(1, 7), "rank 1 called MPI_Abort", 7),
        (pmix.Aborted(1, 256), "rank 1 called MPI_Abort", 1),
        (pmix.Spawning(1), "rank 1 called MPI_Comm_spawn", 1),
    ],
)
def test_what_a_group_cannot_survive(said: pmix.ServerMessage, why: str, code: int) -> None:
    with pytest.raises(PmiError, match=why) as caught:
        PmixGroup(MpiWorld(0, (2,)), "ns").receive(SERVER, codec.encode(said).decode())
    assert caught.value.code == code


def test_a_rank_that_never_comes_is_missed_by_those_in_mpi_init() -> None:
    group = PmixGroup(MpiWorld(0, (2,)), "ns")
    group.left(0)
    with pytest.raises(PmiError, match="rank 0 has ended"):
        group.receive(SERVER, codec.encode(pmix.Initialized(1)).decode())


@pytest.mark.parametrize("finalizes", [False, True])
def test_a_rank_that_ends_with_0_before_mpi_finalize_ends_its_group(finalizes: bool) -> None:  # noqa: FBT001
    driver_ = driver()
    _server, *ranks = started(driver_)
    driver_.put(
        n.RankSaid(1, 0, SERVER, codec.encode(pmix.Initialized(0)) + codec.encode(pmix.Initialized(1)))
    )
    if finalizes:
        driver_.put(n.RankSaid(1, 0, SERVER, codec.encode(pmix.Finalized(1))))
    asked = driver_.put(n.Exited(ranks[1], 0))
    assert messages_of_kind(asked, m.Exited) == [m.Exited(1, 0, 1, 0, early=not finalizes)]
    assert killed_pids(asked) == (set() if finalizes else {ranks[0]})


def test_a_server_is_up_for_all_ranks_or_none() -> None:
    group = PmixGroup(MpiWorld(0, (1, 2), 1), "ns")
    assert group.receive(SERVER, UP.decode()) == [Begin({1: {"PMIX_RANK": "0"}, 2: {"PMIX_RANK": "1"}})]
    with pytest.raises(PmiError, match="number of ranks"):
        PmixGroup(MpiWorld(0, (3,)), "ns").receive(SERVER, UP.decode())


def test_groups_that_share_memory_elsewhere_may_be_forked_from_one_process() -> None:
    spawns = [
        n.Spawn(
            1, 0, 0, ("python", "p.py"), {SEGMENTS: folder, "A": "b"}, {}, (), "/", "/out", connect=False,
            modules=("numpy",),
        )
        for folder in ("/dev/shm/a", "/dev/shm/b")
    ]  # fmt: skip
    first, second = map(key_of, spawns)
    assert first is not None
    assert first == second


def asking(driver_: Driver, number: int, ask: m.Message) -> list[n.AnyOutput]:
    return driver_.put(n.RankSaid(1, 0, SERVER, codec.encode(pmix.Ask(number, codec.raw(ask)))))


def test_what_concerns_other_groups_is_passed_on_unread() -> None:
    driver_ = driver()
    started(driver_)
    lookup = codec.raw(pmix.Lookup(("port",), wait=True))
    (up,) = messages_of_kind(asking(driver_, 4, pmix.Lookup(("port",), wait=True)), m.Asked)
    assert up == m.Asked(1, 0, 4, lookup)
    down = driver_.order(m.Answered(1, 0, 4, codec.raw(pmix.Done(4)), over=True))
    assert n.SayToRank(1, 0, SERVER, codec.encode(pmix.Done(4))) in down
    assert not [
        each for each in driver_.order(m.Answered(1, 0, 4, over=True)) if isinstance(each, n.SayToRank)
    ]
    assert not driver_.order(m.Answered(1, 9, 4, codec.raw(pmix.Done(4))))  # a group that is not here


def test_what_is_not_answered_for_good_is_asked_again_of_the_next_controller() -> None:
    driver_ = driver(orphan_grace=30.0)
    started(driver_)
    for number in (1, 2, 3):
        asking(driver_, number, pmix.Publish((pmix.Item(f"port{number}", 0, 0, 3, ""),)))
    driver_.order(m.Answered(1, 0, 1, codec.raw(pmix.Done(1)), over=True))
    driver_.order(m.Answered(1, 0, 2, codec.raw(pmix.Done(2))))
    driver_.order(m.Ack(1000, 1000))
    driver_.put(n.LinkLost())
    again = messages_of_kind(driver_.put(n.LinkMade()), m.Asked)
    assert [each.number for each in again if isinstance(each, m.Asked)] == [2, 3]
    driver_.order(m.Answered(1, 0, 2, over=True))
    driver_.put(n.LinkLost())
    again = messages_of_kind(driver_.put(n.LinkMade()), m.Asked)
    assert [each.number for each in again if isinstance(each, m.Asked)] == [3]

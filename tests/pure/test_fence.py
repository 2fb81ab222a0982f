"""MPI_Init over several nodes, without processes: the nodes' half and the controller's half of the exchange."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.live.node.pmi import AtFence, PmiError, PmiGroup, Reply, process_mapping
from pliant.model.errors import ProtocolError
from pliant.model.world import MpiWorld
from pliant.protocol import codec
from pliant.protocol.fence import PIECE, Rounds, pieces

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple)


Order = tuple[int, int, dict[str, str], bool]
"""A group, a fence, and a piece of what all have put there, with whether more follows."""


class Exchange:
    """All ranks of a world: each puts a value, comes to the barrier and gets everybody's, ``rounds`` times."""

    def __init__(self, sizes: tuple[int, ...], rounds: int, length: int) -> None:
        self.groups = [PmiGroup(MpiWorld(0, sizes, part), "kvs") for part in range(len(sizes))]
        self.fence = Rounds(tuple(range(len(sizes))))
        self.part = {rank: part for part in range(len(sizes)) for rank in MpiWorld(0, sizes, part).ranks}
        self.rounds = rounds
        self.value = "v" * length
        self.inside = dict.fromkeys(self.part, False)
        self.passed = dict.fromkeys(self.part, 0)

    def play(self, random: Random) -> None:
        orders: list[Order] = []
        while any(count < self.rounds for count in self.passed.values()) or orders:
            able = [rank for rank in self.part if self.passed[rank] < self.rounds and not self.inside[rank]]
            if orders and (not able or random.random() < 0.5):
                part, number, piece, more = orders.pop(0)
                self._pass(self.groups[part].fenced(number, piece, more=more))
            else:
                orders += self._enter(random.choice(able))

    def _enter(self, rank: int) -> list[Order]:
        group, number = self.groups[self.part[rank]], self.passed[rank]
        group.receive(rank, f"cmd=put key=k{rank}.{number} value={self.value}{rank}")
        self.inside[rank] = True
        orders = []
        for answer in group.receive(rank, "cmd=barrier_in"):
            if isinstance(answer, Reply):
                self._pass([answer])
                continue
            assert isinstance(answer, AtFence)
            for sent, to_come in pieces(answer.entries):
                merged = self.fence.arrive(self.part[rank], answer.round, sent, more=to_come)
                if merged is not None:
                    orders += [
                        (g, answer.round, piece, more)
                        for g in self.fence.groups
                        for piece, more in pieces(merged)
                    ]
        return orders

    def _pass(self, replies: list[Reply]) -> None:
        for reply in replies:
            assert reply.line == b"cmd=barrier_out rc=0\n"
            self.inside[reply.rank] = False
            number = self.passed[reply.rank]
            self.passed[reply.rank] += 1
            # Nobody is still before the fence of this round.
            assert all(self.inside[other] or self.passed[other] > number for other in self.part)
            for other in self.part:
                [got] = self.groups[self.part[reply.rank]].receive(
                    reply.rank, f"cmd=get key=k{other}.{number}"
                )
                assert isinstance(got, Reply)
                assert f"value={self.value}{other}\n".encode() in got.line


@given(SIZES, st.integers(1, 3), st.sampled_from([1, 3000]), st.integers(0, 1 << 32))
def test_everybody_has_what_everybody_put_and_nobody_passes_early(
    sizes: tuple[int, ...], rounds: int, length: int, seed: int
) -> None:
    Exchange(sizes, rounds, length).play(Random(seed))


@given(SIZES)
def test_the_mapping_names_the_node_of_every_rank(sizes: tuple[int, ...]) -> None:
    runs = json.loads(
        process_mapping(MpiWorld(0, sizes)).replace("(vector,", "[").replace("(", "[").replace(")", "]")
    )
    told = [node for first, count, each in runs for node in range(first, first + count) for _ in range(each)]
    assert told == [node for node, size in enumerate(sizes) for _ in range(size)]


def test_large_entries_travel_in_lines_that_the_codec_takes() -> None:
    entries = {f"key{i}": "\x01" * 4000 for i in range(200)}
    sent = list(pieces(entries))
    assert [more for _, more in sent] == [True] * (len(sent) - 1) + [False]
    assert {key: value for piece, _ in sent for key, value in piece.items()} == entries
    assert max(len(json.dumps(piece)) for piece, _ in sent) < codec.MAX_LINE
    assert list(pieces({})) == [({}, False)]
    assert all(sum(map(len, piece.values())) <= PIECE for piece, _ in sent)


def test_a_group_that_is_not_expected_at_the_fence_is_refused() -> None:
    fence = Rounds((3, 4))
    for group, number in ((5, 0), (3, 1)):
        with pytest.raises(ProtocolError):
            fence.arrive(group, number, {}, more=False)
    assert fence.arrive(3, 0, {}, more=False) is None
    with pytest.raises(ProtocolError, match="twice"):
        fence.arrive(3, 0, {}, more=False)


def test_a_rank_that_has_ended_is_missed_where_others_wait_for_it() -> None:
    fence = Rounds((0, 1))
    fence.left(1)
    assert not fence.missed()  # nobody waits: the program may use no MPI at all
    fence.arrive(0, 0, {}, more=False)
    assert fence.missed() == (1,)
    group = PmiGroup(MpiWorld(0, (2,)), "kvs")
    group.receive(0, "cmd=barrier_in")
    with pytest.raises(PmiError, match="rank 1 has ended"):
        group.left(1)


def test_a_rank_that_has_ended_without_mpi_is_missed_by_those_that_have_begun_with_it() -> None:
    """They wait for it in memory that they share: no barrier shows that."""
    group = PmiGroup(MpiWorld(0, (3,)), "kvs")
    group.left(1)  # nobody has begun: the program may use no MPI at all
    with pytest.raises(PmiError, match="rank 1 has ended"):
        group.receive(0, "cmd=init")
    group = PmiGroup(MpiWorld(0, (3,)), "kvs")
    group.receive(0, "cmd=init")
    group.left(0)
    with pytest.raises(PmiError, match="rank 2 has ended"):
        group.left(2)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("cmd=abort exitcode=7", 7),
        ("cmd=abort", 1),
        ("cmd=abort exitcode=-1", 1),
        ("cmd=abort exitcode=256", 1),
    ],
)
def test_an_abort_has_its_exit_code(line: str, code: int) -> None:
    with pytest.raises(PmiError, match="rank 1 called MPI_Abort") as caught:
        PmiGroup(MpiWorld(0, (2,)), "kvs").receive(1, line)
    assert caught.value.code == code


def test_a_rank_cannot_fill_the_memory_of_its_agent() -> None:
    group = PmiGroup(MpiWorld(0, (1,)), "kvs")

    def fill() -> None:
        for number in range(4000):
            group.receive(0, f"cmd=put key=k{number} value={'v' * 4000}")

    with pytest.raises(PmiError, match="no MPI_Init"):
        fill()


def test_a_fence_taken_up_again_is_the_one_at_which_somebody_may_still_wait() -> None:
    """Group 0 has passed fence 3, waits at 4 and says both again; what group 1 was told of fence 3 is lost."""
    fence = Rounds((0, 1), None)
    assert fence.arrive(0, 3, {"a": "1"}, more=False) is None
    assert fence.arrive(0, 4, {"c": "3"}, more=False) is None
    assert fence.arrive(1, 2, {}, more=False) is None
    assert fence.arrive(1, 3, {"b": "2"}, more=False) == {"a": "1", "b": "2"}
    assert fence.arrive(1, 3, {"b": "2"}, more=False) is None
    assert fence.arrive(1, 4, {}, more=False) == {"c": "3"}
    assert fence.missed() == ()


def test_groups_that_have_ended_are_missed_where_others_wait_now() -> None:
    fence = Rounds((0, 1), None)
    fence.arrive(1, 0, {}, more=False)  # passed
    fence.left(1)
    assert fence.missed() == ()
    fence.arrive(0, 0, {}, more=False)
    fence.arrive(0, 1, {}, more=False)
    assert fence.missed() == (1,)


def test_what_was_put_at_another_fence_lets_nobody_pass() -> None:
    group = PmiGroup(MpiWorld(0, (1, 1), 0), "kvs")
    group.receive(0, "cmd=barrier_in")
    assert group.fenced(0, {}, more=False)
    group.receive(0, "cmd=barrier_in")
    assert not group.fenced(0, {}, more=False)
    assert group.fenced(1, {}, more=False)


def test_what_was_merged_on_its_way_counts_once_whatever_comes_again() -> None:
    fence = Rounds((0, 1, 2))
    assert fence.gathered((), 0, {"a": "1"}) is None, "a piece"
    assert fence.gathered((0, 1), 0, {"b": "2"}) is None
    assert fence.gathered((1,), 0, {"b": "2"}) is None
    assert fence.gathered((2, 0), 0, {"c": "3"}) == {"a": "1", "b": "2", "c": "3"}
    assert fence.gathered((0, 1, 2), 0, {"d": "4"}) is None, "that round is over"
    assert fence.gathered((0, 1, 2), 1, {}) == {}
    with pytest.raises(ProtocolError, match="at fence 3, their world at 2"):
        fence.gathered((0,), 3, {})

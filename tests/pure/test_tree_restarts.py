"""Launch trees whose controller is killed: agents go on for the grace, another controller takes them up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.launch.tree import kept as keeping
from pliant.launch.tree.kept import KeptRoot
from pliant.live.tree import messages as b
from pliant.live.tree.branch import Branch
from pliant.model.deadlines import TREE_CALL_S, TREE_HEAL_S
from pliant.model.errors import PliantError
from pliant.protocol import branches as m
from pliant.protocol.messages import Adrift
from pliant_lab.injection.tree.forest import Forest, Ground
from pliant_lab.injection.tree.restarts import restart

GRACE_S = 60.0


# ---- by seeds ----------------------------------------------------------------------------------------------


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 1]))
def test_all_that_live_are_taken_up_again_or_end_by_the_grace(seed: int, number: int) -> None:
    restart(seed, number)


@pytest.mark.long
def test_what_is_drawn_has_all_that_may_happen() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1000):
        seen += restart(seed, seed % 2).seen
    assert seen["crash"] > seen["resume"] > 1000
    assert seen["adrift"] > seen["taken up"] > 10_000
    assert seen["refused"] > 100


@pytest.mark.parametrize(("seed", "number"), [(959, 0), (53, 0), (1182, 1), (134, 0), (48, 0), (32, 0)])
def test_restarts_in_which_changed_agents_were_lost(seed: int, number: int) -> None:
    restart(seed, number)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(0, 2**32), st.integers(1, 60), st.sampled_from(["1", "2", "8", "binomial"]), st.floats(0, 5)
)
def test_without_another_controller_all_end_when_the_grace_is_over(
    seed: int, agents: int, spawning: str, when: float
) -> None:
    forest = Forest(seed, Ground(agents, spawning, spawning, survive=True, grace_s=20.0))
    forest.open()
    forest.later(when, lambda: forest.kill(0))
    forest.run(when + 19.0)
    assert all(forest.agents[rank].alive and forest.agents[rank].adrift for rank in forest.placed)
    forest.run(max(when, forest.last_placed) + 22.0)
    assert not any(agent.alive for agent in forest.agents.values())


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 60), st.sampled_from(["1", "2", "8"]), st.data())
def test_agents_that_moved_before_and_meanwhile_are_found_again(
    seed: int, agents: int, spawning: str, data: st.DataObject
) -> None:
    forest = Forest(seed, Ground(agents, spawning, spawning, survive=True, grace_s=60.0))
    forest.open()
    forest.run()
    killed = data.draw(st.lists(st.integers(1, agents), max_size=4, unique=True))
    for rank in killed[:2]:
        forest.later(data.draw(st.floats(0, 10)), lambda rank=rank: forest.kill(rank))  # type: ignore[misc]
    forest.run()
    forest.kill(0)
    for rank in killed[2:]:
        forest.later(data.draw(st.floats(0, 10)), lambda rank=rank: forest.kill(rank))  # type: ignore[misc]
    forest.later(data.draw(st.floats(0, 40)), forest.resume)
    forest.run()
    assert forest.gone.keys() == set(killed)
    assert {rank for rank, agent in forest.agents.items() if agent.alive} == {*range(agents + 1)} - {*killed}


# ---- one agent ---------------------------------------------------------------------------------------------


def seat(rank: int, grace_s: float = GRACE_S) -> b.Seat:
    return b.Seat(rank, f"contact of {rank}", 0, "1", "1", survive=True, grace_s=grace_s)


def inner() -> Branch:
    """Rank 1, with rank 2 below it."""
    branch = Branch(seat(1))
    branch.handle([b.Linked(0), b.Heard(0, m.Below(("n1",), {0: "root"}, 2))])
    branch.handle(
        [b.Heard(2, m.Calling(2, "contact of 2")), b.Heard(2, m.Contacts({2: "contact of 2"}, whole=True))]
    )
    return branch


def test_an_agent_without_a_controller_says_so_and_calls_it_until_the_grace_is_over() -> None:
    branch = inner()
    assert branch.handle([b.Cut(0, "gone")]) == [
        b.Adrift(True), b.Tell(2, Adrift(True)), b.SetTimer("adrift 0", GRACE_S), b.Reach(0, "root"),
    ]  # fmt: skip
    assert branch.handle([b.Cut(0, "refused")]) == [b.SetTimer("call 0", TREE_CALL_S)]
    assert branch.handle([b.Due("call 0")]) == [b.Reach(0, "root")]
    assert branch.handle([b.Linked(0)]) == [b.Tell(0, m.Calling(1, "contact of 1", True))]
    out = branch.handle([b.Heard(0, m.Below((), {0: "root"}, 2))])
    assert out[-3:] == [b.Adrift(False), b.Tell(2, Adrift(False)), b.CancelTimer("adrift 0")]
    assert b.Tell(0, m.Contacts({1: "contact of 1", 2: "contact of 2"}, whole=True)) in out
    branch.handle([b.Cut(0, "gone")])
    out = branch.handle([b.Due("adrift 0")])
    why = "there was no controller for 60 s"
    assert out == [b.Tell(2, m.Ended(why)), b.Leave(why)]


def test_without_a_grace_an_agent_ends_with_its_controller() -> None:
    branch = Branch(seat(1, 0.0))
    branch.handle([b.Linked(0), b.Heard(0, m.Below((), {0: "root"}, 1))])
    assert branch.handle([b.Cut(0, "gone")]) == [b.Leave("the controller is gone: gone")]


def test_one_that_has_no_place_yet_ends_with_its_controller() -> None:
    branch = Branch(seat(1))
    branch.handle([b.Linked(0)])
    assert branch.handle([b.Cut(0, "gone")]) == [b.Leave("the controller is gone: gone")]


def test_one_that_is_told_that_it_is_given_up_ends_with_all_below_it() -> None:
    branch = inner()
    branch.handle([b.Cut(0, "gone"), b.Linked(0)])
    out = branch.handle([b.Heard(0, m.Contacts({}, {1: "it was lost"})), b.Cut(0, "closed")])
    why = "it was given up: it was lost"
    assert out[-2:] == [b.Tell(2, m.Ended(why)), b.Leave(why)]


def test_one_that_is_to_leave_does_not_wait_for_a_controller() -> None:
    branch = inner()
    branch.handle([b.Cut(0, "gone")])
    assert branch.handle([b.Depart("its agent has ended")]) == [b.Close(2), b.Leave(alone=True)]
    told = Branch(seat(2))
    told.handle([b.Linked(0), b.Heard(0, m.Below((), {0: "root"}, 2)), b.Depart("it was given back")])
    assert told.handle([b.Heard(0, Adrift(True))])[-1] == b.Leave(alone=True)


# ---- a root that begins again ------------------------------------------------------------------------------


def resumed(**keys: object) -> Branch:
    """A chain of n0 to n2, of which n1 has left, and n3, which was added."""
    branch = Branch(b.Seat(0, "root", -1, "1", "1", survive=True, grace_s=GRACE_S))
    earlier = b.Resumed({1: "n0", 3: "n2", 4: "n3"}, 3, 6)
    assert branch.handle([earlier]) == [b.SetTimer("heal 0", GRACE_S)]
    return branch


def gone_ranks(outputs: list[b.AnyOutput]) -> set[int]:
    return {each.rank for each in outputs if isinstance(each, b.Gone)}


def call_again(rank: int) -> b.Heard:
    return b.Heard(rank, m.Calling(rank, f"contact of {rank}", True))


def test_ranks_go_on_where_the_earlier_root_was() -> None:
    out = resumed().handle([b.More(("n4", "n5"))])
    assert [(each.rank, each.node) for each in out if isinstance(each, b.StartAgent)] == [
        (6, "n4"),
        (7, "n5"),
    ]


def test_who_does_not_call_within_the_grace_is_gone_and_others_stay() -> None:
    branch = resumed()
    branch.handle([call_again(4)])
    assert gone_ranks(branch.handle([b.Due("heal 0")])) == {1, 3}
    late = branch.handle([call_again(1)])
    assert late == [
        b.Tell(1, m.Contacts({}, {1: "it has not called the controller that began again"})), b.Close(1)
    ]  # fmt: skip


def test_who_was_gone_before_or_was_never_there_is_refused() -> None:
    branch = resumed()
    for rank in (2, 5, 77):
        told, closed = branch.handle([call_again(rank)])
        assert isinstance(told, b.Tell)
        assert isinstance(told.message, m.Contacts)
        assert told.message.gone.keys() == {rank}
        assert closed == b.Close(rank)


def test_those_below_one_that_calls_are_there_unless_it_says_that_it_has_lost_them() -> None:
    """The loss is told when the grace is over: the lost one may call by itself until then."""
    branch = resumed()
    branch.handle([call_again(1), call_again(4)])
    assert not gone_ranks(branch.handle([b.Heard(1, m.Lost(1, {3: "the connection broke"}))]))
    assert gone_ranks(branch.handle([b.Due("heal 0")])) == {3}
    other = resumed()
    other.handle(
        [call_again(1), b.Heard(1, m.Lost(1, {3: "the connection broke"})), call_again(3), call_again(4)]
    )
    assert not gone_ranks(other.handle([b.Due("heal 0")]))
    all_of_them = resumed()
    all_of_them.handle([call_again(1), call_again(4)])
    assert not gone_ranks(all_of_them.handle([b.Due("heal 0")]))
    assert gone_ranks(all_of_them.handle([b.Heard(1, m.Lost(1, {3: "the connection broke"}))])) == {3}


def test_one_that_leaves_is_told_at_once() -> None:
    branch = resumed()
    branch.handle([call_again(4)])
    assert gone_ranks(branch.handle([b.Heard(4, m.Lost(4, {4: "it was given back"}))])) == {4}


def test_what_an_earlier_root_has_started_is_taken_with_all_that_it_is_to_start() -> None:
    branch = Branch(b.Seat(0, "root", -1, "1", "1", survive=True, grace_s=GRACE_S))
    branch.handle([b.Resumed({1: "n0", 2: "n1"}, 2, 3)])
    out = branch.handle([b.Heard(1, m.Calling(1, "contact of 1"))])
    assert b.Tell(1, m.Below(("n1",), {0: "root"}, 2)) in out
    assert not gone_ranks(branch.handle([b.Due("heal 0")]))


def test_nobody_of_an_earlier_root_is_started_anew() -> None:
    """Something may have run there: the loss has to be told."""
    branch = resumed()
    branch.handle([call_again(1), call_again(4), b.Due("heal 0"), b.Cut(1, "gone")])
    out = branch.handle([b.Due("heal 1")])
    assert gone_ranks(out) == {1, 3}
    assert not [each for each in out if isinstance(each, b.Again | b.StartAgent)]


def test_a_link_that_breaks_again_and_again_is_no_loss() -> None:
    """Whether the root has noticed that or not."""
    branch = resumed()
    branch.handle([call_again(1), call_again(4), b.Due("heal 0")])
    for _ in range(2):
        out = branch.handle([b.Cut(1, "the connection broke")])
        assert b.SetTimer("heal 1", TREE_HEAL_S) in out
        branch.handle([call_again(1)])
        assert not gone_ranks(branch.handle([b.Due("heal 1")]))
    for _ in range(2):
        assert b.SetTimer("heal 4", TREE_HEAL_S) in branch.handle([call_again(4)])
        assert not gone_ranks(branch.handle([b.Due("heal 4")]))
    assert (branch.way(1), branch.way(3), branch.way(4)) == (1, 1, 4)


def test_an_agent_that_is_begun_anew_is_told_before_it_is_started() -> None:
    """Whoever keeps what the next root is told writes it in between."""
    branch = Branch(b.Seat(0, "root", -1, "1", "1", survive=True, grace_s=GRACE_S))
    branch.handle([b.Opened(("n0", "n1")), b.Heard(1, m.Calling(1, "contact of 1")), b.Cut(1, "gone")])
    out = branch.handle([b.Due("heal 1")])
    kinds = [type(each) for each in out]
    assert kinds.index(b.Again) < kinds.index(b.StartAgent)


# ---- what is kept ------------------------------------------------------------------------------------------


def test_what_is_kept_follows_nodes_that_come_and_go(tmp_path: Path) -> None:
    kept = KeptRoot.opened("10.0.0.1:4711", "secret", "8", ("n0", "n1")).more(("n2",))
    kept = kept.again(b.Again(2, 4, "n1", "why")).gone(1).more(("n0",))
    assert kept.resumed() == b.Resumed({3: "n2", 4: "n1", 5: "n0"}, 2, 6)
    assert (kept.host, kept.port) == ("10.0.0.1", 4711)
    path = tmp_path / "kept"
    path.write_text("of an earlier one")
    path.chmod(0o644)
    keeping.write(path, kept)
    assert keeping.read(path) == kept
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"contact": 1}'])
def test_what_cannot_be_read_is_said(data: bytes) -> None:
    with pytest.raises(PliantError, match="kept cannot be read"):
        keeping.decode(data)

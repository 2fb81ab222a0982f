"""The launch tree: its shapes, and the machines of its agents in a forest of one process (Bosilca et al. 2011)."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.live.tree import messages as b
from pliant.live.tree.branch import Branch
from pliant.plan import tree
from pliant.plan.tree import Binomial, Direct, KAry, Subtree
from pliant.protocol import branches as m
from pliant.protocol import launching as t
from pliant.protocol.fence import PIECE
from pliant_lab.injection.tree.forest import Forest, Ground
from pliant_lab.injection.tree.launches import launch, settled
from pliant_lab.injection.tree.tenants import FENCES, code_of, lines_of

shapes = st.one_of(st.integers(1, 40).map(KAry), st.just(Binomial()), st.just(Direct()))
names = st.sampled_from(["1", "2", "3", "8", "32", "binomial", "direct"])


# ---- shapes ------------------------------------------------------------------------------------------------


@given(shapes, st.integers(0, 300))
def test_every_rank_is_below_the_root_once(shape: tree.TreeShape, agents: int) -> None:
    seen: list[int] = []
    level = [Subtree(0, agents + 1)]
    while level:
        seen += [span.child for span in level]
        level = [below for span in level for below in shape.spans(span.child + 1, span.end)]
    assert sorted(seen) == list(range(agents + 1))


@given(shapes, st.integers(0, 300), st.data())
def test_the_way_to_a_rank_is_its_ancestors(shape: tree.TreeShape, agents: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, agents))
    path, span = tree.span_of(shape, rank, Subtree(0, agents + 1))
    assert span.child == rank
    for above, below in pairwise((*path, rank)):
        _, whole = tree.span_of(shape, above, Subtree(0, agents + 1))
        assert below in [each.child for each in shape.spans(above + 1, whole.end)]
    assert len(path) <= tree.depth(shape, agents)


@given(st.integers(1, 40), st.integers(1, 5000))
def test_no_tree_of_that_degree_is_less_deep(degree: int, agents: int) -> None:
    least, room = 0, 0
    while room < agents:
        least += 1
        room += degree**least
    if least < 200:
        assert tree.depth(KAry(degree), agents) == least


@given(st.integers(1, 3000))
def test_a_binomial_tree_is_logarithmic(agents: int) -> None:
    assert tree.depth(Binomial(), agents) <= math.log2(agents) + 1
    assert len(list(Binomial().spans(1, agents + 1))) <= math.log2(agents) + 1


@pytest.mark.parametrize("text", ["", "0", "-1", "kary", "²", "3.5"])
def test_a_tree_that_there_is_not(text: str) -> None:
    with pytest.raises(ValueError, match=r"binomial, direct or a degree"):
        tree.named(text)


# ---- launches ----------------------------------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 80), names, names, st.integers(1, 8), st.floats(0, 3))
def test_all_are_started_and_all_know_all(
    seed: int, agents: int, spawning: str, routing: str, window: int, early_s: float
) -> None:
    forest = Forest(seed, Ground(agents, spawning, routing, window))
    forest.open()
    forest.run(early_s)
    forest.spread("hello")
    forest.run()
    contacts = {rank: f"contact of {rank}" for rank in range(agents + 1)}
    assert forest.agents.keys() == contacts.keys()
    for agent in forest.agents.values():
        assert agent.branch.reached == contacts
        assert not agent.branch.gone
        assert set(agent.phases) == {1, 2}
        assert agent.delivered == [b'"hello"']
        assert not agent.timers
        # A contact comes to each agent once; what it knows of itself, never.
        assert agent.heard == {rank: 1 for rank in contacts if rank != agent.rank}
    settled(forest)
    forest.spread("again")
    forest.run()
    assert all(agent.delivered == [b'"hello"', b'"again"'] for agent in forest.agents.values())
    forest.finish()
    forest.run()
    assert {agent.left for agent in forest.agents.values()} == {""}, "all in good order"
    assert not forest.links


@pytest.mark.long
@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 120), st.sampled_from([2, 3, 8, 32]), names)
def test_what_an_agent_handles_is_what_the_paper_says(
    seed: int, agents: int, degree: int, routing: str
) -> None:
    """Section III: at most k + 1 + r connections; one message to the parent, and to its children each list that comes from
    one of them, or from one of the k children of each agent above."""
    forest = Forest(seed, Ground(agents, str(degree), routing))
    forest.open()
    forest.run(0.0)
    forest.spread("go")
    forest.run()
    whole, shape = Subtree(0, agents + 1), tree.named(routing)
    for rank, agent in forest.agents.items():
        path, span = tree.span_of(KAry(degree), rank, whole)
        _, routed = tree.span_of(shape, rank, whole)
        r = len(list(shape.spans(rank + 1, routed.end))) + (rank > 0)
        assert agent.most_links <= degree + 1 + r
        k = len(list(KAry(degree).spans(rank + 1, span.end)))
        from_above = len(path) * degree
        assert agent.sent["Contacts"] <= 1 + k * (k + 1) // 2 + k * from_above
        assert agent.sent["Calling"] <= 1 + r
        assert agent.sent["Flood"] <= k + r  # to a child also when it joins


@pytest.mark.long
@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 120), st.sampled_from([2, 3, 8]), st.data())
def test_who_takes_over_from_a_lost_agent_has_its_connections_more(
    seed: int, agents: int, degree: int, data: st.DataObject
) -> None:
    """At most k for each that is lost below, and at the root one for each that is started anew."""
    forest = Forest(seed, Ground(agents, str(degree), str(degree), survive=True))
    for rank in data.draw(st.lists(st.integers(1, agents), max_size=6, unique=True)):
        forest.later(data.draw(st.floats(0, 5)), partial(forest.kill, rank))
    forest.open()
    forest.spread("go")
    forest.run()
    settled(forest)
    for rank, agent in forest.agents.items():
        if rank <= agents:
            _, span = tree.span_of(KAry(degree), rank, Subtree(0, agents + 1))
            children = len(list(KAry(degree).spans(rank + 1, span.end)))
            lost = sum(each in span and each != rank for each in forest.gone)
            anew = 0 if rank else len(forest.again)
            above = 1 + sum(each in forest.gone for each in range(rank))
            assert agent.most_links <= children + above + degree * lost + anew


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 1]))
@pytest.mark.long
def test_what_is_lost_is_left_out_and_all_others_know_the_same(seed: int, number: int) -> None:
    launch(seed, number)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), names, names, st.data())
def test_without_survival_the_first_loss_ends_all(
    seed: int, agents: int, spawning: str, routing: str, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, agents))
    forest = Forest(seed, Ground(agents, spawning, routing))
    how = data.draw(st.sampled_from(["unreachable", "silent", "killed"]))
    if how == "killed":
        forest.later(data.draw(st.floats(0, 10)), lambda: forest.kill(rank))
    else:
        getattr(forest, how).add(rank)
    forest.open()
    forest.run()
    if how == "killed" and rank not in forest.gone:
        return  # it was killed before it was there
    assert rank in forest.gone
    assert forest.agents[0].left
    assert f"n{rank - 1}: " in forest.agents[0].left
    assert not any(agent.alive for agent in forest.agents.values() if agent.rank not in forest.silent)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(0, 2**32), st.integers(1, 60), names, names, st.sampled_from([True, False]), st.floats(0, 10)
)
def test_nothing_outlives_the_controller(
    seed: int, agents: int, spawning: str, routing: str, survive: object, when: float
) -> None:
    forest = Forest(seed, Ground(agents, spawning, routing, survive=bool(survive)))
    forest.open()
    forest.later(when, lambda: forest.kill(0))
    forest.run(when + 20.0)
    assert not any(agent.alive for agent in forest.agents.values())


def test_one_that_was_adopted_is_not_given_up_with_its_parent() -> None:
    """A chain: 2 has moved to 0, and is lost; 3, which does not know that, calls 1."""
    forest = Forest(1, Ground(3, "1", "1", survive=True))
    forest.open()
    forest.run(10.0)
    forest.cut(1, 2)
    forest.run(11.0)
    assert forest.agents[2].branch.parent == 0
    forest.kill(2)
    forest.run()
    assert forest.gone == {2: "the connection broke"}
    assert (forest.agents[3].alive, forest.agents[3].branch.parent) == (True, 1)
    settled(forest)


def test_those_that_a_lost_agent_was_starting_are_started_anew() -> None:
    """Of seven, 1 is to start 2 and 3 and is lost first; and a program is launched."""
    forest = Forest(1, Ground(7, "2", "2", survive=True, start_s=(1.0, 1.0)))
    forest.open()
    forest.launch(t.Launch(("true",), {}, "/", (1,) * 7))
    forest.run(1.5)
    assert sorted(forest.agents) == [0, 1, 5], "those of the first level"
    forest.kill(1)
    forest.run()
    settled(forest)
    assert forest.again == {2: 8, 3: 9, 4: 10}
    assert forest.landlord is not None
    ended = forest.landlord.launching.ended
    assert [ended[rank].code for rank in range(7)] == [255, *map(code_of, range(1, 7))]
    assert [forest.landlord.printed[rank] for rank in range(1, 7)] == [lines_of(rank) for rank in range(1, 7)]


@pytest.mark.parametrize(("seed", "number"), [(73, 1), (190, 1), (606, 1), (2325, 1), (2497, 1)])
def test_launches_in_which_adopted_ones_were_given_up(seed: int, number: int) -> None:
    launch(seed, number)


# ---- fences ------------------------------------------------------------------------------------------------


@pytest.mark.long
@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 120), names, names, st.data())
def test_what_is_put_before_a_fence_is_told_once_by_each_agent(
    seed: int, agents: int, spawning: str, routing: str, data: st.DataObject
) -> None:
    """So the root hears of its children alone; once more of each when all there have ended."""
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 3]), min_size=agents, max_size=agents).filter(any))
    forest = Forest(seed, Ground(agents, spawning, routing))
    forest.open()
    forest.run(data.draw(st.floats(0, 5)))
    landlord = forest.launch(t.Launch(("true",), {}, "/", tuple(sizes), "pmi1"))
    forest.run()
    assert landlord.launching.fences == FENCES
    for agent in forest.agents.values():
        assert agent.sent["Gathered"] <= FENCES + 1
    forest.finish()
    forest.run()


def inner() -> Branch:
    """Rank 1, with rank 2 below it, and rank 3 below that."""
    branch = Branch(b.Seat(1, "one", 0, "1", "1", survive=True))
    branch.handle([b.Linked(0), b.Heard(0, m.Below(("n1", "n2"), {0: "root"}, 3))])
    branch.handle([b.Heard(2, m.Calling(2, "two"))])
    return branch


def gathered(outputs: list[b.AnyOutput]) -> list[m.Gathered]:
    return [
        each.message for each in outputs if isinstance(each, b.Tell) and isinstance(each.message, m.Gathered)
    ]


def test_a_long_part_goes_in_pieces_the_last_of_which_says_whose_it_is() -> None:
    branch = inner()
    entries = {str(number): "x" * (PIECE // 2) for number in range(3)}
    assert not gathered(branch.handle([b.Put(0, 0, {"0": entries["0"]}, more=True)]))
    assert not gathered(branch.handle([b.Put(0, 0, {"1": entries["1"]})]))
    told = gathered(branch.handle([b.Heard(2, m.Gathered(0, {"2": entries["2"]}, (1, 2), 0))]))
    assert [(each.parts, each.until) for each in told] == [((), -1), ((), -1), ((0, 1, 2), 0)]
    assert {key: value for each in told for key, value in each.entries.items()} == entries


def test_an_agent_waits_for_all_below_it_and_passes_on_at_once_what_comes_later() -> None:
    branch = inner()
    assert not gathered(branch.handle([b.Absent()]))
    assert not gathered(branch.handle([b.Heard(2, m.Gathered(0, {"a": "1"}))]))
    assert gathered(branch.handle([b.Heard(2, m.Gathered(0, {}, (1,), 0))])) == [
        m.Gathered(0, {"a": "1"}, (1,), 0)
    ]
    assert not gathered(branch.handle([b.Heard(2, m.Gathered(0, {"a": "1"}, (1,), 0))])), "as before"
    late = m.Gathered(0, {"b": "2"}, (2,))
    assert gathered(branch.handle([b.Heard(2, late)])) == [m.Gathered(0, {"b": "2"}, (2,), 0)]
    branch.handle([b.Passed(0)])
    assert not gathered(branch.handle([b.Heard(2, late)])), "all have it"
    assert gathered(branch.handle([b.Heard(2, m.Gathered(until=1 << 31))])) == [m.Gathered(until=1 << 31)]


def test_an_orphan_tells_its_new_parent_again_what_is_not_passed() -> None:
    branch = Branch(b.Seat(2, "two", 1, "1", "1", survive=True))
    branch.handle([b.Linked(1), b.Heard(1, m.Below((), {0: "root", 1: "one"}, 2))])
    idle = Branch(b.Seat(2, "two", 1, "1", "1", survive=True))
    idle.handle(
        [b.Linked(1), b.Heard(1, m.Below((), {0: "root", 1: "one"}, 2)), b.Absent(), b.Cut(1, "gone")]
    )
    told = idle.handle([b.Linked(0), b.Heard(0, m.Below((), {0: "root"}, 2))])
    assert gathered(told) == [m.Gathered(until=1 << 31)], "also that there is nothing to wait for"
    for number in (0, 1):
        branch.handle([b.Put(number, 5, {f"{number}": "x"}), b.Passed(number - 1)])
    branch.handle([b.Cut(1, "gone"), b.Linked(0)])
    told = branch.handle([b.Heard(0, m.Below((), {0: "root"}, 2))])
    assert gathered(told) == [m.Gathered(1, {"1": "x"}, (5,), 1)]
    assert gathered(branch.handle([b.Absent()])) == [m.Gathered(until=1 << 31)]


# ---- nodes that come and go --------------------------------------------------------------------------------


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 60), names, names, st.data())
def test_one_that_leaves_is_no_loss_and_those_below_it_stay(
    seed: int, agents: int, spawning: str, routing: str, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, agents))
    forest = Forest(seed, Ground(agents, spawning, routing, survive=True))
    forest.open()
    forest.later(data.draw(st.floats(0, 20)), lambda: forest.depart(rank))
    forest.run()
    settled(forest)
    assert forest.gone == dict.fromkeys(forest.departed, "it was given back")
    for each in forest.departed:
        assert forest.agents[each].left == ""
    forest.spread("hello")
    forest.run()
    assert {bytes(*agent.delivered) for agent in forest.agents.values() if agent.alive} == {b'"hello"'}


def test_one_that_has_left_calls_nobody() -> None:
    """It hears from above that all know of it; in a chain, and messages to all come from the root."""
    forest = Forest(1, Ground(5, "1", "direct", survive=True))
    forest.open()
    forest.run()
    forest.depart(3)
    forest.run()
    assert forest.agents[3].sent["Calling"] == 1, "its parent, when it began"
    assert forest.agents[4].sent["Calling"] == 2, "the next one further up"


@pytest.mark.long
@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), names, names, st.floats(0, 5))
def test_nodes_are_added_and_hear_all(
    seed: int, agents: int, spawning: str, routing: str, when: float
) -> None:
    forest = Forest(seed, Ground(agents, spawning, routing))
    forest.open()
    forest.run(when)
    forest.spread("before")
    forest.more(("a", "b"))
    forest.run()
    forest.more(("c",))
    forest.spread("after")
    forest.run()
    settled(forest)
    assert forest.agents.keys() == set(range(agents + 4))
    for agent in forest.agents.values():
        assert agent.delivered == [b'"before"', b'"after"']
        assert agent.knew >= set(range(agents + 1)), "phase 2 is over"
    assert {forest.agents[agents + number].started_by for number in (1, 2, 3)} == {0}

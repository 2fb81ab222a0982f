"""plan/shrink.py, giving_back.py: the cases of Martín-Álvarez et al.'s sections 4.6 and 4.7, and what holds of every plan."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.plan.change import grown, shrunk
from pliant.plan.giving_back import NodeChoice, choose_nodes
from pliant.plan.shrink import (
    ENDED,
    ShrinkMethod,
    ShrinkPlan,
    SpawnedWorld,
    WorldCase,
    WorldRank,
    awake_on,
    awake_ranks,
    root_of,
    shrink_plan,
    waking,
    woken,
    world_over,
)
from pliant.plan.spawn import Method, Strategy, spawn_plan

INITIAL = world_over(0, {0: 2, 1: 2})
"""As a bare mpiexec makes it."""
EXPANDED = (INITIAL, world_over(1, {2: 2}), world_over(2, {3: 2}))


def cases(plan: ShrinkPlan) -> list[WorldCase]:
    return [fate.case for fate in plan.fates]


# ---- 4.7: what becomes of worlds ------------------------------------------------------------------------


def test_a_world_of_which_all_nodes_go_is_terminated() -> None:
    plan = shrink_plan(EXPANDED, {2: 2})
    assert cases(plan) == [WorldCase.KEPT, WorldCase.TERMINATED, WorldCase.KEPT]
    assert (plan.free, plan.held, plan.respawn) == ((2,), (), None)
    assert plan.fates[1].ends == (0, 1)
    assert not plan.root_leaves


def test_the_root_that_leaves_hands_its_records_to_the_first_that_stays() -> None:
    plan = shrink_plan(EXPANDED, {0: 2, 1: 2, 2: 2})
    assert cases(plan) == [WorldCase.TERMINATED, WorldCase.TERMINATED, WorldCase.KEPT]
    assert plan.free == (0, 1, 2)
    assert (plan.root_before, plan.root_after) == (WorldRank(0, 0), WorldRank(2, 0))
    assert plan.root_leaves


def test_a_world_that_is_cut_is_respawned_alone_on_what_it_keeps() -> None:
    plan = shrink_plan(EXPANDED, {1: 2})
    assert cases(plan) == [WorldCase.RESPAWNED, WorldCase.KEPT, WorldCase.KEPT]
    assert plan.free == (1,)
    assert plan.respawn is not None
    assert plan.respawn.method is Method.BASELINE
    assert [(group.node, group.size) for group in plan.respawn.groups] == [(0, 2)]
    assert plan.respawn.running == (2, 2, 2, 2), "all that are awake may start others"
    assert plan.after[-1] == SpawnedWorld(3, (0, 0))
    assert plan.root_after == WorldRank(1, 0)


def test_or_its_ranks_sleep_and_hold_the_node() -> None:
    plan = shrink_plan(EXPANDED, {1: 2}, ShrinkMethod.ZOMBIE)
    assert cases(plan) == [WorldCase.HELD, WorldCase.KEPT, WorldCase.KEPT]
    assert (plan.free, plan.held, plan.respawn) == ((), (1,), None)
    assert plan.fates[0].sleeps == (2, 3)
    assert plan.after[0] == SpawnedWorld(0, (0, 0, 1, 1), frozenset({2, 3}))


def test_a_world_whose_ranks_would_all_sleep_is_woken_and_ends_and_frees_what_it_held() -> None:
    held = shrink_plan(EXPANDED, {1: 2}, ShrinkMethod.ZOMBIE).after
    plan = shrink_plan(held, {0: 2}, ShrinkMethod.ZOMBIE)
    assert cases(plan) == [WorldCase.EMPTIED, WorldCase.KEPT, WorldCase.KEPT]
    assert plan.fates[0].wakes == (2, 3)
    assert plan.free == (0, 1)


def test_some_cores_of_a_node_let_the_last_ranks_sleep() -> None:
    plan = shrink_plan([world_over(0, {0: 4}), world_over(1, {1: 4})], {1: 3})
    assert cases(plan) == [WorldCase.KEPT, WorldCase.THINNED]
    assert plan.fates[1].sleeps == (1, 2, 3)
    assert (plan.free, plan.held) == ((), ())
    again = shrink_plan(plan.after, {1: 1})
    assert (cases(again), again.free) == ([WorldCase.KEPT, WorldCase.EMPTIED], (1,))


def test_of_a_node_with_two_worlds_one_that_fits_ends_rather_than_ranks_sleep() -> None:
    plan = shrink_plan([world_over(0, {0: 2}), world_over(1, {0: 2})], {0: 2})
    assert cases(plan) == [WorldCase.KEPT, WorldCase.TERMINATED]
    more = shrink_plan([world_over(0, {0: 2}), world_over(1, {0: 2})], {0: 3})
    assert cases(more) == [WorldCase.THINNED, WorldCase.TERMINATED]
    assert more.fates[0].sleeps == (1,)


def test_a_world_with_ranks_elsewhere_does_not_go_before_one_that_really_ends() -> None:
    plan = shrink_plan([world_over(0, {0: 2}), world_over(1, {0: 1, 1: 1})], {0: 2})
    assert cases(plan) == [WorldCase.TERMINATED, WorldCase.KEPT]


def test_a_world_that_sleeps_on_a_node_that_goes_is_cut_too() -> None:
    worlds = [world_over(0, {0: 2, 1: 2}, asleep=[2, 3]), world_over(1, {1: 2})]
    plan = shrink_plan(worlds, {1: 2})
    assert cases(plan) == [WorldCase.RESPAWNED, WorldCase.TERMINATED]
    assert plan.free == (1,)
    held = shrink_plan(worlds, {1: 2}, ShrinkMethod.ZOMBIE)
    assert (cases(held), held.held) == ([WorldCase.HELD, WorldCase.TERMINATED], (1,))


def test_respawn_starts_all_that_is_left_anew_and_nobody_sleeps() -> None:
    plan = shrink_plan(EXPANDED, {3: 1, 1: 2}, ShrinkMethod.RESPAWN)
    assert cases(plan) == [WorldCase.RESPAWNED] * 3
    assert [(world.id, world.nodes) for world in plan.after] == [(3, (0, 0)), (4, (2, 2)), (5, (3,))]
    assert plan.free == (1,)
    assert plan.root_after == WorldRank(3, 0)


@pytest.mark.parametrize(
    ("give_back", "words"),
    [
        ({}, "nothing is to be given back"),
        ({2: 3}, "node 2: 3 slots .* 2 ranks awake there; give back 1 to 2"),
        ({2: 0}, "node 2: 0 slots"),
        ({7: 1}, "node 7: the job has no rank awake there"),
        ({0: 2, 1: 2, 2: 2, 3: 2}, "nothing be left of the job"),
    ],
)
def test_what_cannot_be_given_back_is_named(give_back: dict[int, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        shrink_plan(EXPANDED, give_back)


@pytest.mark.parametrize(
    ("worlds", "words"),
    [
        ([INITIAL, INITIAL], "world 0 is there twice"),
        ([world_over(0, {0: 2}, asleep=[2])], "world 0: rank 2 sleeps, and it has 2 ranks"),
        ([INITIAL, world_over(1, {2: 1}, asleep=[0])], "world 1 has no rank awake"),
    ],
)
def test_worlds_that_cannot_be_are_named(worlds: list[SpawnedWorld], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        shrink_plan(worlds, {0: 1})
    with pytest.raises(ValueError, match=words):
        choose_nodes(worlds, 1)


# ---- 4.6: which nodes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "choice", "nodes"),
    [
        (1, NodeChoice.INITIAL_STAYS, {3}),
        (2, NodeChoice.INITIAL_GOES, {0, 1}),
        (3, NodeChoice.INITIAL_GOES, {0, 1, 3}),
    ],
)
def test_fewer_or_more_nodes_than_the_initial_allocation(
    count: int, choice: NodeChoice, nodes: set[int]
) -> None:
    given_back = choose_nodes(EXPANDED, count)
    assert (given_back.choice, set(given_back.slots)) == (choice, nodes)
    assert WorldCase.RESPAWNED not in cases(shrink_plan(EXPANDED, given_back.slots))


def test_without_an_expansion_before_the_initial_world_is_cut() -> None:
    worlds = [world_over(0, dict.fromkeys(range(4), 2))]
    given_back = choose_nodes(worlds, 1)
    assert given_back == (NodeChoice.CUT, {3: 2})
    assert cases(shrink_plan(worlds, given_back.slots)) == [WorldCase.RESPAWNED]


def test_too_few_later_nodes_are_all_taken_and_the_initial_world_is_cut() -> None:
    worlds = [world_over(0, dict.fromkeys(range(4), 2)), world_over(1, {4: 2})]
    assert choose_nodes(worlds, 3) == (NodeChoice.CUT, {4: 2, 3: 2, 2: 2})


def test_without_a_world_over_several_nodes_the_last_ones_go() -> None:
    worlds = [world_over(node, {node: 2}) for node in range(4)]
    assert choose_nodes(worlds, 2) == (NodeChoice.FREE, {3: 2, 2: 2})


def test_nodes_of_one_world_go_together() -> None:
    worlds = [world_over(0, {0: 2}), world_over(1, {1: 2, 2: 2}), world_over(2, {3: 1, 4: 1, 5: 1})]
    assert choose_nodes(worlds, 2) == (NodeChoice.FREE, {1: 2, 2: 2})
    assert choose_nodes(worlds, 4) == (NodeChoice.FREE, {0: 2, 3: 1, 4: 1, 5: 1})
    assert choose_nodes(worlds[1:], 1, initial=2) == (NodeChoice.CUT, {5: 1})
    assert choose_nodes(worlds[1:], 3) == (NodeChoice.INITIAL_STAYS, {3: 1, 4: 1, 5: 1})


def test_the_last_nodes_stay_where_only_others_are_as_many() -> None:
    sizes = {0: range(1), 1: range(1, 5), 2: range(5, 9), 3: range(9, 15)}
    worlds = [world_over(number, dict.fromkeys(nodes, 1)) for number, nodes in sizes.items()]
    choice, slots = choose_nodes(worlds, 8)
    assert (choice, set(slots)) == (NodeChoice.FREE, set(range(1, 9)))


def test_the_initial_world_may_be_another_than_the_first() -> None:
    worlds = [world_over(4, {4: 2}), world_over(0, {0: 2, 1: 2})]
    assert choose_nodes(worlds, 1, initial=0) == (NodeChoice.INITIAL_STAYS, {4: 2})


@pytest.mark.parametrize("count", [0, 4])
def test_as_many_nodes_as_there_are_cannot_go(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} nodes to give back, and the job is at work on 4"):
        choose_nodes(EXPANDED, count)


# ---- what holds of every plan ---------------------------------------------------------------------------


@st.composite
def jobs(draw: st.DrawFn) -> list[SpawnedWorld]:
    worlds = []
    for number in range(draw(st.integers(1, 6))):
        nodes = draw(st.dictionaries(st.integers(0, 7), st.integers(1, 3), min_size=1, max_size=4))
        ranks = sum(nodes.values())
        asleep = draw(st.sets(st.integers(0, ranks - 1), max_size=ranks - 1)) if draw(st.booleans()) else ()
        worlds.append(world_over(number, nodes, sorted(asleep)))
    return worlds


@st.composite
def shrinks(draw: st.DrawFn) -> tuple[list[SpawnedWorld], dict[int, int], ShrinkPlan]:
    worlds = draw(jobs())
    awake = awake_on(worlds)
    if awake.total() == 1:
        worlds.append(world_over(9, {8: 2}))
        awake = awake_on(worlds)
    nodes = draw(st.lists(st.sampled_from(sorted(awake)), min_size=1, unique=True))
    give_back = {node: draw(st.one_of(st.just(awake[node]), st.integers(1, awake[node]))) for node in nodes}
    if sum(give_back.values()) == awake.total():
        give_back[nodes[0]] -= 1
        give_back = {node: slots for node, slots in give_back.items() if slots}
    if not give_back:
        give_back = {nodes[0]: 1}
    return worlds, give_back, shrink_plan(worlds, give_back, draw(st.sampled_from(ShrinkMethod)))


@given(shrinks())
def test_every_rank_has_one_fate_and_a_world_ends_as_a_whole(
    drawn: tuple[list[SpawnedWorld], dict[int, int], ShrinkPlan],
) -> None:
    worlds, _, plan = drawn
    for world, fate in zip(worlds, plan.fates, strict=True):
        ranks = sorted([*fate.stays, *fate.sleeps, *fate.asleep, *fate.ends])
        assert ranks == list(range(len(world.nodes)))
        assert (len(fate.ends) == len(world.nodes)) == (fate.case in ENDED) == (fate.root is None)
        assert set(fate.asleep if fate.case not in ENDED else fate.wakes) == world.asleep
        if fate.root is not None:
            assert fate.root == min(fate.stays), "who sleeps leaves a rank of its world awake"


@given(shrinks())
def test_as_many_ranks_are_awake_afterwards_as_were_to_be(
    drawn: tuple[list[SpawnedWorld], dict[int, int], ShrinkPlan],
) -> None:
    worlds, give_back, plan = drawn
    wanted = awake_on(worlds)
    wanted.subtract(give_back)
    assert awake_on(plan.after) == +wanted
    assert len({world.id for world in plan.after}) == len(plan.after)


@given(shrinks())
def test_free_nodes_have_no_process_and_held_ones_none_awake(
    drawn: tuple[list[SpawnedWorld], dict[int, int], ShrinkPlan],
) -> None:
    worlds, give_back, plan = drawn
    before = awake_on(worlds)
    there = {node for world in plan.after for node in world.nodes}
    assert there.isdisjoint(plan.free)
    assert there | set(plan.free) == {node for world in worlds for node in world.nodes}
    assert there - set(awake_on(plan.after)) == set(plan.held)
    whole = {node for node, slots in give_back.items() if slots == before[node]}
    if plan.method is not ShrinkMethod.ZOMBIE:
        assert whole <= set(plan.free)
    else:
        assert plan.respawn is None
        assert whole <= {*plan.free, *plan.held}
    for world, fate in zip(worlds, plan.fates, strict=True):
        if plan.method is ShrinkMethod.TERMINATION:
            assert not whole & {world.nodes[rank] for rank in fate.sleeps}
        if plan.method is ShrinkMethod.RESPAWN:
            assert not fate.sleeps
            assert not fate.asleep


@given(shrinks())
def test_the_root_afterwards_is_the_first_that_is_awake(
    drawn: tuple[list[SpawnedWorld], dict[int, int], ShrinkPlan],
) -> None:
    worlds, _, plan = drawn
    assert plan.root_before == root_of(worlds)
    assert plan.root_after == root_of(plan.after)
    stays = [WorldRank(fate.world, rank) for fate in plan.fates for rank in fate.stays]
    if stays:
        assert plan.root_after == stays[0]
        assert plan.root_leaves == (plan.root_before not in stays)


@given(shrinks())
def test_what_is_respawned_has_a_world_on_each_node(
    drawn: tuple[list[SpawnedWorld], dict[int, int], ShrinkPlan],
) -> None:
    _, _, plan = drawn
    again = [fate for fate in plan.fates if fate.case is WorldCase.RESPAWNED]
    assert bool(again) == (plan.respawn is not None)
    if plan.respawn is not None:
        made = plan.after[-len(plan.respawn.groups) :]
        assert [world.nodes for world in made] == [
            (group.node,) * group.size for group in plan.respawn.groups
        ]


@given(jobs(), st.data())
def test_chosen_nodes_are_as_many_as_wanted_and_cut_only_where_nothing_fits(
    worlds: list[SpawnedWorld], data: st.DataObject
) -> None:
    awake = awake_on(worlds)
    if len(awake) == 1:
        return
    count = data.draw(st.integers(1, len(awake) - 1))
    choice, slots = choose_nodes(worlds, count)
    assert slots == {node: awake[node] for node in slots}
    assert len(slots) == count
    plan = shrink_plan(worlds, slots)
    if choice is not NodeChoice.CUT:
        assert {fate.case for fate in plan.fates} <= {WorldCase.KEPT, WorldCase.TERMINATED, WorldCase.EMPTIED}
    elif not any(world.asleep for world in worlds):
        assert plan.respawn is not None
    if choice is NodeChoice.INITIAL_STAYS:
        assert plan.fates[0].case is WorldCase.KEPT
    if choice is NodeChoice.INITIAL_GOES:
        assert plan.fates[0].case in ENDED


# ---- as they are carried out ------------------------------------------------------------------------------


@given(st.sampled_from(ShrinkMethod), st.sampled_from([{1: 2}, {2: 2}, {0: 2, 1: 2}, {0: 1, 3: 2}]))
def test_as_many_go_on_as_there_are_awake_afterwards(method: ShrinkMethod, back: dict[int, int]) -> None:
    plan = shrink_plan(EXPANDED, back, method)
    change = shrunk(EXPANDED, plan)
    assert (change.sources, change.spawn, change.after) == (8, plan.respawn, plan.after)
    assert len(change.targets) == sum(awake_on(plan.after).values()) == 8 - sum(back.values())
    assert not change.is_nothing


def test_ranks_that_stay_come_before_those_that_are_started_anew() -> None:
    change = shrunk(EXPANDED, shrink_plan(EXPANDED, {1: 2}))
    assert (change.stays, change.targets) == ((4, 5, 6, 7), (4, 5, 6, 7, 8, 9))


def test_growth_adds_worlds_or_replaces_them() -> None:
    merge = grown([INITIAL], spawn_plan([2, 2, 2], [2, 2], Method.MERGE, Strategy.DIFFUSIVE))
    assert (merge.targets, merge.after) == (tuple(range(6)), (INITIAL, SpawnedWorld(1, (2, 2))))
    again = grown([INITIAL], spawn_plan([2, 2, 2], [2, 2], Method.BASELINE, Strategy.SINGLE))
    assert (again.targets, again.after) == (tuple(range(4, 10)), (SpawnedWorld(1, (0, 0, 1, 1, 2, 2)),))
    assert grown([INITIAL], spawn_plan([2, 2], [2, 2], Method.MERGE, Strategy.DIFFUSIVE)).is_nothing


# ---- ranks that wake up ---------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_slots_that_sleep_are_those_that_wake(slots: list[int], data: st.DataObject) -> None:
    """The first world is over two nodes where there are so many. Who is awake then is awake as often as was asked."""
    worlds = (world_over(0, dict(enumerate(slots[:2]))), *(
        world_over(node, {node: count}) for node, count in enumerate(slots[2:], 2)
    ))  # fmt: skip
    back = {
        node: count - left
        for node, count in enumerate(slots)
        if (left := data.draw(st.integers(1, count))) < count
    }
    if not back:
        return
    after = shrink_plan(worlds, back).after
    asleep = {node: sum(w.nodes[rank] == node for w in after for rank in w.asleep) for node in back}
    assert asleep == back
    more = {node: data.draw(st.integers(1, count)) for node, count in back.items()}
    again = woken(after, waking(after, more))
    assert awake_on(again) == awake_on(after) + Counter(more)
    kept = [process for process in awake_ranks(again) if process in set(awake_ranks(after))]
    assert kept == [*awake_ranks(after)]
    with pytest.raises(ValueError, match="are to wake up, and"):
        waking(again, {node: slots[node] for node in back})


def test_a_job_of_thousands_of_nodes_is_planned_in_seconds() -> None:
    worlds = tuple(SpawnedWorld(node, (node,) * 4) for node in range(4000))
    began = time.process_time()
    plan = shrink_plan(worlds, dict.fromkeys(range(2000), 4), ShrinkMethod.TERMINATION)
    assert time.process_time() - began < 3.0
    assert len(plan.free) == 2000

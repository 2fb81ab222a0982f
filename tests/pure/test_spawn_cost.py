"""plan/spawn_cost.py: what plans take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pliant.plan.shrink import ShrinkMethod, shrink_plan, world_over
from pliant.plan.spawn import Method, SpawnPlan, Strategy, spawn_plan
from pliant.plan.spawn_cost import SpawnCosts, predict_shrink, predict_spawn

NOTHING = SpawnCosts(**dict.fromkeys(SpawnCosts.__struct_fields__, 0.0))


def cube(nodes: int, cores: int = 2, method: Method = Method.MERGE) -> SpawnPlan:
    return spawn_plan([cores] * nodes, [cores], method, Strategy.HYPERCUBE)


@pytest.mark.parametrize(("nodes", "measured_s"), [(2, 0.148), (4, 0.442), (8, 0.952)])
def test_the_defaults_give_back_what_they_were_taken_from(nodes: int, measured_s: float) -> None:
    assert predict_spawn(cube(nodes), SpawnCosts(), processors=2).total_s == pytest.approx(
        measured_s, rel=0.05
    )


@pytest.mark.parametrize(("gone", "blocked_s", "free_s"), [(1, 0.0005, 0.0225), (7, 0.014, 0.2)])
def test_and_so_do_those_of_shrinks(gone: int, blocked_s: float, free_s: float) -> None:
    worlds = [world_over(node, {node: 2}) for node in range(8)]
    times = predict_shrink(shrink_plan(worlds, dict.fromkeys(range(8 - gone, 8), 2)), SpawnCosts())
    assert (times.blocked_s, times.free_s) == pytest.approx((blocked_s, free_s), rel=0.01)
    assert times.total_s == times.blocked_s + times.free_s


def test_each_coefficient_counts_what_it_says() -> None:
    """20 cores a node, from 1 to 30 nodes: 20 groups by one node, then 9, on 20 cores each."""
    plan = cube(30, 20)
    counted = {
        "call_s": 2, "caller_s": 19 + 8, "fork_s": 40, "launch_s": 580, "process_s": 2, "token_s": 2, "connect_s": 5 + 1,
        "reorder_s": 1, "reorder_rank_s": 580,
    }  # fmt: skip
    for name, count in counted.items():
        assert predict_spawn(plan, replace(NOTHING, **{name: 1.0})).total_s == count, name
    # 29 worlds: 2 are merged, then 4, 8, 16 and all, by whole worlds of 20.
    merged = predict_spawn(plan, replace(NOTHING, merge_rank_s=1.0))
    assert list(merged.rounds) == [40, 80, 160, 320, 580]
    assert merged.join_s == 600


def test_a_single_call_connects_once_and_needs_no_order() -> None:
    plan = spawn_plan([2] * 8, [2], Method.MERGE, Strategy.SINGLE)
    costs = replace(NOTHING, connect_s=1.0, reorder_s=10.0)
    assert predict_spawn(plan, costs).total_s == 1.0


def test_sources_that_wait_share_their_cores_with_what_baseline_starts_there() -> None:
    costs = replace(NOTHING, process_s=1.0)
    assert predict_spawn(cube(8, 20, Method.BASELINE), costs).steps == (0.0, 2.0)
    assert predict_spawn(cube(8, 20), costs).steps == (0.0, 1.0)


def test_nothing_to_start_takes_no_time() -> None:
    assert predict_spawn(spawn_plan([2], [2], Method.MERGE, Strategy.SINGLE), SpawnCosts()).total_s == 0.0


def test_a_respawn_blocks_the_job_and_termination_hardly() -> None:
    worlds = [world_over(node, {node: 2}) for node in range(8)]
    cheap, dear = (
        predict_shrink(shrink_plan(worlds, dict.fromkeys(range(1, 8), 2), method), SpawnCosts(), processors=2)
        for method in (ShrinkMethod.TERMINATION, ShrinkMethod.RESPAWN)
    )
    assert dear.respawn is not None
    assert dear.blocked_s > dear.respawn.total_s > 10 * cheap.blocked_s
    assert cheap.respawn is None


def test_a_root_that_leaves_takes_time_to_hand_over_and_sleep_ends_nobody() -> None:
    worlds = [world_over(0, {0: 2}), world_over(1, {1: 2})]
    costs = replace(NOTHING, hand_over_s=1.0, part_s=10.0, end_s=100.0)
    assert predict_shrink(shrink_plan(worlds, {0: 2}), costs).total_s == 111.0
    assert predict_shrink(shrink_plan(worlds, {1: 1}), costs).total_s == 10.0


def test_ranks_on_shared_processors_have_their_turn_before_some_leave() -> None:
    worlds = [world_over(0, {0: 4}, asleep=(3,)), world_over(1, {1: 4})]
    leave = shrink_plan(worlds, {1: 4})
    costs = replace(NOTHING, turn_s=1.0)
    assert [predict_shrink(leave, costs, processors=count).blocked_s for count in (0, 1, 7)] == [
        0.0,
        7.0,
        1.0,
    ]


def test_fewer_than_no_processors_are_refused() -> None:
    with pytest.raises(ValueError, match="-1 processors"):
        predict_spawn(cube(2), SpawnCosts(), processors=-1)


@given(st.integers(1, 4), st.integers(2, 40), st.sampled_from(Strategy), st.sampled_from(Method))
def test_a_time_a_step_and_never_less_on_fewer_processors(
    cores: int, nodes: int, strategy: Strategy, method: Method
) -> None:
    plan = spawn_plan([cores] * nodes, [cores], method, strategy)
    few, many = (predict_spawn(plan, SpawnCosts(), processors=count) for count in (2, 16))
    assert len(few.steps) == len(plan.steps)
    assert few.steps[0] == 0.0
    assert few.total_s >= many.total_s > 0

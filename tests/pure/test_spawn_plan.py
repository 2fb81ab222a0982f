"""plan/spawn.py, synchronise.py, connect.py: Martín-Álvarez et al.'s figures, and what holds of every plan."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.plan.connect import connection_plan, first_ranks, new_rank
from pliant.plan.spawn import SOURCES, Method, SpawnPlan, SpawnStep, Strategy, spawn_plan
from pliant.plan.synchronise import sync_tree

TABLE_2 = (4, 2, 8, 12, 3, 3, 4, 4, 6, 3)


def test_table_2_of_the_paper() -> None:
    plan = spawn_plan(TABLE_2, [2], Method.MERGE, Strategy.DIFFUSIVE)
    assert plan.steps == (
        SpawnStep(0, 2, 0, 1, 0, 0),
        SpawnStep(1, 6, 4, 2, 1, 2),
        SpawnStep(2, 40, 34, 8, 6, 6),
        SpawnStep(3, 49, 9, 10, 2, 2),
    )
    assert [group.size for group in plan.groups] == [2, 2, 8, 12, 3, 3, 4, 4, 6, 3]
    parents = [(group.parent_group, group.parent_rank) for group in plan.groups]
    assert parents == [
        (-1, 0), (-1, 1),
        (-1, 0), (-1, 1), (0, 0), (0, 1), (1, 0), (1, 1),
        (-1, 0), (-1, 1),
    ]  # fmt: skip


def test_figure_1_of_the_paper_is_a_cube() -> None:
    plan = spawn_plan([1] * 8, [1], Method.MERGE, Strategy.HYPERCUBE)
    assert [(group.id, group.step, group.parent_group) for group in plan.groups] == [
        (0, 1, -1), (1, 2, -1), (2, 2, 0), (3, 3, -1), (4, 3, 0), (5, 3, 1), (6, 3, 2),
    ]  # fmt: skip
    assert [step.processes for step in plan.steps] == [1, 2, 4, 8]


def test_20_cores_a_node_reach_441_nodes_in_two_steps() -> None:
    plan = spawn_plan([20] * 441, [20], Method.MERGE, Strategy.HYPERCUBE)
    assert [(step.nodes, step.processes) for step in plan.steps] == [(1, 20), (21, 420), (441, 8820)]


def test_baseline_starts_all_anew_and_hypercube_does_not_count_the_sources() -> None:
    cube = spawn_plan([20] * 8, [20], Method.BASELINE, Strategy.HYPERCUBE)
    assert [(step.nodes, step.processes, step.new_nodes) for step in cube.steps] == [(0, 0, 0), (8, 160, 8)]
    assert cube.targets == cube.spawned == 160
    diffusive = spawn_plan(TABLE_2, [2], Method.BASELINE, Strategy.DIFFUSIVE)
    assert [(step.nodes, step.processes) for step in diffusive.steps] == [(1, 2), (2, 8), (10, 51)]
    assert diffusive.targets == 49


def test_single_is_one_call_and_sequential_one_a_step() -> None:
    single = spawn_plan([2, 0, 4, 2], [2], Method.MERGE, Strategy.SINGLE)
    [call] = single.calls
    assert (call.size, [group.node for group in call.groups], len(single.steps)) == (6, [2, 3], 2)
    sequential = spawn_plan([2, 0, 4, 2], [2], Method.MERGE, Strategy.SEQUENTIAL)
    assert [call.step for call in sequential.calls] == [1, 2]
    assert {(call.parent_group, call.parent_rank) for call in sequential.calls} == {(SOURCES, 0)}


def test_a_partly_filled_node_has_as_many_spawners_as_processes() -> None:
    plan = spawn_plan([10, 20, 20, 20], [3], Method.MERGE, Strategy.DIFFUSIVE)
    assert [(group.node, group.size, group.step) for group in plan.groups] == [
        (0, 7, 1), (1, 20, 1), (2, 20, 1), (3, 20, 2),
    ]  # fmt: skip
    baseline = spawn_plan([20] * 8, [3], Method.BASELINE, Strategy.HYPERCUBE)
    assert [step.groups for step in baseline.steps] == [0, 3, 5]


def test_sources_are_counted_node_by_node() -> None:
    plan = spawn_plan([2, 0, 2, 2], [2, 0, 1], Method.MERGE, Strategy.DIFFUSIVE)
    assert [plan.node_of(SOURCES, rank) for rank in range(3)] == [0, 0, 2]
    assert plan.node_of(1, 0) == 3
    with pytest.raises(ValueError, match="no process 3 among 3 sources"):
        plan.node_of(SOURCES, 3)


def test_more_processes_than_cores_are_started_where_that_is_asked() -> None:
    plan = spawn_plan([4, 4], [6], Method.MERGE, Strategy.DIFFUSIVE, oversubscription=2)
    assert [(group.node, group.size) for group in plan.groups] == [(0, 2), (1, 8)]


def test_a_job_that_lacks_nothing_starts_nothing() -> None:
    plan = spawn_plan([4, 4], [4, 4], Method.MERGE, Strategy.SINGLE)
    assert (plan.groups, plan.calls, len(plan.steps)) == ((), (), 1)


@pytest.mark.parametrize(
    ("cores", "running", "strategy", "words"),
    [
        ([4, 4], [2], Strategy.HYPERCUBE, "node 0 lacks 2, node 1 lacks 4; take diffusive"),
        (
            [4, 2],
            [4, 3],
            Strategy.DIFFUSIVE,
            "node 1: 3 processes are running, and 2 is .*; shrink .*oversubscr",
        ),
        ([4, 2], [], Strategy.DIFFUSIVE, "no process is running"),
        ([4], [4, 1], Strategy.DIFFUSIVE, "run on 2 nodes, and cores are said of 1"),
        ([0, 0], [4], Strategy.DIFFUSIVE, "cores: none on any node"),
        ([4, -1], [4], Strategy.DIFFUSIVE, "cores: -1 on node 1"),
        ([4], [-4], Strategy.DIFFUSIVE, "running processes: -4 on node 0"),
    ],
)
def test_what_cannot_be_is_named(
    cores: list[int], running: list[int], strategy: Strategy, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        spawn_plan(cores, running, Method.MERGE, strategy)


def test_less_than_one_process_a_core_is_refused() -> None:
    with pytest.raises(ValueError, match="0 processes a core"):
        spawn_plan([4], [4], Method.MERGE, Strategy.SINGLE, oversubscription=0)


# ---- what holds of every plan ---------------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn, strategies: Iterable[Strategy] = Strategy) -> SpawnPlan:
    method, strategy = draw(st.sampled_from(Method)), draw(st.sampled_from([*strategies]))
    if strategy is Strategy.HYPERCUBE:
        size = draw(st.integers(1, 5))
        nodes = st.tuples(st.sampled_from((size, size, 0)), st.booleans())
        drawn = [(cores, cores * full) for cores, full in draw(st.lists(nodes, max_size=11))]
        drawn.append((size, size))
    else:
        nodes = st.integers(0, 5).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most)))
        drawn = draw(st.lists(nodes, max_size=11))
        drawn.append((draw(st.integers(1, 5)), 1))
    drawn = draw(st.permutations(drawn))
    each = 1 if strategy is Strategy.HYPERCUBE else draw(st.sampled_from((1, 1, 2)))
    cores, running = zip(*drawn, strict=True)
    return spawn_plan(cores, running, method, strategy, oversubscription=each)


@given(plans())
def test_each_node_gets_what_it_lacks_once(plan: SpawnPlan) -> None:
    got = {group.node: group.size for group in plan.groups}
    assert len(got) == len(plan.groups)
    for node, cores in enumerate(plan.cores):
        have = plan.running[node] if plan.method is Method.MERGE else 0
        assert have + got.get(node, 0) == cores * plan.oversubscription
    assert [group.id for group in plan.groups] == list(range(len(plan.groups)))
    assert plan.targets == sum(plan.cores) * plan.oversubscription


@given(plans())
def test_no_process_calls_twice_in_a_step_and_parents_are_older(plan: SpawnPlan) -> None:
    callers = Counter((call.step, call.parent_group, call.parent_rank) for call in plan.calls)
    assert set(callers.values()) <= {1}
    assert sorted(group for call in plan.calls for group in call.groups) == list(plan.groups)
    for group in plan.groups:
        if group.parent_group == SOURCES:
            assert 0 <= group.parent_rank < plan.sources
        else:
            parent = plan.groups[group.parent_group]
            assert parent.step < group.step
            assert 0 <= group.parent_rank < parent.size


@given(plans())
def test_the_steps_add_up(plan: SpawnPlan) -> None:
    for before, step in zip(plan.steps, plan.steps[1:], strict=False):
        born = [group for group in plan.groups if group.step == step.step]
        assert step.spawned == sum(group.size for group in born) == step.processes - before.processes
        assert (step.groups, step.nodes) == (len(born), before.nodes + step.new_nodes)
        assert step.groups >= 1
    assert len(plan.steps) == 1 + max((group.step for group in plan.groups), default=0)


@given(plans([Strategy.DIFFUSIVE]))
def test_steps_of_diffusive_are_those_of_equations_4_to_8(plan: SpawnPlan) -> None:
    running = plan.running
    wanted = [
        each * plan.oversubscription - (have if plan.method is Method.MERGE else 0)
        for each, have in zip(plan.cores, running, strict=True)
    ]
    entries = [(size, have) for size, have in zip(wanted, running, strict=True) if size]
    t, nodes, first = sum(running), sum(have > 0 for have in running), 0
    for step in plan.steps[1:]:
        taken = entries[first : first + t]  # Equation 6
        first += t
        t += sum(size for size, _ in taken)  # 4, 5
        nodes += sum(not have for _, have in taken)  # 7, 8
        assert (step.processes, step.nodes) == (t, nodes)
    assert first >= len(entries)


@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 600), st.sampled_from(Method))
def test_steps_of_hypercube_are_those_of_equations_1_to_3(
    cores: int, initial: int, more: int, method: Method
) -> None:
    nodes = initial + more
    plan = spawn_plan([cores] * nodes, [cores] * initial, method, Strategy.HYPERCUBE)
    for step in plan.steps:
        grown = initial * (cores + 1) ** step.step - (initial if method is Method.BASELINE else 0)
        assert step.nodes == min(nodes, grown)
        assert step.processes == cores * step.nodes
    to_reach = nodes if method is Method.MERGE else nodes + initial
    closed = math.log(to_reach / initial) / math.log(cores + 1)
    assert len(plan.steps) - 1 == math.ceil(closed - 1e-9)


# ---- all of them ready ----------------------------------------------------------------------------------


@given(plans())
def test_word_goes_up_from_every_world_before_its_parent_speaks_and_down_again(plan: SpawnPlan) -> None:
    tree = sync_tree(plan)
    heard: Counter[int] = Counter()
    for token in tree.upside:
        world = tree.worlds[token.world + 1]
        assert heard[token.world] == len(world.children), "it speaks when it has heard all"
        assert (token.to_world, token.to_rank) == world.parent
        assert (token.to_rank, token.world) in tree.worlds[token.to_world + 1].children
        heard[token.to_world] += 1
    knows = {SOURCES}
    for token in tree.downside:
        assert token.world in knows
        assert token.to_rank == 0
        knows.add(token.to_world)
    assert knows == {world.world for world in tree.worlds}
    assert len(tree.upside) == len(tree.downside) == len(plan.calls)
    for world in tree.worlds:
        assert set(world.members) == {0} | {rank for rank, _ in world.children}


def test_the_tree_of_figure_1() -> None:
    tree = sync_tree(spawn_plan([1] * 8, [1], Method.MERGE, Strategy.HYPERCUBE))
    assert tree.worlds[0].children == ((0, 0), (0, 1), (0, 3))
    assert tree.worlds[1].children == ((0, 2), (0, 4))
    assert [token.world for token in tree.upside] == [6, 5, 4, 3, 2, 1, 0]


# ---- one communicator -----------------------------------------------------------------------------------


@given(st.integers(1, 300), st.integers(0, 9))
def test_all_worlds_are_connected_exactly_once(worlds: int, resize: int) -> None:
    plan = connection_plan(worlds, resize)
    assert sorted(plan.order) == list(range(worlds))
    assert len(plan.rounds) == math.ceil(math.log2(worlds))
    groups: dict[int, tuple[int, ...]] = {world: (world,) for world in range(worlds)}
    keys = [plan.source_key]
    for round_ in plan.rounds:
        active = len(groups)
        busy = [side for each in round_.connections for side in (each.accepting, each.connecting)]
        assert len(set(busy)) == len(busy)
        left_out = {round_.skips} if round_.skips is not None else set()
        assert set(busy) | left_out == set(range(active))
        assert not set(busy) & left_out
        assert bool(left_out) == active % 2
        for each in round_.connections:
            assert each.connecting == active - 1 - each.accepting
            assert (each.low, each.high) == (groups[each.accepting], groups.pop(each.connecting))
            groups[each.accepting] = each.low + each.high
            keys.append(each.key)
    assert groups == {0: plan.order}
    assert len(set(keys)) == len(keys), "a port serves one round of one world"
    opened = [key for world in range(worlds) for key in plan.opened_by(world)]
    assert sorted([*opened, plan.source_key]) == sorted(keys)
    assert all(key.startswith(f"r{resize}/") for key in keys)


def test_seven_groups_are_connected_in_three_rounds_as_in_figure_3() -> None:
    plan = connection_plan(7, 0)
    pairs = [[(each.accepting, each.connecting) for each in round_.connections] for round_ in plan.rounds]
    assert pairs == [[(0, 6), (1, 5), (2, 4)], [(0, 3), (1, 2)], [(0, 1)]]
    assert [round_.skips for round_ in plan.rounds] == [3, None, None]


def test_nothing_cannot_be_connected() -> None:
    with pytest.raises(ValueError, match="0 worlds"):
        connection_plan(0, 0)


@given(plans())
def test_new_ranks_are_a_permutation_sources_first(plan: SpawnPlan) -> None:
    before = plan.sources if plan.method is Method.MERGE else 0
    ranks = [new_rank(plan, group.id, rank) for group in plan.groups for rank in range(group.size)]
    assert [*range(before), *ranks] == list(range(plan.targets))
    assert len(first_ranks(plan)) == len(plan.groups)


@pytest.mark.parametrize(("group", "rank"), [(0, 2), (0, -1), (1, 0), (-1, 0)])
def test_a_process_that_is_not_there_has_no_rank(group: int, rank: int) -> None:
    with pytest.raises(ValueError, match=f"no process {rank} of group {group}"):
        new_rank(spawn_plan([2, 2], [2], Method.MERGE, Strategy.SINGLE), group, rank)


def test_one_of_the_sources_may_start_what_all_of_them_would() -> None:
    """Single, in section 2 of Martín-Álvarez et al. 2025: the others are told."""
    plan = spawn_plan([4, 4, 4, 4], [4], Method.MERGE, Strategy.HYPERCUBE, one=True)
    assert [(group.step, group.parent_group, group.parent_rank) for group in plan.groups] == [
        (1, SOURCES, 0), (2, SOURCES, 0), (2, 0, 0),
    ]  # fmt: skip
    assert (plan.sources, plan.targets) == (4, 16)
    together, alone = (
        spawn_plan([1, 1], [1], Method.MERGE, Strategy.SINGLE, one=one) for one in (False, True)
    )
    assert (together.by_port, alone.by_port) == (False, True)

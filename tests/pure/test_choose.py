"""plan/choose.py: how jobs are resized, from what their MPI can do and what was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.plan.choose import Abilities, SpawnOption, SpawnPreferences, StartedBy, by_agent, by_spawn
from pliant.plan.shrink import ShrinkMethod
from pliant.plan.spawn import Method, Strategy

ALL = Abilities("MPICH 5.0.2", "ucx")
NO_PORTS = Abilities(no_ports="MPI_Open_port: not here")
BOTH = frozenset(SpawnOption)


def test_where_all_is_possible_new_groups_decide() -> None:
    way = by_spawn(ALL, SpawnPreferences())
    assert (way.starter, way.method, way.shrink, way.beside) == (
        StartedBy.SPAWN, Method.MERGE, ShrinkMethod.TERMINATION, frozenset(),
    )  # fmt: skip
    assert way.strategy_for([2, 2]) == (Strategy.HYPERCUBE, "as all new groups are equal")
    assert way.strategy_for([2, 1]) == (Strategy.DIFFUSIVE, "as the new groups differ")
    assert str(way).startswith(
        "merge and hypercube or diffusive, shrinks by termination: hypercube where all"
    )


def test_what_is_asked_for_is_done() -> None:
    asked = SpawnPreferences(
        Method.BASELINE, Strategy.SEQUENTIAL, ShrinkMethod.ZOMBIE, frozenset({SpawnOption.ONE})
    )
    way = by_spawn(ALL, asked, "PLIANT_RESIZE_STRATEGY")
    assert (way.method, way.strategy) == (Method.BASELINE, Strategy.SEQUENTIAL)
    assert (way.shrink, way.beside) == (ShrinkMethod.ZOMBIE, frozenset({SpawnOption.ONE}))
    assert way.strategy_for([1, 2]) == (Strategy.SEQUENTIAL, "as PLIANT_RESIZE_STRATEGY says")


def test_a_job_that_is_replaced_is_respawned_in_shrinks_too() -> None:
    assert by_spawn(ALL, SpawnPreferences(Method.BASELINE)).shrink is ShrinkMethod.RESPAWN


def test_the_process_that_starts_others_beside_the_job_is_one() -> None:
    assert by_spawn(ALL, SpawnPreferences(beside=frozenset({SpawnOption.ASYNCHRONOUS}))).beside == BOTH


def test_without_ports_one_call_starts_all_and_the_job_waits_for_it() -> None:
    way = by_spawn(NO_PORTS, SpawnPreferences(beside=BOTH))
    assert (way.strategy, way.beside) == (Strategy.SINGLE, frozenset())
    assert way.why == (
        "as newcomers cannot be joined by port (MPI_Open_port: not here)",
        "not asynchronous and one, for the same reason",
    )
    with pytest.raises(ValueError, match=r"diffusive joins newcomers by port .*: take single"):
        by_spawn(NO_PORTS, SpawnPreferences(strategy=Strategy.DIFFUSIVE))
    with pytest.raises(ValueError, match="cannot be joined by port"):
        by_agent(NO_PORTS)


def test_one_call_for_nodes_that_are_one_machine_is_refused_where_it_hangs() -> None:
    hangs = Abilities(netmod="ofi", shared=True)
    assert by_spawn(hangs, SpawnPreferences()).strategy is None
    with pytest.raises(ValueError, match=r"set MPIR_CVAR_NOLOCAL=1, or .*=ucx; or take diffusive"):
        by_spawn(hangs, SpawnPreferences(strategy=Strategy.SINGLE))
    for fine in (Abilities(netmod="ucx", shared=True), Abilities(netmod="ofi")):
        assert by_spawn(fine, SpawnPreferences(strategy=Strategy.SINGLE)).strategy is Strategy.SINGLE


def test_without_spawn_there_are_the_agents() -> None:
    with pytest.raises(ValueError, match=r"\(no process manager\): start the job by pliant run"):
        by_spawn(Abilities(no_spawn="no process manager"), SpawnPreferences())
    assert str(by_agent(Abilities(no_spawn="no process manager"))).startswith(
        "merge and agent, asynchronous, one, shrinks by termination: each node's group"
    )


@given(
    st.builds(
        Abilities,
        netmod=st.sampled_from(["", "ofi", "ucx"]),
        no_ports=st.sampled_from(["", "no"]),
        shared=st.booleans(),
    ),
    st.builds(
        SpawnPreferences,
        strategy=st.none() | st.sampled_from(Strategy),
        beside=st.frozensets(st.sampled_from(SpawnOption)),
    ),
)
def test_what_is_chosen_can_be_done(can: Abilities, asked: SpawnPreferences) -> None:
    try:
        way = by_spawn(can, asked)
    except ValueError:
        assert asked.strategy is not None or can.no_ports
        return
    assert asked.strategy is None or way.strategy is asked.strategy
    if can.no_ports:
        assert (way.strategy, way.beside) == (Strategy.SINGLE, frozenset())
    else:
        assert way.beside >= asked.beside
    assert not (way.strategy is Strategy.SINGLE and can.no_wide_call)

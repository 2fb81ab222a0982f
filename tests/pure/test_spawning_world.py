"""Expansions by MPI_Comm_spawn in seeded worlds of faults: what is checked there, and that the checks can fail."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import pytest
from commands import command

from pliant.job.spawning import newcomer, operations, sources, spawn_tree, starter
from pliant.plan.connect import connection_plan
from pliant.plan.spawn import SOURCES, Method, Strategy, spawn_plan
from pliant_lab.injection.spawning import expansion as world
from pliant_lab.injection.spawning.expansion import Drawn, Verdict, expansion, judged
from pliant_lab.injection.spawning.faults import STARTER, Ill, Ills

FOUND = {
    18: "a source gave up while the root still waited for a process that starts others, which stood still",
    152: "a job ended when that process stood still: it goes on without",
    624: "the root waited for that process for ever, at the end of the job",
    765: "the root left the job, and nobody knew any more that that process stood still",
    17: "a newcomer to whom others of its world did not come failed, and did not just go",
    197: "a source gave up while the one that starts all still waited for a slow newcomer",
    650: "a source gave up while another one still waited for what it had started",
    763: "so did the root, while the process that starts others beside the job still waited",
    5484: "a newcomer that had joined gave up a slow source and did not end the job",
    8605: "nobody can notice that a starter stands still behind its last word, which the world did not know",
    31897: "newcomers beside a job wait for as long as that computes, and one of its ranks stood still",
    39971: "a slow source and a slow start together took longer than the deadline of the one call that waited for both",
    1952: "a newcomer that had said that it is there gave up while others still started, and was missed later",
}
"""Worlds that once broke what they try, and how."""


def sound(verdict: Verdict) -> Verdict:
    assert not verdict.broken, f"expansion {verdict.seed}: {verdict.what}"
    return verdict


def test_a_job_goes_on_at_one_of_its_sizes_or_has_ended_where_that_is_said() -> None:
    verdicts = [sound(expansion(seed)) for seed in range(250)]
    how = Counter(verdict.how for verdict in verdicts)
    assert min(how[each] for each in ("expanded", "stayed", "ended")) >= 25
    faults = {fault for verdict in verdicts for fault in verdict.faults}
    kinds = {"die", "stand", "raise", "slow"}
    own = {f"{kind} {who}" for kind in kinds for who in ("source", "starter")}
    assert faults == kinds | {"refused", "silent", "slow start"} | own


@pytest.mark.long
def test_so_it_does_in_many_worlds() -> None:
    for seed in range(250, 5000):
        sound(expansion(seed))


@pytest.mark.parametrize("seed", FOUND)
def test_what_once_broke_holds(seed: int) -> None:
    sound(expansion(seed))


PAIRS = (((1, 1), (1, 0)), ((2, 1), (2, 0)))
"""Cores and running processes of two nodes."""
SOME = (Ill("die"), Ill("stand"), Ill("raise"), Ill("slow", 1.4 * world.LIMIT_S))


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("beside", [False, True])
def test_whatever_meets_a_process_before_any_of_its_operations(method: Method, *, beside: bool) -> None:
    how: Counter[str] = Counter()
    for cores, running in PAIRS:
        drawn = Drawn(spawn_plan(cores, running, method, Strategy.DIFFUSIVE, one=beside), beside)
        places = [(SOURCES, rank) for rank in range(drawn.plan.sources)] + [(0, 0)]
        places += [(STARTER, 0)] if beside else []
        for place, ill, at in product(places, SOME, range(1, 46)):
            ills = Ills({(*place, at): ill})
            verdict = sound(judged(at, Random(f"{place} {at}"), drawn, ills))
            how[verdict.how] += bool(verdict.faults)
    assert min(how[each] for each in ("expanded", "stayed", "ended")) >= 10


def _told(ills: Ills, method: Method = Method.MERGE) -> list[Verdict]:
    """One source expands to two nodes beside its steps, as several draws of time have it."""
    drawn = Drawn(spawn_plan((1, 1), (1, 0), method, Strategy.DIFFUSIVE, one=True), True)
    return [sound(judged(at, Random(f"{at}"), drawn, ills, telling=True)) for at in range(40)]


@pytest.mark.parametrize("at", range(1, 8))
def test_a_starter_may_stand_still_at_any_of_its_words_of_the_end(at: int) -> None:
    """It stands still unnoticed behind its last one alone."""
    verdicts = _told(Ills({(STARTER, 0, at): Ill("stand")}, program=False))
    ended = [any("ends the job" in line for line in verdict.story) for verdict in verdicts]
    assert all(ended) if at < 6 else not any(ended)


def test_a_newcomer_that_stands_still_when_nobody_waits_for_it_any_more_is_ended_with_the_job() -> None:
    late = 0
    for at in range(20, 30):
        for verdict in _told(Ills({(0, 0, at): Ill("stand")}), Method.BASELINE):
            late += verdict.story[-1].endswith("ends the job in phase None: late")
    assert late >= 5


def test_without_faults_all_newcomers_join_that_are_waited_for() -> None:
    verdicts = [sound(expansion(seed, disturbed=False)) for seed in range(60)]
    assert not any(verdict.faults for verdict in verdicts)
    assert Counter(verdict.how for verdict in verdicts)["expanded"] > 50


def test_a_world_comes_about_again_and_is_told() -> None:
    one, other = (expansion(0, disturbed=False, telling=True) for _ in range(2))
    assert one == other
    assert len(one.story) > 20


def test_the_bench_counts_them() -> None:
    figures = json.loads(
        command("bench", "world", "--seeds", "2", "--faults", "none", "--workers", "1", "--json")
    )
    counted = figures["expansions_by_spawning"]
    assert sum(counted.values()) == 2 * world.SHARE
    assert counted["ended"] == 0


def _impatient(patch: pytest.MonkeyPatch) -> None:
    for module in (spawn_tree, sources, starter):
        patch.setattr(module, "patience", lambda _: 1)


def _in_no_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        newcomer, "new_rank", lambda _plan, group, rank: rank - 100 * group if group else -(10**6) + rank
    )


def _nobody_parts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spawn_tree.SpawnTreeNode, "call_off", lambda *_: _nothing())


def _is_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spawn_tree.SpawnTreeNode, "late", lambda _: _nothing())


def _nothing() -> Any:
    yield operations.Reach(None)
    return False


def _one_port_a_group(patch: pytest.MonkeyPatch) -> None:
    """As Martín-Álvarez et al. 2025 have it."""
    plan = connection_plan

    def same(worlds: int, resize: int) -> Any:
        made = plan(worlds, resize)
        rounds = tuple(
            round_._replace(
                connections=tuple(each._replace(key=f"port/{each.accepting}") for each in round_.connections)
            )
            for round_ in made.rounds
        )
        return made._replace(rounds=rounds)

    patch.setattr(newcomer, "connection_plan", same)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_impatient, "the job has ended: waited 12 s"),
        (_in_no_order, "the ranks are"),
        (_nobody_parts, "the job has ended, and newcomer"),
        (_is_not_told, "the job has ended, and newcomer"),
        (_one_port_a_group, "others of its communicator"),
    ],
)
def test_the_checks_can_fail(
    change: Callable[[pytest.MonkeyPatch], None], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch)
    broken = (verdict for seed in range(600) if (verdict := expansion(seed)).broken)
    assert any(what in verdict.what for verdict in broken)

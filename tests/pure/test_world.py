"""Seeded worlds of faults: what is checked there, and that the checks can fail."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest
from commands import command

from pliant.apgas.place.finishes import Home
from pliant.apgas.place.machine import PlaceMachine
from pliant.core import records as r
from pliant.core.job import ScheduledJob
from pliant.live.job.life import JobLife
from pliant.live.node import messages as n
from pliant.live.node.uplink import Uplink
from pliant.live.node.warmth import Warmth
from pliant.model.jobs import JobState
from pliant.model.nodes import NodeSet
from pliant.policy.view import Reason
from pliant.protocol import messages as m
from pliant_lab.injection import run
from pliant_lab.injection.audit.impossible import IMPOSSIBLE
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.faults import FAULTS
from pliant_lab.injection.run import WorldRun
from pliant_lab.injection.standins import fabric
from pliant_lab.injection.standins.helpers import ILLS, Helpers, Spawning

SEEDS = (0, 1, 2, 5, 7)
"""Small ones, and quick."""
FOUND = (
    3, 4, 6, 41, 125, 204, 206, 207, 406, 445, 620, 721, 1009, 2158, 3031, 801391, 870167, 870366, 870557,
    870736, 881044, 890077, 890366, 910061, 911118, 911157, 911499,
    921972, 921978,
)  # fmt: skip
"""Worlds that once broke the system, or a check, and larger ones."""


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in FOUND)])
def test_no_job_is_lost_or_run_twice_and_nothing_is_left(seed: int) -> None:
    verdict = WorldRun(seed).run()
    assert not verdict.broken, f"pliant bench world --seed {seed}: {verdict.what}"
    # Those that a user does not wait for are never submitted.
    assert sum(verdict.ended.values()) >= verdict.jobs or any(name == "end-all" for name, _ in verdict.faults)
    assert sum(verdict.faults.values()) >= 1
    assert not verdict.faults.keys() & IMPOSSIBLE.keys()


@pytest.mark.long
@pytest.mark.parametrize("seed", [6, 17])
def test_without_faults_all_but_those_that_fail_by_themselves_complete(seed: int) -> None:
    verdict = WorldRun(seed, ()).run()
    assert not verdict.broken, verdict.what
    assert not verdict.faults
    assert verdict.ended[JobState.COMPLETED] > verdict.jobs / 2
    assert verdict.done


@pytest.mark.parametrize("seed", [10, 52])
def test_ranks_sleep_and_wake_in_worlds_whose_nodes_have_several_slots(seed: int) -> None:
    verdict = WorldRun(seed).run()
    assert not verdict.broken, verdict.what
    assert verdict.slots


def test_a_core_that_forgets_who_sleeps_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScheduledJob, "sleep", lambda *_: None)
    verdict = WorldRun(10).run()
    assert "awake, the core" in verdict.what


def test_many_groups_start_together_where_mpi_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """They join one after the other: the last of them wait much longer than a step may take."""
    monkeypatch.setattr(fabric, "CONNECT_S", (20.0, 25.0))
    verdict = WorldRun(13, (), grace=0.0).run()
    assert not verdict.broken, verdict.what


def test_an_agent_that_owes_a_proof_when_it_leaves_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    tell = Uplink.tell

    def silent(self: Uplink, message: m.AgentMessage, what: str = "") -> None:
        if not isinstance(message, m.Proof):
            tell(self, message, what)

    monkeypatch.setattr(Uplink, "tell", silent)
    monkeypatch.setattr(run, "LIVES", 0)  # which notice that, too
    assert "owes the proofs" in WorldRun(1, ("end-all", "kill-agent", "reclaim")).run().what


def test_a_world_is_its_seed() -> None:
    first, second = (WorldRun(5, telling=True).run() for _ in range(2))
    assert first == second
    assert WorldRun(6, telling=True).run().story != first.story


def test_the_command_gives_the_figures_as_json() -> None:
    figures = json.loads(command("bench", "world", "--seeds", "3", "--workers", "1", "--json"))
    assert (figures["seeds"], figures["lost"], figures["run_twice"]) == (3, 0, 0)
    assert (figures["leaked"], figures["stuck"], figures["wrong"]) == (0, 0, 0)
    assert set(figures["faults_by_phase"]) == set(FAULTS)
    assert figures["faults_impossible"]["lose-reserved crossed"] == "no node is reserved"
    assert 0 < figures["cells_visited"] <= figures["cells"]


@pytest.mark.long
def test_a_job_that_nobody_tells_of_a_lost_newcomer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world whose controller does not tell a root that a newcomer is gone cannot be sound."""
    tell = JobLife._tell_root
    told = []

    def deaf(self: JobLife, message: object) -> None:
        if type(message).__name__ == "GroupLost":
            told.append(message)
        else:
            tell(self, message)  # type: ignore[arg-type]

    monkeypatch.setattr(JobLife, "_tell_root", deaf)
    verdicts = [WorldRun(seed, ("kill-rank", "lose-reserved")).run() for seed in range(10)]
    assert told
    assert any("is not told" in verdict.what for verdict in verdicts)


def test_connections_of_places_that_a_python_starts_break() -> None:
    """As most of them are started."""
    assert WorldRun(13, ("cut-places",)).run().faults


def test_connections_of_places_break_in_a_state_that_is_over_at_once() -> None:
    verdicts = (WorldRun(seed, ("cut-places", "lose-reserved")).run() for seed in (3, 17))
    assert any(("cut-places", "crossed") in verdict.faults for verdict in verdicts)


def _forget_tasks(monkeypatch: pytest.MonkeyPatch) -> str:
    """A finish that is over at once."""

    def look(self: Home, *_: object) -> list[int]:
        self.over = True
        return []

    monkeypatch.setattr(Home, "look", look)
    return "were not done"


def _keep_finishes(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(PlaceMachine, "close_finish", lambda *_: None)
    return "at the end of the program place(0) has"


@pytest.mark.parametrize("breaks", [_forget_tasks, _keep_finishes])
def test_a_broken_machine_of_places_is_noticed(
    breaks: Callable[[pytest.MonkeyPatch], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = breaks(monkeypatch)
    assert expected in WorldRun(5, ()).run().what


def test_a_record_that_contradicts_the_others_is_noticed() -> None:
    world_run = WorldRun(1, ())
    world_run.run()
    with pytest.raises(Violation, match="wrong"):
        world_run.checks.record(r.JobStarted(1e6, 10**6, NodeSet.first(1), Reason("fits")))


def test_an_agent_that_goes_without_its_warm_process_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world runs warm starts: an agent that has no use for them cannot be sound."""
    monkeypatch.setattr(Warmth, "warmed", lambda _, spawn: spawn)
    assert any("starts no warm process" in WorldRun(seed).run().what for seed in range(20))


@pytest.mark.long
def test_ranks_are_forked_in_worlds_and_helpers_fail_there(monkeypatch: pytest.MonkeyPatch) -> None:
    met = Counter[str]()
    start, fork = Helpers.start, Helpers.fork

    def counted(self: Helpers, order: n.StartHelper) -> None:
        start(self, order)
        met[self.current.ill if self.current is not None else "none"] += 1

    def forked(self: Helpers, order: n.Spawn, spawn: Spawning) -> None:
        met["ordered"] += order.helper != 0
        fork(self, order, spawn)

    monkeypatch.setattr(Helpers, "start", counted)
    monkeypatch.setattr(Helpers, "fork", forked)
    for seed in range(20):
        WorldRun(seed).run()
    assert met["ordered"]
    assert set(met) >= {*ILLS, "ordered"}, met

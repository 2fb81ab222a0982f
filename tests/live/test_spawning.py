"""Jobs under a bare mpiexec that grow by MPI_Comm_spawn, and shrink: what comes up is what was planned."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest
from harness import PLIANT, own_library

from pliant.plan.shrink import ShrinkMethod
from pliant.plan.spawn import Method, SpawnPlan, Strategy
from pliant_lab.measure.trials import PROGRAM, Gift, Outcome, Surface, Trial, run
from pliant_lab.measure.ways import RATIOS

HOSTS = ("a", "b", "c", "d")
LIMIT_S = 60.0
"""A run takes one or two seconds where nobody else computes."""
SURFACES = {"ofi": Surface("ofi"), "ucx": Surface("ucx")}


def trial(running: tuple[int, ...], cores: tuple[int, ...], **keys: object) -> Trial:
    return Trial(HOSTS[: len(cores)], running, cores, **{"limit_s": LIMIT_S / 2, **keys})  # type: ignore[arg-type]


def sources(plan: SpawnPlan) -> list[str]:
    return [HOSTS[node] for node, here in enumerate(plan.running) for _ in range(here)]


def groups_of(plan: SpawnPlan) -> list[dict[str, int | str]]:
    return [
        {
            "group": g.id, "step": g.step, "parent_group": g.parent_group, "parent_rank": g.parent_rank,
            "host": HOSTS[g.node], "size": g.size,
        }
        for g in plan.groups
    ]  # fmt: skip


def check(outcome: Outcome, plan: SpawnPlan) -> None:
    """Size, order (Equation 9), a collective, and the trace: all as planned."""
    assert not outcome.error
    planned = [(HOSTS[g.node], rank) for g in plan.groups for rank in range(g.size)]
    if plan.strategy is Strategy.SINGLE:
        planned = [(host, rank) for rank, (host, _) in enumerate(planned)]
    if plan.method is Method.MERGE:
        planned = [(host, rank) for rank, host in enumerate(sources(plan))] + planned
    told = outcome.told["ranks"][0]
    assert [tuple(rank) for rank in told["ranks"]] == planned
    assert told["sum"] == sum(range(plan.targets))
    expansion = outcome.one("expansion")
    assert expansion["trace"] == groups_of(plan)
    phases = {"prepare", "start", "synchronise", "merge", "commit"}
    more = set() if plan.strategy is Strategy.SINGLE else {"connect", "reorder"}
    assert set(expansion["phases"]) == phases | more
    assert sum(expansion["phases"].values()) == pytest.approx(expansion["total_s"], rel=0.5)


GROWTHS = {
    Strategy.SINGLE: ((1, 0), (1, 2)),
    Strategy.SEQUENTIAL: ((1, 0, 0), (1, 1, 1)),
    Strategy.HYPERCUBE: ((2, 0, 0, 0), (2, 2, 2, 2)),
    Strategy.DIFFUSIVE: ((1, 0, 0), (2, 1, 2)),
}


QUICK = (Strategy.DIFFUSIVE,)
STRATEGIES = [
    strategy if strategy in QUICK else pytest.param(strategy, marks=pytest.mark.long) for strategy in Strategy
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_job_grows_as_planned_and_gives_the_new_processes_back(strategy: Strategy) -> None:
    running, cores = GROWTHS[strategy]
    asked = trial(running, cores, strategy=strategy, leaves=(tuple(range(sum(running), sum(cores))),))
    outcome = run(asked, SURFACES["ofi"], LIMIT_S)
    check(outcome, asked.plan)
    shrink = outcome.one("shrink")
    assert (shrink["ended"], shrink["asleep"]) == (asked.plan.spawned, 0)
    assert shrink["freed_s"] >= shrink["blocked_s"] > 0
    assert [host for host, _ in outcome.told["ranks"][1]["ranks"]] == sources(asked.plan)


@pytest.mark.long
def test_newcomers_that_start_beside_the_job_are_those_planned() -> None:
    asked = trial((2, 0, 0), (2, 1, 2), strategy=Strategy.DIFFUSIVE, beside=True)
    outcome = run(asked, SURFACES["ofi"], LIMIT_S)
    assert not outcome.error
    expansion = outcome.one("expansion")
    assert expansion["trace"] == groups_of(asked.plan)
    assert expansion["blocked_s"] < expansion["total_s"]
    assert [host for host, _ in outcome.told["ranks"][0]["ranks"]] == ["a", "a", "b", "c", "c"]


REPLACEMENTS = {
    Strategy.SINGLE: ((1, 1), (0, 2)),
    Strategy.SEQUENTIAL: ((1, 0), (1, 1)),
    Strategy.HYPERCUBE: ((1, 0, 0), (1, 1, 1)),
    Strategy.DIFFUSIVE: ((1, 1, 0), (0, 1, 2)),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_job_goes_on_in_new_processes_alone(strategy: Strategy) -> None:
    running, cores = REPLACEMENTS[strategy]
    asked = trial(running, cores, method=Method.BASELINE, strategy=strategy)
    check(run(asked, SURFACES["ucx"], LIMIT_S), asked.plan)


@pytest.mark.long
def test_ranks_of_a_world_that_cannot_end_sleep_until_all_of_it_can() -> None:
    asked = trial((2, 1, 0), (2, 1, 1), strategy=Strategy.DIFFUSIVE, leaves=((1, 2), (0,)))
    outcome = run(asked, SURFACES["ofi"], LIMIT_S)
    check(outcome, asked.plan)
    first, second = outcome.told["shrink"]
    assert (first["ended"], first["asleep"], first["freed_s"]) == (0, 2, None)
    assert (second["ended"], second["asleep"]) == (3, 0)  # rank 0 goes, and those that sleep with it
    assert second["freed_s"] > 0
    assert outcome.told["ranks"][-1]["ranks"] == [["c", 0]]
    assert len(outcome.told["zombie"]) == 2


WHOLE, SOME = Gift((0, 2, 0)), Gift((0, 0, 1))
GIVES = {
    "some ranks of a node sleep; then all of its world end": ((2, 0, 0), (2, 2, 2), (SOME, Gift((0, 0, 1)))),
    "a world that is cut ends, and is started anew on what stays": ((2, 2, 0), (2, 2, 2), (WHOLE,)),
    "or its ranks sleep, and end when it does": (
        (2, 1, 0), (2, 1, 1), (Gift((0, 1, 0), ShrinkMethod.ZOMBIE), Gift((2, 0, 0), ShrinkMethod.ZOMBIE)),
    ),
    "all that is left is started anew": (
        (1, 0, 0), (1, 1, 1), (Gift((0, 0, 1), ShrinkMethod.RESPAWN, Strategy.HYPERCUBE),),
    ),
}  # fmt: skip
QUICK_GIVE = "a world that is cut ends, and is started anew on what stays"


@pytest.mark.parametrize(
    "name", [name if name == QUICK_GIVE else pytest.param(name, marks=pytest.mark.long) for name in GIVES]
)
def test_what_is_given_back_goes_as_planned(name: str) -> None:
    """Each rank tells what has become of it, each new group that it is there: that is the plan."""
    running, cores, gives = GIVES[name]
    asked = trial(running, cores, strategy=Strategy.DIFFUSIVE, gives=gives)
    outcome = run(asked, SURFACES["ofi"], LIMIT_S)
    assert not outcome.error
    assert len(outcome.told["ranks"]) == 1 + len(gives)
    told = sorted((fate["give"], fate["world"], fate["rank"], fate["fate"]) for fate in outcome.told["fate"])
    assert all(fate["same"] for fate in outcome.told["fate"])
    worlds, planned = asked.worlds, list[tuple[int, int, int, str]]()
    respawns = iter(outcome.told.get("respawn", []))
    for number, give in enumerate(gives):
        plan = give.plan(worlds)
        for fate in plan.fates:
            awake = set(range(len(worlds[[w.id for w in worlds].index(fate.world)].nodes))) - set(fate.wakes)
            for word, ranks in (("stays", fate.stays), ("sleeps", fate.sleeps), ("ends", fate.ends)):
                planned += [(number, fate.world, rank, word) for rank in ranks if rank in awake]
        if plan.respawn is not None:
            assert next(respawns)["trace"] == groups_of(plan.respawn)
        worlds = plan.after
        there = [[HOSTS[world.nodes[rank]], rank] for world in worlds for rank in world.awake]
        assert outcome.told["ranks"][number + 1]["ranks"] == there
    assert told == sorted(planned)
    assert not [*respawns]


@pytest.mark.long
def test_zombies_take_no_processor_and_end_with_the_job() -> None:
    outcome = run(trial((2, 2), (2, 2), leaves=((1, 3),), pause_s=1.0), SURFACES["ucx"], LIMIT_S)
    assert not outcome.error
    assert outcome.told["ranks"][-1]["ranks"] == [["a", 0], ["b", 2]]
    assert outcome.one("shrink")["asleep"] == 2
    for zombie in outcome.told["zombie"]:
        assert zombie["slept_s"] > 0.5
        assert zombie["slept_cpu_s"] < zombie["slept_s"] / 10


def test_a_program_that_does_not_exist_leaves_the_job_as_it_is() -> None:
    asked = trial((2, 0), (2, 2), strategy=Strategy.DIFFUSIVE, newcomers=("/no/such/program",))
    outcome = run(asked, SURFACES["ofi"], LIMIT_S)
    assert not outcome.error
    assert outcome.one("refused")["error"] == (
        "the job stays at 2 ranks: there is no program '/no/such/program' that can be executed, at least for one of "
        "them; give its full path"
    )
    assert outcome.one("ranks")["ranks"] == [["a", 0], ["a", 1]]


@pytest.mark.long
def test_newcomers_that_are_too_late_leave_the_job_as_it_is_and_end() -> None:
    asked = trial((1, 0, 0), (1, 1, 1), strategy=Strategy.DIFFUSIVE, limit_s=8.0)
    late = f"from mpi4py import MPI; import time; time.sleep(6); from {PROGRAM} import main; main()"
    newcomers = (sys.executable, "-c", late, asked.command[-1])
    outcome = run(msgspec.structs.replace(asked, newcomers=newcomers), SURFACES["ofi"], LIMIT_S)
    assert not outcome.error
    assert "not all of the groups 0, 1 have come up: waited 4 s" in outcome.one("refused")["error"]
    assert outcome.one("ranks")["ranks"] == [["a", 0]]


@pytest.mark.long
@pytest.mark.parametrize("status", [0, 3])
def test_newcomers_that_die_at_once_end_the_job_within_its_deadline(status: int) -> None:
    dies = (sys.executable, "-c", f"raise SystemExit({status})")
    asked = trial((1, 0), (1, 1), strategy=Strategy.DIFFUSIVE, newcomers=dies, limit_s=3.0)
    outcome = run(asked, SURFACES["ofi"], LIMIT_S)
    assert outcome.error.startswith("exit code")
    assert "ranks" not in outcome.told


@pytest.mark.long
def test_the_bench_compares_the_mpis_that_are_named() -> None:
    library = own_library().library
    nodes = ["--nodes", "1", "--nodes", "2"]
    words = ["bench", "resize", "--mpi", library, "--quick", "--json", *nodes]
    done = subprocess.run([PLIANT, *words], capture_output=True, text=True, timeout=200, check=True)
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["mpi"], row["error"], row["resizes"]) == (own_library().mpi.name, "", 8)
    assert row["blocked_over_mpich"] == 1.0
    assert 0 < row["grow_blocked_s"] < row["grow_total_s"]
    assert 0 < row["shrink_blocked_s"] < row["shrink_freed_s"]


@pytest.mark.long
def test_the_bench_tells_every_ratio_that_has_a_bar() -> None:
    nodes, once = ["--nodes", "1", "--nodes", "2"], ["--repetitions", "1", "--limit", "60"]
    words = ["bench", "resize", "--quick", "--json", *nodes, *once]
    done = subprocess.run([PLIANT, *words], capture_output=True, text=True, timeout=400, check=True)
    figures = json.loads(done.stdout)
    assert set(figures["ratios"]) == {ratio.name for ratio in RATIOS}
    assert set(figures["repetitions"].values()) == {1}
    assert figures["ratios"]["spawn_shrink_over_termination"] > 1
    for row in figures["rows"]:
        assert (row["repetitions"], row["hangs"], row["failed"], row["cannot"]) == (1, 0, "", "")
        rounded = 0.5e-5 * (len(row["phases"]) + 1)  # each figure is told to 10 us
        assert 0 < sum(row["phases"].values()) <= row["total_s"] + rounded

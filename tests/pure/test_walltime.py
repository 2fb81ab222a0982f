"""A walltime is an estimate: who outruns it goes on, and is expected to end now; ``kill`` alone makes it a limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from audits import audit
from commands import command, simulated
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from workloads import NODES, in_order, records_of

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.order import ORDERS
from pliant.policy.registry import POLICIES, START_RULES, has_start_rule, make
from pliant.policy.view import ClusterView, Decision, Policy, Promise, Remember, Resize, Start, Wake
from pliant.sim.instant import Instant
from pliant.workloads.job import SimJob

EVERY = [
    (name, rule)
    for name in sorted(POLICIES)
    for rule in (START_RULES if has_start_rule(POLICIES[name]) else (None,))
]
ELASTIC = (JobClass.MOLDABLE, JobClass.MALLEABLE)


@st.composite
def outrunning(draw: st.DrawFn) -> list[SimJob]:
    """Jobs of which most take longer than they say, some a hundred times as long, and none is to be killed for it."""
    jobs = []
    for number in range(draw(st.integers(2, 14))):
        kind = draw(st.sampled_from([JobClass.RIGID, *ELASTIC, JobClass.MALLEABLE]))
        low = draw(st.integers(1, NODES if kind is JobClass.RIGID else 4))
        high = low if kind is JobClass.RIGID else draw(st.integers(low, NODES))
        preferred = draw(st.integers(low, high))
        model = Amdahl(float(draw(st.integers(5, 300))), draw(st.sampled_from([0.0, 0.1])))
        spec = JobSpec(
            name=f"j{number}",
            nodes=Bounds(low, high, preferred=preferred),
            job_class=kind,
            submit_s=float(draw(st.integers(0, 60))),
            walltime_s=model.time(preferred) * draw(st.sampled_from([0.01, 0.3, 0.3, 0.7, 1.0, 2.0])),
            model=draw(st.sampled_from([model, None])),
            data_mb=draw(st.sampled_from([0.0, 500.0])),
        )
        jobs.append(SimJob(spec, model.time(preferred)))
    return jobs


class Watched:
    """``policy``, with what it decides held against the time at which it does."""

    def __init__(self, policy: Policy) -> None:
        self.name = policy.name
        self.rebalances = getattr(policy, "rebalances", False)
        self.half_life_s = getattr(policy, "half_life_s", 0.0)
        self._policy = policy

    def decide(self, view: ClusterView) -> list[Decision]:
        decisions = list(self._policy.decide(view))
        for decision in decisions:
            if isinstance(decision, Promise):
                assert view.now <= decision.at < float("inf")
            elif not isinstance(decision, Remember | Wake):
                assert isinstance(decision, Start | Resize)
                assert all(figure >= 0.0 for figure in decision.reason.figures.values()), decision
        return decisions


@pytest.mark.long
@settings(max_examples=examples(150))
@given(
    outrunning(),
    st.sampled_from(EVERY),
    st.sampled_from(sorted(ORDERS)),
    st.sampled_from([INSTANT, ResizeCost(), ResizeCost(blocked_s=1.0, data_s=0.01)]),
    st.sampled_from(Instant),
)
def test_who_outruns_an_estimate_completes_and_no_promise_lies_in_the_past(
    jobs: list[SimJob], policy: tuple[str, str | None], order: str, cost: ResizeCost, instant: Instant
) -> None:
    watched = Watched(in_order(order, *policy))
    records = records_of(jobs, watched, instant=instant, settings=Settings(cost=cost))
    checked = audit(records)
    assert not checked.jobs
    assert [ended.state for ended in checked.ended.values()] == [JobState.COMPLETED] * len(jobs)
    for record in records:
        if isinstance(record, r.JobPromised):
            assert record.start_by >= record.at


PROMISING = [name for name in sorted(POLICIES) if name not in ("fcfs", "firstfit", "equipartition")]


@pytest.mark.parametrize("name", PROMISING)
def test_the_head_is_promised_now_while_it_waits_for_a_job_that_outruns(name: str) -> None:
    """From its estimate on, at 10 s, the job may end at any moment: each pass promises its nodes anew."""

    def job(name: str, nodes: int, runtime_s: float, *, at: float, says_s: float) -> SimJob:
        bounds = Bounds.exactly(nodes)
        return SimJob(JobSpec(name=name, nodes=bounds, submit_s=at, walltime_s=says_s), runtime_s)

    jobs = [
        job("long", 6, 50.0, at=0.0, says_s=10.0),
        job("head", 7, 5.0, at=1.0, says_s=5.0),
        # It outlasts what the head is promised, and takes the one node that is left over then.
        job("small", 1, 100.0, at=20.0, says_s=100.0),
        job("other", 1, 100.0, at=25.0, says_s=100.0),
    ]
    records = records_of(jobs, make(name))
    promises = [(x.at, x.start_by) for x in records if isinstance(x, r.JobPromised) and x.job == 2]
    starts = {x.job: x.at for x in records if isinstance(x, r.JobStarted)}
    assert promises == [(1.0, 10.0), (20.0, 20.0), (25.0, 25.0)]
    assert starts == {1: 0.0, 2: 50.0, 3: 20.0, 4: 55.0}
    assert [x.state for x in records if isinstance(x, r.JobEnded)] == [JobState.COMPLETED] * 4


def test_marginal_grows_nobody_who_outruns_an_estimate_into_the_nodes_of_the_head() -> None:
    """At 20 s four nodes are free. The head needs all eight, and the jobs that hold the others may end at once."""
    model = Amdahl(4000.0)
    elastic = JobSpec(
        name="elastic", nodes=Bounds(1, 8), job_class=JobClass.MALLEABLE, walltime_s=10.0, model=model
    )
    jobs = [
        SimJob(elastic),
        SimJob(JobSpec(name="long", nodes=Bounds.exactly(3), walltime_s=10.0), 200.0),
        SimJob(JobSpec(name="exact", nodes=Bounds.exactly(4), walltime_s=20.0), 20.0),
        SimJob(JobSpec(name="head", nodes=Bounds.exactly(8), submit_s=1.0, walltime_s=5.0), 5.0),
    ]
    records = records_of(jobs, make("marginal"))
    head_s = next(x.at for x in records if isinstance(x, r.JobStarted) and x.job == 4)
    assert not [x for x in records if isinstance(x, r.ResizeOffered) and x.at < head_s]


@pytest.mark.parametrize("kind", [JobClass.RIGID, *ELASTIC])
@pytest.mark.parametrize("kill", [False, True])
def test_only_kill_ends_a_job_of_whatever_class(kind: JobClass, *, kill: bool) -> None:
    spec = JobSpec(name="late", nodes=Bounds.exactly(2), job_class=kind, walltime_s=10.0, kill=kill)
    [end] = [x for x in records_of([SimJob(spec, 30.0)], make("easy")) if isinstance(x, r.JobEnded)]
    assert (end.at, end.state) == ((10.0, JobState.TIMEOUT) if kill else (30.0, JobState.COMPLETED))


def resized_at_limit(runtime_s: float) -> list[SimJob]:
    """A job with a limit of 15.2 s on two nodes, which grows as others end."""
    model = Amdahl(15.2, 0.05)
    spec = JobSpec(
        name="exact",
        nodes=Bounds(1, 8, preferred=2),
        job_class=JobClass.MALLEABLE,
        walltime_s=15.2,
        kill=True,
        model=model,
    )
    others = [
        SimJob(JobSpec(name=f"other {x}", nodes=Bounds.exactly(1), walltime_s=x), x) for x in (1.5, 1.3, 4.2)
    ]
    return [SimJob(spec, runtime_s), *others]


@pytest.mark.parametrize("instant", Instant)
def test_rounding_ends_no_job_that_was_resized_and_completes_at_its_limit(instant: Instant) -> None:
    free = Settings(cost=INSTANT, cooldown_s=0.0)
    records = records_of(resized_at_limit(15.2), make("entitled"), instant=instant, settings=free)
    assert [x for x in records if isinstance(x, r.ResizeDone)]
    assert [x.state for x in records if isinstance(x, r.JobEnded)] == [JobState.COMPLETED] * 4


def test_who_outruns_a_limit_after_resizes_ends_at_it_and_is_told_so() -> None:
    free = Settings(cost=INSTANT, cooldown_s=0.0)
    exact, late = (
        records_of(resized_at_limit(runtime_s), make("entitled"), settings=free)
        for runtime_s in (15.2, 15.200001)
    )
    [done_s] = [x.at for x in exact if isinstance(x, r.JobEnded) and x.job == 1]
    [end] = [x for x in late if isinstance(x, r.JobEnded) and x.job == 1]
    [ending] = [x for x in late if isinstance(x, r.JobEnding)]
    assert end.state is JobState.TIMEOUT
    assert end.at == ending.at == pytest.approx(done_s, abs=1e-9)
    assert ending.error == "walltime of 15.2 s on 2 nodes is over: 5.55629 s with the sizes that it had"


@pytest.mark.parametrize("instant", Instant)
def test_all_complete_who_do_so_at_their_limits_in_one_instant(instant: Instant) -> None:
    spec = JobSpec(name="exact", nodes=Bounds.exactly(2), walltime_s=10.0, kill=True)
    jobs = [SimJob(spec, runtime_s) for runtime_s in (10.0, 10.0, 10.1)]
    records = records_of(jobs, make("easy"), instant=instant)
    ends = [(x.at, x.state) for x in records if isinstance(x, r.JobEnded)]
    assert sorted(ends) == [(10.0, JobState.COMPLETED)] * 2 + [(10.0, JobState.TIMEOUT)]


BATCH = """
[cluster]
nodes = 2
[[jobs]]
name = "late"
command = "true"
nodes = { min = 1, max = 2 }
walltime = 5
model = { work_s = 40 }
"""


def outcomes(report: str) -> list[tuple[str, str]]:
    runs: list[dict[str, Any]] = json.loads(report)["runs"]
    return [(run["name"], run["jobs"][0]["state"]) for run in runs]


@pytest.mark.parametrize("kill", [False, True])
def test_a_pass_follows_each_end_also_behind_one_at_its_limit(*, kill: bool) -> None:
    """c takes the two nodes that are free when one of the others has ended."""
    shape = JobSpec(
        name="c", nodes=Bounds(1, 4, preferred=4), job_class=JobClass.MOLDABLE, walltime_s=20.0, submit_s=1.0,
        model=Amdahl(10.0),
    )  # fmt: skip
    b = JobSpec(name="b", nodes=Bounds.exactly(2), walltime_s=10.0, kill=kill)
    jobs = [SimJob(b, 10.0), SimJob(JobSpec(name="a", nodes=Bounds.exactly(2), walltime_s=20.0), 10.0)]
    found = records_of(
        [*jobs, SimJob(shape)],
        make("easy", "free"),
        nodes=4,
        instant=Instant.ELASTISIM,
        settings=Settings(cost=INSTANT),
    )
    assert [len(each.nodes) for each in found if isinstance(each, r.JobStarted)] == [2, 2, 2]


def test_both_runs_of_a_comparison_treat_a_walltime_alike(tmp_path: Path) -> None:
    path = tmp_path / "batch.toml"
    path.write_text(BATCH)
    report = command("run", str(path), "--compare", "--dry-run", "--json")
    assert outcomes(report) == [("rigid", "COMPLETED"), ("malleable", "COMPLETED")]


def test_a_simulated_batch_goes_on_past_its_walltimes(tmp_path: Path) -> None:
    path = tmp_path / "batch.toml"
    path.write_text(BATCH.replace("{ min = 1, max = 2 }", "1"))
    figures = simulated(str(path))
    assert (figures["makespan_s"] > 40.0, figures["failed"]) == (True, 0)

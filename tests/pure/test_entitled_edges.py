"""``entitled`` at the edges: other orders of the queue, jobs that take no time or prefer more than there is, and a
policy object that is used again."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from test_entitled import FREE
from workloads import malleable, records_of, rigid

from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import SchedulerCore
from pliant.core.job import ScheduledJob
from pliant.core.settings import Settings
from pliant.model.errors import PolicyError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT
from pliant.policy.easy import Easy
from pliant.policy.entitled.entitled import Entitled
from pliant.policy.entitled.shares import Share, give
from pliant.policy.entitled.terms import Terms
from pliant.policy.registry import make
from pliant.policy.view import Policy
from pliant.sim.simulator import Conditions, simulate
from pliant.testing.policies.properties import Forgetful, memories_whole
from pliant.workloads.failures import Down, Failures
from pliant.workloads.job import SimJob


def start_times(jobs: list[SimJob], policy: Policy, nodes: int) -> list[int]:
    return [each.job for each in records_of(jobs, policy, nodes=nodes) if isinstance(each, r.JobStarted)]


def test_no_other_order_is_taken_as_it_would_change_nothing() -> None:
    with pytest.raises(
        PolicyError, match=r"'entitled' takes no order \(shortest\): jobs are entitled to what"
    ):
        make("entitled", order="shortest")
    assert make("entitled", order="submission").name == "entitled"


def test_a_job_that_takes_no_time_does_not_stop_the_virtual_schedule() -> None:
    """Its node takes a while to be clean, so that its end is known late."""
    jobs = [
        rigid("a", 8, 20.0),
        SimJob(JobSpec(name="z", nodes=Bounds.exactly(8), submit_s=1.0, walltime_s=5.0), 0.0),
        rigid("b", 8, 20.0, at=2.0),
    ]
    assert simulate(jobs, 8, Entitled()).at == simulate(jobs, 8, Easy()).at


@pytest.mark.parametrize("job_class", [JobClass.MALLEABLE, JobClass.MOLDABLE])
def test_a_job_that_prefers_more_than_there_is_is_entitled_to_all_there_is(job_class: JobClass) -> None:
    model = Amdahl(320.0)
    spec = JobSpec(
        name="a", nodes=Bounds(1, 32, preferred=32), job_class=job_class, walltime_s=10.0, model=model
    )
    wide, narrow = SimJob(spec), malleable("b", Bounds(1, 8, preferred=4), 30.0, at=1.0)
    records = records_of([wide, narrow], Entitled(), nodes=16, settings=FREE)
    sizes = [len(each.nodes) for each in records if isinstance(each, r.JobStarted)]
    ends = {each.job: each.at for each in records if isinstance(each, r.JobEnded)}
    assert sizes == [16, 8]
    assert ends[1] == pytest.approx(20.0)
    assert ends[2] == pytest.approx(35.0)


def test_where_nodes_are_gone_who_waits_is_content_with_what_there_is() -> None:
    jobs = [rigid("a", 2, 5.0), malleable("b", Bounds(1, 8, preferred=8), 10.0, at=3.0)]
    down = Failures(listed=tuple(Down(node, 1.0, 1000.0) for node in (2, 3, 4, 5, 6, 7)))
    records: list[r.Record] = []
    simulate(jobs, 8, Entitled(), Conditions(FREE, failures=down), records.append)
    started = {each.job: (each.at, len(each.nodes)) for each in records if isinstance(each, r.JobStarted)}
    assert started[2] == (5.0, 2)


@pytest.mark.parametrize("policy", [Entitled, lambda: Forgetful(Entitled)])
def test_who_has_begun_virtually_on_nodes_that_are_lost_before_it_starts_waits_as_before(
    policy: Callable[[], Policy],
) -> None:
    """The nodes of the first are clean a tenth of a second after it has ended; one of them is lost meanwhile."""
    jobs = [
        rigid("a", 4, 10.0),
        rigid("b", 4, 10.0, at=1.0),
        rigid("c", 1, 10.0, at=2.0),
        rigid("d", 1, 10.0, at=500.0),
    ]
    down = Failures(listed=(Down(3, 10.05, 100000.0),))
    records: list[r.Record] = []
    simulate(jobs, 4, policy(), Conditions(Settings(), failures=down), records.append)
    started = {each.job: each.at for each in records if isinstance(each, r.JobStarted)}
    assert started[3] == pytest.approx(10.1, abs=0.2)
    assert started[4] == pytest.approx(500.0, abs=0.2)
    assert started[2] == pytest.approx(100000.0, abs=0.2)


@pytest.mark.parametrize("policy", ["entitled", "easy"])
def test_no_pass_is_made_between_the_loss_of_a_node_and_the_end_of_its_job(policy: str) -> None:
    """Else the fourth starts on what is free in between, and so passes the third, for which there is room then."""
    jobs = [rigid("a", 2, 100.0), rigid("b", 4, 10.0), rigid("c", 3, 200.0), rigid("d", 1, 200.0)]
    down = Failures(listed=(Down(0, 10.0, 1000.0),), requeue=False)
    records: list[r.Record] = []
    simulate(jobs, 4, make(policy), Conditions(FREE, failures=down), records.append)
    started = {each.job: each.at for each in records if isinstance(each, r.JobStarted)}
    assert started == {1: 0.0, 3: 10.0, 4: 210.0, 2: 1000.0}


def test_a_restart_between_a_loss_and_the_pass_that_follows_decides_alike() -> None:
    """In that pass the first job has ended as well, before the second node was lost: who began virtually then had all
    nodes, also for a policy that knows only what it remembers and the cluster as it is now."""
    elastic = JobSpec(
        name="b", nodes=Bounds(2, 6, preferred=6), job_class=JobClass.MALLEABLE, walltime_s=45.0
    )
    jobs = [SimJob(JobSpec(name="a", nodes=Bounds.exactly(3), walltime_s=90.0), 45.0), SimJob(elastic, 45.0)]
    down = Failures(listed=(Down(2, 17.7, 1017.7), Down(1, 48.5, 1048.5)))

    def told(policy: Policy) -> list[r.Record]:
        records: list[r.Record] = []
        simulate(jobs, 6, policy, Conditions(Settings(cooldown_s=0.0), failures=down), records.append)
        return list(memories_whole(records))

    assert told(Forgetful(Entitled)) == told(Entitled())


def test_a_policy_that_is_used_again_knows_nothing_of_the_jobs_of_before() -> None:
    """Their bounds are the same objects, and their models others."""
    bounds = [Bounds(1, 8, preferred=4)]

    def jobs(seed: int) -> list[SimJob]:
        draw = random.Random(seed)
        found = []
        for number in range(12):
            model = Amdahl(float(draw.randint(20, 400)), draw.choice([0.0, 0.1, 0.9]))
            found.append(
                SimJob(
                    JobSpec(
                        name=f"j{number}", nodes=bounds[0], job_class=JobClass.MALLEABLE,
                        submit_s=5.0 * number, walltime_s=model.time(4), model=model,
                    )
                )
            )  # fmt: skip
        return found

    for seed in range(0, 20, 2):
        policy = Entitled()
        records_of(jobs(seed), policy, nodes=8, settings=FREE)
        again = records_of(jobs(seed + 1), policy, nodes=8, settings=FREE)
        assert again == records_of(jobs(seed + 1), Entitled(), nodes=8, settings=FREE), seed


def test_who_may_not_grow_keeps_what_it_has_where_nobody_else_wants_it() -> None:
    """The steps from 1 node go by sixteenths, and over 33."""
    job = ScheduledJob(
        1,
        JobSpec(name="a", nodes=Bounds(1, 64, preferred=64), job_class=JobClass.MALLEABLE, walltime_s=100.0),
    )
    share = Share(job, Terms(job, 64, INSTANT), 1)
    share.held, share.most, share.haste = 33, 33, 1.0
    assert give([share], 132) == 100
    assert share.size == 33


def test_who_has_no_model_gets_idle_nodes_too_and_gives_them_back_at_once() -> None:
    """They count as no lead: nobody knows what they gave."""
    spec = JobSpec(name="a", nodes=Bounds(1, 8, preferred=4), job_class=JobClass.MALLEABLE, walltime_s=100.0)
    records = records_of(
        [SimJob(spec, 100.0), rigid("b", 4, 10.0, at=20.0)], Entitled(), nodes=8, settings=FREE
    )
    sizes = [(each.at, each.job, len(each.nodes)) for each in records if isinstance(each, r.JobStarted)]
    resizes = [(each.at, each.before, each.after) for each in records if isinstance(each, r.ResizeOffered)]
    assert sizes == [(0.0, 1, 8), (20.0, 2, 4)]
    assert resizes == [(20.0, 8, 4), (30.0, 4, 8)]


def test_a_job_that_ended_as_its_controller_died_is_not_waited_for() -> None:
    """Its end was recorded, and no pass was made before the next controller began."""
    options = Settings(cost=INSTANT, pass_interval_s=10.0)
    records: list[r.Record] = []

    def tell(core: SchedulerCore, now: float, *events: e.Event) -> None:
        records.extend(core.handle(events, now)[0])

    core = SchedulerCore(Entitled(), options)
    tell(core, 0.0, e.Granted(NodeSet.first(2)))
    tell(core, 0.0, e.Submitted(1, rigid("a", 1, 100.0).spec), e.Submitted(2, rigid("b", 2, 5.0).spec))
    tell(core, 10.0, e.Tick())
    tell(core, 11.0, e.Launched(1), e.Ended(1, 0))
    assert isinstance(records[-1], r.JobEnded)
    core = SchedulerCore.resume(Entitled(), options, records)
    tell(core, 12.0, e.Clean(1, NodeSet.first(1)))
    for now in (20.0, 30.0, 40.0):
        tell(core, now, e.Tick())
    assert [each.job for each in records if isinstance(each, r.JobStarted)] == [1, 2]

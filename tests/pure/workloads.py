"""Random workloads and a run of them, for the properties of policies."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.history.metrics import Metrics, RunMetrics
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT
from pliant.policy.registry import POLICIES, make
from pliant.policy.view import Policy
from pliant.sim.instant import Instant
from pliant.sim.simulator import Conditions, simulate
from pliant.study.options import wished
from pliant.study.simulation_request import requested
from pliant.workloads.job import SimJob, reference_times
from pliant.workloads.sources import WorkloadRequest

NODES = 8
OWN_ORDER = {name for name in POLICIES if getattr(make(name), "own_order", "")}


def workload_request(workload: str, nodes: int = 0, **options: object) -> WorkloadRequest:
    """What ``pliant simulate`` makes of these options."""
    return wished(workload, requested("test", {"nodes": nodes, **options}))


def in_order(order: str, name: str, start: str | None = None) -> Policy:
    """The policy with its queue in this order; in that of submission if it takes no other."""
    return make(name, start, order="submission" if name in OWN_ORDER else order)


def rigid(name: str, nodes: int, runtime_s: float, *, at: float = 0.0, user: str = "") -> SimJob:
    """A job whose estimate is exact."""
    spec = JobSpec(name=name, nodes=Bounds.exactly(nodes), submit_s=at, walltime_s=runtime_s, user=user)
    return SimJob(spec, runtime_s)


def malleable(name: str, bounds: Bounds, runtime_s: float, *, at: float = 0.0) -> SimJob:
    """Its speed-up is linear, and its estimate exact."""
    model = Amdahl(runtime_s * bounds.preferred)
    return SimJob(
        JobSpec(
            name=name, nodes=bounds, job_class=JobClass.MALLEABLE, submit_s=at, walltime_s=runtime_s, model=model
        )
    )  # fmt: skip


@st.composite
def upper_bound_jobs(draw: st.DrawFn, *, moldable: bool = True) -> list[SimJob]:
    """Rigid and moldable jobs whose estimates are upper bounds; whole seconds, so that many things coincide."""
    jobs = []
    for number in range(draw(st.integers(1, 20))):
        low = draw(st.integers(1, NODES))
        high = draw(st.integers(low, NODES)) if moldable else low
        model = Amdahl(float(draw(st.integers(1, 60))), draw(st.sampled_from([0.0, 0.1])))
        preferred = draw(st.integers(low, high))
        spec = JobSpec(
            name=f"j{number}",
            nodes=Bounds(low, high, preferred=preferred),
            job_class=JobClass.MOLDABLE if high > low else JobClass.RIGID,
            submit_s=float(draw(st.integers(0, 40))),
            walltime_s=model.time(preferred) * draw(st.sampled_from([1.0, 1.0, 1.5, 4.0])),
            user=draw(st.sampled_from(["", "anna", "berta"])),
            priority=draw(st.integers(-1, 1)),
            model=model,
        )
        jobs.append(SimJob(spec))
    return jobs


def records_of(
    jobs: list[SimJob],
    policy: Policy,
    *,
    nodes: int = NODES,
    instant: Instant = Instant.TOGETHER,
    settings: Settings | None = None,
) -> list[r.Record]:
    records: list[r.Record] = []
    simulate(
        jobs, nodes, policy, Conditions(settings or Settings(cost=INSTANT), instant=instant), records.append
    )
    return records


def measured(
    jobs: Sequence[SimJob],
    nodes: int,
    policy: Policy,
    settings: Settings | None = None,
    *,
    keep_jobs: bool = True,
) -> RunMetrics:
    """What a simulation comes to."""
    metrics = Metrics(keep_jobs=keep_jobs, reference=reference_times(jobs))
    simulate(jobs, nodes, policy, Conditions(settings or Settings()), metrics.add)
    return metrics.summary()


def starts_of(records: list[r.Record]) -> dict[str, float]:
    """When each job started, by name."""
    names = {record.job: record.spec.name for record in records if isinstance(record, r.JobSubmitted)}
    return {names[record.job]: record.at for record in records if isinstance(record, r.JobStarted)}

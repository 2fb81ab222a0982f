"""Jobs that ask for nodes by the size that they have, and are resized by the scheduler too; and what jobs themselves do at
a resize."""

from __future__ import annotations

from audits import audit
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json, structs
from test_evolving import evolving_jobs
from test_simulation import policies_

from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.speedup import Amdahl, Phase, Phases, Table
from pliant.plan.cost import INSTANT
from pliant.policy.registry import make
from pliant.sim.simulator import Conditions, Simulator
from pliant.testing.policies.drawn import NODES, settings_
from pliant.workloads.failures import DrawnFailures, Failures
from pliant.workloads.job import Adapting, SimJob
from pliant.workloads.machine import Checkpoints


@st.composite
def asking_jobs(draw: st.DrawFn) -> list[SimJob]:
    """Jobs whose phases ask by the size, which stand still at a resize for a while of their own."""
    jobs = []
    for job in draw(evolving_jobs()):
        bounds, model = job.spec.nodes, job.spec.model
        assert isinstance(model, Phases)
        sizes = st.integers(bounds.min, bounds.max)
        tables = st.one_of(st.none(), st.dictionaries(sizes, sizes, max_size=5))
        phases = tuple(
            phase if (asks := draw(tables)) is None else Phase(phase.model, phase.share, asks=asks)
            for phase in model.phases
        )
        own = draw(st.sampled_from([None, Adapting(Amdahl(2.0)), Adapting(None, Table({1: 1.0, 4: 0.5}))]))
        spec = structs.replace(job.spec, model=Phases(phases))
        jobs.append(structs.replace(job, spec=spec, adapting=own))
    return jobs


@settings(max_examples=examples(60))
@given(asking_jobs(), policies_, settings_, st.booleans(), st.booleans())
def test_they_hold_together_under_all_policies(
    jobs: list[SimJob],
    policy: tuple[str, str | None],
    options: Settings,
    failing: bool,  # noqa: FBT001 - Hypothesis passes it
    saving: bool,  # noqa: FBT001
) -> None:
    records: list[r.Record] = []
    conditions = Conditions(
        options,
        failures=Failures(DrawnFailures(20_000.0, 60.0)) if failing else None,
        checkpoints=Checkpoints(7.0, 1.0, 1.0) if saving else None,
    )
    simulator = Simulator(jobs, NODES, make(*policy), conditions, records.append)
    end = simulator.run()
    checked = audit(records)
    assert not checked.jobs
    assert len(checked.ended) == len(jobs) + end.requeued
    for ended in checked.ended.values():
        assert ended.state in (JobState.COMPLETED, JobState.TIMEOUT, JobState.NODE_FAIL)
    assert replay(records, options).snapshot() == simulator.core.state.snapshot()


def test_a_malleable_job_whose_phases_do_not_say_so_asks_for_nothing() -> None:
    wants, asks = Phase(Amdahl(40.0), 1.0, 4, 4), Phase(Amdahl(40.0), asks={2: 4})
    for phases, resized in (((wants, wants), False), ((wants, asks), True)):
        records: list[r.Record] = []
        spec = JobSpec(
            name="m", nodes=Bounds(2, 4), job_class=JobClass.MALLEABLE, walltime_s=9.0, model=Phases(phases)
        )
        Simulator(
            [SimJob(spec)], 4, make("fcfs", "min"), Conditions(Settings(cost=INSTANT)), records.append
        ).run()
        assert any(isinstance(record, r.ResizeDone) for record in records) == resized


def test_what_phases_ask_is_written_and_read_and_no_other_phase_is_written_otherwise() -> None:
    phases = Phases((Phase(Amdahl(4.0)), Phase(Amdahl(4.0), asks={1: 3, 2: 3})))
    written = json.encode(phases)
    assert json.decode(written, type=Phases) == phases
    assert written.count(b"asks") == 1


def test_what_a_job_does_at_a_resize_adds_to_what_it_costs() -> None:
    own = Adapting(Table({2: 3.0, 4: 1.0}), Amdahl(8.0))
    assert own.still_s(4, 2) == 3.0
    assert own.still_s(2, 4) == 1.0 + 8.0 / 2
    assert own.longest_s(Bounds(2, 4)) == 3.0 + 8.0
    assert Adapting().still_s(2, 4) == Adapting().longest_s(Bounds(2, 4)) == 0.0

"""Evolving jobs: phases, what they ask for and get; and time that no nodes shorten."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from audits import audit
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation import policies_
from typer.testing import CliRunner
from workloads import rigid

from pliant.cli import made
from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.settings import Settings
from pliant.files.batch import read_batch_file
from pliant.history.metrics import measure
from pliant.model.batch import read_batch
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.speedup import Amdahl, Downey, Phase, Phases, Table, check_model, scaled
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.fcfs import Fcfs
from pliant.policy.registry import make
from pliant.sim.simulator import Conditions, Simulator, simulate
from pliant.testing.policies.drawn import NODES, settings_
from pliant.workloads.failures import DrawnFailures, Failures
from pliant.workloads.formats.batches import batch_jobs
from pliant.workloads.job import SimJob

WORK = Amdahl(80.0)


def evolving(*phases: Phase, bounds: Bounds | None = None, runtime_s: float | None = None) -> SimJob:
    spec = JobSpec(
        name="e",
        nodes=bounds or Bounds(1, 8),
        job_class=JobClass.EVOLVING,
        walltime_s=1000.0,
        model=Phases(phases),
    )
    return SimJob(spec, runtime_s)


def run(jobs: list[SimJob], nodes: int = 8, cost: ResizeCost = INSTANT) -> list[r.Record]:
    records: list[r.Record] = []
    simulate(jobs, nodes, Fcfs("min"), Conditions(Settings(cost=cost)), records.append)
    assert not audit(records).jobs
    return records


def sizes(records: list[r.Record]) -> list[tuple[float, int]]:
    """When the job named e had how many nodes; 0 at its end."""
    number = next(x.job for x in records if isinstance(x, r.JobSubmitted) and x.spec.name == "e")
    found: list[tuple[float, int]] = []
    size = 0
    for record in records:
        if getattr(record, "job", 0) != number:
            continue
        if isinstance(record, r.JobStarted):
            size = len(record.nodes)
        elif isinstance(record, r.ResizeDone):
            size += len(record.gained) - len(record.released)
        elif isinstance(record, r.JobEnded):
            size = 0
        else:
            continue
        found.append((record.at, size))
    return found


def test_a_phase_gets_the_size_that_it_asks_for() -> None:
    job = evolving(Phase(WORK, 0.5, 2, 2), Phase(WORK, 0.25, 8, 8), Phase(WORK, 0.25))
    assert sizes(run([job])) == [(0.0, 1), (0.0, 2), (20.0, 8), (25.0, 0)]


def test_the_nearest_size_of_a_range_will_do() -> None:
    job = evolving(Phase(WORK, 0.5, 4, 6), Phase(WORK, 0.25, 1, 8), Phase(WORK, 0.25, 1, 2))
    assert sizes(run([job])) == [(0.0, 1), (0.0, 4), (15.0, 2), (25.0, 0)]
    by_factor = evolving(Phase(WORK, 1.0, 3, 6), bounds=Bounds(1, 8, 2))
    assert sizes(run([by_factor])) == [(0.0, 1), (0.0, 4), (20.0, 0)]


def test_what_is_not_free_a_job_gets_as_soon_as_it_is() -> None:
    job = evolving(Phase(WORK, 0.5, 2, 2), Phase(WORK, 0.5, 8, 8))
    assert sizes(run([rigid("a", 4, 22.0), job])) == [(0.0, 1), (0.0, 2), (22.0, 8), (26.5, 0)]
    # Nodes that another job leaves in the very instant are free.
    assert sizes(run([rigid("a", 4, 20.0), job])) == [(0.0, 1), (0.0, 2), (20.0, 8), (25.0, 0)]
    assert sizes(run([job, rigid("a", 4, 20.0)])) == [(0.0, 1), (0.0, 2), (20.0, 8), (25.0, 0)]
    # Nobody waits for it.
    records = run([rigid("a", 4, 22.0), job, rigid("b", 8, 10.0, at=1.0)])
    assert sizes(records) == [(0.0, 1), (0.0, 2), (40.0, 0)]


def test_what_a_phase_wanted_the_next_does_not() -> None:
    """The second phase is over before the nodes are there; the third asks for nothing, or for less."""
    third = Phase(WORK, 0.25)
    job = evolving(Phase(WORK, 0.5, 2, 2), Phase(WORK, 0.25, 8, 8), third)
    records = run([rigid("a", 4, 32.0), job])
    assert sizes(records) == [(0.0, 1), (0.0, 2), (40.0, 0)]
    wishes = [(x.at, x.wish is not None) for x in records if isinstance(x, r.JobWishes)]
    assert wishes == [(0.0, True), (20.0, True), (30.0, False)]
    job = evolving(Phase(WORK, 0.5, 2, 2), Phase(WORK, 0.25, 8, 8), Phase(WORK, 0.25, 3, 3))
    assert sizes(run([rigid("a", 4, 32.0), job])) == [(0.0, 1), (0.0, 2), (30.0, 3), (30.0 + 20 / 3, 0)]


def test_what_a_phase_does_not_need_goes_to_others() -> None:
    job = evolving(Phase(WORK, 0.5, 8, 8), Phase(Table({1: 30.0}), 1.0, 1, 1))
    records = run([job, rigid("a", 7, 10.0, at=1.0)])
    assert sizes(records) == [(0.0, 1), (0.0, 8), (5.0, 1), (35.0, 0)]
    assert [x.at for x in records if isinstance(x, r.JobStarted)] == [0.0, 5.0]


def test_a_phase_begins_before_its_nodes_have_come() -> None:
    """Answered after 1 s, prepared for 3 + 6 * 0.5 s, blocked for 2 s; then the rest on 8 nodes."""
    cost = ResizeCost(start_s=3.0, start_each_s=0.5, blocked_s=2.0, leave_s=1.0, answer_s=1.0)
    job = evolving(Phase(WORK, 0.5, 2, 2), Phase(WORK, 0.5, 8, 8), bounds=Bounds(2, 8))
    assert sizes(run([job], cost=cost)) == [(0.0, 2), (29.0, 8), (29.0 + (40 - 7 * 2) / 8, 0)]
    # The first phase is over before its nodes have come: the wish of the second is told when they are there.
    short = evolving(Phase(Amdahl(4.0), 1.0, 4, 4), Phase(WORK, 0.5, 2, 2), bounds=Bounds(2, 8))
    assert sizes(run([short], cost=cost)) == [
        (0.0, 2),
        (7.0, 4),
        (10.0, 2),
        (10.0 + (40 - 3 * 2 - 1 * 4) / 2, 0),
    ]


def test_a_known_run_time_scales_the_phases() -> None:
    """T(1) is 40 + 30 s; the trace says 140 s at the preferred size 1."""
    phases = (Phase(WORK, 0.5, 1, 1), Phase(Amdahl(20.0, io_s=10.0), 1.0, 4, 4))
    assert Phases(phases).time(1) == 70.0
    assert sizes(run([evolving(*phases, runtime_s=140.0)])) == [(0.0, 1), (80.0, 4), (110.0, 0)]


def test_a_rigid_job_with_phases_asks_for_nothing() -> None:
    job = evolving(Phase(WORK, 0.5, 2, 2), Phase(WORK, 0.5, 8, 8), bounds=Bounds(1, 8, 1, 4))
    assert sizes(run([SimJob(job.spec.rigid())])) == [(0.0, 4), (20.0, 0)]


@st.composite
def evolving_jobs(draw: st.DrawFn) -> list[SimJob]:
    jobs = []
    for number in range(draw(st.integers(1, 8))):
        low = draw(st.integers(1, 6))
        bounds = Bounds(low, draw(st.integers(low, NODES)))
        phases = []
        for _ in range(draw(st.integers(1, 5))):
            size = draw(st.integers(bounds.min, bounds.max))
            most = draw(st.one_of(st.none(), st.integers(size, NODES + 5)))
            work = Amdahl(float(draw(st.integers(1, 300))), draw(st.sampled_from([0.0, 0.2])), 1.0)
            phases.append(Phase(work, draw(st.sampled_from([0.5, 1.0])), size, most))
        model = Phases(tuple(phases))
        kind = draw(st.sampled_from([JobClass.EVOLVING, JobClass.EVOLVING, JobClass.MALLEABLE]))
        spec = JobSpec(
            name=f"j{number}",
            nodes=bounds,
            job_class=kind,
            submit_s=float(draw(st.integers(0, 60))),
            walltime_s=model.time(bounds.preferred) * draw(st.sampled_from([0.5, 1.0, 2.0])),
            kill=draw(st.booleans()),
            model=model,
        )
        jobs.append(SimJob(spec))
    return jobs


@settings(max_examples=examples(60))
@given(evolving_jobs(), policies_, settings_, st.booleans(), st.booleans())
def test_evolving_jobs_hold_together_under_all_policies(
    jobs: list[SimJob],
    policy: tuple[str, str | None],
    options: Settings,
    starting: bool,  # noqa: FBT001 - Hypothesis passes it
    failing: bool,  # noqa: FBT001
) -> None:
    records: list[r.Record] = []
    failures = Failures(DrawnFailures(20_000.0, 60.0)) if failing else None
    simulator = Simulator(
        jobs, NODES, make(*policy), Conditions(options, starting=starting, failures=failures), records.append
    )
    end = simulator.run()
    checked = audit(records)
    assert not checked.jobs
    assert len(checked.ended) == len(jobs) + end.requeued
    for ended in checked.ended.values():
        assert ended.state in (JobState.COMPLETED, JobState.TIMEOUT, JobState.NODE_FAIL)
    kinds = {x.job: x.spec.job_class for x in records if isinstance(x, r.JobSubmitted)}
    for record in records:
        if isinstance(record, r.ResizeOffered):
            assert (record.reason.code == "wanted") == (kinds[record.job] is JobClass.EVOLVING)
    assert replay(records, options).snapshot() == simulator.core.state.snapshot()


@pytest.mark.long
@settings(max_examples=examples(60))
@given(evolving_jobs(), st.sampled_from(["fcfs", "malleable", "conservative"]))
def test_alone_on_the_machine_every_phase_runs_at_a_size_it_wants(jobs: list[SimJob], policy: str) -> None:
    spec = jobs[0].spec
    model = spec.model
    assert isinstance(model, Phases)
    if spec.job_class is not JobClass.EVOLVING or spec.kill:
        return
    records: list[r.Record] = []
    simulate(jobs[:1], NODES, make(policy), Conditions(Settings(cost=INSTANT)), records.append)
    [size] = [len(record.nodes) for record in records if isinstance(record, r.JobStarted)]
    whole = 0.0
    for phase in model.phases:
        most = NODES if phase.max is None else phase.max
        size = min(max(size, phase.min), most)
        whole += phase.time(size)
    [job] = measure(records).jobs
    assert job.end_s == pytest.approx(spec.submit_s + whole)


BATCH = """
[cluster]
nodes = 8
[[jobs]]
name = "e"
command = "true"
nodes = {min = 1, max = 8}
model = {work_s = 80, io_s = 4}
"""
PHASES = (
    """phases = [{share = 0.25, nodes = 2}, {share = 0.75, nodes = "4:8"}, {model = {times = {1 = 9}}}]"""
)


def test_phases_in_a_batch() -> None:
    [job] = read_batch(tomllib.loads(BATCH + PHASES), "b.toml").jobs
    assert job.job_class is JobClass.EVOLVING
    work = Amdahl(80.0, io_s=4.0)
    assert job.model == Phases((Phase(work, 0.25, 2, 2), Phase(work, 0.75, 4, 8), Phase(Table({1: 9.0}))))
    assert job.model.time(2) == 4 + 80 / 2 + 9
    assert job.walltime_s == job.model.time(1) * 1.5 + 10
    assert job.estimate(2) == job.walltime_s * 53 / 93
    record = r.JobSubmitted(1.0, 1, job)
    assert r.from_line(r.to_line(record)) == record
    [job] = read_batch(tomllib.loads(BATCH), "b.toml").jobs
    assert job.model == work


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("class = 'malleable'\n" + PHASES, "phases: a malleable job has none; write class = 'evolving'"),
        ("phases = []", "phases: expected a list of tables"),
        ("phases = [3]", "phase 1: expected a table"),
        (
            "phases = [{nodes = 2}]",
            "phase 1: give either its share of the job's model, or a model of its own",
        ),
        ("phases = [{share = 1, model = {work_s = 3}}]", "phase 1: give either"),
        ("phases = [{share = 1, size = 2}]", "phase 1: unknown key 'size'"),
        ("phases = [{share = 0}]", "phase 1: share: 0; it must be above 0"),
        ("phases = [{share = 'x'}]", "phase 1: share: expected"),
        (
            "phases = [{share = 0.5}, {share = 0.4}]",
            "their shares of the job's model sum up to 0.9 instead of 1",
        ),
        ("phases = [{model = {work_s = 1}}]", "sum up to 0 instead of 1"),
        ("phases = [{share = 1, nodes = 9}]", "phase 1: nodes: none of the job's sizes, 1:8, is in 9:9"),
        ("phases = [{share = 1, nodes = {min = 1, max = 2, preferred = 2}}]", "unknown key 'preferred'"),
        ("phases = [{share = 1}, {model = {work_s = 0}}]", "phase 2: model.work_s is 0"),
    ],
)
def test_phases_that_make_no_sense(tmp_path: Path, lines: str, message: str) -> None:
    path = tmp_path / "b.toml"
    path.write_text(BATCH + lines)
    with pytest.raises(BatchError) as caught:
        read_batch_file(path)
    assert str(caught.value).startswith(f"{path}: job 'e': ")
    assert message in str(caught.value)


def test_a_share_needs_a_model() -> None:
    text = BATCH.replace("model = {work_s = 80, io_s = 4}", "phases = [{share = 1}]")
    with pytest.raises(BatchError, match="phase 1: share: the job has no model that it could be a share of"):
        read_batch(tomllib.loads(text), "b.toml")


def test_phases_are_simulated_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text(BATCH.replace(", io_s = 4", "") + PHASES)
    records = run(batch_jobs(read_batch_file(path)))
    assert sizes(records) == [(0.0, 1), (0.0, 2), (10.0, 4), (34.0, 0)]
    result = CliRunner().invoke(made(), ["run", str(path), "--dry-run"])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(made(), ["run", str(path), "--output", str(tmp_path / "out")])
    assert isinstance(result.exception, BatchError)
    assert f"{path}: job 'e': phases: evolving jobs by phases can only be simulated" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_input_and_output_take_their_time_at_any_size() -> None:
    assert [Amdahl(100.0, 0.2, 7.0).time(n) for n in (1, 4)] == [107.0, 47.0]
    assert Downey(100.0, 4.0, 0.0, 7.0).time(4) == 32.0
    spec = JobSpec(name="a", nodes=Bounds(1, 10), walltime_s=110.0, model=Amdahl(100.0, io_s=10.0))
    assert spec.estimate(10) == pytest.approx(20.0)
    assert spec.speed_ratio(10, 1) == pytest.approx(20 / 110)
    assert check_model(Amdahl(1.0, io_s=-1.0)) == "model.io_s is -1; it must be 0 or more seconds"
    assert check_model(Phases((Phase(Amdahl(1.0)), Phase(Downey(0.0, 1.0))))) is not None


@given(
    st.sampled_from(
        [
            Amdahl(60.0, 0.1, 5.0),
            Downey(60.0, 3.0, 0.5, 5.0),
            Table({1: 60.0, 8: 9.0}),
            Phases((Phase(WORK, 0.5), Phase(Table({2: 4.0})))),
        ]
    ),
    st.floats(0.1, 10.0),
    st.integers(1, 16),
)
def test_a_scaled_model_takes_so_many_times_as_long(
    model: Amdahl | Downey | Table | Phases, factor: float, nodes: int
) -> None:
    assert scaled(model, factor).time(nodes) == pytest.approx(factor * model.time(nodes))

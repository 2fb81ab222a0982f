"""The end of the nodes' time: who is not started for it, who is ended before it, and what people are told."""

from __future__ import annotations

import msgspec
import pytest
from audits import audit
from driving import Driven
from hypothesis import given
from hypothesis import strategies as st

from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.settings import ORDERLY_S, Settings, end_of
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import Cluster, RunContext
from pliant.model.batch import read_batch
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl
from pliant.policy.lasting import shortest_s
from pliant.policy.registry import make

SETTINGS = Settings()
BEFORE_S = SETTINGS.kill_grace_s + ORDERLY_S


def job(nodes: int, walltime_s: float, *, stated: bool = True) -> JobSpec:
    spec = JobSpec(name=f"j{nodes}", nodes=Bounds.exactly(nodes), command=("true",), walltime_s=walltime_s)
    return (
        spec
        if stated
        else read_batch({"jobs": [{"name": "j", "command": "true", "nodes": nodes}]}, "b").jobs[0]
    )


def core_until(until: float, *specs: JobSpec, nodes: int = 4) -> tuple[Driven, list[r.Record]]:
    records: list[r.Record] = []
    core = Driven(make("easy"), SETTINGS, records.append)
    core.tell([e.Granted(NodeSet.first(nodes), until=until)], 0.0)
    core.tell([e.Submitted(number, spec) for number, spec in enumerate(specs, 1)], 0.0)
    return core, records


def ends_by_job(records: list[r.Record]) -> dict[int, r.JobEnded]:
    return {each.job: each for each in records if isinstance(each, r.JobEnded)}


def started(records: list[r.Record]) -> list[int]:
    return [each.job for each in records if isinstance(each, r.JobStarted)]


def test_a_job_that_cannot_end_in_time_is_not_started_and_keeps_nobody_waiting() -> None:
    _, records = core_until(100.0, job(4, 86.0), job(1, 85.0))
    assert started(records) == [2]
    end = ends_by_job(records)[1]
    assert end.state is JobState.CANCELLED
    assert end.error.startswith("it needs 86 s by its estimate, and jobs can run on these nodes for 85 s: ")


def test_one_that_could_have_ended_in_time_is_not_started_when_it_has_waited_too_long() -> None:
    core, records = core_until(100.0, job(4, 80.0), job(2, 50.0))
    core.tell([e.Launched(1)], 1.0)
    core.tell([e.Ended(1, 0), e.Clean(1, NodeSet.first(4))], 36.0)
    assert started(records) == [1]
    assert (
        "it needs 50 s by its estimate, and jobs can run on these nodes for 49 s"
        in ends_by_job(records)[2].error
    )


def test_a_job_whose_user_has_stated_no_estimate_is_started_and_ended_with_the_others() -> None:
    core, records = core_until(100.0, job(1, 0.0, stated=False))
    assert started(records) == [1]
    core.tell([e.Launched(1)], 1.0)
    core.tell([e.Tick()], 100.0 - BEFORE_S)
    [ending] = [each for each in records if isinstance(each, r.JobEnding)]
    assert (ending.state, ending.error) == (JobState.TIMEOUT, "the time of the nodes is over")
    core.tell([e.Submitted(2, job(1, 1.0))], 101.0 - BEFORE_S)
    assert ends_by_job(records)[2].error == "the time of the nodes is over, and it had not started"
    core.tell([e.Ended(1, 143), e.Clean(1, NodeSet.first(1))], 102.0 - BEFORE_S)
    assert ends_by_job(records)[1].state is JobState.TIMEOUT


def test_more_time_counts_for_those_that_still_run_or_wait() -> None:
    core, records = core_until(100.0, job(4, 50.0), job(4, 60.0))
    core.tell([e.Launched(1), e.Granted(NodeSet(), until=1000.0)], 20.0)
    core.tell([e.Tick()], 90.0)
    assert not ends_by_job(records)
    core.tell([e.Ended(1, 0), e.Clean(1, NodeSet.first(4))], 91.0)
    assert started(records) == [1, 2]


def test_a_job_that_is_quick_enough_on_nodes_that_have_come_since_still_waits_for_them() -> None:
    spec = JobSpec(
        name="a", nodes=Bounds(2, 4, 1, 2), job_class=JobClass.MALLEABLE, walltime_s=80.0, model=Amdahl(160.0, 0.0)
    )  # fmt: skip
    core, records = core_until(120.0 + BEFORE_S, job(2, 60.0), spec, nodes=2)
    core.tell([e.Launched(1), e.Granted(NodeSet.of([2]))], 10.0)
    core.tell([e.Tick()], 50.0)
    core.tell([e.Ended(1, 0), e.Clean(1, NodeSet.first(2))], 60.0)
    assert not ends_by_job(records).get(2)
    assert started(records) == [1, 2]


@pytest.mark.parametrize(("nodes", "least"), [(1, 100.0), (4, 100.0 * 0.25), (16, 100.0 * 0.125)])
def test_the_least_that_a_malleable_job_needs_is_that_of_its_best_size(nodes: int, least: float) -> None:
    spec = JobSpec(
        name="a", nodes=Bounds(1, 8, 1, 1), job_class=JobClass.MALLEABLE, walltime_s=100.0, model=Amdahl(80.0, 0.0)
    )  # fmt: skip
    assert shortest_s(spec, nodes) == pytest.approx(least)


JOBS = st.lists(
    st.tuples(st.integers(1, 4), st.floats(1.0, 200.0), st.booleans(), st.floats(0.0, 120.0)), max_size=8
)


@given(JOBS, st.floats(1.0, 200.0))
def test_nobody_is_started_in_vain_and_nobody_runs_when_the_time_is_over(
    jobs: list[tuple[int, float, bool, float]], until: float
) -> None:
    core, records = core_until(until)
    events = sorted(
        (at, number, size, walltime, stated) for number, (size, walltime, stated, at) in enumerate(jobs)
    )
    for number, (at, _, size, walltime, stated) in enumerate(events, 1):
        core.tell([e.Submitted(number, job(size, walltime, stated=stated))], at)
    end = max(end_of(until, SETTINGS), core.state.now)
    core.tell([e.Tick()], end)
    for record in records:
        if isinstance(record, r.JobStarted):
            spec = core.state.jobs[record.job].spec
            assert record.at + shortest_s(spec, 4) <= end_of(until, SETTINGS) or spec.unestimated is True
            assert record.at < end_of(until, SETTINGS)
    assert not core.state.waiting
    assert all(job.ending is JobState.TIMEOUT for _, _, job in core.state.running)
    audit(records)
    lines = [r.from_line(r.to_line(record)) for record in records]
    assert replay(lines, SETTINGS).snapshot() == core.state.snapshot()


# ---- what people are told -------------------------------------------------------------------------------


class Told:
    """A cluster whose nodes are there for ``left_s``, and what it has people told."""

    def __init__(self, left_s: float | None) -> None:
        self.cluster = Cluster(make("malleable"), SETTINGS, RunContext("/out", "/", {}, b"s"))
        self.timer = -1.0
        self.said: list[str] = []
        self.records: list[r.Record] = []
        self.put(0.0, o.Granted(("n0", "n1"), (1, 1), left_s))

    def put(self, now: float, *inputs: o.AnyInput) -> None:
        records, outputs = self.cluster.handle(inputs, now)
        self.records += records
        self.said += [each.text for each in outputs if isinstance(each, o.Notice)]
        for each in outputs:
            if isinstance(each, o.SetTimer) and each.key == ("term",):
                self.timer = each.at
        if self.cluster.pending:
            self.put(now)

    def fire(self) -> float:
        now, self.timer = self.timer, -1.0
        self.put(now, o.Fired(("term",)))
        return now


def test_people_are_told_at_the_start_and_warned_before_jobs_are_ended() -> None:
    it = Told(1815.0)
    assert it.said == [
        "the nodes are there for 30 min 15 s: what runs 15 s before that is ended then, as TIMEOUT"
    ]
    it.put(0.0, o.Batch((job(1, 0.0, stated=False), job(2, 1000.0))))
    assert it.fire() == 1500.0
    assert it.said[1:] == [
        "the nodes' time is over soon: in 5 min 00 s 1 job that runs will be ended, as TIMEOUT"
    ]
    assert it.fire() == 1800.0
    assert {job.state for job in ends_by_job(it.records).values()} == {JobState.CANCELLED}, (
        "the one that waits"
    )
    assert [job.ending for _, _, job in it.cluster.core.state.running] == [JobState.TIMEOUT]
    assert it.timer == -1.0, "nothing more is to be told"


def test_a_job_that_comes_after_the_end_is_told_so_and_the_run_does_not_wait_for_it() -> None:
    it = Told(60.0)
    it.put(0.0, o.Batch((msgspec.structs.replace(job(1, 10.0), submit_s=500.0),)))
    it.fire()
    assert ends_by_job(it.records)[1].error == "the time of the nodes is over, and it had not started"
    assert it.cluster.idle


def test_a_start_that_is_in_time_at_a_larger_size_alone_is_told() -> None:
    spec = JobSpec(
        name="heat", nodes=Bounds(1, 2, 1, 1), job_class=JobClass.MALLEABLE, command=("heat",), walltime_s=60.0,
        model=Amdahl(60.0, 0.0),
    )  # fmt: skip
    it = Told(65.0)
    it.put(0.0, o.Batch((job(1, 40.0), spec)))
    assert started(it.records) == [1, 2]
    [doubt] = it.said[1:]
    assert doubt == (
        "heat has started on 1 node, where by its estimate it ends 10 s too late for these nodes: it will be ended "
        "unless it is quicker or grows"
    )


def test_nodes_without_an_end_are_not_spoken_of() -> None:
    it = Told(None)
    it.put(0.0, o.Batch((job(1, 1e6),)))
    assert (it.said, it.timer, started(it.records)) == ([], -1.0, [1])

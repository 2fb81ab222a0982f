"""A journal holds all that is needed to ask what another policy would have done."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import measured, rigid

from pliant.core import records as r
from pliant.core.journal import Header, header_line
from pliant.core.settings import Settings
from pliant.model.errors import TraceError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.easy import Easy
from pliant.policy.malleable import Malleable
from pliant.policy.view import Reason
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.formats.journals import read_journal
from pliant.workloads.job import SimJob
from pliant_lab.measure.generated import malleable_batch

NODES = 8
STILL = msgspec.structs.replace(INSTANT, blocked_s=2.0)


def write(
    path: Path,
    jobs: list[SimJob],
    policy: Easy | Malleable,
    *,
    starting: bool = False,
    cost: ResizeCost = INSTANT,
) -> Path:
    lines = [header_line(Header(began="2026-01-01T00:00:00Z", policy=policy.name))]
    simulate(
        jobs,
        NODES,
        policy,
        Conditions(Settings(cost=cost), starting=starting),
        lambda x: lines.append(r.to_line(x)),
    )
    path.write_bytes(b"".join(lines))
    return path


@given(st.integers(0, 1000), st.booleans(), st.sampled_from([INSTANT, STILL]))
def test_run_times_come_back_whatever_sizes_the_jobs_had(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    resized: bool,  # noqa: FBT001
    cost: ResizeCost,
) -> None:
    jobs = malleable_batch(seed, jobs=8)
    path = write(
        tmp_path_factory.mktemp("shadow") / "records.ndjson",
        jobs,
        Malleable() if resized else Easy(),
        cost=cost,
    )
    recorded = read_journal(path)
    assert (recorded.nodes, recorded.policy) == (NODES, "malleable" if resized else "easy")
    for before, after in zip(jobs, recorded.jobs, strict=True):
        assert after.spec.submit_s == pytest.approx(before.spec.submit_s)
        for nodes in (1, 3, 8):
            assert after.time(nodes) == pytest.approx(before.time(nodes), rel=1e-6)


def test_another_policy_on_a_journal_equals_that_policy_on_the_jobs(tmp_path: Path) -> None:
    jobs = malleable_batch(3, jobs=15)
    recorded = read_journal(write(tmp_path / "records.ndjson", jobs, Easy()))
    settings = Settings(cost=INSTANT)
    asked = measured(recorded.jobs, NODES, Malleable(), settings)
    assert asked.makespan_s == pytest.approx(measured(jobs, NODES, Malleable(), settings).makespan_s)


def test_jobs_without_a_model_run_as_long_as_they_did(tmp_path: Path) -> None:
    spec = JobSpec(name="plain", nodes=Bounds(1, 4, preferred=2), walltime_s=100.0)
    (job,) = read_journal(write(tmp_path / "records.ndjson", [SimJob(spec, 30.0)], Easy())).jobs
    assert job.runtime_s == pytest.approx(30.0)


def test_a_job_that_stood_still_in_a_resize_did_not_compute(tmp_path: Path) -> None:
    """a stands still from 0 to 20 s to have 8 nodes, from 22 to 42 to give 4 of them to b, and from 92 to 112 to have
    them back: of its 4,000 node-seconds it does 16 from 20 on and 200 from 42 on."""
    nodes = Bounds(4, 8, preferred=8)
    spec = JobSpec(
        name="a", nodes=nodes, job_class=JobClass.MALLEABLE, model=Amdahl(4000.0), walltime_s=600.0
    )
    jobs = [SimJob(spec), rigid("b", 4, 50.0, at=10.0)]
    settings = Settings(cost=msgspec.structs.replace(INSTANT, blocked_s=20.0))
    path = write(tmp_path / "records.ndjson", jobs, Malleable(), cost=settings.cost)
    recorded = read_journal(path).jobs
    assert [job.time(4) for job in recorded] == pytest.approx([1000.0, 50.0])
    first, again = (measured(each, NODES, Malleable(), settings) for each in (jobs, recorded))
    assert again.makespan_s == pytest.approx(first.makespan_s) == pytest.approx(112 + 3784 / 8)


@pytest.mark.parametrize("model", [None, Amdahl(100.0)])
def test_a_job_that_ran_for_no_time_is_none_that_did_not_run(tmp_path: Path, model: Amdahl | None) -> None:
    """It was started, and its end was noticed in the same instant. The other two never came to run."""
    spec = JobSpec(name="a", nodes=Bounds(1, 4), job_class=JobClass.MALLEABLE, walltime_s=3600.0, model=model)
    node, none = NodeSet.of([0]), NodeSet()
    records: list[r.Record] = [
        r.NodesGranted(0.0, NodeSet.first(4)),
        *(r.JobSubmitted(1.0, job, spec) for job in (1, 2, 3)),
        r.JobStarted(2.0, 1, node, Reason("now")),
        r.JobRunning(2.0, 1, spec.nodes),
        r.JobEnded(2.0, 1, JobState.COMPLETED, 0, node),
        r.JobEnded(3.0, 2, JobState.CANCELLED, 143, none),
    ]
    path = tmp_path / "records.ndjson"
    header = header_line(Header(began="2026-01-01T00:00:00Z", policy="easy"))
    path.write_bytes(header + b"".join(map(r.to_line, records)))
    jobs = read_journal(path).jobs
    assert [job.time(1) for job in jobs] == [0.0, *([100.0 if model else 3600.0] * 2)]
    # What ends only some time after its last step may be resized until then.
    ending = Settings(cost=msgspec.structs.replace(INSTANT, end_s=5.0))
    lines: list[r.Record] = []
    simulate(
        [jobs[0], rigid("b", 7, 0.5)], NODES, Malleable(), Conditions(ending, starting=True), lines.append
    )
    assert any(isinstance(each, r.ResizeDone) for each in lines)
    [end] = [each.at for each in lines if isinstance(each, r.JobEnded) and each.job == 2]
    assert end == 5.5 + 5.0


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "line 1"), (b"{}\n", "line 1"), (b"no json\n", "line 1")],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "records.ndjson"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=said):
        read_journal(path)


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "records.ndjson", malleable_batch(1, jobs=2), Easy())
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:3], b'{"record": "Nonsense"}', *lines[3:]]))
    with pytest.raises(TraceError, match="line 4"):
        read_journal(path)

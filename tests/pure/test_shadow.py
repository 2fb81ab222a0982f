"""A journal holds all that is needed to ask what another policy would have done."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import measured

from pliant.core import records as r
from pliant.core.journal import Header, header_line
from pliant.core.settings import Settings
from pliant.model.errors import TraceError
from pliant.model.jobs import Bounds, JobSpec
from pliant.plan.cost import INSTANT
from pliant.policy.easy import Easy
from pliant.policy.malleable import Malleable
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.formats.journals import read_journal
from pliant.workloads.generators.generate import malleable_batch
from pliant.workloads.job import SimJob

NODES = 8


def write(path: Path, jobs: list[SimJob], policy: Easy | Malleable, *, starting: bool = False) -> Path:
    lines = [header_line(Header(began="2026-01-01T00:00:00Z", policy=policy.name))]
    simulate(
        jobs,
        NODES,
        policy,
        Conditions(Settings(cost=INSTANT), starting=starting),
        lambda x: lines.append(r.to_line(x)),
    )
    path.write_bytes(b"".join(lines))
    return path


@given(st.integers(0, 1000), st.booleans())
def test_run_times_come_back_whatever_sizes_the_jobs_had(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    resized: bool,  # noqa: FBT001
) -> None:
    jobs = malleable_batch(seed, jobs=8)
    path = write(
        tmp_path_factory.mktemp("shadow") / "records.ndjson", jobs, Malleable() if resized else Easy()
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

"""The Standard Workload Format, and EASY on a real trace against a published result."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from pliant.core.metrics import Metrics
from pliant.core.state import Settings
from pliant.model.errors import BatchError, TraceError
from pliant.model.jobs import Bounds, JobSpec
from pliant.policy.easy import Easy
from pliant.policy.fcfs import Fcfs
from pliant.sim.simulator import INSTANT, SimJob, simulate
from pliant.sim.swf import parse_swf, read_swf, rigid_jobs

HEADER = ["; Version: 2", ";  MaxProcs: 128 processors", "; a remark", ""]
LINE = "7 10 -1 60 4 -1 -1 8 100.5 -1 1 3 1 -1 -1 -1 -1 -1"


def traces() -> Path:
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("PLIANT_TRACES", root.parent / "shared" / "traces"))


def test_a_line_becomes_a_rigid_job() -> None:
    trace = parse_swf([*HEADER, LINE], "x.swf")
    assert trace.header["Version"] == "2"
    assert trace.processors == 128
    [job] = rigid_jobs(trace, 128)
    assert job.runtime_s == 60.0
    assert (job.spec.name, job.spec.submit_s, job.spec.walltime_s) == ("7", 10.0, 100.5)
    assert job.spec.nodes == Bounds.exactly(8)
    assert job.spec.user == "3"


def test_jobs_that_did_not_run_are_left_out() -> None:
    lines = ["1 0 0 0 4", "2 0 0 9 -1", "3 0 0 9 2"]
    assert [job.spec.name for job in rigid_jobs(parse_swf(lines, "x.swf"), 4)] == ["3"]
    with pytest.raises(TraceError, match=r"x\.swf: there is no job"):
        rigid_jobs(parse_swf(lines[:2], "x.swf"), 4)


def test_the_estimate_is_never_below_the_run_time() -> None:
    [job] = rigid_jobs(parse_swf(["1 0 0 90 4 -1 -1 4 60"], "x.swf"), 4)
    assert job.spec.walltime_s == 90.0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1 2 3"], r"x\.swf:1: 3 fields"),
        ([*HEADER, LINE + " 5"], r"x\.swf:5: 19 fields"),
        ([LINE, LINE.replace("100.5", "soon")], r"x\.swf:2: field requested_time is 'soon'"),
    ],
)
def test_errors_name_file_and_line(lines: list[str], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        parse_swf(lines, "x.swf")


def test_files_may_be_zipped_and_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("\n".join([*HEADER, LINE]))
    (tmp_path / "b.swf.gz").write_bytes(gzip.compress((tmp_path / "a.swf").read_bytes()))
    assert read_swf(tmp_path / "a.swf").jobs == read_swf(tmp_path / "b.swf.gz").jobs
    with pytest.raises(TraceError, match="cannot be read"):
        read_swf(tmp_path / "missing.swf")
    (tmp_path / "c.swf.gz").write_bytes((tmp_path / "b.swf.gz").read_bytes()[:-12])
    with pytest.raises(TraceError, match="cannot be read"):
        read_swf(tmp_path / "c.swf.gz")


def test_jobs_that_cannot_be_simulated_are_refused_before_the_start() -> None:
    with pytest.raises(TraceError, match="job 7 needs 8 processors and there are 4"):
        rigid_jobs(parse_swf([LINE], "x.swf"), 4)
    wide = SimJob(JobSpec(name="wide", nodes=Bounds.exactly(5)), 1.0)
    with pytest.raises(BatchError, match="job 'wide': nodes: it needs 5 nodes and there are 4"):
        simulate([wide], 4, Easy())
    with pytest.raises(BatchError, match="run time must be above 0"):
        simulate([SimJob(JobSpec(name="a", nodes=Bounds.exactly(1)), 0.0)], 4, Easy())
    with pytest.raises(BatchError, match="no jobs"):
        simulate([], 4, Easy())


def test_the_kth_trace_under_easy_and_fcfs() -> None:
    """Against pyss, whose order of the events of one instant differs, hence within 1 %."""
    path = traces() / "KTH-SP2.filtered.swf.gz"
    if not path.is_file():
        pytest.skip(f"the trace is not there: {path} (set PLIANT_TRACES)")
    jobs = rigid_jobs(read_swf(path), 100)
    for policy, wait_s, slowdown in ((Easy(), 6836.87, 92.5765), (Fcfs(), 353776.41, 6814.97)):
        metrics = Metrics(keep_jobs=False)
        end = simulate(jobs, 100, policy, Settings(cost=INSTANT), metrics.add)
        figures = metrics.summary(100)
        assert end.jobs == figures.ended == 28481
        assert figures.failed == 0
        assert figures.wait_mean_s == pytest.approx(wait_s, rel=0.01)
        assert figures.bounded_slowdown_mean == pytest.approx(slowdown, rel=0.01)

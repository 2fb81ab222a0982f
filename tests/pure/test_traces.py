"""The Standard Workload Format, and EASY on a real trace against a published result."""

from __future__ import annotations

import gzip
import os
from functools import cache
from heapq import heappop, heappush
from pathlib import Path

import pytest
from pyss_loop import loop_starts, simulated_starts
from workloads import measured

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.history.metrics import Metrics, RunMetrics
from pliant.model.errors import BatchError, TraceError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.plan.cost import INSTANT
from pliant.policy.conservative import Conservative
from pliant.policy.easy import Easy
from pliant.policy.fcfs import Fcfs
from pliant.policy.view import Policy
from pliant.sim.instant import Instant
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.formats.swf import SwfJob, SwfTrace, parse_swf, read_swf, rigid_jobs
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import PUBLISHED, make_malleable

pytestmark = pytest.mark.long

HEADER = ["; Version: 2", ";  MaxProcs: 128 processors", "; a remark", ""]
LINE = "7 10 -1 60 4 -1 -1 8 100.5 -1 1 3 1 -1 -1 -1 -1 -1"


def job_line(**fields: str) -> str:
    """The line above with other values for the named fields."""
    return " ".join(fields.get(name, word) for name, word in zip(SwfJob._fields, LINE.split(), strict=True))


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
    lines = ["1 0 0 -1 4", "2 0 0 9 -1", "3 0 0 9 2"]
    assert [job.spec.name for job in rigid_jobs(parse_swf(lines, "x.swf"), 4)] == ["3"]
    with pytest.raises(TraceError, match=r"x\.swf: there is no job"):
        rigid_jobs(parse_swf(lines[:2], "x.swf"), 4)


def test_the_estimate_is_never_below_the_run_time() -> None:
    [job] = rigid_jobs(parse_swf(["1 0 0 90 4 -1 -1 4 60"], "x.swf"), 4)
    assert job.spec.walltime_s == 90.0


def test_parts_of_a_job_may_stand_before_it() -> None:
    """As they do in a file sorted by time of submission, which they have none of."""
    trace = parse_swf([job_line(status="2", submit="-1"), job_line(status="4", submit="-1"), LINE], "x.swf")
    assert trace.jobs == parse_swf([LINE], "x.swf").jobs
    assert list(trace.parts) == [7, 7]


def test_parts_of_which_no_line_has_the_whole_are_jobs_in_their_places() -> None:
    lines = [LINE, job_line(number="8", status="3"), job_line(number="9"), job_line(status="4", submit="-1")]
    trace = parse_swf(lines, "x.swf")
    assert [(job.number, at) for job, at in zip(trace.jobs, trace.lines, strict=True)] == [
        (7, 1),
        (8, 2),
        (9, 3),
    ]
    assert [(row.jobs, row.first, row.instead.partition(" ")[0]) for row in trace.unmapped] == [
        (1, "7", "left"),
        (1, "8", "each"),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1 2 3"], r"x\.swf:1: 3 fields"),
        ([*HEADER, LINE + " 5"], r"x\.swf:5: 19 fields"),
        ([LINE, LINE.replace("100.5", "soon")], r"x\.swf:2: field requested_time is 'soon'"),
        ([LINE, job_line(submit="-3")], r"x\.swf:2: field submit is -3; it must be 0 s or more"),
        ([LINE, job_line(run="-20")], r"x\.swf:2: field run is -20; it must be 0 s or more, or -1"),
        ([LINE, job_line(requested_time="-7")], r"x\.swf:2: field requested_time is -7"),
        ([LINE, job_line(run="nan")], r"x\.swf:2: field run is nan"),
        ([LINE, job_line(requested="nan")], r"x\.swf:2: field requested is nan"),
        ([LINE, job_line(allocated="inf")], r"x\.swf:2: field allocated is inf"),
        ([LINE, job_line(number="-inf")], r"x\.swf:2: field number is -inf"),
        ([LINE, job_line(submit="inf")], r"x\.swf:2: field submit is inf"),
        (
            [LINE, job_line(submit="1700000000000000000")],
            r"x\.swf:2: field submit is 1\.7e\+18; it must be .* at most 1e\+12 s",
        ),
        (
            [LINE, job_line(allocated="2.7")],
            r"x\.swf:2: field allocated is 2\.7; it must be a whole number, or -1",
        ),
        ([LINE, job_line(requested="8.5")], r"x\.swf:2: field requested is 8\.5"),
        ([LINE, job_line(number="1.5")], r"x\.swf:2: field number is 1\.5"),
        ([LINE, job_line(user="0.5")], r"x\.swf:2: field user is 0\.5"),
        (
            [job_line(submit="20"), "; a comment", job_line(submit="19")],
            r"x\.swf:3: field submit is 19, and the job before was submitted at 20; .*sort -s -n -k 2",
        ),
        (
            [LINE, job_line(number="8", status="2", submit="-1")],
            r"x\.swf:2: field status is 2, so it is a part of job 8, which has no line for all of it; and .* submit",
        ),
        (
            [LINE, job_line(number="8", status="2", submit="40"), job_line(submit="30")],
            r"x\.swf:3: field submit is 30, and the job before was submitted at 40",
        ),
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
    with pytest.raises(BatchError, match="run time must be 0 seconds or more"):
        simulate([SimJob(JobSpec(name="a", nodes=Bounds.exactly(1)), -1.0)], 4, Easy())
    late = JobSpec(name="late", nodes=Bounds.exactly(1), submit_s=2e12)
    with pytest.raises(BatchError, match=r"job 'late': submit: 2e\+12 s; the latest is 1e\+12 s"):
        simulate([SimJob(late, 1.0)], 4, Easy())
    with pytest.raises(BatchError, match="no jobs"):
        simulate([], 4, Easy())


def test_whole_numbers_may_be_written_with_a_fraction_of_nothing() -> None:
    line = job_line(number="7.0", allocated="8.0", user="3.00", submit="1e12")
    assert rigid_jobs(parse_swf([line], "x.swf"), 8) == rigid_jobs(
        parse_swf([job_line(submit="1000000000000")], "x.swf"), 8
    )


def test_jobs_of_no_length_run_and_let_others_start() -> None:
    """A thousand and more at once, and none of them holds the ones behind it up."""
    lines = [f"{number} 5 -1 0 2" for number in range(1, 3001)] + ["3001 5 -1 7 4"]
    for instant in Instant:
        metrics = Metrics(keep_jobs=False)
        jobs = rigid_jobs(parse_swf(lines, "x.swf"), 4)
        end = simulate(jobs, 4, Easy(), Conditions(Settings(cost=INSTANT), instant=instant), metrics.add)
        figures = metrics.summary()
        assert (end.at, figures.ended, figures.failed) == (12.0, 3001, 0)
        assert (figures.wait_max_s, figures.makespan_s) == (0.0, 7.0)


def test_jobs_of_no_length_stay_rigid() -> None:
    jobs = rigid_jobs(parse_swf(["1 0 -1 0 4", "2 0 -1 9 4"], "x.swf"), 8)
    classes = [job.spec.job_class for job in make_malleable(jobs, 100, 8, 1, conversion=PUBLISHED)]
    assert classes == [JobClass.RIGID, JobClass.MALLEABLE]


@cache
def trace(name: str = "KTH-SP2.filtered.swf.gz") -> SwfTrace:
    path = traces() / name
    if not path.is_file():
        pytest.skip(f"the trace is not there: {path} (set PLIANT_TRACES)")
    return read_swf(path)


def pyss_waits(policy: Policy) -> tuple[dict[str, float], RunMetrics]:
    """Each job's wait on the KTH trace in pyss' order of events, by its number there; and the metrics."""
    jobs = rigid_jobs(trace(), 100)
    waits: dict[str, float] = {}
    metrics = Metrics(keep_jobs=False)
    by_submission = sorted(jobs, key=lambda job: job.spec.submit_s)

    def sink(record: r.Record) -> None:
        metrics.add(record)
        if isinstance(record, r.JobStarted):
            spec = by_submission[record.job - 1].spec
            waits[spec.name] = record.at - spec.submit_s

    simulate(jobs, 100, policy, Conditions(Settings(cost=INSTANT), instant=Instant.PYSS), sink)
    figures = metrics.summary()
    assert (figures.ended, figures.failed, len(waits)) == (28481, 0, 28481)
    return waits, figures


def test_easy_gives_every_wait_of_the_reference() -> None:
    """pyss' own result, job by job: its wait is field 3 of the reference trace."""
    waits, figures = pyss_waits(Easy())
    with gzip.open(traces() / "KTH-SP2.easy.swf.gz", "rt") as lines:  # in pyss' order, not of submission
        words = [line.split() for line in lines if line.strip() and not line.startswith(";")]
    assert waits == {number: float(wait) for number, _submit, wait, *_ in words}
    assert figures.wait_mean_s == pytest.approx(6836.87, abs=0.005)
    assert figures.bounded_slowdown_mean == pytest.approx(92.5765, abs=0.00005)


WHOLE = {
    "KTH-SP2-1996-2.1-cln.swf.gz": 100,
    "KTH-SP2.filtered.swf.gz": 100,
    "NASA-iPSC-1993-3.1-cln.swf.gz": 128,  # no estimates, and 173 jobs of no length
    "lublin_256.swf.gz": 256,
    "theta_2022.swf.gz": 4360,
    "lublin99_seed42_10000.swf.gz": 128,
}
"""The traces, and on how many processors their jobs run."""
MEANS = {
    "NASA-iPSC-1993-3.1-cln.swf.gz": (4.03, 1.0118),
    "lublin_256.swf.gz": (97155.99, 590.0538),
    "theta_2022.swf.gz": (44358.47, 116.3958),
}
"""Mean wait in seconds and mean bounded slowdown that another program gave under EASY, in pyss' order too."""


@pytest.mark.parametrize(("name", "processors"), WHOLE.items())
@pytest.mark.parametrize("backfill", [True, False], ids=["easy", "fcfs"])
def test_every_wait_is_that_of_a_bare_loop(name: str, processors: int, *, backfill: bool) -> None:
    jobs = sorted(rigid_jobs(trace(name), processors), key=lambda job: job.spec.submit_s)
    starts = simulated_starts(jobs, processors, backfill=backfill)
    assert starts == loop_starts(jobs, processors, backfill=backfill)
    if backfill and name in MEANS:
        waits = [start - job.spec.submit_s for start, job in zip(starts, jobs, strict=True)]
        lengths = [job.runtime_s or 0.0 for job in jobs]
        slowdowns = [max(1.0, (w + run) / max(10.0, run)) for w, run in zip(waits, lengths, strict=True)]
        wait_s, slowdown = MEANS[name]
        assert sum(waits) / len(jobs) == pytest.approx(wait_s, abs=0.006)
        assert sum(slowdowns) / len(jobs) == pytest.approx(slowdown, abs=0.00006)


def test_fcfs_gives_every_wait_of_the_recurrence() -> None:
    """A job starts when those before it have started and enough processors are free: no simulator needed."""
    waits, figures = pyss_waits(Fcfs())
    expected: dict[str, float] = {}
    ends: list[tuple[float, int]] = []
    free, now = 100, 0.0
    for job in sorted(rigid_jobs(trace(), 100), key=lambda job: job.spec.submit_s):
        now = max(now, job.spec.submit_s)
        while ends and (ends[0][0] <= now or free < job.spec.nodes.min):
            now = max(now, ends[0][0])
            free += heappop(ends)[1]
        free -= job.spec.nodes.min
        heappush(ends, (now + (job.runtime_s or 0.0), job.spec.nodes.min))
        expected[job.spec.name] = now - job.spec.submit_s
    assert waits == expected
    assert figures.wait_mean_s == pytest.approx(353776.41, abs=0.005)
    assert figures.bounded_slowdown_mean == pytest.approx(6814.97, abs=0.005)


def test_conservative_gives_the_means_of_the_reference() -> None:
    """pyss' published ones; no job by job result of it is at hand."""
    _, figures = pyss_waits(Conservative())
    assert figures.wait_mean_s == pytest.approx(7310.55, abs=0.005)
    assert figures.bounded_slowdown_mean == pytest.approx(88.997, abs=0.0005)


def test_the_order_of_an_instant_moves_the_mean_by_less_than_a_thousandth() -> None:
    """What happens at once is decided at once, live and by default: it is pyss' order that is peculiar."""
    figures = measured(rigid_jobs(trace(), 100), 100, Easy(), Settings(cost=INSTANT), keep_jobs=False)
    assert figures.wait_mean_s == pytest.approx(6836.87, rel=0.001)

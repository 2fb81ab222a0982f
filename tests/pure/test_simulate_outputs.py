"""What ``pliant simulate`` writes: journals, traces in SWF, and Batsim's table of jobs."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest
from commands import command, simulated
from drawing import examples
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from test_jobs_csv import rows_of
from test_traces import traces
from workloads import upper_bound_jobs

from pliant.core import records as r
from pliant.core.journal import Header
from pliant.core.settings import Settings
from pliant.files.journal import RecordsFile, read_records
from pliant.files.policy import PolicySpec
from pliant.history.metrics import Metrics
from pliant.history.timeline import Timeline, told
from pliant.model.errors import BatchError, PolicyError
from pliant.model.jobs import Bounds, JobSpec
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.easy import Easy
from pliant.policy.malleable import Malleable
from pliant.policy.view import ClusterView, Decision
from pliant.sim.evalys_csv import COLUMNS, evalys_csv
from pliant.sim.simulator import Conditions, simulate
from pliant.sim.swf_schedule import swf_schedule
from pliant.study.files import Files
from pliant.study.simulation import simulation
from pliant.workloads.failures import Down, Failures
from pliant.workloads.formats.journals import read_journal
from pliant.workloads.formats.swf import SwfJob, read_swf, rigid_jobs
from pliant.workloads.formats.swf_writing import by_submission, header, write_swf
from pliant.workloads.job import SimJob, reference_times
from pliant.workloads.sources import WorkloadRequest

TRACE = "; MaxProcs: 4\n7 0 0 10 3 -1 -1 3 12 -1 1 5\n8 0 0 5 4 -1 -1 4 5 -1 1 6\n9 0.25 0 10 1 -1 -1 1 10 -1 1 5\n"
"""Job 9 is backfilled; job 8 waits for both."""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.swf").write_text(TRACE)
    return "x.swf"


EACH = [
    ("--jobs-csv", "new.csv"),
    ("--evalys-csv", "new.csv"),
    ("--swf", "new.swf"),
    ("--convert", "new.swf"),
    ("--records", "new.ndjson"),
]


# ---- for all of them ----


@pytest.mark.parametrize(("option", "name"), EACH)
def test_each_is_whole_or_not_there(trace: str, tmp_path: Path, option: str, name: str) -> None:
    out = tmp_path / name
    out.write_text("older")
    for more, said in (
        (["--seeds", "2"], f"{option} {name}: it has the jobs of one simulation"),
        (["--policy", "easy,fcfs"], "the jobs of one simulation"),
        (["--policy", f"{__file__}:Lazy"], "stuck"),
        ([option, f"no/{name}"], "there is no directory"),
    ):
        with pytest.raises((BatchError, PolicyError), match=said):
            command("simulate", trace, option, name, *more)
        assert out.read_text() == "older"
    command("simulate", trace, option, name)
    assert out.read_text() != "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, trace])


@pytest.mark.parametrize(("option", "name"), EACH)
def test_none_takes_the_place_of_another_file(trace: str, tmp_path: Path, option: str, name: str) -> None:
    wrong = tmp_path / f"own{Path(name).suffix}"
    wrong.write_text(TRACE)
    with pytest.raises(BatchError, match="it would be written, and is an input"):
        command("simulate", wrong.name, option, wrong.name)
    other = "--convert" if option == "--swf" else "--swf"
    with pytest.raises(BatchError, match=r"two outputs would be written there|name it FILE\.swf"):
        command("simulate", trace, option, name, other, name)
    assert wrong.read_text() == TRACE


@pytest.mark.parametrize(
    ("option", "name", "suffix"),
    [("--records", "r.json", "ndjson"), ("--swf", "s.csv", "swf"), ("--convert", "c.swf.gz", "swf")],
)
def test_names_by_which_they_are_read_again(trace: str, option: str, name: str, suffix: str) -> None:
    with pytest.raises(BatchError, match=rf"{option} {name}: name it FILE\.{suffix}"):
        command("simulate", trace, option, name)


class Lazy:
    """A policy that starts nothing."""

    name = "lazy"

    def decide(self, view: ClusterView) -> Iterable[Decision]:  # noqa: ARG002
        return []


# ---- journals ----


@pytest.mark.parametrize("policy", ["easy", "malleable", "marginal", "entitled"])
def test_a_journal_has_every_record_and_gives_the_same_metrics(tmp_path: Path, policy: str) -> None:
    wish = WorkloadRequest("lublin:60", 32, percent=50, failures=Failures(listed=(Down(3, 9e3, 2e4),)))
    made = simulation(wish, PolicySpec(policy))
    file = tmp_path / "r.ndjson"
    kept: list[r.Record] = []

    def both(record: r.Record) -> None:
        kept.append(record)
        if keep is not None:
            keep(record)

    with Files(records=file).opened(made, "lublin") as (listeners, keep):
        ended = made.run(*listeners, keep=both)
    assert file.stat().st_mode & 0o777 == 0o600
    head, records = read_records(file)
    assert head == Header(began="1970-01-01T00:00:00Z", policy=policy, settings=made.load.settings)
    assert records == kept
    metrics = Metrics(keep_jobs=False)
    told(records, metrics)
    assert metrics.summary() == ended.metrics
    if policy != "easy":
        assert "start of a group" in command("calibrate", str(file), "--out", str(tmp_path / "cost.json"))


def test_a_replayed_journal_gives_the_same_waits(trace: str) -> None:
    first = simulated(trace, "--order", "shortest", "--records", "r.ndjson")
    again = simulated("--from-records", "r.ndjson", "--cost", "none")
    for key in (
        "jobs",
        "wait_mean_s",
        "wait_max_s",
        "turnaround_mean_s",
        "makespan_s",
        "utilisation",
        "users",
    ):
        assert again[key] == pytest.approx(first[key])


def test_a_job_that_was_requeued_is_one_job(tmp_path: Path) -> None:
    """It ran for 4 s of 10 on a node that failed."""
    spec = JobSpec(name="a", nodes=Bounds.exactly(1), submit_s=1.0, walltime_s=20.0)
    file = tmp_path / "r.ndjson"
    settings = Settings(cost=INSTANT)
    with RecordsFile(file, "easy", settings) as records:
        failures = Failures(listed=(Down(0, 5.0, 7.0),))
        simulate([SimJob(spec, 10.0)], 1, Easy(), Conditions(settings, failures=failures), records.add)
    [job] = read_journal(file).jobs
    assert (job.spec, job.runtime_s) == (spec, 10.0)


# ---- SWF ----


def test_the_schedule_of_a_trace(trace: str, tmp_path: Path) -> None:
    command("simulate", trace, "--swf", "out.swf", "--policy", "easy", "--json")
    written = read_swf(tmp_path / "out.swf")
    #              number, submit, wait, run, allocated, cpu, memory, requested, time, memory, status, user
    assert written.jobs == [
        SwfJob(7, 0, 0, 10, 3, -1, -1, 3, 12, -1, 1, 5),
        SwfJob(8, 0, 10.25, 5, 4, -1, -1, 4, 5, -1, 1, 6),
        SwfJob(9, 0.25, 0, 10, 1, -1, -1, 1, 10, -1, 1, 5),
    ]
    lines = (tmp_path / "out.swf").read_text().splitlines()
    assert [len(line.split()) for line in lines if line[0] != ";"] == [18] * 3
    assert written.header["Conversion"].endswith("pliant simulate x.swf --policy easy --swf out.swf --json")
    assert (written.header["MaxJobs"], written.processors) == ("3", 4)
    assert written.header["Note"].endswith("as simulated under the policy easy")
    # What was written is a trace with the same jobs.
    assert rigid_jobs(written, 4) == rigid_jobs(read_swf(tmp_path / "x.swf"), 4)


def test_generated_jobs_are_simulated_alike_when_they_are_read_again(tmp_path: Path) -> None:
    out = tmp_path / "jobs.swf"
    asked = ["lublin:150", "--nodes", "64", "--estimates", "factor:3", "--policy", "easy"]
    first = simulated(*asked, "--convert", str(out))
    again = simulated(str(out), "--policy", "easy")
    own = {"cpu_s", "jobs_per_cpu_s", "peak_mb"}
    assert {key: first[key] for key in first.keys() - own} == {key: again[key] for key in again.keys() - own}


@limits(max_examples=examples(60))
@given(
    st.lists(
        st.builds(
            SimJob,
            st.builds(
                JobSpec,
                name=st.integers(0, 10**15 - 1).map(str),
                nodes=st.integers(1, 10**6).map(Bounds.exactly),
                submit_s=st.floats(0, 1e12),
                walltime_s=st.floats(0, 1e12),
                user=st.one_of(st.just(""), st.integers(0, 10**9).map(str)),
            ),
            st.floats(0, 1e12),
        ),
        min_size=1,
        max_size=20,
        unique_by=lambda job: job.spec.name,
    )
)
def test_rigid_jobs_are_read_again_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[SimJob]
) -> None:
    out = tmp_path_factory.getbasetemp() / "jobs.swf"
    jobs = [job for job in jobs if job.spec.walltime_s >= job.time(job.spec.nodes.preferred)]
    write_swf("--convert", out, jobs, header(len(jobs), 4, "a\nb", "c"))
    trace = read_swf(out)
    assert trace.header["Conversion"] == "a b"
    assert (rigid_jobs(trace, None) if jobs else []) == by_submission(jobs)


def test_names_become_numbers(tmp_path: Path) -> None:
    """In order of submission; whole numbers only where all are."""

    def written(*named: tuple[str, str]) -> list[tuple[float, float]]:
        jobs = [
            SimJob(JobSpec(name=name, nodes=Bounds(1, 3, preferred=2), submit_s=-at, user=user), 1.0)
            for at, (name, user) in enumerate(named, -len(named))
        ]
        write_swf("--convert", tmp_path / "x.swf", jobs, "")
        return [(job.number, job.user) for job in read_swf(tmp_path / "x.swf").jobs]

    assert written(("12", "3"), ("7", "")) == [(7, -1), (12, 3)]
    assert written(("12", "anna"), ("7", "3")) == [(7, 1), (12, 2)]
    assert written(("a", "3"), ("7", "3")) == [(1, 3), (2, 3)]
    assert written(("7", ""), ("7", "")) == [(1, -1), (2, -1)]
    assert written(("07", "1"), ("7", "1")) == [(1, 1), (2, 1)]


@limits(max_examples=examples(40))
@given(upper_bound_jobs(), st.booleans())
def test_a_schedule_agrees_with_the_metrics(
    tmp_path_factory: pytest.TempPathFactory,
    jobs: list[SimJob],
    costly: bool,  # noqa: FBT001 - Hypothesis passes it
) -> None:
    swf, table = (tmp_path_factory.getbasetemp() / name for name in ("s.swf", "e.csv"))
    metrics = Metrics(reference=reference_times(jobs))
    cost = ResizeCost(blocked_s=1.0) if costly else INSTANT
    with swf_schedule(swf, jobs, "") as lines, evalys_csv(table, "x") as rows:
        simulate(jobs, 8, Malleable(), Conditions(Settings(cost=cost)), Timeline(metrics, lines, rows).add)
    figures, written, rows_read = metrics.summary(), read_swf(swf).jobs, rows_of(table)
    assert [job.number for job in written] == list(range(1, len(jobs) + 1))
    assert [job.submit for job in written] == [job.spec.submit_s for job in by_submission(jobs)]
    count = len(jobs)
    assert sum(job.wait for job in written) == pytest.approx(figures.wait_mean_s * count, abs=1e-4)
    assert sum(job.wait + job.run for job in written) == pytest.approx(
        figures.turnaround_mean_s * count, abs=1e-4
    )
    assert {job.status for job in written} == {1}
    for job, row in zip(written, rows_read, strict=True):
        assert (float(row["waiting_time"]), float(row["execution_time"])) == (job.wait, job.run)
        assert int(row["requested_number_of_resources"]) == job.requested


def test_a_job_without_a_node_is_one_line_in_swf_and_two_for_evalys(tmp_path: Path) -> None:
    """a loses its node at 5, after 4 s, and runs from 7 to 17; b never starts before 17."""
    jobs = [
        SimJob(JobSpec(name=name, nodes=Bounds.exactly(1), submit_s=1.0, walltime_s=20.0), 10.0)
        for name in "ab"
    ]
    down = Failures(listed=(Down(0, 5.0, 7.0),))
    conditions = Conditions(Settings(cost=INSTANT), failures=down)
    swf, table = tmp_path / "s.swf", tmp_path / "e.csv"
    with swf_schedule(swf, jobs, "") as lines, evalys_csv(table, "x") as rows:
        simulate(jobs, 1, Easy(), conditions, Timeline(lines, rows).add)
    assert [(job.number, job.submit, job.wait, job.run) for job in read_swf(swf).jobs] == [
        (1, 1, 16, 10), (2, 1, 6, 10),
    ]  # fmt: skip
    assert [(row["job_id"], row["final_state"], row["starting_time"]) for row in rows_of(table)] == [
        ("a", "COMPLETED_KILLED", "1.0"), ("b", "COMPLETED_SUCCESSFULLY", "7.0"), ("a#1", "COMPLETED_SUCCESSFULLY", "17.0"),
    ]  # fmt: skip


# ---- Batsim's table ----


def test_the_columns_are_those_of_batsim(trace: str, tmp_path: Path) -> None:
    """The order is that of Batsim 4's jobs.csv, and Evalys' JobSet asks for all but four of them."""
    command("simulate", trace, "--evalys-csv", "jobs.csv", "--policy", "easy", "--json")
    with (tmp_path / "jobs.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert ",".join(head) == (
        "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,"
        "final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,"
        "allocated_resources,consumed_energy,metadata"
    )
    assert tuple(head) == COLUMNS
    assert [",".join(row) for row in rows] == [
        "7,x,rigid,0.0,3,12.0,1,COMPLETED_SUCCESSFULLY,0.0,10.0,10.0,0.0,10.0,1.0,0-2,-1,",
        "8,x,rigid,0.0,4,5.0,1,COMPLETED_SUCCESSFULLY,10.25,5.0,15.25,10.25,15.25,3.05,0-3,-1,",
        "9,x,rigid,0.25,1,10.0,1,COMPLETED_SUCCESSFULLY,0.25,10.0,10.25,0.0,10.0,1.0,3,-1,",
    ]


def test_nodes_apart_are_intervals_and_a_resized_job_has_those_it_held_longest(tmp_path: Path) -> None:
    jobs = [
        SimJob(JobSpec(name=name, nodes=Bounds.exactly(size), submit_s=at, walltime_s=run), run)
        for name, size, at, run in (
            ("a", 1, 0.0, 9.0),
            ("b", 1, 0.0, 2.0),
            ("c", 1, 0.0, 9.0),
            ("d", 2, 1.0, 1.0),
        )
    ]
    with evalys_csv(tmp_path / "e.csv", "x") as rows:
        simulate(jobs, 4, Easy(), Conditions(Settings(cost=INSTANT)), rows.add)
    allocated = [row["allocated_resources"] for row in rows_of(tmp_path / "e.csv")]
    assert allocated == ["0", "1", "2", "1 3"]
    made = simulation(WorkloadRequest("lublin:30", 16, percent=100), PolicySpec("malleable"))
    with Files(jobs_csv=tmp_path / "j.csv", evalys_csv=tmp_path / "e.csv").opened(made, "x") as (lines, _):
        made.run(*lines)
    for job, row in zip(rows_of(tmp_path / "j.csv"), rows_of(tmp_path / "e.csv"), strict=True):
        steps = [step.split(":") for step in job["sizes"].split(";")]
        ends = [float(after) for after, _ in steps[1:]] + [float(job["run_s"])]
        longest = max(end - float(after) for (after, _), end in zip(steps, ends, strict=True))
        sizes = [
            int(size)
            for (after, size), end in zip(steps, ends, strict=True)
            if end - float(after) >= longest - 1e-5
        ]
        assert _count(row["allocated_resources"]) in sizes


def _count(intervals: str) -> int:
    ends = [part.split("-") for part in intervals.split()]
    return sum(int(each[-1]) - int(each[0]) + 1 for each in ends)


# ---- a real trace ----


@pytest.mark.long
def test_the_waits_of_the_written_schedule_are_those_of_the_reference(tmp_path: Path) -> None:
    """pyss' own schedule of the KTH trace under EASY is in SWF too."""
    name = "KTH-SP2.filtered.swf.gz"
    if not (traces() / name).is_file():
        pytest.skip(f"the trace is not there: {name} (set PLIANT_TRACES)")
    out = tmp_path / "out.swf"
    asked = [str(traces() / name), "--nodes", "100", "--policy", "easy", "--instant", "pyss"]
    command("simulate", *asked, "--swf", str(out), "--json")
    with gzip.open(traces() / "KTH-SP2.easy.swf.gz", "rt") as lines:
        words = [line.split() for line in lines if line.strip() and not line.startswith(";")]
    expected = {float(number): float(wait) for number, _submit, wait, *_ in words}
    assert {job.number: job.wait for job in read_swf(out).jobs} == expected
    assert rigid_jobs(read_swf(out), 100) == rigid_jobs(read_swf(traces() / name), 100)

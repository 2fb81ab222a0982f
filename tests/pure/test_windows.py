"""Windows of a workload: what is counted, what is simulated around it, and the figures of what is counted."""

from __future__ import annotations

import json
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from commands import command, simulated
from hypothesis import given
from hypothesis import strategies as st

import pliant
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.history.distribution import bounded_slowdown
from pliant.history.turnarounds import Turnarounds
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobSpec
from pliant.plan.cost import INSTANT
from pliant.policy.registry import make
from pliant.study.simulation import Simulation
from pliant.workloads.generators.lublin import lublin_jobs
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import make_malleable
from pliant.workloads.sources import Workload, WorkloadRequest, read_workload
from pliant.workloads.windows import WindowCut, cut_out, cuts, read_window

DAY = 86400.0
# 1996-09-23 12:00:31 UTC is time 0; a job every 6 hours from there on.
HEADER = "; MaxProcs: 4\n; UnixStartTime: 843480031\n"


def trace(count: int, gap_s: int = 21600) -> str:
    return HEADER + "".join(f"{i} {i * gap_s} 0 {600 + i} 1 -1 -1 1 900 -1 1 {i % 3}\n" for i in range(count))


def jobs_at(times: list[float]) -> list[SimJob]:
    return [
        SimJob(JobSpec(name=f"j{i}", nodes=Bounds.exactly(1), submit_s=at), 1.0) for i, at in enumerate(times)
    ]


def window_cuts(count: int, window: str, warm_up: str = "", began: float | None = None) -> list[WindowCut]:
    """In jobs that come a day apart."""
    read = read_window(window, warm_up)
    assert read is not None
    return cuts(jobs_at([i * DAY for i in range(count)]), read, "x.swf", began)


# ---- what is cut out -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "warm_up", "expected"),
    [
        ("50", "", [WindowCut(0, 5, 55, 60)]),
        ("50", "0", [WindowCut(0, 0, 50, 50)]),
        ("50", "20", [WindowCut(0, 20, 70, 90)]),
        ("2x30", "10", [WindowCut(0, 10, 40, 50), WindowCut(50, 60, 90, 100)]),
        ("80", "10", [WindowCut(0, 10, 90, 100)]),
        ("3x10", "5d", [WindowCut(0, 5, 15, 19), WindowCut(39, 44, 54, 58), WindowCut(79, 84, 94, 98)]),
        ("", "10", [WindowCut(0, 10, 90, 100)]),
        ("", "5d", [WindowCut(0, 5, 95, 100)]),
        ("", "0d", [WindowCut(0, 0, 100, 100)]),
        ("2x20", "all", [WindowCut(0, 2, 22, 100), WindowCut(0, 78, 98, 100)]),
        ("10d..97d", "all", [WindowCut(0, 10, 97, 100)]),
        ("20d", "", [WindowCut(0, 2, 22, 24)]),
        ("20d", "4", [WindowCut(0, 4, 24, 28)]),
        ("10d..40d", "", [WindowCut(7, 10, 40, 43)]),
        ("10d..40d", "0", [WindowCut(10, 10, 40, 40)]),
        ("10d..12h", "", None),
        ("0s..1d", "0", [WindowCut(0, 0, 1, 1)]),
        ("2X30", "10", [WindowCut(0, 10, 40, 50), WindowCut(50, 60, 90, 100)]),
        ("1996-10-01..1996-10-11", "2d", [WindowCut(6, 8, 18, 20)]),
        ("1996-10-01T12:00..1996-10-02T12:01", "1", [WindowCut(7, 8, 10, 11)]),
    ],
)
def test_windows_by_jobs_times_and_dates(window: str, warm_up: str, expected: list[WindowCut] | None) -> None:
    if expected is None:
        with pytest.raises(BatchError, match="has nothing in it"):
            window_cuts(100, window, warm_up)
    else:
        assert window_cuts(100, window, warm_up, began=843480031.0) == expected


@pytest.mark.parametrize(
    ("window", "warm_up", "message"),
    [
        ("many", "", "'many' is no time above 0 with a unit"),
        ("0", "", "'0' is no number of jobs"),
        ("5x", "", "'' is no number of jobs"),
        ("0x5", "", "'0' in '0x5' is no number of windows"),
        ("5", "x", "--warm-up: 'x' is no time of 0 or more"),
        ("200", "", "of its 100 jobs 60 are neither warm-up nor drain .*; give a shorter window"),
        ("4x30", "", "of its 100 jobs 94 are neither .*; 3 such windows fit"),
        ("2x50d", "", r"take 99d, of which 89d are .* \(5d each\); 1 such window fits"),
        (
            "200d..300d",
            "",
            "--window 200d..300d: no job was submitted in it: .* from 0s to 99d after its time 0",
        ),
        (
            "1d..30d",
            "",
            "2.9d are to be the warm-up before it, and the workload has 1d; .* such as 0, or all",
        ),
        ("60d..99d", "", "3.9d are to be the drain after it, and the workload has none"),
        ("60d..95d", "10", "10 jobs are to be the drain after it, and the workload has 5 jobs"),
        ("10d..", "", "'10d..' has one end; write both"),
        ("99999x5", "", "is no number of windows, 1 to 10,000"),
        ("1d.." + "9" * 400 + "d", "", "is no time"),
        ("", "all", "--warm-up all: without --window all is simulated and counted"),
        ("", "50", "--warm-up 50: no job was submitted in it"),
        ("10d..1996-10-01", "", "mixes a date with a time"),
        ("1996-13-01..1997-01-01", "", "'1996-13-01' is no date"),
        ("1996-10-01..1996-11-01", "", "x.swf: .* nothing says on which date it began"),
    ],
)
def test_windows_that_are_none(window: str, warm_up: str, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        window_cuts(100, window, warm_up)


@pytest.mark.parametrize("window", ["3d", "5", "1d..2d", "1996-10-01..1996-10-11", ""])
def test_no_jobs_have_no_window(window: str) -> None:
    with pytest.raises(BatchError, match=r"x\.swf: .*: there are no jobs, and so none to count"):
        window_cuts(0, window, "" if window else "2d")


@given(
    times=st.lists(st.floats(0, 1e6), min_size=1, max_size=60),
    size=st.one_of(st.integers(1, 20), st.integers(1, 400_000).map("{}s".format)),
    several=st.integers(1, 5),
    margin=st.one_of(st.just(""), st.integers(0, 9).map(str), st.integers(0, 200_000).map("{}s".format)),
)
def test_windows_share_no_job_that_counts(times: list[float], size: Any, several: int, margin: str) -> None:
    jobs = jobs_at(sorted(times))
    window = read_window(f"{several}x{size}", margin)
    assert window is not None
    try:
        windows = cuts(jobs, window, "x")
    except BatchError:
        return
    assert len(windows) == several
    for cut in windows:
        assert 0 <= cut.low <= cut.begin < cut.end <= cut.high <= len(jobs)
        if isinstance(size, int):
            assert cut.end - cut.begin == size
    for one, other in pairwise(windows):
        assert one.end <= other.begin


def test_a_job_that_follows_one_that_is_cut_off_comes_at_its_own_time() -> None:
    first, second, third = jobs_at([0.0, 5.0, 9.0])
    second = SimJob(second.spec, 1.0, after="j0", think_s=3.0)
    third = SimJob(third.spec, 1.0, after="j1", think_s=2.0)
    kept = cut_out([first, second, third], WindowCut(1, 1, 3, 3))
    assert [(job.after, job.think_s) for job in kept] == [("", 0.0), ("j1", 2.0)]


def test_the_malleable_jobs_of_a_window_are_those_of_the_whole() -> None:
    whole = read_workload(WorkloadRequest("lublin:200", 64, percent=50))
    part = read_workload(WorkloadRequest("lublin:200", 64, percent=50, window=read_window("50", "20")))
    assert part.jobs == whole.jobs[:90]
    assert part.counts == whole.jobs[20:70]


# ---- the figures of what is counted --------------------------------------------------------------------------


class Areas:
    """Node-seconds that jobs held between two times, from the records alone."""

    def __init__(self, records: list[r.Record], begin: float, end: float) -> None:
        sizes: dict[int, int] = {}
        self.area, last = 0.0, 0.0
        for record in records:
            low, high = max(last, begin), min(record.at, end)
            self.area += sum(sizes.values()) * max(0.0, high - low)
            last = record.at
            if isinstance(record, r.JobStarted):
                sizes[record.job] = len(record.nodes)
            elif isinstance(record, r.ResizeDone):
                sizes[record.job] += len(record.gained) - len(record.released)
            elif isinstance(record, r.JobEnded):
                sizes.pop(record.job, None)


@given(
    seed=st.integers(0, 10**6),
    policy=st.sampled_from(["easy", "malleable", "marginal", "fcfs"]),
    ends=st.tuples(st.integers(0, 39), st.integers(1, 40)).filter(lambda pair: pair[0] < pair[1]),
)
def test_figures_within_a_window(seed: int, policy: str, ends: tuple[int, int]) -> None:
    nodes = 32
    jobs = make_malleable(lublin_jobs(40, nodes, seed, load=1.2), 50, nodes, seed)
    load = Workload(jobs, nodes, Settings(cost=INSTANT), starting=False, counted=ends)
    records: list[r.Record] = []
    every = Turnarounds([job.spec for job in jobs])
    ended = Simulation(load, make(policy)).run(every, keep=records.append)
    metrics = ended.metrics
    inside = slice(*ends)
    turnarounds, waits = list(every.turnarounds[inside]), list(every.waits[inside])
    count = ends[1] - ends[0]
    assert metrics.ended == count == ended.figures(load)["jobs"]
    assert ended.figures(load)["simulated"] == 40
    assert (metrics.goodput, metrics.useful_utilisation) == (None, None)
    assert metrics.turnaround_mean_s == pytest.approx(sum(turnarounds) / count)
    assert metrics.turnaround_max_s == pytest.approx(max(turnarounds))
    assert metrics.wait_mean_s == pytest.approx(sum(waits) / count, abs=1e-6)
    slowdowns = [bounded_slowdown(t, t - w) for t, w in zip(turnarounds, waits, strict=True)]
    assert metrics.bounded_slowdown_mean == pytest.approx(sum(slowdowns) / count)
    times = [job.spec.submit_s for job in jobs[inside]]
    begin, end = times[0], times[-1]
    stops = [at + turn for at, turn in zip(times, turnarounds, strict=True)]
    assert metrics.makespan_s == pytest.approx(max(stops) - begin)
    if end > begin:
        assert metrics.capacity_node_s == pytest.approx(nodes * (end - begin))
        area = Areas(records, begin, end).area
        assert metrics.utilisation == pytest.approx(area / (nodes * (end - begin)), abs=1e-9)


def test_all_jobs_counted_have_the_figures_of_all() -> None:
    jobs = make_malleable(lublin_jobs(80, 32, 5, load=1.0), 50, 32, 5)
    load = Workload(jobs, 32, Settings(cost=INSTANT), starting=False)
    whole = Simulation(load, make("marginal")).run().metrics
    counted = Simulation(load._replace(counted=(0, 80)), make("marginal")).run().metrics
    for name in whole.__struct_fields__:
        if name not in ("capacity_node_s", "utilisation", "useful_utilisation", "goodput"):
            assert getattr(counted, name) == getattr(whole, name), name


def test_one_instant_is_measured_up_to_its_last_end() -> None:
    jobs = jobs_at([0.0, 5.0, 5.0, 50.0])
    load = Workload(jobs, 1, Settings(cost=INSTANT), starting=False, counted=(1, 3))
    metrics = Simulation(load, make("fcfs")).run().metrics
    assert (metrics.makespan_s, metrics.capacity_node_s, metrics.utilisation) == (2.0, 2.0, 1.0)


def test_a_requeued_job_counts_once() -> None:
    """The node of the first job fails at 50 s, for 10 s; the third, which comes at 400 s, does not count."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "down.csv").write_text("0,50,60\n")
        result = pliant.simulate(
            {"submit_s": [0, 0, 400], "run_s": [100, 100, 10], "nodes": [1, 1, 1]},
            "fcfs",
            2,
            failures=f"{folder}/down.csv",
            window="0s..1s",
            warm_up="all",
        )
    metrics = result.metrics
    assert (metrics["jobs"], metrics["simulated"], metrics["requeued"], metrics["failed"]) == (2, 3, 1, 0)
    # Anew from 60 s on: of both in the mean, (160 + 100) / 2.
    assert metrics["turnaround_mean_s"] == 130.0
    assert metrics["makespan_s"] == 160.0


# ---- as users ask for them -----------------------------------------------------------------------------------


def test_the_command_and_the_function_count_the_same(tmp_path: Path) -> None:
    path = tmp_path / "x.swf"
    path.write_text(trace(60))
    told = simulated(str(path), "--window", "1996-09-25..1996-10-01")
    result = pliant.simulate(path, window="1996-09-25..1996-10-01")
    assert (told["jobs"], told["simulated"]) == (24, 29)
    assert {key: told[key] for key in ("wait_mean_s", "utilisation", "jobs", "simulated")} == {
        key: result.metrics[key] for key in ("wait_mean_s", "utilisation", "jobs", "simulated")
    }
    assert len(result.jobs["name"]) == 29
    with pytest.raises(BatchError, match="2x5 is 2 simulations"):
        pliant.simulate(path, window="2x5")


def test_each_run_of_a_study_has_those_that_count_and_all(tmp_path: Path) -> None:
    path = tmp_path / "x.swf"
    path.write_text(trace(60))
    words = ("--window", "1996-09-25..1996-10-01", "--policy", "easy,fcfs", "--workers", "1")
    runs = json.loads(command("simulate", str(path), *words, "--json"))["runs"]
    assert [(run["jobs"], run["simulated"]) for run in runs] == [(24, 29)] * 2


def test_what_is_written_of_a_trace_has_its_dates(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text(trace(60))
    words = ("--swf", str(tmp_path / "y.swf"), "--convert", str(tmp_path / "z.swf"))
    command("simulate", str(tmp_path / "x.swf"), *words)
    for name in ("x.swf", "y.swf", "z.swf"):
        result = pliant.simulate(tmp_path / name, window="1996-09-25..1996-10-01")
        assert result.metrics["jobs"] == 24
    absolute = [{"submit_s": 1.6e9 + i * 86400, "run_s": 5} for i in range(60)]
    found = pliant.simulate(absolute, "easy", 4, window="2020-10-01..2020-10-11", warm_up="2d")
    assert (found.metrics["jobs"], found.metrics["simulated"]) == (10, 14)


def test_a_trace_that_changes_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.swf"
    path.write_text(trace(60))
    assert pliant.simulate(path, window="10", warm_up="0").metrics["jobs"] == 10
    path.write_text(trace(20, gap_s=1))
    with pytest.raises(BatchError, match="of its 20 jobs 20 are neither"):
        pliant.simulate(path, window="30", warm_up="0")


def test_windows_give_intervals_and_one_run_none(tmp_path: Path) -> None:
    path = tmp_path / "x.swf"
    path.write_text(trace(100))
    several = json.loads(command("simulate", str(path), "--window", "3x20", "--json"))
    assert several["windows"] == 3
    assert several["rows"][0]["runs"] == 3
    assert several["rows"][0]["turnaround_mean_s"]["half"] > 0
    one = json.loads(command("simulate", str(path), "--window", "20", "--malleable", "0", "--json"))
    assert one["rows"][0]["turnaround_mean_s"]["half"] is None
    assert "95 % interval" not in command("simulate", str(path), "--window", "20", "--malleable", "0")


def test_a_window_does_not_say_what_stood_still_of_its_machine() -> None:
    """Nodes that jobs held are those up to the last submission, and what stood still is of those that count alone."""
    load = "lublin:60,load=0.9"
    part = pliant.simulate(
        load, "malleable", 64, malleable=100, cost="blocked_s=3000", window="10", warm_up="all"
    )
    whole = pliant.simulate(load, "malleable", 64, malleable=100, cost="blocked_s=3000")
    assert (part.metrics["paused_node_s"] or 0) > 0
    assert part.metrics["useful_utilisation"] is None
    assert "less what stood still" not in repr(part)
    assert whole.metrics["useful_utilisation"] is not None
    assert "less what stood still" in repr(whole)


def test_a_report_of_a_window_says_so(tmp_path: Path) -> None:
    path, page = tmp_path / "x.swf", tmp_path / "r.html"
    path.write_text(trace(100))
    command("simulate", str(path), "--window", "20", "--report", str(page))
    assert "figures of 20 jobs (--window 20), and 4 around them" in page.read_text()
    told = simulated(str(path), "--window", "20", "--report", str(page))
    (run,) = json.loads(page.with_suffix(".json").read_text())["runs"]
    assert run["ended"] == told["jobs"] == 20
    shared = run.keys() & told.keys() - {"jobs", "nodes"}
    assert {"wait_mean_s", "utilisation", "makespan_s", "classes", "goodput"} <= shared
    for key in shared - {"classes"}:
        assert run[key] == (
            pytest.approx(told[key], abs=1e-6) if isinstance(told[key], float) else told[key]
        ), key
    assert run["classes"]["rigid"]["jobs"] == 20
    assert len(run["jobs"]) == 24
    with pytest.raises(BatchError, match="--window asks for 2; give one window"):
        command("simulate", str(path), "--window", "2x20", "--report", str(page))

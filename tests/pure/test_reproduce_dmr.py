"""Iserte et al. 2018 with real processes: what is submitted, what is made of what was measured, and the folder it leaves."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.apps.checked import ASYNC, NO_ACTION, SYNC, Spent, once
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds, JobClass
from pliant.model.speedup import Amdahl
from pliant.model.table1 import TIMES, model, wider
from pliant.study.workers import run_all
from pliant.workloads.generators.paper3 import PUBLISHED
from pliant_lab.measure import dmr as measured
from pliant_lab.measure.dmr import FIXED, WAYS, JobTimes, Scale, Spread, WayRun, gain, spent_of, statistic
from pliant_lab.measure.programs import Figures
from pliant_lab.reproduce import dmr, paper3
from pliant_lab.reproduce.dmr import Measured
from pliant_lab.reproduce.folder import Folder

SECONDS = st.floats(0.0, 100.0)


# ---- statistics -------------------------------------------------------------------------------------------


@given(st.lists(st.lists(SECONDS, max_size=5), max_size=5))
def test_the_statistics_are_those_of_all_times_of_all_jobs(jobs: list[list[float]]) -> None:
    every = [each for job in jobs for each in job]
    found = statistic([reduce(Spent.plus, map(once, job), Spent()) for job in jobs], len(jobs))
    assert found.quantity == len(every)
    if not every:
        assert found[2:] == (None, None, None, None)
        return
    assert found.per_job == pytest.approx(len(every) / len(jobs))
    assert (found.min_s, found.max_s) == (min(every), max(every))
    assert found.mean_s == pytest.approx(statistics.mean(every), abs=1e-9)
    assert found.std_s == pytest.approx(statistics.pstdev(every), rel=1e-6, abs=1e-4)


def test_gains_are_those_that_follow_from_the_article_s_table_4() -> None:
    """Its text: waits are about 60 % shorter; the gains of its completion times are computed from both."""
    waits = [gain(PUBLISHED[n, "fixed"].wait_s, PUBLISHED[n, "flexible"].wait_s) for n in (50, 100, 200, 400)]
    assert waits == pytest.approx([66.95, 69.33, 60.74, 56.40], abs=0.01)
    whole = gain(PUBLISHED[50, "fixed"].completion_s, PUBLISHED[50, "flexible"].completion_s)
    assert whole == pytest.approx(52.27, abs=0.01)
    assert gain(PUBLISHED[50, "fixed"].execution_s, PUBLISHED[50, "flexible"].execution_s) < 0
    assert gain(0.0, 3.0) == 0.0


def test_the_article_s_own_counts_agree_with_those_a_job() -> None:
    for (action, _), each in dmr.TABLE2.items():
        if action != NO_ACTION:
            assert each.quantity / 400 == pytest.approx(each.per_job, abs=6e-4)


def test_what_a_job_told_is_found_in_its_log() -> None:
    line = '{"actions": {"no action": [2, 0.1, 0.3, 0.4, 0.1], "shrink": [1, 0.5, 0.5, 0.5, 0.25]}}'
    found = spent_of(f"a word of MPI\n{line}\ndeadbeef\n", "0-cg")
    assert found == {"no action": Spent(2, 0.1, 0.3, 0.4, 0.1), "shrink": once(0.5)}
    with pytest.raises(PliantError, match="job 0-cg has not told"):
        spent_of("deadbeef\n", "0-cg")


# ---- what is submitted ------------------------------------------------------------------------------------


def test_all_ways_have_the_same_jobs_at_the_same_times() -> None:
    batches = {way: measured.batch(20, 7, Scale(0.01), way, "dmr-wide") for way in WAYS}
    for way, batch in batches.items():
        assert [(job.name, job.submit_s, job.verify) for job in batch.jobs] == [
            (job.name, job.submit_s, job.verify) for job in batches[FIXED].jobs
        ]
        assert batch.cluster.policy == ("easy" if way == FIXED else "dmr-wide")
        for job in batch.jobs:
            most = 2 if job.name.endswith("n-body") else 4
            assert job.nodes == (Bounds.exactly(most) if way == FIXED else Bounds(1, most, 2, 1))
            assert job.job_class is (JobClass.RIGID if way == FIXED else JobClass.MALLEABLE)
            assert ("--check" in job.command) is (way != FIXED)
            if way != FIXED:
                assert job.command[job.command.index("--check") + 1] == way
            period = {"PLIANT_INHIBIT": "0" if way == FIXED else "0.15"}
            assert job.env == ({} if job.name.endswith("n-body") else period)
    programs = {job.name.partition("-")[2] for job in batches[FIXED].jobs}
    assert programs == set(measured.PROGRAMS)
    other = measured.batch(20, 8, Scale(0.01), FIXED, "dmr-wide")
    assert [job.name for job in other.jobs] != [job.name for job in batches[FIXED].jobs]


@given(st.sampled_from(sorted(TIMES)), st.integers(1, 16), st.integers(1, 64))
def test_a_node_that_stands_for_several_is_as_quick_as_they_are(program: str, nodes: int, each: int) -> None:
    assert wider(model(program), each).time(nodes) == pytest.approx(model(program).time(nodes * each))


def test_what_scales_without_limit_still_does() -> None:
    assert wider(Amdahl(64.0), 8) == Amdahl(8.0)


# ---- what is made of it -----------------------------------------------------------------------------------


def resize(before: int, after: int, scheduling: float, moving: float) -> Figures:
    row: Figures = {"before": before, "after": after, "repetitions": 3}
    for name, value in (("scheduling_s", scheduling), ("resize_s", moving)):
        row |= {name: value, f"{name}_median": value, f"{name}_max": 2 * value}
    return row


def way_run(way: str, waits: Sequence[float], runs: Sequence[float], used: float, seed: int = 3) -> WayRun:
    jobs = [JobTimes(f"{n}-cg", *times) for n, times in enumerate(zip(waits, runs, strict=True))]
    spent = (
        [] if way == FIXED else [{NO_ACTION: once(0.001), "shrink": once(0.4).plus(once(0.6))} for _ in jobs]
    )
    return WayRun(way, seed, used, 50.0, 0.0, jobs, spent, {"shrink done": 2} if spent else {}, [])


RUNS = [
    way_run(FIXED, (0.0, 10.0), (10.0, 10.0), 0.8),
    way_run(SYNC, (0.0, 5.0), (12.0, 12.0), 0.9),
    way_run(ASYNC, (0.0, 6.0), (20.0, 20.0), 0.85),
]
RESIZES = [resize(1, 2, 0.4, 0.9), resize(2, 4, 0.5, 0.5), resize(4, 2, 0.1, 0.4), resize(2, 1, 0.2, 0.3)]
FOUND = Measured(
    processors=2, load_average=0.5, python="3.11.7", architecture="x86_64", quick=True, bytes=1 << 27,
    policy="dmr-wide", times=0.01, resizes=RESIZES, why="", runs=RUNS,
)  # fmt: skip


def test_table_3_has_the_gains_of_means_and_who_lost() -> None:
    gained = {key: each.mean for key, each in dmr.gains(RUNS).items()}
    assert gained == pytest.approx({
        ("wait", SYNC): 50.0, ("wait", ASYNC): 40.0, ("execution", SYNC): -20.0, ("execution", ASYNC): -100.0,
        ("completion", SYNC): 100 * (1 - 29 / 30), ("completion", ASYNC): 100 * (1 - 46 / 30),
    })  # fmt: skip
    assert dmr.losses(RUNS, SYNC) == (2, 1, 1.2)
    assert dmr.losses(RUNS, ASYNC) == (2, 2, 2.0)
    again = [*RUNS, *(way_run(way, (1.0, 1.0), (9.0, 9.0), 0.6, seed=4) for way in WAYS)]
    assert dmr.utilisation(again)[SYNC] == pytest.approx((75.0, statistics.stdev([90.0, 60.0])))
    assert dmr.gains(again)["wait", SYNC].mean == pytest.approx(25.0)


def test_a_job_that_failed_one_way_is_compared_in_no_way() -> None:
    short = way_run(SYNC, (0.0,), (20.0,), 0.9)
    assert dmr.gains([RUNS[0], short, RUNS[2]])["execution", SYNC].mean == pytest.approx(-100.0)


def test_claims_say_where_figures_differ() -> None:
    told = dmr.resize_claims(RESIZES)
    assert [line.split("**")[1] for line in told] == ["Agrees", "Agrees", "Differs", "Differs"]
    ours = dmr.table2(RUNS)
    assert ours["shrink", SYNC][:2] == (4, 2.0)
    assert ours["shrink", SYNC].mean_s == pytest.approx(0.5)
    assert ours["shrink", SYNC].std_s == pytest.approx(0.1)
    words = [line.split("**")[1] for line in dmr.action_claims(ours)]
    assert words == ["Agrees", "Agrees", "Open", "Open"]  # so few actions tell nothing


def test_one_batch_tells_nothing_of_table_3_and_several_do_beyond_their_deviation() -> None:
    claims = dmr.measure_claims(dmr.utilisation(RUNS), dmr.gains(RUNS))
    assert all(line.startswith("- **Open**") for line in claims)
    words = [line.split("**")[1] for line in dmr.measure_claims(dmr.UTILISATION, dmr.TABLE3)]
    assert words == ["Agrees", "Agrees", "Agrees", "Agrees", "Open"]  # of the article's own figures
    worse = {key: Spread(-each.mean, 1.0) for key, each in dmr.TABLE3.items()}
    words = [line.split("**")[1] for line in dmr.measure_claims(dmr.UTILISATION, worse)]
    assert words == ["Agrees", "Differs", "Differs", "Differs", "Differs"]


@pytest.mark.long
def test_the_folder_has_figures_and_tables_of_all_that_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper3, "COUNTS", (50,))
    simulated = paper3.collect(run_all(paper3.tasks(), 1, lambda _done: None))
    with Folder(tmp_path / "out") as folder:
        dmr.write(folder, FOUND, simulated)
    text = (tmp_path / "out" / "README.md").read_text()
    for name in (*dmr.FIGURES, *paper3.FIGURES):
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"![]({name}.png)" in text
    assert "No job failed" in text
    with (tmp_path / "out" / f"{dmr.FIGURES[2]}.csv").open() as file:
        rows = list(csv.DictReader(file))
    [wait] = [row for row in rows if row["measure"] == "wait gain" and row["way"] == "synchronous"]
    assert (float(wait["ours_percent"]), float(wait["article_percent"])) == (50.0, 27.98)
    failed = msgspec.structs.replace(RUNS[2], problems=["async, seed 3: 1-cg: exit code 1"])
    found = msgspec.structs.replace(FOUND, resizes=[], why="no memory", runs=[*RUNS[:2], failed])
    with Folder(tmp_path / "out") as folder:
        dmr.write(folder, found, simulated)
    text = (tmp_path / "out" / "README.md").read_text()
    assert "**Failed**: Flexible Sleep: no memory" in text
    assert "**Failed**: async, seed 3: 1-cg: exit code 1" in text
    assert (tmp_path / "out" / f"{dmr.FIGURES[2]}.png").exists()

"""The papers' experiments: their figures, their folder, and what must come out of them."""

from __future__ import annotations

import csv
import os
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from pliant.core.settings import Settings
from pliant.model.errors import BatchError
from pliant.plan.cost import INSTANT
from pliant.policy.registry import POLICIES, make
from pliant.study.workers import run_all
from pliant.workloads.generators.paper3 import PUBLISHED
from pliant_lab.reproduce import elastic, harm, paper2, paper3, traces
from pliant_lab.reproduce.folder import MARK, Folder
from pliant_lab.reproduce.runs import Outcome, with_turnarounds
from pliant_lab.reproduce.scheduling import reproduce
from pliant_lab.reproduce.traces import Case, Source


@pytest.fixture(scope="module")
def runs() -> paper2.Runs:
    return paper2.collect(run_all(paper2.tasks(), 1, lambda _done: None))


def test_paper_2_at_both_ends(runs: paper2.Runs) -> None:
    """FCFS and first fit within 5 % of the article's makespans; true EASY better than FCFS; malleable best."""

    def makespan(label: str, percent: int) -> float:
        return mean(o.makespan_s for o in runs.by[label, percent])

    for label in ("FCFS", "Backfilling"):
        for percent in (0, 100):
            article = paper2.PUBLISHED[label, percent].makespan_s
            assert makespan(label, percent) == pytest.approx(article, rel=0.05)
    assert makespan("EASY", 0) < makespan("FCFS", 0)
    flexible = min(makespan(label, 100) for label in ("Malleable", "Malleable from min", "marginal (ours)"))
    assert flexible < min(makespan(label, 100) for label in ("FCFS", "Backfilling", "EASY"))
    assert mean(o.run_mean_s for o in runs.by["FCFS", 0]) == pytest.approx(195.36, rel=0.01)


@pytest.mark.long
def test_paper_2_leaves_its_figures(runs: paper2.Runs, tmp_path: Path) -> None:
    with Folder(tmp_path / "out") as folder:
        text = paper2.write(folder, runs)
        folder.readme(text)
    for name in paper2.FIGURES:
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / "out" / f"{name}.svg").read_text()
        assert f"![]({name}.png)" in text
    with (tmp_path / "out" / "paper2-figure-9-makespan.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(paper2.ALGORITHMS) * 6
    first = rows[0]
    assert (first["algorithm"], first["malleable_percent"], first["article"]) == ("FCFS", "0", "1157.46")
    assert float(first["mean"]) == pytest.approx(mean(o.makespan_s for o in runs.by["FCFS", 0]), rel=1e-5)


@pytest.mark.long
def test_paper_3_stays_near_its_table_and_leaves_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two smaller workloads; the values that are furthest off are in the docstring of ``table1.TIMES``."""
    monkeypatch.setattr(paper3, "COUNTS", (50, 100))
    runs = paper3.collect(run_all(paper3.tasks(), 1, lambda _done: None))
    for (count, version), article in PUBLISHED.items():
        if count <= 100:
            outcome = runs[count, version].outcome
            assert outcome.run_mean_s == pytest.approx(article.execution_s, rel=0.03)
            assert outcome.wait_mean_s == pytest.approx(article.wait_s, rel=0.15)
            assert outcome.utilisation == pytest.approx(article.utilisation, rel=0.04)
    steps = runs[50, "flexible"].steps
    assert max(step.nodes for step in steps) == 64
    assert (steps[-1].nodes, steps[-1].running, steps[-1].completed) == (0, 0, 50)
    # "There are 5 jobs in execution which allocate 40 nodes": the pattern of its Figure 6.
    held: dict[tuple[int, int], float] = {}
    for step, after in pairwise(steps):
        held[step.nodes, step.running] = held.get((step.nodes, step.running), 0.0) + after.at - step.at
    assert max(held, key=lambda key: held[key]) == (40, 5)
    with Folder(tmp_path / "out") as folder:
        text = paper3.write(folder, runs)
    assert {f"{name}.png" for name in paper3.FIGURES} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert "| 50 | fixed (EASY) |" in text


EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = (Source("Lublin-Feitelson", "", 64, 2, 60),)


@pytest.mark.long
def test_a_small_study_of_all_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, from the tasks to the folder, with Lublin's model alone; without malleable jobs, nothing changes."""
    monkeypatch.setattr(traces, "QUICK", (Source("Elsewhere", "elsewhere.swf.gz", 64, 2, 60), *SMALL))
    out = tmp_path / "out"
    files = reproduce(out, studies=("traces",), quick=True, workers=1)
    text = (out / MARK).read_text()
    assert (
        "traces were not found (--traces, or PLIANT_TRACES) and are left out: Elsewhere (elsewhere.swf.gz)."
        in text
    )
    assert all(f"![]({name})" in text for name in files if name.endswith(".png"))
    assert all(f"| {policy} |" in text for policy in POLICIES)
    assert {path.name for path in out.iterdir()} == {MARK, *files}
    with (out / "traces-changes.csv").open() as file:
        rows = list(csv.DictReader(file))
    still = [
        r for r in rows if r["malleable_percent"] == "0" and r["policy"] in ("easy", "marginal", "malleable")
    ]
    assert len(still) == 3 * len(traces.METRICS)
    assert all(float(row["change_percent"]) == 0.0 for row in still)
    _losses_are_those_of_the_runs(text, out / "traces-runs.csv")
    with Folder(out) as folder:  # one may replace one's own
        folder.readme("anew")
    assert [path.name for path in out.iterdir()] == [MARK]


def _losses_are_those_of_the_runs(text: str, runs: Path) -> None:
    """What the mean of marginal hides is printed beside it: jobs that are later, and the longest turnaround."""
    with runs.open() as file:
        rows = [row for row in csv.DictReader(file) if row["resize_costs"] == "none"]
    by = {(row["policy"], row["malleable_percent"], row["window"]): row for row in rows}
    windows = [str(i) for i in range(SMALL[0].windows)]
    for share in ("20", "60", "100"):
        ours = [by["marginal", share, window] for window in windows]
        easy = [by["easy", "0", window] for window in windows]
        assert all(float(row["later_jobs"]) == 0.0 for row in easy)
        later = mean(100 * float(row["later_jobs"]) for row in ours)
        longest = [
            float(row["turnaround_max_s"]) > float(base["turnaround_max_s"])
            for row, base in zip(ours, easy, strict=True)
        ]
        shown = f"| Lublin-Feitelson | {share} % | {later:.1f} % | {sum(longest)} of 2 windows |"
        assert shown in text


def test_jobs_that_are_later_than_under_rigid_easy_are_counted() -> None:
    """FCFS holds up many; each job for itself is compared with its turnaround under EASY."""
    [source] = SMALL
    _, later = traces.one(Case(source, 0, "fcfs", 0.0, costly=False), "")
    jobs = traces.window_jobs(source, 0, "")
    easy, fcfs = (
        with_turnarounds(jobs, source.nodes, make(name), Settings(cost=INSTANT))[1]
        for name in ("easy", "fcfs")
    )
    assert set(easy) == set(range(1, source.jobs + 1))
    slower = [number for number in easy if fcfs[number] > 1.1 * easy[number]]
    assert later == len(slower) / source.jobs > 0.0


def test_windows_are_cut_from_the_trace() -> None:
    folder = Path(os.environ.get("PLIANT_TRACES", "../shared/traces"))
    source = traces.QUICK[0]
    if not (folder / source.file).is_file():
        pytest.skip(f"{source.file} is not in {folder}")
    windows = [traces.window_jobs(source, number, str(folder)) for number in range(source.windows)]
    assert all(len(jobs) == source.jobs and jobs[0].spec.submit_s == 0 for jobs in windows)
    assert len({job.spec.name for jobs in windows for job in jobs}) == source.windows * source.jobs
    again = traces.one(Case(source, 0, "easy", 0.0, costly=False), str(folder))
    assert again == traces.one(Case(source, 0, "marginal", 0.0, costly=False), str(folder))


def test_harm_by_hand() -> None:
    """Of four jobs one is 2 % and 70 s later, one 50 % and 59 s, one 100 % and 100 s, and one is earlier."""
    before = {1: 3500.0, 2: 118.0, 3: 100.0, 4: 1000.0}
    after = {1: 3570.0, 2: 177.0, 3: 200.0, 4: 500.0}

    def outcome(by: dict[int, float], slowdown: float, broken: int) -> Outcome:
        return Outcome(4, 0.0, 0.0, 0.0, mean(by.values()), slowdown, 0.0, 0.0, 7, broken, 0.0, 0.0)

    costed = {1: 3570.0, 2: 177.0, 3: 100.0, 4: 1000.0}
    found = harm.compared(outcome(before, 4.0, 0), before, outcome(after, 3.0, 2), after, costed)
    assert (found.costed_1, found.costed_10, found.costed_worst_s) == (25.0, 25.0, 100.0)
    assert (found.jobs, found.later_1, found.later_10, found.worst_s) == (4, 50.0, 25.0, 100.0)
    assert (found.broken, found.promised) == (2, 7)
    assert (found.slowdown, found.most) == pytest.approx((-25.0, 2.0))
    assert found.mean == pytest.approx(100 * (4447 / 4718 - 1))
    assert found.p95 == -50.0  # of so few, the last but one


@pytest.mark.long
def test_on_the_trace_entitled_harms_nobody_and_the_others_do(tmp_path: Path) -> None:
    folder = Path(os.environ.get("PLIANT_TRACES", "../shared/traces"))
    found = harm.WANTED.there(folder, quick=True)
    if not found:
        assert harm.WANTED.missing(found, quick=True) == list(harm.QUICK)
        pytest.skip(f"no trace is in {folder}")
    trace = found[0]
    results = run_all(harm.tasks([trace], folder), 1, lambda _done: None)
    assert harm.WANTED.missing(found, quick=True) == []
    by = dict(zip(harm.cases([trace]), results, strict=True))
    for case, each in by.items():
        assert each.jobs == trace.jobs
        if case.policy == "entitled" and not case.costly:
            assert (each.later_1, each.worst_s, each.broken) == (0.0, pytest.approx(0.0, abs=0.01), 0)
            assert each.mean < 0.0
        elif case.policy in harm.POLICIES[1:]:
            assert each.later_10 > 0.0
        if case.policy == traces.BASE:
            assert (each.costed_1, each.costed_worst_s) == (0.0, 0.0)  # it is that
        if not case.costly:
            assert (each.costed_1, each.costed_worst_s) == (each.later_1, each.worst_s)
    with Folder(tmp_path / "out") as out:
        text = harm.write(out, [trace], results)
        out.readme(text)
        assert out.files == ["harm.csv", "harm.png", "harm.svg"]
    assert text.count("| entitled, ") == 6
    assert text.count("later than rigid EASY at no cost by 1 %") == 2
    assert text.count("later than rigid EASY at that cost") == 1


def fail(number: int) -> int:
    raise BatchError(f"task {number}")


def double(number: int) -> int:
    return 2 * number


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_the_order_of_the_tasks(workers: int) -> None:
    told: list[int] = []
    tasks: Any = [(double, (number,)) for number in range(5)]
    assert run_all(tasks, workers, told.append) == [0, 2, 4, 6, 8]
    assert told == [1, 2, 3, 4, 5]
    with pytest.raises(BatchError, match="task 7"):
        run_all([(fail, (7,)), *tasks], workers, told.append)


def test_a_folder_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    def break_off() -> None:
        with Folder(tmp_path / "out") as folder:
            folder.table("a", ("x",), [(1.0 / 3.0,)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("")
    with pytest.raises(BatchError, match="is no folder of results"):
        Folder(tmp_path / "mine")
    with pytest.raises(BatchError, match="there is no study 'paper9'"):
        reproduce(tmp_path / "out", studies=("paper9",))
    with pytest.raises(BatchError, match="cannot be written"):
        Folder(Path("/proc/nowhere/out"))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_nodes_that_come_and_go_hold_fewer_node_hours_for_longer_waits(tmp_path: Path) -> None:
    """On our own trace: the fixed machine waits least and holds most, and what is always there is held more."""
    trace = harm.Trace("ours", "trace.swf.gz", 100)
    results = run_all(elastic.tasks([trace], EXAMPLES), 1, lambda _done: None)
    by = dict(zip(elastic.cases([trace]), results, strict=True))
    fixed = by[elastic.Case(trace)]
    for idle_s in elastic.IDLE_S:
        held = [by[elastic.Case(trace, idle_s, least)].node_hours for least in elastic.LEAST]
        assert held == sorted(held)
        assert held[-1] < fixed.node_hours
    assert min(results, key=lambda each: each.wait_mean_s) == fixed
    assert fixed.broken == 0
    with Folder(tmp_path / "out") as out:
        out.readme(text := elastic.write(out, [trace], results))
        assert out.files == ["elastic.csv", "elastic.png", "elastic.svg"]
    assert text.count("| 5 min, ") == len(elastic.LEAST)
    assert elastic.WANTED.missing([], quick=True) == list(elastic.WANTED.quick)
    assert elastic.write(out, [], []) == ""

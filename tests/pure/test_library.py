"""``pliant.simulate``: what the command gives, as a function, with the jobs as a table that data frames take."""

from __future__ import annotations

import csv
import functools
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from commands import ITS_OWN, command, simulated
from test_public import ROOT, blocks

import pliant
from pliant import Amdahl, ClusterView, Decision, Job, PliantError, PolicyError, Reason, Resize, Start
from pliant.model.errors import BatchError, TraceError
from pliant.policy.marginal import Marginal
from pliant.sim.job_rows import COLUMNS
from pliant.study.simulation import NO_NUMBERS
from pliant.workloads.inline_jobs import given_jobs

TRACE = "; MaxProcs: 4\n1 0 0 10 3 -1 -1 3 10\n2 0 0 5 4 -1 -1 4 5\n3 0 0 10 1 -1 -1 1 10\n"
AFTER = "; MaxProcs: 4\n1 0 0 10 3 -1 -1 3 10\n2 0 0 5 4 -1 -1 4 5 -1 -1 -1 -1 -1 -1 -1 1 60\n"
THREE = [Job(0, 10, 3, name="a"), Job(0, 5, 4, name="b"), Job(0, 10, 1, name="c")]
BATCH = """
[cluster]
nodes = 8
order = "fairshare"
weights = { ann = 2 }
[[jobs]]
name = "a"
user = "ann"
count = 4
command = "true"
nodes = { min = 1, max = 8, preferred = 4 }
model = { work_s = 100, serial_fraction = 0.1 }
[[jobs]]
name = "b"
user = "bob"
submit = 3
command = "true"
nodes = 5
model = { work_s = 300 }
"""


class Mine:
    """Starts what fits, narrow jobs first."""

    name = "mine"

    def __init__(self, most: int = 1000) -> None:
        self.most = most

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        free = view.free
        for job in sorted(view.queue, key=lambda job: job.bounds.min):
            if job.bounds.min <= min(free, self.most):
                free -= job.bounds.min
                yield Start(job.id, job.bounds.min, Reason("narrow"))


def numbers(result: pliant.Result) -> dict[str, Any]:
    found = {**result.metrics, "classes": result.classes}
    return {key: value for key, value in found.items() if key not in ITS_OWN}


WORKLOADS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("x.swf", {}, []),
    ("x.swf", {"instant": "pyss", "policy": "fcfs"}, ["--instant", "pyss", "--policy", "fcfs"]),
    ("after.swf", {"dependencies": True}, ["--dependencies"]),
    ("b.toml", {}, []),
    ("b.toml", {"rigid": True, "cost": "none", "pass_interval_s": 5}, ["--rigid", "--cost", "none", "--pass-interval", "5"]),
    ("lublin:200", {"nodes": 64, "seed": 3, "policy": "marginal:payback=5"}, ["--nodes", "64", "--seed", "3", "--policy", "marginal:payback=5"]),
    ("feitelson:100", {"order": "shortest", "estimates": "factor:2", "policy": "conservative"}, ["--order", "shortest", "--estimates", "factor:2", "--policy", "conservative"]),
    ("lublin:150", {"nodes": 32, "failures": "mtbf=2d,repair=1h", "requeue": False}, ["--nodes", "32", "--failures", "mtbf=2d,repair=1h", "--no-requeue"]),
    ("lublin:150", {"nodes": 32, "failures": "mtbf=2d,repair=1h"}, ["--nodes", "32", "--failures", "mtbf=2d,repair=1h"]),
    ("lublin:150", {"nodes": 32, "failures": "mtbf=2d,repair=1h", "checkpoint": "interval=1h,cost=1min"}, ["--nodes", "32", "--failures", "mtbf=2d,repair=1h", "--checkpoint", "interval=1h,cost=1min"]),
    ("paper3:10", {"policy": "dmr-wide", "cooldown_s": 3, "resize_deadline_s": 9, "offer_deadline_s": 9}, ["--policy", "dmr-wide", "--cooldown", "3", "--resize-deadline", "9", "--offer-deadline", "9"]),
]  # fmt: skip


@pytest.mark.parametrize(("workload", "options", "words"), WORKLOADS)
def test_metrics_and_jobs_are_those_of_the_command(
    workload: str, options: dict[str, Any], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.swf").write_text(TRACE)
    Path("b.toml").write_text(BATCH)
    Path("after.swf").write_text(AFTER)
    told = simulated(workload, *words, "--jobs-csv", "jobs.csv")
    result = pliant.simulate(workload, **options)
    about = {"malleable_percent", "policy", "seed", "window", "begin_s", "end_s"}
    assert set(told) == {*result.metrics, *NO_NUMBERS, *about}
    left_out = {*ITS_OWN, *about, "partitions", "unmapped"}
    assert numbers(result) == {key: value for key, value in told.items() if key not in left_out}
    assert all(value is None or isinstance(value, int | float) for value in result.metrics.values())
    with Path("jobs.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == list(result.jobs) == list(COLUMNS)
    rows = [
        ["" if cell is None else str(cell) for cell in row] for row in zip(*result.jobs.values(), strict=True)
    ]
    assert rows == lines


def test_a_share_of_malleable_jobs_is_that_of_the_command() -> None:
    [row] = json.loads(command("simulate", "lublin:100", "--nodes", "64", "--malleable", "50", "--json"))[
        "rows"
    ]
    result = pliant.simulate("lublin:100", nodes=64, malleable=50)
    assert result.policy == row["policy"] == "malleable"
    kept = {key: each["mean"] for key, each in row.items() if isinstance(each, dict)}
    assert kept == {key: result.metrics[key] for key in kept}
    assert set(result.jobs["class"]) == {"malleable", "rigid"}


@pytest.mark.long
def test_the_mean_wait_on_a_trace_is_known() -> None:
    """The reference simulator has 6836.87 s, in its own order of events (tests/pure/test_traces.py)."""
    root = Path(__file__).resolve().parents[2]
    traces = Path(os.environ.get("PLIANT_TRACES", root.parent / "shared" / "traces"))
    if not (trace := traces / "KTH-SP2.filtered.swf.gz").is_file():
        pytest.skip(f"no {trace}")
    result = pliant.simulate(trace, "easy", nodes=100)
    assert result.metrics["wait_mean_s"] == pytest.approx(6834.59, abs=0.005)
    pyss = pliant.simulate(trace, "easy", nodes=100, instant="pyss")
    assert pyss.metrics["wait_mean_s"] == pytest.approx(6836.87, abs=0.005)
    assert math.fsum(pyss.jobs["wait_s"]) / 28481 == pytest.approx(6836.87, abs=0.005)


# ---- workloads that a program has made ----


def test_jobs_rows_and_tables_are_one_workload(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text(TRACE)
    known = numbers(pliant.simulate(tmp_path / "x.swf"))
    rows = [{"submit_s": 0, "run_s": run, "nodes": nodes, "name": name} for name, run, nodes in (("a", 10, 3), ("b", 5, 4), ("c", 10, 1))]  # fmt: skip
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    for workload in (THREE, rows, columns, pd.DataFrame(rows), pl.DataFrame(rows), iter(THREE)):
        result = pliant.simulate(workload, nodes=4)
        assert numbers(result) == known
        assert result.jobs["name"] == ["a", "b", "c"]
        assert result.jobs["wait_s"] == [0.0, 10.0, 0.0]


def test_cells_that_say_nothing() -> None:
    """A column with gaps is one of real numbers, in pandas; with its own types it has NA."""
    columns = (
        {"submit_s": [0, 1], "run_s": [5, 6], "nodes": [2, None], "user": [7, None], "walltime_s": [None, 9], "class": [None, "rigid"]}
    )  # fmt: skip
    frame = pd.DataFrame(columns)
    for each in (frame, frame.convert_dtypes(), pl.DataFrame(columns)):
        first, second = given_jobs(each)
        assert (first.spec.nodes.min, first.spec.user, first.spec.walltime_s) == (2, "7", 5.0)
        assert (second.spec.nodes.min, second.spec.user, second.spec.walltime_s) == (1, "", 9.0)
        assert (first.spec.name, second.spec.name) == ("1", "2")
        assert str(second.spec.job_class) == "rigid"


def test_sizes_models_and_classes() -> None:
    model = Amdahl(100.0, 0.1)
    jobs = [
        Job(0, 40, 4, nodes_min=1, nodes_max=8, factor=2),
        Job(0, nodes=4, nodes_max=8, model=model, job_class="moldable"),
        Job(0, 40, 4, model=model),
    ]
    first, second, third = given_jobs(jobs)
    assert (first.spec.nodes.sizes(), first.spec.nodes.preferred, first.spec.job_class) == (
        [1, 2, 4, 8],
        4,
        "malleable",
    )
    assert (first.time(8), first.spec.walltime_s) == (20.0, 40.0)
    assert (second.spec.nodes.sizes(), second.spec.job_class) == ([4, 5, 6, 7, 8], "moldable")
    assert (second.time(8), second.spec.walltime_s) == (model.time(8), model.time(4))
    assert (third.spec.job_class, third.time(4)) == ("rigid", 40.0)
    grown = pliant.simulate([jobs[0]], "malleable:start=min", nodes=8)
    assert (grown.jobs["nodes_start"], grown.jobs["nodes_end"], grown.jobs["expands"]) == ([1], [8], [1])


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ([], "there are no jobs"),
        (3, "workload: 3 is none: give a file"),
        ("", "workload: '' is none: give a file"),
        ([(0, 5, 2)], r"workload: job 1: \(0, 5, 2\) is none: give a pliant.Job"),
        ([{"run_s": 5}], "workload: job 1: submit_s: missing"),
        ([{"submit_s": 0, "runs": 5}], "workload: job 1: a job has no 'runs'; did you mean 'run_s'"),
        ([{"submit_s": 0}], "workload: job 1: run_s: missing; say how long it runs"),
        ([Job(0, 5), Job(0, -1.0)], "workload: job 2: run_s: -1.0 is no number of seconds"),
        ([Job(0, math.inf)], "workload: job 1: run_s: inf is no number"),
        ([Job(0, 10**400)], "workload: job 1: run_s: 10+ is no number"),
        ([Job("0", 5)], "workload: job 1: submit_s: '0' is no number"),  # type: ignore[arg-type]
        ([Job(-1, 5)], "workload: job 1: submit_s: -1 is no number of seconds, 0 or more"),
        ([Job(0, 5, 0, name="x")], "workload: job x: nodes: 0 is no whole number, 1 or more"),
        ([Job(0, 5, 1.5)], "nodes: 1.5 is no whole number"),  # type: ignore[arg-type]
        ([Job(0, 5, 4, nodes_min=5)], "workload: job 1: nodes: max 4 is below min 5"),
        ([Job(0, 5, 3, nodes_min=1, nodes_max=8, factor=2)], "preferred 3 is no allowed size"),
        ([Job(0, 5, 3, nodes_min=1, job_class="rigid")], "class: a rigid job has one size"),
        ([Job(0, 5, job_class="maleable")], "class: there is no 'maleable'; did you mean 'malleable'"),
        ([Job(0, 5, kind="task")], "kind: there is no 'task'; did you mean 'tasks'"),
        ([Job(0, 5, model=Amdahl(-1.0))], "job 1: model.work_s is -1; it must be above 0"),
        ([Job(0, 5, model="amdahl")], "model: 'amdahl' is none; give a pliant.Amdahl"),  # type: ignore[arg-type]
        ({"submit_s": [0, 1], "run_s": [5]}, "columns are of different lengths: submit_s 2, run_s 1"),
        ({"submit_s": 0, "run_s": [5]}, "workload: submit_s: 0 is no column"),
    ],
)
def test_workloads_that_are_refused(workload: Any, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        pliant.simulate(workload, nodes=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": -1}, "--nodes: -1 is too little; the least is 0"),
        ({"nodes": 2.5}, r"--nodes: 2\.5 is no whole number"),
        ({"nodes": 1 << 21}, "are too many to simulate"),
        ({"seed": -1}, "--seed: -1 is too little"),
        ({"malleable": 101}, "--malleable: 101 is no percentage"),
        ({"malleable": 150}, "--malleable: 150 is no percentage"),
        ({"malleable": Path("50")}, "--malleable: .*Path.* is no percentage"),
        ({"seed": Path("1")}, "--seed: .*Path.* is no whole number"),
        ({"strict": "no"}, "--strict: 'no' is neither True nor False"),
        ({"requeue": 0, "failures": "mtbf=2d,repair=1h"}, "requeue: 0 is neither True nor False"),
        ({"malleable": "50"}, "--malleable: '50' is no percentage"),
        ({"compat": True}, "--compat changes nothing without --malleable"),
        ({"requeue": False}, "--no-requeue changes nothing without --failures"),
        ({"weights": {"ann": 2}}, "--weight changes nothing without --order"),
        ({"half_life_s": 60.0}, "--half-life changes nothing without --order fairshare"),
        ({"weights": [1], "order": "fairshare"}, r"--weight: \[1\] is no mapping of users to their weights"),
        ({"weights": {"ann": "x"}, "order": "weight"}, "--weight: ann: 'x' is no weight above 0"),
        ({"weights": {"ann": 0}, "order": "weight"}, "--weight: ann: 0 is no weight above 0"),
        ({"order": ["x"]}, r"--order: \['x'\] is no text"),
        ({"start": 3}, "--start: 3 is no text"),
        ({"cooldown_s": "2"}, "--cooldown: '2' is no number of seconds"),
        ({"cooldown_s": -1}, "--cooldown: -1 is too little"),
        ({"cooldown_s": 10**400}, "--cooldown: 10+ is no number of seconds"),
        ({"resize_deadline_s": 0}, r"--resize-deadline: 0 is too little; the least is 0\.001"),
        ({"pass_interval_s": math.nan}, "--pass-interval: nan is no number of seconds"),
        ({"half_life_s": 0}, "--half-life: 0 is too little"),
        ({"instant": "pys"}, "--instant: there is no 'pys'; did you mean 'pyss'"),
        ({"estimates": "exakt"}, "estimates: 'exakt' is none of"),
        ({"belief": None}, "--belief: None is no text"),
        ({"cost": "starts=1"}, "there is no 'starts'; did you mean 'start_s'"),
        ({"failures": "mtbf=1"}, "failures"),
        ({"failures": "mtbf=2d,repair="}, "repair has no value"),
        ({"checkpoint": "interval=1"}, "checkpoint"),
        ({"policy": "esay"}, "there is no policy 'esay'; did you mean 'easy'"),
        ({"policy": "marginal:pay=5"}, "has no parameter 'pay'"),
        ({"policy": "none.py"}, r"none\.py: there is no such file"),
        ({"policy": 3}, "policy: 3 is no policy: it has no decide"),
        ({"policy": Amdahl}, "class Amdahl is no policy: it has no decide"),
        ({"policy": Mine, "start": "min"}, "policy 'Mine' has no start rule"),
        ({"dependencies": True}, "--dependencies changes nothing without a trace in SWF"),
        ({"order": "longest"}, "there is no order 'longest'"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PliantError, match=message):
        pliant.simulate(THREE, **{"nodes": 4, **options})


def test_files_are_given_by_their_paths_as_well_as_by_their_names(tmp_path: Path) -> None:
    fails = tmp_path / "fails.csv"
    fails.write_text("node,fail_s,return_s\n0,2,4\n")
    assert numbers(pliant.simulate(THREE, nodes=4, failures=fails)) == numbers(
        pliant.simulate(THREE, nodes=4, failures=str(fails))
    )
    cost = tmp_path / "cost.json"
    cost.write_text('{"cost": 1}')
    with pytest.raises(BatchError, match=r"cost\.json: is no cost file"):
        pliant.simulate(THREE, nodes=4, cost=cost)


def test_no_weights_are_none() -> None:
    assert numbers(pliant.simulate(THREE, nodes=4, weights=None)) == numbers(pliant.simulate(THREE, nodes=4))


def test_what_only_the_machine_lacks() -> None:
    with pytest.raises(BatchError, match="they do not say how large the machine is; give nodes"):
        pliant.simulate(THREE)
    with pytest.raises(TraceError, match=r"none of its jobs \(1\) fits on 8 nodes: the narrowest needs 9"):
        pliant.simulate([Job(0, 5, 9)], nodes=8)
    with pytest.raises(TraceError, match="neither a trace"):
        pliant.simulate("trace.csv", nodes=4)


def test_jobs_that_are_too_wide_are_left_out_with_a_warning() -> None:
    jobs = [*THREE, Job(0, 5, 9, name="wide")]
    with pytest.warns(
        UserWarning, match=r"left out 1 of 4 jobs, too wide for 4 nodes: wide \(9\); strict=True"
    ):
        result = pliant.simulate(jobs, nodes=4)
    assert result.metrics["too_wide"] == 1
    assert result.jobs["name"] == ["a", "b", "c"]
    with pytest.raises(
        BatchError, match="job 'wide': nodes: it needs 9 nodes and there are 4; it could never start"
    ):
        pliant.simulate(jobs, nodes=4, strict=True)


# ---- a policy of one's own ----


def test_a_policy_is_a_name_a_file_a_class_what_makes_one_or_made(tmp_path: Path) -> None:
    known = numbers(pliant.simulate("lublin:80", "marginal:payback=5", nodes=64, malleable=50))
    for policy in (
        functools.partial(Marginal, payback=5.0),
        Marginal(payback=5.0),
        lambda: Marginal(payback=5.0),
    ):
        assert numbers(pliant.simulate("lublin:80", policy, nodes=64, malleable=50)) == known
    (tmp_path / "own.py").write_text("from pliant.policy.easy import Easy\nclass Own(Easy): ...\n")
    easy = pliant.simulate("lublin:80", "easy", nodes=64)
    for file in (tmp_path / "own.py", f"{tmp_path}/own.py:Own"):
        assert pliant.simulate("lublin:80", file, nodes=64).jobs == easy.jobs
    assert pliant.simulate(THREE, Mine, nodes=4).policy == "mine"
    assert pliant.simulate(THREE, Mine, nodes=4, order="shortest").policy == "mine by shortest"


class Counts(Mine):
    def decide(self, view: ClusterView) -> Iterable[Decision]:
        self.most -= 1
        return super().decide(view)


def test_one_that_is_made_is_used_as_it_is() -> None:
    policy = Counts()
    pliant.simulate(THREE, policy, nodes=4)
    assert policy.most < 1000


class Fails(Mine):
    def decide(self, view: ClusterView) -> Iterable[Decision]:
        raise ZeroDivisionError(f"at {view.now}")


class Answers(Mine):
    def decide(self, view: ClusterView) -> Iterable[Decision]:
        return [view.free - 3]  # type: ignore[list-item]


class Nameless:
    decide = Mine.decide


class Grows(Mine):
    def decide(self, view: ClusterView) -> Iterable[Decision]:
        yield from super().decide(view)
        yield from (Resize(job.id, 9, Reason("more")) for job in view.elastic)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Fails, r"policy 'mine' at 0\.000 s raised ZeroDivisionError: at 0\.0 \(class Fails, line \d+\)"),
        (Fails(), r"raised ZeroDivisionError: at 0\.0 \(class Fails, line \d+\)"),
        (Answers, "policy 'mine' at 0.000 s decided 5, which is none of Start, Resize"),
        (Nameless, "class Nameless: AttributeError"),
        (functools.partial(Mine, least=1), "class Mine: .*unexpected keyword argument 'least'"),  # type: ignore[call-arg]
        (Grows, "policy 'mine' at .* decided Resize.*9"),
        (Mine(most=2), r"policy 'mine' is stuck at 10\.000 s"),
    ],
)
def test_errors_name_the_policy(policy: Any, message: str) -> None:
    jobs = [Job(0, 10, 1, nodes_max=8), Job(0, 10, 3)]
    with pytest.raises(PolicyError, match=message):
        pliant.simulate(jobs, policy, nodes=8)


# ---- what a notebook shows ----


def test_frames_have_types() -> None:
    result = pliant.simulate("lublin:150", nodes=32, failures="mtbf=2d,repair=1h")
    frame, other = pd.DataFrame(result.jobs), pl.DataFrame(result.jobs)
    assert len(frame) == len(other) == 150 + (result.metrics["requeued"] or 0)
    times = [name for name in COLUMNS if name.endswith("_s")]
    assert {str(frame[name].dtype) for name in (*times, "nodes_mean", "requeue_of")} == {"float64"}
    assert {other[name].dtype for name in (*times, "nodes_mean")} == {pl.Float64()}
    assert {str(frame[name].dtype) for name in ("job", "nodes_min", "nodes_end", "expands", "exit_code")} == {
        "int64"
    }
    assert other["requeue_of"].dtype == pl.Int64()
    assert frame["requeue_of"].notna().sum() == other["requeue_of"].count() == result.metrics["requeued"]
    done = frame[frame["state"] == "COMPLETED"]
    assert (done["end_s"] - done["start_s"] - done["run_s"]).abs().max() < 1e-5


def test_the_mean_size_of_a_job_that_took_no_time_is_a_real_number_too() -> None:
    result = pliant.simulate([Job(0, 5, 2), Job(1, 0, 2), Job(1, 0, 1)], nodes=2)
    assert result.jobs["nodes_mean"] == [2.0, 2.0, 1.0]
    assert pl.DataFrame(result.jobs)["nodes_mean"].dtype == pl.Float64()


def test_a_result_shows_itself() -> None:
    result = pliant.simulate(THREE, Mine, nodes=4)
    text = repr(result)
    assert text.splitlines()[0] == "jobs: mine on 4 nodes"
    assert "mean wait" in text
    assert "3.33 s" in text
    assert "CPU" not in text
    shown = result._repr_html_()
    assert shown.startswith("<table><caption>jobs: mine on 4 nodes</caption><tr>")
    assert shown.count("<tr>") == text.count("\n")


def test_the_example_of_the_readme_runs() -> None:
    [text] = [text for text in blocks(ROOT / "README.md") if "pliant.simulate(" in text]
    names: dict[str, Any] = {}
    exec(compile(text, "README.md", "exec"), names)  # noqa: S102
    assert len(names["jobs"]) == 1000
    assert set(names["means"].index) == {"malleable", "rigid"}
    assert names["made"].jobs["wait_s"] == [0.0, 3540.0]


def test_words_for_policies_load_no_simulator() -> None:
    code = "import sys; from pliant import *; simulate, Result, Job; print('pliant.sim.simulator' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "False"

"""What ``pliant simulate`` takes: generators by name, ElastiSim's jobs, shares of malleable jobs, estimates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import command

from pliant.model.errors import BatchError, TraceError
from pliant.model.jobs import Bounds, JobClass
from pliant.model.speedup import Amdahl, Phases, Table
from pliant.study.confidence import interval
from pliant.workloads.estimates import with_estimates
from pliant.workloads.formats.elastisim import read_elastisim
from pliant.workloads.formats.expression import evaluate
from pliant.workloads.generators.lublin import lublin_jobs
from pliant.workloads.generators.paper2 import paper2_jobs
from pliant.workloads.sources import Wish, read_workload

TRACE = "; MaxProcs: 8\n" + "".join(f"{i} {i * 5} 0 {20 + i} 4 -1 -1 4 90\n" for i in range(1, 30))


# ---- generators by name ----


def test_generators_by_name() -> None:
    load = read_workload(Wish("lublin:40,load=0.6", 64, 7))
    assert (load.jobs, load.nodes, load.fixed) == (lublin_jobs(40, 64, 7, load=0.6), 64, False)
    assert read_workload(Wish("lublin:40", 64, 6, run=1)).jobs == lublin_jobs(40, 64, 7)
    assert read_workload(Wish("lublin:40,kinds=1")).jobs == lublin_jobs(40, 128, 42, one_kind=True)
    batch = read_workload(Wish("paper2:43", percent=40, run=2))
    assert (batch.jobs, batch.nodes) == (paper2_jobs(45, 40), 32)
    assert len(read_workload(Wish("feitelson:30,gap=10,unit=60", 16)).jobs) == 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lublin:many", r"'many' is no whole number; write lublin:NUMBER"),
        ("lublin:5,laod=1", r"no option 'laod'; did you mean 'load'"),
        ("lublin:5,load=x", r"load: 'x' is no number"),
        ("lublin:5,load=0", r"load: it must be above 0"),
        ("lublin:5,kinds=3", r"kinds: 3; there are 1 and 2"),
        ("lublin", r"neither a trace .* lublin:JOBS"),
    ],
)
def test_generators_that_do_not_exist(text: str, message: str) -> None:
    with pytest.raises((BatchError, TraceError), match=message):
        read_workload(Wish(text))


# ---- estimates ----


def test_estimates() -> None:
    jobs = paper2_jobs(43)
    assert with_estimates(jobs, "requested", 1) == jobs
    exact = with_estimates(jobs, "exact", 1)
    assert all(job.spec.walltime_s == job.time(job.spec.nodes.preferred) for job in exact)
    over = with_estimates(jobs, "factor:4", 1)
    ratios = [job.spec.walltime_s / job.time(job.spec.nodes.preferred) for job in over]
    assert all(1.0 <= ratio <= 5.0 for ratio in ratios)
    assert max(ratios) > 3.0
    assert over == with_estimates(jobs, "factor:4", 1) != with_estimates(jobs, "factor:4", 2)
    for wrong in ("good", "factor:", "factor:-1", "factor:nan"):
        with pytest.raises(BatchError, match="estimates: "):
            with_estimates(jobs, wrong, 1)


# ---- shares of malleable jobs ----


def test_a_row_for_each_share(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text(TRACE)
    arguments = (str(tmp_path / "x.swf"), "--malleable", "0,50,100", "--seeds", "3")
    one = json.loads(command("simulate", *arguments, "--workers", "1", "--json"))
    assert [(row["malleable_percent"], row["runs"]) for row in one["rows"]] == [(0, 1), (50, 3), (100, 1)]
    assert (one["policy"], one["nodes"]) == ("malleable", 8)
    assert one["rows"][0]["expands"] == {"mean": 0.0, "half": None}
    assert one["rows"][1]["wait_mean_s"]["half"] > 0
    assert one["rows"][2]["wait_mean_s"]["mean"] < one["rows"][0]["wait_mean_s"]["mean"]
    assert json.loads(command("simulate", *arguments, "--workers", "2", "--json")) == one
    shown = command("simulate", *arguments, "--workers", "1", "--policy", "easy")
    assert "easy on 8 nodes" in shown
    assert "±" in shown


def test_the_published_form_is_longer(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text(TRACE)
    arguments = (
        str(tmp_path / "x.swf"),
        "--malleable",
        "100",
        "--policy",
        "fcfs",
        "--start",
        "preferred",
        "--json",
    )
    ours, published = (
        json.loads(command("simulate", *arguments, *more))["rows"][0] for more in ((), ("--compat",))
    )
    assert published["makespan_s"]["mean"] > ours["makespan_s"]["mean"]


def test_several_seeds_without_shares() -> None:
    result = json.loads(
        command("simulate", "lublin:50", "--nodes", "64", "--seeds", "2", "--workers", "1", "--json")
    )
    assert [(row["malleable_percent"], row["runs"]) for row in result["rows"]] == [(None, 2)]
    shown = command("simulate", "paper3:100", "--malleable", "0")
    assert "paper3:100: " in shown  # the name is no markup: ":100:" would be a picture
    single = json.loads(command("simulate", "lublin:50", "--nodes", "64", "--json"))
    assert single["jobs"] == 50


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--malleable", "0,200"], "'200' is no percentage"),
        (["--malleable", "some"], "'some' is no percentage"),
        (["--compat"], "nothing without --malleable"),
        (["--estimates", "guess"], "estimates: 'guess'"),
    ],
)
def test_wishes_that_cannot_be_granted(more: list[str], message: str) -> None:
    with pytest.raises(BatchError, match=message):
        command("simulate", "lublin:5", *more)


def test_intervals() -> None:
    assert interval([3.0]) == (3.0, None)
    assert tuple(interval([1.0, 3.0])) == pytest.approx((2.0, 12.706))
    assert interval([float(i % 2) for i in range(32)]).half == pytest.approx(2.04 * 0.508 / 32**0.5, rel=0.01)


# ---- ElastiSim ----

MODEL: dict[str, Any] = {
    "phases": [
        {
            "iterations": "rounds",
            "tasks": [
                {"type": "cpu", "flops": "load", "computation_pattern": "all_ranks"},
                {"type": "sequence", "iterations": 2, "tasks": [{"type": "busy_wait", "delay": 1.5}]},
            ],
        }
    ]
}
RIGID: dict[str, Any] = {
    "type": "rigid", "submit_time": 60, "num_nodes": 4, "walltime": 90, "application_model": "models/a.json",
    "arguments": {"rounds": 2, "load": 8e9}, "attributes": {"priority": 5, "user": "ann"},
}  # fmt: skip
MALLEABLE: dict[str, Any] = {
    "type": "malleable", "submit_time": 9.5, "num_nodes_min": 2, "num_nodes_max": 16,
    "application_model": "models/a.json", "arguments": {"rounds": 1, "load": 16e9}, "attributes": {"name": "big"},
}  # fmt: skip


def elastisim(folder: Path, *jobs: dict[str, Any], model: dict[str, Any] = MODEL) -> Path:
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "a.json").write_text(json.dumps(model))
    (folder / "jobs.json").write_text(json.dumps({"jobs": jobs}))
    return folder / "jobs.json"


def test_elastisims_jobs(tmp_path: Path) -> None:
    rigid, malleable = read_elastisim(elastisim(tmp_path, RIGID, MALLEABLE), 1e9)
    assert (rigid.spec.name, rigid.spec.submit_s, rigid.spec.walltime_s) == ("1", 60.0, 90.0)
    assert (rigid.spec.kill, rigid.spec.priority, rigid.spec.user) == (True, 5, "ann")
    assert rigid.time(4) == pytest.approx(2 * (8 / 4 + 2 * 1.5))
    assert (malleable.spec.name, malleable.spec.job_class) == ("big", JobClass.MALLEABLE)
    assert malleable.spec.nodes == Bounds(2, 16, preferred=16)
    assert isinstance(malleable.spec.model, Amdahl)
    assert malleable.time(5) == pytest.approx(16 / 5 + 3.0)


def test_elastisims_performance_models(tmp_path: Path) -> None:
    task = {"type": "cpu", "flops": "load / num_nodes ^ 0.8", "computation_pattern": "uniform"}
    path = elastisim(tmp_path, MALLEABLE | {"num_nodes_max": 500}, model={"phases": [{"tasks": [task]}]})
    [job] = read_elastisim(path, 1e9)
    assert isinstance(job.spec.model, Table)
    assert job.time(2) == pytest.approx(16 / 2**0.8)
    assert job.time(77) == pytest.approx(16 / 77**0.8)  # a power law is straight in log-log


def test_elastisims_evolving_jobs_ask_for_what_their_phases_request(tmp_path: Path) -> None:
    model: dict[str, Any] = {
        "phases": [
            {"iterations": 2, "tasks": [{"type": "idle", "delay": 5}]},
            {"evolving_request": "2 * x", "tasks": [TASK]},
            {"evolving_request": 1, "tasks": [{"type": "busy_wait", "delay": "x"}]},
        ]
    }
    job = {
        "type": "evolving", "submit_time": 0, "num_nodes_min": 1, "num_nodes_max": 8,
        "application_model": "models/a.json", "arguments": {"x": 4},
    }  # fmt: skip
    path = elastisim(tmp_path, job, model=model)
    [read] = read_elastisim(path, 1e9)
    assert read.spec.job_class is JobClass.EVOLVING
    assert isinstance(read.spec.model, Phases)
    assert [(part.min, part.max) for part in read.spec.model.phases] == [(1, None), (8, 8), (1, 1)]
    assert [part.time(8) for part in read.spec.model.phases] == [10.0, 1.0, 4.0]
    options = ("--nodes", "8", "--node-flops", "1e9", "--start", "min", "--json")
    figures = json.loads(command("simulate", str(path), *options))
    assert figures["makespan_s"] == 10.0 + 1.0 + 4.0
    assert (figures["expands"], figures["shrinks"]) == (1, 1)
    model["phases"][2]["evolving_request"] = "x / 8"
    with pytest.raises(TraceError, match=r"phase 3: evolving_request: 0\.5 is no size of the job, 1:8"):
        read_elastisim(elastisim(tmp_path, job, model=model), 1e9)
    with pytest.raises(TraceError, match=r"phase 2: evolving_request: only evolving jobs can make one"):
        read_elastisim(elastisim(tmp_path, job | {"type": "malleable"}, model=model), 1e9)


TASK = {"type": "cpu", "flops": 8e9, "computation_pattern": "all_ranks"}


def test_elastisims_jobs_are_simulated(tmp_path: Path) -> None:
    path = elastisim(tmp_path, RIGID, MALLEABLE)
    figures = json.loads(command("simulate", str(path), "--nodes", "16", "--node-flops", "1e9", "--json"))
    assert (figures["jobs"], figures["failed"]) == (2, 0)
    with pytest.raises(BatchError, match="give --nodes"):
        command("simulate", str(path), "--node-flops", "1e9")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"type": "adaptive"},
            r"job 1: type: 'adaptive' is not simulated; rigid, moldable, malleable, evolving",
        ),
        ({"num_gpus_per_node": 2}, r"job 1: num_gpus_per_node: GPUs"),
        ({"deadline": 2}, r"job 1: deadline: not known"),
        ({"attributes": {"dependency": "x"}}, r"job 1: attributes: dependency: not known"),
        ({"num_nodes": None}, r"job 1: num_nodes: missing"),
        ({"num_nodes": 0}, r"job 1: num_nodes: min is 0"),
        ({"submit_time": -1}, r"job 1: submit_time: expected a number"),
        ({"application_model": "b.json"}, r"application model b\.json is not there"),
        ({"arguments": {"rounds": 2}}, r"job 1: .*a\.json: phase 1: task 1: flops: 'load' is no argument"),
        ({"arguments": {"rounds": 0, "load": 1}}, r"job 1: .*runs 0 s on 4 nodes"),
        ({"arguments": {"rounds": "x(", "load": 1}}, r"job 1: rounds: 'x\(' is no arithmetic"),
    ],
)
def test_elastisims_jobs_that_do_not_map(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=rf"jobs\.json: .*{message}|jobs\.json: {message}|{message}"):
        read_elastisim(elastisim(tmp_path, RIGID | change), 1e9)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"phases": []}, "there are no phases"),
        (MODEL | {"on_expansion": {"tasks": [1]}}, "on_expansion is not simulated"),
        ({"phases": [{"tasks": [{"type": "pfs_read", "bytes": 1}]}]}, "phase 1: task 1: type: 'pfs_read'"),
        ({"phases": [{"tasks": [{"type": "cpu", "flops": 1, "bytes": 1}]}]}, "bytes: communication"),
        ({"phases": [{"tasks": [{"type": "cpu", "flops": 1}]}]}, "computation_pattern: None"),
        ({"phases": [{"tasks": [{"type": "idle"}]}]}, "delay: expected a number"),
        ({"phases": [{"iterations": "num_nodes", "tasks": []}]}, "'num_nodes' is no argument"),
        ({"phases": ["x"]}, "phase 1: is no phase"),
        ({"phases": [{}]}, "phase 1: tasks: expected a list"),
    ],
)
def test_application_models_that_do_not_map(tmp_path: Path, model: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_elastisim(elastisim(tmp_path, RIGID, model=model), 1e9)


def test_files_that_are_not_elastisims(tmp_path: Path) -> None:
    path = elastisim(tmp_path, RIGID)
    with pytest.raises(TraceError, match="speed of a node is not known"):
        read_elastisim(path)
    path.write_text('{\n"jobs": [}')
    with pytest.raises(TraceError, match=r"jobs\.json:2: is no JSON"):
        read_elastisim(path)
    path.write_text("[]")
    with pytest.raises(TraceError, match="there are no jobs"):
        read_elastisim(path)
    with pytest.raises(TraceError, match="cannot be read"):
        read_elastisim(tmp_path / "none.json")


def test_expressions() -> None:
    assert evaluate("2 * x ^ 2 - -1", {"x": 3.0}) == 19.0
    assert evaluate(" max(ceil(x), 2) % 2 ", {"x": 2.5}) == 1.0
    for wrong in (
        "x +",
        "y",
        "x.real",
        "(lambda: 1)()",
        "1 / 0",
        "10 ^ 400",
        "'a'",
        "max()",
        "1 if x else 2",
    ):
        with pytest.raises(
            ValueError, match=r"no arithmetic|is no argument|not understood|cannot be computed"
        ):
            evaluate(wrong, {"x": 1.0})

"""ElastiSim's jobs, application models and platforms: what they come to, and what of them is named as not simulated."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from commands import command, run_of
from hypothesis import given
from hypothesis import strategies as st

from pliant import simulate
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.errors import BatchError, TraceError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl, Phase, Phases, Table
from pliant.plan.cost import INSTANT
from pliant.policy.fcfs import Fcfs
from pliant.sim.simulator import Conditions
from pliant.sim.simulator import simulate as run_simulation
from pliant.study.library import Result
from pliant.workloads.formats.elastisim import ElastiSim, named_files, read_elastisim
from pliant.workloads.formats.elastisim_tasks import FLOWS, ElastisimMachine, tasks_s
from pliant.workloads.formats.simgrid import Platform, Route, Speeds, Storage, read_platform
from pliant.workloads.job import SimJob

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
TASK = {"type": "cpu", "flops": 8e9, "computation_pattern": "all_ranks"}
WAIT = {"type": "busy_wait", "delay": 10}
SPEEDS = Speeds(node_flops=1e9)


def written(folder: Path, *jobs: dict[str, Any], model: dict[str, Any] = MODEL) -> Path:
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "a.json").write_text(json.dumps(model))
    (folder / "jobs.json").write_text(json.dumps({"jobs": jobs}))
    return folder / "jobs.json"


def read(folder: Path, *jobs: dict[str, Any], model: dict[str, Any] = MODEL) -> ElastiSim:
    return read_elastisim(written(folder, *jobs, model=model), SPEEDS)


def read_single_job(folder: Path, job: dict[str, Any], model: dict[str, Any] = MODEL) -> SimJob:
    [made] = read(folder, job, model=model).jobs
    return made


def simulated(path: Path, policy: str) -> Result:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*scheduling points of malleable and adaptive jobs.*")
        return simulate(path, policy, nodes=8, node_flops=1e9)


# ---- jobs ----


def test_jobs(tmp_path: Path) -> None:
    (rigid, malleable), nodes, unmapped = read(tmp_path, RIGID, MALLEABLE)
    assert (rigid.spec.name, rigid.spec.submit_s, rigid.spec.walltime_s) == ("1", 60.0, 90.0)
    assert (rigid.spec.kill, rigid.spec.priority, rigid.spec.user) == (True, 5, "ann")
    assert rigid.time(4) == pytest.approx(2 * (8 / 4 + 2 * 1.5))
    assert (malleable.spec.name, malleable.spec.job_class) == ("big", JobClass.MALLEABLE)
    assert malleable.spec.nodes == Bounds(2, 16, preferred=16)
    assert isinstance(malleable.spec.model, Amdahl)
    assert malleable.time(5) == pytest.approx(16 / 5 + 3.0)
    assert nodes == 0
    assert [(row.what, row.jobs, row.first) for row in unmapped] == [
        ("scheduling points of malleable and adaptive jobs", 1, "big")
    ]


def test_performance_models(tmp_path: Path) -> None:
    task = {"type": "cpu", "flops": "load / num_nodes ^ 0.8", "computation_pattern": "uniform"}
    job = read_single_job(tmp_path, MALLEABLE | {"num_nodes_max": 500}, {"phases": [{"tasks": [task]}]})
    assert isinstance(job.spec.model, Table)
    assert job.time(2) == pytest.approx(16 / 2**0.8)
    assert job.time(77) == pytest.approx(16 / 77**0.8)  # a power law is straight in log-log


def test_evolving_jobs_ask_for_what_their_phases_request(tmp_path: Path) -> None:
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
    made = read_single_job(tmp_path, job, model)
    assert made.spec.job_class is JobClass.EVOLVING
    assert isinstance(made.spec.model, Phases)
    assert [(part.min, part.max) for part in made.spec.model.phases] == [(1, None), (8, 8), (1, 1)]
    assert [part.time(8) for part in made.spec.model.phases] == [10.0, 1.0, 4.0]
    options = ("--nodes", "8", "--node-flops", "1e9", "--start", "min")
    figures = run_of(command("simulate", str(tmp_path / "jobs.json"), *options, "--json"))
    assert figures["makespan_s"] == 10.0 + 1.0 + 4.0
    assert (figures["expands"], figures["shrinks"]) == (1, 1)
    model["phases"][2]["evolving_request"] = "x / 8"  # clipped
    made = read_single_job(tmp_path, job, model)
    assert isinstance(made.spec.model, Phases)
    assert made.spec.model.phases[2].max == 1
    assert isinstance(read_single_job(tmp_path, job | {"type": "malleable"}, model).spec.model, Amdahl)


REQUEST = "phase_iteration % 2 == 0 ? num_nodes - 4 : num_nodes + 4"


def test_requests_by_iteration_and_size(tmp_path: Path) -> None:
    model = {"phases": [{"iterations": 4, "evolving_request": REQUEST, "tasks": [WAIT]}]}
    job = MALLEABLE | {"type": "evolving", "num_nodes_max": 8}
    made = read_single_job(tmp_path, job, model).spec.model
    assert isinstance(made, Phases)
    first, second, third, fourth = made.phases
    assert first.aim(5) == (1, None)  # nothing before the first
    assert [second.aim(n) for n in range(2, 9)] == [(n, n) for n in (6, 7, 8, 8, 8, 8, 8)]
    assert [third.aim(n) for n in range(2, 9)] == [(n, n) for n in (2, 2, 2, 2, 2, 3, 4)]
    assert fourth == second
    assert made.time(3) == 40.0


@pytest.mark.parametrize("kind", ["evolving", "adaptive"])
def test_they_get_what_they_ask_for(tmp_path: Path, kind: str) -> None:
    model = {"phases": [{"iterations": 4, "evolving_request": REQUEST, "tasks": [TASK]}]}
    path = written(tmp_path, MALLEABLE | {"type": kind, "num_nodes_max": 8, "submit_time": 0}, model=model)
    result = simulated(path, "fcfs")
    assert result.jobs["class"] == [kind if kind == "evolving" else "malleable"]
    assert result.jobs["sizes"] == ["0:8;2:4;4:8"]  # iterations of 1 s on 8 nodes, 2 s on 4
    assert result.metrics["makespan_s"] == 1.0 + 1.0 + 2.0 + 1.0


def test_an_adaptive_job_asks_once_and_is_resized_by_the_scheduler(tmp_path: Path) -> None:
    model = {"phases": [{"iterations": 3, "evolving_request": "2", "tasks": [TASK]}]}
    first = {"num_nodes_max": 8, "submit_time": 0}
    adaptive, evolving = (MALLEABLE | first | {"type": kind} for kind in ("adaptive", "evolving"))
    asked = simulated(written(tmp_path, evolving, model=model), "malleable")
    assert asked.jobs["sizes"] == ["0:8;1:2"]
    grown = simulated(written(tmp_path, adaptive, model=model), "malleable")
    assert grown.jobs["nodes_mean"][0] > asked.jobs["nodes_mean"][0]
    assert grown.jobs["shrinks"] == [2]


def test_what_a_job_does_at_a_resize(tmp_path: Path) -> None:
    model = {
        "on_init": {"tasks": [{"type": "idle", "delay": 3}]},
        "on_reconfiguration": {"iterations": 2, "tasks": [{"type": "idle", "delay": "40 / num_nodes"}]},
        "on_expansion": {"tasks": [{"type": "idle", "delay": "num_nodes"}]},
        "phases": [{"iterations": 3, "evolving_request": REQUEST, "tasks": [TASK]}],
    }
    path = written(
        tmp_path, MALLEABLE | {"type": "evolving", "num_nodes_max": 8, "submit_time": 0}, model=model
    )
    [job] = read_elastisim(path, SPEEDS).jobs
    assert job.adapting is not None
    assert job.adapting.still_s(8, 4) == pytest.approx(2 * 10)
    assert job.adapting.still_s(4, 8) == pytest.approx(2 * 5 + 4)
    assert job.adapting.longest_s(job.spec.nodes) >= 2 * 20 + 6
    model["phases"][0]["evolving_request"] = "phase_iteration == 1 ? 4 : 8"  # type: ignore[index]
    path = written(
        tmp_path, MALLEABLE | {"type": "evolving", "num_nodes_max": 8, "submit_time": 0}, model=model
    )
    result = simulated(path, "fcfs")
    # Until the resize of 20 s is done, the iteration on 8 nodes that asked for it waits; 2 s on 4 nodes follow.
    assert result.jobs["sizes"] == ["0:8;24:4;40:8"]
    assert result.metrics["makespan_s"] == pytest.approx(3 + 1 + 20 + 2 + 14 + 1)
    model.pop("on_reconfiguration")
    model.pop("on_expansion")
    assert read_single_job(tmp_path, MALLEABLE, model).adapting is None


def test_a_resize_that_takes_long_is_not_called_off(tmp_path: Path) -> None:
    model = {
        "on_reconfiguration": {"tasks": [{"type": "idle", "delay": 500}]},
        "phases": [{"iterations": 2, "evolving_request": "4", "tasks": [TASK]}],
    }
    path = written(
        tmp_path, MALLEABLE | {"type": "evolving", "num_nodes_max": 8, "submit_time": 0}, model=model
    )
    assert simulated(path, "fcfs").jobs["sizes"] == ["0:8;501:4"]


@given(
    st.lists(st.fixed_dictionaries({n: st.integers(1, 8) for n in range(1, 9)}), min_size=1, max_size=6),
    st.booleans(),
)
def test_phases_follow_what_they_ask_for(tables: list[dict[int, int]], adaptive: bool) -> None:  # noqa: FBT001
    """A job that has the machine for itself has in each phase the size that the phase asks for by the one before."""
    phases = tuple(Phase(Table({n: 10.0 + n * n % 7 for n in range(1, 9)}), asks=table) for table in tables)
    spec = JobSpec(
        name="a",
        nodes=Bounds(1, 8, preferred=8),
        job_class=JobClass.MALLEABLE if adaptive else JobClass.EVOLVING,
        model=Phases(phases),
    )
    ends: list[float] = []

    def sink(record: r.Record) -> None:
        if isinstance(record, r.JobEnded):
            ends.append(record.at)

    run_simulation([SimJob(spec)], 8, Fcfs(), Conditions(Settings(cost=INSTANT, cooldown_s=0.0)), sink)
    size, wanted = 8, 0.0
    for phase in phases:
        size = phase.aim(size)[0]
        wanted += phase.time(size)
    assert ends == [pytest.approx(wanted)]


def test_moldable_and_rigid_jobs_do_nothing_at_a_resize(tmp_path: Path) -> None:
    model = {"on_reconfiguration": {"tasks": [WAIT]}, "phases": [{"tasks": [WAIT]}]}
    assert read_single_job(tmp_path, RIGID, model).adapting is None
    assert read_single_job(tmp_path, MALLEABLE | {"type": "moldable"}, model).adapting is None


# ---- what is not simulated ----


MANY: dict[str, Any] = {
    "phases": [
        {
            "barrier": False,
            "colour": "red",
            "tasks": [
                WAIT,
                {"type": "cpu", "bytes": 1e6, "communication_pattern": "ring", "colour": "red"},
                {"type": "pfs_write", "bytes": 1e6, "pattern": "all_ranks"},
                {"type": "bb_read", "bytes": 1e6, "pattern": "uniform"},
                {"type": "gpu", "flops": 1e9, "computation_pattern": "all_ranks"},
                {"type": "quantum"},
            ],
        }
    ]
}
LIST = """\
  'deadline' of a job (1 job, first 1): it is not looked at
  the attribute 'dependency' (1 job, first 1): no policy looks at it
  a priority that is no whole number (1 job, first 1): it is 0
  'colour' of a phase (3 jobs, first 1): it is not looked at
  phases without barrier (3 jobs, first 1): nodes wait for each other after each
  'colour' of a task of type cpu (3 jobs, first 1): it is not looked at
  communication on links of unknown speed (--link, --platform) (3 jobs, first 1): they take no time
  pfs_write tasks on a file system of unknown speed (--pfs-write, --platform) (3 jobs, first 1): they take no time
  bb_read tasks without burst buffers (node_local_bb in --platform) (3 jobs, first 1): they take no time
  gpu tasks of jobs that have no GPUs (3 jobs, first 1): they take no time
  tasks of type 'quantum' (3 jobs, first 1): they take no time
  a choice of GPUs on a node (1 job, first big): each job has the most
  scheduling points of malleable and adaptive jobs (1 job, first big): they may be resized at any time
  time limits of jobs that are not rigid (1 job, first big): they are estimates, and end no job
  jobs of type 'elastic' (1 job, first 3): they are left out"""


def test_what_does_not_map_is_one_list(tmp_path: Path) -> None:
    odd = RIGID | {"deadline": 2, "attributes": {"dependency": "x", "priority": "high"}}
    other = MALLEABLE | {"walltime": 50, "num_gpus_per_node_min": 0, "num_gpus_per_node_max": 0.5}
    path = written(tmp_path, odd, other, {"type": "elastic"}, RIGID, model=MANY)
    other["num_gpus_per_node_min"], other["num_gpus_per_node_max"] = 0, 1
    rows = read_elastisim(path, SPEEDS).unmapped
    assert "\n".join(f"  {row.says()}" for row in rows) == LIST.replace(
        "  a choice of GPUs on a node (1 job, first big): each job has the most\n", ""
    )
    figures = run_of(command("simulate", str(path), "--nodes", "16", "--json"))
    assert figures["jobs"] == 3
    assert figures["unmapped"][0] == {
        "what": "'deadline' of a job", "instead": "it is not looked at", "jobs": 1, "first": "1",
    }  # fmt: skip
    with pytest.raises(
        TraceError, match="14 things are not simulated as it is meant:\n  'deadline' of a job"
    ):
        command("simulate", str(path), "--nodes", "16", "--strict")
    with pytest.warns(UserWarning, match=r"(?s)'quantum' \(3 jobs.*\nstrict=True refuses them"):
        simulate(path, nodes=16)


def test_a_choice_of_gpus(tmp_path: Path) -> None:
    choice = MALLEABLE | {"num_gpus_per_node_min": 1, "num_gpus_per_node_max": 2}
    assert "a choice of GPUs on a node" in [row.what for row in read(tmp_path, choice).unmapped]


def test_a_job_that_maps_is_no_news(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, RIGID)
    assert read_elastisim(path, SPEEDS).unmapped == ()
    options = ("--nodes", "16", "--node-flops", "1e9")
    assert run_of(command("simulate", str(path), *options, "--strict", "--json"))["unmapped"] == []


def test_nothing_maps(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError, match=r"none of its jobs \(1\) can be simulated:\n  cpu tasks .*--node-flops"
    ):
        read_elastisim(
            written(tmp_path, RIGID, model={"phases": [{"tasks": [TASK]}]}),
        )


def test_a_report_says_what_does_not_map(tmp_path: Path) -> None:
    path = written(tmp_path, MALLEABLE)
    command(
        "simulate", str(path), "--nodes", "16", "--node-flops", "1e9", "--report", str(tmp_path / "report.html")
    )  # fmt: skip
    assert "scheduling points of malleable and adaptive jobs" in (tmp_path / "report.html").read_text()


def test_jobs_are_simulated(tmp_path: Path) -> None:
    path = written(tmp_path, RIGID, MALLEABLE)
    figures = run_of(command("simulate", str(path), "--nodes", "16", "--node-flops", "1e9", "--json"))
    assert (figures["jobs"], figures["failed"]) == (2, 0)
    with pytest.raises(BatchError, match="give --nodes, or --platform"):
        command("simulate", str(path), "--node-flops", "1e9")


def test_speeds_are_for_elastisims_jobs() -> None:
    for option, value in (("--node-flops", "1e9"), ("--platform", "p.xml"), ("--link", "5")):
        with pytest.raises(BatchError, match="are for ElastiSim's jobs"):
            command("simulate", "lublin:5", option, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_nodes": None}, r"job 1: num_nodes: missing"),
        ({"num_nodes": 0}, r"job 1: num_nodes: min is 0"),
        ({"submit_time": -1}, r"job 1: submit_time: expected a number"),
        ({"application_model": "b.json"}, r"application model b\.json is not there"),
        ({"arguments": {"rounds": 2}}, r"job 1: .*a\.json: phase 1: task 1: flops: 'load' is no argument"),
        (
            {"arguments": {"rounds": 0, "load": 1}},
            r"jobs that take no time \(1 job, first 1\): they are left out",
        ),
        ({"arguments": {"rounds": "x(", "load": 1}}, r"phase 1: iterations: 'rounds' is no argument"),
        ({"arguments": {"rounds": True}}, r"job 1: arguments: rounds: True is no number"),
        ({"attributes": 5}, r"job 1: attributes: expected an object"),
        ({"num_gpus_per_node": -1}, r"job 1: num_gpus_per_node: expected a number"),
        ({"num_gpus_per_node": 10**200}, r"job 1: num_gpus_per_node: 1e\+200 are too many"),
        ({"num_nodes": 10**400}, r"job 1: num_nodes: 1\S*000,… nodes are too many; the most is 1,048,576"),
        (
            {"submit_time": 10**400},
            r"job 1: submit_time: expected a number, 0 or more and below 1e\+300, got 10*…",
        ),
        ({"walltime": 1e300}, r"job 1: walltime: expected a number, 0 or more and below 1e\+300"),
        ({"arguments": {"rounds": 10**400}}, r"job 1: arguments: rounds: 10*… is no number below 1e\+300"),
        ({"arguments": {"rounds": 1e20, "load": 1}}, r"phase 1: iterations: 1e\+20 are too many"),
        ({"application_model": 5000 * "x"}, r"application model x{59}… is not there"),
    ],
)
def test_jobs_that_cannot_be_read(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=rf"(?s)jobs\.json: .*{message}"):
        read(tmp_path, RIGID | change)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"phases": []}, "there are no phases"),
        (
            {"phases": [{"tasks": [{"type": "pfs_read", "bytes": 1}]}]},
            "phase 1: task 1: pattern: None is none of",
        ),
        ({"phases": [{"tasks": [{"type": "cpu"}]}]}, "neither flops nor bytes"),
        ({"phases": [{"tasks": [{"type": "cpu", "flops": 1}]}]}, "computation_pattern: None"),
        ({"phases": [{"tasks": [{"type": "idle"}]}]}, "delay: expected a number"),
        (
            {"phases": [{"tasks": [{"type": "idle", "delay": [1], "pattern": "vector"}]}]},
            "1 numbers for 4 nodes",
        ),
        ({"phases": [{"iterations": "num_nodes", "tasks": []}]}, "'num_nodes' is no argument"),
        ({"phases": ["x"]}, "phase 1: is no phase"),
        ({"phases": [{}]}, "phase 1: tasks: expected a list"),
        ({"phases": [{"tasks": [5]}]}, "phase 1: task 1: is no task"),
        ({"phases": [{"tasks": [WAIT | {"iterations": 1e20}]}]}, r"task 1: iterations: 1e\+20 are too many"),
        ({"phases": [{"tasks": [WAIT | {"delay": 1e299, "iterations": 1e17}]}]}, "task 1: it takes inf s"),
        (
            {"phases": [{"iterations": 1e17, "tasks": [WAIT | {"delay": 1e299}]}]},
            "it takes inf s; give it less",
        ),
        (
            {"phases": [{"tasks": [WAIT]}], "on_init": "x"},
            "on_init: expected a phase or a list of tasks, got 'x'",
        ),
    ],
)
def test_application_models_that_cannot_be_read(tmp_path: Path, model: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read(tmp_path, RIGID, model=model)


@pytest.mark.parametrize(
    ("request_", "message"),
    [("2 +", "no arithmetic"), ("y", "'y' is no argument"), ("1/0", "cannot be computed")],
)
def test_requests_that_cannot_be_read(tmp_path: Path, request_: str, message: str) -> None:
    model = {"phases": [{"iterations": 2, "evolving_request": request_, "tasks": [WAIT]}]}
    with pytest.raises(TraceError, match=rf"phase 1: evolving_request: .*{message}"):
        read(tmp_path, MALLEABLE | {"type": "evolving"}, model=model)


@pytest.mark.parametrize("request_", ["4", "num_nodes + 1"])
def test_what_evolving_jobs_cannot_do(tmp_path: Path, request_: str) -> None:
    job = MALLEABLE | {"type": "evolving"}
    phase = {"iterations": 1e17, "evolving_request": request_, "tasks": [WAIT | {"delay": 1e299}]}
    with pytest.raises(TraceError, match="phase 1: evolving_request: it takes inf s; give it less"):
        read(tmp_path, job, model={"phases": [phase]})
    with pytest.raises(TraceError, match="on_reconfiguration: expected a phase or a list of tasks, got 5"):
        read(tmp_path, job, model={"phases": [{"tasks": [WAIT]}], "on_reconfiguration": 5})


@pytest.mark.parametrize("kind", ["rigid", "evolving"])
def test_what_goes_before_phases_that_are_none_remains(tmp_path: Path, kind: str) -> None:
    model = {"on_init": [WAIT], "phases": [{"iterations": 0, "tasks": [WAIT]}]}
    job = read_single_job(tmp_path, (RIGID if kind == "rigid" else MALLEABLE) | {"type": kind}, model)
    assert job.time(4) == 10.0


def test_lists_are_for_rigid_jobs(tmp_path: Path) -> None:
    model = {"phases": [{"tasks": [{"type": "idle", "delay": [1, 2, 3, 4], "pattern": "vector"}]}]}
    assert read_single_job(tmp_path, RIGID, model).time(4) == 4.0
    with pytest.raises(TraceError, match="only a rigid job can list"):
        read(tmp_path, MALLEABLE, model=model)


def test_files_that_are_not_elastisims(tmp_path: Path) -> None:
    path = written(tmp_path, RIGID)
    path.write_text('{\n"jobs": [}')
    with pytest.raises(TraceError, match=r"jobs\.json:2: is no JSON"):
        read_elastisim(path)
    path.write_text("[]")
    with pytest.raises(TraceError, match="there are no jobs"):
        read_elastisim(path)
    path.write_text(100_000 * "[")
    with pytest.raises(TraceError, match=r"jobs\.json: cannot be read: it is nested too deeply"):
        read_elastisim(path)
    path.write_text(5_000 * "9")
    with pytest.raises(TraceError, match=r"jobs\.json: cannot be read: a number in it has too many digits"):
        read_elastisim(path)
    with pytest.raises(TraceError, match="cannot be read"):
        read_elastisim(tmp_path / "none.json")


@pytest.mark.parametrize("jobs", [None, 5, "x", [5]])
def test_jobs_that_are_none_name_no_files(tmp_path: Path, jobs: object) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"jobs": jobs}))
    assert named_files(path) == []
    with pytest.raises(TraceError, match=r"jobs\.json: (there are no jobs|job 1: is no job)"):
        command("simulate", str(path))


# ---- a configuration, and its platform ----

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="all" routing="Full">
    <host id="head" speed="0Gf"><prop id="batch_system" value="true"/></host>
    <cluster id="nodes" prefix="n" radical="0-5,8,10-10" suffix="" speed="2Gf" bw="8Gbps" lat="10us">
      <prop id="pfs_targets" value="disk"/><prop id="node_local_bb" value="true"/>
      <prop id="bb_read_bw" value="4GBps"/><prop id="bb_write_bw" value="2e3MBps"/>
      <prop id="num_gpus" value="4"/><prop id="flops_per_gpu" value="10Gf"/>
      <prop id="gpu_to_gpu_bw" value="50GBps"/>
    </cluster>
    <zone id="storage" routing="Full">
      <host id="disk" speed="0Gf"><prop id="pfs_host" value="true"/></host>
    </zone>
    <link id="in" bandwidth="1GiBps" latency="0.5ms"/><link id="out" bandwidth="500MBps" latency="100us"/>
    <zoneRoute src="storage" dst="nodes" gw_src="disk" gw_dst="r" symmetrical="NO"><link_ctn id="in"/></zoneRoute>
    <zoneRoute src="nodes" dst="storage" gw_src="r" gw_dst="disk" symmetrical="NO"><link_ctn id="out"/></zoneRoute>
  </zone>
</platform>
"""


def platform(folder: Path, text: str = PLATFORM) -> Platform:
    (folder / "p.xml").write_text(text)
    return read_platform(folder / "p.xml")


def test_a_platform(tmp_path: Path) -> None:
    made = platform(tmp_path)
    assert made == Platform(
        nodes=8,
        node_flops=2e9,
        link=Route(1e9, 10e-6),
        storage=Storage(Route(2.0**30, 0.0005), Route(5e8, 100e-6)),
        gpus=4,
        gpu_flops=1e10,
        gpu_link=5e10,
        buffer=(4e9, 2e9),
    )
    of = Speeds(node_flops=5.0, pfs_write=7.0, link=9.0).of(made)
    assert (of.node_flops, of.storage.read, of.storage.write, of.link) == (
        5.0, Route(2.0**30, 0.0005), Route(7.0, 100e-6), Route(9.0, 10e-6),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('lat="10us"', 'lat="10us" topology="TORUS"', "platform: the topology TORUS"),
        ('value="disk"', 'value="disk;tape"', "platform: pfs_targets"),
        ('"node_local_bb" value="true"/>', '"node_local_bb" value="true"/><prop id="wide_striping" value="true"/>',
         "platform: wide_striping"),
        ('<host id="head"', '<host id="odd" speed="1Gf"/><host id="head"', "platform: hosts that differ"),
        ('latency="100us"', 'latency="100us" bandwidth_file="b"', "platform: profiles of availability or speed"),
    ],
)  # fmt: skip
def test_what_of_a_platform_is_not_simulated(tmp_path: Path, old: str, new: str, what: str) -> None:
    assert old in PLATFORM
    assert [row.what for row in platform(tmp_path, PLATFORM.replace(old, new)).unmapped] == [what]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<platform", "<platform <", "is no XML"),
        (
            "<?xml version='1.0'?>",
            "<?xml version='1.0' encoding='foo'?>",
            "unknown encoding: foo; write it in UTF-8",
        ),
        (
            "<?xml version='1.0'?>",
            "<?xml version='1.0' encoding='shift_jis'?>",
            "multi-byte .*; write it in UTF-8",
        ),
        (
            '<zone id="all"',
            5000 * "<zone>" + 5000 * "</zone>" + '<zone id="all"',
            "its zones are nested too deeply",
        ),
        ('speed="2Gf"', 'speed="2Gb"', "nodes: speed: '2Gb' is not understood"),
        ('speed="2Gf"', 'speed="1.2.3Gf"', "nodes: speed: '1.2.3Gf' is not understood"),
        ('bw="8Gbps"', 'bw="fast"', "nodes: bw: 'fast'"),
        ('bw="8Gbps"', 'bw="0Gbps"', "nodes: bw: '0Gbps' is nothing; it must be above 0"),
        ('radical="0-5,8,10-10"', 'radical="5-0"', "radical: '5-0'"),
        ('radical="0-5,8,10-10"', f'radical="0-{5000 * "9"}"', "radical: '0-9*…' is not understood"),
        ('<link_ctn id="in"/>', '<link_ctn id="on"/>', "names the link on, which is not there"),
        ('"bb_read_bw" value="4GBps"', '"bb_read" value="4GBps"', "bb_read_bw: ''"),
    ],
)
def test_platforms_that_cannot_be_read(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(TraceError, match=rf"p\.xml: .*{message}"):
        platform(tmp_path, PLATFORM.replace(old, new, 1))


def test_hosts_of_their_own_and_several_of_the_file_system(tmp_path: Path) -> None:
    text = """<platform version="4.1"><AS id="all">
      <host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>
      <AS id="s"><host id="d1"><prop id="pfs_host" value="true"/></host>
        <host id="d2"><prop id="pfs_host" value="true"/></host></AS>
      <AS id="t"><host id="d3"><prop id="pfs_host" value="true"/></host></AS>
      <link id="l" bandwidth="10MBps" latency="1"/><link id="m" bandwidth="6MBps"/>
      <ASroute src="s" dst="all"><link_ctn id="l"/></ASroute><ASroute src="t" dst="all"><link_ctn id="m"/></ASroute>
      </AS></platform>"""
    made = platform(tmp_path, text)
    # Two of three shares pass l, at 10 MB/s, and one m, at 6.
    assert made.storage == Storage(Route(15e6, 1.0), Route(15e6, 1.0), 3)
    assert (made.nodes, made.link) == (2, None)
    assert [row.what for row in made.unmapped] == ["platform: links of hosts that are in no cluster"]
    with pytest.raises(TraceError, match="is no platform of SimGrid, but <plan>"):
        platform(tmp_path, "<plan/>")
    with pytest.raises(TraceError, match="no hosts that compute"):
        platform(tmp_path, "<platform/>")
    with pytest.raises(TraceError, match="cannot be read"):
        read_platform(tmp_path / "q.xml")


def test_a_file_system_that_only_the_user_knows(tmp_path: Path) -> None:
    made = platform(
        tmp_path, '<platform><cluster id="n" radical="0-7" speed="1Gf" bw="8Gbps" lat="0s"/></platform>'
    )
    assert made.storage == Storage()
    model = {"phases": [{"tasks": [{"type": "pfs_read", "bytes": 5e9, "pattern": "all_ranks"}]}]}
    path = written(tmp_path, RIGID, model=model)
    [job] = read_elastisim(path, Speeds(str(tmp_path / "p.xml"), pfs_read=1e9)).jobs
    assert job.time(4) == 5.0


def test_a_configuration_names_both(tmp_path: Path) -> None:
    platform(tmp_path)
    written(tmp_path, RIGID)
    says: dict[str, Any] = {"jobs_file": "jobs.json", "platform_file": "p.xml", "zmq_url": "ipc:///x"}
    (tmp_path / "c.json").write_text(json.dumps(says))
    figures = run_of(command("simulate", str(tmp_path / "c.json"), "--json"))
    assert figures["makespan_s"] == pytest.approx(2 * (8 / 4 / 2 + 3))
    (tmp_path / "c.json").write_text(
        json.dumps(says | {"allow_oversubscription": True, "scheduling_interval": 5})
    )
    made = read_elastisim(tmp_path / "c.json")
    assert made.nodes == 8
    assert [row.what for row in made.unmapped] == [
        "allow_oversubscription true of the configuration", "scheduling_interval 5 of the configuration",
    ]  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(says | {"platform_file": "q.xml"}))
    with pytest.raises(TraceError, match=r"c\.json: the platform q\.xml is not there"):
        read_elastisim(tmp_path / "c.json")


# ---- tasks ----

MACHINE = Platform(
    8,
    1e9,
    Route(1e6),
    storage=Storage(Route(8e6), Route(2e6)),
    gpus=4,
    gpu_flops=1e9,
    gpu_link=1e6,
    buffer=(4e6, 1e6),
)


def seconds(task: dict[str, Any], nodes: int = 4, on: Platform = MACHINE, gpus: int = 0) -> float:
    found: list[str] = []
    machine = ElastisimMachine(on, lambda what, _: found.append(what), gpus, fixed=True)
    known = {"num_nodes": float(nodes), "num_gpus_per_node": float(gpus)}
    took = tasks_s([task], "here", known, machine)
    assert not found
    return took


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("uniform", 6.0),
        ("all_ranks", 2.0),
        ("total", 2.0),
        ("root_only", 6.0),
        ("even_ranks", 3.0),
        ("ODD_RANKS", 6.0),
    ],
)
def test_computing(pattern: str, wanted: float) -> None:
    assert seconds({"type": "cpu", "flops": 6e9, "computation_pattern": pattern}, 3) == wanted


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("all_to_all", 3.0), ("gather", 9.0), ("scatter", 9.0), ("master_worker", 24.0), ("ring", 3.0),
        ("ring_clockwise", 3.0), ("ring_counter_clockwise", 3.0),
    ],
)  # fmt: skip
def test_communicating(pattern: str, wanted: float) -> None:
    task = {"type": "cpu", "bytes": 12e6, "communication_pattern": pattern}
    assert seconds(task) == pytest.approx(wanted)
    assert seconds(task, 1) == 0.0
    shared = MACHINE._replace(duplex=False)
    assert seconds(task, on=shared) == pytest.approx(wanted * (1 if pattern in ("gather", "scatter") else 2))


def test_a_matrix_of_bytes() -> None:
    task = {"type": "cpu", "bytes": [5e9, 1e6, 3e6, 0], "communication_pattern": "matrix"}
    assert seconds(task, 2) == 3.0


@given(st.sampled_from(FLOWS[:-1]), st.integers(2, 12), st.floats(1.0, 1e9))
def test_patterns_are_as_their_matrices(pattern: str, nodes: int, size: float) -> None:
    """What a pattern takes is what the matrix takes that says who sends what, as ElastiSim makes it."""
    matrix = [[0.0] * nodes for _ in range(nodes)]
    for i in range(nodes):
        match pattern:
            case "all_to_all":
                for j in set(range(nodes)) - {i}:
                    matrix[i][j] = size / (nodes * (nodes - 1))
            case "gather" | "scatter" if i:
                row, column = (i, 0) if pattern == "gather" else (0, i)
                matrix[row][column] = size / nodes
            case "master_worker" if i:
                matrix[i][0] = matrix[0][i] = size / ((nodes - 1) / 2)
            case "ring":
                matrix[i][(i + 1) % nodes] += size / (2 * nodes)
                matrix[i][(i - 1) % nodes] += size / (2 * nodes)
            case "ring_clockwise" | "ring_counter_clockwise":
                matrix[i][(i + (1 if pattern == "ring_clockwise" else -1)) % nodes] = size / nodes
    flat = [each for row in matrix for each in row]
    for on in (
        MACHINE, MACHINE._replace(duplex=False), MACHINE._replace(link=Route(1e6, 3.0)), MACHINE._replace(backbone=Route(9e5, 1.0)),
    ):  # fmt: skip
        took = seconds({"type": "cpu", "bytes": size, "communication_pattern": pattern}, nodes, on)
        same = seconds({"type": "cpu", "bytes": flat, "communication_pattern": "matrix"}, nodes, on)
        assert took == pytest.approx(same)


def test_latency_and_the_window_of_a_flow() -> None:
    slow = MACHINE._replace(link=Route(1e9, 0.25))
    task = {"type": "cpu", "bytes": 4 * 4194304.0, "communication_pattern": "ring_clockwise"}
    assert seconds(task, on=slow) == pytest.approx(
        0.5 + 1.0
    )  # 4 MiB each, of which 4 MiB are on their way at once
    coupled = task | {"flops": 5e9, "computation_pattern": "uniform", "coupled": True}
    assert seconds(coupled, on=slow) == pytest.approx(0.5 + 5.0)
    assert seconds(coupled | {"coupled": False}, on=slow) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("kind", "pattern", "wanted"),
    [
        ("pfs_read", "all_ranks", 6.0), ("pfs_read", "root_only", 24.0), ("pfs_write", "all_ranks", 12.0),
        ("pfs_write", "uniform", 48.0), ("bb_read", "all_ranks", 1.5), ("bb_write", "root_only", 24.0),
    ],
)  # fmt: skip
def test_storing(kind: str, pattern: str, wanted: float) -> None:
    assert seconds({"type": kind, "bytes": 24e6, "pattern": pattern}) == pytest.approx(wanted)
    no_link = MACHINE._replace(link=None)
    if kind == "pfs_read":
        assert seconds({"type": kind, "bytes": 24e6, "pattern": pattern}, on=no_link) == pytest.approx(3.0)


def test_a_file_system_of_several_hosts_and_its_latency() -> None:
    far = MACHINE._replace(link=None, storage=Storage(Route(1e9, 2.0), None, 2))
    task = {"type": "pfs_read", "bytes": 4194304.0, "pattern": "root_only"}
    assert seconds(task, on=far) == pytest.approx(2.0 + 2.0 * 2.0 / 2)


def test_asynchronous_tasks_go_on_beside_others() -> None:
    machine = ElastisimMachine(MACHINE, lambda *_: None)
    write = {"type": "pfs_write", "bytes": 24e6, "pattern": "all_ranks", "async": True}
    for wait, wanted in ((5, 2 + 12.0), (50, 2 + 50.0)):
        tasks = [{"type": "idle", "delay": 2}, write, {"type": "idle", "delay": wait}]
        assert tasks_s(tasks, "here", {"num_nodes": 4.0}, machine) == wanted


@pytest.mark.parametrize(
    ("pattern", "gpus", "nodes", "wanted"),
    [
        ("all_to_all", 2, 1, 12.0), ("all_to_all", 2, 2, 4.0), ("all_to_all", 1, 2, 6.0), ("ring", 4, 1, 3.0),
        ("ring", 2, 1, 12.0), ("ring_clockwise", 4, 2, 1.5), ("gather", 1, 4, 9.0),
    ],
)  # fmt: skip
def test_gpus(pattern: str, gpus: int, nodes: int, wanted: float) -> None:
    task = {
        "type": "gpu",
        "flops": 1e6,
        "computation_pattern": "all_ranks",
        "bytes": 12e6,
        "communication_pattern": pattern,
    }
    assert seconds(task, nodes, gpus=gpus) == pytest.approx(wanted)
    only_flops = {"type": "gpu", "flops": 12e9, "computation_pattern": "all_ranks"}
    assert seconds(only_flops, nodes, gpus=gpus) == pytest.approx(12.0 / nodes / gpus)

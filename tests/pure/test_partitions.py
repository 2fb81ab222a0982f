"""Partitions: what their file says, and that the jobs of one never see those of another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pytest
from audits import audit
from commands import command, simulated
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from msgspec import UNSET
from workloads import NODES, rigid, upper_bound_jobs

import pliant
from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.settings import Settings
from pliant.model.errors import BatchError, PolicyError, TraceError
from pliant.model.jobs import JobSpec
from pliant.model.speedup import Amdahl, Model, Phase, Phases, Table, scaled
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.easy import Easy
from pliant.policy.fcfs import Fcfs
from pliant.policy.registry import POLICIES, make
from pliant.policy.view import ClusterView, Decision, Policy
from pliant.sim.beside import PartSimulation, SimulatorsBeside
from pliant.sim.instant import Instant
from pliant.sim.simulator import PLAIN, Conditions, SimEnd, simulate
from pliant.workloads.failures import Down, Failures, read_failures
from pliant.workloads.formats.swf import read_swf
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import make_malleable
from pliant.workloads.partitions import Partition, Partitions, at_speed, read_partitions

TWO = """
[[partition]]
name = "main"
nodes = 4
[[partition]]
name = "fast"
nodes = 2
speed = 2
max_time = 60
swf_queue = [2, 7]
"""


def follow(job: SimJob, after: str, think_s: float = 0.0) -> SimJob:
    return msgspec.structs.replace(job, after=after, think_s=think_s)


# ---- the file ------------------------------------------------------------------------------------------


def test_a_file_of_partitions(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(TWO)
    assert read_partitions(tmp_path / "p.toml") == Partitions(
        (Partition("main", 4), Partition("fast", 2, 2.0, 60.0, (2, 7))), "swf_queue"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there are no partitions; add at least one"),
        ("partition = 3", "3 is no list of partitions"),
        ("[[partitions]]\nname = 'a'", "unknown key 'partitions'; did you mean 'partition'?"),
        ("[[partition]]\nname = 'a'\nnods = 2", "partition 'a': unknown key 'nods'; did you mean 'nodes'?"),
        ("[[partition]]\nnodes = 2", "partition 1: name: give it one"),
        ("[[partition]]\nname = 3", "partition 1: name: expected a text"),
        ("[[partition]]\nname = ' '\nnodes = 2", "partition ' ': name: give it one"),
        ("[[partition]]\nname = 'a'", "partition 'a': nodes: missing"),
        (
            "[[partition]]\nname = 'a'\nnodes = 0",
            "partition 'a': nodes: expected a whole number of 1 or more",
        ),
        ("[[partition]]\nname = 'a'\nnodes = 99999999", "too many"),
        ("[[partition]]\nname = 'a'\nnodes = 2\nspeed = 0", "partition 'a': speed: 0; it must be above 0"),
        ("[[partition]]\nname = 'a'\nnodes = 2\nspeed = nan", "speed: expected"),
        ("[[partition]]\nname = 'a'\nnodes = 2\nmax_time = 0", "max_time: it must be above 0"),
        ("[[partition]]\nname = 'a'\nnodes = 2\nmax_time = '1h'", "max_time: expected seconds"),
        ("[[partition]]\nname = 'a'\nnodes = 2\nswf_queue = ['x']", "swf_queue: 'x' is no number"),
        ("[[partition]]\nname = 'a'\nnodes = 2\n[[partition]]\nname = 'a'\nnodes = 1", "names must differ"),
        (
            "[[partition]]\nname='a'\nnodes=2\nswf_queue=1\n[[partition]]\nname='b'\nnodes=1\nswf_queue=[0,1]",
            "partition 'b': swf_queue: 1 is also that of partition 'a'",
        ),
        (
            "[[partition]]\nname='a'\nnodes=2\nswf_queue=1\n[[partition]]\nname='b'\nnodes=1\nswf_partition=2",
            "swf_queue and swf_partition: tell the jobs of a trace apart by one of them",
        ),
        (
            "[[partition]]\nname='a'\nnodes=1048576\n[[partition]]\nname='b'\nnodes=1",
            "1,048,577 nodes are too",
        ),
        ("[[partition", "is no TOML"),
    ],
)
def test_mistakes_in_the_file_are_named(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(BatchError, match=r"partitions: .*p\.toml: ") as error:
        read_partitions(path)
    assert told in str(error.value)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BatchError, match="cannot be read"):
        read_partitions(tmp_path / "p.toml")
    (tmp_path / "p.toml").write_bytes(b"\xff")
    with pytest.raises(BatchError, match="no text in UTF-8"):
        read_partitions(tmp_path / "p.toml")


# ---- independence --------------------------------------------------------------------------------------

AT_ONCE = Conditions(Settings(cost=INSTANT))
Times = dict[str, list[tuple[str, float, int]]]


def lives(records: Iterable[r.Record]) -> Times:
    """What became of each job, by name: starts, sizes and ends, with their times."""
    names: dict[int, str] = {}
    found: Times = {}
    for record in records:
        match record:
            case r.JobSubmitted(job=job, spec=spec):
                names[job] = spec.name
                found.setdefault(spec.name, []).append(("submitted", record.at, 0))
            case r.JobStarted(job=job, nodes=nodes):
                found[names[job]].append(("started", record.at, len(nodes)))
            case r.ResizeOffered(job=job, after=after):
                found[names[job]].append(("offered", record.at, after))
            case r.ResizeDone(job=job):
                found[names[job]].append(("resized", record.at, 0))
            case r.JobEnded(job=job, exit_code=code):
                found[names[job]].append(("ended", record.at, code))
            case _:
                pass
    return found


class Setting(msgspec.Struct, frozen=True):
    policy: str
    conditions: Conditions


@st.composite
def some_settings(draw: st.DrawFn) -> Setting:
    cost = draw(st.sampled_from([INSTANT, ResizeCost()]))
    return Setting(
        draw(st.sampled_from(sorted(POLICIES))),
        Conditions(
            Settings(cost=cost, pass_interval_s=draw(st.sampled_from([0.0, 0.0, 5.0]))),
            starting=draw(st.booleans()),
            instant=draw(st.sampled_from(Instant)),
        ),
    )


@st.composite
def some_jobs(draw: st.DrawFn, name: str) -> list[SimJob]:
    jobs = draw(upper_bound_jobs(moldable=draw(st.booleans())))
    if all(job.spec.nodes.min == job.spec.nodes.max for job in jobs):
        jobs = make_malleable(jobs, draw(st.sampled_from([0, 50, 100])), NODES, 7)
    return [
        msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, name=f"{name}{job.spec.name}"))
        for job in jobs
    ]


def beside(
    parts: Sequence[tuple[Sequence[SimJob], int, Policy]], conditions: Conditions = PLAIN
) -> tuple[list[r.Record], SimEnd]:
    records: list[r.Record] = []
    named = [PartSimulation(f"p{i}", *part, records.append) for i, part in enumerate(parts)]
    return records, SimulatorsBeside(named, conditions).run()


@limits(deadline=None)
@given(setting=some_settings(), jobs=some_jobs("a"), down=st.booleans())
def test_one_partition_of_all_nodes_is_the_machine(
    setting: Setting, jobs: list[SimJob], *, down: bool
) -> None:
    """To the last bit of every record."""
    conditions = setting.conditions
    if down:
        conditions = conditions._replace(failures=Failures(listed=(Down(1, 5.0, 9.0), Down(0, 11.0, 30.0))))
    alone: list[r.Record] = []
    end = simulate(jobs, NODES, make(setting.policy), conditions, alone.append)
    records, ended = beside([(jobs, NODES, make(setting.policy))], conditions)
    assert ended == end
    assert [*map(r.to_line, records)] == [*map(r.to_line, alone)]


@limits(deadline=None)
@given(setting=some_settings(), one=some_jobs("a"), other=some_jobs("b"), down=st.booleans())
def test_each_of_two_partitions_does_what_it_does_alone(
    setting: Setting, one: list[SimJob], other: list[SimJob], *, down: bool
) -> None:
    """Nodes that fail, too: each partition has its own. And what is recorded of both together is sound."""
    conditions = setting.conditions
    downs = (Down(1, 5.0, 9.0), Down(NODES + 2, 7.0, 12.0), Down(NODES, 11.0, 30.0)) if down else ()
    if down:
        conditions = conditions._replace(failures=Failures(listed=downs))
    records, end = beside(
        [(one, NODES, make(setting.policy)), (other, NODES, make(setting.policy))], conditions
    )
    alone: Times = {}
    for first, jobs in ((0, one), (NODES, other)):
        own = tuple(Down(d.node - first, *d[1:]) for d in downs if first <= d.node < first + NODES)
        there = conditions._replace(failures=Failures(listed=own) if down else None)
        mine: list[r.Record] = []
        simulate(jobs, NODES, make(setting.policy), there, mine.append)
        alone |= lives(mine)
    assert lives(records) == alone
    assert end.jobs == len(one) + len(other)
    assert [record.at for record in records] == sorted(record.at for record in records)
    audit(records)
    state = replay(records, conditions.settings)
    assert not state.jobs
    offers = [record.resize for record in records if isinstance(record, r.ResizeOffered)]
    assert len(offers) == len(set(offers))
    for record in records:
        if isinstance(record, r.JobStarted):
            assert all((node < NODES) == (record.job in numbers(records, "a")) for node in record.nodes)


def numbers(records: Iterable[r.Record], name: str) -> set[int]:
    return {
        record.job
        for record in records
        if isinstance(record, r.JobSubmitted) and record.spec.name.startswith(name)
    }


def test_nodes_that_are_drawn_to_fail_are_those_of_the_whole_machine() -> None:
    failures = read_failures("mtbf=1h,repair=1min").seeded(3, 0)
    ours = [outage for outage, _ in zip(failures.outages(2, 4), range(50), strict=False)]
    whole = [outage for outage, _ in zip(failures.outages(6), range(1000), strict=False) if outage.node > 3]
    assert ours == whole[:50]
    with pytest.raises(BatchError, match=r"node 9: there are nodes 0 \.\. 3"):
        beside(
            [([rigid("a", 1, 1.0)], 4, Fcfs())], Conditions(failures=Failures(listed=(Down(9, 1.0, 2.0),)))
        )


def test_jobs_follow_others_of_another_partition() -> None:
    """By hand: b thinks for 3 s after a, which runs from 0 to 10; c begins when b has ended, back where a was."""
    a, b, c = rigid("a", 2, 10.0), rigid("b", 1, 5.0, at=1.0), rigid("c", 2, 1.0, at=2.0)
    records, end = beside([([a, follow(c, "b")], 2, Fcfs()), ([follow(b, "a", 3.0)], 1, Fcfs())], AT_ONCE)
    found = {name: [at for _, at, _ in life] for name, life in lives(records).items()}
    assert found == {"a": [0, 0, 10], "b": [13, 13, 18], "c": [18, 18, 19]}
    assert end.jobs == 3
    assert end.at == 19.0
    with pytest.raises(BatchError, match="job 'b': it is to follow job 'x', which is no job before it"):
        beside([([a], 2, Fcfs()), ([follow(b, "x")], 1, Fcfs())])


def test_nodes_go_on_failing_where_a_job_of_another_partition_is_waited_for() -> None:
    """Else a machine on which nothing happens but failures is given up after 100 of them for each node."""
    long, after = rigid("long", 1, 20_000.0), follow(rigid("after", 1, 1.0, at=1.0), "long")
    times = [120.0 * i for i in range(1, 200)]
    fails = AT_ONCE._replace(failures=Failures(listed=tuple(Down(0, at, at + 60.0) for at in times)))
    records, end = beside([([after], 1, Fcfs()), ([long], 1, Fcfs())], fails)
    assert [record.at for record in records if isinstance(record, r.NodesLost)] == [
        at for at in times if at < 20_000.0
    ]
    assert end.at == 20_001.0


class Idle:
    name = "idle"

    def decide(self, _view: ClusterView) -> list[Decision]:
        return []


def test_a_partition_whose_policy_does_nothing_is_named() -> None:
    with pytest.raises(PolicyError, match=r"partition 'p1': policy 'idle' is stuck at 3\.000 s: 1 job waits"):
        beside([([rigid("a", 1, 9.0)], 2, Fcfs()), ([rigid("b", 1, 5.0, at=3.0)], 1, Idle())])
    drawn = Conditions(failures=read_failures("mtbf=1min,repair=1min").seeded(1, 0))
    with pytest.raises(PolicyError, match="partition 'p1': policy 'idle' is stuck"):
        beside([([rigid("a", 1, 9.0)], 2, Fcfs()), ([rigid("b", 1, 5.0, at=3.0)], 1, Idle())], drawn)


def test_a_job_that_is_too_wide_for_its_partition_is_named() -> None:
    with pytest.raises(BatchError, match="job 'b': nodes: it needs 3 nodes and partition 'p1' has 2"):
        beside([([rigid("a", 1, 9.0)], 4, Fcfs()), ([rigid("b", 3, 5.0)], 2, Fcfs())])
    with pytest.raises(BatchError, match="there are no jobs to simulate"):
        beside([([], 4, Fcfs())])


# ---- speed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [None, Amdahl(30.0, 0.1, 2.0), Table({1: 9.0, 4: 3.0})])
def test_jobs_take_their_time_over_the_speed(model: Model | None) -> None:
    spec = msgspec.structs.replace(rigid("a", 2, 20.0).spec, model=model, walltime_s=30.0)
    job = SimJob(spec, 20.0 if model is None else None)
    (quicker,) = at_speed([job], Partition("p", 4, 4.0))
    for nodes in (1, 2, 4):
        assert quicker.time(nodes) == pytest.approx(job.time(nodes) / 4)
        assert quicker.spec.estimate(nodes) == pytest.approx(job.spec.estimate(nodes) / 4)
    assert at_speed([job], Partition("p", 4)) == [job]


def test_phases_take_their_time_over_the_speed() -> None:
    phases = Phases((Phase(Amdahl(30.0), 0.5), Phase(Amdahl(30.0), 0.5, 2, 2)))
    assert scaled(phases, 0.25).time(2) == pytest.approx(phases.time(2) / 4)


# ---- the command ---------------------------------------------------------------------------------------

TRACE = """; MaxProcs: 6
1 0 -1 100 4 -1 -1 4 100 -1 1 1 -1 -1 1 -1 -1 -1
2 1 -1 40 2 -1 -1 2 60 -1 1 1 -1 -1 2 -1 -1 -1
3 2 -1 10 4 -1 -1 4 10 -1 1 1 -1 -1 -1 -1 -1 -1
4 3 -1 10 1 -1 -1 1 10 -1 1 1 -1 -1 7 -1 -1 -1
5 4 -1 10 3 -1 -1 3 10 -1 1 1 -1 -1 2 -1 -1 -1
6 5 -1 10 1 -1 -1 1 200 -1 1 1 -1 -1 2 -1 -1 -1
"""
"""On main 1 runs from 0 to 100, and 3 from there to 110. On fast, 2 runs from 1 to 21, and 4 after it to 26; 5 is too
wide for it, and 6 too long: 100 s of its 60."""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.swf").write_text(TRACE)
    Path("p.toml").write_text(TWO)


@pytest.mark.usefixtures("there")
def test_where_two_jobs_have_one_number_each_is_in_its_own_partition() -> None:
    Path("t.swf").write_text(re.sub(r"^\d", "1", TRACE, flags=re.MULTILINE))
    command("simulate", "t.swf", "--partitions", "p.toml", "--policy", "easy", "--swf", "s.swf")
    assert [job.partition for job in read_swf(Path("s.swf")).jobs] == [1, 2, 1, 2]


@pytest.mark.usefixtures("there")
def test_a_trace_on_two_partitions() -> None:
    files = (
        "--jobs-csv",
        "jobs.csv",
        "--swf",
        "s.swf",
        "--convert",
        "c.swf",
        "--report",
        "r.html",
        "--records",
    )
    said = command("simulate", "t.swf", "--partitions", "p.toml", "--policy", "easy", *files, "r.ndjson")
    rows = [line.split(",") for line in Path("jobs.csv").read_text().splitlines()]
    where = [rows[0].index(name) for name in ("name", "start_s", "end_s", "partition")]
    assert [[row[i] for i in where] for row in rows[1:]] == [
        ["1", "0.0", "100.0", "main"], ["2", "1.0", "21.0", "fast"], ["3", "100.0", "110.0", "main"],
        ["4", "21.0", "26.0", "fast"],
    ]  # fmt: skip
    assert [job.partition for job in read_swf(Path("s.swf")).jobs] == [1, 2, 1, 2]
    assert [(job.partition, job.run) for job in read_swf(Path("c.swf")).jobs] == [
        (1, 100),
        (2, 20),
        (1, 10),
        (2, 5),
    ]
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert "│ too wide for their partition, left out │ 1 │" in lines
    assert "│ too long for their partition, left out │ 1 │" in lines
    assert "│ partition fast: jobs │ 2 (and 2 left out) │" in lines
    assert "│ nodes, utilisation │ 2, 90.00% │" in lines
    assert "│ mean wait, turnaround │ 9.00, 21.50 s │" in lines
    assert "partition fast of 2 nodes, 2 times as quick, for jobs of at most" in Path("r.html").read_text()
    again = "[[partition]]\nname = 'main'\nnodes = 4\n[[partition]]\nname = 'fast'\nnodes = 2\n"
    Path("again.toml").write_text(again)
    command("simulate", "r.ndjson", "--partitions", "again.toml", "--cost", "none", "--jobs-csv", "again.csv")
    assert Path("again.csv").read_text() == Path("jobs.csv").read_text()
    with pytest.raises(
        BatchError, match=r"r\.ndjson: --partitions: run times of a journal are those on the nodes"
    ):
        command("simulate", "r.ndjson", "--partitions", "p.toml")
    with pytest.raises(
        BatchError, match=r"r\.ndjson: job '1': partition: it is to run in 'main', and there are no"
    ):
        command("simulate", "r.ndjson")


@pytest.mark.usefixtures("there")
def test_the_figures_of_each_partition() -> None:
    figures = simulated("t.swf", "--partitions", "p.toml", "--policy", "easy")
    assert (figures["too_wide"], figures["too_long"], figures["jobs"]) == (1, 1, 4)
    assert figures["capacity_node_s"] == 6 * 110.0
    assert figures["wait_mean_s"] == (0 + 0 + 98 + 18) / 4
    main, fast = figures["partitions"]["main"], figures["partitions"]["fast"]
    assert (main["jobs"], main["wait_mean_s"], main["makespan_s"]) == (2, 49.0, 110.0)
    assert main["utilisation"] == 1.0
    assert (fast["jobs"], fast["wait_mean_s"], fast["makespan_s"]) == (2, 9.0, 25.0)
    assert (fast["too_wide"], fast["too_long"]) == (1, 1)
    assert set(fast) - {"nodes", "too_wide", "too_long"} <= set(figures)


@pytest.mark.usefixtures("there")
def test_a_study_on_partitions() -> None:
    words = ("--partitions", "p.toml", "--policy", "easy,fcfs", "--workers", "1", "--json")
    rows = json.loads(command("simulate", "t.swf", *words))["rows"]
    assert [row["wait_mean_s"]["mean"] for row in rows] == [29.0, 29.0]


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--nodes", "8"), "--nodes 8: the partitions have 6 nodes together, as they share none"),
        (("--strict",), r"t\.swf: job '6': walltime: 100 s are more than partition 'fast' allows"),
        (("--policy", "easy", "--jobs-csv", "p.toml"), r"p\.toml"),
    ],
)
def test_what_does_not_go_with_partitions(words: Sequence[str], told: str) -> None:
    with pytest.raises(BatchError, match=told):
        command("simulate", "t.swf", "--partitions", "p.toml", *words)


@pytest.mark.usefixtures("there")
def test_nodes_may_be_said_as_they_are() -> None:
    command("simulate", "t.swf", "--partitions", "p.toml", "--nodes", "6")
    Path("p.toml").write_text(TWO.replace("max_time = 60", "max_time = 200"))
    with pytest.raises(BatchError, match="job '5': nodes: it needs 3 nodes and partition 'fast' has 2"):
        command("simulate", "t.swf", "--partitions", "p.toml", "--strict")


@pytest.mark.usefixtures("there")
def test_numbers_of_queues_are_for_traces() -> None:
    with pytest.raises(
        BatchError, match="swf_queue changes nothing for lublin:10: only a trace in SWF has such numbers"
    ):
        command("simulate", "lublin:10", "--partitions", "p.toml")


@pytest.mark.usefixtures("there")
def test_where_no_job_fits() -> None:
    Path("p.toml").write_text("[[partition]]\nname = 'a'\nnodes = 6\nmax_time = 1")
    with pytest.raises(TraceError, match=r"each of its jobs \(6\) takes longer than its partition allows"):
        command("simulate", "t.swf", "--partitions", "p.toml")
    Path("p.toml").write_text(
        "[[partition]]\nname = 'a'\nnodes = 1\n[[partition]]\nname='b'\nnodes=1\nswf_queue=9"
    )
    Path("t.swf").write_text("; MaxProcs: 6\n1 0 -1 100 4 -1 -1 4 100 -1 1 1 -1 -1 1 -1 -1 -1\n")
    with pytest.raises(
        TraceError, match=r"none of its jobs \(1\) fits in its partition: the narrowest needs 4"
    ):
        command("simulate", "t.swf", "--partitions", "p.toml")


@pytest.mark.usefixtures("there")
def test_jobs_become_malleable_for_their_partition() -> None:
    words = (
        "--partitions",
        "p.toml",
        "--malleable",
        "100",
        "--conversion",
        "published",
        "--policy",
        "malleable",
        "--jobs-csv",
        "jobs.csv",
    )
    command("simulate", "t.swf", *words)
    rows = [line.split(",") for line in Path("jobs.csv").read_text().splitlines()]
    assert {row[-1]: row[rows[0].index("nodes_max")] for row in rows[1:]} == {"main": "4", "fast": "2"}


BATCH = """
[cluster]
policy = "fcfs"
[[jobs]]
name = "a"
command = "x"
nodes = 2
model = {work_s = 20}
partition = "fast"
[[jobs]]
name = "b"
command = "x"
nodes = 2
model = {work_s = 20}
"""


@pytest.mark.usefixtures("there")
def test_the_jobs_of_a_batch_name_their_partition() -> None:
    Path("b.toml").write_text(BATCH)
    words = ("--partitions", "p.toml", "--cost", "none", "--jobs-csv", "jobs.csv")
    command("simulate", "b.toml", *words)
    rows = [line.split(",") for line in Path("jobs.csv").read_text().splitlines()]
    assert [(row[1], row[7], row[-1]) for row in rows[1:]] == [("b", "10.0", "main"), ("a", "5.0", "fast")]
    for verb in (("simulate", "b.toml"), ("run", "b.toml"), ("run", "b.toml", "--dry-run")):
        with pytest.raises(BatchError, match=r"b\.toml: job 'a': partition: "):
            command(*verb)
    Path("b.toml").write_text(BATCH.replace('"fast"', '"fats"'))
    with pytest.raises(BatchError, match=r"job 'a': partition: there is no 'fats'; did you mean 'fast'\?"):
        command("simulate", "b.toml", *words)
    Path("b.toml").write_text(BATCH.replace("nodes = 2", "nodes = 3"))
    with pytest.raises(BatchError, match="job 'a': nodes: it needs 3 nodes and partition 'fast' has 2"):
        command("simulate", "b.toml", *words)


def test_nothing_is_said_of_partitions_where_there_are_none() -> None:
    spec = rigid("a", 1, 1.0).spec
    assert spec.partition is UNSET
    assert b"partition" not in msgspec.json.encode(spec)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=JobSpec) == spec


# ---- from a program ------------------------------------------------------------------------------------


def test_partitions_from_a_program() -> None:
    jobs = [pliant.Job(0.0, 10.0, 2, partition="b"), pliant.Job(0.0, 10.0, 2), pliant.Job(1.0, 10.0, 2)]
    tables = [{"name": "a", "nodes": 2}, {"name": "b", "nodes": 2, "speed": 2}]
    result = pliant.simulate(jobs, Easy, partitions=tables)
    assert result.jobs["partition"] == ["a", "b", "a"]
    assert result.partitions["a"]["wait_mean_s"] == 4.5
    assert result.partitions["b"]["makespan_s"] == 5.0
    assert "partition b: jobs" in repr(result)
    assert "partition" not in pliant.simulate(jobs[1:], nodes=2).jobs
    with pytest.raises(PolicyError, match="is one object, and each of 2 partitions needs one of its own"):
        pliant.simulate(jobs, Easy(), partitions=tables)
    pliant.simulate(jobs[1:], Easy(), partitions=tables[:1])
    with pytest.raises(BatchError, match="partitions: partition 'a': nodes: missing"):
        pliant.simulate(jobs, partitions=[{"name": "a"}])
    with pytest.raises(BatchError, match="there are no partitions"):
        read_partitions([])


def test_the_figures_of_one_partition_are_those_of_the_machine() -> None:
    whole = pliant.simulate("lublin:200", nodes=64, malleable=50).metrics
    tables = [{"name": "all", "nodes": 64, "speed": 1.0}]
    result = pliant.simulate("lublin:200", malleable=50, partitions=tables)
    own = {"cpu_s", "jobs_per_cpu_s", "peak_mb"}
    assert {key: value for key, value in whole.items() if key not in own} == {
        key: value for key, value in result.metrics.items() if key not in own
    }
    for key in set(result.partitions["all"]) - {"nodes", "too_wide", "too_long", "classes"}:
        assert result.partitions["all"][key] == whole[key]

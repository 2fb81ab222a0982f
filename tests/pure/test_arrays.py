"""Job arrays: what their notation stands for, and that never more of one run at once than it allows."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from commands import command
from hypothesis import given
from hypothesis import strategies as st
from small_world import World, job

from pliant.core import records as r
from pliant.core.arrays import ArrayThrottle
from pliant.core.settings import Settings
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import Cluster, RunContext
from pliant.model.arrays import ArrayMember, read_elements
from pliant.model.batch import read_batch
from pliant.model.errors import BatchError
from pliant.model.jobs import JobClass, JobSpec
from pliant.plan.cost import INSTANT
from pliant.policy.fcfs import Fcfs
from pliant.policy.registry import POLICIES, make
from pliant.sim.instant import Instant
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.failures import Down, Failures
from pliant.workloads.formats.batches import batch_jobs
from pliant.workloads.formats.journals import read_journal
from pliant.workloads.job import SimJob
from pliant.workloads.machine import Checkpoints

BATCH = """
[cluster]
nodes = 8
policy = "easy"
[[jobs]]
name = "sweep"
array = "{array}"
command = "./part"
model = {{work_s = 10}}
walltime = 10
env = {{A = "b"}}
"""


@pytest.mark.parametrize(
    ("text", "indices", "limit"),
    [
        ("0-3", (0, 1, 2, 3), 0),
        ("0-9:4", (0, 4, 8), 0),
        ("1,3,7", (1, 3, 7), 0),
        ("5", (5,), 0),
        (" 7, 1-3 , 2%2 ", (1, 2, 3, 7), 2),
        ("0-9999%10", tuple(range(10_000)), 10),
    ],
)
def test_elements(text: str, indices: tuple[int, ...], limit: int) -> None:
    elements = read_elements(text)
    assert (elements.indices, elements.limit) == (indices, limit)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "'' is neither an index, nor a range; write 0-99, 0-99:2"),
        ("a", "'a' is neither"),
        ("1-", "'1-' is neither"),
        ("-1", "'-1' is neither"),
        ("1:2", "'1:2' is neither"),
        ("5-3", "'5-3' ends before it begins"),
        ("0-5:0", "steps of 0"),
        ("0-5%", "%: how many may run at once is a whole number of 1 or more"),
        ("0-5%0", "%0: how many"),
        ("0-5%x", "%x: how many"),
        ("0-10000", "0-10000 has more than 10,000 jobs, which is the most"),
        ("0-9999,10000", "with 10000 it has more than 10,000 jobs"),
        ("0-999999999999999999", "more than 10,000 jobs"),
        ("0-99999999999999999999", "is neither"),
    ],
)
def test_mistakes_in_an_array_are_named(text: str, told: str) -> None:
    with pytest.raises(BatchError, match=r"b\.toml: job 'sweep': array: ") as error:
        batch_of(text)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("more", "told"),
    [("count = 2", "it has a count as well"), ('nmae = "x"', "did you mean 'name'"), ('env = "x"', "expected a table")],
)  # fmt: skip
def test_an_array_beside_other_keys(more: str, told: str) -> None:
    data = f'[[jobs]]\nname = "a"\ncommand = "x"\narray = "0-1"\n{more}'
    with pytest.raises(BatchError, match=told):
        read_batch(tomllib.loads(data), "b.toml")
    with pytest.raises(BatchError, match="array: expected a text, got 3"):
        read_batch({"jobs": [{"command": "x", "array": 3}]}, "b.toml")


def test_the_name_with_the_longest_index_is_checked() -> None:
    with pytest.raises(BatchError, match="it has 252 bytes"):
        read_batch({"jobs": [{"name": "x" * 250, "command": "x", "array": "1-2"}]}, "b.toml")


def test_two_arrays_of_one_name_are_refused() -> None:
    """How many of an array run is counted by its name: the limit of one would hold for the other too."""
    entries = [{"name": name, "command": "x", "array": array} for name, array in ARRAYS]
    with pytest.raises(
        BatchError,
        match=r"b\.toml: job 'sweep': name: jobs 1 and 3 are arrays of that name; names must differ",
    ):
        read_batch({"jobs": entries}, "b.toml")
    entries[2]["name"] = "more"
    assert len(read_batch({"jobs": entries}, "b.toml").jobs) == 10


ARRAYS = (("sweep", "1-4%1"), ("other", "1-2"), ("sweep", "5-8%4"))


def batch_of(array: str) -> Sequence[JobSpec]:
    return read_batch(tomllib.loads(BATCH.format(array=array)), "b.toml").jobs


def test_each_job_has_its_name_and_its_index() -> None:
    jobs = batch_of("1,3%1")
    assert [job.name for job in jobs] == ["sweep_1", "sweep_3"]
    assert jobs[1].env == {"A": "b", "PLIANT_ARRAY_INDEX": "3"}
    assert [job.array for job in jobs] == [ArrayMember("sweep", 1, 1), ArrayMember("sweep", 3, 1)]


def test_nothing_is_said_of_arrays_where_there_is_none() -> None:
    """So journals are what they were, and what they were can be read."""
    (job,) = read_batch({"jobs": [{"command": "x"}]}, "b.toml").jobs
    text = msgspec.json.encode(job)
    assert b"array" not in text
    assert msgspec.json.decode(text, type=JobSpec) == job


def test_ten_jobs_of_which_three_run_at_once() -> None:
    """By hand: 10 s each on a machine with room for eight; by threes they take 40 s."""
    records: list[r.Record] = []
    jobs = [SimJob(job, 10.0) for job in batch_of("0-9%3")]
    simulate(jobs, 8, make("easy"), Conditions(Settings(cost=INSTANT)), records.append)
    starts = [record.at for record in records if isinstance(record, r.JobStarted)]
    assert starts == [0, 0, 0, 10, 10, 10, 20, 20, 20, 30]


@st.composite
def some_arrays(draw: st.DrawFn) -> list[SimJob]:
    """Two arrays and single jobs between them, of sizes and times that often coincide."""
    jobs: list[SimJob] = []
    for name in ("a", "b", ""):
        for _ in range(draw(st.integers(1, 2 if name else 6))):
            low, high = sorted(draw(st.tuples(st.integers(1, 8), st.integers(1, 8))))
            entry = {
                "name": f"{name}{len(jobs)}",
                "command": "x",
                "nodes": {"min": low, "max": high},
                "submit": draw(st.integers(0, 20)),
                "model": {"work_s": draw(st.integers(1, 40))},
                **({"array": f"0-{draw(st.integers(0, 7))}%{draw(st.integers(1, 3))}"} if name else {}),
            }
            jobs += batch_jobs(read_batch({"jobs": [entry]}, "drawn"))
    return jobs


@given(
    jobs=some_arrays(),
    policy=st.sampled_from(sorted(POLICIES)),
    instant=st.sampled_from(Instant),
    fails=st.booleans(),
)
def test_no_array_has_more_jobs_at_once_than_it_allows(
    jobs: list[SimJob], policy: str, instant: Instant, *, fails: bool
) -> None:
    """Under every policy, and where nodes fail; and all of its jobs run."""
    listed = (Down(0, 3.0, 9.0), Down(2, 15.0, 16.0)) if fails else ()
    conditions = Conditions(
        Settings(cost=INSTANT), instant=instant, failures=Failures(listed=listed),
        checkpoints=Checkpoints(2.0, 0.5) if fails else None,
    )  # fmt: skip
    records: list[r.Record] = []
    end = simulate(jobs, 8, make(policy), conditions, records.append)
    assert end.jobs == len(jobs)
    arrays: dict[int, ArrayMember] = {}
    there: dict[str, int] = {}
    completed: list[str] = []
    for record in records:
        if isinstance(record, r.JobSubmitted) and isinstance(array := record.spec.array, ArrayMember):
            arrays[record.job] = array
        elif isinstance(record, r.JobStarted) and record.job in arrays:
            array = arrays[record.job]
            there[array.name] = there.get(array.name, 0) + 1
            assert there[array.name] <= array.limit
        elif isinstance(record, r.JobEnded) and record.job in arrays:
            there[arrays[record.job].name] -= 1
            completed += [arrays[record.job].name] * (not record.requeued)
    assert len(completed) == sum(isinstance(job.spec.array, ArrayMember) for job in jobs)


def test_jobs_of_an_array_that_come_after_others_have_ended_take_their_turns() -> None:
    a, b, c, d = batch_of("0-3%2")
    turns: ArrayThrottle[str] = ArrayThrottle()
    assert [turns.come(a, "a"), turns.come(b, "b"), turns.come(c, "c")] == ["a", "b", None]
    assert [turns.ended(a), turns.ended(b), turns.ended(c)] == ["c", None, None]
    assert [turns.come(d, "d"), turns.come(a, "a"), turns.come(b, "b")] == ["d", "a", None]
    turns.clear()
    assert turns.ended(d) is None
    free = read_batch({"jobs": [{"command": "x"}]}, "b.toml").jobs[0]
    assert turns.come(free, "free") == "free"
    assert turns.ended(free) is None


def test_a_live_cluster_has_no_more_of_an_array_at_once_than_it_allows() -> None:
    """Also one that goes on where another's records end; and what waits for its turn does not keep a run from its end
    when it is ended from outside."""
    base = job("a", "rigid 1 0", kind=JobClass.RIGID)
    jobs = [msgspec.structs.replace(base, name=f"a_{i}", array=ArrayMember("a", i, 2)) for i in range(7)]
    world = World(1, 8, jobs)

    def look() -> None:
        assert len(world.cluster.core.state.jobs) <= 2

    world.look.append(look)
    world.run()
    assert len(world.ends()) == 7
    world = World(1, 8, jobs)
    world.run(lambda: len(world.ends()) == 1)
    again = Cluster(Fcfs(), Settings(), RunContext("/out", "/", {}, b"secret"), world.records)
    unended = len(again.core.state.jobs)
    again.handle([o.Batch(tuple(jobs[len(world.of(r.JobSubmitted)) :]))], world.now)
    assert len(again.core.state.jobs) == unended == 2
    world.tell(o.EndNow())
    world.run()
    assert len(world.of(r.JobSubmitted)) < 7


def test_a_journal_keeps_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.toml").write_text(BATCH.format(array="0-5%2"))
    command("simulate", "b.toml", "--cost", "none", "--records", "b.ndjson")
    jobs = read_journal(Path("b.ndjson")).jobs
    assert [job.spec.submit_s for job in jobs] == [0.0] * 6
    first = command("simulate", "b.toml", "--cost", "none", "--jobs-csv", "first.csv")
    command("simulate", "--from-records", "b.ndjson", "--cost", "none", "--jobs-csv", "again.csv")
    assert "sweep_5" in Path("first.csv").read_text()
    assert Path("first.csv").read_text() == Path("again.csv").read_text()
    assert "6" in first

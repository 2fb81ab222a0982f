"""Jobs that follow others, SWF's fields 17 and 18: submitted when those have ended and their users have thought."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from commands import command, simulated
from drawing import examples
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from workloads import rigid

from pliant.core import records as r
from pliant.core.settings import NEVER, Settings
from pliant.model.errors import BatchError, TraceError
from pliant.plan.cost import INSTANT
from pliant.policy.easy import Easy
from pliant.policy.fcfs import Fcfs
from pliant.sim.instant import Instant
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.failures import Down, Failures
from pliant.workloads.formats.swf import parse_swf, read_swf, rigid_jobs
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import PUBLISHED, make_malleable
from pliant.workloads.sources import WorkloadRequest, read_workload


def line(number: int, submit: float, run: float, width: int, after: int = -1, think: float = -1) -> str:
    return f"{number} {submit} -1 {run} {width} -1 -1 {width} {run} -1 1 -1 -1 -1 -1 -1 {after} {think}\n"


TRACE = (
    "; MaxProcs: 4\n"
    + line(1, 0, 10, 4)
    + line(2, 1, 20, 4)
    + line(3, 5, 3, 4, 1, 7)
    + line(4, 6, 1, 1, 3, 0)
)
"""3 is submitted at 10 + 7 = 17, runs from 30 to 33, and 4 after it: by the trace 3 had been there at 5, and 4 at 6."""


def follow(job: SimJob, after: str, think_s: float = 0.0) -> SimJob:
    return msgspec.structs.replace(job, after=after, think_s=think_s)


def times(
    jobs: list[SimJob], nodes: int, instant: Instant = Instant.TOGETHER, failures: Failures | None = None
) -> dict[str, tuple[float, float, float]]:
    """When each job was submitted, started and ended for good, by name."""
    found: dict[str, list[float]] = {}
    names: dict[int, str] = {}

    def sink(record: r.Record) -> None:
        match record:
            case r.JobSubmitted(at=at, job=job, spec=spec, requeue_of=former):
                names[job] = spec.name
                found[spec.name] = [found[spec.name][0] if former else at]
            case r.JobStarted(at=at, job=job) | r.JobEnded(at=at, job=job):
                found[names[job]].append(at)
            case _:
                pass

    end = simulate(
        jobs, nodes, Fcfs(), Conditions(Settings(cost=INSTANT), instant=instant, failures=failures), sink
    )
    assert end.jobs == len(jobs)
    return {name: (each[0], each[1], each[2]) for name, each in found.items()}


@pytest.mark.parametrize("instant", Instant)
def test_a_job_is_submitted_its_think_time_after_the_end_of_the_one_before(instant: Instant) -> None:
    trace = parse_swf(TRACE.splitlines(), "x.swf")
    jobs = rigid_jobs(trace, 4, dependencies=True)
    assert times(jobs, 4, instant) == {
        "1": (0, 0, 10), "2": (1, 10, 30), "3": (17, 30, 33), "4": (33, 33, 34),
    }  # fmt: skip
    assert times(rigid_jobs(trace, 4), 4, instant) == {
        "1": (0, 0, 10), "2": (1, 10, 30), "3": (5, 30, 33), "4": (6, 33, 34),
    }  # fmt: skip


@pytest.mark.parametrize("instant", Instant)
def test_jobs_of_no_length_follow_one_another_in_one_instant(instant: Instant) -> None:
    jobs = [rigid("0", 1, 0.0)] + [follow(rigid(f"{i}", 1, 0.0), f"{i - 1}") for i in range(1, 2000)]
    assert set(times(jobs, 1, instant).values()) == {(0.0, 0.0, 0.0)}


def test_several_may_follow_one(tmp_path: Path) -> None:
    jobs = [
        rigid("a", 1, 5.0),
        follow(rigid("b", 1, 1.0), "a", 2.0),
        follow(rigid("c", 1, 1.0, at=3.0), "a", 1.0),
    ]
    assert times(jobs, 2) == {"a": (0, 0, 5), "b": (7, 7, 8), "c": (6, 6, 7)}


def test_who_waits_for_a_job_waits_for_its_last_run() -> None:
    """a loses its node at 4 and runs again from 6; not requeued, it has ended at 4."""
    jobs = [rigid("a", 1, 10.0), follow(rigid("b", 1, 1.0), "a", 2.0)]
    down = (Down(0, 4.0, 6.0),)
    assert times(jobs, 1, failures=Failures(listed=down))["b"] == (18, 18, 19)
    assert times(jobs, 1, failures=Failures(listed=down, requeue=False))["b"] == (6, 6, 7)


def test_nodes_that_fail_while_a_user_thinks_are_no_reason_to_give_up() -> None:
    """Hundreds of failures of a node while nothing runs and nobody waits."""
    jobs = [rigid("a", 1, 1.0), follow(rigid("b", 1, 1.0), "a", 1e6)]
    down = tuple(Down(0, 10.0 * i, 10.0 * i + 1.0) for i in range(1, 5000))
    assert times(jobs, 1, failures=Failures(listed=down))["b"][2] == 1e6 + 2.0
    with pytest.raises(BatchError, match="'b' waits for 1 node"):
        times(jobs, 1, failures=Failures(listed=(Down(0, 5.0, NEVER),)))


@limits(max_examples=examples(60), derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 9), st.integers(0, 9), st.integers(1, 4), st.integers(0, 20), st.integers(0, 9)
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(Instant),
)
def test_every_follower_comes_its_think_time_after_the_end(
    drawn: list[tuple[int, int, int, int, int]], instant: Instant
) -> None:
    jobs: list[SimJob] = []
    at = 0.0
    for number, (gap, run, width, before, think) in enumerate(drawn):
        at += gap
        job = rigid(f"{number}", width, float(run), at=at)
        jobs.append(follow(job, f"{number - 1 - before}", float(think)) if before < number else job)
    found = times(jobs, 4, instant)
    for job in jobs:
        submitted = found[job.after][2] + job.think_s if job.after else job.spec.submit_s
        assert found[job.spec.name][0] == submitted


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.swf").write_text(TRACE)
    asked = ("x.swf", "--policy", "fcfs")
    plain, figures = (simulated(*asked, *more) for more in ((), ("--dependencies",)))
    assert plain["wait_mean_s"] == (0 + 9 + 25 + 27) / 4
    assert figures["wait_mean_s"] == (0 + 9 + 13 + 0) / 4
    # What is written keeps who follows whom, and is simulated alike.
    command("simulate", *asked, "--dependencies", "--convert", "c.swf", "--swf", "s.swf")
    jobs = rigid_jobs(read_swf(Path("x.swf")), 4, dependencies=True)
    assert rigid_jobs(read_swf(Path("c.swf")), 4, dependencies=True) == jobs
    assert [(job.submit, job.preceding, job.think) for job in read_swf(Path("s.swf")).jobs] == [
        (0, -1, -1), (1, -1, -1), (17, 1, 7), (33, 3, 0),
    ]  # fmt: skip
    again = simulated("s.swf", "--policy", "fcfs", "--dependencies")
    assert again["wait_mean_s"] == figures["wait_mean_s"]


def test_malleable_jobs_follow_too() -> None:
    jobs = rigid_jobs(parse_swf(TRACE.splitlines(), "x.swf"), 4, dependencies=True)
    assert [(job.after, job.think_s) for job in make_malleable(jobs, 100, 4, 1, conversion=PUBLISHED)] == [
        ("", 0),
        ("", 0),
        ("1", 7),
        ("3", 0),
    ]


def test_who_follows_a_job_that_is_left_out_comes_at_its_own_time(tmp_path: Path) -> None:
    """1 did not run, and 2 is too wide."""
    text = (
        "; MaxProcs: 4\n"
        + line(1, 0, -1, 4)
        + line(2, 1, 9, 5)
        + line(3, 2, 1, 1, 1, 5)
        + line(4, 3, 1, 1, 2, 5)
    )
    text += line(5, 4, 1, 1, 4, 5)
    (tmp_path / "x.swf").write_text(text)
    load = read_workload(WorkloadRequest(str(tmp_path / "x.swf"), dependencies=True))
    assert [(job.spec.name, job.after, job.think_s) for job in load.jobs] == [
        ("3", "", 0),
        ("4", "", 0),
        ("5", "4", 5),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (line(1, 0, 1, 1, 7, 0), r"x\.swf: job 1: field preceding is 7, which is no job before it"),
        (line(1, 0, 1, 1, 2, 0) + line(2, 0, 1, 1), "field preceding is 2"),
        (line(1, 0, 1, 1, 1, 0), "field preceding is 1"),
        (line(1, 0, 1, 1) + line(2, 0, 1, 1, 1, float("inf")), r"job 2: field think is inf"),
        (
            line(1, 0, 1, 1) + line(1, 0, 1, 1, 1, 0),
            r"x\.swf:2: field number is 1, as in line 1; with --dependencies",
        ),
        (
            line(2, 0, -1, 1) + ";\n" + line(2, 0, 1, 1) + line(2, 0, 1, 1) + line(3, 0, 1, 1, 2),
            r"x\.swf:4: field number is 2, as in line 3",
        ),
        (line(1, 0, 1, 1), r"x\.swf: --dependencies changes nothing: no job follows another"),
    ],
)
def test_what_cannot_be_followed(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.swf").write_text(text)
    with pytest.raises((TraceError, BatchError), match=message):
        command("simulate", str(tmp_path / "x.swf"), "--nodes", "4", "--dependencies")
    command("simulate", str(tmp_path / "x.swf"), "--nodes", "4")


def test_other_workloads_have_no_such_fields() -> None:
    with pytest.raises(BatchError, match="--dependencies changes nothing without a trace in SWF"):
        command("simulate", "lublin:10", "--dependencies")


def test_a_circle_is_refused() -> None:
    jobs = [follow(rigid("a", 1, 1.0), "b"), follow(rigid("b", 1, 1.0), "a"), rigid("c", 1, 1.0)]
    with pytest.raises(BatchError, match="job 'a': it is to follow job 'b', which is no job before it"):
        simulate(jobs, 1, Easy())

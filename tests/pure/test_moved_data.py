"""What resizes of jobs have to move, where the workload does not say: ``--data``."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median, stdev

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from workloads import workload_request

import pliant
from pliant.core import records as r
from pliant.core.settings import batch_settings
from pliant.files.batch import read_batch_file
from pliant.files.cost import read_cost
from pliant.files.policy import PolicySpec
from pliant.model.errors import BatchError
from pliant.model.jobs import JobSpec
from pliant.study.simulation import simulation
from pliant.workloads.data import with_data
from pliant.workloads.sources import Overrides, WorkloadRequest, read_workload

FREE = "start_s=0,start_each_s=0,blocked_s=0,leave_s=0,answer_s=0"
COST = f"{FREE},data_s=0.01"
TRACE = """; MaxProcs: 4
1 0 -1 100 4 -1 2000 4 100 -1 1 1
2 10 -1 50 2 -1 -1 2 60 5000 1 1
3 20 -1 30 1 -1 -1 1 60 -1 1 1
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    (tmp_path / "x.swf").write_text(TRACE)
    return str(tmp_path / "x.swf")


def data(workload: str, how: str, percent: float = 100.0, seed: int = 42) -> dict[str, float]:
    wish = workload_request(workload, malleable=percent, data=how, cost=COST, seed=seed)
    return {job.spec.name: job.spec.data_mb for job in read_workload(wish).jobs}


def test_each_way_of_saying_it(trace: str) -> None:
    assert data(trace, "none") == {"1": 0.0, "2": 0.0, "3": 0.0}
    assert data(trace, "per-node=500") == {"1": 2000.0, "2": 1000.0, "3": 500.0}
    assert data(trace, "total=500") == {"1": 500.0, "2": 500.0, "3": 500.0}
    assert data(trace, "lognormal=500,0") == {"1": 2000.0, "2": 1000.0, "3": 500.0}
    assert data(trace, "memory") == {"1": 8.0, "2": 10.0, "3": 0.0}  # field 7, field 10, neither


def test_drawn_data_are_lognormal_and_a_jobs_own() -> None:
    drawn = data("lublin:2000", "lognormal=500,1.5")
    assert drawn == data("lublin:2000", "lognormal=500,1.5", percent=20.0)
    nodes = {
        job.spec.name: job.spec.nodes.preferred for job in read_workload(workload_request("lublin:2000")).jobs
    }
    logs = [math.log(mb / nodes[name]) for name, mb in drawn.items()]
    assert median(logs) == pytest.approx(math.log(500), abs=0.1)
    assert stdev(logs) == pytest.approx(1.5, rel=0.05)
    first, *_ = read_workload(workload_request("lublin:9")).jobs
    again = [with_data([first], "lognormal=500,1.5", seed) for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2]
    by = {
        how: read_workload(workload_request("lublin:9", malleable=100, cost=COST, data=how))
        for how in ("none", "total=9")
    }
    assert [job.spec.nodes for job in by["none"].jobs] == [job.spec.nodes for job in by["total=9"].jobs]


def resizes(mb: float, seed: int) -> list[tuple[float, float]]:
    """How long each stood still, and has to by the model: for each megabyte that a node of the smaller side has to
    hold. None is called off."""
    wish = workload_request("lublin:40", 64, malleable=100, data=f"per-node={mb}", cost=COST, seed=seed)
    specs: dict[int, JobSpec] = {}
    offers: dict[int, r.ResizeOffered] = {}
    records: list[r.Record] = []
    found: list[tuple[float, float]] = []
    ended = simulation(wish, PolicySpec("malleable")).run(keep=records.append)
    for record in records:
        match record:
            case r.JobSubmitted(job=job, spec=spec):
                specs[job] = spec
            case r.ResizeOffered(job=job):
                offers[job] = record
            case r.ResizeDone(job=job, blocked_s=blocked_s):
                smaller = min(offers[job].before, offers[job].after)
                found.append((blocked_s, 0.01 * specs[job].data_mb / smaller))
    assert ended.metrics.resizes_withdrawn == 0
    return found


@given(st.floats(0, 1e5), st.integers(1, 30))
@settings(max_examples=examples(30))
def test_every_resize_stands_still_for_its_data(mb: float, seed: int) -> None:
    assert all(still_s == pytest.approx(expected_s) for still_s, expected_s in resizes(mb, seed))


def test_resizes_that_take_longer_are_fewer() -> None:
    """Half an hour for one is worth it seldom, but then it has its time."""
    few, more = resizes(60_000, 42), resizes(6, 42)
    assert 0 < len(few) < len(more)
    assert max(still_s for still_s, _ in few) > 600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"data": "some"},
            "data: 'some' is none of none, per-node=MB, total=MB, lognormal=MEDIAN,SIGMA or memory",
        ),
        ({"data": "total=-1"}, "data: total=-1: '-1' is no number of megabytes, 0 or more"),
        ({"data": "per-node=inf"}, "'inf' is no number of megabytes"),
        ({"data": "per-node=1e308"}, r"'1e308' is no number of megabytes, 0 or more and below 1e\+300"),
        ({"data": "per-node=9e299"}, r"data: job '\d+' would have \S+ MB; give less than 1e\+300 MB a job"),
        ({"data": "lognormal=9e299,10"}, r"data: job '\d+' would have \S+ MB"),
        (
            {"data": "total=1e299", "cost": "data_s=1e299"},
            "lublin:5: no resize with the most data would ever end",
        ),
        ({"data": "lognormal=5"}, "write lognormal=MEDIAN,SIGMA"),
        ({"data": "lognormal=x,1"}, "MEDIAN 'x' is no number of megabytes"),
        ({"data": "lognormal=5,y"}, "SIGMA 'y' is no number"),
        ({"data": "lognormal=5,11"}, "SIGMA: 11 is too much; the most is 10"),
        ({"data": "memory"}, "only a trace in SWF"),
        ({"data": "total=5", "cost": ""}, "changes nothing where data move in no time"),
        ({"data": "total=5", "malleable": None}, "changes nothing where no job is resized"),
        ({"data": 5}, "--data: 5 is no text"),
    ],
)
def test_what_cannot_be(options: dict[str, object], message: str) -> None:
    said: dict[str, object] = {"malleable": 50, "cost": COST} | options
    with pytest.raises(BatchError, match=message):
        pliant.simulate("lublin:5", **said)  # type: ignore[arg-type]


def test_data_of_their_own(tmp_path: Path) -> None:
    job = {"submit_s": 0, "run_s": 9, "nodes": 4, "data_mb": 7.0, "name": "a"}
    with pytest.raises(BatchError, match="data: job 'a' has data of its own, 7 MB"):
        pliant.simulate([job], nodes=8, malleable=100, data="total=5", cost=COST)
    (tmp_path / "x.swf").write_text("; MaxProcs: 8\n1 0 -1 9 2\n")
    with pytest.raises(BatchError, match=r"no job says how much memory it has \(fields 7 and 10\)"):
        pliant.simulate(tmp_path / "x.swf", malleable=100, data="memory", cost=COST)


def test_a_batch_has_the_time_that_its_data_take(tmp_path: Path) -> None:
    """At 2 s a megabyte, 100 MB take 100 s onto two nodes: no resize is called off after the usual 30 s, simulated or
    live."""
    batch = tmp_path / "b.toml"
    job = '[[jobs]]\nname = "a"\ncommand = "true"\nnodes = { min = 2, max = 4 }\ndata_mb = 100\nmodel = { work_s = 4000 }\n'
    batch.write_text("[cluster]\nnodes = 4\n" + job)
    read = read_batch_file(batch)
    cost = read_cost("start_s=0,data_s=2")
    assert batch_settings(read.cluster, cost, read.jobs).resize_deadline_s > 2 * 100
    wish = WorkloadRequest(str(batch), overrides=Overrides(cost=cost))
    assert read_workload(wish).settings.resize_deadline_s > 2 * 100

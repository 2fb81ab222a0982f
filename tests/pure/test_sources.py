"""What ``pliant simulate`` takes: generators by name, shares of malleable jobs, estimates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import command, simulate_json, simulated

from pliant.model.errors import BatchError, TraceError
from pliant.study.confidence import interval
from pliant.workloads.estimates import with_estimates
from pliant.workloads.generators.lublin import lublin_jobs
from pliant.workloads.generators.paper2 import paper2_jobs
from pliant.workloads.sources import WorkloadRequest, read_workload

TRACE = "; MaxProcs: 8\n" + "".join(f"{i} {i * 5} 0 {20 + i} 4 -1 -1 4 90\n" for i in range(1, 30))


# ---- generators by name ----


def test_generators_by_name() -> None:
    load = read_workload(WorkloadRequest("lublin:40,load=0.6", 64, 7))
    assert (load.jobs, load.nodes, load.fixed) == (lublin_jobs(40, 64, 7, load=0.6), 64, False)
    assert read_workload(WorkloadRequest("lublin:40", 64, 6, run=1)).jobs == lublin_jobs(40, 64, 7)
    assert read_workload(WorkloadRequest("lublin:40,kinds=1")).jobs == lublin_jobs(40, 128, 42, one_kind=True)
    batch = read_workload(WorkloadRequest("paper2:43", percent=40, run=2))
    assert (batch.jobs, batch.nodes) == (paper2_jobs(45, 40), 32)
    assert len(read_workload(WorkloadRequest("feitelson:30,gap=10,unit=60", 16)).jobs) == 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lublin:many", r"'many' is no whole number; write lublin:NUMBER"),
        ("lublin:5,laod=1", r"lublin: there is no 'laod'; did you mean 'load'"),
        ("lublin:5,load=x", r"load: 'x' is no number"),
        ("lublin:5,load=0", r"load: it must be above 0"),
        ("lublin:5,kinds=3", r"kinds: 3; there are 1 and 2"),
        ("lublin", r"neither a trace .* lublin:JOBS"),
    ],
)
def test_generators_that_do_not_exist(text: str, message: str) -> None:
    with pytest.raises((BatchError, TraceError), match=message):
        read_workload(WorkloadRequest(text))


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
    one = simulate_json(*arguments, "--workers", "1")
    assert [(row["malleable_percent"], row["runs"]) for row in one["rows"]] == [(0, 1), (50, 3), (100, 1)]
    assert (one["policy"], one["nodes"]) == ("malleable", 8)
    assert one["rows"][0]["expands"] == {"mean": 0.0, "half": None}
    assert one["rows"][1]["wait_mean_s"]["half"] > 0
    assert one["rows"][2]["wait_mean_s"]["mean"] < one["rows"][0]["wait_mean_s"]["mean"]
    assert simulate_json(*arguments, "--workers", "2") == one
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
    single = simulated("lublin:50", "--nodes", "64")
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

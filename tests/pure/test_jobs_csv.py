"""``pliant simulate --jobs-csv`` and ``--policy a,b``: a line a job, and several policies side by side."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from commands import command, simulate_json, simulated
from drawing import examples
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from workloads import upper_bound_jobs

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.files.policy import policy_names
from pliant.history.metrics import Metrics
from pliant.history.timeline import Timeline
from pliant.model.errors import BatchError, PolicyError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.plan.cost import ResizeCost
from pliant.policy.malleable import Malleable
from pliant.policy.view import ClusterView, Decision, Reason
from pliant.sim.job_rows import COLUMNS, jobs_csv
from pliant.sim.simulator import Conditions
from pliant.sim.simulator import simulate as run_simulation
from pliant.workloads.job import SimJob

TRACE = "; MaxProcs: 4\n1 0 0 10 3 -1 -1 3 10\n2 0 0 5 4 -1 -1 4 5\n3 0 0 10 1 -1 -1 1 10\n"
WHY = Reason("fits")


def trace(folder: Path) -> str:
    (folder / "x.swf").write_text(TRACE)
    return str(folder / "x.swf")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_line_for_each_job(tmp_path: Path) -> None:
    out = tmp_path / "jobs.csv"
    figures = simulated(trace(tmp_path), "--jobs-csv", str(out))
    header, first, second, third = out.read_text().splitlines()
    assert header == ",".join(COLUMNS)
    # Job 3 ends with job 1, and before job 2 has started.
    assert first == "1,1,,rigid,COMPLETED,0.0,0.0,10.0,0.0,10.0,10.0,3,3,3,3,3,3.0,0,0,1.0,0,,0:3"
    assert second == "2,2,,rigid,COMPLETED,0.0,10.0,15.0,10.0,5.0,15.0,4,4,4,4,4,4.0,0,0,1.5,0,,0:4"
    assert third.startswith("3,3,,rigid,COMPLETED,0.0,0.0,10.0,")
    assert sum(float(row["wait_s"]) for row in rows_of(out)) == pytest.approx(3 * figures["wait_mean_s"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "x.swf"]


def test_sizes_and_jobs_that_never_started(tmp_path: Path) -> None:
    def nodes(text: str) -> NodeSet:
        return NodeSet.parse(text)

    spec = JobSpec(name='a, "b"', nodes=Bounds(1, 4, preferred=2), job_class=JobClass.MALLEABLE, user="ann")
    with jobs_csv(tmp_path / "j.csv") as lines:
        for record in (
            r.JobSubmitted(1.0, 1, spec),
            r.JobSubmitted(2.0, 2, spec),
            r.JobSubmitted(2.0, 3, spec),
            r.JobEnded(3.0, 3, JobState.CANCELLED, 143, NodeSet()),
            r.JobStarted(5.0, 1, nodes("0"), WHY),
            r.JobStarted(5.0, 2, nodes("3"), WHY),
            r.JobEnded(5.0, 2, JobState.FAILED, 1, nodes("3")),
            r.ResizeDone(10.0, 1, 1, nodes("1-3"), NodeSet(), 0.1),
            r.ResizeDone(20.0, 1, 2, NodeSet(), nodes("0-1"), 0.1),
            r.JobEnded(25.0, 1, JobState.COMPLETED, 0, nodes("2-3")),
        ):
            lines.add(record)
    grown, failed, never = rows_of(tmp_path / "j.csv")
    assert (grown["name"], grown["user"], grown["class"]) == ('a, "b"', "ann", "malleable")
    assert (grown["nodes_min"], grown["nodes_preferred"], grown["nodes_max"]) == ("1", "2", "4")
    assert (grown["nodes_start"], grown["nodes_end"], grown["expands"], grown["shrinks"]) == (
        "1",
        "2",
        "1",
        "1",
    )
    assert (grown["sizes"], failed["sizes"], never["sizes"]) == ("0:1;5:4;15:2", "0:1", "")
    assert float(grown["nodes_mean"]) == pytest.approx((5 * 1 + 10 * 4 + 5 * 2) / 20)
    assert float(grown["bounded_slowdown"]) == pytest.approx(24 / 20)
    assert (failed["run_s"], failed["nodes_mean"], failed["exit_code"]) == ("0.0", "1", "1")
    assert (never["state"], never["end_s"], never["turnaround_s"]) == ("CANCELLED", "3.0", "1.0")
    assert {never[key] for key in ("start_s", "wait_s", "run_s", "nodes_start", "nodes_mean")} == {""}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--jobs-csv", "none/j.csv"], r"none/j\.csv: there is no directory"),
        (["--jobs-csv", "."], "it is a directory; name a file"),
        (["--jobs-csv", "j.csv", "--seeds", "2"], "the jobs of one simulation"),
        (["--jobs-csv", "j.csv", "--malleable", "0,50"], "the jobs of one simulation"),
        (["--jobs-csv", "j.csv", "--policy", "easy,fcfs"], "the jobs of one simulation"),
        (["--jobs-csv", "j.csv", "--policy", "esay"], "did you mean 'easy'"),
        (["--policy", "fcfs,esay"], "did you mean 'easy'"),
        (["--policy", "fcfs,,easy"], "an empty name"),
        (["--policy", "fcfs,equipartition", "--start", "min"], "no start rule"),
    ],
)
def test_wishes_refused_before_anything_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = trace(tmp_path)
    with pytest.raises((BatchError, PolicyError), match=message):
        command("simulate", file, *more)
    assert [path.name for path in tmp_path.iterdir()] == ["x.swf"]


class Lazy:
    """A policy that starts nothing."""

    name = "lazy"

    def decide(self, view: ClusterView) -> Iterable[Decision]:  # noqa: ARG002
        return []


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "j.csv"
    out.write_text("older\n")
    jobs = [SimJob(JobSpec(name="a", nodes=Bounds.exactly(1)), 5.0)]
    with pytest.raises(PolicyError, match="stuck"), jobs_csv(out) as lines:
        run_simulation(jobs, 4, Lazy(), sink=lines.add)
    assert [path.name for path in tmp_path.iterdir()] == ["j.csv"]
    assert out.read_text() == "older\n"


def test_one_share_is_one_simulation(tmp_path: Path) -> None:
    out = tmp_path / "j.csv"
    malleable = ("--malleable", "100", "--conversion", "published")
    command("simulate", trace(tmp_path), *malleable, "--jobs-csv", str(out), "--json")
    assert [row["class"] for row in rows_of(out)] == ["malleable"] * 3


@limits(max_examples=examples(40))
@given(upper_bound_jobs(), st.booleans())
def test_sums_agree_with_the_metrics(
    tmp_path_factory: pytest.TempPathFactory,
    jobs: list[SimJob],
    malleable: bool,  # noqa: FBT001 - Hypothesis passes it
) -> None:
    out = tmp_path_factory.getbasetemp() / "jobs.csv"
    if malleable:
        jobs = [SimJob(_malleable(job.spec), job.runtime_s) for job in jobs]
    metrics = Metrics()
    with jobs_csv(out) as lines:
        run_simulation(
            jobs,
            8,
            Malleable(),
            Conditions(Settings(cost=ResizeCost(blocked_s=1.0), cooldown_s=2.0)),
            Timeline(metrics, lines).add,
        )
    figures, rows = metrics.summary(), rows_of(out)
    assert [int(row["job"]) for row in rows] == list(range(1, len(jobs) + 1))

    def total(key: str) -> float:
        return sum(float(row[key]) for row in rows)

    count = len(rows)
    assert total("wait_s") == pytest.approx(figures.wait_mean_s * count, abs=1e-4)
    assert total("turnaround_s") == pytest.approx(figures.turnaround_mean_s * count, abs=1e-4)
    assert total("bounded_slowdown") == pytest.approx(figures.bounded_slowdown_mean * count, abs=1e-4)
    assert (total("expands"), total("shrinks")) == (figures.expands, figures.shrinks)
    held = sum(float(row["nodes_mean"]) * float(row["run_s"]) for row in rows)
    assert held == pytest.approx(figures.utilisation * 8 * figures.makespan_s, rel=1e-4)
    for row in rows:
        steps = [(float(after), int(size)) for after, size in map(_step, row["sizes"].split(";"))]
        ends = [after for after, _ in steps[1:]] + [float(row["run_s"])]
        held = sum(size * (end - after) for (after, size), end in zip(steps, ends, strict=True))
        assert held == pytest.approx(float(row["nodes_mean"]) * float(row["run_s"]), abs=1e-4)
        assert steps[-1][1] == int(row["nodes_end"])
    assert [row["state"] for row in rows] == [str(job.state) for job in figures.jobs]


def _step(text: str) -> list[str]:
    return text.split(":")


def _malleable(spec: JobSpec) -> JobSpec:
    kind = JobClass.MALLEABLE if spec.nodes.min < spec.nodes.max else JobClass.RIGID
    return msgspec.structs.replace(spec, job_class=kind)


# ---- several policies ----


def test_policies_side_by_side(tmp_path: Path) -> None:
    file = trace(tmp_path)
    result = simulate_json(file, "--policy", "fcfs,easy,fcfs", "--workers", "1")
    assert (result["policy"], result["nodes"]) == ("fcfs, easy", 4)
    assert [(row["policy"], row["malleable_percent"], row["runs"]) for row in result["rows"]] == [
        ("fcfs", None, 1), ("easy", None, 1),
    ]  # fmt: skip
    for row in result["rows"]:
        single = simulate_json(file, "--policy", row["policy"])
        for key in ("wait_mean_s", "makespan_s", "utilisation", "bounded_slowdown_preferred_mean"):
            assert row[key] == single["rows"][0][key] == {"mean": single["runs"][0][key], "half": None}
        assert row["malleable_to_rigid_turnaround"] == {"mean": None, "half": None}
    assert simulate_json(file, "--policy", "fcfs,easy", "--workers", "2") == result
    shown = command("simulate", file, "--policy", "fcfs,easy", "--workers", "1")
    assert "x.swf: 4 nodes" in shown
    assert "fcfs" in shown
    assert "easy" in shown


def test_policies_by_shares_and_seeds() -> None:
    options = ("lublin:40", "--nodes", "64", "--malleable", "0,50", "--seeds", "2", "--workers", "1")
    result = simulate_json(*options, "--policy", "easy,malleable")
    assert [(row["malleable_percent"], row["policy"], row["runs"]) for row in result["rows"]] == [
        (0, "easy", 2), (0, "malleable", 2), (50, "easy", 2), (50, "malleable", 2),
    ]  # fmt: skip
    assert result["rows"][1::2] == simulate_json(*options, "--policy", "malleable")["rows"]
    assert result["rows"][3]["malleable_to_rigid_turnaround"]["mean"] > 0


def test_a_narrow_table_leaves_columns_out_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    options = (
        "lublin:40",
        "--nodes",
        "64",
        "--malleable",
        "50",
        "--policy",
        "easy,malleable",
        "--workers",
        "1",
    )
    monkeypatch.setenv("COLUMNS", "200")
    wide = command("simulate", *options)
    assert "shrinks" in wide
    assert "No room" not in wide
    monkeypatch.setenv("COLUMNS", "60")
    narrow = command("simulate", *options)
    assert "No room for shrinks" in narrow
    assert "malleable" in narrow
    assert "…" not in narrow


def test_names_of_policies(tmp_path: Path) -> None:
    own = tmp_path / "a,b.py"
    own.write_text("")
    assert policy_names("easy, fcfs,easy") == ["easy", "fcfs"]
    assert policy_names("") == [""]
    assert policy_names(str(own)) == [str(own)]
    assert policy_names(f"{own}:Mine") == [f"{own}:Mine"]
    plain = tmp_path / "c.py"
    plain.write_text("")
    assert policy_names(f"{plain}:Mine,easy") == [f"{plain}:Mine", "easy"]

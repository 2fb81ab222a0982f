"""``pliant simulate`` and ``pliant bench simulator`` as commands; and simulations that cannot go on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from commands import command, run_of, simulated
from typer.testing import CliRunner
from workloads import measured

from pliant.cli import made
from pliant.core import records as r
from pliant.core.journal import Header, header_line
from pliant.core.settings import Settings
from pliant.model.errors import BatchError, PolicyError, TraceError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.nodes import NodeSet
from pliant.plan.cost import ResizeCost
from pliant.policy.malleable import Malleable
from pliant.policy.registry import KEEPING, POLICIES
from pliant.policy.view import ClusterView, Decision, Reason, Start
from pliant.sim.simulator import simulate as run_simulation
from pliant.workloads.job import SimJob
from pliant_lab.commands import bench, bench_bursts, bench_machines

TRACE = "; MaxProcs: 4\n1 0 0 10 3 -1 -1 3 10\n2 0 0 5 4 -1 -1 4 5\n3 0 0 10 1 -1 -1 1 10\n"
BATCH = """
[cluster]
nodes = 4
policy = "malleable"
[[jobs]]
name = "a"
command = "true"
nodes = {min = 1, max = 4}
model = {work_s = 100}
"""


def test_a_trace_as_json(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text(TRACE)
    figures = simulated(str(tmp_path / "x.swf"))
    assert (figures["jobs"], figures["failed"]) == (3, 0)
    assert figures["wait_mean_s"] == pytest.approx(10 / 3)
    assert figures["makespan_s"] == 15.0
    assert set(figures) >= {
        "wait_max_s", "bounded_slowdown_mean", "utilisation", "turnaround_mean_s", "expands", "shrinks", "cpu_s",
        "jobs_per_cpu_s", "peak_mb",
    }  # fmt: skip


def test_a_batch_as_a_table_and_rigid(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(BATCH)
    assert "malleable on 4 nodes" in command("simulate", str(tmp_path / "b.toml"))
    malleable = simulated(str(tmp_path / "b.toml"))
    rigid = simulated(str(tmp_path / "b.toml"), "--rigid", "--policy", "easy")
    assert malleable["expands"] == 1
    assert malleable["makespan_s"] < 30
    assert rigid["makespan_s"] > 100


def test_passes_at_multiples_of_an_interval(tmp_path: Path) -> None:
    """The second job is there at 0, waits for a node until 5, and for the pass until 8; the third until 16."""
    path = tmp_path / "x.swf"
    path.write_text("; MaxProcs: 1\n1 0 0 5 1\n2 0 0 5 1\n3 3 0 5 1\n")
    waits = [simulated(str(path), *more)["wait_mean_s"] for more in PASSES]
    assert waits == [pytest.approx((0 + 5 + 7) / 3), pytest.approx((0 + 8 + 13) / 3)]
    (tmp_path / "b.toml").write_text(
        "[cluster]\nnodes = 1\npass_interval_s = 8\n"
        '[[jobs]]\ncount = 2\ncommand = "true"\nmodel = {work_s = 5}\n'
    )
    figures = simulated(str(tmp_path / "b.toml"), "--cost", "none")
    assert figures["wait_mean_s"] == 4.0
    with pytest.raises(BatchError, match="--pass-interval: inf is no number of seconds"):
        command("simulate", str(path), "--pass-interval", "inf")


def test_a_start_that_takes_longer_than_the_deadline_is_seen() -> None:
    """Groups that take a minute to start: with 30 s for it some growth is called off, and where nobody says how long it
    may take none is. (A job that is heard of seldom has more anyhow.)"""
    said = ("simulate", "lublin:200", "--nodes", "32", "--malleable", "100", "--policy", "malleable")
    slow = (*said, "--cost", "start_s=60,start_each_s=0", "--json")

    def row(*more: str) -> dict[str, float]:
        [found] = json.loads(command(*slow, *more))["rows"]
        return {key: found[key]["mean"] for key in ("expands", "resizes_withdrawn")}

    assert row("--resize-deadline", "30")["resizes_withdrawn"] > 5
    patient = row()
    assert patient["expands"] > 100
    assert patient["resizes_withdrawn"] == 0
    assert row("--cooldown", "1e6")["expands"] < patient["expands"] / 2
    assert row("--offer-deadline", "0.01")["resizes_withdrawn"] > 5
    assert "with-" in command(*said, "--cost", "start_s=60", "--resize-deadline", "30")
    assert "with-" not in command(*said, "--cost", "none")


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("starts=60", "there is no 'starts'; did you mean 'start_s'"),
        ("start_s=soon", "start_s=soon is no number of seconds; write start_s=1.5"),
        ("start_s=1,blocked_s=-1", "blocked_s is -1; it must be 0 or more seconds"),
        ("start_s=inf", "start_s is inf"),
    ],
)
def test_costs_that_are_none(cost: str, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        command("simulate", "lublin:10", "--cost", cost)


PASSES: list[list[str]] = [[], ["--pass-interval", "8"]]


@pytest.mark.parametrize(
    ("name", "text", "arguments", "message"),
    [
        ("x.csv", "", [], "neither a trace"),
        ("x.swf", "1 0 0 10 3", [], "give --nodes"),
        ("x.swf", TRACE, ["--policy", "esay"], "did you mean 'easy'"),
        ("x.swf", TRACE, ["--start", "most"], "no start rule 'most'"),
        ("x.swf", TRACE, ["--nodes", "2", "--strict"], "needs 3 processors"),
        (
            "x.swf",
            TRACE[:-22],
            ["--nodes", "2"],
            r"x\.swf: none of its jobs \(2\) fits on 2 nodes: the narrowest needs 3; give more by --nodes",
        ),
        ("j.json", "[]", ["--nodes", "2"], "there are no jobs"),
        ("b.toml", BATCH.replace("min = 1", "min = 3"), ["--nodes", "2"], "could never start"),
    ],
)
def test_what_cannot_be_simulated(
    tmp_path: Path, name: str, text: str, arguments: list[str], message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises((TraceError, BatchError, PolicyError), match=message):
        command("simulate", str(tmp_path / name), *arguments)


def test_a_trace_with_jobs_too_wide_runs_and_says_so(tmp_path: Path) -> None:
    file, page = tmp_path / "x.swf", tmp_path / "out.html"
    wide = "".join(f"{number} 9 0 5 {number} -1 -1 {number} 5\n" for number in range(5, 12))
    file.write_text(TRACE + "4 5 0 -1 4\n" + wide)
    asked = ["simulate", str(file)]
    done = CliRunner().invoke(made(), [*asked, "--json"])
    assert done.stderr == (
        "pliant simulate: left out 7 of 10 jobs, too wide for 4 nodes: "
        "5 (5), 6 (6), 7 (7), 8 (8), 9 (9), ...; --strict refuses them\n"
    )
    figures = run_of(done.stdout)
    assert (figures["jobs"], figures["left_out"], figures["too_wide"]) == (3, 1, 7)
    file.write_text(TRACE)
    without = run_of(command(*asked, "--json"))
    assert (without["left_out"], without["too_wide"]) == (0, 0)
    assert all(figures[key] == without[key] for key in ("makespan_s", "wait_mean_s", "utilisation"))
    file.write_text(TRACE + "4 5 0 -1 4\n" + wide)
    shown = CliRunner().invoke(made(), [*asked, "--report", str(page)])
    assert "in the trace, but did not run │ 1" in " ".join(shown.stdout.split())
    assert "too wide for the machine, left out │ 7" in " ".join(shown.stdout.split())
    assert "1 job of the trace left out, for want of a run time or processors" in page.read_text()
    assert "7 jobs left out, too wide for the machine" in page.read_text()
    data = json.loads(page.with_suffix(".json").read_text())["simulated"]
    assert (data["left_out"], data["too_wide"], data["jobs"]) == (1, 7, 3)
    with pytest.raises(TraceError, match="job 5 needs 5 processors and there are 4"):
        command(*asked, "--strict")


PARTS = """\
; MaxProcs: 8
1 0 0 100 4 -1 -1 4 200 -1 1 1 1 1 0 1 -1 -1
1 0 0 40 4 -1 -1 4 200 -1 2 1 1 1 0 1 -1 -1
1 -1 60 60 4 -1 -1 4 200 -1 3 1 1 1 0 1 -1 -1
2 5 0 10 4 -1 -1 4 200 -1 0 1 1 1 0 1 1 7
2 5 0 4 4 -1 -1 4 200 -1 2 1 1 1 0 1 -1 -1
2 -1 9 6 4 -1 -1 4 200 -1 4 1 1 1 0 1 -1 -1
"""
"""Two jobs that were swapped out in between, each with a line for all of it and then its two parts."""


def test_lines_of_parts_of_jobs_are_left_out_and_it_is_said(tmp_path: Path) -> None:
    file = tmp_path / "x.swf"
    file.write_text(PARTS)
    asked = ["simulate", str(file), "--policy", "fcfs"]
    done = CliRunner().invoke(made(), [*asked, "--json"])
    what = "4 lines of parts of jobs, with a status of 2 to 4 (2 jobs, first 1)"
    assert f"{what}: left out, as the job's own line has its whole run time\n--strict refuses" in done.stderr
    figures = run_of(done.stdout)
    assert (figures["jobs"], figures["left_out"], figures["makespan_s"]) == (2, 0, 100.0)
    assert [(row["jobs"], row["first"]) for row in figures["unmapped"]] == [(2, "1")]
    assert run_of(command(*asked, "--dependencies", "--json"))["makespan_s"] == 100 + 7 + 10
    with pytest.raises(
        TraceError, match=r"x\.swf: 1 thing is not simulated as it is meant:\n  4 lines of parts"
    ):
        command(*asked, "--strict")
    file.write_text(
        "".join(
            line for line in PARTS.splitlines(keepends=True) if line[0] == ";" or line.split()[10] in "01"
        )
    )
    assert run_of(command(*asked, "--json"))["unmapped"] == []


def test_a_study_leaves_out_what_is_too_wide_before_it_makes_jobs_malleable(tmp_path: Path) -> None:
    """Half of 5 nodes would fit; but the job needed 5."""
    file = tmp_path / "x.swf"
    file.write_text(TRACE + "4 5 0 9 5\n")
    asked = ["simulate", str(file), "--malleable", "0,100", "--workers", "1"]
    done = CliRunner().invoke(made(), [*asked, "--json"])
    assert done.stderr.count("left out 1 of 4 jobs, too wide for 4 nodes: 4 (5); --strict") == 1
    rows = json.loads(done.stdout)["rows"]
    assert [(row["too_wide"]["mean"], row["left_out"]["mean"]) for row in rows] == [(1, 0), (1, 0)]
    assert "too" in command(*asked).split()


def test_an_unbounded_preference_is_no_width(tmp_path: Path) -> None:
    """A journal's job that could use more nodes than there are starts with fewer; with --rigid it cannot."""
    spec = JobSpec(name="a", nodes=Bounds(1, 8, preferred=8), walltime_s=9.0)
    lines = [r.NodesGranted(0.0, NodeSet.first(8)), r.JobSubmitted(0.0, 1, spec)]
    lines += [r.JobSubmitted(0.0, 2, msgspec.structs.replace(spec, name="b", nodes=Bounds.exactly(2)))]
    file = tmp_path / "records.ndjson"
    header = header_line(Header(began="", policy="easy"))
    file.write_bytes(header + b"".join(map(r.to_line, lines)))
    asked = ["simulate", "--from-records", str(file), "--nodes", "4", "--json"]
    assert (whole := run_of(command(*asked)))["jobs"] == 2
    assert whole["too_wide"] == 0
    assert (rigid := run_of(command(*asked, "--rigid")))["jobs"] == 1
    assert rigid["too_wide"] == 1


RESIZED = """\
[cluster]
nodes = 4
policy = "malleable"
[[jobs]]
name = "long"
command = "true"
nodes = { min = 1, max = 4, preferred = 3 }
model = { work_s = 30 }
[[jobs]]
name = "wide"
submit = 1
command = "true"
nodes = { min = 1, max = 4, preferred = 4 }
model = { work_s = 40 }
"""


def test_a_what_if_under_a_policy_that_resizes_nothing_is_rigid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the one node that is free the wide job would run for 40 s, as nobody would ever let it grow."""
    monkeypatch.chdir(tmp_path)
    Path("b.toml").write_text(RESIZED)
    command("simulate", "b.toml", "--cost", "none", "--records", "r.ndjson")

    def end(*more: str, journal: str = "r.ndjson") -> float:
        return float(simulated("--from-records", journal, "--cost", "none", *more)["makespan_s"])

    for policy in KEEPING:
        assert end("--policy", policy) == end("--policy", policy, "--rigid") == pytest.approx(20.0)
        assert end("--policy", policy, "--start", "preferred") == pytest.approx(41.0)
        kept = simulated("--from-records", "r.ndjson", "--policy", policy, "--start", "preferred")
        assert kept["expands"] + kept["shrinks"] == 0
    assert end("--policy", "easy:start=preferred") == pytest.approx(41.0)
    assert end() == end("--policy", "malleable") < 19.0
    # A run that resized nothing chose sizes at the start, and does so again.
    command("simulate", "b.toml", "--cost", "none", "--policy", "easy", "--records", "easy.ndjson")
    assert end(journal="easy.ndjson") == end("--policy", "easy", journal="easy.ndjson") == pytest.approx(41.0)
    assert end("--policy", "easy", "--nodes", "2") == end(
        "--policy", "easy", "--nodes", "2", "--start", "max"
    )


def test_a_report_of_a_simulation(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text(TRACE)
    file = tmp_path / "out.html"
    command("simulate", str(tmp_path / "x.swf"), "--report", str(file), "--order", "shortest", "--rigid")
    text = file.read_text(encoding="utf-8")
    assert "<h1>Simulated: easy by shortest ran 3 jobs of x.swf on 4 nodes in 15.0 s</h1>" in text
    assert "3 jobs · every job at its preferred size</p>" in text
    assert json.loads((tmp_path / "out.json").read_bytes())["simulated"]["workload"] == "x.swf"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "out.json", "x.swf"]


def test_a_report_of_many_jobs_stays_small(tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    figures = simulated("lublin:500", "--malleable", "50", "--report", str(file))
    assert figures["jobs"] == 500
    text = file.read_text(encoding="utf-8")
    assert "policy malleable" in text
    assert (
        "50 % of rigid jobs made malleable: 0.5 to 2 times their nodes, serial ones rigid · resizes" in text
    )
    assert "<tr data-job" not in text
    assert len(text) < 1_000_000


@pytest.mark.parametrize(
    ("place", "arguments", "message"),
    [
        ("out.html", ["--seeds", "3"], "shows one simulation, and --seeds asks for 3; give one seed"),
        ("out.html", ["--malleable", "0,50"], "and --malleable asks for 2; give one percentage"),
        ("out.json", [], "name the HTML file"),
        ("gone/out.html", [], "there is no directory"),
        ("folder", [], "is there, and is no file"),
        ("a" * 300 + ".html", [], "cannot be written: File name too long"),
        ("out.html", [], "missing.swf"),
    ],
)
def test_a_report_that_cannot_be_is_refused_before_the_simulation(
    tmp_path: Path, place: str, arguments: list[str], message: str
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises((BatchError, TraceError), match=message):
        command("simulate", str(tmp_path / "missing.swf"), "--report", str(tmp_path / place), *arguments)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["--report", "jobs.html"], r"jobs\.json: it would be written, and is an input"),
        (["--jobs-csv", "jobs.json"], r"jobs\.json: it would be written, and is an input"),
        (["--jobs-csv", "fail.csv", "--failures", "fail.csv"], "and is an input"),
        (["--jobs-csv", "mine.py", "--policy", "mine.py:Mine"], "and is an input"),
        (["--report", "new.html", "--jobs-csv", "new.json"], "two outputs would be written there"),
    ],
)
def test_no_output_takes_the_place_of_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outputs: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {"jobs.json": "{}", "fail.csv": "0,5,20\n", "mine.py": "class Mine: ..."}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BatchError, match=message):
        command("simulate", "jobs.json", "--nodes", "4", *outputs)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.swf", "--weight", "a=1"], "--weight changes nothing without"),
        (["--from-records", "x.swf"], r"a journal is called records\.ndjson"),
        (["--from-records", "pliant-runs"], r"name that file, as pliant-runs/records\.ndjson"),
    ],
)
def test_options_that_would_do_nothing(arguments: list[str], message: str) -> None:
    with pytest.raises(BatchError, match=message):
        command("simulate", *arguments)


def test_a_report_that_fails_leaves_the_former_one(tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    file.write_text("former")
    (tmp_path / "x.swf").write_text(TRACE)
    with pytest.raises(PolicyError, match="stuck"):
        command("simulate", str(tmp_path / "x.swf"), "--policy", f"{__file__}:Lazy", "--report", str(file))
    assert file.read_text() == "former"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "x.swf"]


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark of a second."""
    monkeypatch.setattr(bench, "QUICK_JOBS", 100)
    monkeypatch.setattr(bench_bursts, "SHORT", 20)
    monkeypatch.setattr(bench_bursts, "LONG", 80)
    monkeypatch.setattr(bench_machines, "JOBS", 10)


def test_the_ratio_of_bursts_is_that_of_neighbours_whatever_the_machine_does_meanwhile() -> None:
    pairs = [bench_bursts.Pair(1.0, 4.0), bench_bursts.Pair(2.0, 10.0), bench_bursts.Pair(4.0, 12.0)]
    assert bench_bursts.cost(pairs) == (2.0, 10.0, 4.0)
    figures = bench_bursts.figures({"easy": bench_bursts.cost(pairs)})
    assert figures == {
        "easy_burst_1000_s": 2.0,
        "easy_burst_4000_s": 10.0,
        "burst_4000_over_1000": {"easy": 4.0},
    }


@pytest.mark.long
@pytest.mark.usefixtures("_small")
def test_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / bench.TRACE).write_text(TRACE)
    figures = json.loads(command("bench", "simulator", "--traces", str(tmp_path), "--quick", "--json"))
    assert (figures["jobs"], figures["nodes_placed"], len(figures["runs"])) == (3, 8, bench_bursts.BRIEF)
    for key in ("easy_kth_jobs_per_cpu_s", "lublin_jobs_per_cpu_s", "malleable_jobs_per_cpu_s", "peak_mb"):
        assert figures[key] > 0
    assert sorted(figures["burst_80_over_20"]) == sorted(POLICIES)
    assert all(figures[f"{name}_burst_{count}_s"] > 0.0 for name in POLICIES for count in (20, 80))
    assert figures["marginal_jobs_per_cpu_s"] > 0
    for suffix in ("", "_scaled"):
        ratios = figures[f"nodes_100000_over_128{suffix}"]
        assert sorted(ratios) == sorted(POLICIES)
        assert min(ratios.values()) > 0
    assert [job.spec.submit_s for job in bench_bursts.burst(3, 100.0)] == [0.0] * 3
    assert "malleable" in command("bench", "simulator", "--traces", str(tmp_path), "--quick")
    monkeypatch.setenv("PLIANT_TRACES", str(tmp_path / "elsewhere"))
    with pytest.raises(TraceError, match="elsewhere; name its folder by --traces"):
        command("bench", "simulator")


@pytest.mark.usefixtures("_small")
def test_traces_are_only_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder beside the working directory is none of Pliant's business, whatever it is called."""
    near = tmp_path / "shared" / "traces"
    near.mkdir(parents=True)
    (near / bench.TRACE).write_text(TRACE)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("PLIANT_TRACES", raising=False)
    with pytest.raises(TraceError, match="Name its folder by --traces or in PLIANT_TRACES"):
        command("bench", "simulator", "--quick")
    monkeypatch.setenv("PLIANT_TRACES", str(near))
    assert "malleable" in command("bench", "simulator", "--quick")


class Lazy:
    """A policy that starts nothing."""

    name = "lazy"

    def decide(self, view: ClusterView) -> Iterable[Decision]:  # noqa: ARG002
        return []


class Greedy(Lazy):
    """A policy that starts what does not fit."""

    name = "greedy"

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        return [Start(job.id, job.bounds.max, Reason("now")) for job in view.queue]


def test_policies_that_do_nothing_or_too_much_are_named() -> None:
    jobs = [SimJob(JobSpec(name=name, nodes=Bounds.exactly(3)), 5.0) for name in ("anna", "berta")]
    with pytest.raises(
        PolicyError, match=r"'lazy' is stuck at 0\.000 s: 2 jobs wait \(anna, berta\), 4 of 4"
    ):
        run_simulation(jobs, 4, Lazy())
    with pytest.raises(PolicyError, match=r"'greedy' .* only 1 node is free"):
        run_simulation(jobs, 4, Greedy())


def test_work_progresses_at_the_size_in_use() -> None:
    """100 node-seconds: alone on 4 nodes after an expansion from 1, with every cost of it on paper."""
    spec = JobSpec(name="a", nodes=Bounds(1, 4, 4), job_class=JobClass.MALLEABLE, walltime_s=100.0)
    cost = ResizeCost(start_s=1.0, start_each_s=1.0, blocked_s=2.0, leave_s=0.5, answer_s=3.0)
    figures = measured([SimJob(spec, 100.0)], 4, Malleable("min"), Settings(cost=cost))
    # Offered at 0, done after 3 + 1 + 3 + 2 s, of which it computes 7 s on 1 node; without a model its
    # speed-up counts as linear.
    [resize] = figures.jobs[0].resizes
    assert (resize.offered_s, resize.done_s) == (0.0, 9.0)
    assert figures.jobs[0].end_s == pytest.approx(9.0 + 93.0 / 4)
    assert figures.resizing_node_s == pytest.approx(3 * 9.0)

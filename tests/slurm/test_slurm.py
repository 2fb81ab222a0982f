"""Inside a Slurm allocation: a program launched, and a batch run, on its nodes by srun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pliant.apps.heat import solve_serial
from pliant.core import records as r

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "live"))

from tree_roots import Root

PLIANT = str(Path(sys.executable).with_name("pliant"))
ALLOCATION = ["salloc", "--nodes=4", "--quiet"]
PATIENCE_S = 60.0
UNTIL = Path(__file__).parents[1] / "live/programs/until.py"
MARK = "PLIANT_TEST_SLURM"
HEAT = "python -m pliant.apps.heat --rows 64 --cols 64 --steps 40"
BATCH = f"""
[cluster]
nodes = 3
[[jobs]]
name = "solver"
command = "{HEAT} --pace"
verify = "{HEAT} --serial"
nodes = {{ min = 1, max = 3 }}
walltime = 60
model = {{ work_s = 2.0 }}
[[jobs]]
name = "names"
command = "sh -c 'echo $SLURMD_NODENAME'"
kind = "tasks"
nodes = 3
"""


@contextmanager
def nothing_left() -> Iterator[dict[str, str]]:
    """The environment of a command, of which nothing is left at the end. An srun whose agent has ended may take a moment
    to end."""
    mark = uuid.uuid4().hex
    yield {**os.environ, MARK: mark}
    until(lambda: not left_of(mark), "nothing to be left")


def left_of(mark: str) -> list[bytes]:
    left = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                left.append((path / "cmdline").read_bytes())
        except OSError:
            continue
    return [each for each in left if b"pliant" in each]


def inside(*words: str, stdin: Any = None, **env: str) -> subprocess.CompletedProcess[str]:
    """``pliant`` in an allocation of all nodes; nothing of it is left."""
    with nothing_left() as mine:
        return subprocess.run(
            [*ALLOCATION, PLIANT, *words], env={**mine, **env}, stdin=stdin, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip


def allocation() -> str:
    """The number of the one that there is, if there is one."""
    listed = subprocess.run(
        ["squeue", "-h", "-o", "%i"], capture_output=True, text=True, timeout=60, check=True
    )
    return listed.stdout.strip()


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Run:
    """A batch in an allocation of all nodes, looked at and commanded from another terminal."""

    def __init__(self, place: Path, batch: str, env: dict[str, str]) -> None:
        self.env = env
        self.place = place
        (place / "batch.toml").write_text(batch)
        words = ["--provider", "slurm", "--interface", "lo", "--output", str(place / "out"), "--json"]
        with (place / "stdout").open("w") as out, (place / "stderr").open("w") as err:
            self.process = subprocess.Popen(
                [*ALLOCATION, PLIANT, "run", *words, str(place / "batch.toml")],
                env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip

    def records(self) -> list[r.AnyRecord]:
        path = self.place / "out/records.ndjson"
        lines = path.read_bytes().split(b"\n")[1:-1] if path.exists() else []
        return [r.from_line(line) for line in lines]

    @property
    def size(self) -> int:
        """Nodes that the job computes on."""
        nodes = 0
        for record in self.records():
            if isinstance(record, r.JobStarted):
                nodes = len(record.nodes)
            elif isinstance(record, r.ResizeDone):
                nodes += len(record.gained) - len(record.released)
        return nodes

    @property
    def returned(self) -> int:
        return sum(len(each.nodes) for each in self.records() if isinstance(each, r.NodesReturned))

    def until(self, true: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"{what}: {(self.place / 'stderr').read_text()}"
            assert self.process.poll() is None, f"{what}: {(self.place / 'stderr').read_text()}"
            time.sleep(0.05)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)

    def order(self, *words: str) -> str:
        done = subprocess.run(
            [PLIANT, *words], env=self.env, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr


@pytest.mark.parametrize("degree", ["direct", "2"])
def test_a_program_is_launched_on_all_nodes(slurm: Path, degree: str) -> None:
    words = [
        "--degree",
        degree,
        "--interface",
        "lo",
        "--json",
        "--",
        "sh",
        "-c",
        "hostname; echo $SLURMD_NODENAME",
    ]
    done = inside("launch", *words)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout)["outputs"]
    assert [each["stdout"].split()[1] for each in outputs] == ["node1", "node2", "node3", "node4"]
    assert len({each["stdout"].split()[0] for each in outputs}) == 1, "they are one machine"


def test_a_batch_runs_on_the_nodes_of_the_allocation(slurm: Path, tmp_path: Path) -> None:
    (tmp_path / "batch.toml").write_text(BATCH)
    words = ["--provider", "slurm", "--interface", "lo", "--output", str(tmp_path / "out"), "--json"]
    done = inside("run", *words, str(tmp_path / "batch.toml"), UCX_NET_DEVICES="lo")
    assert done.returncode == 0, done.stderr
    [run] = json.loads(done.stdout)["runs"]
    assert run["nodes"] == "node[1-3]"
    jobs = {job["name"]: job for job in run["jobs"]}
    assert jobs["solver"]["verified"]
    assert sorted((tmp_path / "out" / "names.log").read_text().split()) == ["node1", "node2", "node3"]


def test_a_job_grows_over_nodes_that_are_added_and_leaves_those_that_are_given_back(
    slurm: Path, tmp_path: Path
) -> None:
    """Each by an srun of its own; one that was given back is started anew."""
    flag = tmp_path / "flag"
    batch = f"""
[cluster]
nodes = 2
cooldown_s = 0.1
[[jobs]]
name = "solver"
command = "python {UNTIL} {flag}"
nodes = {{ min = 1, max = 4 }}
walltime = 60
"""
    with nothing_left() as mine, tempfile.TemporaryDirectory(prefix="pl-") as runtime:
        run = Run(tmp_path, batch, {**mine, "XDG_RUNTIME_DIR": runtime, "UCX_NET_DEVICES": "lo"})
        try:
            run.until(lambda: run.size == 2, "a job of 2 nodes")
            assert run.order("nodes", "add", "2").endswith(": 2 nodes more asked for\n")
            run.until(lambda: run.size == 4, "4 nodes, as there are")
            assert ": node[3-4] will be given back" in run.order("nodes", "remove", "node[3-4]")
            run.order("resize", "solver", "2")
            run.until(lambda: run.returned == 2, "nodes that have left")
            assert run.size == 2
            run.order("resize", "solver", "auto")
            assert run.order("nodes", "add", "1").endswith(": 1 node more asked for\n")
            run.until(lambda: run.size == 3, "one of them again")
            flag.touch()
            assert run.process.wait(PATIENCE_S) == 0, (tmp_path / "stderr").read_text()
        finally:
            run.end()
    [job] = json.loads((tmp_path / "stdout").read_text())["runs"][0]["jobs"]
    steps, found = job["result"].split()
    assert solve_serial(64, 64, int(steps)) == found


@pytest.mark.parametrize("taken_away", [["scancel"], ["scontrol", "update", "NumNodes=2"]])
def test_nothing_is_left_on_nodes_that_slurm_has_taken_away_once_a_next_run_is_there(
    slurm: Path, tmp_path: Path, taken_away: list[str]
) -> None:
    """Of a job that ends Slurm asks the agents to end. On nodes that a job loses it kills them at once."""
    out = tmp_path / "out"
    words = [
        "run",
        "--provider",
        "slurm",
        "--interface",
        "lo",
        "--output",
        str(out),
        "-N",
        "4",
        "--kind",
        "tasks",
    ]
    with nothing_left() as mine:
        env = {**mine, "TMPDIR": str(tmp_path)}
        process = subprocess.Popen(
            [*ALLOCATION, PLIANT, *words, "--", "sh", "-c", "echo up; sleep 600"],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        log = out / "sh.log"
        until(lambda: log.exists() and log.read_text() == "up\n" * 4, "four of them")
        job = allocation()
        order = [*taken_away, job] if taken_away == ["scancel"] else [*taken_away, f"JobId={job}"]
        subprocess.run(order, check=True, timeout=60, stdout=subprocess.DEVNULL)
        if taken_away != ["scancel"]:
            until(lambda: b"NodesLost" in (out / "records.ndjson").read_bytes(), "a loss")
            subprocess.run(["scancel", job], check=True, timeout=60)
        process.wait(PATIENCE_S)
        until(lambda: not allocation(), "the end of the allocation")
        # select/linear counts what a job has lost by a shrink as in use, for minutes.
        subprocess.run(["scontrol", "reconfigure"], check=True, timeout=60)
        assert inside("launch", "--interface", "lo", "--", "true", TMPDIR=str(tmp_path)).returncode == 0
    assert not list(tmp_path.glob("pliant-*"))


ENDS = """
[cluster]
nodes = 2
[[jobs]]
name = "runs"
command = ["sh", "-c", "trap 'echo in order; exit 3' TERM; echo up; while :; do sleep 0.1; done"]
kind = "tasks"
[[jobs]]
name = "needs-more"
command = "true"
walltime = 600
[[jobs]]
name = "waits"
command = "true"
kind = "tasks"
nodes = 2
"""


def ends_by_name(out: Path) -> dict[str, tuple[str, str]]:
    """State and error of each job that has ended, by name."""
    lines = (out / "records.ndjson").read_bytes().split(b"\n")[1:-1]
    records = [r.from_line(line) for line in lines]
    names = {each.job: each.spec.name for each in records if isinstance(each, r.JobSubmitted)}
    return {names[e.job]: (e.state.value, e.error) for e in records if isinstance(e, r.JobEnded)}


def test_jobs_are_ended_in_good_order_before_the_time_limit_of_the_allocation(
    slurm: Path, tmp_path: Path
) -> None:
    """The least that Slurm gives is a minute."""
    (tmp_path / "batch.toml").write_text(ENDS)
    words = [
        "--interface",
        "lo",
        "--output",
        str(tmp_path / "out"),
        "--report",
        str(tmp_path / "report.html"),
    ]
    with nothing_left() as mine:
        done = subprocess.run(
            [*ALLOCATION, "--time=1", PLIANT, "run", "--provider", "slurm", *words, str(tmp_path / "batch.toml")],
            env=mine, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    found = ends_by_name(tmp_path / "out")
    assert found["runs"] == ("TIMEOUT", "the time of the nodes is over")
    assert found["waits"][0] == found["needs-more"][0] == "CANCELLED"
    assert "it needs 600 s by its estimate" in found["needs-more"][1]
    assert (tmp_path / "out/runs.log").read_text().split("\n")[0] == "up"
    assert "in order" in (tmp_path / "out/runs.log").read_text()
    assert "the nodes are there for " in done.stdout
    assert "Slurm" not in done.stdout + done.stderr, "it has had nothing to end"
    assert (tmp_path / "report.html").exists()


def test_jobs_of_a_cancelled_allocation_are_told_as_cancelled_and_not_as_failed(
    slurm: Path, tmp_path: Path
) -> None:
    """In a job script, which Slurm tells to end as well."""
    out, script = tmp_path / "out", tmp_path / "script"
    script.write_text(
        f"#!/bin/sh\nexec {PLIANT} run --provider slurm --interface lo --output {out} --report {tmp_path}/report.html "
        "-N 3 --kind tasks -- sh -c 'echo up; exec sleep 600'\n"
    )
    with nothing_left() as mine:
        submit = ["sbatch", "--parsable", "--nodes=3", f"--output={tmp_path}/said", str(script)]
        job = subprocess.run(
            submit, env=mine, capture_output=True, text=True, timeout=60, check=True
        ).stdout.strip()
        log = out / "sh.log"
        until(lambda: log.exists() and log.read_text() == "up\n" * 3, "three of them")
        subprocess.run(["scancel", job], check=True, timeout=60)
        until(lambda: not allocation(), "the end of the allocation")
    assert ends_by_name(out) == {"sh": ("CANCELLED", f"Slurm job {job} was cancelled")}
    assert (tmp_path / "report.html").exists()
    said = (tmp_path / "said").read_text()
    assert "ended by signal" not in said


def test_a_command_reads_a_file_and_of_a_pipe_it_is_told_that_nobody_does(
    slurm: Path, tmp_path: Path
) -> None:
    words = [
        "run",
        "--provider",
        "slurm",
        "--interface",
        "lo",
        "--output",
        str(tmp_path / "out"),
        "--",
        "cat",
    ]
    given = tmp_path / "given"
    given.write_text("from a file\n")
    with given.open() as file:
        assert inside(*words, stdin=file).returncode == 0
    assert (tmp_path / "out/cat.log").read_text() == "from a file\n"
    read, write = os.pipe()
    os.write(write, b"from a pipe\n")
    os.close(write)
    done = inside(*words, stdin=read)
    os.close(read)
    assert (done.returncode, (tmp_path / "out/cat.log").read_text()) == (0, "")
    assert done.stderr.count("pliant: the job cannot read standard input: ") == 1


# ---- launch trees whose controller is killed ---------------------------------------------------------------


@contextmanager
def allocated() -> Iterator[dict[str, str]]:
    """The environment of who is in an allocation of all nodes, which does not end with a controller."""
    with nothing_left() as mine:
        holder = subprocess.Popen([*ALLOCATION, "cat"], env=mine, stdin=subprocess.PIPE)
        try:
            until(allocation, "the allocation")
            yield {**mine, "SLURM_JOB_ID": allocation(), "PLIANT_TEST_INTERFACE": "lo"}
        finally:
            holder.communicate(timeout=60)


def agents(env: dict[str, str]) -> set[int]:
    """Of the run with this environment: two processes a node."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if env[MARK].encode() in (path / "environ").read_bytes():
                words = (path / "cmdline").read_bytes()
                if b"pliant.launch.tree" in words and not words.startswith(b"srun"):
                    found.add(int(path.name))
    return found


def test_controllers_are_killed_and_agents_of_srun_stay(slurm: Path, tmp_path: Path) -> None:
    with allocated() as env:
        run = uuid.uuid4().hex[:8]
        nodes = ("node1", "node2", "node3")
        words = str(tmp_path / "kept"), run, "srun", "60", "direct", *nodes
        first = Root(*words, env=env)
        first.greeted(*nodes)
        first.order("more node4")
        first.greeted(*nodes, "node4")
        first.order("back node2")
        first.wait_for(lambda root: "node2" in root.gone)
        first.order("run node3 sleep 96")
        first.wait_for(lambda root: root.nodes("started"))
        there = agents(env)
        assert len(there) == 2 * 3
        first.kill()
        second = Root(*words, env=env)
        second.greeted("node1", "node3", "node4")
        second.order("more node2")
        second.greeted("node1", "node2", "node3", "node4")
        second.kill()
        third = Root(*words, env=env)
        third.greeted("node1", "node2", "node3", "node4")
        assert there < agents(env)
        assert not third.gone
        third.finish()
        until(lambda: not agents(env), "the end")


def test_agents_of_srun_that_find_no_controller_end_by_the_grace(slurm: Path, tmp_path: Path) -> None:
    with allocated() as env:
        nodes = ("node1", "node2", "node3", "node4")
        root = Root(str(tmp_path / "kept"), uuid.uuid4().hex[:8], "srun", "4", "direct", *nodes, env=env)
        root.greeted(*nodes)
        killed = root.kill()
        time.sleep(max(0.0, killed + 3.0 - time.monotonic()))  # the grace
        assert len(agents(env)) == 2 * len(nodes)
        until(lambda: not agents(env), "the end")
        assert time.monotonic() - killed < 4 + 8

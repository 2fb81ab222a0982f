"""``pliant run --hosts``: a batch over nodes that are reached by ssh, started and spoken to along a tree."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.apps.heat import solve_serial
from pliant.core import records as r
from pliant.testing.cluster import VirtualCluster, virtual_cluster

PLIANT = str(Path(sys.executable).with_name("pliant"))
MPI = {"MPIR_CVAR_CH4_NETMOD": "ofi"}
"""UCX takes all virtual nodes for one machine; by tcp alone, ranks that join hang in it every now and then."""
RING = Path(__file__).with_name("programs") / "ring.py"
UNTIL = Path(__file__).parents[1] / "live" / "programs" / "until.py"
HEAT = "python -m pliant.apps.heat --rows 64 --cols 64"
PATIENCE_S = 40.0


@pytest.fixture
def four(possible: None) -> Iterator[VirtualCluster]:
    """Four nodes; what a batch has is at the same path on all of them."""
    with virtual_cluster(nodes=4) as cluster:
        yield cluster


def job(name: str, command: str, nodes: str, **keys: Any) -> str:
    lines = [
        f"{key} = {json.dumps(value)}" for key, value in {"name": name, "command": command, **keys}.items()
    ]
    return "\n".join(["[[jobs]]", *lines, f"nodes = {nodes}", ""])


def heat(name: str, nodes: str, steps: int, **keys: Any) -> str:
    """A solver whose result is compared with a serial run's."""
    serial = f"{HEAT} --steps {steps} --serial"
    model = "model = { work_s = 5.0 }\n"
    return job(name, f"{HEAT} --steps {steps} --pace", nodes, verify=serial, walltime=60, **keys) + model


def records(place: Path) -> list[r.AnyRecord]:
    try:
        lines = (place / "out" / "records.ndjson").read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    return [r.from_line(line) for line in lines[1:-1]]


def wait_for(place: Path, kind: type[r.Record], count: int = 1) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while sum(isinstance(record, kind) for record in records(place)) < count:
        assert time.monotonic() < deadline, f"no {kind.__name__}: {records(place)}"
        time.sleep(0.02)


def left_behind(cluster: VirtualCluster, names: tuple[str, ...]) -> list[str]:
    """Processes and files of agents and jobs that are still there."""
    files = "ls -d /tmp/pliant-[0-9]* /dev/shm/pliant-* /dev/shm/mpich* 2>/dev/null"
    there = [line for name in names for line in cluster.run(["sh", "-c", files], on=name).stdout.splitlines()]
    return there + [str(process) for process in cluster.processes()]


def jobs_of(told: str) -> dict[str, dict[str, Any]]:
    return {job["name"]: job for job in json.loads(told)["runs"][0]["jobs"]}


def test_jobs_grow_and_shrink_over_hosts(four: VirtualCluster) -> None:
    """One goes on until it has grown and shrunk, a second is compared with a serial run, the third is one MPI world."""
    flag = four.place / "go"
    batch = four.place / "batch.toml"
    batch.write_text(
        "[cluster]\ncooldown_s = 0.2\n"
        + job("wide", f"python {UNTIL} {flag}", "{ min = 1, max = 4, preferred = 4 }", walltime=60)
        + heat("narrow", "{ min = 1, max = 2 }", 60, submit=1.0)
        + job("world", f"python -m mpi4py {RING}", "2", submit=1.2)
    )
    words = ["--hosts", "node[01-04]", "--degree", "2", "--output", str(four.place / "out"), "--json"]
    run = four.popen([PLIANT, "run", *words, str(batch)], env=MPI, stdout=-1, stderr=-1)
    try:
        wait_for(four.place, r.ResizeDone)
        four.run([PLIANT, "resize", "wide", "1"])  # refused if others have had it shrunk to that already
        wait_for(four.place, r.ResizeDone, 2)
        wait_for(four.place, r.JobEnded, 2)
        flag.touch()
        out, err = run.communicate(timeout=PATIENCE_S)
    finally:
        run.kill()
        run.communicate()
    assert run.returncode == 0, f"{err}\n{records(four.place)}"
    jobs = jobs_of(out)
    assert {name: job["state"] for name, job in jobs.items()} == dict.fromkeys(jobs, "COMPLETED")
    steps, found = jobs["wide"]["result"].split()
    assert solve_serial(64, 64, int(steps)) == found
    assert jobs["narrow"]["verified"]
    assert (four.place / "out" / "world.log").read_text().count(" of 2 heard ") == 2
    [granted] = [record for record in records(four.place) if isinstance(record, r.NodesGranted)]
    assert granted.names == four.names
    report = json.loads(out)["runs"][0]
    assert report["expands"]
    assert report["shrinks"]
    assert not left_behind(four, four.names)


def test_a_node_that_dies_is_lost_with_what_it_ran_and_no_more(four: VirtualCluster) -> None:
    """It is an inner one of the tree, a chain; jobs that need it fail, tasks go on elsewhere, and others never know."""
    batch, flag = four.place / "batch.toml", four.place / "go"
    wait = f"sh -c 'while [ ! -e {flag} ]; do sleep 0.05; done; echo done'"
    batch.write_text(
        "[cluster]\npolicy = 'fcfs'\n"
        + job("first", wait, "1")
        + job("both", wait, "2", kind="mpi")
        + job("last", wait, "1")
    )
    words = ["--hosts", "node[01-04]", "--degree", "1", "--output", str(four.place / "out"), "--json"]
    run = four.popen([PLIANT, "run", *words, str(batch)], stdout=-1, stderr=-1)
    wait_for(four.place, r.JobLaunched, 3)
    four.kill("node02")
    wait_for(four.place, r.JobEnded)
    flag.touch()
    out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 1
    assert "lost node02: the connection was closed" in err
    states = {name: job["state"] for name, job in jobs_of(out).items()}
    assert states == {"first": "COMPLETED", "both": "NODE_FAIL", "last": "COMPLETED"}
    assert not left_behind(four, ("node01", "node03", "node04"))


def test_hosts_that_cannot_be_had_are_named(four: VirtualCluster) -> None:
    four.kill("node03")
    words = ["--hosts", "node[01-04]", "--output", str(four.place / "out"), "--ssh-option=-oConnectTimeout=2"]
    done = four.run([PLIANT, "run", *words, "--", "true"], timeout_s=PATIENCE_S)
    assert done.returncode == 2
    assert (
        "1 of 4 nodes cannot be had: node03: ssh ended with code 255: ssh: connect to host node03"
        in done.stderr
    )
    assert not left_behind(four, ("node01", "node02", "node04"))


def test_places_on_several_hosts_find_each_other(four: VirtualCluster) -> None:
    """Each listens where the others reach its node."""
    words = [
        "--hosts",
        "node[01-03]",
        "-N",
        "3",
        "--kind",
        "places",
        "--output",
        str(four.place / "out"),
        "--json",
    ]
    program = str(Path(__file__).with_name("programs") / "where.py")
    done = four.run([PLIANT, "run", *words, "--", sys.executable, program], timeout_s=PATIENCE_S)
    [job] = jobs_of(done.stdout).values()
    assert (job["state"], job["result"]) == ("COMPLETED", "node01 node02 node03"), done.stderr
    assert not left_behind(four, four.names)

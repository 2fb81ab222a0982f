"""Ranks that end with exit code 0 too early, or leave their loop alone, and calls that are not supported: the job ends,
and says why."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from harness import PATIENCE_S, PLIANT, PROGRAMS, BatchRun, job, own_library

from pliant.model.flavours import INTEL

Start = Callable[..., BatchRun]
LEAVES = f"python {PROGRAMS / 'leaves.py'}"
SPAWNS = PROGRAMS / "spawns.py"


def ends_by_name(start: Start, *jobs: str, nodes: int = 2, slots: int = 1) -> dict[str, str]:
    """How jobs have ended."""
    run = start(f"nodes = {nodes}\nslots = {slots}", *jobs)
    return {name: each["error"] or each["state"] for name, each in run.finish(None).items()}


def test_a_rank_that_ends_with_0_before_mpi_finalize_is_named(start: Start) -> None:
    said = ends_by_name(
        start,
        job("one", f"{LEAVES} exit rigid", "1"),
        job("two", f"{LEAVES} exit rigid", "2"),
        job("malleable", f"{LEAVES} exit", "{ min = 1, max = 2 }"),
        job("none", "hostname", "2"),
        slots=2,
    )
    for name, rank in (
        ("one", "rank 1 on n"),
        ("two", "rank 3 on n1"),
        ("malleable", "rank 1 of group "),
    ):
        assert said[name].startswith(rank), said
        assert "ended with exit code 0 before MPI_Finalize" in said[name].splitlines()[0]
    assert said["none"] == "COMPLETED"


def test_so_it_is_by_pliant_launch() -> None:
    program = (sys.executable, PROGRAMS / "leaves.py", "exit", "rigid")
    words = (PLIANT, "launch", "-N", "2", "-n", "3", "--mpi", "--", *program)
    ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 1
    assert "process 2 on n1 ended with exit code 0 before MPI_Finalize" in ran.stderr


@pytest.mark.long
def test_a_block_is_left_by_all_ranks_alike(start: Start) -> None:
    impatient, two = f"env PLIANT_DEADLINE=1.5 {LEAVES}", "{ min = 2, max = 2 }"
    said = ends_by_name(
        start,
        job("sys", f"{impatient} sys", two),
        job("all", f"{impatient} break all", "2"),
        job("bare", f"{LEAVES} to-the-end bare", "{ min = 1, max = 2 }"),
        nodes=4,
    )
    assert "rank 1 has left its loop in step 30 of 1000, and rank 0 has not within 6 s" in said["sys"]
    assert "as to save a file, it does so after the loop" in said["sys"]
    assert said["all"] == "COMPLETED"
    assert "ended with exit code 0 before " in said["bare"]  # the end of its block, or MPI_Finalize


def test_who_spawns_is_told_what_works(start: Start) -> None:
    works = [job("works", f"python -m mpi4py.futures {SPAWNS}", "2")]
    if own_library().mpi.flavour == INTEL:
        works.clear()  # its ranks crash when they part
    said = ends_by_name(start, job("spawns", f"python {SPAWNS}", "1"), *works)
    assert "rank 0 called MPI_Comm_spawn, which is not supported" in said["spawns"]
    assert "python -m mpi4py.futures" in said["spawns"]
    assert not works or said["works"] == "COMPLETED"

"""Small malleable programs without a scheduler, each in processes of its own: alone or under mpiexec."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")

MPIEXEC = str(Path(sys.executable).with_name("mpiexec"))


def run(program: str, ranks: int = 0) -> tuple[int, str, str]:
    """The exit code, output and errors of a Python text on ``ranks`` ranks under mpiexec, or alone."""
    words = [sys.executable, "-c", program]
    if ranks:
        words = [MPIEXEC, "-n", str(ranks), *words]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return ran.returncode, ran.stdout, ran.stderr


ONE_BLOCK = (
    "a program has one `with mpi.malleable()` block with one steps() loop in it, and this one has had it"
)

AFTER = """
from pliant import mpi
with mpi.malleable() as job:
    for step in job.steps(3):
        pass
mpi.malleable()
"""
LEFT_EARLY = """
from pliant import mpi
try:
    with mpi.malleable() as job:
        raise SystemExit
except SystemExit:
    pass
with job:
    pass
"""
NESTED = """
from pliant import mpi
with mpi.malleable(), mpi.malleable():
    pass
"""


@pytest.mark.parametrize(
    ("program", "ranks"),
    [(AFTER, 0), (AFTER, 2), (LEFT_EARLY, 0), (NESTED, 2)],
    ids=["alone", "mpiexec", "left early", "nested"],
)
def test_a_second_block_is_refused_on_every_rank(program: str, ranks: int) -> None:
    code, _, errors = run(program, ranks)
    assert code == 1
    assert errors.count(ONE_BLOCK) >= 1
    if program is not NESTED:  # there the first rank that is refused ends the others
        assert errors.count(ONE_BLOCK) == max(1, ranks)


def test_bounds_that_were_refused_were_no_block_and_a_second_loop_is_told_what_to_do() -> None:
    program = """
from pliant import mpi
try:
    mpi.malleable(min=2, max=1)
except ValueError:
    print("refused")
with mpi.malleable() as job:
    list(job.steps(3))
    job.steps(3)
"""
    code, out, errors = run(program)
    assert (code, out) == (1, "refused\n")
    assert "a program has one steps() loop" in errors
    assert "put all phases into one loop" in errors

"""What the loop of a program changes beside its arrays and values, and newcomers do not have: it is kept, or found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import PROGRAMS, BatchRun
from test_bare import ONE, run

from pliant_lab.measure.trials import MPIEXEC

Start = Callable[..., BatchRun]
ROTATING, MISSES = str(PROGRAMS / "rotating.py"), str(PROGRAMS / "misses.py")
TWO = (str(MPIEXEC), "-launcher", "fork", "-hosts", "a:2", "-n", "2")
METHODS = ["merge", "baseline"]
REMEDY = "exchange the data of arrays by job.swap(a, b)"


@pytest.mark.parametrize("method", METHODS)
def test_arrays_that_are_swapped_by_the_job_are_right_after_any_resize(method: str) -> None:
    env = {"PLIANT_RESIZE_AT": "4:3,9:2", "PLIANT_RESIZE_METHOD": method, "PLIANT_VERIFY": "1"}
    ran = run(ONE, (ROTATING, "swap"), env)
    assert (ran.returncode, ran.stdout) == (0, "right\n"), ran.stderr


def test_what_is_exchanged_where_no_look_sees_it_ends_the_job_without_a_hang() -> None:
    """By the halo: each rank would wait for the other's."""
    ran = run(ONE, (ROTATING, "hidden"), {"PLIANT_RESIZE_AT": "4:2"})
    assert ran.returncode != 0
    assert not ran.stdout
    assert (
        "is in exchange_halo() of 'w' and waits for rank 1, which is in exchange_halo() of 'v'" in ran.stderr
        or (
            "is in exchange_halo() of 'v' and waits for rank 0, which is in exchange_halo() of 'w'"
            in ran.stderr
        )
    )
    assert REMEDY in ran.stderr


def test_ranks_that_gather_different_arrays_are_told_so() -> None:
    ran = run(TWO, (MISSES, "calls"), {})
    assert ran.returncode != 0
    assert "rank 0 is in gather() of 'a' and waits for rank 1, which is in gather() of 'b'" in ran.stderr

"""What the loop of a program changes beside its arrays and values, and newcomers do not have: it is kept, or found."""

from __future__ import annotations

import pytest
from harness import PROGRAMS
from test_bare import ONE, run

ROTATING = str(PROGRAMS / "rotating.py")


@pytest.mark.parametrize("method", ["merge", "baseline"])
def test_arrays_that_are_swapped_by_the_job_are_right_after_any_resize(method: str) -> None:
    env = {"PLIANT_RESIZE_AT": "4:3,9:2", "PLIANT_RESIZE_METHOD": method}
    ran = run(ONE, (ROTATING, "swap"), env)
    assert (ran.returncode, ran.stdout) == (0, "right\n"), ran.stderr

"""Programs that do what comes naturally and cannot be right: they are told so, and nothing else is harmed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness import BatchRun, job

Start = Callable[..., BatchRun]

ONE_BLOCK = "a program has one `with mpi.malleable()` block"
TWICE = """
from pliant import mpi
for _ in range(2):
    with mpi.malleable(min=1, max=4) as job:
        for step in job.steps(3):
            pass
"""
NESTED = """
from pliant import mpi
with mpi.malleable(min=1, max=4) as job:
    for step in job.steps(3):
        with mpi.malleable(min=1, max=4):
            pass
"""


def test_programs_that_cannot_be_right_are_told_so(start: Start, tmp_path: Path) -> None:
    def program(name: str, text: str) -> str:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        return f"python {path}"

    run = start(
        "nodes = 4\ncooldown_s = 60",
        job("twice", program("twice", TWICE), "{ min = 2, max = 3 }"),
        job("nested", program("nested", NESTED), "2"),
    )
    jobs = run.finish(code=1)
    for name in ("twice", "nested"):
        assert (jobs[name]["state"], jobs[name]["exit_code"]) == ("FAILED", 1)
        assert ONE_BLOCK in jobs[name]["error"]

"""What a look through the process table finds, with real children."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.launch import processes
from pliant.live.node.register import GROUP, JOB, NODE, RUN

PATIENCE_S = 20.0


def family(run: str, **cookie: str) -> tuple[subprocess.Popen[bytes], int]:
    """A child with a child of its own, and that one's pid."""
    env = {**os.environ, RUN: run, NODE: "n0", **cookie} if cookie else dict(os.environ)
    child = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], env=env, start_new_session=True)
    deadline = time.monotonic() + PATIENCE_S
    while not (below := grandchildren(child.pid)):
        assert time.monotonic() < deadline
    return child, below.pop()


def grandchildren(pid: int) -> set[int]:
    """Those that have become ``sleep``: before that they may still be a copy of the shell."""
    found = set()
    for child in processes.children(pid):
        if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"sleep"):
            found.add(child)
    return found


@pytest.fixture
def families() -> Iterator[dict[str, tuple[subprocess.Popen[bytes], int]]]:
    run = f"scan{os.getpid()}"
    made = {
        "helper": family(run),
        "one": family(run, **{JOB: "1", GROUP: "0"}),
        "kept": family(run, **{JOB: "1", GROUP: "1"}),
        "other": family(run, **{JOB: "2", GROUP: "0"}),
    }
    yield made
    for child, below in made.values():
        processes.kill(below)
        child.kill()
        child.wait()


def test_helpers_and_what_comes_from_them_are_no_strays(
    families: dict[str, tuple[subprocess.Popen[bytes], int]],
) -> None:
    run = f"scan{os.getpid()}"
    pids = {name: {child.pid, below} for name, (child, below) in families.items()}
    ours = set().union(*pids.values())
    helper = families["helper"][0].pid
    others = processes.children() - ours

    def found(job: int | None, keep: tuple[tuple[int, int], ...], *known: int) -> set[int]:
        return set(processes.scan(run, "n0", job, keep, {*known, *others})) & ours

    assert found(1, ((1, 1), (2, 0)), helper) == pids["one"]
    # Without a register of helpers, one would be taken for a stray and killed.
    assert found(1, ((1, 1), (2, 0))) == pids["one"] | pids["helper"]
    assert found(2, ((1, 0), (1, 1)), helper) == pids["other"]
    assert found(None, ()) == ours
    assert helper not in processes.orphans({helper, *others})
    assert families["helper"][1] not in processes.orphans({helper, *others})

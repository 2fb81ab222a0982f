"""Real MPI jobs that move data by themselves while they are resized, in steps and in loops of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest
from harness import PROGRAMS, BatchRun, job, pliant, until
from test_bare import ONE, run
from test_migrate import KEEP, is_resize

from pliant.core import records as r
from pliant.core.moving import ASKED_BACK
from pliant.model.nodes import NodeSet

Start = Callable[..., BatchRun]
PROGRAM = PROGRAMS / "carries.py"


def serial(turns: int) -> str:
    numbers = list(range(97))
    for _ in range(turns):
        numbers = [number * 3 % 10007 for number in numbers]
    return f"{turns} {crc32(repr(numbers).encode())}"


def start_run(start: Start, flag: Path, how: str, *more: str, nodes: int = 4, preferred: int = 1) -> BatchRun:
    command = f"python {PROGRAM} {how} {flag} {' '.join(more)}"
    started = start(
        f"nodes = {nodes}\n{KEEP}", job("a", command, f"{{ min = 1, max = 4, preferred = {preferred} }}")
    )
    started.wait_for(r.JobMalleable)
    return started


def is_right(started: BatchRun, flag: Path) -> bool:
    flag.touch()
    result = started.finish()["a"]["result"]
    return bool(result == serial(int(result.split()[0])))


def resized(started: BatchRun, number: int, size: int) -> r.ResizeDone:
    until(lambda: started.order("a", str(size)).returncode == 0, f"an order to {size} nodes")
    done: r.ResizeDone = started.wait_for(r.ResizeDone, partial(is_resize, number))
    return done


@pytest.mark.long
@pytest.mark.parametrize("how", ["steps", pytest.param("own", marks=pytest.mark.long)])
def test_a_list_that_a_program_moves_is_that_of_a_serial_run(start: Start, tmp_path: Path, how: str) -> None:
    flag = tmp_path / "flag"
    started = start_run(start, flag, how)
    for number, size in enumerate((3, 2, 1), 1):
        resized(started, number, size)
    assert is_right(started, flag), started.story()


@pytest.mark.long
@pytest.mark.parametrize("how", ["steps", "own"])
def test_what_a_hook_raises_undoes_the_resize_and_says_where(start: Start, tmp_path: Path, how: str) -> None:
    flag = tmp_path / "flag"
    started = start_run(start, flag, how, "bad")
    assert started.order("a", "3").returncode == 0
    failed = started.wait_for(r.ResizeFailed)
    assert "on rank 1 carry() that is called during a resize (ValueError: not this one)" in failed.error
    assert is_right(started, flag), started.story()


def test_a_list_moves_where_the_program_resizes_itself() -> None:
    ran = run(ONE, (str(PROGRAM), "steps", "40"), {"PLIANT_RESIZE_AT": "10:3,20:2"})
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [serial(40)]


@pytest.mark.long
def test_a_loop_of_its_own_leaves_nodes_that_are_asked_back(start: Start, tmp_path: Path) -> None:
    """It moves to a node that is free, and then there is none and it becomes smaller."""
    flag = tmp_path / "flag"
    started = start_run(start, flag, "own", nodes=3, preferred=2)
    for node in (0, 1):
        assert "will be given back" in pliant(started, "nodes", "remove", f"n{node}")
        started.wait_for(r.NodesReturned, partial(has, NodeSet.of([node])))
    assert is_right(started, flag), started.story()
    assert {each.reason.code for each in started.records() if isinstance(each, r.ResizeOffered)} == {
        ASKED_BACK
    }
    said = "".join(path.read_text() for path in started.out.glob("*.log"))
    assert "MIGRATE True" in said
    assert "SHRINK True" in said


@pytest.mark.long
def test_each_rank_that_leaves_has_acknowledged_its_shrink(start: Start, tmp_path: Path) -> None:
    """The scheduler takes no node of a shrink for free before all ranks there have said goodbye and ended."""
    flag = tmp_path / "flag"
    started = start_run(start, flag, "own")
    resized(started, 1, 3)
    done = resized(started, 2, 1)
    clean = started.wait_for(r.NodesClean)
    assert clean.at >= done.at
    until(lambda: left_nodes(started) == done.released.mask, "all nodes that were given back to be clean")
    assert is_right(started, flag), started.story()


def has(nodes: NodeSet, record: r.NodesReturned) -> bool:
    return record.nodes == nodes


def left_nodes(started: BatchRun) -> int:
    nodes = 0
    for each in started.records():
        if isinstance(each, r.NodesClean):
            nodes |= each.nodes.mask
    return nodes

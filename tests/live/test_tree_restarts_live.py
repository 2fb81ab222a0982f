"""Launch trees whose controller is killed: agents go on, another one takes them up, or they end by the grace."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from harness import PROGRAMS, alive, parent, until
from tree_roots import Root

from pliant.launch.tree import kept

NODES = ("n0", "n1", "n2", "n3", "n4")


def agents(mark: str) -> set[int]:
    """Two processes a node."""
    return alive(mark, "pliant.launch.tree")


def test_two_controllers_in_a_row_are_killed_and_agents_and_their_work_stay(
    mark: str, tmp_path: Path
) -> None:
    words = str(tmp_path / "kept"), mark[:8], "fork", "60", "2", *NODES
    first = Root(*words)
    first.greeted(*NODES)
    assert kept.read(tmp_path / "kept").nodes == dict(enumerate(NODES, 1))
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o600
    first.order("more n5")
    first.order("run n2 sleep 311")
    first.order("back n1")
    first.wait_for(lambda root: "n1" in root.gone)
    first.greeted(*NODES, "n5")
    until(lambda: bool(alive(mark, "sleep 311")), "its work")
    before = agents(mark) | alive(mark, "sleep 311")
    assert len(before) == 2 * 5 + 1
    first.kill()
    second = Root(*words)
    there = {"n0", "n2", "n3", "n4", "n5"}
    second.greeted(*there)
    second.order("more n6")
    second.greeted(*there, "n6")
    second.order("back n4")
    second.wait_for(lambda root: "n4" in root.gone)
    second.kill()
    third = Root(*words)
    third.greeted(*(there - {"n4"}), "n6")
    assert alive(mark, "sleep 311") < before, "what runs there is what ran there"
    assert len(agents(mark) & before) == 2 * 4
    assert kept.read(tmp_path / "kept").nodes == {1: "n0", 3: "n2", 4: "n3", 6: "n5", 7: "n6"}
    assert not third.gone
    third.finish()
    assert not agents(mark), "the last one has waited for all"


@pytest.mark.long
def test_agents_that_find_no_controller_end_by_the_grace_and_leave_nothing(mark: str, tmp_path: Path) -> None:
    root = Root(str(tmp_path / "kept"), mark[:8], "fork", "4", "1", *NODES)
    root.greeted(*NODES)
    root.order("run n4 sleep 312")
    until(lambda: bool(alive(mark, "sleep 312")), "its work")
    killed = root.kill()
    time.sleep(max(0.0, killed + 3.0 - time.monotonic()))  # the grace
    assert len(agents(mark)) == 2 * len(NODES)
    assert alive(mark, "sleep 312")
    until(lambda: not alive(mark), "the end")
    assert time.monotonic() - killed < 4 + 6


@pytest.mark.long
def test_one_that_is_not_known_any_more_ends_with_all_that_it_has(mark: str, tmp_path: Path) -> None:
    """As if it had been taken for lost; in a chain, so that others are below it."""
    words = str(tmp_path / "kept"), mark[:8], "fork", "8", "1", "n0", "n1", "n2"
    first = Root(*words)
    first.greeted("n0", "n1", "n2")
    first.order("more n3")
    first.greeted("n0", "n1", "n2", "n3")
    first.order("run n3 sleep 313")
    until(lambda: bool(alive(mark, "sleep 313")), "its work")
    first.kill()
    path = tmp_path / "kept"
    kept.write(path, kept.read(path).gone(4))
    second = Root(*words)
    second.greeted("n0", "n1", "n2")
    until(lambda: not alive(mark, "sleep 313"), "the end of what it had")
    until(lambda: len(agents(mark)) == 2 * 3, "the end of its agent")
    second.kill()
    kept.write(path, kept.read(path).gone(1))
    third = Root(*words)
    third.wait_for(lambda root: root.gone.keys() == {"n1", "n2"})
    assert not agents(mark), "those below it have ended with it"
    third.finish()


@pytest.mark.long
def test_a_controller_that_ends_before_all_have_called_tells_those_as_well(mark: str, tmp_path: Path) -> None:
    words = str(tmp_path / "kept"), mark[:8], "fork", "60", "2", *NODES
    first = Root(*words)
    first.greeted(*NODES)
    first.kill()
    second = Root(*words)
    second.finish()
    until(lambda: not alive(mark), "the end, long before the grace")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Agents that have been started, and begin when this file is there."""
    monkeypatch.setenv("PYTHON", sys.executable)
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    monkeypatch.setenv("PLIANT_TEST_AGENT", str(PROGRAMS / "held.sh"))
    return tmp_path / "go"


def held(slow: Path) -> list[Path]:
    """Those that the controller has started and told where they belong."""
    return list(slow.parent.glob(f"{slow.name}.*"))


def test_what_was_started_as_the_controller_died_ends_if_there_is_no_other(
    mark: str, tmp_path: Path, slow: Path
) -> None:
    root = Root(str(tmp_path / "kept"), mark[:8], "fork", "60", "2", *NODES)
    until(lambda: len(held(slow)) == 2, "those that the controller starts")
    root.kill()
    slow.touch()
    until(lambda: not alive(mark), "the end")


@pytest.mark.long
def test_what_was_started_as_the_controller_died_is_taken_by_the_next_with_what_it_starts(
    mark: str, tmp_path: Path, slow: Path
) -> None:
    words = str(tmp_path / "kept"), mark[:8], "fork", "60", "2", *NODES
    first = Root(*words)
    until(lambda: len(held(slow)) == 2, "those that the controller starts")
    first.kill()
    second = Root(*words)
    second.wait_for(lambda root: root.told)
    slow.touch()
    second.greeted(*NODES)
    assert len(agents(mark)) == 2 * len(NODES)
    second.finish()


@pytest.mark.long
def test_a_node_whose_part_of_the_tree_is_killed_meanwhile_is_told_as_gone(mark: str, tmp_path: Path) -> None:
    """In a chain: those below it find the next controller by themselves."""
    words = str(tmp_path / "kept"), mark[:8], "fork", "8", "1", "n0", "n1", "n2"
    first = Root(*words)
    first.greeted("n0", "n1", "n2")
    before = agents(mark)
    first.order("back n1")
    first.wait_for(lambda root: "n1" in root.gone)
    first.order("more n3")
    first.greeted("n0", "n1", "n2", "n3")
    first.kill()
    new = agents(mark) - before
    [trunk] = [pid for pid in new if parent(pid) not in new]
    os.kill(trunk, signal.SIGKILL)
    until(lambda: not agents(mark) & new, "the agent ends with its part of the tree")
    second = Root(*words)
    second.greeted("n0", "n2")
    second.wait_for(lambda root: root.gone.keys() == {"n3"})
    second.finish()

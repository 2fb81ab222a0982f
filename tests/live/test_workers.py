"""Simulations in several processes: nobody outlives the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PATIENCE_S = 20.0


def children(pid: int) -> set[int]:
    """Of all its threads: the one that gives out the tasks starts the workers."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(child) for thread in threads for child in thread.read_text().split()}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_command(number: signal.Signals, tmp_path: Path) -> None:
    arguments = ["simulate", "lublin:2000", "--nodes", "64", "--malleable", "50"]
    told = tmp_path / "stderr"
    with told.open("w") as stderr:
        command = subprocess.Popen(
            [
                sys.executable,
                "-X",
                "faulthandler",
                "-m",
                "pliant",
                *arguments,
                "--seeds",
                "1000",
                "--workers",
                "2",
            ],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    known: set[int] = set()
    try:
        until(lambda: len(children(command.pid)) == 3, "two workers and their resource tracker")
        known = children(command.pid)
        command.send_signal(number)
        try:
            command.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            command.send_signal(signal.SIGABRT)  # it says where each of its threads is
            command.wait(PATIENCE_S)
            pytest.fail(f"not ended within {PATIENCE_S:g} s: {told.read_text()}")
        until(lambda: not any(map(alive, known)), f"the end of {known}")
    finally:
        command.kill()
        command.wait(PATIENCE_S)
        for pid in filter(alive, known):
            os.kill(pid, signal.SIGKILL)

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
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


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
def test_workers_end_with_the_command(number: signal.Signals) -> None:
    arguments = ["simulate", "lublin:2000", "--nodes", "64", "--malleable", "50"]
    command = subprocess.Popen(
        [sys.executable, "-m", "pliant", *arguments, "--seeds", "1000", "--workers", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    known: set[int] = set()
    try:
        until(lambda: len(children(command.pid)) == 3, "two workers and their resource tracker")
        known = children(command.pid)
        command.send_signal(number)
        command.wait(PATIENCE_S)
        until(lambda: not any(map(alive, known)), f"the end of {known}")
    finally:
        command.kill()
        command.wait(PATIENCE_S)
        for pid in filter(alive, known):
            os.kill(pid, signal.SIGKILL)

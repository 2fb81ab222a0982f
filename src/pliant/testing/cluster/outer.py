"""The namespaces that hold a virtual cluster: one process, whose end is the end of all that is in them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from pliant.launch.processes import children
from pliant.model.errors import PliantError
from pliant.testing.cluster.layout import HEAD
from pliant.testing.cluster.possible import NAMESPACES, PATIENCE_S, found, search_path

TAIL = 2000
"""Characters of what was said that a message shows."""


def start(place: Path, patience_s: float) -> subprocess.Popen[bytes]:
    """Start the cluster that is laid out in ``place``: the process that holds it, once all nodes are up. PliantError
    with what it has said, if that takes longer; then nothing is left of it."""
    log = place / "log" / HEAD
    maker = os.pidfd_open(os.getpid())
    words = [found("unshare"), *NAMESPACES, "--fork", "--kill-child", "--mount-proc", sys.executable, "-IS"]
    try:
        with log.open("wb") as said:
            outer = subprocess.Popen(
                [*words, str(place / "head.py"), str(place), str(maker)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said,
                pass_fds=[maker], start_new_session=True, env={**os.environ, "PATH": search_path()},
            )  # fmt: skip
    finally:
        os.close(maker)
    try:
        if not _is_up(outer, patience_s):
            why = tail(log.read_text(errors="replace")) or f"not within {patience_s:g} s"
            raise PliantError(f"the virtual cluster does not come up: {why}")
    except BaseException:
        end(outer)
        raise
    return outer


def _is_up(outer: subprocess.Popen[bytes], patience_s: float) -> bool:
    """Whether the head says so in time; it ends without a word if it fails."""
    if outer.stdout is None:
        return False
    with outer.stdout as told:
        ready, _, _ = select.select([told], [], [], patience_s)
        return bool(ready) and told.readline() == b"up\n"


def end(outer: subprocess.Popen[bytes]) -> None:
    """Kill the first process of all, which the kernel lets end only when all others have."""
    if outer.poll() is None:
        for pid in children(outer.pid) or {outer.pid}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            outer.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise PliantError(f"a virtual cluster cannot be killed: process {outer.pid}") from None


def ended(handle: int, patience_s: float) -> bool:
    """Whether the process of a handle ends within so many seconds."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    deadline = time.monotonic() + patience_s
    while not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        if time.monotonic() >= deadline:
            return False
    return True


def tail(text: str) -> str:
    return text.strip()[-TAIL:]

"""Processes for many simulations, none of which outlives the command that they are for."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait


def processes(workers: int) -> int:
    """How many ``workers`` stand for: 0 is one a processor."""
    return workers or os.cpu_count() or 1


def pool(workers: int) -> ProcessPoolExecutor:
    """Fresh processes: a fork would copy whatever threads the display has running."""
    return ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_end_with_the_command
    )


def _end_with_the_command() -> None:
    """If the command is killed, a worker would wait for more work for ever: each worker itself holds the pipe open
    by which it gets its work."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)

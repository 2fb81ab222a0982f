"""Processes for many simulations, none of which outlives the command that they are for."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait


def processes(workers: int) -> int:
    """How many ``workers`` stand for: 0 is one a processor."""
    return workers or os.cpu_count() or 1


@contextmanager
def pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes: a fork would copy whatever threads the display has running."""
    executor = ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_end_with_the_command
    )
    try:
        yield executor
    except BaseException:
        # A signal may have come while it was starting them: then nobody would ever tell them to end, and this
        # process would wait for them at its own end.
        executor.shutdown(wait=False, cancel_futures=True)
        for worker in multiprocessing.active_children():
            worker.kill()
        raise
    executor.shutdown()


def _end_with_the_command() -> None:
    """If the command is killed, a worker would wait for more work for ever: each worker itself holds the pipe open
    by which it gets its work."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)

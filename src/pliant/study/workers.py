"""Processes for many simulations, none of which outlives the command that they are for."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import wait
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, Self

Task = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of a module and its arguments: both go to another process."""


class Workers:
    """``workers`` processes for tasks (0: one a processor), started when they are needed: a single task, and
    all if one worker is wanted, are done in this process.

    ``progress`` is told how many are done. The first error stops all.
    """

    def __init__(self, workers: int, progress: Callable[[int], None] = lambda _done: None) -> None:
        self._workers = processes(workers)
        self._progress = progress
        self._done = 0
        self._pool: ProcessPoolExecutor | None = None
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        self._ends.__enter__()
        return self

    def each(self, tasks: Sequence[Task]) -> Iterator[Any]:
        """Their results, in the order of ``tasks``."""
        if self._workers == 1 or (len(tasks) <= 1 and self._pool is None):
            for function, arguments in tasks:
                result = function(*arguments)
                self._one_more()
                yield result
            return
        if self._pool is None:
            self._pool = self._ends.enter_context(pool(self._workers))
        ended: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
        Thread(target=_feed, args=(self._pool, tasks, ended.put), daemon=True).start()
        found: dict[int, Any] = {}
        told = 0
        for _ in tasks:
            i, found[i], error = ended.get()
            if error is not None:
                raise error
            self._one_more()
            while told in found:
                yield found.pop(told)
                told += 1

    def _one_more(self) -> None:
        self._done += 1
        self._progress(self._done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.__exit__(kind, error, trace)


def _feed(
    executor: ProcessPoolExecutor,
    tasks: Sequence[Task],
    tell: Callable[[tuple[int, Any, BaseException | None]], None],
) -> None:
    """Tell the result of each task, or the first error, and which task it is of.

    For a thread of its own: a Ctrl-C is raised in the main one, and where it comes just when that has got a lock of
    the executor's nobody lets go of it again; the command then never ends.
    """
    i = 0
    try:
        waiting = {executor.submit(function, *arguments): i for i, (function, arguments) in enumerate(tasks)}
        for future in as_completed(waiting):
            i = waiting.pop(future)
            tell((i, future.result(), None))
    except BaseException as error:  # noqa: BLE001 - whatever it is, who waits is told
        tell((i, None, error))


def run_all(tasks: Sequence[Task], workers: int, progress: Callable[[int], None]) -> list[Any]:
    """The results in the order of ``tasks``; the rest as for ``Workers``."""
    with Workers(workers, progress) as several:
        return list(several.each(tasks))


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
    """If the command is killed, a worker would wait for more work for ever: each worker itself holds the pipe
    open by which it gets its work."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)

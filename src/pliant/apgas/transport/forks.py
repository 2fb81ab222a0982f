"""Processes that a task forks: they are no places, keep nothing of the place's open, and end when they come back from
the task."""

from __future__ import annotations

import os
import sys
import traceback
import weakref
from collections.abc import Callable
from typing import NoReturn, Protocol, TypeVar

T = TypeVar("T")


class Forked(Protocol):
    """Something that a process must not have in common with one that it forks."""

    def forked(self) -> None:
        """This process was forked: let go of what belongs to the one that has forked it."""


_ours: weakref.WeakSet[Forked] = weakref.WeakSet()


def tell(ours: Forked) -> None:
    """From now on ``ours`` is told in each process that this one forks."""
    _ours.add(ours)


def _leave() -> None:
    for each in list(_ours):
        each.forked()
    _ours.clear()


os.register_at_fork(after_in_child=_leave)


def perform(fn: Callable[..., T], /, *args: object, **kwargs: object) -> T:
    """``fn(*args, **kwargs)``, of a task. A forked child that returns from the task, or raises, ends
    here with a Python program's exit code. Its atexit functions do not run."""
    own = os.getpid()
    try:
        value = fn(*args, **kwargs)
    except BaseException as error:
        if os.getpid() == own:
            raise
        _end(error)
    if os.getpid() != own:
        _end(None)
    return value


def _end(error: BaseException | None) -> NoReturn:
    code = 1
    try:
        code = 0 if error is None else _exit_code(error)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:  # also where a stream is closed: the child never goes on as the place
        os._exit(code)


def _exit_code(error: BaseException) -> int:
    """What the end of a program by ``error`` says, after it has been told."""
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        return error.code or 0
    if isinstance(error, SystemExit):
        sys.stderr.write(f"{error.code}\n")
    else:
        traceback.print_exception(error)
    return 1

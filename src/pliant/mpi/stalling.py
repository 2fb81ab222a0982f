"""A rank that makes no step for long says in the job's log where it is, once. So a user can tell ranks that wait for
each other in different calls from one that computes."""

from __future__ import annotations

import linecache
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from pliant.mpi.resizer import log

_PLIANT = Path(__file__).parents[1]
_NOT_THE_PROGRAM = (
    str(_PLIANT / "mpi"), str(_PLIANT / "job"),
    *(sysconfig.get_path(each) for each in ("purelib", "platlib", "stdlib")), "<frozen",
)  # fmt: skip
LOOKS = 4
"""As often a thread looks within the time that is too long."""


class Place(NamedTuple):
    """A line that a thread executes."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        return f"{Path(self.file).name}, line {self.line}, in {self.function}{f': {text}' if text else ''}"


def places(frame: FrameType | None) -> Iterator[Place]:
    """From the innermost to the outermost."""
    while frame is not None:
        yield Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back


def of_the_program(stack: Iterator[Place]) -> Place | None:
    """The innermost line that is of no library."""
    return next((each for each in stack if not each.file.startswith(_NOT_THE_PROGRAM)), None)


class Stalling:
    """A thread beside the loop of the thread that makes it: ``step`` says in which step that is, or a negative number
    where it makes none for a reason."""

    def __init__(self, rank: Callable[[], int], step: Callable[[], int], limit_s: float) -> None:
        self._rank, self._step, self._limit_s = rank, step, limit_s
        self._loops = threading.get_ident()
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="pliant-stalling", daemon=True).start()

    def end(self) -> None:
        """The loop is over."""
        self._over.set()

    def _watch(self) -> None:
        before, looks = -1, 0
        while not self._over.wait(self._limit_s / LOOKS):
            step = self._step()
            looks = looks + 1 if step == before >= 0 else 0
            before = step
            if looks == LOOKS:
                self._tell(step)
                return

    def _tell(self, step: int) -> None:
        where = of_the_program(places(sys._current_frames().get(self._loops)))  # noqa: SLF001 - its only way
        # The loop's thread may hold the lock of sys.stdout, in a print() that nobody reads: do not flush that here.
        log(f"rank {self._rank()} has been in step {step} for {self._limit_s:g} s (PLIANT_STALL_S): {where}")

"""How far long work has come, on standard error: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from pliant.report.words import plain, seconds

if TYPE_CHECKING:
    from rich.console import Console

BAR_S = 1.0
"""A terminal shows the bar of work that takes longer."""
DUMB = ("dumb", "unknown")
"""Kinds of terminals on which nothing can be drawn."""
FIRST_S, EVERY_S, SELDOM_S = 4.0, 10.0, 60.0
"""Elsewhere the first line comes after so many seconds, and the next ones at this distance: of work that takes long at
a tenth of what it has taken, up to the last of these."""
LOOK_S = 0.1
LAST_S = 2.0
"""So long the end waits for a line that cannot be written."""


def silence_s(elapsed_s: float) -> float:
    """So long work that has taken ``elapsed_s`` seconds says nothing more."""
    return min(SELDOM_S, max(EVERY_S, elapsed_s / 10))


class _Part(NamedTuple):
    what: str
    total: int | None
    unit: str
    began: float


class Working:
    """Work that tells how far it has come: what it does, and how many steps of a ``total``, counted in ``unit``, are
    done.

    Whoever works calls ``advance`` and ``reach`` as often as they like, or never. A thread of its own tells, so that
    work that does not come back for minutes is not silent. Without ``bar`` a terminal gets lines too.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        unit: str = "",
        *,
        bar: bool = True,
        console: Console | None = None,
    ) -> None:
        self._console = console
        self._over = Event()
        bar = (
            bar and os.environ.get("TERM", "") not in DUMB
        )  # they cannot move back to draw over what is there
        bar = bar and (sys.stderr.isatty() if console is None else console.is_terminal)
        self._thread = Thread(target=self._draw if bar else self._tell, name="progress", daemon=True)
        self.begin(what, total, unit)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(LAST_S)

    def begin(self, what: str, total: int | None = None, unit: str = "") -> None:
        """The next part of the work begins."""
        self._done = 0
        self._part = _Part(plain(what), total, unit, time.monotonic())

    def pause(self) -> None:
        """Say nothing until the next part begins: somebody else does."""
        self.begin("")

    def advance(self, steps: int = 1) -> None:
        self._done += steps

    def reach(self, done: int, total: int | None = None) -> None:
        """``done`` steps are done by now, of so many in all if that has become known."""
        self._done = done
        if total is not None:
            self._part = self._part._replace(total=total)

    def line(self, now: float) -> str:
        """``simulating: 120 of 400 jobs, 32.0 s, about 75 s to go``."""
        done, (what, total, unit, began) = self._done, self._part
        many = f"{done:,} of {total:,}" if total else f"{done:,}" if done else ""
        parts = [f"{many} {unit}".strip() if many else "", seconds(now - began)]
        if total and 0 < done < total:
            parts.append(f"about {seconds((now - began) / done * (total - done))} to go")
        return f"{what}: " + ", ".join(filter(None, parts))

    def _tell(self) -> None:
        part, due = self._part, self._part.began + FIRST_S
        while not self._over.wait(LOOK_S):
            now = time.monotonic()
            if self._part.began != part.began:
                part, due = self._part, self._part.began + FIRST_S
            if part.what and now >= due:
                self._say(f"pliant: {self.line(now)}\n")
                due = now + silence_s(now - part.began)

    def _say(self, line: str) -> None:
        """Where nobody can read it any more the work goes on all the same."""
        file = sys.stderr if self._console is None else self._console.file
        with suppress(OSError, ValueError):
            file.write(line)
            file.flush()

    def _draw(self) -> None:
        if self._over.wait(BAR_S):
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from pliant.terminal.console import console

        words, unit = TextColumn("{task.description}"), TextColumn("{task.fields[unit]}")
        columns = (words, BarColumn(), MofNCompleteColumn(), unit, TimeRemainingColumn())
        with Progress(*columns, console=self._console or console(stderr=True), transient=True) as bar:
            task, shown = bar.add_task("", unit="", visible=False), _Part("", None, "", 0.0)
            while True:
                if (part := self._part) != shown:
                    bar.reset(
                        task, description=part.what, total=part.total, visible=bool(part.what), unit=part.unit
                    )
                    shown = part
                bar.update(task, completed=self._done)
                if self._over.wait(LOOK_S):
                    return

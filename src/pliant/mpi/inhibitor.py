"""The checking inhibitor: for how long after a check the next ones ask nothing (Iserte et al. 2018, section 5).

The clocks of the ranks differ, so no rank reads its own. For as many calls as were agreed each rank counts; then the
root looks at its clock, and its word says to all whether that call asks, or after how many calls it looks again.
"""

from __future__ import annotations

from math import ceil, inf
from typing import NamedTuple

from pliant.job import environment
from pliant.mpi import arguments

MOST = 1 << 20
"""Calls between two looks."""


class Period(NamedTuple):
    """Seconds and calls or steps in which nothing is asked; 0: none. Both have to be over."""

    seconds: float = 0.0
    steps: int = 0


def period(seconds: float, steps: int) -> Period:
    """What the program asked for, or what the environment says in its place. ValueError for what cannot be, TypeError
    for what is no number."""
    call = "mpi.malleable"
    if (seconds := arguments.seconds(call, "inhibit", seconds)) == inf:
        raise ValueError(f"{call}(inhibit={seconds}): it must be a number of seconds, not an endless one")
    steps = arguments.count(call, "inhibit_steps", steps)
    told_s, told_steps = environment.inhibit_s(), environment.inhibit_steps()
    return Period(seconds if told_s is None else told_s, steps if told_steps is None else told_steps)


class Inhibitor:
    """Which calls of a loop of the program's own are inhibited, on one rank; equal on all. Times are in seconds, and
    only the root's count."""

    def __init__(self, period: Period, now: float) -> None:
        self._period = period
        self._since = now
        self._calls = self._left = 0
        self.restart(now)

    def restart(self, now: float) -> None:
        """The present call has asked, or the job has another size; of ``steps`` calls the last one asks."""
        self._since, self._calls = now, 0
        self._left = max(0, self._period.steps - 1)

    def holds(self) -> bool:
        """Whether this call is inhibited by what was agreed on."""
        self._calls += 1
        if self._left:
            self._left -= 1
            return True
        return False

    def skip(self) -> None:
        """This call is for a question that was asked before."""
        self.holds()

    def look(self, now: float) -> int:
        """The root's word at a call that nothing inhibits so far: 0 if it asks, else how many calls, with this one, do
        not.

        It looks again after half of what is left, by the calls that there were, and after no more calls than those: one
        that takes longer than those before makes it late by little.
        """
        if not self._period.seconds or (rest := self._since + self._period.seconds - now) <= 0:
            return 0
        each = max((now - self._since) / self._calls, 1e-9)
        return max(1, min(MOST, self._calls, ceil(rest / each / 2)))

    def take(self, word: int) -> None:
        """Follow the root's word, at the call at which it looked."""
        self._left = word - 1

    def rest_s(self, now: float) -> float:
        """About how long nothing is asked, for the root's answers to the scheduler."""
        each = (now - self._since) / max(1, self._calls)
        return max(self._since + self._period.seconds - now, self._left * each)

"""The virtual clock of a simulator: what happens next, and in which calls of the core what happens in one instant."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from pliant.core import events as e
from pliant.core.core import SchedulerCore
from pliant.core.settings import NEVER
from pliant.sim.booked import Held
from pliant.sim.breakdowns import Breakdowns
from pliant.sim.instant import Instant
from pliant.sim.running import Follower, Former, Requested, RunningJob

Happens = RunningJob | Former | Follower | Requested | Held
"""To whom, or to which nodes, something happens at a time."""


class Clock:
    """It is ``_now``. What is to happen is on a heap, or due: the next submission at ``_due``, the policy's wish to be
    woken at ``_wake``, and the next node that fails or is back by ``_breakdowns``. Events for the core are collected
    until ``_tell``.

    A class below it, not a part of the simulator: all this is looked at in each instant, and one more object between
    would take longer than what is done there.
    """

    core: SchedulerCore
    _breakdowns: Breakdowns
    _due: float

    def __init__(self, instant: Instant) -> None:
        self._now = 0.0
        self._wake = self.next = NEVER
        """When something happens next, as far as it is known from what has happened here."""
        self._heap: list[tuple[float, int, Callable[[Any, int], None], Happens, int]] = []
        self._order = 0
        self._events: list[e.Event] = []
        self._in_time: set[int] = set()
        """Who would be ended now and is done now, but has not been told to be."""
        self._happen = {
            Instant.TOGETHER: self._together,
            Instant.PYSS: self._in_pyss_order,
            Instant.ELASTISIM: self._one_by_one,
        }[instant]

    def _hear(self, event: e.Event) -> None:
        self._events.append(event)

    def _at(self, time: float, happen: Callable[[Any, int], None], run: Happens) -> None:
        self._order += 1
        heappush(self._heap, (time, self._order, happen, run, run.turn))

    # ---- one instant -----------------------------------------------------------------------------------

    def _together(self) -> None:
        """All that happens now, in one call of the core."""
        now, heap = self._now, self._heap
        while heap and heap[0][0] <= now:
            _, _, happen, run, turn = heappop(heap)
            happen(run, turn)
        if self._breakdowns.at <= now:
            self._break_down()
        while self._due <= now:
            self._submit_next()
        if self._wake <= now:
            self._tick()
        self._tell()

    def _in_pyss_order(self) -> None:
        """All that happens now, in the calls that ``Instant.PYSS`` describes.

        What frees processors without a pass is told with what comes next: a call is one pass.
        """
        now, heap, known = self._now, self._heap, self.core.state.jobs
        ends: list[tuple[Any, int, bool]] = []
        while heap and heap[0][0] <= now:
            _, _, happen, run, turn = heappop(heap)
            early = False
            if happen == self._finish and turn == run.turn:
                early = known[run.number].expected_end > now
                ends.append((run, turn, early))
            if not early:
                happen(run, turn)
        if self._breakdowns.at <= now:
            self._break_down()
        if self._wake <= now:
            self._tick()
        while self._due <= now:
            self._submit_next()
            self._tell()
        for run, turn, early in ends:  # in the order in which they were started
            if early:
                self._finish(run, turn)
            else:
                self._events.append(e.Tick())  # its processors are free already: only the pass is due
            self._tell()
        self._tell()

    def _one_by_one(self) -> None:
        """All that happens now, in the calls that ``Instant.ELASTISIM`` describes."""
        now, heap = self._now, self._heap
        while heap and heap[0][0] <= now:
            _, _, happen, run, turn = heappop(heap)
            happen(run, turn)
            if not self._in_time:  # else this call would end those who are done a call later
                self._tell()
        if self._breakdowns.at <= now:
            self._break_down()
        if self._wake <= now:
            self._tick()
        self._tell()
        while self._due <= now:
            self._submit_next()
            self._tell()

    # ---- what a simulator does -------------------------------------------------------------------------

    def _finish(self, run: RunningJob, turn: int) -> None:
        raise NotImplementedError

    def _break_down(self) -> None:
        raise NotImplementedError

    def _submit_next(self) -> None:
        raise NotImplementedError

    def _tick(self) -> None:
        raise NotImplementedError

    def _tell(self) -> None:
        raise NotImplementedError

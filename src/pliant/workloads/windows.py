"""Windows of a workload: what is counted of it, and what is simulated before and after so that it is met as usual.

A simulation begins on an empty machine and ends on one that empties: jobs near both ends wait less than others do
(Feitelson, Workload Modeling for Computer Systems Performance Evaluation, section 1.3). They are simulated, and not
counted: the warm-up before a window, and the drain after it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

import msgspec

from pliant.model.durations import UNITS, duration
from pliant.model.errors import BatchError
from pliant.model.limits import whole
from pliant.model.words import count
from pliant.workloads.job import SimJob

ABSOLUTE_S = 10 * 365.25 * 86400.0
"""A workload that begins later than this after its time 0 has times since 1970."""
MARGIN = 0.1
"""Warm-up and drain, as a share of the window, where nobody says how long they are."""
MOST = 10_000
"""So many windows may be in a study."""
FORMS = (
    "N jobs as in 5000, a time as in 30d, several as in 5x2000 or 5x30d, from..to as in 10d..40d, or dates"
)


class Length(NamedTuple):
    """So many jobs, or seconds of submissions."""

    amount: float
    jobs: bool

    def __str__(self) -> str:
        if self.jobs:
            return f"{self.amount:,.0f} job{'s' if self.amount != 1 else ''}"
        unit = next((name for name in ("d", "h", "min") if self.amount >= UNITS[name]), "s")
        return f"{self.amount / UNITS[unit]:.6g}{unit}"


class Window(NamedTuple):
    """What of a workload is counted: ``several`` windows of ``length``, evenly spread over it; or what was submitted
    from ``begin`` on and before ``end``, in seconds since time 0 of the workload or with ``dates`` since 1970; or,
    without any of them, all but a margin. The ``margin`` is simulated before and after each; None: ``MARGIN`` of it."""

    text: str
    length: Length | None = None
    several: int = 1
    begin: float = 0.0
    end: float = math.inf
    dates: bool = False
    margin: Length | None = None
    whole: bool = False
    """All that is before a window and after it is simulated."""

    @property
    def between(self) -> bool:
        return self.length is None and self.end < math.inf


class WindowCut(NamedTuple):
    """Of the jobs in order of submission: those from ``low`` to ``high`` are simulated, those from ``begin`` to
    ``end`` counted, both without the last."""

    low: int
    begin: int
    end: int
    high: int


# ---- what users write ----------------------------------------------------------------------------------------


def read_window(window: str, warm_up: str = "") -> Window | None:
    """The options ``--window`` and ``--warm-up``; None if neither is there. BatchError."""
    every = warm_up == "all"
    if every and not window:
        raise BatchError("--warm-up all: without --window all is simulated and counted")
    margin = _length(warm_up, "--warm-up", or_none=True) if warm_up and not every else None
    if not window:
        return None if margin is None else Window(f"--warm-up {warm_up}", margin=margin)
    if ".." in window:
        return _between(window, margin)._replace(whole=every)
    number, times, length = re.sub("[X\N{MULTIPLICATION SIGN}]", "x", window).rpartition("x")
    several = (whole(number) or 0) if times else 1
    if not 1 <= several <= MOST:
        raise BatchError(
            f"--window: {number!r} in {window!r} is no number of windows, 1 to {MOST:,}; write it as in 5x2000"
        )
    return Window(f"--window {window}", _length(length, "--window"), several, margin=margin, whole=every)


def _length(text: str, option: str, *, or_none: bool = False) -> Length:
    number = whole(text)
    if number is not None and number >= (0 if or_none else 1):
        return Length(number, jobs=True)
    if number is not None or not text[-1:].isalpha():
        raise BatchError(f"{option}: {text!r} is no number of jobs and no time; write {FORMS}")
    return Length(duration(text, option, or_none=or_none), jobs=False)


def _between(text: str, margin: Length | None) -> Window:
    first, _, last = text.partition("..")
    if not first or not last:
        raise BatchError(
            f"--window: {text!r} has one end; write both, as in 10d..40d or 1996-10-01..1996-11-01"
        )
    dates = [_date(each) for each in (first, last)]
    if dates[0] is not None and dates[1] is not None:
        begin, end = dates[0], dates[1]
    elif dates != [None, None]:
        raise BatchError(f"--window: {text!r} mixes a date with a time; write {FORMS}")
    else:
        begin, end = (duration(each, "--window", or_none=True) for each in (first, last))
    if not begin < end:
        raise BatchError(f"--window: {text!r} has nothing in it: it must end after it begins")
    return Window(f"--window {text}", begin=begin, end=end, dates=dates[0] is not None, margin=margin)


def _date(text: str) -> float | None:
    """A date or a date with a time in UTC, in seconds since 1970; None if it is none."""
    if re.match(r"\d{4}-\d\d", text) is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BatchError(
            f"--window: {text!r} is no date; write it as in {date(1996, 10, 1)} or {date(1996, 10, 1)}T12:00"
        ) from None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


# ---- what that is of a workload ------------------------------------------------------------------------------


def cuts(jobs: Sequence[SimJob], window: Window, where: str, began: float | None = None) -> list[WindowCut]:
    """The windows of ``jobs``, which are in order of submission; ``began`` is what time 0 is, in seconds since 1970.
    BatchError if they do not fit, or nothing is in one."""
    if not jobs:
        raise BatchError(f"{where}: {window.text}: there are no jobs, and so none to count")
    times = [job.spec.submit_s for job in jobs]
    found = _cuts(times, window, where, began)
    return [cut._replace(low=0, high=len(jobs)) for cut in found] if window.whole else found


def _cuts(times: Sequence[float], window: Window, where: str, began: float | None) -> list[WindowCut]:
    if window.between:
        return [_of_times(times, window, where, began)]
    if window.length is None:
        margin, count = window.margin or Length(0, jobs=True), len(times)
        if margin.jobs:
            first, last = int(margin.amount), count - int(margin.amount)
        else:
            first = bisect_left(times, times[0] + margin.amount)
            last = bisect_right(times, times[-1] - margin.amount)
        return [_checked(WindowCut(0, first, last, count), window, where)]
    if window.length.jobs:
        return _of_jobs(times, window, window.length, where)
    return _of_spans(times, window, window.length, where)


def cut_out(jobs: Sequence[SimJob], cut: WindowCut) -> list[SimJob]:
    """The jobs that are simulated. One that follows a job that is not comes at its own time."""
    kept = jobs[cut.low : cut.high]
    names = {job.spec.name for job in kept}
    return [
        msgspec.structs.replace(job, after="", think_s=0.0) if job.after and job.after not in names else job
        for job in kept
    ]


def _of_times(times: Sequence[float], window: Window, where: str, began: float | None) -> WindowCut:
    begin, end = window.begin, window.end
    if window.dates:
        if began is None and times[0] > ABSOLUTE_S:
            began = 0.0
        if began is None:
            raise BatchError(
                f"{where}: {window.text}: nothing says on which date it began (a trace in SWF may, in the "
                "line UnixStartTime of its header); write times since then, as in 10d..40d"
            )
        begin, end = begin - began, end - began
    first, last = bisect_left(times, begin), bisect_left(times, end)
    margin = window.margin or Length(MARGIN * (end - begin), jobs=False)
    low, high = _margins(times, (first, begin), (last, end), margin)
    cut = _checked(WindowCut(low, first, last, high), window, where, times)
    if margin.jobs:
        before, after = Length(first, jobs=True), Length(len(times) - last, jobs=True)
    else:
        before, after = Length(begin - times[0], jobs=False), Length(times[-1] - end, jobs=False)
    for there, what in ((before, "warm-up before"), (after, "drain after")):
        if there.amount < margin.amount and not window.whole:
            has = there if there.amount > 0 else "none"
            raise BatchError(
                f"{where}: {window.text}: {margin} are to be the {what} it, and the workload has {has}; choose "
                "another window, or a --warm-up such as 0, or all, which takes what there is"
            )
    return cut


def _of_jobs(times: Sequence[float], window: Window, length: Length, where: str) -> list[WindowCut]:
    size = int(length.amount)
    margin = window.margin or Length(max(1, round(MARGIN * size)), jobs=True)
    low, high = (_grown(times, 0, 0, margin)[1], _grown(times, len(times), len(times), margin)[0])
    room = high - low
    if room < window.several * size:
        raise BatchError(
            f"{where}: {window.text}: of its {count(len(times), 'job')} {max(0, room):,} are neither warm-up nor "
            f"drain ({margin} each); {_fit(room, size)}"
        )
    found = []
    for begin in _spread(low, high - size, window.several):
        first = round(begin)
        found.append(_around(times, first, first + size, margin))
    return found


def _of_spans(times: Sequence[float], window: Window, length: Length, where: str) -> list[WindowCut]:
    size = length.amount
    margin = window.margin or Length(MARGIN * size, jobs=False)
    origin, last = times[0], times[-1]
    if margin.jobs:
        many = min(int(margin.amount), len(times) - 1)
        low, high = times[many], times[len(times) - 1 - many]
    else:
        low, high = origin + margin.amount, last - margin.amount
    room = high - low
    if room < window.several * size:
        days = Length(max(0.0, room), jobs=False)
        raise BatchError(
            f"{where}: {window.text}: its submissions take {Length(last - origin, jobs=False)}, of which "
            f"{days} are neither warm-up nor drain ({margin} each); {_fit(room, size)}"
        )
    found = []
    for begin in _spread(low, high - size, window.several):
        first, after = bisect_left(times, begin), bisect_left(times, begin + size)
        below, above = _margins(times, (first, begin), (after, begin + size), margin)
        found.append(_checked(WindowCut(below, first, after, above), window, where))
    return found


def _spread(first: float, last: float, count: int) -> list[float]:
    """Evenly from ``first`` to ``last``; a single one at ``first``."""
    return [first + (last - first) * i / max(1, count - 1) for i in range(count)]


def _fit(room: float, size: float) -> str:
    several = int(room // size) if room > 0 else 0
    return (
        f"{several} such window{'s fit' if several > 1 else ' fits'}"
        if several
        else "give a shorter window or --warm-up"
    )


def _margins(
    times: Sequence[float], first: tuple[int, float], last: tuple[int, float], margin: Length
) -> tuple[int, int]:
    """The jobs around those from the first to the last, each given by its place and the time there."""
    if margin.jobs:
        return _around_jobs(len(times), first[0], last[0], int(margin.amount))
    return bisect_left(times, first[1] - margin.amount), bisect_left(times, last[1] + margin.amount)


def _around_jobs(count: int, first: int, last: int, margin: int) -> tuple[int, int]:
    return max(0, first - margin), min(count, last + margin)


def _around(times: Sequence[float], first: int, last: int, margin: Length) -> WindowCut:
    low, high = _grown(times, first, last, margin)
    return WindowCut(low, first, last, high)


def _grown(times: Sequence[float], first: int, last: int, margin: Length) -> tuple[int, int]:
    """The jobs from ``first`` to ``last`` with their margins; at an end, the margin that begins or ends there."""
    if margin.jobs:
        return _around_jobs(len(times), first, last, int(margin.amount))
    below = times[first] if first < len(times) else times[-1]
    above = times[last - 1] if last else times[0]
    low, high = bisect_left(times, below - margin.amount), bisect_left(times, above + margin.amount)
    return min(low, first), max(high, last)


def _checked(cut: WindowCut, window: Window, where: str, times: Sequence[float] = ()) -> WindowCut:
    if not cut.begin < cut.end:
        there = ""
        if times:
            first, last = (Length(at, jobs=False) for at in (times[0], times[-1]))
            there = f": its jobs were submitted from {first} to {last} after its time 0"
        raise BatchError(f"{where}: {window.text}: no job was submitted in it{there}")
    return cut

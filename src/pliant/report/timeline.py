"""When which agent of a launch did what, in the Trace Event Format that chrome://tracing and Perfetto open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pliant.protocol.launching import Counted

SPANS = ("start the agents below", "learn how all are reached", "start the program")

STOPPED = "the launcher was stopped"


def timeline(
    nodes: Sequence[str],
    began: float,
    phases: Mapping[str, float],
    counted: Mapping[str, Counted],
    stops: Sequence[tuple[float, float]] = (),
) -> dict[str, Any]:
    """A row for the launch, whose ``phases`` are seconds from when it ``began``, and one for each of ``nodes``; the
    times of other machines are by their own clocks. From and to when the launcher was stopped, seconds since the epoch,
    are the ``stops``: spans of their own, of which no phase has any."""
    events = [_name(0, "launch")]
    before, stopped = 0.0, [(since - began, until - began) for since, until in stops]
    events += [_span(0, STOPPED, since, until) for since, until in stopped]
    for name, seconds in sorted(phases.items(), key=lambda each: each[1]):
        events += [_span(0, name, *part) for part in _without(stopped, before, seconds)]
        before = seconds
    for number, node in enumerate(nodes, 1):
        events.append(_name(number, node))
        if (told := counted.get(node)) is not None:
            at = told.began - began
            for phase, name in enumerate(SPANS, 1):
                if phase in told.phases:
                    until = told.phases[phase] - began
                    events.append(_span(number, name, min(at, until), until))
                    at = max(at, until)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _without(stops: Sequence[tuple[float, float]], begin: float, end: float) -> Iterator[tuple[float, float]]:
    """What is left of a time without these, which follow each other."""
    for since, until in stops:
        if begin < until and since < end:
            if begin < since:
                yield begin, since
            begin = min(until, end)
    if begin < end or not stops:
        yield begin, end


def _name(row: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": 0, "tid": row, "args": {"name": name}}


def _span(row: int, name: str, begin_s: float, end_s: float) -> dict[str, Any]:
    times = {"ts": round(begin_s * 1e6), "dur": round((end_s - begin_s) * 1e6)}
    return {"ph": "X", "name": name, "cat": "launch", "pid": 0, "tid": row, **times}

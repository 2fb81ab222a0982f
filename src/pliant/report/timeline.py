"""When which agent of a launch did what, in the Trace Event Format that chrome://tracing and Perfetto open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pliant.protocol.launching import Counted

SPANS = ("start the agents below", "learn how all are reached", "start the program")


def timeline(
    nodes: Sequence[str], began: float, phases: Mapping[str, float], counted: Mapping[str, Counted]
) -> dict[str, Any]:
    """A row for the launch, whose ``phases`` are seconds from when it ``began``, and one for each of ``nodes``; the
    times of other machines are by their own clocks."""
    events = [_name(0, "launch")]
    before = 0.0
    for name, seconds in phases.items():
        events.append(_span(0, name, before, seconds))
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


def _name(row: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": 0, "tid": row, "args": {"name": name}}


def _span(row: int, name: str, begin_s: float, end_s: float) -> dict[str, Any]:
    times = {"ts": round(begin_s * 1e6), "dur": round((end_s - begin_s) * 1e6)}
    return {"ph": "X", "name": name, "cat": "launch", "pid": 0, "tid": row, **times}

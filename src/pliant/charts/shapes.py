"""A job's stay on its nodes as one shape: its area, its outline, and the best place for its name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pliant.history.gantt import Segment
from pliant.model.nodes import NodeSet

LABEL_SEGMENTS = 24
"""A label is sought among this many segments of a job, to bound the work."""


class Box(NamedTuple):
    """From ``from_s`` to ``to_s`` seconds, on nodes ``low`` to ``high``, both included."""

    from_s: float
    to_s: float
    low: int
    high: int


class Line(NamedTuple):
    """A piece of outline between (time, row border) points; row border k lies below node k."""

    x0: float
    y0: int
    x1: float
    y1: int


def area(segments: Sequence[Segment]) -> list[Box]:
    """The boxes that make up a job's segments; they touch but do not overlap."""
    return [Box(s.from_s, s.to_s, low, high) for s in segments for low, high in s.nodes.ranges()]


def outline(segments: Sequence[Segment]) -> list[Line]:
    """The border of the union of a job's segments, in order of time: no line where the job goes on."""
    lines: list[Line] = []
    for s in segments:
        for low, high in s.nodes.ranges():
            lines.append(Line(s.from_s, low, s.to_s, low))
            lines.append(Line(s.from_s, high + 1, s.to_s, high + 1))
    if segments:
        lines += _upright(segments[0].from_s, segments[0].nodes)
        lines += _upright(segments[-1].to_s, segments[-1].nodes)
    for before, after in pairwise(segments):
        changed = before.nodes.mask ^ after.nodes.mask
        lines += _upright(after.from_s, NodeSet(changed))
    return lines


def _upright(at: float, nodes: NodeSet) -> list[Line]:
    return [Line(at, low, at, high + 1) for low, high in nodes.ranges()]


def label_boxes(segments: Sequence[Segment]) -> list[Box]:
    """Boxes that lie inside the job's shape, also across resizes: candidates for its name."""
    boxes: list[Box] = []
    some = segments[:LABEL_SEGMENTS]
    for i, first in enumerate(some):
        common = first.nodes.mask
        for last in some[i:]:
            common &= last.nodes.mask
            if not common:
                break
            boxes += [Box(first.from_s, last.to_s, low, high) for low, high in NodeSet(common).ranges()]
    return boxes


def apart(a: Box, b: Box) -> bool:
    """Whether nodes of another job lie between the two."""
    return a.low > b.high + 1 or b.low > a.high + 1

"""Fills that stay apart for colour-blind readers and on a grey printer: nine colours, then patterns on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pliant.report.runs import Run

# Paul Tol's "muted" scheme: made to be told apart with every common kind of colour blindness. Ordered so that
# neighbours in the order of submission differ in lightness too.
COLOURS = (
    "#88ccee", "#cc6677", "#ddcc77", "#117733", "#c8a2d8", "#332288", "#44aa99", "#aa4466", "#999933",
)  # fmt: skip
HATCHES = ("", "---", "|||", "oo", "+++", "**")
"""No slopes and no dots: these say what nodes are that no job computes on (``figures``)."""


class Fill(NamedTuple):
    """A job's look: ``colour`` as #rrggbb, ``hatch`` in matplotlib's letters, ``ink`` for text on it."""

    colour: str
    hatch: str
    ink: str


DARK, LIGHT = "#10131a", "#ffffff"


def fill(index: int) -> Fill:
    """The look of the ``index``-th job; 54 of them differ."""
    colour = COLOURS[index % len(COLOURS)]
    hatch = HATCHES[index // len(COLOURS) % len(HATCHES)]
    return Fill(colour, hatch, ink_on(colour))


def fills(runs: Iterable[Run]) -> dict[str, Fill]:
    """A look for each job by name: a job that is in several runs looks the same in all of them."""
    found: dict[str, Fill] = {}
    for run in runs:
        for job in run.jobs.values():
            if job.name not in found:
                found[job.name] = fill(len(found))
    return found


def rgb(colour: str) -> tuple[float, float, float]:
    """#rrggbb as linear light, 0 .. 1 each (the sRGB transfer curve undone)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return red, green, blue


def luminance(linear: Sequence[float]) -> float:
    """Relative luminance as WCAG defines it, 0 .. 1."""
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """WCAG's contrast ratio of two colours, 1 .. 21."""
    one, other = luminance(rgb(a)), luminance(rgb(b))
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def ink_on(colour: str) -> str:
    """Whichever of dark and light text reads better on ``colour``."""
    return max((DARK, LIGHT), key=lambda ink: contrast(ink, colour))

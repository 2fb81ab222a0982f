"""What a reader could not read of a figure: text that is cut off at its border, and text upon other text."""

from __future__ import annotations

from itertools import combinations
from typing import Any
from unittest.mock import patch

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from matplotlib.transforms import Bbox

SLACK = 1.0
"""Pixels by which text may reach over the border, or into other text: extents are rounded."""
APART = 4.0
"""Pixels between two texts of one line, or they are read as one."""


def faults(figure: Any) -> list[str]:
    """A line for each; none if the figure can be read."""
    drawn: list[tuple[str, Bbox]] = []
    draw: Any = Text.draw

    def note(self: Text, renderer: Any, *arguments: Any, **named: Any) -> None:
        if self.get_visible():
            drawn.append((self.get_text(), self.get_window_extent(renderer)))
        draw(self, renderer, *arguments, **named)

    canvas: Any = FigureCanvasAgg(figure)
    with patch.object(Text, "draw", note):
        canvas.draw()
    width, height = canvas.get_width_height()
    page = Bbox([[-SLACK, -SLACK], [width + SLACK, height + SLACK]])
    texts = list({(text, box.bounds): (text, box) for text, box in drawn if text.strip()}.values())
    found = [f"cut off: {text!r}" for text, box in texts if not _holds(page, box)]
    return found + [
        f"upon each other: {one!r}, {other!r}"
        for (one, a), (other, b) in combinations(texts, 2)
        if _meet(a, b)
    ]


def _holds(outer: Bbox, inner: Bbox) -> bool:
    return bool(
        outer.x0 <= inner.x0 and inner.x1 <= outer.x1 and outer.y0 <= inner.y0 and inner.y1 <= outer.y1
    )


def _meet(a: Bbox, b: Bbox) -> bool:
    wide = min(a.x1, b.x1) - max(a.x0, b.x0)
    high = min(a.y1, b.y1) - max(a.y0, b.y0)
    return bool(wide > -APART and high > SLACK)

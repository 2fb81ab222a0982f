"""Signs for terminals, with a spelling for those that have only ASCII."""

from __future__ import annotations

from typing import NamedTuple


class Glyphs(NamedTuple):
    full: str
    empty: str
    free: str
    between: str
    """A node that is reserved for somebody or not yet proved clean."""
    lost: str
    started: str
    expand: str
    shrink: str
    completed: str
    failed: str
    other: str


UNICODE = Glyphs("█", "░", "·", "▒", "✗", "▶", "▲", "▼", "✓", "✗", "·")
ASCII = Glyphs("#", ".", ".", "%", "X", ">", "^", "v", "+", "!", "-")


def glyphs(*, ascii_only: bool) -> Glyphs:
    return ASCII if ascii_only else UNICODE


def spelled(text: str, *, ascii_only: bool) -> str:
    """``text`` in letters that the terminal has."""
    return text.replace("…", "~").encode("ascii", "replace").decode() if ascii_only else text

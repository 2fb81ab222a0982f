"""Signs for terminals, with a spelling for those that have only ASCII."""

from __future__ import annotations

import codecs
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
    migrate: str
    slots: str
    completed: str
    failed: str
    other: str


UNICODE = Glyphs("█", "░", "·", "▒", "✗", "▶", "▲", "▼", "⇄", "◐", "✓", "✗", "·")
ASCII = Glyphs("#", ".", ".", "%", "X", ">", "^", "v", "=", "z", "+", "!", "-")


def glyphs(*, ascii_only: bool) -> Glyphs:
    return ASCII if ascii_only else UNICODE


SPELLINGS = {
    "▶": ">", "▲": "^", "▼": "v", "⇄": "=", "◐": "z", "✓": "+", "✗": "!", "·": "-", "…": "~", "±": "+-", "→": "->",
}  # fmt: skip
SPELLED = "pliant.spelled"
"""The name of the handler below for what an encoding does not have."""


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(SPELLINGS.get(character, "?") for character in missing), error.end


codecs.register_error(SPELLED, _spell)


def spelled(text: str, *, ascii_only: bool) -> str:
    """``text`` in letters that the terminal has."""
    return text.encode("ascii", SPELLED).decode() if ascii_only else text

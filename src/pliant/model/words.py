"""Counted things in words, for all that speaks to people."""

from __future__ import annotations


def count(number: int, one: str, many: str = "") -> str:
    """``1 node``, ``4 nodes``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def are(number: int) -> str:
    """``1 is``, ``4 are``."""
    return f"{number:,} {'is' if number == 1 else 'are'}"

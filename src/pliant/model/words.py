"""Counted things in words, for all that speaks to people."""

from __future__ import annotations


def count(number: int, one: str, many: str = "") -> str:
    """``1 node``, ``4 nodes``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def are(number: int, one: str = "") -> str:
    """``1 is``, ``4 are``; ``1 node is``, ``4 nodes are``."""
    things = count(number, one) if one else f"{number:,}"
    return f"{things} {'is' if number == 1 else 'are'}"

"""When two times are one: they were added up from the same seconds, each in an order of its own."""

from __future__ import annotations


def rounding_s(at: float) -> float:
    """So many seconds are none at this time."""
    return 1e-9 + 1e-12 * abs(at)

"""Times as users write them in options: a number with a unit."""

from __future__ import annotations

import re

from pliant.model.errors import BatchError

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str, where: str, *, or_none: bool = False) -> float:
    """Seconds, above 0, or with ``or_none`` 0 too. BatchError begins with ``where``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d)", text)
    seconds = float(match[1]) * UNITS[match[2]] if match is not None else -1.0
    if not 0 <= seconds < float("inf") or (seconds == 0 and not or_none):
        least = "of 0 or more" if or_none else "above 0"
        raise BatchError(
            f"{where}: {text!r} is no time {least} with a unit; write it as in 90s, 30min, 12h, 7d"
        )
    return seconds

"""Times as users write them: a number with a unit, or one of Slurm's forms."""

from __future__ import annotations

import re

from pliant.model.errors import BatchError

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
WITH_UNIT = re.compile(r"(\d+(?:\.\d+)?)(s|min|h|d)", re.ASCII)
SLURM = re.compile(
    r"(?:(?P<days>\d+)-(?P<dh>\d+)(?::(?P<dm>\d+)(?::(?P<ds>\d+))?)?)"
    r"|(?:(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+))",
    re.ASCII,
)
"""Days-hours, with minutes and seconds if need be; minutes:seconds; hours:minutes:seconds. Slurm's plain number of
minutes is not among them: elsewhere in Pliant a plain number is one of seconds."""
FIELDS = {"days": 86400.0, "dh": 3600.0, "dm": 60.0, "ds": 1.0, "h": 3600.0, "m": 60.0, "s": 1.0}
LIMITS = {"dh": 24, "dm": 60, "ds": 60, "m": 60, "s": 60}
"""Upper bounds of a field that follows a larger one."""
NAMES = {"h": "hours", "m": "minutes", "s": "seconds"}


def duration(text: str, where: str, *, or_none: bool = False, plain: bool = False) -> float:
    """Seconds, above 0, or with ``or_none`` 0 too. With ``plain`` a number alone is one of seconds. BatchError begins
    with ``where``."""
    seconds = _seconds(text, plain=plain)
    if seconds is None or not 0 <= seconds < float("inf") or (seconds == 0 and not or_none):
        least = "of 0 or more" if or_none else "above 0"
        form = "; write it in seconds, or" if plain else " with a unit; write it"
        raise BatchError(
            f"{where}: {text!r} is no time {least}{_beyond(text)}{form} as in 90s, 30min, 12h, 7d, "
            "1:30:00 (hours, minutes, seconds) or 2-12 (days, hours)"
        )
    return seconds


def _beyond(text: str) -> str:
    """The fields of a Slurm time that are too large, as an error says it; empty if there are none."""
    match = SLURM.fullmatch(text)
    fields = [(name, value) for name, value in match.groupdict().items() if value] if match else []
    large = [name for name, value in fields[1:] if float(value) >= LIMITS[name]]
    return "".join(f": {NAMES[name[-1]]} go up to {LIMITS[name] - 1}" for name in large[:1])


def _seconds(text: str, *, plain: bool) -> float | None:
    if (match := WITH_UNIT.fullmatch(text)) is not None:
        return float(match[1]) * UNITS[match[2]]
    if (match := SLURM.fullmatch(text)) is not None:
        fields = {name: float(value) for name, value in match.groupdict().items() if value is not None}
        if _beyond(text):
            return None
        return sum(value * FIELDS[name] for name, value in fields.items())
    if plain and re.fullmatch(r"\d+(?:\.\d+)?", text, re.ASCII):
        return float(text)
    return None

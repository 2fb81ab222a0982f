"""A machine whose nodes come and go, as a user writes it."""

from __future__ import annotations

from pliant.model.durations import duration
from pliant.model.errors import BatchError
from pliant.model.limits import MOST_NODES, whole
from pliant.model.nearest import nearest
from pliant.model.pool import Pool
from pliant.workloads.keyed import keyed

FORM = "max=64[,min=4,delay=90s,idle=5min]"
KEYS = {"max": True, "min": False, "delay": False, "idle": False}
"""Whether each is needed."""


def read_pool(text: str) -> Pool:
    """The limits and times of a machine whose nodes come and go, in the form of ``FORM``. BatchError says what is
    wrong."""
    wrong = f"elastic: {text}:"
    given = keyed(text, KEYS, wrong, lambda key: f"there is no {key!r}{nearest(key, KEYS)}", f"write {FORM}")
    least = _nodes(given.get("min", "0"), f"{wrong} min", 0)
    most = _nodes(given["max"], f"{wrong} max", 1)
    if least > most:
        raise BatchError(f"{wrong} min {least} is more than max {most}; write {FORM}")
    return Pool(
        least,
        most,
        duration(given.get("delay", "1min"), f"{wrong} delay"),
        duration(given.get("idle", "5min"), f"{wrong} idle", or_none=True),
    )


def _nodes(text: str, where: str, least: int) -> int:
    number = whole(text)
    if number is None or not least <= number <= MOST_NODES:
        raise BatchError(f"{where}: {text!r} is no number of nodes, {least} to {MOST_NODES:,}")
    return number

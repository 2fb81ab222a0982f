"""Checkpoints as a user asks for them: how often jobs write one, and what it takes."""

from __future__ import annotations

from typing import NamedTuple

from pliant.model.durations import duration
from pliant.model.keys import keyed

FORM = "interval=30min,cost=20s[,restart=1min]"


class Checkpoints(NamedTuple):
    """Whenever a job has computed for ``interval_s`` since its last checkpoint it writes one, and stands still for
    ``cost_s``; before it goes on from one after a loss, it stands still for ``restart_s``."""

    interval_s: float
    cost_s: float
    restart_s: float = 0.0


def read_checkpoints(text: str) -> Checkpoints:
    """Checkpoints as a user writes them: see ``FORM``. BatchError says what is wrong."""
    wrong = f"checkpoint: {text}:"
    keys = {"interval": True, "cost": True, "restart": False}
    given = keyed(text, keys, wrong, FORM)
    return Checkpoints(
        duration(given["interval"], f"{wrong} interval"),
        duration(given["cost"], f"{wrong} cost", or_none=True),
        duration(given.get("restart", "0s"), f"{wrong} restart", or_none=True),
    )

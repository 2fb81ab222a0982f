"""What nodes draw, as a user writes it."""

from __future__ import annotations

import math

from pliant.history.energy import Power
from pliant.model.durations import duration
from pliant.model.errors import BatchError
from pliant.model.keys import keyed

FORM = "idle=100,busy=200[,off=5,after=10min,boot=2min]"
MOST_W = 1e9
WATTS = ("idle", "busy", "off")
KEYS = {"idle": True, "busy": True, "off": False, "after": False, "boot": False}
"""Whether each is needed."""


def read_power(text: str) -> Power:
    """The power of a node, in the form of ``FORM``; watts and times. BatchError says what is wrong."""
    wrong = f"energy: {text}:"
    given = keyed(text, KEYS, wrong, FORM)
    for key in ("off", "boot"):
        if key in given and "after" not in given:
            raise BatchError(f"{wrong} {key} changes nothing where nodes are never switched off; give after")
    idle_w, busy_w, off_w = (_watts(given.get(key, "0"), f"{wrong} {key}") for key in WATTS)
    if not off_w <= idle_w <= busy_w:
        raise BatchError(
            f"{wrong} off {off_w:g} W, idle {idle_w:g} W, busy {busy_w:g} W: each must be as much as the one "
            "before, or more"
        )
    after_s = duration(given["after"], f"{wrong} after", or_none=True) if "after" in given else math.inf
    return Power(
        idle_w, busy_w, off_w, after_s, duration(given.get("boot", "0s"), f"{wrong} boot", or_none=True)
    )


def _watts(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= MOST_W:
        raise BatchError(f"{where}: {text!r} is no number of watts, 0 to {MOST_W:g}")
    return number

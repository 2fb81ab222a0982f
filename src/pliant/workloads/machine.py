"""The machine of a simulation, as a user writes it: nodes that come and go, what they draw, and checkpoints."""

from __future__ import annotations

import math
from typing import NamedTuple

from pliant.history.energy import Power
from pliant.model.durations import duration
from pliant.model.errors import BatchError
from pliant.model.keys import keyed
from pliant.model.limits import MOST_NODES, as_number, whole
from pliant.model.need import Pool

POOL = "max=64[,min=4,delay=90s,idle=5min,lease=2h,price=0.5]"
POWER = "idle=100,busy=200[,off=5,after=10min,boot=2min]"
CHECKPOINTS = "interval=30min,cost=20s[,restart=1min]"
LEAST_LEASE_S = 60.0
MOST_W = 1e9


def read_pool(text: str) -> Pool:
    """The limits and times of a machine whose nodes come and go, in the form of ``POOL``. BatchError says what is
    wrong."""
    wrong = f"elastic: {text}:"
    keys = {"max": True, "min": False, "delay": False, "idle": False, "lease": False, "price": False}
    given = keyed(text, keys, wrong, POOL)
    least = _nodes(given.get("min", "0"), f"{wrong} min", 0)
    most = _nodes(given["max"], f"{wrong} max", 1)
    if least > most:
        raise BatchError(f"{wrong} min {least} is more than max {most}; write {POOL}")
    delay_s = duration(given.get("delay", "1min"), f"{wrong} delay")
    lease_s = duration(given["lease"], f"{wrong} lease") if "lease" in given else float("inf")
    if lease_s < LEAST_LEASE_S + delay_s:
        raise BatchError(
            f"{wrong} lease {given['lease']}: nodes last at least {LEAST_LEASE_S:g} s longer than others "
            "take to come; give them longer"
        )
    idle_s = duration(given.get("idle", "5min"), f"{wrong} idle", or_none=True)
    price = _price(given["price"], f"{wrong} price") if "price" in given else None
    return Pool(least, most, delay_s, idle_s, price, lease_s)


def _price(text: str, where: str) -> float:
    price = as_number(text)
    if not 0.0 <= price < math.inf:
        raise BatchError(f"{where}: {text!r} is no price of a node-hour, 0 or more")
    return price


def _nodes(text: str, where: str, least: int) -> int:
    count = whole(text)
    if count is None or not least <= count <= MOST_NODES:
        raise BatchError(f"{where}: {text!r} is no number of nodes, {least} to {MOST_NODES:,}")
    return count


def read_power(text: str) -> Power:
    """The power of a node, in the form of ``POWER``; watts and times. BatchError says what is wrong."""
    wrong = f"energy: {text}:"
    keys = {"idle": True, "busy": True, "off": False, "after": False, "boot": False}
    given = keyed(text, keys, wrong, POWER)
    for key in ("off", "boot"):
        if key in given and "after" not in given:
            raise BatchError(f"{wrong} {key} changes nothing where nodes are never switched off; give after")
    idle_w, busy_w, off_w = (_watts(given.get(key, "0"), f"{wrong} {key}") for key in ("idle", "busy", "off"))
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
    watts = as_number(text)
    if not 0 <= watts <= MOST_W:
        raise BatchError(f"{where}: {text!r} is no number of watts, 0 to {MOST_W:g}")
    return watts


class Checkpoints(NamedTuple):
    """Whenever a job has computed for ``interval_s`` since its last checkpoint it writes one, and stands still for
    ``cost_s``; before it goes on from one after a loss, it stands still for ``restart_s``."""

    interval_s: float
    cost_s: float
    restart_s: float = 0.0


def read_checkpoints(text: str) -> Checkpoints:
    """Checkpoints as a user writes them: see ``CHECKPOINTS``. BatchError says what is wrong."""
    wrong = f"checkpoint: {text}:"
    keys = {"interval": True, "cost": True, "restart": False}
    given = keyed(text, keys, wrong, CHECKPOINTS)
    return Checkpoints(
        duration(given["interval"], f"{wrong} interval"),
        duration(given["cost"], f"{wrong} cost", or_none=True),
        duration(given.get("restart", "0s"), f"{wrong} restart", or_none=True),
    )

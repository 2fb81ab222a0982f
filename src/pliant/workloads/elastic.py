"""A machine whose nodes come and go, as a user writes it."""

from __future__ import annotations

from pliant.model.durations import duration
from pliant.model.errors import BatchError
from pliant.model.keys import keyed
from pliant.model.limits import MOST_NODES, whole
from pliant.model.need import Pool

FORM = "max=64[,min=4,delay=90s,idle=5min,lease=2h,price=0.5]"
KEYS = {"max": True, "min": False, "delay": False, "idle": False, "lease": False, "price": False}
LEAST_LEASE_S = 60.0
"""Whether each is needed."""


def read_pool(text: str) -> Pool:
    """The limits and times of a machine whose nodes come and go, in the form of ``FORM``. BatchError says what is
    wrong."""
    wrong = f"elastic: {text}:"
    given = keyed(text, KEYS, wrong, FORM)
    least = _nodes(given.get("min", "0"), f"{wrong} min", 0)
    most = _nodes(given["max"], f"{wrong} max", 1)
    if least > most:
        raise BatchError(f"{wrong} min {least} is more than max {most}; write {FORM}")
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
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0.0 <= price < float("inf"):
        raise BatchError(f"{where}: {text!r} is no price of a node-hour, 0 or more")
    return price


def _nodes(text: str, where: str, least: int) -> int:
    number = whole(text)
    if number is None or not least <= number <= MOST_NODES:
        raise BatchError(f"{where}: {text!r} is no number of nodes, {least} to {MOST_NODES:,}")
    return number

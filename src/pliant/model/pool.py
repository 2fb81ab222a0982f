"""Nodes that come by request and go when nobody needs them: between which limits, and at what delay."""

from __future__ import annotations

import msgspec


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine of ``min`` to ``max`` nodes. A node comes ``delay_s`` seconds after it was asked for; a policy that
    plans once an instant, as ``entitled``, needs more than 0. A node counts as unused once nobody has needed it for
    ``idle_s`` seconds. A node-hour costs ``price``, in a currency of the user's; policies take 1 where none is given.
    A node that was asked for expires ``lease_s`` seconds after it has come."""

    min: int
    max: int
    delay_s: float = 0.0
    idle_s: float = 300.0
    price: float | None = None
    lease_s: float = float("inf")

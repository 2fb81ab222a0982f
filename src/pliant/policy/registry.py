"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from inspect import signature

from pliant.model.errors import PolicyError
from pliant.policy.agreement import AGREEMENT, POOL, STEAL
from pliant.policy.conservative import Conservative
from pliant.policy.dmr import DmrPreferred, DmrWide
from pliant.policy.easy import Easy
from pliant.policy.equipartition import Equipartition
from pliant.policy.family import member
from pliant.policy.fcfs import Fcfs
from pliant.policy.firstfit import FirstFit
from pliant.policy.keep_preferred import KeepPreferred
from pliant.policy.malleable import Malleable
from pliant.policy.marginal import Marginal
from pliant.policy.order import HALF_LIFE_S, ORDERS, ordered
from pliant.policy.sizing import AVERAGE, MIN, PREFERRED
from pliant.policy.view import Policy

START_RULES = ("min", "preferred", "free", "max")

SIZINGS = {
    MIN: "Starts at min; who has most above min shrinks for others",
    PREFERRED: "Starts at preferred; shrinks to preferred, else to min",
    AVERAGE: "Starts at min; evens out how far jobs are from min to max",
}
RULES = {
    AGREEMENT: "nodes are kept for whom they were freed",
    STEAL: "jobs swap kept nodes to start sooner",
    POOL: "freed nodes are pooled",
}

POLICIES: dict[str, Callable[..., Policy]] = {
    "fcfs": Fcfs,
    "firstfit": FirstFit,
    "easy": Easy,
    "conservative": Conservative,
    "marginal": Marginal,
    "malleable": Malleable,
    "keep-preferred": KeepPreferred,
    "equipartition": Equipartition,
    "dmr-preferred": DmrPreferred,
    "dmr-wide": DmrWide,
} | {
    f"{sizing.name}-{rule.name}": member(sizing, rule, f"{gives}; {keeps}.")
    for sizing, gives in SIZINGS.items()
    for rule, keeps in RULES.items()
}


def make(
    name: str,
    start: str | None = None,
    *,
    order: str = "submission",
    weights: Mapping[str, float] | None = None,
    half_life_s: float = HALF_LIFE_S,
) -> Policy:
    """The policy ``name``, starting jobs that have a choice by rule ``start`` (else its own default), in one
    of ``ORDERS``: the last two parameters are those of ``ordered``.

    PolicyError names the nearest policy where ``name`` is unknown.
    """
    if name not in POLICIES:
        raise PolicyError(f"there is no policy {name!r}{nearest(name, POLICIES)}")
    return build(POLICIES[name], name, start, order=order, weights=weights, half_life_s=half_life_s)


def build(
    kind: Callable[..., Policy],
    name: str,
    start: str | None = None,
    *,
    order: str = "submission",
    weights: Mapping[str, float] | None = None,
    half_life_s: float = HALF_LIFE_S,
) -> Policy:
    """A policy of ``kind``, known as ``name``; the rest as for ``make``."""
    if order not in ORDERS:
        raise PolicyError(f"there is no order {order!r}{nearest(order, ORDERS)}")
    if start is None:
        policy = kind()
    elif start not in START_RULES:
        raise PolicyError(f"there is no start rule {start!r} (known: {', '.join(START_RULES)})")
    elif not has_start_rule(kind):
        raise PolicyError(f"policy {name!r} has no start rule: it chooses the sizes itself")
    else:
        policy = kind(start=start)
    return ordered(policy, order, weights, half_life_s)


def has_start_rule(kind: Callable[..., Policy]) -> bool:
    return "start" in signature(kind).parameters


def nearest(name: str, known: Iterable[str]) -> str:
    """What may have been meant by ``name``, and what there is: the end of a message."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{hint} (known: {', '.join(names)})"

"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature

from pliant.model.errors import PolicyError
from pliant.model.words import nearest
from pliant.policy.agreement import AGREEMENT, POOL, STEAL, Rule
from pliant.policy.booked import BOOKED, Calendar, keeps_none
from pliant.policy.conservative import Conservative
from pliant.policy.dmr import DmrPreferred, DmrWide
from pliant.policy.easy import Easy
from pliant.policy.entitled.entitled import Entitled
from pliant.policy.equipartition import Equipartition
from pliant.policy.family import Agreeing
from pliant.policy.fcfs import Fcfs
from pliant.policy.firstfit import FirstFit
from pliant.policy.keep_preferred import KeepPreferred
from pliant.policy.malleable import Malleable
from pliant.policy.marginal import Marginal
from pliant.policy.order import HALF_LIFE_S, ordered
from pliant.policy.parameters import NamedPolicy, split, values
from pliant.policy.sizing import AVERAGE, MIN, PREFERRED, Sizing
from pliant.policy.view import Policy

START_RULES = ("min", "preferred", "free", "max", "exact")

KEEPING = ("fcfs", "firstfit", "easy", "conservative")
"""They choose a job's size when it starts, and never resize it."""

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


def _member(sizing: Sizing, rule: Rule, line: str) -> Callable[..., Policy]:
    """What makes the policy ``sizing.name``-``rule.name``, described by ``line``."""

    def made(payback: float = 2.0) -> Policy:
        return Agreeing(sizing, rule, payback)

    made.__doc__ = line
    return made


POLICIES: dict[str, Callable[..., Policy]] = {
    "fcfs": Fcfs,
    "firstfit": FirstFit,
    "easy": Easy,
    "conservative": Conservative,
    "marginal": Marginal,
    "entitled": Entitled,
    "malleable": Malleable,
    "keep-preferred": KeepPreferred,
    "equipartition": Equipartition,
    "dmr-preferred": DmrPreferred,
    "dmr-wide": DmrWide,
} | {
    f"{sizing.name}-{rule.name}": _member(sizing, rule, f"{gives}; {keeps}.")
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
    """The policy ``name``, which may have parameters (``marginal:payback=5``), starting jobs that have a choice by rule
    ``start`` (else its own default), in one of ``ORDERS``: the last two parameters are those of ``ordered``.
    PolicyError where there is no such thing."""
    plain, said = split(name)
    return ordered(build(kind_of(plain), plain, start, said), order, weights, half_life_s)


def kind_of(name: str) -> Callable[..., Policy]:
    """What makes policies ``name``. PolicyError names the nearest where it is unknown."""
    if name not in POLICIES:
        raise PolicyError(f"there is no policy {name!r}{nearest(name, POLICIES)}")
    return POLICIES[name]


def build(
    kind: Callable[..., Policy], name: str, start: str | None = None, said: Mapping[str, str] | None = None
) -> Policy:
    """A policy of ``kind``, known as ``name``, by start rule ``start``, else its own default, and with what is ``said``
    of its parameters, which its name tells then. PolicyError."""
    given = values(kind, name, said or {})
    rule = given.get("start", start)
    if start is not None and rule != start:
        raise PolicyError(f"policy {name!r}: it is to start jobs by {rule} and by {start}; name one rule")
    if rule is not None:
        if rule not in START_RULES:
            raise PolicyError(f"there is no start rule {rule!r} (known: {', '.join(START_RULES)})")
        if not has_start_rule(kind):
            raise PolicyError(f"policy {name!r} has no start rule: it chooses the sizes itself")
        given["start"] = rule
    policy = kind(**given)
    if said:
        told = ":".join(f"{key}={text}" for key, text in said.items())
        return NamedPolicy(policy, f"{policy.name}:{told}")
    return policy


def booked(name: str, calendar: Calendar) -> Callable[..., Policy]:
    """What makes policies ``name`` that keep what is booked. PolicyError for one that cannot."""
    if name not in BOOKED:
        raise keeps_none(name)
    kind = BOOKED[name]

    def made(start: str = "preferred") -> Policy:
        return kind(calendar, start)

    return made


def keeps_sizes(name: str) -> bool:
    """Whether the policy ``name``, which may have parameters, never resizes a job."""
    return name.partition(":")[0] in KEEPING


def has_start_rule(kind: Callable[..., Policy]) -> bool:
    return "start" in signature(kind).parameters

"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from pliant.model.errors import PolicyError
from pliant.policy.easy import Easy
from pliant.policy.fcfs import Fcfs
from pliant.policy.malleable import Malleable
from pliant.policy.view import Policy

START_RULES = ("min", "preferred", "free")

POLICIES: dict[str, Callable[..., Policy]] = {"fcfs": Fcfs, "easy": Easy, "malleable": Malleable}


def make(name: str, start: str | None = None) -> Policy:
    """The policy ``name``, starting jobs that have a choice by rule ``start`` (else its own default).

    PolicyError names the nearest policy where ``name`` is unknown.
    """
    if name not in POLICIES:
        near = get_close_matches(name, POLICIES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise PolicyError(f"there is no policy {name!r}{hint} (known: {', '.join(POLICIES)})")
    if start is None:
        return POLICIES[name]()
    if start not in START_RULES:
        raise PolicyError(f"there is no start rule {start!r} (known: {', '.join(START_RULES)})")
    return POLICIES[name](start=start)

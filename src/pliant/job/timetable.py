"""Where no scheduler is: what the user's environment says about when a program resizes itself, and how.

``PLIANT_RESIZE_AT=100:8,200:2,300:n1=1+n2=1``: at step 100 to 8 nodes, at step 200 to 2; at step 300 one rank is to be
awake on n1, and one on n2. ``PLIANT_RESIZE_HOSTS=n0:2,n1:2``: the
nodes that may be used, in this order, with the slots of each. ``PLIANT_RESIZE_METHOD`` and ``PLIANT_RESIZE_STRATEGY``
are names of ``plan/spawn.py``, the latter with those of ``plan/choose.py`` behind it (``hypercube,asynchronous``);
``PLIANT_RESIZE_SHRINK`` is one of ``plan/shrink.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple, TypeVar

from pliant.job.decisions import NEVER, Action, Decision
from pliant.model.errors import PliantError
from pliant.model.words import count
from pliant.plan.choose import SpawnOption, SpawnPreferences
from pliant.plan.shrink import ShrinkMethod
from pliant.plan.spawn import Method, Strategy

AT = "PLIANT_RESIZE_AT"
HOSTS = "PLIANT_RESIZE_HOSTS"
METHOD = "PLIANT_RESIZE_METHOD"
STRATEGY = "PLIANT_RESIZE_STRATEGY"
SHRINK = "PLIANT_RESIZE_SHRINK"
E = TypeVar("E", Method, ShrinkMethod)


class Due(NamedTuple):
    """At ``step`` the job goes to ``nodes`` nodes; or, with ``slots``, it stays on those it has, and so many of its
    ranks are awake on these."""

    step: int
    nodes: int
    slots: tuple[tuple[str, int], ...] = ()


class TimetableHost(NamedTuple):
    name: str
    slots: int


class TimetableOrders(NamedTuple):
    """All that the environment says. Without ``hosts`` every node is the machine that the job was started on, with as
    many slots as it has ranks there."""

    due: tuple[Due, ...]
    hosts: tuple[TimetableHost, ...]
    asked: SpawnPreferences = SpawnPreferences()


def read(environ: Mapping[str, str]) -> TimetableOrders | None:
    """What is to be done, or None where nothing is said; PliantError that names the variable and what is wrong."""
    if not environ.get(AT):
        return None
    due = tuple(_due(item) for item in environ[AT].split(","))
    for one, other in pairwise(due):
        if one.step >= other.step:
            raise PliantError(
                f"{AT}: step {other.step} comes after step {one.step}: name steps in their order"
            )
    hosts = tuple(_host(item) for item in environ.get(HOSTS, "").split(",") if item)
    if hosts and (most := max(each.nodes for each in due)) > len(hosts):
        raise PliantError(f"{AT} asks for {count(most, 'node')}, and {HOSTS} names {len(hosts)}: name more")
    for each in due:
        _check_slots(each, hosts)
    if len({host.name for host in hosts}) < len(hosts):
        raise PliantError(f"{HOSTS}={environ[HOSTS]}: a node is named twice")
    method = _named(environ, METHOD, Method)
    strategy, beside = _strategies(environ.get(STRATEGY, ""))
    asked = SpawnPreferences(method or Method.MERGE, strategy, _named(environ, SHRINK, ShrinkMethod), beside)
    return TimetableOrders(due, hosts, asked)


def _due(item: str) -> Due:
    step, _, what = item.partition(":")
    if _is_number(step) and "=" in what:
        pairs = [each.strip().partition("=") for each in what.split("+")]
        if all(name and _is_number(slots) and int(slots) for name, _, slots in pairs):
            return Due(int(step), 0, tuple((name, int(slots)) for name, _, slots in pairs))
    if not (_is_number(step) and _is_number(what) and int(what)):
        raise PliantError(
            f"{AT}: {item!r} is no step and number of nodes, such as 100:8, nor are there slots of nodes in it, one at "
            "least of each, such as 100:n1=2+n2=1"
        )
    return Due(int(step), int(what))


def _check_slots(due: Due, hosts: tuple[TimetableHost, ...]) -> None:
    there = {host.name: host.slots for host in hosts}
    if len(names := [name for name, _ in due.slots]) > len(set(names)):
        raise PliantError(f"{AT}: at step {due.step} a node is named twice")
    for name, slots in due.slots:
        if name not in there:
            raise PliantError(
                f"{AT}: at step {due.step} {name!r} is named, and not in {HOSTS}: name it there, with its slots"
            )
        if slots > there[name]:
            raise PliantError(
                f"{AT}: step {due.step} asks for {count(slots, 'slot')} of {name!r}, and {HOSTS} gives it {there[name]}"
            )


def _host(item: str) -> TimetableHost:
    name, _, slots = item.strip().partition(":")
    if not name or not (_is_number(slots) and int(slots)):
        raise PliantError(f"{HOSTS}: {item!r} is no node with its slots, such as n0:2")
    return TimetableHost(name, int(slots))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _strategies(text: str) -> tuple[Strategy | None, frozenset[SpawnOption]]:
    """One that says who starts whom, if any, and what else is called a strategy."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    known = [*Strategy, *SpawnOption]
    for word in words:
        if word not in known:
            raise PliantError(f"{STRATEGY} is {text!r}: {word!r} is none of {', '.join(known)}")
    spawn = [Strategy(word) for word in words if word in [*Strategy]]
    if len(spawn) > 1:
        raise PliantError(f"{STRATEGY} is {text!r}: {spawn[0]} and {spawn[1]} exclude each other")
    return spawn[0] if spawn else None, frozenset(
        SpawnOption(word) for word in words if word in [*SpawnOption]
    )


def _named(environ: Mapping[str, str], name: str, kind: type[E]) -> E | None:
    text = environ.get(name, "").lower()
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(each.value for each in kind)
        raise PliantError(f"{name} is {environ[name]!r}: it must be one of {known}") from None


class Timetable:
    """Decides at the steps that are named; resizes are numbered from 1. What changes nothing is left out."""

    def __init__(self, due: tuple[Due, ...], nodes: int) -> None:
        """For a job that begins with ``nodes`` nodes."""
        self._at: dict[int, Decision] = {}
        self._due = due
        for number, each in enumerate(due, 1):
            if each.slots:
                self._at[each.step] = Decision(Action.SLOTS, resize=number)
                continue
            if each.nodes != nodes:
                action = Action.EXPAND if each.nodes > nodes else Action.SHRINK
                self._at[each.step] = Decision(action, resize=number)
            nodes = each.nodes

    def following(self, step: int) -> int:
        return next((each for each in self._at if each >= step), NEVER)

    def decide(self, step: int) -> Decision:
        return self._at[step]

    def due(self, resize: int) -> Due:
        """What this resize is to do."""
        return self._due[resize - 1]

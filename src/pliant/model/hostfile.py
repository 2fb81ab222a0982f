"""Files that name hosts and their slots, in the forms of hydra, Open MPI and Slurm. Without I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pliant.model.errors import PliantError
from pliant.model.hosts import node_at
from pliant.model.limits import MOST_HOSTS, whole
from pliant.model.nodes import parse_hostlist
from pliant.model.words import count

_BRACKET = re.compile(r"\[[^\[\]]*\]")
_KEYS = {"slots": "slots", "max_slots": "most", "max-slots": "most"}


class HostSlots(NamedTuple):
    """A host as a node: so many processes belong there, and at ``most`` so many may be; 0: as many as there are."""

    name: str
    slots: int = 1
    most: int = 0


def parse_hostfile(text: str, source: str) -> tuple[HostSlots, ...]:
    """The hosts that a file has, each once, with the slots of all lines that name it. ``source`` is the file's name.

    A line is ``host``, ``host:slots`` or ``host slots=4 max_slots=8``; ``#`` begins a comment. ``host`` may be a
    hostlist, ``[host]:port`` or an IPv6 address. PliantError that names file, line and remedy.
    """
    found: dict[str, HostSlots] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            for host in _hosts(line.partition("#")[0]):
                before = found.get(host.name)
                found[host.name] = host if before is None else _both(before, host)
        except ValueError as error:
            raise PliantError(f"{source}, line {number}: {error}") from None
        if len(found) > MOST_HOSTS:
            raise PliantError(
                f"{source}, line {number}: a hostfile names at most {MOST_HOSTS:,} hosts; leave some out"
            )
    return tuple(found.values())


def _both(one: HostSlots, other: HostSlots) -> HostSlots:
    most = one.most + other.most if one.most and other.most else 0
    return HostSlots(one.name, one.slots + other.slots, most)


def _hosts(line: str) -> list[HostSlots]:
    """The hosts of one line; ValueError."""
    first, *rest = re.sub(r"\s*=\s*", "=", line).split() or [""]
    if not first:
        return []
    names, slots = _named(first)
    numbers = {"slots": slots} if slots else {}
    for word in rest:
        key, _, number = word.partition("=")
        if key not in _KEYS:
            raise ValueError(f"{word!r} is not known here; write: host slots=4 max_slots=8")
        if _KEYS[key] in numbers:
            raise ValueError(f"{word!r} is said twice; say it once")
        numbers[_KEYS[key]] = _number(word, number)
    if 0 < numbers.get("most", 0) < numbers.get("slots", 1):
        raise ValueError("max_slots is less than slots; raise max_slots, or leave it out")
    return [HostSlots(name, **numbers) for name in names]


def _named(word: str) -> tuple[list[str], int]:
    """The names that a line begins with, and hydra's slots, or 0."""
    colons = _BRACKET.sub("", word).count(":")
    if colons == 1 and not word.rpartition("@")[2].startswith("["):
        word, _, number = word.rpartition(":")
        return _nodes(word), _number(f"{word}:{number}", number)
    return _nodes(word), 0


def _nodes(word: str) -> list[str]:
    """The nodes of a hostlist; ValueError."""
    return [node_at(name) for name in parse_hostlist(word)]


def _number(word: str, text: str) -> int:
    number = whole(text)
    if not number:
        raise ValueError(
            f"{word!r}: slots are a number from 1; write host:4 or host slots=4, and [host]:port for a port"
        )
    return number


def placed(processes: int, hosts: Sequence[HostSlots]) -> tuple[int, ...]:
    """How many of the ``processes`` each host has: its slots are filled in the hosts' order, then again from the first,
    up to what each may have at most. ValueError if they may not have so many."""
    sizes, left = [0] * len(hosts), processes
    while left:
        before = left
        for number, host in enumerate(hosts):
            room = host.most - sizes[number] if host.most else host.slots
            taken = min(host.slots, left, room)
            sizes[number] += taken
            left -= taken
        if left == before:
            raise ValueError(
                f"{count(processes, 'process', 'processes')}, and {sum(sizes):,} is the most by max_slots; "
                "start fewer, or raise max_slots"
            )
    return tuple(sizes)


def names(hosts: Iterable[HostSlots]) -> tuple[str, ...]:
    return tuple(host.name for host in hosts)

"""How much a machine remembers: what it keeps of what is over would grow for ever."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

PARTS = ("pliant.live.", "pliant.core.", "pliant.protocol.")


def weigh(machine: object) -> int:
    """How many entries the collections have that ``machine`` and its parts hold, each counted once."""
    seen: set[int] = set()
    waiting: list[Any] = [machine]
    count = 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            count += len(each)
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset | deque):
            count += len(each)
            waiting += each
        elif type(each).__module__.startswith(PARTS):
            waiting += _values(each)
    return count


def _values(machine: object) -> Iterator[Any]:
    yield from vars(machine).values() if hasattr(machine, "__dict__") else ()
    for kind in type(machine).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(machine, name):
                yield getattr(machine, name)

"""Words for all that speaks to people: counted things, and what may have been meant by a name that nothing has."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def count(number: int, one: str, many: str = "") -> str:
    """``1 node``, ``4 nodes``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def are(number: int, one: str = "") -> str:
    """``1 is``, ``4 are``; ``1 node is``, ``4 nodes are``."""
    things = count(number, one) if one else f"{number:,}"
    return f"{things} {'is' if number == 1 else 'are'}"


def nearest(name: str, known: Iterable[str]) -> str:
    """What may have been meant by ``name``, and what there is: the end of a message."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{hint} (known: {', '.join(names)})"

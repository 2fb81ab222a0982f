"""Nodes that are asked for: what they have to have, and between which limits they come and go."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from pliant.model.words import count

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}")


class Need(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node with at least so many ``slots``, and with all of these ``labels``, which are sorted."""

    slots: int = 0
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        """In words, behind the nodes: ``with 4 slots, labelled gpu``."""
        with_slots = [f"with {count(self.slots, 'slot')}"] if self.slots else []
        labelled = [f"labelled {' and '.join(self.labels)}"] if self.labels else []
        return ", ".join(with_slots + labelled)

    def met(self, slots: int, labels: Iterable[str]) -> bool:
        """Whether a node with these fulfils it."""
        return slots >= self.slots and set(self.labels) <= set(labels)


def checked_label(text: str) -> str:
    """The same text; ValueError where it is no label."""
    if not _LABEL.fullmatch(text):
        raise ValueError(
            f"{text[:80]!r} is no label: a label begins with a letter or digit, and has no more than 63 letters, "
            "digits and _.:-"
        )
    return text


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

"""Labels of nodes, and what a node has to have that is asked for."""

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

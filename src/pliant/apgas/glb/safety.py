"""What a place leaves with another, its buddy, so that its tasks and results can be had again when it dies.

The unit is a place with all its bags. Before work leaves it, what stays and what leaves is put down at its buddy: so
that what is put down and what is on its way never have a task in common. The receiver has the tasks in what it puts
down itself from then on, and tells the giver; until then the giver keeps them. Each piece of work that travels has a
number by which it can be told whether it has arrived. Place 0 does not die, and keeps what others need of it in its
memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

Piece = tuple[int, int]
"""Work that has travelled: the giver and a number there."""


class InTransit(NamedTuple):
    """Work that left for ``thief``, as bytes, until that has put it down."""

    thief: int
    packed: bytes


class Backup(NamedTuple):
    """What a place has put down: its bags as bytes, pieces that it has got and given."""

    version: int
    packed: bytes
    received: frozenset[Piece]
    given: dict[Piece, InTransit]


class RecoveryReport(NamedTuple):
    """What a place that lives, or leaves, knows."""

    received: set[Piece]
    given: dict[Piece, InTransit]
    kept: dict[int, Backup]
    version: int = 0
    """The last that it has put down."""


class Safety:
    """One place's part."""

    def __init__(self, here: int) -> None:
        self.here = here
        self.buddy: int | None = None
        self.version = 0
        self.put_down_at = 0.0
        self.received: set[Piece] = set()
        self.given: dict[Piece, InTransit] = {}
        self.kept: dict[int, Backup] = {}
        """What others have put down here."""
        self._told: set[Piece] = set()
        self._numbers = 0

    def give(self, thief: int, packed: bytes) -> Piece:
        """Work is to leave for ``thief``."""
        self._numbers += 1
        piece = self.here, self._numbers
        self.given[piece] = InTransit(thief, packed)
        return piece

    def keep(self, place: int, backup: Backup) -> None:
        """``place`` puts this down here."""
        if place not in self.kept or self.kept[place].version < backup.version:
            self.kept[place] = backup

    def backup(self, packed: bytes) -> Backup:
        self.version += 1
        return Backup(self.version, packed, frozenset(self.received), dict(self.given))

    def choose(self, places: Iterable[int]) -> int | None:
        """The buddy among ``places``: the one there is, or the next in a ring; None where nobody else is there."""
        others = sorted(place for place in places if place != self.here)
        if self.buddy not in others:
            self.buddy = next((place for place in others if place > self.here), others[0] if others else None)
        return self.buddy

    def report(self) -> RecoveryReport:
        return RecoveryReport(self.received, self.given, self.kept, self.version)

    def adopt(self, received: Iterable[Piece], given: dict[Piece, InTransit]) -> None:
        """At place 0: what another place, which is gone, has got and given."""
        self.received.update(received)
        self._told |= self.received
        self.given.update(given)

    def news(self, put_down: Backup) -> dict[int, list[Piece]]:
        """By giver what it need not keep any more, as the buddy has it now; each is told once."""
        news: dict[int, list[Piece]] = {}
        for piece in sorted(put_down.received - self._told):
            news.setdefault(piece[0], []).append(piece)
        self._told |= put_down.received
        return news

    def forget(self, pieces: Iterable[Piece]) -> None:
        """The thieves have put these down."""
        for piece in pieces:
            self.given.pop((piece[0], piece[1]), None)


class Recovered(NamedTuple):
    """``packed`` bags that nobody has, now place 0's, which takes over what the dead had ``received`` and ``given``.

    ``hopeless`` are places of which it was lost with their buddies: there is no way to tell what they had.
    """

    packed: list[bytes]
    received: set[Piece]
    given: dict[Piece, InTransit]
    hopeless: list[int]


def recover(
    reports: dict[int, RecoveryReport], gone: set[int], put_down: dict[int, int], void: dict[int, int]
) -> Recovered:
    """``gone`` places have died; ``put_down`` has the buddies of those that have put something down; ``reports`` of all
    others, when no work is on its way. What a place has put down up to its version in ``void`` is with place 0
    already."""
    backups: dict[int, Backup] = {}
    for place in gone & put_down.keys():
        # Others may still have what it had put down with them before.
        buddy = reports.get(put_down[place])
        backup = buddy.kept.get(place) if buddy is not None else None
        if backup is not None and backup.version > void.get(place, 0):
            backups[place] = backup
    hopeless = sorted(gone & put_down.keys() - backups.keys())
    received = set().union(*(report.received for report in reports.values()))
    received |= set().union(*(backup.received for backup in backups.values()))
    pieces: dict[Piece, InTransit] = {}
    for report in reports.values():
        pieces.update(report.given)
    for backup in backups.values():
        pieces.update(backup.given)
    lost = {piece: given for piece, given in sorted(pieces.items()) if piece not in received}
    packed = [
        *(backup.packed for _, backup in sorted(backups.items())),
        *(given.packed for given in lost.values()),
    ]
    adopted: dict[Piece, InTransit] = {}
    for backup in backups.values():
        adopted.update(backup.given)
    return Recovered(packed, received | lost.keys(), adopted, hopeless)

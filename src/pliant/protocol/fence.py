"""The exchange of a world that spans several nodes, as MPI_Init makes it: what the processes of each node have
put is merged, and everybody goes on when all have it. No I/O.

A node sends its entries once a round, when all its processes have come to the fence; the controller merges
them and sends the whole to each node. Both ways they travel in pieces, so that no line grows too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pliant.model.errors import ProtocolError

PIECE = 1 << 17
"""Characters of keys and values in a piece: JSON makes them six times as many at most, and a line may have 1 MiB."""

Entries = dict[str, str]


def pieces(entries: Mapping[str, str]) -> Iterator[tuple[Entries, bool]]:
    """The entries in pieces of ``PIECE`` characters at most, each with whether more follow; at least one piece."""
    piece: Entries = {}
    size = 0
    for key, value in entries.items():
        more = len(key) + len(value)
        if piece and size + more > PIECE:
            yield piece, True
            piece, size = {}, 0
        piece[key] = value
        size += more
    yield piece, False


class Rounds:
    """The controller's half: the rounds of one world, whose groups are ``groups``. The ``number`` of the round is None
    if only they know at which one they are: then each says again at which it waits, and which it has passed last."""

    def __init__(self, groups: tuple[int, ...], number: int | None = 0) -> None:
        self.groups = groups
        self.round = number
        self._repeating = number is None
        self._entries: dict[int, Entries] = {}
        self._here: dict[int, set[int]] = {}
        self._gone: set[int] = set()

    def arrive(self, group: int, number: int, entries: Mapping[str, str], *, more: bool) -> Entries | None:
        """Take a piece of what ``group`` has put; all entries of the round once its last piece has come.

        ProtocolError if the group is none of this world's, has been here, or is in another round.
        """
        if group not in self.groups:
            raise ProtocolError(f"group {group} is not of this world")
        if self._repeating and self.round is not None and number < self.round:
            return None  # all have come there
        if number != self.round and not self._repeating:
            raise ProtocolError(f"group {group} is at fence {number}, its world at {self.round}")
        if group in self._here.get(number, ()):
            raise ProtocolError(f"group {group} came to fence {number} twice")
        return self._merge(() if more else (group,), number, entries)

    def gathered(self, groups: Iterable[int], number: int, entries: Mapping[str, str]) -> Entries | None:
        """Take what was merged on its way: of ``groups`` all has come with this. It may have come before, also in a
        round that is over. All entries of the round once that is complete; ProtocolError if a group is none of this
        world's, or the round is still to come."""
        if unknown := [group for group in groups if group not in self.groups]:
            raise ProtocolError(f"group {unknown[0]} is not of this world")
        if self.round is not None and number < self.round:
            return None
        if number != self.round:
            raise ProtocolError(f"groups {sorted(groups)} are at fence {number}, their world at {self.round}")
        return self._merge(groups, number, entries)

    def _merge(self, groups: Iterable[int], number: int, entries: Mapping[str, str]) -> Entries | None:
        here = self._here.setdefault(number, set())
        merged = self._entries.setdefault(number, {})
        merged.update(entries)
        here.update(groups)
        if len(here) < len(self.groups):
            return None
        self.round = number + 1
        for over in [each for each in self._here if each <= number]:
            del self._here[over], self._entries[over]
        return merged

    def left(self, group: int) -> None:
        """All ranks of ``group`` have ended."""
        self._gone.add(group)

    def missed(self) -> tuple[int, ...]:
        """The groups that have ended while others wait for them here: the fence can never be passed."""
        here = self._here.get(max(self._here, default=0))
        return tuple(sorted(self._gone - here)) if here else ()

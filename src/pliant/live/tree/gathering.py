"""What the processes of all nodes put before a fence, merged on its way up the launch tree: the root handles a message
of each child, not of each node (Bosilca et al. 2011 have the modex gathered up once and flooded down once)."""

from __future__ import annotations

from msgspec.structs import replace

from pliant.live.tree import messages as b
from pliant.live.tree.trunk import Trunk
from pliant.protocol import branches as m
from pliant.protocol.fence import Entries, pieces

EVER = 1 << 31
"""After all rounds."""


class _Round:
    """What is known of one here: ``entries``, and whose ``parts`` have come; of these what is new, as it was not told
    further up yet."""

    def __init__(self) -> None:
        self.entries: Entries = {}
        self.parts: set[int] = set()
        self.new_entries: Entries = {}
        self.new_parts: set[int] = set()

    def take(self, parts: set[int], entries: Entries) -> None:
        new = {key: value for key, value in entries.items() if key not in self.entries}
        self.entries |= new
        self.new_entries |= new
        self.new_parts |= parts - self.parts
        self.parts |= parts

    def untold(self, number: int) -> list[m.Gathered]:
        """What is to be told now: the last piece says whose they are, as then all of theirs has come."""
        parts = tuple(sorted(self.new_parts))
        told = [m.Gathered(number, piece, () if more else parts) for piece, more in pieces(self.new_entries)]
        self.new_entries, self.new_parts = {}, set()
        return told

    def anew(self) -> None:
        self.new_entries, self.new_parts = dict(self.entries), set(self.parts)


class Gathering:
    """One agent's part. It tells its parent of a round when all that there will be of it below has come, so once; what
    comes later all the same, as of orphans, it passes on at once. It keeps all of it until the round is passed: what
    was told to a parent that is lost is told again to the next one."""

    def __init__(self, here: int, trunk: Trunk) -> None:
        self._here = here
        self._trunk = trunk
        self._rounds: dict[int, _Round] = {}
        self._mine = m.NO_ROUND
        """Up to this round all of this node has come."""
        self._below: dict[int, int] = {}
        """And of what is below each child."""
        self._told = m.NO_ROUND
        self._passed = m.NO_ROUND

    def put(self, part: b.Put) -> None:
        """A piece of what this node has put."""
        self._take(part.round, set() if part.more else {part.part}, part.entries)
        if not part.more:
            self._mine = max(self._mine, part.round)

    def absent(self) -> None:
        """Nothing will come of this node any more."""
        self._mine = EVER

    def passed(self, number: int) -> None:
        """All know what was put in this round."""
        self._passed = max(self._passed, number)
        for over in [each for each in self._rounds if each <= self._passed]:
            del self._rounds[over]

    def heard(self, rank: int, message: m.Gathered) -> None:
        """From a child."""
        if not self._here:
            if message.parts or message.entries:
                self._trunk.do(b.Gathered(message.round, message.parts, message.entries))
            return
        self._take(message.round, set(message.parts), message.entries)
        self._below[rank] = max(self._below.get(rank, m.NO_ROUND), message.until)

    def _take(self, number: int, parts: set[int], entries: Entries) -> None:
        if number > self._passed and (parts or entries):
            self._rounds.setdefault(number, _Round()).take(parts, entries)

    def anew(self) -> None:
        """There is another parent."""
        self._told = m.NO_ROUND
        for each in self._rounds.values():
            each.anew()

    def push(self) -> None:
        """Tell the parent what it should know now."""
        trunk = self._trunk
        if not self._here or self._mine == m.NO_ROUND:
            return
        until = max(self._told, self._until())
        fresh = [
            (number, each)
            for number, each in sorted(self._rounds.items())
            if number <= until and (each.new_entries or each.new_parts)
        ]
        if until == self._told and not fresh:
            return
        self._told = until
        told = [message for number, each in fresh for message in each.untold(number)] or [m.Gathered()]
        for message in (*told[:-1], replace(told[-1], until=until)):
            trunk.tell(trunk.parent, message)

    def _until(self) -> int:
        """Up to which round all of this node and those below has come."""
        below = self._trunk.below()
        if below is None:
            return m.NO_ROUND
        return min([self._mine, *(self._below.get(each, m.NO_ROUND) for each in below)])

"""What an agent has told, in order, as long as it may have to be told again: over a new link, to the same controller or
to one that has begun anew."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from pliant.live.fleet.channel import Numbered, Sender
from pliant.live.node.register import Key
from pliant.protocol import messages as m

MOST = 10_000
"""How many messages are kept."""
JOBS = 1000
"""Of how many jobs it is kept what their ranks used, the latest."""

BYE, PROGRESS, BOARD = "Bye", "Progress", "board"
"""Messages of a job that are not kept like the others: the first for longer, of the second only the latest. What
concerns the board begins with the third and ends with its epoch; it is kept until its group says something there of
the second epoch after that: of the next one it may ask while others still wait for what it has left in its own."""

_OF_GROUP = m.Started | m.StartFailed | m.Exited | m.Relay | m.Fence | m.Asked


class OutboxEntry(NamedTuple):
    """``stays``: it is kept until its group is gone, acknowledged or not. No record tells of it, so that a controller
    which begins anew has to hear it again. ``until``: what was told under this number has to be taken before it
    goes."""

    message: m.AgentMessage
    group: Key | None
    what: str
    stays: bool
    until: int = 0


class Outbox:
    """Messages by their numbers, which increase from ``base`` on. ``used``, by job: the seconds of processors in ends
    of ranks that are kept no more. Each end is either here or counted there."""

    def __init__(self, base: int = 0) -> None:
        self.used: dict[int, float] = {}
        self._sender: Sender[OutboxEntry] = Sender(base)
        self._kept = self._sender.kept
        self._taken = base

    def __iter__(self) -> Iterator[Numbered[m.AgentMessage]]:
        return (_bare(told) for told in self._sender)

    @property
    def last(self) -> int:
        """The highest number of those that are kept, the base if there is none."""
        return self._sender.last

    @property
    def is_heard(self) -> bool:
        """Whether all of them have come to the controller."""
        return self._sender.is_heard

    @property
    def is_taken(self) -> bool:
        """Whether all of them have been taken, too."""
        return self.last <= self._taken or not self._kept

    @property
    def is_full(self) -> bool:
        return len(self._kept) > MOST

    def begin_link(self) -> None:
        """Whoever is at the other end may have none of them."""
        self._sender.begin_link()

    def again(self) -> list[Numbered[m.AgentMessage]]:
        """What may have been lost on its way."""
        return [_bare(told) for told in self._sender.again()]

    def add(self, message: m.AgentMessage, what: str = "") -> Numbered[m.AgentMessage]:
        """Keep a message, the job's message ``what`` in it if it is a Relay."""
        group = (message.job, message.group) if isinstance(message, _OF_GROUP) else None
        if what == PROGRESS:
            self._drop_earlier(group)
        elif what.startswith(BOARD):
            self._drop_board(group, what)
        stays = (
            what == BYE or what.startswith(BOARD) or (group is not None and not isinstance(message, m.Relay))
        )
        return _bare(self._sender.tell(OutboxEntry(message, group, what, stays)))

    def was_heard(self, number: int) -> None:
        """All messages up to ``number`` have come."""
        self._sender.was_heard(number)

    def taken(self, number: int) -> None:
        """All messages up to ``number`` have been taken."""
        self._taken = max(self._taken, min(number, self._sender.number))
        for each, kept in list(self._kept.items()):
            if max(each, kept.until) <= self._taken and not kept.stays:
                self._book(self._kept.pop(each).message)

    def passed(self, group: Key, number: int) -> None:
        """The group has passed fence ``number``: the others as well, those before."""
        for each, kept in self._kept.items():
            if kept.group == group and isinstance(kept.message, m.Fence) and kept.message.round < number:
                self._kept[each] = kept._replace(stays=False)
        self.taken(self._taken)

    def answered(self, group: Key, number: int) -> None:
        """What the group has asked under this number, it has not to ask again."""
        for each, kept in self._kept.items():
            if kept.group == group and isinstance(kept.message, m.Asked) and kept.message.number == number:
                self._kept[each] = kept._replace(stays=False)
        self.taken(self._taken)

    def forget(self, job: int, but: Collection[Key]) -> None:
        """A job's groups are gone but for ``but``, also those that were refused, and the proof of it is the last that
        was told: all that was told of them stays until that is taken. Who has asked for the proof may not have been
        able to write why."""
        for number, kept in self._kept.items():
            if kept.group is not None and kept.group[0] == job and kept.group not in but:
                self._kept[number] = kept._replace(stays=False, until=self._sender.number)
        self.taken(self._taken)

    def _book(self, message: m.AgentMessage) -> None:
        if isinstance(message, m.Exited):
            self.used[message.job] = self.used.pop(message.job, 0.0) + message.cpu_s
            if len(self.used) > JOBS:
                del self.used[next(iter(self.used))]

    def _drop_board(self, group: Key | None, what: str) -> None:
        """What the group has said of the board in epochs that are over for it has only to be taken."""
        oldest = _epoch(what) - 1
        for number, kept in self._kept.items():
            if kept.group == group and kept.what.startswith(BOARD) and _epoch(kept.what) < oldest:
                self._kept[number] = kept._replace(stays=False)
        self.taken(self._taken)

    def _drop_earlier(self, group: Key | None) -> None:
        for number in [n for n, kept in self._kept.items() if kept.group == group and kept.what == PROGRESS]:
            del self._kept[number]


def _epoch(what: str) -> int:
    return int(what.removeprefix(BOARD))


def _bare(told: Numbered[OutboxEntry]) -> Numbered[m.AgentMessage]:
    return Numbered(told.number, told.after, told.message.message)

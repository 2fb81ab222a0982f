"""What the worlds of a live job exchange through the controller: fences of a world that spans several nodes, and what
groups that join each other ask for (``rendezvous.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pliant.live.job.effects import Effects
from pliant.live.job.groups import LiveGroup
from pliant.live.job.rendezvous import Asker, Letter, Rendezvous, answer, refusal
from pliant.model.deadlines import GROUP_ASK_S
from pliant.model.errors import ProtocolError
from pliant.protocol import messages as m
from pliant.protocol.fence import Rounds, pieces
from pliant.protocol.pmix import TIMEOUT, UNREACHABLE


class Exchange:
    """Of one job, between these ``groups``; ``newcomers`` are those of the resize that goes on."""

    def __init__(
        self,
        number: int,
        groups: dict[int, LiveGroup],
        effects: Effects,
        newcomers: Callable[[], Sequence[LiveGroup]],
    ) -> None:
        self._newcomers = newcomers
        self._number = number
        self._groups = groups
        self._effects = effects
        self._fence: Rounds | None = None
        self._rendezvous = Rendezvous(groups)

    def span(self, groups: tuple[int, ...], *, again: bool) -> None:
        """They are one world; ``again``: only they know at which fence they are."""
        if self._fence is None:
            self._fence = Rounds(groups, None if again else 0)

    def fence(self, group: LiveGroup, message: m.Fence) -> None:
        """A group of a world that spans several nodes has come to its fence; ProtocolError if that cannot be."""
        fence = self._fence
        if fence is None:
            return
        merged = fence.arrive(group.number, message.round, message.entries, more=message.more)
        if merged is None:
            return
        for number in fence.groups:
            for piece, more in pieces(merged):
                self._effects.send(
                    self._groups[number].node, m.Fenced(self._number, number, message.round, piece, more)
                )

    def missed(self) -> tuple[int, ...]:
        """The groups that have ended while others wait for them in MPI_Init or MPI_Finalize."""
        return self._fence.missed() if self._fence is not None else ()

    def asked(self, group: LiveGroup, message: m.Asked) -> None:
        """The server of a group asks for something of others."""
        asker = Asker(group.number, message.number)
        try:
            self._send(self._rendezvous.ask(asker, message.ask))
        except ProtocolError:
            self._send([refusal(asker)])
        if not self._rendezvous.waits(asker):
            return
        if all(each.alive for each in self._newcomers()):
            self._effects.later(("asked", self._number, *asker), GROUP_ASK_S)
        else:  # it may not know yet that it waits in vain
            self._send(self._rendezvous.give_up(asker, UNREACHABLE))

    def overdue(self, asker: Asker) -> None:
        """An ask has waited for long. In a resize that is too long."""
        if self._newcomers():
            self._send(self._rendezvous.give_up(asker, TIMEOUT))

    def ended(self, group: LiveGroup, *, well: bool) -> None:
        """Nothing of the group lives any more, or it is broken."""
        if self._fence is not None and well:
            self._fence.left(group.number)
        self._send(self._rendezvous.ended(group.number, lost=not (well and group.joined)))

    def _send(self, letters: Iterable[Letter]) -> None:
        for letter in letters:
            self._effects.send(self._groups[letter.to.group].node, answer(self._number, letter))

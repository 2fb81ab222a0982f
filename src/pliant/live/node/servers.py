"""What the ranks on one node ask of their launcher: each group's server answers, or waits for the other groups at a
fence that the controller releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pliant.live.node import messages as n
from pliant.live.node.outbox import Outbox
from pliant.live.node.pmi import Asking, AtFence, PmiError, Remark, Reply
from pliant.live.node.pmix import SERVER, Begin
from pliant.live.node.register import RANK_LINE, NodeGroup, Register
from pliant.model.errors import ProtocolError
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.protocol.fence import pieces


class Following(NamedTuple):
    """What becomes of a group: it cannot go on, its server is up, or will not be."""

    end: Callable[[NodeGroup], None]
    begin: Callable[[NodeGroup], None]
    fail: Callable[[NodeGroup, str], None]


class Servers:
    """Those of all groups that have one. ``do`` takes what is to be done, ``tell`` what the controller is to know, and
    ``follow`` what becomes of a group because of what its server says."""

    def __init__(
        self,
        register: Register,
        outbox: Outbox,
        do: Callable[[n.AnyOutput], None],
        tell: Callable[[m.AgentMessage], None],
        follow: Following,
    ) -> None:
        self._register = register
        self._outbox = outbox
        self._do = do
        self._tell = tell
        self._follow = follow

    def connected(self, group: NodeGroup, rank: int) -> None:
        """The rank was started with a connection, if its group has a server."""
        if group.server is not None and (rank == SERVER or not group.dialect.program):
            group.lines[rank] = codec.Lines(codec.MAX_LINE if rank == SERVER else RANK_LINE)

    def said(self, said: n.RankSaid) -> None:
        group = self._register.groups.get((said.job, said.group))
        if group is None or group.server is None or group.broken or said.rank not in group.lines:
            return
        try:
            for line in group.lines[said.rank].feed(said.data):
                self._reply(group, group.server.receive(said.rank, line.decode(errors="replace")))
        except (PmiError, ProtocolError) as error:
            self._break(group, error)

    def closed(self, rank: n.RankClosed) -> None:
        if group := self._register.groups.get((rank.job, rank.group)):
            group.lines.pop(rank.rank, None)

    def fenced(self, order: m.Fenced) -> None:
        """All groups of a world have come to its fence, and this is what they put there."""
        group = self._register.groups.get((order.job, order.group))
        if group is not None and group.server is not None:
            if passes := group.server.fenced(order.round, order.entries, more=order.more):
                self._outbox.passed(group.key, order.round)
            self._reply(group, passes)

    def answered(self, order: m.Answered) -> None:
        """Pass on what the group's server is told by others."""
        if order.over:
            self._outbox.answered((order.job, order.group), order.number)
        group = self._register.groups.get((order.job, order.group))
        if group is not None and group.server is not None:
            try:
                self._reply(group, group.server.answered(order.answer))
            except PmiError as error:
                self._break(group, error)

    @staticmethod
    def is_early(group: NodeGroup, rank: int) -> bool:
        """Whether a rank that has ended has called MPI_Init and not MPI_Finalize, as it should have."""
        finalizes = group.dialect.finalizes or group.greeted
        return group.server is not None and finalizes and group.server.attendance.is_early(rank)

    def left(self, group: NodeGroup, rank: int) -> None:
        """The rank has ended well, unless others wait for it."""
        if group.server is not None:
            try:
                group.server.left(rank)
            except PmiError as error:
                self._break(group, error)

    def server_ended(self, group: NodeGroup, code: int) -> None:
        """The process that was the group's server has ended: who is left cannot go on."""
        group.lines.pop(SERVER, None)
        if group.is_starting or group.pids:
            how = f"was ended by signal {-code}" if code < 0 else f"has ended with {code}"
            number = 128 - code if code < 0 else 1
            self._break(group, PmiError(f"the PMIx server of group {group.number} {how}", number))

    def _reply(self, group: NodeGroup, answers: Sequence[Reply | AtFence | Begin | Asking | Remark]) -> None:
        for answer in answers:
            if isinstance(answer, Begin):
                if group.starting == SERVER and group.is_starting:
                    group.given = answer.env
                    self._follow.begin(group)
            elif isinstance(answer, Asking):
                self._tell(m.Asked(group.job, group.number, answer.number, answer.ask))
            elif isinstance(answer, AtFence):
                for piece, more in pieces(answer.entries):
                    self._tell(m.Fence(group.job, group.number, answer.round, piece, more))
            elif isinstance(answer, Remark):
                self._tell(m.Error(answer.text))
            elif answer.rank in group.lines:
                self._do(n.SayToRank(group.job, group.number, answer.rank, answer.line))

    def _break(self, group: NodeGroup, error: PmiError | ProtocolError) -> None:
        """The group cannot go on: say why, and end its ranks. What follows from that tells nothing new."""
        if group.broken:
            return
        if group.starting == SERVER and group.is_starting:
            self._follow.fail(group, str(error))
            return
        group.broken = error.code if isinstance(error, PmiError) else 1
        self._tell(m.Relay(group.job, group.number, 0, codec.raw(m.Error(str(error)))))
        self._follow.end(group)

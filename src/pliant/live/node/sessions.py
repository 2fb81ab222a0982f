"""The sessions on one node: rank 0 of each group speaks, and what it says is passed on once it has shown its token."""

from __future__ import annotations

import hmac
from collections.abc import Callable

import msgspec

from pliant.live.node import messages as n
from pliant.live.node.outbox import BOARD
from pliant.live.node.register import NodeGroup, Register
from pliant.model.errors import ProtocolError
from pliant.protocol import codec
from pliant.protocol import messages as m

HELLO_S = 60.0
"""How long a session may be open before it has said who it is."""


class NodeSession:
    """One connection; it has a group once it has shown its token."""

    def __init__(self) -> None:
        self.lines = codec.Lines()
        self.group: NodeGroup | None = None


class Sessions:
    """All connections to one agent. ``do`` takes what is to be done, ``relay`` what a session says, with its name."""

    def __init__(
        self,
        home: n.Home,
        register: Register,
        do: Callable[[n.AnyOutput], None],
        relay: Callable[[m.Relay, str], None],
    ) -> None:
        self._relay = relay
        self._home = home
        self._register = register
        self._do = do
        self._sessions: dict[int, NodeSession] = {}
        self._decoder = codec.from_job()

    @property
    def are_open(self) -> bool:
        return bool(self._sessions)

    def opened(self, new: n.SessionOpened, *, is_open: bool) -> None:
        """Somebody has connected; with ``is_open`` false nobody is let in any more."""
        self._sessions[new.session] = NodeSession()
        if not is_open:
            self.drop(new.session, close=True)
        elif new.uid != self._home.uid:
            self._refuse(new.session, "another user's process")
        else:
            self._do(n.SetTimer(_timer(new.session), HELLO_S))

    def said(self, number: int, data: bytes) -> None:
        session = self._sessions.get(number)
        if session is None:
            return
        try:
            for line in session.lines.feed(data):
                message = self._decoder.decode(line)
                if session.group is None:
                    session.group = self._admit(message)
                    session.group.sessions.add(number)
                    session.group.greeted = True
                    self._do(n.CancelTimer(_timer(number)))
                # As it came: written anew it could be longer than the controller takes, or lose what is new in it.
                group = session.group
                relay = m.Relay(group.job, group.number, number, msgspec.Raw(line))
                self._relay(relay, _what(message))
        except ProtocolError as error:
            # A bad line closes its own connection and changes nothing else.
            self._refuse(number, str(error))

    def deliver(self, group: NodeGroup, order: m.Deliver) -> None:
        """Pass a message on to a session of the group, if it is open and has not been told already."""
        if order.session not in group.sessions or (order.session, order.once) in group.told:
            return
        if order.once:
            group.told.append((order.session, order.once))
        self._do(n.SayToSession(order.session, bytes(order.message) + b"\n"))

    def is_late(self, number: int) -> None:
        """The time for a hello is over."""
        session = self._sessions.get(number)
        if session is not None and session.group is None:
            self._refuse(number, f"no hello within {HELLO_S:g} s")

    def drop(self, number: int, *, close: bool = False) -> None:
        """The session is closed, or is to be."""
        session = self._sessions.pop(number, None)
        if session is None:
            return
        if session.group is not None:
            session.group.sessions.discard(number)
        else:
            self._do(n.CancelTimer(_timer(number)))
        if close:
            self._do(n.CloseSession(number))

    def close_all(self, group: NodeGroup | None = None) -> None:
        """Those of one group, or of all."""
        for number in sorted(self._sessions if group is None else group.sessions):
            self.drop(number, close=True)

    def _admit(self, message: m.JobMessage) -> NodeGroup:
        if not isinstance(message, m.Hello):
            raise ProtocolError("a session begins with hello")
        group = self._register.groups.get((message.job, message.group))
        if group is None or not hmac.compare_digest(group.token.encode(), message.token.encode()):
            raise ProtocolError("no such group here, or a wrong token")
        return group

    def _refuse(self, number: int, why: str) -> None:
        self._do(n.SayToSession(number, codec.encode(m.Error(why))))
        self.drop(number, close=True)


def _what(message: m.JobMessage) -> str:
    """What the outbox has to know of it."""
    return f"{BOARD} {message.epoch}" if isinstance(message, m.Put | m.Get) else type(message).__name__


def _timer(number: int) -> str:
    return f"hello {number}"

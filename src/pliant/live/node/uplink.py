"""An agent's end of the link to its controller: what it tells goes out under a number where that must not be lost, and
an order that comes again is known."""

from __future__ import annotations

from collections.abc import Callable

from pliant.live.node import messages as n
from pliant.live.node.outbox import Outbox
from pliant.protocol import codec
from pliant.protocol import messages as m

LONGEST = codec.MAX_LINE + codec.WRAPPING


class Uplink:
    """``here``: there is a link. ``do`` takes what is to be done; what waits to be acknowledged is in ``outbox``."""

    def __init__(self, home: n.Home, outbox: Outbox, do: Callable[[n.AnyOutput], None]) -> None:
        self.here = True
        self.lines = codec.Lines(LONGEST)
        self._outbox = outbox
        self._home = home
        self._do = do
        self._obeyed = 0
        self._envelopes = codec.to_agents()
        self._orders = codec.from_controller()

    def tell(self, message: m.AgentMessage, what: str = "") -> None:
        """Tell the controller, now or when there is a link again; ``what`` is the job's message in it, if it is one."""
        if not self._home.orphan_grace or isinstance(message, m.AgentHello | m.Heartbeat | m.Error):
            if self.here:
                self._do(n.Tell(message))
            return
        number = self._outbox.add(message, what)
        if self.here:
            self._do(n.Tell(message, number, self._obeyed))

    def greet(self, groups: tuple[m.Held, ...], proofs: tuple[int, ...]) -> None:
        """The first words on a link: who this is, what is here, and again all that may not have been taken."""
        self.here = True
        home, last, used = self._home, self._outbox.last, dict(self._outbox.used)
        self.tell(m.AgentHello(home.node, home.slots, home.pid, groups, proofs, self._obeyed, last, used))
        for number, message in self._outbox:
            self._do(n.Tell(message, number, self._obeyed))

    def lost(self) -> None:
        self.here = False
        self.lines = codec.Lines(LONGEST)  # what was begun will not be ended

    def opened(self, line: bytes) -> m.ControllerMessage | None:
        """The order in an envelope, None if it has come before or is for others; ProtocolError if it cannot be read."""
        envelope = self._envelopes.decode(line)
        if 0 < envelope.id <= self._obeyed:
            return None
        self._obeyed = max(self._obeyed, envelope.id)
        if others := [node for node in envelope.nodes if node != self._home.node]:
            self.tell(m.Error(f"there is no way from {self._home.node} to {', '.join(others)}"))
        return self._orders.decode(envelope.message) if self._home.node in envelope.nodes else None

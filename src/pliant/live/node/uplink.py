"""An agent's end of the channel to its controller: what it tells has a number, and it knows an order that comes
again."""

from __future__ import annotations

from collections.abc import Callable

from pliant.live.fleet.channel import Numbered, is_next
from pliant.live.node import messages as n
from pliant.live.node.outbox import Outbox
from pliant.model.deadlines import CHANNEL_AGAIN_S
from pliant.protocol import codec
from pliant.protocol import messages as m

LONGEST = codec.MAX_LINE + codec.WRAPPING
AGAIN = "again"
Inventory = tuple[tuple[m.Held, ...], tuple[int, ...]]
"""What is here: the groups, and the jobs whose proofs are under way."""


class Uplink:
    """``here``: there is a link. ``do`` takes what is to be done; what waits to be acknowledged is in ``outbox``."""

    def __init__(
        self, home: n.Home, outbox: Outbox, do: Callable[[n.AnyOutput], None], has: Callable[[], Inventory]
    ) -> None:
        self.here = True
        self.lines = codec.Lines(LONGEST)
        self._outbox = outbox
        self._home = home
        self._do = do
        self._has = has
        self._obeyed = 0
        self._answered = True
        """The controller knows what was obeyed."""
        self._greeted = False
        """It has heard of this link."""
        self._repeats = False
        """There is a timer."""
        self._envelopes = codec.to_agents()
        self._orders = codec.from_controller()

    def tell(self, message: m.AgentMessage, what: str = "") -> None:
        """Tell the controller, now or when there is a link again; ``what`` is the job's message in it, if it is one."""
        if isinstance(message, m.AgentHello | m.Heartbeat | m.Heard | m.Error):
            self._say(Numbered(0, 0, message))
        else:
            self._say(self._outbox.add(message, what))
            self._watch()

    def greet(self) -> None:
        """The first words on a link: who this is, what is here, and again all that may not have been taken."""
        self.here, self._greeted = True, False
        home, box, (groups, proofs) = self._home, self._outbox, self._has()
        last = box.last if box.last > home.base else 0
        self.tell(
            m.AgentHello(
                home.node, home.slots, home.pid, groups, proofs, self._obeyed, last, home.base, dict(box.used)
            )
        )
        box.begin_link()
        for told in box:
            self._say(told)
        self._watch()

    def lost(self, *, cut: bool = True) -> None:
        """There is no controller. ``cut``: there is no link either."""
        self.here = False
        self._stop()
        if cut:
            self.lines = codec.Lines(LONGEST)  # what was begun will not be ended

    def opened(self, line: bytes) -> m.ControllerMessage | None:
        """The order in an envelope, None if it is not its turn or for others; ProtocolError if it cannot be read."""
        envelope = self._envelopes.decode(line)
        self._greeted = True
        if not envelope.id and envelope.after > self._obeyed:
            return None  # it supposes orders that have not come
        if envelope.id:
            self._answered = False
            if not is_next(envelope.id, envelope.after, self._obeyed):
                return None
            self._obeyed = envelope.id
        if others := [node for node in envelope.nodes if node != self._home.node]:
            self.tell(m.Error(f"there is no way from {self._home.node} to {', '.join(others)}"))
        return self._orders.decode(envelope.message) if self._home.node in envelope.nodes else None

    def answer(self) -> None:
        """Say that orders have come, where nothing else has said it."""
        if not self._answered:
            self.tell(m.Heard())

    def acknowledged(self, ack: m.Ack) -> None:
        """What was told up to these numbers has come, and was taken."""
        self._outbox.was_heard(ack.heard)
        self._outbox.taken(ack.number)
        if self._is_quiet:
            self._stop()

    def again(self) -> None:
        """Tell again what may have been lost on its way."""
        self._repeats = False
        if not self._greeted:
            self.greet()
            return
        for told in self._outbox.again():
            self._say(told)
        if self._outbox.is_heard:
            self.tell(m.Heard(asks=True))
        self._watch()

    def _say(self, told: Numbered[m.AgentMessage]) -> None:
        if self.here:
            self._answered = True
            self._do(n.Tell(told.message, told.number, told.after, self._obeyed))

    @property
    def _is_quiet(self) -> bool:
        """Whether the controller has this link, and all that there was to tell."""
        return self._greeted and self._outbox.is_heard and self._outbox.is_taken

    def _watch(self) -> None:
        if self.here and not self._repeats and not self._is_quiet:
            self._repeats = True
            self._do(n.SetTimer(AGAIN, CHANNEL_AGAIN_S))

    def _stop(self) -> None:
        if self._repeats:
            self._repeats = False
            self._do(n.CancelTimer(AGAIN))

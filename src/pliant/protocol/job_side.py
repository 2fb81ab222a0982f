"""The job's end of a session, without I/O: which message may be sent and received in which state.

An offer gets exactly one answer, Accept or Decline, even after a Withdraw; an accepted one ends with Done or
Failed. A Drain leaves only Accept. Bye answers whatever is open.

| state     | meaning                                                              |
|-----------|----------------------------------------------------------------------|
| new       | before Hello                                                         |
| ready     | no resize is open                                                    |
| offered   | an offer waits for its answer                                        |
| withdrawn | the offer was taken back before it was answered; Decline is due      |
| draining  | a drain waits for Accept                                             |
| resizing  | accepted; Done or Failed is due                                      |
| closed    | after Bye; what was under way to the job is dropped                  |
"""

from __future__ import annotations

from pliant.model.errors import ProtocolError
from pliant.protocol.codec import encode
from pliant.protocol.messages import (
    Accept,
    Decline,
    Done,
    Drain,
    Failed,
    JobMessage,
    Offer,
    SchedulerMessage,
    Withdraw,
)

START = "new"
_OPEN = ("ready", "offered", "withdrawn", "draining", "resizing")

SEND: dict[tuple[str, str], str] = {
    ("new", "Hello"): "ready",
    ("offered", "Accept"): "resizing",
    ("offered", "Decline"): "ready",
    ("withdrawn", "Decline"): "ready",
    ("draining", "Accept"): "resizing",
    ("resizing", "Done"): "ready",
    ("resizing", "Failed"): "ready",
    # The answer to Want is an Offer or Stay; one that crosses with an Offer is answered by that.
    **{(state, "Want"): state for state in ("ready", "offered")},
    **{(state, "Bye"): "closed" for state in _OPEN},
}
"""(state, class name of a message the job sends) -> next state."""

RECEIVE: dict[tuple[str, str], str] = {
    ("ready", "Offer"): "offered",
    ("ready", "Drain"): "draining",
    ("offered", "Withdraw"): "withdrawn",
    ("draining", "Withdraw"): "withdrawn",
    # Too late, the answer is under way; in "resizing" the job may still choose Failed over Done.
    ("ready", "Withdraw"): "ready",
    ("resizing", "Withdraw"): "resizing",
    **{("closed", name): "closed" for name in ("Offer", "Drain", "Withdraw")},
}
"""(state, class name of a message the job receives) -> next state."""

NEUTRAL_SEND = frozenset({"Ready", "Malleable", "Reached", "Progress", "Note", "Put", "Get", "Error"})
"""May be sent in every state between Hello and Bye, and change none."""

NEUTRAL_RECEIVE = frozenset({"Welcome", "Stay", "GroupLost", "Value", "Error"})
"""May be received in every state after Hello, and change none."""


class JobSide:
    """One session's state, at the job's end: what of it is open, and how far that is, all others there ask here."""

    def __init__(self) -> None:
        self.state = START
        self.offer: Offer | Drain | None = None
        """The one that is open."""

    @property
    def resize(self) -> int:
        """The resize that is open, or 0."""
        return 0 if self.offer is None else self.offer.resize

    @property
    def accepted(self) -> bool:
        """Whether what is open has been accepted."""
        return self.state == "resizing"

    def send(self, message: JobMessage) -> bytes:
        """The line to write; ProtocolError if the message is not allowed now (nothing changes then)."""
        name = type(message).__name__
        if name in NEUTRAL_SEND and self.state not in {"new", "closed"}:
            return encode(message)
        following = SEND.get((self.state, name))
        if following is None:
            raise ProtocolError(f"a job in state {self.state!r} must not send {name}")
        if isinstance(message, Accept | Decline | Done | Failed) and message.resize != self.resize:
            raise ProtocolError(
                f"a job in state {self.state!r} must not send {name} of resize {message.resize}: "
                f"{self.resize} is open"
            )
        line = encode(message)
        self.state = following
        if following in {"ready", "closed"} and name != "Want":
            self.offer = None
        return line

    def receive(self, message: SchedulerMessage) -> str:
        """Take note of a message that has come in and return the new state; ProtocolError if out of place."""
        name = type(message).__name__
        if name in NEUTRAL_RECEIVE and self.state != "new":
            return self.state
        following = RECEIVE.get((self.state, name))
        if following is None:
            raise ProtocolError(f"a job in state {self.state!r} does not expect {name}")
        if isinstance(message, Withdraw) and self.offer is not None and message.resize != self.resize:
            raise ProtocolError(
                f"a job in state {self.state!r} does not expect {name} of resize {message.resize}: "
                f"{self.resize} is open"
            )
        if isinstance(message, Offer | Drain) and following != "closed":
            self.offer = message
        self.state = following
        return following

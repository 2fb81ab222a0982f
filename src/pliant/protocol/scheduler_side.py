"""The scheduler's end of a job's sessions, without I/O: one state for the job, whichever group speaks for it.

| state       | meaning                                                                  |
|-------------|--------------------------------------------------------------------------|
| new         | the root group has not said Hello                                        |
| ready       | no resize is open                                                        |
| asked       | Want has come in; Offer or Stay is due                                   |
| offering    | an offer waits for its answer                                            |
| draining    | a drain waits for Accept                                                 |
| withdrawing | the offer was taken back; its answer is still to come                    |
| resizing    | accepted; Done or Failed is to come                                      |
| recalling   | accepted and taken back; Done or Failed is to come, whichever was sooner |
| closed      | the root has said Bye                                                    |
"""

from __future__ import annotations

from pliant.model.errors import ProtocolError
from pliant.protocol import messages as m
from pliant.protocol import resizing

START = "new"
_WAITING = ("offering", "draining", "withdrawing")
_OPEN = ("ready", "asked", *_WAITING, "resizing", "recalling")
PROJECTION = {
    resizing.NONE: "ready",
    resizing.OFFERED: "offering",
    resizing.WITHDRAWN: "withdrawing",
    resizing.CROSSED: "recalling",
    resizing.ACCEPTED: "resizing",
    resizing.RECALLED: "recalling",
}
"""The states of a resize as they are seen on the wire: whether anything was started does not show there."""


def _projected(*names: str) -> dict[tuple[str, str], str]:
    """What the table of resizes says of these messages."""
    table = {
        (PROJECTION[state], name): PROJECTION[move.state]
        for (state, name), move in resizing.TABLE.items()
        if name in names
    }
    # A drain is an offer that cannot be declined.
    for (state, name), after in list(table.items()):
        if state == "offering" and name != "Decline":
            table["draining", name] = after
        if name == "Offer":
            table[state, "Drain"] = "draining"
    return table


SEND: dict[tuple[str, str], str] = {
    **_projected("Offer", "Withdraw"),
    ("asked", "Offer"): "offering",
    ("asked", "Drain"): "draining",
    ("asked", "Stay"): "ready",
}
"""(state, class name of a message the scheduler sends) -> next state."""

RECEIVE: dict[tuple[str, str], str] = {
    ("new", "Hello"): "ready",
    ("ready", "Want"): "asked",
    ("asked", "Want"): "asked",
    **{(state, "Want"): state for state in _WAITING},  # they crossed: the offer is the answer
    **_projected("Accept", "Decline", "Done", "Failed"),
    **{(state, "Bye"): "closed" for state in _OPEN},
}
"""(state, class name of a message the job sends) -> next state."""

NEUTRAL_SEND = frozenset({"Welcome", "GroupLost", "Value", "Error"})
NEUTRAL_RECEIVE = frozenset({"Ready", "Malleable", "Reached", "Progress", "Note", "Put", "Get", "Error"})

EARLY = 64
"""How many messages of a new root are kept until the old one's Done comes."""

_ANSWERS = m.Accept | m.Decline | m.Done | m.Failed
_OF_ROOT = m.RootMessage


class SchedulerSide:
    """All sessions of one job. ``root`` is the group that speaks for it, ``epoch`` counts its resizes, and
    ``resize`` is the one that was offered last."""

    def __init__(self, root: int) -> None:
        self.state = START
        self.root = root
        self.epoch = 0
        self.resize: int | None = None
        self._early: list[tuple[int, m.RootMessage]] = []

    @classmethod
    def resumed(cls, root: int, epoch: int, state: str, resize: int | None) -> SchedulerSide:
        """The end of sessions that go on: where they are follows from what was recorded of the job."""
        side = cls(root)
        side.epoch, side.state, side.resize = epoch, state, resize
        return side

    @property
    def in_session(self) -> bool:
        """Whether the root has opened its session, and has not said Bye."""
        return self.state in _OPEN

    @property
    def accepted(self) -> int | None:
        """The resize that the job has accepted, and has yet to say what has become of."""
        return self.resize if self.state in ("resizing", "recalling") else None

    def root_lost(self, root: int) -> None:
        """The root is gone, and the job goes on: nothing more is to come, unless ``root`` opens a session that
        was none yet."""
        self.root = root
        if self.state != START:
            self.state = "closed"

    def receive(self, group: int, message: m.JobMessage) -> bool:
        """Whether ``message``, which has come from ``group``, counts now. ProtocolError where it is out of place or its
        epoch is over; nothing changes then.

        A new root may be heard before the old one's Done, over another connection: what it says is kept until then,
        and ``next_early`` gives it back. A group that is not the root leaves in good order by a Bye that says nothing.
        """
        name = type(message).__name__
        if isinstance(message, _OF_ROOT) and not self._in_its_epoch(group, message):
            return False
        if name in NEUTRAL_RECEIVE or (name == "Hello" and not self._awaited(group)):
            return True
        following = RECEIVE.get((self.state, name))
        if following is None:
            raise ProtocolError(f"{name} came in state {self.state!r}")
        if isinstance(message, _ANSWERS) and self.resize not in (None, message.resize):
            raise ProtocolError(f"{name} is of resize {message.resize}; {self.resize} is open")
        self.state = following
        if isinstance(message, m.Done):
            self.root = message.root
            self.epoch += 1
        return True

    def _in_its_epoch(self, group: int, message: m.RootMessage) -> bool:
        """Whether a message for the job, of this epoch and its root, is to be looked at now: the epoch's part of
        ``receive``."""
        name = type(message).__name__
        if message.epoch > self.epoch:
            if len(self._early) >= EARLY:
                raise ProtocolError(f"{name} is of epoch {message.epoch}, and too many came early already")
            self._early.append((group, message))
            return False
        if group != self.root:
            if isinstance(message, m.Bye):
                return False
            raise ProtocolError(f"group {group} sent {name}, but group {self.root} speaks for the job")
        if message.epoch < self.epoch:
            raise ProtocolError(f"{name} is of epoch {message.epoch}; the job is in {self.epoch}")
        if self.state in (START, "closed"):
            raise ProtocolError(f"{name} came in state {self.state!r}")
        return True

    def next_early(self) -> tuple[int, m.RootMessage] | None:
        """What a group said before its epoch had begun, if that is now; to be received as if it came now."""
        for i, (_, message) in enumerate(self._early):
            if message.epoch <= self.epoch:
                return self._early.pop(i)
        return None

    def _awaited(self, group: int) -> bool:
        """Whether this group's Hello is the one that opens the job; all others only open their session."""
        return self.state == START and group == self.root

    def send(self, message: m.SchedulerMessage) -> m.SchedulerMessage:
        """Take note of what is sent to the root; ProtocolError if it is not allowed now."""
        name = type(message).__name__
        if name not in NEUTRAL_SEND:
            following = SEND.get((self.state, name))
            if following is None:
                raise ProtocolError(f"a scheduler in state {self.state!r} must not send {name}")
            self.state = following
        if isinstance(message, m.Offer | m.Drain):
            self.resize = message.resize
        return message


class KeyValueStore:
    """The values that the groups of one job leave for each other, by epoch and key."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, str], str] = {}
        self._waiting: dict[tuple[int, str], list[int]] = {}

    def put(self, epoch: int, key: str, value: str) -> list[int]:
        """Store a value; the groups that have been waiting for it."""
        self._values[epoch, key] = value
        return self._waiting.pop((epoch, key), [])

    def get(self, group: int, epoch: int, key: str) -> str | None:
        """The value, or None: then ``group`` waits for it."""
        value = self._values.get((epoch, key))
        if value is None:
            self._waiting.setdefault((epoch, key), []).append(group)
        return value

    def forget_before(self, epoch: int) -> None:
        """Drop what belongs to epochs that are over."""
        for table in (self._values, self._waiting):
            for key in [key for key in table if key[0] < epoch]:
                del table[key]

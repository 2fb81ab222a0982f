"""What a job's session and negotiation are given and answer, as lines, and the same played to new ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from pliant.job.decisions import Decision
from pliant.job.negotiation import Negotiation, Situation
from pliant.job.session import Session, nothing
from pliant.model.errors import PliantError, ProtocolError
from pliant.model.jobs import Bounds
from pliant.protocol.messages import Done, JobMessage, SchedulerMessage, Welcome

_encoder = msgspec.json.Encoder()
T = TypeVar("T")


class RecordedCall(msgspec.Struct, frozen=True, array_like=True):
    """One call: ``name`` is the method's, ``values`` its arguments as JSON. ``wrote`` is what went to the agent because
    of it, and ``answer`` what it returned or how it failed."""

    name: str
    values: list[msgspec.Raw]
    wrote: list[str]
    answer: msgspec.Raw


class JobDifference(NamedTuple):
    """``line`` of a recording (from 1) where new machines write or answer other things than the recorded ones."""

    line: int
    recorded: bytes
    now: bytes


class Tape:
    """Takes down each call from outside; what the machines ask of each other is no input. ``keep`` gets the lines."""

    def __init__(self, keep: Callable[[bytes], object]) -> None:
        self._keep = keep
        self._inside = False
        self._wrote: list[str] = []
        self._then: list[bytes] = []
        self.writing = False
        """What is called now is called by who writes: it comes from outside, in the midst of another call."""
        self.owner = False
        """The owner of the session is being told that the agent is gone: what that raises is no answer of ours."""

    def wrote(self, data: bytes) -> None:
        self._wrote.append(data.decode())

    def note(self, name: str, values: Sequence[object]) -> None:
        """A call from outside that has come in the midst of another one: played again behind that."""
        self._then.append(_encoder.encode([name, values, [], None]) + b"\n")

    def call(self, name: str, values: Sequence[object], do: Callable[[], T], *, heard: bool = False) -> T:
        """``heard``: it comes from outside even in the midst of another call."""
        if self._inside:
            if heard:
                self.note(name, values)
            return do()
        self._inside = True
        answer: object = None
        try:
            answer = result = do()
        except PliantError as error:
            answer = None if self.owner else str(error)
            raise
        finally:
            self._inside = self.owner = False
            wrote, self._wrote = self._wrote, []
            then, self._then = self._then, []
            for line in (_encoder.encode([name, values, wrote, answer]) + b"\n", *then):
                self._keep(line)
        return result


class TapedSession(Session):
    """A session that is taken down."""

    def __init__(
        self,
        tape: Tape,
        write: Callable[[bytes], object],
        on_message: Callable[[SchedulerMessage], object] = nothing,
        on_lost: Callable[[str], object] = nothing,
    ) -> None:
        self.tape = tape

        def taped(data: bytes) -> None:
            tape.wrote(data)
            tape.writing = True
            try:
                write(data)
            finally:
                tape.writing = False

        def lost(why: str) -> None:
            tape.owner = True
            on_lost(why)
            tape.owner = False

        super().__init__(taped, on_message, lost)

    def send(self, message: JobMessage) -> None:
        self.tape.call("send", [message], lambda: super(TapedSession, self).send(message))

    def receive(self, data: bytes) -> None:
        self.tape.call("receive", [data], lambda: super(TapedSession, self).receive(data))

    def lose(self, why: str) -> None:
        if self.tape.writing:
            self.tape.note("lose", [why])
        self.tape.call("lose", [why], lambda: super(TapedSession, self).lose(why))

    def take(self) -> SchedulerMessage | None:
        return self.tape.call("take", [], super().take)

    def welcome(self) -> Welcome:
        return self.tape.call("welcome", [], super().welcome)


class TapedNegotiation(Negotiation):
    """A negotiation over a session that is taken down."""

    def __init__(
        self,
        session: TapedSession,
        bounds: Bounds,
        say: Callable[[str], object] = nothing,
        *,
        migrates: bool = False,
        sleeps: bool = False,
    ) -> None:
        self._tape = session.tape
        super().__init__(session, bounds, say, migrates=migrates, sleeps=sleeps)
        self._tape.call("negotiate", [bounds, migrates, sleeps], lambda: None)

    def answer(self, now: Situation) -> None:
        self._tape.call("answer", [now], lambda: super(TapedNegotiation, self).answer(now))

    def decide(self, now: Situation) -> Decision:
        return self._tape.call("decide", [now], lambda: super(TapedNegotiation, self).decide(now))

    def go_ahead(self) -> None:
        self._tape.call("go_ahead", [], super().go_ahead)

    def finish(self, now: Situation, *, there: bool) -> Decision:
        return self._tape.call(
            "finish", [now, there], lambda: super(TapedNegotiation, self).finish(now, there=there)
        )

    def confirm(self, resize: int, now: Situation, objection: str = "") -> bool:
        return self._tape.call(
            "confirm",
            [resize, now, objection],
            lambda: super(TapedNegotiation, self).confirm(resize, now, objection),
        )

    def overhear(self, group: int, why: str) -> None:
        hear = super().overhear
        self._tape.call("overhear", [group, why], lambda: hear(group, why), heard=True)

    def joined(self) -> None:
        self._tape.call("joined", [], super().joined)

    def want(self, epoch: int, bounds: Bounds, keep: bool = False, prefers: bool = False) -> bool:  # noqa: FBT001, FBT002
        return self._tape.call(
            "want",
            [epoch, bounds, keep, prefers],
            lambda: super(TapedNegotiation, self).want(epoch, bounds, keep, prefers),
        )

    def forget(self, now: Situation, why: str) -> None:
        self._tape.call("forget", [now, why], lambda: super(TapedNegotiation, self).forget(now, why))

    def leaving(self, members: Sequence[int]) -> tuple[int, ...]:
        return self._tape.call("leaving", [members], lambda: super(TapedNegotiation, self).leaving(members))

    def done(self, message: Done) -> None:
        self._tape.call("done", [message], lambda: super(TapedNegotiation, self).done(message))

    def begin(self, epoch: int, growth_limit: int = 0) -> None:
        self._tape.call(
            "begin", [epoch, growth_limit], lambda: super(TapedNegotiation, self).begin(epoch, growth_limit)
        )

    def end(self, epoch: int) -> None:
        self._tape.call("end", [epoch], lambda: super(TapedNegotiation, self).end(epoch))


def negotiation(
    session: Session, bounds: Bounds, say: Callable[[str], object] = nothing, *, migrates: bool = False
) -> Negotiation:
    """The negotiation of a program of ours over a session, taken down if that is."""
    if isinstance(session, TapedSession):
        return TapedNegotiation(session, bounds, say, migrates=migrates, sleeps=True)
    return Negotiation(session, bounds, say, migrates=migrates, sleeps=True)


_TYPES: dict[str, tuple[object, ...]] = {
    "send": (JobMessage,),
    "receive": (bytes,),
    "lose": (str,),
    "negotiate": (Bounds, bool, bool),
    "answer": (Situation,),
    "decide": (Situation,),
    "finish": (Situation, bool),
    "confirm": (int, Situation, str),
    "overhear": (int, str),
    "leaving": (tuple[int, ...],),
    "want": (int, Bounds, bool, bool),
    "forget": (Situation, str),
    "done": (Done,),
    "begin": (int, int),
    "end": (int,),
}
"""What the arguments of a call are; calls that are not here have none."""


def replay(lines: Iterable[bytes]) -> Iterator[JobDifference]:
    """Where new machines that are given a recording's calls differ from the recorded ones: nowhere, if all is well.

    A torn last line is left out. ProtocolError if another line is none of a recording.
    """
    again: list[bytes] = []
    tape = Tape(again.append)
    machines: list[Session | Negotiation] = [TapedSession(tape, nothing)]
    for number, text in enumerate(lines, 1):
        if not text.endswith(b"\n"):
            return
        try:
            given = msgspec.json.decode(text, type=RecordedCall)
            types = _TYPES.get(given.name, ())
            values = [
                msgspec.json.decode(raw, type=kind) for raw, kind in zip(given.values, types, strict=True)
            ]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise ProtocolError(f"line {number} of the recording: {error}") from error
        again.clear()
        _play(machines, given.name, values, number)
        if again != [text]:
            yield JobDifference(number, text, b"".join(again))


def _play(machines: list[Session | Negotiation], name: str, values: list[object], number: int) -> None:
    """Call what was called. ProtocolError if there is nothing of that name."""
    if name == "negotiate":
        session, (bounds, migrates, sleeps) = machines[0], values
        if isinstance(session, TapedSession) and isinstance(bounds, Bounds):
            machines[1:] = [TapedNegotiation(session, bounds, migrates=bool(migrates), sleeps=bool(sleeps))]
        return
    ours = next((each for each in machines if name in vars(type(each))), None)
    if ours is None:
        raise ProtocolError(
            f"line {number} of the recording: {name!r} is no call of a session or negotiation"
        )
    with contextlib.suppress(PliantError):  # as it was when it was taken down, or the difference tells
        call = getattr(ours, name)
        call(values[0], there=values[1]) if name == "finish" else call(*values)

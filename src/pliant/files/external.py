"""A policy in a process of its own, in whatever language: ``exec:COMMAND``. Each pass is a line of JSON to its standard
input and a line of its standard output; docs/external.md describes them."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import msgspec

from pliant.files.asked import AskedProcess, NoAnswer, shown
from pliant.files.changes import Changes, Event
from pliant.model.errors import PolicyError
from pliant.policy.parameters import values
from pliant.policy.view import ClusterView, Decision, Policy, Promise, Reason, Resize, Start, Wake

PREFIX = "exec:"
PROTOCOL = 1
DEADLINE_S = 60.0
PAGE = "docs/external.md has what is told and what may be answered"


class _Hello(msgspec.Struct, tag_field="type", tag="hello", frozen=True):
    protocol: int


class _Welcome(msgspec.Struct, frozen=True):
    protocol: int
    rebalances: bool = False


class _Pass(msgspec.Struct, tag_field="type", tag="pass", frozen=True, gc=False):
    now: float
    total: int
    free: int
    returning: int
    events: list[Event]


class _Start(msgspec.Struct, tag_field="type", tag="start", frozen=True, gc=False):
    job: int
    size: int
    reason: str | Reason = ""

    def decision(self) -> Decision:
        return Start(self.job, self.size, _reason(self.reason))


class _Resize(msgspec.Struct, tag_field="type", tag="resize", frozen=True, gc=False):
    job: int
    size: int
    reason: str | Reason = ""

    def decision(self) -> Decision:
        return Resize(self.job, self.size, _reason(self.reason))


class _Promise(msgspec.Struct, tag_field="type", tag="promise", frozen=True, gc=False):
    job: int
    at: float

    def decision(self) -> Decision:
        return Promise(self.job, self.at)


class _Wake(msgspec.Struct, tag_field="type", tag="wake", frozen=True, gc=False):
    at: float

    def decision(self) -> Decision:
        return Wake(self.at)


class _Answer(msgspec.Struct, frozen=True, gc=False):
    decisions: list[_Start | _Resize | _Promise | _Wake]


_encode = msgspec.json.Encoder().encode
_welcome = msgspec.json.Decoder(_Welcome)
_answer = msgspec.json.Decoder(_Answer)

_UNSAID = Reason("external")


def _reason(said: str | Reason) -> Reason:
    if isinstance(said, Reason):
        return said
    return Reason(said) if said else _UNSAID


class External:
    """A context, in which the process is there: it is started and greeted on entering, and ended on leaving.

    Whatever goes wrong with it is a PolicyError that says at which time, and what was answered.
    """

    def __init__(self, name: str, words: list[str], deadline_s: float) -> None:
        self.name = name
        self.rebalances = False
        """Known when it was greeted."""
        self._words = words
        self._deadline_s = deadline_s
        self._process: AskedProcess | None = None
        self._changes = Changes()

    def __enter__(self) -> Self:
        try:
            self._process = AskedProcess(self._words, self._deadline_s)
        except OSError as error:
            raise PolicyError(f"policy {self.name!r} cannot be started: {error.strerror or error}") from None
        self._changes = Changes()
        try:
            self._greet(self._process)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _greet(self, process: AskedProcess) -> None:
        try:
            line = process.ask(_encode(_Hello(PROTOCOL)) + b"\n")
        except NoAnswer as said:
            raise self._wrong("at its start", str(said)) from None
        try:
            welcome = _welcome.decode(line)
        except msgspec.MsgspecError as error:
            raise self._wrong("at its start", f"answered {shown(line)} to hello: {error}; {PAGE}") from None
        if welcome.protocol != PROTOCOL:
            raise self._wrong(
                "at its start", f"speaks protocol {welcome.protocol}, and this is protocol {PROTOCOL}; {PAGE}"
            )
        self.rebalances = welcome.rebalances

    def decide(self, view: ClusterView) -> list[Decision]:
        if self._process is None:
            raise PolicyError(f"policy {self.name!r} was not started")
        told = _Pass(view.now, view.total, view.free, view.returning(), self._changes.since(view))
        try:
            line = self._process.ask(_encode(told) + b"\n")
        except NoAnswer as said:
            raise amiss(self.name, view, str(said)) from None
        try:
            return [each.decision() for each in _answer.decode(line).decisions]
        except msgspec.MsgspecError as error:
            raise amiss(self.name, view, f"answered {shown(line)}: {error}; {PAGE}") from None

    def _wrong(self, when: str, what: str) -> PolicyError:
        return PolicyError(f"policy {self.name!r} {when} {what}")


def amiss(name: str, view: ClusterView, what: str) -> PolicyError:
    """The policy ``name`` has done ``what`` instead of deciding."""
    pending = sum(1 for _ in view.queue)
    return PolicyError(
        f"policy {name!r} at {view.now:.3f} s {what} "
        f"(free {view.free} of {view.total}, pending {pending}, running {len(view.running)})"
    )


@contextmanager
def at_work(policy: Policy) -> Iterator[None]:
    """While ``policy`` is asked: where it is in a process of its own, that is there. PolicyError."""
    if isinstance(policy, External):
        with policy:
            yield
    else:
        yield


def is_external(name: str) -> bool:
    return name.startswith(PREFIX)


def external(name: str) -> External:
    """The policy ``exec:[PARAMETER=VALUE:]COMMAND``, not started yet. PolicyError if there is no such command."""
    rest = name.removeprefix(PREFIX)
    said: dict[str, str] = {}
    while found := _PARAMETER.match(rest):
        key, value = found.groups()
        if key in said:
            raise PolicyError(f"policy {name!r}: {key} is said twice")
        said[key] = value
        rest = rest[found.end() :]
    deadline_s = _deadline_s(**values(_deadline_s, PREFIX.rstrip(":"), said))
    if not deadline_s > 0:
        raise PolicyError(f"policy {name!r}: deadline_s must be above 0 seconds")
    words = words_of(rest)
    if not words:
        raise PolicyError(f"policy {name!r}: no command; write as in exec:python3 easy.py")
    if shutil.which(words[0]) is None:
        raise PolicyError(
            f"policy {name!r}: there is no command {words[0]!r} that can be executed; name one of PATH or a "
            "path with its folder, as in exec:python3 easy.py or exec:./easy"
        )
    return External(name, words, deadline_s)


def words_of(command: str) -> list[str]:
    """The words of a command, quoted as for a shell; PolicyError."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise PolicyError(f"policy command {command!r}: {error}") from None


_PARAMETER = re.compile(r"(\w+)=([^:\s]*):")


def _deadline_s(deadline_s: float = DEADLINE_S) -> float:
    """Its parameters are those that may be said before the command."""
    return deadline_s

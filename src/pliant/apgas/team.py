"""Collective operations of one task at each place of a team, as X10's ``Team`` has them.

The others tell the first place of the team that they have come to an operation, and with what. It answers when all
have. A place that waits looks at the members itself, so that the loss of any of them ends its wait.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from pliant.apgas.api import Place, places
from pliant.apgas.errors import BadPlaceException, DeadPlaceException
from pliant.apgas.place.messages import Buffer
from pliant.apgas.place.payload import beside, pack, pack_error, unpack, unpack_error
from pliant.apgas.runtime import Runtime, current
from pliant.model.errors import PliantError

T = TypeVar("T")


class Team:
    """One task at each of ``there`` (default: all places of now) works together with the others by ``barrier``,
    ``broadcast`` and ``allreduce``. Made at any place, and sent to the others as an argument of their tasks.

    All places of the team call the same operations in the same order, one at a time. Each waits for all places, for as
    long as these are there, or for ``timeout_s`` seconds.

    What one of them raises, all raise, in this operation or in their next: DeadPlaceException or BadPlaceException
    where a place has died or left, TimeoutError where one gave up, PliantError where one called another operation, and
    what pickle or the user's function raised. The team is of no more use then: make another of the ``places()`` that
    are left.
    """

    def __init__(self, there: Iterable[Place] | None = None) -> None:
        """ValueError if there is no place in it."""
        self.places = tuple(sorted(set(places() if there is None else there)))
        if not self.places:
            raise ValueError("a team needs a place")
        self._key = f"team {uuid.uuid4().hex}"

    def __reduce__(self) -> tuple[Callable[..., Team], tuple[str, tuple[int, ...]]]:
        return _team, (self._key, tuple(place.id for place in self.places))

    def barrier(self, timeout_s: float | None = None) -> None:
        """Wait until all places of the team have come here."""
        self._meet("barrier", None, lambda _: None, timeout_s)

    def broadcast(
        self, value: T | None = None, root: Place | None = None, timeout_s: float | None = None
    ) -> T:
        """The value that ``root`` gives (default: the first place of the team), when all have come; others give none,
        and get a copy. The root may get its own object. BadPlaceException if the root is not of the team."""
        root = self._member(root or self.places[0])
        given = value if root.id == current().here else None
        found: T = self._meet(f"broadcast of {root}", given, lambda values: values[root.id], timeout_s)
        return found

    def allreduce(
        self, value: T, reduce: Callable[[T, T], T] = operator.add, timeout_s: float | None = None
    ) -> T:
        """The ``value`` of all places, reduced in the order of the places, at each of them. The first place may get
        an object that it gave."""

        def reduced(values: dict[int, T]) -> T:
            return functools.reduce(reduce, (values[place.id] for place in self.places))

        found: T = self._meet("allreduce", value, reduced, timeout_s)
        return found

    def forget(self) -> None:
        """Free this place's memory of the team, after its last operation here."""
        current().objects.pop(self._key, None)

    def _meet(
        self, what: str, value: object, answer: Callable[[dict[int, Any]], Any], timeout_s: float | None
    ) -> Any:
        runtime = current()
        self._member(Place(runtime.here))
        seat = _seat_of(self._key)
        if seat.broken is not None:
            raise unpack_error(seat.broken)
        with seat.turn(what) as number:
            meeting = _Meeting(runtime, self._key, number, what, self.places, timeout_s)
            with meeting.breaking():
                return meeting.follow(value) if meeting.head != runtime.here else meeting.lead(value, answer)

    def _member(self, place: Place) -> Place:
        if place not in self.places:
            raise BadPlaceException(f"{place} is not of this team, which has {list(self.places)}")
        return place


class _Word(NamedTuple):
    """What a place has come to, with its value, or with the answer of the first place."""

    what: str
    parts: Sequence[Buffer]


class _Seat:
    """What one place knows of a team."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._number = 0
        self._busy = ""
        self.came: dict[int, dict[int, _Word]] = {}
        """By number of the operation who has come: at the first place all others, at these that one, which answers."""
        self.broken: bytes | None = None
        """Why the team is of no more use, pickled."""

    @contextlib.contextmanager
    def turn(self, what: str) -> Iterator[int]:
        """``with``: the number of the operation that begins here."""
        with self._runtime.monitor:
            if self._busy:
                raise PliantError(
                    f"place({self._runtime.here}) is still in this team's {self._busy}: "
                    "a place calls one operation at a time"
                )
            self._busy = what
            self._number += 1
            number = self._number
        try:
            yield number
        finally:
            with self._runtime.monitor:
                self._busy = ""
                self.came.pop(number, None)


class _Meeting:
    """One operation, at one place."""

    def __init__(  # noqa: PLR0913, PLR0917 -- an operation is what it is
        self,
        runtime: Runtime,
        key: str,
        number: int,
        what: str,
        places: Sequence[Place],
        timeout_s: float | None,
    ) -> None:
        self._runtime, self._key, self._seat, self._number = runtime, key, _seat_of(key), number
        self._what, self._timeout_s = what, timeout_s
        self.head = places[0].id
        self._others = [place.id for place in places if place.id != runtime.here]

    def lead(self, value: object, answer: Callable[[dict[int, Any]], Any]) -> Any:
        """At the first place: its answer, when all have come."""
        words = self._wait(self._others)
        found = answer(
            {self._runtime.here: value, **{place: unpack(word.parts) for place, word in words.items()}}
        )
        word = _Word(self._what, beside(pack(found)))
        for place in self._others:
            self._tell(place, _come, self._number, self._runtime.here, word)
        return found

    def follow(self, value: object) -> Any:
        """At another place: what the first one answers."""
        word = _Word(self._what, beside(pack(value)))
        self._tell(self.head, _come, self._number, self._runtime.here, word)
        return unpack(self._wait([self.head])[self.head].parts)

    @contextlib.contextmanager
    def breaking(self) -> Iterator[None]:
        """``with``: what is raised ends the team, and is raised at all other places."""
        try:
            yield
        except BaseException as error:
            why = pack_error(error)
            with self._runtime.monitor:
                first, self._seat.broken = self._seat.broken is None, self._seat.broken or why
            for place in self._others if first else ():
                self._tell(place, _break, why)
            raise

    def _tell(self, place: int, what: Callable[..., None], *args: object) -> None:
        with contextlib.suppress(
            DeadPlaceException, BadPlaceException
        ):  # who waits for it notices that itself
            self._runtime.tell(place, what, self._key, *args)

    def _wait(self, wanted: Sequence[int]) -> dict[int, _Word]:
        """What all that are ``wanted`` say; raises what keeps them from it."""
        runtime, seat = self._runtime, self._seat
        with runtime.monitor:
            came = seat.came.setdefault(self._number, {})

            def over() -> bool:
                whole = all(place in came for place in wanted)
                return whole or bool(seat.broken or self._lost() or self._other_word(came))

            runtime.wait(over, self._timeout_s)
            error = self._problem(came, [place for place in wanted if place not in came])
        if error is not None:
            raise error
        return came

    def _problem(self, came: dict[int, _Word], missing: Sequence[int]) -> Exception | None:
        if (other := self._other_word(came)) is not None:
            place, word = other
            return PliantError(
                f"place({self._runtime.here}) called {self._what} as operation {self._number} of its team, "
                f"place({place}) called {word}: all places of a team call the same operations in the same order"
            )
        if not missing:
            return None
        if self._seat.broken is not None:
            return unpack_error(self._seat.broken)
        if (lost := self._lost()) is not None:
            return lost
        names = ", ".join(f"place({place})" for place in missing)
        return TimeoutError(
            f"place({self._runtime.here}) gave up its {self._what} after {self._timeout_s:g} s: {names} had not come"
        )

    def _other_word(self, came: dict[int, _Word]) -> tuple[int, str] | None:
        return next(((place, word.what) for place, word in came.items() if word.what != self._what), None)

    def _lost(self) -> Exception | None:
        """Why the team is not whole."""
        members = self._runtime.machine.members
        for place in self._others:
            try:
                if place in members.dead or place in members.left:
                    members.check(place)
            except PliantError as error:
                return error
        return None


def _seat_of(key: str) -> _Seat:
    runtime = current()
    with runtime.monitor:
        found: _Seat = runtime.objects.setdefault(key, _Seat(runtime))
    return found


def _team(key: str, numbers: Sequence[int]) -> Team:
    team = Team(Place(number) for number in numbers)
    team._key = key  # noqa: SLF001 - it is made again here
    return team


# ---- what places tell each other ---------------------------------------------------------------------------------


def _come(key: str, number: int, place: int, word: _Word) -> None:
    """``place`` has come to the operation with this number, or answers there."""
    seat = _seat_of(key)
    with current().monitor:
        seat.came.setdefault(number, {})[place] = word


def _break(key: str, why: bytes) -> None:
    """The team is of no more use."""
    seat = _seat_of(key)
    with current().monitor:
        seat.broken = seat.broken or why

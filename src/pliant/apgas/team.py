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
from pliant.apgas.errors import BadPlaceException
from pliant.apgas.place.messages import Buffer
from pliant.apgas.place.payload import beside, pack, pack_error, unpack, unpack_error
from pliant.apgas.runtime import Runtime, current
from pliant.model.errors import PliantError

T = TypeVar("T")


class Team:
    """One task at each of ``there`` (default: all places of now) works together with the others by ``barrier``,
    ``broadcast`` and ``allreduce``. Made at any place, and sent to the others as an argument of their tasks.

    All places of the team call the same operations in the same order, one at a time. An operation waits until every
    place has called it, or for ``timeout_s`` seconds.

    An error at one place is raised at every place, in this operation or the next: DeadPlaceException if a place died,
    BadPlaceException if a place left, TimeoutError if a place waited longer than ``timeout_s``, PliantError if places
    called different operations, and whatever pickle or the user's function raised. The team cannot be used after that:
    make another ``Team()`` of the remaining places.
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
        self._operate("barrier", None, lambda _: None, timeout_s)

    def broadcast(
        self, value: T | None = None, root: Place | None = None, timeout_s: float | None = None
    ) -> T:
        """The value that ``root`` gives (default: the first place of the team), when all have come; others give none,
        and get a copy. The root may get its own object. BadPlaceException if the root is not of the team."""
        root = self._member(root or self.places[0])
        given = value if root.id == current().here else None
        found: T = self._operate(f"broadcast of {root}", given, lambda values: values[root.id], timeout_s)
        return found

    def allreduce(
        self, value: T, reduce: Callable[[T, T], T] = operator.add, timeout_s: float | None = None
    ) -> T:
        """The ``value`` of all places, reduced in the order of the places, at each of them. The first place may get
        an object that it gave."""

        def reduced(values: dict[int, T]) -> T:
            return functools.reduce(reduce, (values[place.id] for place in self.places))

        found: T = self._operate("allreduce", value, reduced, timeout_s)
        return found

    def forget(self) -> None:
        """Free this place's memory of the team, after its last operation here."""
        current().objects.pop(self._key, None)

    def _operate(
        self, what: str, value: object, answer: Callable[[dict[int, Any]], Any], timeout_s: float | None
    ) -> Any:
        runtime = current()
        self._member(Place(runtime.here))
        membership = _membership_of(self._key)
        if membership.broken is not None:
            raise unpack_error(membership.broken)
        with membership.turn(what) as number:
            operation = _Operation(self, membership, number, what, timeout_s)
            with operation.breaking():
                return (
                    operation.follow(value)
                    if operation.head != runtime.here
                    else operation.lead(value, answer)
                )

    def _member(self, place: Place) -> Place:
        if place not in self.places:
            raise BadPlaceException(f"{place} is not of this team, which has {list(self.places)}")
        return place


class _Arrival(NamedTuple):
    """What a place has come to, with its value, or with the answer of the first place."""

    what: str
    parts: Sequence[Buffer]


class _Membership:
    """What one place knows of a team."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._number = 0
        self._busy = ""
        self.came: dict[int, dict[int, _Arrival]] = {}
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


class _Operation:
    """One operation, at one place."""

    def __init__(
        self, team: Team, membership: _Membership, number: int, what: str, timeout_s: float | None
    ) -> None:
        self._runtime, self._key = current(), team._key  # noqa: SLF001 - of this module
        self._membership, self._number, self._what, self._timeout_s = membership, number, what, timeout_s
        self.head = team.places[0].id
        self._others = [place.id for place in team.places if place.id != self._runtime.here]

    def lead(self, value: object, answer: Callable[[dict[int, Any]], Any]) -> Any:
        """At the first place: its answer, when all have come."""
        arrivals = self._wait(self._others)
        found = answer(
            {
                self._runtime.here: value,
                **{place: unpack(arrival.parts) for place, arrival in arrivals.items()},
            }
        )
        arrival = _Arrival(self._what, beside(pack(found)))
        for place in self._others:
            self._tell(place, _come, self._number, self._runtime.here, arrival)
        return found

    def follow(self, value: object) -> Any:
        """At another place: what the first one answers."""
        arrival = _Arrival(self._what, beside(pack(value)))
        self._tell(self.head, _come, self._number, self._runtime.here, arrival)
        return unpack(self._wait([self.head])[self.head].parts)

    @contextlib.contextmanager
    def breaking(self) -> Iterator[None]:
        """``with``: what is raised ends the team, and is raised at all other places."""
        try:
            yield
        except BaseException as error:
            why = pack_error(error)
            with self._runtime.monitor:
                first, self._membership.broken = (
                    self._membership.broken is None,
                    self._membership.broken or why,
                )
            for place in self._others if first else ():
                self._tell(place, _break, why)
            raise

    def _tell(self, place: int, what: Callable[..., None], *args: object) -> None:
        """As ``tell_if_there``: a place notices itself that another one has gone."""
        self._runtime.tell_if_there(place, what, self._key, *args)

    def _wait(self, wanted: Sequence[int]) -> dict[int, _Arrival]:
        """What all that are ``wanted`` say; raises what keeps them from it."""
        runtime, membership = self._runtime, self._membership
        with runtime.monitor:
            came = membership.came.setdefault(self._number, {})

            def over() -> bool:
                whole = all(place in came for place in wanted)
                return whole or bool(membership.broken or self._lost() or self._other_call(came))

            runtime.wait(over, self._timeout_s)
            error = self._problem(came, [place for place in wanted if place not in came])
        if error is not None:
            raise error
        return came

    def _problem(self, came: dict[int, _Arrival], missing: Sequence[int]) -> Exception | None:
        if (other := self._other_call(came)) is not None:
            place, what = other
            return PliantError(
                f"place({self._runtime.here}) called {self._what} as operation {self._number} of its team, "
                f"place({place}) called {what}: all places of a team call the same operations in the same order"
            )
        if not missing:
            return None
        if self._membership.broken is not None:
            return unpack_error(self._membership.broken)
        if (lost := self._lost()) is not None:
            return lost
        names = ", ".join(f"place({place})" for place in missing)
        return TimeoutError(
            f"place({self._runtime.here}) gave up its {self._what} after {self._timeout_s:g} s: {names} had not come"
        )

    def _other_call(self, came: dict[int, _Arrival]) -> tuple[int, str] | None:
        return next(
            ((place, arrival.what) for place, arrival in came.items() if arrival.what != self._what), None
        )

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


def _membership_of(key: str) -> _Membership:
    runtime = current()
    with runtime.monitor:
        found: _Membership = runtime.objects.setdefault(key, _Membership(runtime))
    return found


def _team(key: str, numbers: Sequence[int]) -> Team:
    team = Team(Place(number) for number in numbers)
    team._key = key  # noqa: SLF001 - it is made again here
    return team


# ---- what places tell each other ---------------------------------------------------------------------------------


def _come(key: str, number: int, place: int, arrival: _Arrival) -> None:
    """``place`` has come to the operation with this number, or answers there."""
    membership = _membership_of(key)
    with current().monitor:
        membership.came.setdefault(number, {})[place] = arrival


def _break(key: str, why: bytes) -> None:
    """The team is of no more use."""
    membership = _membership_of(key)
    with current().monitor:
        membership.broken = membership.broken or why

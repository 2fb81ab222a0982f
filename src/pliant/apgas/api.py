"""The constructs, for the place that the calling thread belongs to."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from pliant.apgas.errors import BadPlaceException
from pliant.apgas.place.payload import copied, name_of, pack, pack_call, unpack
from pliant.apgas.runtime import Finish, current
from pliant.apgas.transport import forks

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Place(NamedTuple):
    """A process of the program, by its id. Ids are never used twice, so there may be gaps."""

    id: int

    def __repr__(self) -> str:
        return f"place({self.id})"


def here() -> Place:
    """The place that runs this."""
    return Place(current().here)


def places() -> tuple[Place, ...]:
    """All places that take tasks now, in order of their ids; others may be there a moment later."""
    runtime = current()
    with runtime.monitor:
        return tuple(Place(each) for each in runtime.machine.members.places())


def place(number: int) -> Place:
    """The place with this id; BadPlaceException or DeadPlaceException if it is not there."""
    runtime = current()
    with runtime.monitor:
        runtime.machine.members.check(number)
    return Place(number)


def finish() -> Finish:
    """For ``with``: it ends when all tasks that were spawned in it, transitively and anywhere, have ended.

    If some raised, it raises a MultipleException of all of them, and of what the body raised if it did.
    """
    return Finish()


def async_at(place: Place, fn: Callable[..., object], *args: object) -> None:
    """Run ``fn(*args)`` at ``place``, some time until the finish around this ends.

    Function and arguments are pickled now, with cloudpickle, also for this place: everywhere a task has copies.
    TypeError if they cannot be pickled, BadPlaceException or DeadPlaceException if there is no such place: then nothing
    was spawned.
    """
    _spawn(place, fn, args, counted=True)


def async_local(fn: Callable[..., object], *args: object) -> None:
    """Run ``fn(*args)`` here, some time until the finish around this ends. Nothing is copied: it is quicker than
    ``async_at(here(), ...)``, and shares its arguments with the task."""
    runtime = current()
    runtime.spawn(runtime.here, fn, args, counted=True, urgent=False)


def at(place: Place, fn: Callable[..., T], *args: object) -> T:
    """The value of ``fn(*args)``, run at ``place`` while this task waits; what it raises is raised here. Arguments and
    value are copies, also where ``place`` is this one.

    DeadPlaceException if the place dies before it has answered.
    """
    runtime = current()
    value: T
    if place.id == runtime.here:
        fn, args = _copies(fn, args)
        value = unpack(copied(pack(forks.perform(fn, *args))))
    else:
        value = runtime.call(place.id, fn, args)
    return value


def uncounted_async_at(place: Place, fn: Callable[..., object], *args: object) -> None:
    """As ``async_at``, but no finish waits for the task, nor for what it spawns; what it raises is printed there."""
    _spawn(place, fn, args)


def immediate_async_at(place: Place, fn: Callable[..., object], *args: object) -> None:
    """As ``uncounted_async_at``, but the task waits for no worker: it runs though all are busy, after other such tasks
    of the place. It should be short."""
    _spawn(place, fn, args, urgent=True)


def _spawn(
    place: Place,
    fn: Callable[..., object],
    args: tuple[object, ...],
    *,
    counted: bool = False,
    urgent: bool = False,
) -> None:
    runtime = current()
    if place.id == runtime.here:
        fn, args = _copies(fn, args)
    runtime.spawn(place.id, fn, args, counted=counted, urgent=urgent)


def _copies(fn: F, args: tuple[object, ...]) -> tuple[F, tuple[object, ...]]:
    """What another place would have of them; TypeError if they cannot be pickled."""
    copies: tuple[F, tuple[object, ...]] = unpack(copied(pack_call(fn, args, name_of(fn), current().here)))
    return copies


class GlobalRef(Generic[T]):
    """A reference to an object of this place, which may be sent anywhere and opened here."""

    __slots__ = ("_key", "home")

    def __init__(self, value: T) -> None:
        runtime = current()
        self.home = Place(runtime.here)
        self._key = uuid.uuid4().hex
        with runtime.monitor:
            runtime.objects[self._key] = value

    def __call__(self) -> T:
        """The object; BadPlaceException at another place, or after ``forget``."""
        runtime = current()
        if runtime.here != self.home.id:
            raise BadPlaceException(
                f"this reference is of {self.home}; use it there, with at() or async_at()"
            )
        try:
            value: T = runtime.objects[self._key]
        except KeyError:
            raise BadPlaceException(f"what this reference of {self.home} stood for was forgotten") from None
        return value

    def forget(self) -> None:
        """Let the object go; at its own place only."""
        self()
        del current().objects[self._key]

    def __getstate__(self) -> tuple[int, str]:
        return self.home.id, self._key

    def __setstate__(self, state: tuple[int, str]) -> None:
        self.home, self._key = Place(state[0]), state[1]


class PlaceLocalObject(Generic[T]):
    """An object of each place: ``make`` makes it where it is first asked for, also at places that come later."""

    __slots__ = ("_key", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._key = uuid.uuid4().hex
        self._make = make

    def __call__(self) -> T:
        """The object of this place. ``make`` is called once here, and must not wait for other places."""
        objects = current().objects
        with current().monitor:
            if self._key not in objects:
                objects[self._key] = self._make()
            value: T = objects[self._key]
        return value

    def forget(self) -> None:
        """Let this place's object go."""
        with current().monitor:
            current().objects.pop(self._key, None)

    def __getstate__(self) -> tuple[str, Callable[[], T]]:
        return self._key, self._make

    def __setstate__(self, state: tuple[str, Callable[[], T]]) -> None:
        self._key, self._make = state

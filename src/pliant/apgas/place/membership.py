"""Which places there are, as one place knows it. Place 0 decides; ids are never used twice. No I/O, no threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pliant.apgas.errors import BadPlaceException, DeadPlaceException

MOST_PLACES = 1 << 16


class Membership:
    """The other places: ``addresses`` of those that are there, ``leaving`` of them that are to get no more tasks."""

    def __init__(self, here: int) -> None:
        self.here = here
        self.addresses: dict[int, str] = {}
        self.leaving: set[int] = set()
        """Also this place itself."""
        self.left: set[int] = set()
        self.dead: dict[int, str] = {}
        self.deaths = 0
        self.mourned: list[int] = []
        """Those of the dead that belonged to the program, in the order in which this place heard of it."""

    @property
    def others(self) -> set[int]:
        """All other places that can be spoken to."""
        return set(self.addresses)

    def places(self) -> tuple[int, ...]:
        """The places that take tasks, this one too, in order."""
        return tuple(sorted({self.here, *self.addresses} - self.leaving))

    def join(self, addresses: dict[int, str]) -> None:
        self.addresses.update(addresses)

    def die(self, place: int, number: int, why: str) -> None:
        self.addresses.pop(place, None)
        self.leaving.discard(place)
        self.dead[place] = why
        self.mourned.append(place)
        self.deaths = max(self.deaths, number)

    def part(self, place: int) -> None:
        """``place`` has said farewell."""
        self.addresses.pop(place, None)
        self.leaving.discard(place)
        self.left.add(place)

    def check(self, place: int) -> None:
        """BadPlaceException or DeadPlaceException if no task can be sent to ``place``."""
        if place in self.dead:
            raise DeadPlaceException(place, self.dead[place])
        if place in self.left:
            raise BadPlaceException(f"place({place}) has left")
        if place in self.leaving and place != self.here:
            raise BadPlaceException(f"place({place}) is leaving")
        if place != self.here and place not in self.addresses:
            raise BadPlaceException(f"there is no place({place}); there are {named(self.places())}")


def named(numbers: Iterable[int]) -> str:
    return ", ".join(f"place({number})" for number in sorted(numbers))


def objection(who: str, count: int, chosen: Collection[int], members: Collection[int]) -> str:
    """Why not just these places can leave, named by the handler's method ``who`` for ``count`` of ``members``; empty if
    they can."""
    if 0 in chosen:
        return f"{who}({count}) named place(0), which runs the program and cannot leave"
    if unknown := sorted(set(chosen) - set(members)):
        return f"{who}({count}) named place({unknown[0]}), which is not there"
    if len(chosen) != count or len(set(chosen)) != count:
        return f"{who}({count}) named {len(set(chosen))} places: {sorted(chosen)}"
    return ""

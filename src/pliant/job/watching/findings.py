"""What the ranks of a job find when they compare themselves after a resize: which variables newcomers miss, and
whether they use other arrays than those that were there. Each rank's view comes in, findings go out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple


class Held(NamedTuple):
    """What a variable holds: a digest of it, a text for people, and the arrays of the job that are in it."""

    digest: int
    text: str
    arrays: tuple[str, ...] = ()


class Used(NamedTuple):
    """Arrays in the order of their first use in a step, and which was used directly behind which, as often as that
    may have been: so it does not depend on how many rows a rank has."""

    order: tuple[str, ...] = ()
    pairs: frozenset[tuple[str, str]] = frozenset()


class Seen(NamedTuple):
    """One rank after a resize; ``joined``: it was not there before, or slept. ``held`` is when its first step began,
    by the names of variables, and ``after`` the digests of those when it was over, where another step follows; ``used``
    is of that step. ``named`` are the variables that people have been told of."""

    joined: bool
    held: Mapping[str, Held]
    used: Used = Used()
    after: Mapping[str, int] = {}
    named: frozenset[str] = frozenset()

    @property
    def digest(self) -> int:
        """Equal for ranks between which there is nothing to find."""
        held = [(name, each.digest) for name, each in sorted(self.held.items())]
        seen = (held, sorted(self.after.items()), self.used.order, sorted(self.used.pairs))
        return int.from_bytes(blake2b(repr(seen).encode(), digest_size=8).digest(), "little")


class Finding(NamedTuple):
    """``name`` is ``there`` on the ranks that were there, and ``here`` on those that joined. ``arrays``: which array
    it is differs."""

    name: str
    there: str
    here: str
    arrays: bool = False


class Parts(NamedTuple):
    """The ranks of a job that were there before a resize, and those that joined; where nobody stays, what rank 0 of
    before has handed down stands for those that were there."""

    there: Mapping[int, Seen]
    here: Mapping[int, Seen]
    stays: bool = True

    @classmethod
    def of(cls, ranks: Sequence[Seen], gone: Seen | None) -> Parts:
        there = {rank: seen for rank, seen in enumerate(ranks) if not seen.joined}
        here = {rank: seen for rank, seen in enumerate(ranks) if seen.joined}
        if there or gone is None:
            return cls(there, here)
        return cls({0: gone}, here, stays=False)

    @property
    def named(self) -> frozenset[str]:
        """What any of them knows to have been told."""
        return frozenset().union(*(each.named for each in (*self.there.values(), *self.here.values())))

    @property
    def who(self) -> str:
        """Those that were there, for people."""
        return f"on {ranks_in_words([*self.there])}" if self.stays else "before the resize"


def differing(parts: Parts) -> list[Finding]:
    """The variables that are equal on all that were there, and equal but another on all that joined. One that the step
    has made differ among either of them is let be, as it differs by rank; and one that holds an array on some of them
    alone, as it is set when it is first needed."""
    if not parts.there or not parts.here:
        return []
    there, here = (_common([*some.values()]) for some in (parts.there, parts.here))
    return [
        Finding(name, one.text, other.text, arrays=one.arrays != other.arrays)
        for name, one in there.items()
        if (other := here.get(name)) is not None
        and other.digest != one.digest
        and bool(one.arrays) == bool(other.arrays)
    ]


def _common(ranks: Sequence[Seen]) -> dict[str, Held]:
    """What all of them hold alike."""
    first, *others = (each.held for each in ranks)
    return {
        name: held
        for name, held in first.items()
        if all(name in other and other[name].digest == held.digest for other in others)
        and len({each.after.get(name) for each in ranks}) == 1
    }


def exchanged(parts: Parts, kinds: Mapping[str, object]) -> tuple[Used, Used] | None:
    """How one that was there has used the arrays in its first step, and one that joined: as the first, but others of
    them. Arrays are only taken for each other where they are of one of ``kinds``, by their names. None where one that
    joined has used them as one that was there: what differs between ranks then is the program's."""
    there, here = ({each.used for each in some.values()} for some in (parts.there, parts.here))
    if there & here:
        return None
    for one in sorted(there, key=repr):
        for other in sorted(here, key=repr):
            if _is_renamed(one, other, kinds):
                return one, other
    return None


def _is_renamed(one: Used, other: Used, kinds: Mapping[str, object]) -> bool:
    if not one.order or len(one.order) != len(other.order):
        return False
    names = dict(zip(one.order, other.order, strict=True))
    return all(kinds[a] == kinds[b] for a, b in names.items()) and other.pairs == {
        (names.get(a, a), names[b]) for a, b in one.pairs
    }


def errors(parts: Parts, kinds: Mapping[str, object]) -> list[str]:
    """Why the job cannot go on: ranks use other arrays than those that joined. Of an attribute that is another array
    this is known only if the first step has not shown that it does not matter: an attribute may be set before it is
    read."""
    alike = bool(
        {each.used for each in parts.there.values()} & {each.used for each in parts.here.values()} - {Used()}
    )
    found = [
        f"{each.name} is {each.there} {parts.who}, and {each.here} on those that joined"
        for each in differing(parts)
        if each.arrays and not (alike and "." in each.name)
    ]
    if not found and (pair := exchanged(parts, kinds)) is not None:
        one, other = (", ".join(map(repr, used.order)) for used in pair)
        found = [f"the step used arrays {one} in this order {parts.who}, and {other} on those that joined"]
    return found


def warnings(parts: Parts) -> dict[str, str]:
    """What people are to be told of plain variables that newcomers miss, by their names: of each once."""
    return {
        each.name: f"{each.name} is {each.there} {parts.who}, and {each.here} on those that joined: "
        "hold it in job.value"
        for each in differing(parts)
        if not each.arrays and each.name not in parts.named
    }


def ranks_in_words(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0 and 1``, ``ranks 0 to 7``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"

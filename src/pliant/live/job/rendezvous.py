"""What the groups of a job find of each other where their MPI asks its launcher for that, without I/O: names that one
publishes and another looks up, meetings, and what single ranks have put (PMIx Standard 4.1, chapters 9, 10 and 12).

Each group's PMIx server asks under numbers of its own. An ask that is not answered for good is said again to a
controller that begins anew, which makes all of this from what it hears; so does what was published, until it is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

from pliant.model.world import MpiWorld
from pliant.protocol import codec, pmix
from pliant.protocol import messages as m
from pliant.protocol.messages import Message

_NOTHING = m.Answered(0, 0).answer
_LONGEST = codec.MAX_LINE - codec.WRAPPING
"""Bytes in an answer: it has to fit into a line."""


class Party(Protocol):
    """A group, as it is seen here: its part of a world, and its ranks that live."""

    number: int
    world: MpiWorld
    alive: set[int]


class Asker(NamedTuple):
    """A group, and the number under which it has asked."""

    group: int
    number: int


class Letter(NamedTuple):
    """For the server of a group; ``over``: its ask with the letter's number is answered for good. Both may be so, or
    one of them."""

    to: Asker
    message: Message | None
    over: bool


class _Waiting(NamedTuple):
    """A lookup that waits, or a rank that is wanted, or who has come to a meeting; it ``needs`` these groups."""

    needs: frozenset[int] = frozenset()
    keys: tuple[str, ...] = ()
    want: tuple[int, int] = (0, -1)
    meet: tuple[str, tuple[pmix.Span, ...]] = ("", ())
    blob: str = ""


class Rendezvous:
    """Between the groups of one job."""

    def __init__(self, groups: Mapping[int, Party]) -> None:
        self._groups = groups
        self._published: dict[str, tuple[Asker, pmix.Item]] = {}
        self._waiting: dict[Asker, _Waiting] = {}
        """Who waits, in the order of their asks."""
        self._known: dict[int, set[int]] = {}
        """The worlds that each group's server was told of."""
        self._decoder: codec.Decoder[pmix.HubAsk] = codec.Decoder(pmix.HubAsk)

    def waits(self, asker: Asker) -> bool:
        return asker in self._waiting

    def ask(self, asker: Asker, line: msgspec.Raw) -> Iterator[Letter]:
        """What follows because a group asks this. ProtocolError if it cannot be understood: nothing has happened
        then."""
        ask = self._decoder.decode(line)
        if self.waits(asker):
            return  # it comes again
        match ask:
            case pmix.Publish():
                yield from self._publish(asker, ask)
            case pmix.Lookup():
                yield from self._look_up(asker, ask)
            case pmix.Unpublish():
                found = [key for key in ask.keys if key in self._published]
                own = [key for key in found if self._published[key][0].group == asker.group]
                yield from self._take(found if ask.anybodys else own)
                yield outcome(asker, pmix.NOT_FOUND if ask.anybodys and not found else 0)
            case pmix.Meet():
                yield from self._meet(asker, ask)
            case pmix.Modex():
                yield from self._modex(asker, ask)
            case pmix.Spawn():
                yield outcome(asker, pmix.NOT_SUPPORTED)
            case pmix.Got():
                yield Letter(asker, None, over=True)
                yield from self._got(asker.group, ask)

    def give_up(self, asker: Asker, status: int) -> Iterator[Letter]:
        """It is to wait no longer."""
        if self._waiting.pop(asker, None) is not None:
            yield outcome(asker, status)

    def ended(self, group: int, *, lost: bool) -> Iterator[Letter]:
        """Nothing of the group lives any more. Whoever needs it waits in vain; where it is ``lost`` that may be
        anybody who waits for a name."""
        yield from self._take([key for key, (asker, _) in self._published.items() if asker.group == group])
        for asker, waiting in list(self._waiting.items()):
            if asker.group == group:
                del self._waiting[asker]
            elif group in waiting.needs or (waiting.keys and lost):
                del self._waiting[asker]
                yield outcome(asker, pmix.UNREACHABLE)
        self._known.pop(group, None)
        world = self._groups[group].world.number
        if not any(each.alive for each in self._groups.values() if each.world.number == world):
            for other, known in self._known.items():
                if world in known:
                    known.discard(world)
                    yield Letter(Asker(other, 0), pmix.Gone(world), over=False)

    # ---- names ---------------------------------------------------------------------------------------

    def _publish(self, asker: Asker, ask: pmix.Publish) -> Iterator[Letter]:
        others = [item.key for item in ask.items if item.key in self._published]
        if ask.new and any(self._published[key][0] != asker for key in others):
            yield outcome(asker, pmix.TAKEN)
            return
        yield from self._take(others)
        self._published.update({item.key: (asker, item) for item in ask.items})
        yield Letter(asker, pmix.Done(asker.number), over=not ask.items)
        for other, waiting in list(self._waiting.items()):
            if waiting.keys and all(key in self._published for key in waiting.keys):
                del self._waiting[other]
                yield from self._read(other, waiting.keys)

    def _look_up(self, asker: Asker, ask: pmix.Lookup) -> Iterator[Letter]:
        there = tuple(key for key in ask.keys if key in self._published)
        if there == ask.keys or (there and not ask.wait):
            yield from self._read(asker, there)
        elif ask.wait:
            self._waiting[asker] = _Waiting(keys=ask.keys)
        else:
            yield outcome(asker, pmix.NOT_FOUND)

    def _read(self, asker: Asker, keys: Iterable[str]) -> Iterator[Letter]:
        items = tuple(self._published[key][1] for key in keys)
        yield Letter(asker, pmix.Done(asker.number, items=items), over=True)
        yield from self._take([item.key for item in items if item.once])

    def _take(self, keys: Iterable[str]) -> Iterator[Letter]:
        """These names are free again; of whom nothing is left need not say again what it has published."""
        publishers = {self._published.pop(key)[0]: None for key in keys}
        left = {asker for asker, _ in self._published.values()}
        for asker in publishers:
            if asker not in left:
                yield Letter(asker, None, over=True)

    # ---- meetings ------------------------------------------------------------------------------------

    def _parties(self, members: Iterable[pmix.Span]) -> dict[int, Party]:
        """The groups that have some of them."""
        spans: dict[int, list[pmix.Span]] = {}
        for span in members:
            spans.setdefault(span.world, []).append(span)
        return {
            number: group
            for number, group in self._groups.items()
            if any(
                span.first < group.world.ranks.stop and group.world.ranks.start < span.end
                for span in spans.get(group.world.number, ())
            )
        }

    def _meet(self, asker: Asker, ask: pmix.Meet) -> Iterator[Letter]:
        members = tuple(self._whole(span) for span in ask.members)
        meeting = ask.what, members
        parties = self._parties(members)
        if asker.group not in parties or not self._all_there(members, parties):
            yield outcome(asker, pmix.BAD_PARAM)
            return
        if not all(group.alive for group in parties.values()):
            yield outcome(asker, pmix.UNREACHABLE)
            return
        self._waiting[asker] = _Waiting(frozenset(parties), meet=meeting, blob=ask.blob)
        come = {each.group: each for each, waiting in self._waiting.items() if waiting.meet == meeting}
        if come.keys() != parties.keys():
            return
        blobs = tuple(self._waiting.pop(come[number]).blob for number in sorted(come))
        worlds = {group.world.number: group.world.sizes for group in parties.values()}
        spaces = tuple(pmix.Space(*each) for each in sorted(worlds.items()))
        for number, each in come.items():
            self._known.setdefault(number, set()).update(worlds)
            done = pmix.Done(each.number, blobs=blobs if ask.what == "fence" else (), spaces=spaces)
            yield Letter(each, done, over=True)

    def _whole(self, span: pmix.Span) -> pmix.Span:
        sizes = (each.world.size for each in self._groups.values() if each.world.number == span.world)
        return span if span.end >= 0 else span._replace(end=next(sizes, 0))

    @staticmethod
    def _all_there(members: Iterable[pmix.Span], parties: Mapping[int, Party]) -> bool:
        """Whether all members are ranks that the job has, or has had."""
        sizes = {group.world.number: group.world.size for group in parties.values()}
        return all(0 <= span.first < span.end <= sizes.get(span.world, 0) for span in members)

    # ---- what single ranks have put ------------------------------------------------------------------

    def _modex(self, asker: Asker, ask: pmix.Modex) -> Iterator[Letter]:
        parties = self._parties([pmix.Span(ask.world, ask.rank, ask.rank + 1)])
        group = next((each for each in parties.values() if each.alive), None)
        if group is None:
            yield outcome(asker, pmix.NOT_FOUND)
            return
        want = group.number, ask.rank
        is_asked = any(waiting.want == want for waiting in self._waiting.values())
        self._waiting[asker] = _Waiting(frozenset({group.number}), want=want)
        if not is_asked:
            yield Letter(Asker(group.number, 0), pmix.Want(ask.rank), over=False)

    def _got(self, group: int, got: pmix.Got) -> Iterator[Letter]:
        for asker, waiting in list(self._waiting.items()):
            if waiting.want == (group, got.rank):
                del self._waiting[asker]
                blobs = (got.blob,) if not got.status else ()
                yield Letter(asker, pmix.Done(asker.number, got.status, blobs), over=True)


def answer(job: int, letter: Letter) -> m.Answered:
    """A letter as the agent of its group gets it."""
    (group, number), message, over = letter
    line = codec.raw(message) if message is not None else _NOTHING
    if len(bytes(line)) > _LONGEST:
        line = codec.raw(pmix.Done(number, pmix.TOO_MUCH))
    return m.Answered(job, group, number, line, over)


def refusal(asker: Asker) -> Letter:
    """The answer to what cannot be understood."""
    return outcome(asker, pmix.BAD_PARAM)


def outcome(asker: Asker, status: int = 0) -> Letter:
    """The whole answer."""
    return Letter(asker, pmix.Done(asker.number, status), over=True)

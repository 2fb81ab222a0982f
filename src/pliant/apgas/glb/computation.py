"""A computation by global load balancing, from place 0: begin it everywhere, follow as places come and go, gather."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from pliant.apgas.api import Place, async_at, async_local, finish, places, uncounted_async_at
from pliant.apgas.bag import Bag, Result
from pliant.apgas.errors import BadPlaceException, DeadPlaceException, MultipleException
from pliant.apgas.glb import balancing, resilient
from pliant.apgas.glb.balancing import Settings, Statistics
from pliant.apgas.glb.resilient import Recovery
from pliant.apgas.malleable.handler import malleability
from pliant.apgas.place.messages import FinishId
from pliant.apgas.runtime import current
from pliant.model.errors import PliantError

R = TypeVar("R", bound=Result)


class Outcome(NamedTuple, Generic[R]):
    """What came out of a computation, and what each place has done that was part of it."""

    result: R
    statistics: dict[int, Statistics]


def run(
    bag: Bag[R] | None,
    result: R,
    *,
    initial: Callable[[int, int], Bag[R]] | None = None,
    settings: Settings | None = None,
    malleable: bool = True,
) -> Outcome[R]:
    """Do all tasks of ``bag``, at all places, and add what they give to ``result``. At place 0.

    With ``initial`` instead of a bag each place makes its own at the start: ``initial(rank, count)`` is called at the
    ``rank``-th of ``count`` places. If it is ``malleable``, places may come and go meanwhile; a program that has
    a malleable handler of its own says False. MultipleException if a task raises or a place dies.
    """
    settings = settings or Settings()
    _check_start(settings, initial)
    key = f"glb {uuid.uuid4().hex}"
    everywhere = tuple(place.id for place in places())
    handler = Handler(key, settings)

    def first(whole: FinishId) -> None:
        # The bag is there before another place may be found dead.
        resilient.begin(key, whole, settings, everywhere)
        if bag is not None:
            async_local(balancing.take, key, bag, 0)
        try:
            handler.begin(whole, everywhere[1:], everywhere)
        finally:
            if malleable:
                malleability().define(handler)
        if initial is not None:
            for rank, number in enumerate(everywhere):
                async_at(Place(number), _start, key, initial, rank, len(everywhere))

    try:
        if handler.recovery is not None:
            handler.recovery.rounds(first, lambda: handler.gather_copies(result), settings)
        else:
            with finish() as whole:
                first(whole.id)
    finally:
        if malleable:
            malleability().disable()
    handler.end(result)
    return Outcome(result, handler.statistics)


def _check_start(settings: Settings, initial: Callable[[int, int], Bag[R]] | None) -> None:
    """PliantError if a computation cannot begin so, or here."""
    here = current().here
    if here != 0:
        raise PliantError(f"global load balancing is started at place(0), this is place({here})")
    if settings.resilient and initial is not None:
        raise PliantError(
            "a resilient computation begins with one bag: what a place makes itself would die with it"
        )


def _start(key: str, initial: Callable[[int, int], Bag[Any]], rank: int, count: int) -> None:
    balancing.take(key, initial(rank, count), current().here)


class Handler:
    """Places leave the lifeline graph with all they have, and join it hungry; whoever is not concerned goes on."""

    def __init__(self, key: str, settings: Settings) -> None:
        self._key, self._settings = key, settings
        self._whole = FinishId(0, 0)
        self._chosen: Sequence[Place] = ()
        """Those that are to leave, until it is known if they have."""
        self.statistics: dict[int, Statistics] = {}
        self.recovery = Recovery(key) if settings.resilient else None
        if self.recovery is not None:
            self.recovery.on_round = self.now_in

    def begin(self, whole: FinishId, whom: Sequence[int], everywhere: tuple[int, ...]) -> None:
        """Let places take part in a computation whose finish is ``whole``."""
        self.now_in(whole)
        self._join(whom, everywhere)
        self._arrange(everywhere, everywhere)

    def now_in(self, whole: FinishId) -> None:
        self._whole = whole

    def end(self, result: Result) -> None:
        """The computation is over: add what the places have found, unless that is done, and let all go."""
        if self.recovery is None:
            for place in places():
                self.gather(place, result)
        for place in places():
            uncounted_async_at(place, balancing.leave, self._key)
        for number, did in self.statistics.items():
            current().note_figures(number, did.told())

    def gather(self, place: Place, result: Result) -> None:
        """Add what ``place`` has found."""
        part, self.statistics[place.id] = current().call(place.id, balancing.pack, (self._key,))
        if part is not None:
            balancing.check_done(place.id, part)
            part.submit(result)

    def gather_copies(self, result: Result) -> None:
        """The same of all places, or of none, while places may die."""
        if self.recovery is not None:
            self.statistics.update(self.recovery.gather(result))

    def pre_shrink(self, count: int) -> Sequence[Place]:
        """Those that came last; what they have goes to place 0."""
        there = places()
        if count >= len(there):
            raise PliantError(f"{count} places are to leave, but only {len(there) - 1} can: place(0) stays")
        chosen = there[len(there) - count :]
        self.pre_release(chosen)
        return chosen

    def pre_release(self, chosen: Sequence[Place]) -> None:
        """These leave; what they have goes to place 0."""
        self._chosen = chosen
        there = [place.id for place in places()]
        rest = tuple(number for number in there if Place(number) not in chosen)
        # The computation is not over before this is, as what leaves may have its last tasks.
        with _Held(self._whole):
            try:
                self._arrange(there, rest)
                if self.recovery is not None:
                    self.recovery.put_down_everywhere(rest)  # their buddies may be about to leave
                for place in chosen:
                    self._fetch(place)
            except Exception:
                self._chosen = ()
                self._stay(chosen)
                raise

    def _stay(self, chosen: Sequence[Place]) -> None:
        """They do not leave after all, and go on with what they still have."""
        there = tuple(place.id for place in places())
        gone = (BadPlaceException, DeadPlaceException, MultipleException)
        with contextlib.suppress(*gone):  # a place that is dead is dealt with when the computation ends
            self._arrange(there, there)
        for place in chosen:
            with contextlib.suppress(BadPlaceException, DeadPlaceException):
                async_at(place, balancing.resume, self._key)

    def post_shrink(self, count: int, removed: Sequence[Place]) -> None:  # noqa: ARG002
        """Those that have not left take part again."""
        staying = [place for place in self._chosen if place not in removed]
        self._chosen = ()
        if staying:
            with _Held(self._whole):
                self._stay(staying)

    def pre_grow(self, count: int) -> None:
        """Nothing is to be prepared."""

    def post_grow(self, count: int, continued: Sequence[Place], new: Sequence[Place]) -> None:  # noqa: ARG002
        """The new places join the graph; where none has come there is nothing to do."""
        if not new:
            return
        everywhere = tuple(sorted(place.id for place in (*continued, *new)))
        with _Held(self._whole):
            self._join([place.id for place in new], everywhere)
            self._arrange(everywhere, everywhere)

    def _join(self, whom: Sequence[int], everywhere: tuple[int, ...]) -> None:
        with finish():
            for number in whom:
                async_at(Place(number), resilient.begin, self._key, self._whole, self._settings, everywhere)

    def _arrange(self, whom: Sequence[int], everywhere: tuple[int, ...]) -> None:
        """Tell places who takes part; they need no worker for it."""
        runtime = current()
        with finish():
            for number in whom:
                runtime.spawn(number, balancing.arrange, (self._key, everywhere), counted=True, urgent=True)

    def _fetch(self, place: Place) -> None:
        """What ``place`` has comes here."""
        bag, self.statistics[place.id] = current().call(place.id, balancing.pack, (self._key,))
        if self.recovery is not None:
            self.recovery.adopt(place)
        if bag is None:
            return
        if bag.is_empty:
            balancing.keep(self._key, bag)
        else:
            async_local(balancing.take, self._key, bag, 0)


class _Held:
    """``with``: what is spawned belongs to ``whole``, which is not over before this; if it is over already, to none."""

    def __init__(self, whole: FinishId) -> None:
        self._runtime, self._whole = current(), whole
        self._held = False

    def __enter__(self) -> None:
        self._held = self._runtime.hold(self._whole)
        self._within = self._runtime.within(self._whole if self._held else None)
        self._within.__enter__()

    def __exit__(self, *_: object) -> None:
        self._within.__exit__()
        if self._held:
            self._runtime.let_go(self._whole)

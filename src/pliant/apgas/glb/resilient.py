"""Global load balancing that goes on when places die: what they have put down elsewhere is done again, exactly once.

While places die the others go on. When no work is left, place 0 looks who has died since, takes over what they had put
down (``safety.py``), and lets all go on with that, until nobody has died meanwhile.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from pliant.apgas.api import Place, async_at, async_local, at, finish, places
from pliant.apgas.bag import Bag, Result
from pliant.apgas.errors import BadPlaceException, DeadPlaceException, MultipleException
from pliant.apgas.glb import balancing
from pliant.apgas.glb.balancing import Balancer, Settings, Statistics
from pliant.apgas.glb.safety import Backup, Piece, RecoveryReport, Safety, recover
from pliant.apgas.malleable.handler import malleability
from pliant.apgas.place.messages import FinishId
from pliant.apgas.runtime import Runtime, current
from pliant.model.errors import PliantError

GONE = (BadPlaceException, DeadPlaceException)
Step = Callable[[FinishId], None]


class ResilientBalancer(Balancer):
    """Gives work away only after putting down what stays, so it does not let others steal at any moment."""

    def __init__(
        self, runtime: Runtime, key: str, finish: FinishId, settings: Settings, places: tuple[int, ...]
    ) -> None:
        super().__init__(runtime, key, finish, settings, places)
        self.safety = Safety(runtime.here)
        self._pausing = False
        self._processing = 0
        self._noted: int | None = None
        """Where place 0 knows that something was put down from here."""
        runtime.on_death[key] = self._look_after_buddy

    # ---- what is asked of it -----------------------------------------------------------------------------

    def get(self, bag: Bag[Any], sender: int, piece: Piece) -> None:
        """As ``take``; ``piece`` is the bag's number."""
        with self._runtime.monitor:
            leaving = self.leaving()
            if not leaving:
                self.safety.received.add(piece)  # with the bag, in one go
                mine = self._admit(bag, sender)
        if not leaving:
            if mine is not None:
                self._work(mine)
            return
        self._runtime.spawn(
            0, get, (self._key, pickle.dumps(bag), self._runtime.here, piece), counted=True, urgent=False
        )

    def steal(self, thief: int) -> Bag[Any] | None:  # noqa: ARG002
        return None

    def lifeline(self, thief: int) -> None:
        with self._runtime.monitor:
            self._note_thief(thief)

    def renew(self, finish: FinishId, places: tuple[int, ...]) -> None:
        """Go on in another finish, with these places."""
        with self._runtime.monitor:
            self._finish = finish
            self._asked.clear()  # but others may have asked this one already
            self._places = places
        self.put_down()
        self.arrange(places)

    def pack(self) -> Bag[Any] | None:
        with self._runtime.monitor:
            bag = super().pack()
            self._noted = None
            return bag

    def copy(self) -> tuple[bytes, Statistics]:
        """All that is here, while nobody works."""
        with self._runtime.monitor:
            return self._packed(), self.statistics

    def _look_after_buddy(self) -> None:
        """A place has died. If what is here was put down there, do so elsewhere; workers that run see it themselves.
        What it had put down here goes to place 0, as this place may die or leave before that is needed."""
        runtime, dead = self._runtime, self._runtime.machine.members.dead
        if self.safety.buddy in dead and not self._running:
            runtime.spawn(runtime.here, self.put_down, (), counted=False, urgent=False)
        for place in sorted(dead.keys() & self.safety.kept.keys()):
            backup = self.safety.kept[place] if not runtime.here else self.safety.kept.pop(place)
            runtime.tell(0, rescue, self._key, place, backup, runtime.here)

    # ---- putting down ------------------------------------------------------------------------------------

    def put_down(self, *, give: bool = False) -> None:
        """Have the buddy keep what is here now; then, to ``give``, send parts to all that wait for some."""
        runtime = self._runtime
        with runtime.monitor:
            runtime.monitor.wait_for(lambda: not self._pausing, None)
            if self.leaving():
                return  # its bags may be on their way to place 0
            self._pausing = True
            try:
                runtime.monitor.wait_for(lambda: not self._processing, None)
                pieces = self._pieces() if give else []
                if runtime.here:
                    self._send()
            finally:
                self._pausing = False
                runtime.monitor.notify_all()
            for thief, packed, piece in pieces:
                self._hand(thief, packed, piece)

    def _pieces(self) -> list[tuple[int, bytes, Piece]]:
        """A part for each thief, while there is some."""
        pieces: list[tuple[int, bytes, Piece]] = []
        while self._thieves:
            source = next(
                (bag for bag in (self._intra, *self._worked) if bag is not None and bag.is_splittable), None
            )
            if source is None:
                break
            thief = self._thieves.pop(0)
            packed = pickle.dumps(self._half(source), pickle.HIGHEST_PROTOCOL)
            pieces.append((thief, packed, self.safety.give(thief, packed)))
        return pieces

    def _hand(self, thief: int, packed: bytes, piece: Piece) -> None:
        runtime = self._runtime
        try:
            with runtime.within(self._finish):
                runtime.spawn(
                    thief, get, (self._key, packed, runtime.here, piece), counted=True, urgent=False
                )
            self.statistics.given += 1
        except GONE:
            del self.safety.given[piece]
            self._intra = self._with(self._intra, pickle.loads(packed))  # noqa: S301 - our own

    def _packed(self) -> bytes:
        bags = [*self._idle, *self._worked, *(bag for bag in (self._intra, self._inter) if bag is not None)]
        return pickle.dumps(bags, pickle.HIGHEST_PROTOCOL)

    def _send(self) -> None:
        """To the buddy, or the next one where that is gone. The lock is held when this begins and ends."""
        runtime, safety = self._runtime, self.safety
        safety.put_down_at = runtime.threads.now()
        backup = safety.backup(self._packed())
        tried: set[int] = set()
        while True:
            buddy = safety.choose(set(self._places).intersection(runtime.machine.members.places()) - tried)
            if buddy is None:
                return
            try:
                runtime.call(buddy, keep, (self._key, runtime.here, backup), urgent=True)
                break
            except GONE:
                tried.add(buddy)
        if self._noted != buddy:  # before anybody relies on it
            self._noted = buddy
            runtime.call(0, note_put_down, (self._key, runtime.here, buddy), urgent=True)
        for giver, pieces in safety.news(backup).items():
            for known in (giver, 0):  # what a giver that leaves has not forgotten is place 0's
                runtime.tell_if_there(known, forget, self._key, pieces)

    # ---- workers -----------------------------------------------------------------------------------------

    def _process(self, bag: Bag[Any]) -> bool:
        monitor = self._runtime.monitor
        with monitor:
            monitor.wait_for(lambda: not self._pausing, None)
            self._processing += 1
        try:
            return bag.process(self._grain)
        finally:
            with monitor:
                self._processing -= 1
                monitor.notify_all()

    def _share_outside(self, bag: Bag[Any]) -> None:
        runtime, safety = self._runtime, self.safety
        can_give = bag.is_splittable or (self._intra is not None and self._intra.is_splittable)
        if self._thieves and can_give:
            self.put_down(give=True)
        elif runtime.here and (
            runtime.threads.now() - safety.put_down_at > self._settings.backup_s
            or (safety.buddy is not None and safety.buddy not in runtime.machine.members.addresses)
        ):
            self.put_down()

    def _steal(self) -> Bag[Any] | None:
        """Nobody is asked at random; what was found out until now is put down, as this place rests."""
        self.put_down()
        return None


# ---- what other places ask of it ---------------------------------------------------------------------------------


def begin(key: str, finish: FinishId, settings: Settings, places: tuple[int, ...]) -> None:
    """Take part, from the first ``arrange`` on."""
    runtime = current()
    balancer = (ResilientBalancer if settings.resilient else Balancer)(
        runtime, key, FinishId(*finish), settings, places
    )
    with runtime.monitor:
        runtime.objects[key] = balancer
        runtime.on_load[key] = balancer.ready


def _here(key: str) -> ResilientBalancer:
    balancer = balancing.of_this_place(key)
    if not isinstance(balancer, ResilientBalancer):
        raise BadPlaceException(f"{Place(current().here)} does not take part in this computation")
    return balancer


def get(key: str, packed: bytes, sender: int, piece: Piece) -> None:
    _here(key).get(pickle.loads(packed), sender, (piece[0], piece[1]))  # noqa: S301 - of a place of ours


def keep(key: str, place: int, backup: Backup) -> None:
    _here(key).safety.keep(place, backup)


def forget(key: str, pieces: list[Piece]) -> None:
    balancer = balancing.of_this_place(key)
    if isinstance(balancer, ResilientBalancer):
        with current().monitor:
            balancer.safety.forget(pieces)


def note_put_down(key: str, place: int, buddy: int) -> None:
    put_down: dict[int, int] = current().objects[f"{key} put down"]
    put_down[place] = buddy


def rescue(key: str, place: int, backup: Backup, buddy: int) -> None:
    """At place 0: ``place`` is dead, and had put this down with ``buddy``."""
    put_down: dict[int, int] = current().objects[f"{key} put down"]
    if put_down.get(place) == buddy:
        _here(key).safety.keep(place, backup)
        put_down[place] = 0


def renew(key: str, finish: FinishId, settings: Settings, everywhere: tuple[int, ...]) -> None:
    if balancing.of_this_place(key) is None:  # somebody died before this place took part
        begin(key, finish, settings, everywhere)
    _here(key).renew(FinishId(*finish), everywhere)


def report(key: str) -> RecoveryReport:
    balancer = balancing.of_this_place(key)
    if not isinstance(balancer, ResilientBalancer):
        return RecoveryReport(set(), {}, {})  # somebody died before this place took part
    with current().monitor:
        return balancer.safety.report()


def copy(key: str) -> tuple[bytes, Statistics]:
    return _here(key).copy()


def put_down(key: str) -> None:
    """In a thread of its own: all workers may be busy, and urgent tasks must not wait for those of other places."""
    current().spawn_apart(_here(key).put_down)


# ---- place 0 -----------------------------------------------------------------------------------------------------


class Recovery:
    """Rounds of a computation, until one ends in which nobody has died."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._pending: list[bytes] = []
        """Bags that are to be done again, by nobody yet."""
        self._recovered: set[int] = set()
        """Dead places, of which all is done that can be."""
        self._void: dict[int, int] = {}
        """By place the last that it put down which is not to be used, as what it had came here."""
        self.on_round: Callable[[FinishId], object] = lambda _whole: None
        """Told the finish of each further round."""
        runtime = current()
        with runtime.monitor:
            self._put_down: dict[int, int] = runtime.objects.setdefault(f"{key} put down", {})
            """By place with which buddy it has put something down."""

    def adopt(self, place: Place) -> None:
        """``place`` leaves, and its bags are here."""
        known = at(place, report, self._key)
        with current().monitor:
            self._void[place.id] = known.version
            self._put_down.pop(place.id, None)
            _here(self._key).safety.adopt(known.received, known.given)

    def put_down_everywhere(self, whom: Sequence[int]) -> None:
        """All put down what they have."""
        runtime = current()
        with finish():
            for number in whom:
                runtime.spawn(number, put_down, (self._key,), counted=True, urgent=True)

    def rounds(self, first: Step, gather: Callable[[], None], settings: Settings) -> None:
        """Rounds of work, of which the first is begun by ``first``. At the end ``gather`` may raise, as everything
        else, that a place is dead."""

        def again(whole: FinishId) -> None:
            self._again(whole, settings)

        step = first
        while not self._round(step, gather):
            step = again

    @staticmethod
    def _round(step: Step, gather: Callable[[], None]) -> bool:
        """Whether nobody has died."""
        try:
            with finish() as whole:
                step(whole.id)
            gather()
        except DeadPlaceException:
            return False
        except MultipleException as error:
            if error.split(DeadPlaceException)[1] is not None:
                raise
            return False
        return True

    def _again(self, whole: FinishId, settings: Settings) -> None:
        """Take over what the dead have put down, and go on with it in the finish ``whole``."""
        with malleability().pausing():
            self._take_over()
            self.on_round(whole)
            everywhere = tuple(place.id for place in places())
            for number in everywhere:
                at(Place(number), renew, self._key, whole, settings, everywhere)
            for number in everywhere:
                async_at(Place(number), balancing.resume, self._key)
            pending, self._pending = self._pending, []
            for packed in pending:
                content = pickle.loads(packed)  # noqa: S301 - of places of ours
                for bag in content if isinstance(content, list) else [content]:
                    if bag.is_empty:
                        balancing.keep(self._key, bag)
                    else:
                        async_local(balancing.take, self._key, bag, 0)

    def _take_over(self) -> None:
        everywhere = [place.id for place in places()]
        runtime = current()
        gone = set(runtime.machine.members.dead) - self._recovered
        reports = {number: at(Place(number), report, self._key) for number in everywhere}
        found = recover(reports, gone, self._put_down, self._void)
        if found.hopeless:
            raise PliantError(
                f"the computation is lost: {', '.join(f'place({number})' for number in found.hopeless)} died, and the "
                "places that kept what they had with them"
            )
        with runtime.monitor:
            _here(self._key).safety.adopt(found.received, found.given)
            self._pending += found.packed
            self._recovered |= gone

    def gather(self, result: Result) -> dict[int, Statistics]:
        """Add what all places have found; DeadPlaceException, and nothing is added, if one is dead."""
        with malleability().pausing():
            copies = {place.id: at(place, copy, self._key) for place in places()}
            for dead in sorted(set(current().machine.members.dead) - self._recovered):
                raise DeadPlaceException(dead)
        bags = [(number, bag) for number, (packed, _) in copies.items() for bag in pickle.loads(packed)]  # noqa: S301
        for number, bag in bags:
            balancing.check_done(number, bag)
        for _, bag in bags:
            bag.submit(result)
        return {number: statistics for number, (_, statistics) in copies.items()}

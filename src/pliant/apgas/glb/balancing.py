"""Global load balancing at one place: its workers, the bags that they share, and whom it steals from.

Each worker has a bag of its own. One bag of the place is there for its other workers (``intra``), one for other places
(``inter``); a worker that sees one of them empty splits its own. A place without work tries some other places at
random, then asks its lifelines, which answer when they have something, and is silent until then. Where a place's last
worker ends, its part of the program's one finish is told, so that the finish ends when no place has work (Finnerty et
al. 2024, "Lifeline-Based Global Load Balancing"; Finnerty et al., "Self-adjusting task granularity for global load
balancer library on clusters of many-core processors", 2020, for several workers a place).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from pliant.apgas.api import Place
from pliant.apgas.bag import Bag
from pliant.apgas.errors import BadPlaceException, DeadPlaceException
from pliant.apgas.glb.lifelines import CyclicHypercube, LifelineStrategy
from pliant.apgas.place.messages import FinishId
from pliant.apgas.runtime import Runtime, current
from pliant.model.errors import PliantError

LONGEST_S = 0.01
SHORTEST_S = 0.0025
"""Without a fixed grain, one call of ``process`` is made to last between these."""
MOST = 1 << 24


@dataclass(frozen=True)
class Settings:
    """How the balancing is done; the same at all places. ``grain`` is how many tasks a call of ``process`` takes, 0 to
    adapt it; ``random_steals`` how many places are tried before the lifelines.

    ``resilient``: when a place dies its tasks are done again elsewhere, by what it has left with another place; at the
    latest every ``backup_s`` seconds it does so anew. ``check``: count tasks whenever a bag is split or merged.
    """

    grain: int = 0
    random_steals: int = 2
    strategy: LifelineStrategy = field(default_factory=CyclicHypercube)
    seed: int = 0
    resilient: bool = False
    backup_s: float = 2.0
    check: bool = False


@dataclass
class Statistics:
    """What one place has done. Times in seconds, summed over its workers; ``longest_gap_s`` is the longest time between
    two calls of ``process`` of a worker that had work."""

    calls: int = 0
    process_s: float = 0.0
    cpu_s: float = 0.0
    """Processor time of its workers, all that they do included."""
    longest_gap_s: float = 0.0
    stolen: int = 0
    """Bags that came from elsewhere, by steals and by lifelines."""
    given: int = 0
    asked: int = 0
    idle_s: float = 0.0
    """How long no worker of the place ran, between its first and its last: it waited for its lifelines."""

    def told(self) -> dict[str, float]:
        """What is told of a job's places: what may be added up over computations."""
        return {
            "calls": float(self.calls),
            "process_s": round(self.process_s, 6),
            "cpu_s": round(self.cpu_s, 6),
            "stolen": float(self.stolen),
            "given": float(self.given),
            "asked": float(self.asked),
            "idle_s": round(self.idle_s, 6),
        }


class Balancer:
    """The place's part in one computation."""

    def __init__(
        self, runtime: Runtime, key: str, finish: FinishId, settings: Settings, places: tuple[int, ...]
    ) -> None:
        self._runtime = runtime
        self._key = key
        self._finish = finish
        self._settings = settings
        self._random = random.Random(f"{settings.seed} {runtime.here}")  # noqa: S311 - victims, no secrets
        self._idle: list[Bag[Any]] = []
        """Bags of workers that have ended: they hold results."""
        self._worked: list[Bag[Any]] = []
        """Those of workers that run."""
        self._begun: dict[int, float] = {}
        """By bag the processor time of its worker's thread when it began."""
        self._intra: Bag[Any] | None = None
        self._inter: Bag[Any] | None = None
        self._running = 0
        self._thieves: list[int] = []
        """Places that wait for work from here."""
        self._early: set[int] = set()
        """Others that do, and of which this place has yet to hear that they take part."""
        self._asked: set[int] = set()
        """Lifelines that have not answered."""
        self._grain = settings.grain or 64
        self._since: float | None = None
        self.statistics = Statistics()
        self._places = places
        self._lifelines: tuple[int, ...] = ()

    # ---- who is there ----------------------------------------------------------------------------------

    def arrange(self, places: tuple[int, ...]) -> None:
        """From now on these places take part; this one leaves if it is not among them."""
        here = self._runtime.here
        with self._runtime.monitor:
            self._places = places
            self._lifelines = () if self.leaving() else self._settings.strategy.lifelines(here, places)
            waiting = dict.fromkeys((*self._thieves, *sorted(self._early)))
            self._thieves = [place for place in waiting if place in places]
            self._early.clear()
            # Whoever hears that this place leaves forgets that it waits.
            self._asked &= set() if self.leaving() else set(places)
            if not self._running and not self.leaving():
                self._ask_lifelines()

    def leaving(self) -> bool:
        return self._runtime.here not in self._places

    def ready(self) -> int:
        """How many tasks are there for whoever has none, as far as the program knows. The lock is held."""
        shared = [bag for bag in (self._intra, self._inter) if bag is not None]
        return sum(1 if bag.tasks is None else bag.tasks for bag in shared)

    def resume(self) -> None:
        """A task of the finish: work on what is here, which workers left when this place was to leave."""
        with self._runtime.monitor:
            left = [bag for bag in self._idle if not bag.is_empty]
            self._idle = [bag for bag in self._idle if bag.is_empty]
        for bag in left:
            self.take(bag, self._runtime.here)

    def keep(self, bag: Bag[Any]) -> None:
        """A bag without tasks, for its result."""
        with self._runtime.monitor:
            self._idle.append(bag)

    def pack(self) -> Bag[Any] | None:
        """Everything that is here, of a place that leaves, when its workers have ended."""
        with self._runtime.monitor:
            self._runtime.wait(lambda: not self._running)
            bags = [*self._idle, *(bag for bag in (self._intra, self._inter) if bag is not None)]
            self._idle, self._intra, self._inter = [], None, None
            return self._merged(bags)

    # ---- work ------------------------------------------------------------------------------------------

    def take(self, bag: Bag[Any], sender: int) -> None:
        """A task of the finish: ``sender`` has sent work."""
        mine: Bag[Any] | None = None
        with self._runtime.monitor:
            leaving = self.leaving()
            if not leaving:
                mine = self._admit(bag, sender)
        if leaving:  # it was under way when this place was cut off
            self._runtime.spawn(0, take, (self._key, bag, self._runtime.here), counted=True, urgent=False)
        elif mine is not None:
            self._work(mine)

    def _admit(self, bag: Bag[Any], sender: int) -> Bag[Any] | None:
        """Work has come: for a new worker, which is to begin with what is returned, or for those there are. The lock is
        held."""
        self._asked.discard(sender)
        self.statistics.stolen += 1
        if self._running >= self._runtime.workers:
            self._intra = self._with(self._intra, bag)
            return None
        if self._idle:  # a worker that has ended begins again
            bag = self._with(self._idle.pop(), bag)
        self._begin(bag)
        return bag

    def steal(self, thief: int) -> Bag[Any] | None:
        """Something for a place that has nothing, at once or not at all."""
        with self._runtime.monitor:
            if self.leaving() or thief not in self._places or self._inter is None:
                return None
            self.statistics.given += 1
            return self._loot(self._inter)

    def lifeline(self, thief: int) -> None:
        """``thief`` waits for something."""
        with self._runtime.monitor:
            if self._note_thief(thief) and self._inter is not None:
                self._feed()

    def _note_thief(self, thief: int) -> bool:
        """``thief`` waits from now on, if it did not; False where there is nothing to be done. The lock is held."""
        if thief not in self._places:
            self._early.add(thief)
        elif thief not in self._thieves and not self.leaving():
            self._thieves.append(thief)
            return True
        return False

    def _begin(self, bag: Bag[Any]) -> None:
        """A worker begins. The lock is held."""
        self._running += 1
        self._worked.append(bag)
        if self._running == 1 and self._since is not None:
            self.statistics.idle_s += self._runtime.threads.now() - self._since

    def _work(self, bag: Bag[Any]) -> None:
        """Be a worker until nothing is left for it, here or elsewhere."""
        self._begun[id(bag)] = self._runtime.threads.cpu()
        more: Bag[Any] | None = bag
        try:
            while more is not None:
                self._empty(bag)
                more = self._more(bag)
        except BaseException:
            with self._runtime.monitor:  # what the bag had is lost, and the finish says why
                self._end(bag)
            raise

    def _empty(self, bag: Bag[Any]) -> None:
        """Work on the bag, and on what is refilled, until nothing is left here or this place leaves."""
        runtime = self._runtime
        last: float | None = None
        while not self.leaving():
            begun = runtime.threads.now()
            if last is not None:
                self.statistics.longest_gap_s = max(self.statistics.longest_gap_s, begun - last)
            more = self._process(bag)
            last = runtime.threads.now()
            self._account(last - begun, more=more)
            runtime.threads.pause()
            if not more and not self._refill(bag):
                return
            with runtime.monitor:
                if not self.leaving():
                    self._share(bag)

    def _process(self, bag: Bag[Any]) -> bool:
        return bag.process(self._grain)

    def _more(self, bag: Bag[Any]) -> Bag[Any] | None:
        """The worker's bag with something in it again, or None where the worker has ended."""
        monitor = self._runtime.monitor
        with monitor:
            if self._running > 1 or self.leaving():
                self._end(bag)
                return None
        loot = self._steal()
        with monitor:
            if loot is not None:
                self._with(bag, loot)
            if self.leaving():
                self._end(bag)
                return None
            if loot is None:
                loot, self._intra = self._intra, None  # it may have come meanwhile
                if loot is None:
                    self._ask_lifelines()
                    self._end(bag)
                    return None
                self._with(bag, loot)
        return bag

    def _end(self, bag: Bag[Any]) -> None:
        """The worker that calls this ends. The lock is held."""
        self.statistics.cpu_s += self._runtime.threads.cpu() - self._begun.pop(id(bag))
        self._worked = [each for each in self._worked if each is not bag]
        self._idle.append(bag)
        self._running -= 1
        if not self._running:
            self._since = self._runtime.threads.now()
        self._runtime.flush()

    def _account(self, took: float, *, more: bool) -> None:
        self.statistics.calls += 1
        self.statistics.process_s += took
        if not self._settings.grain and more:
            if took < SHORTEST_S:
                self._grain = min(MOST, self._grain * 2)
            elif took > LONGEST_S:
                self._grain = max(1, self._grain // 2)

    def _share(self, bag: Bag[Any]) -> None:
        """Let others have some of a worker's bag, where they have none. The lock is held."""
        self._share_outside(bag)
        runtime = self._runtime
        if self._intra is None and runtime.workers > 1 and bag.is_splittable:
            self._intra = self._half(bag)
        if self._intra is not None and self._running < runtime.workers:
            mine, self._intra = self._intra, None
            self._begin(mine)
            with runtime.within(self._finish):
                runtime.spawn(runtime.here, self._work, (mine,), counted=True, urgent=False)

    def _share_outside(self, bag: Bag[Any]) -> None:
        """Have something for other places. The lock is held."""
        if self._inter is None and len(self._places) > 1 and bag.is_splittable:
            self._inter = self._half(bag)
        if self._thieves and self._inter is not None:
            self._feed()

    def _feed(self) -> None:
        """Give the waiting places what is there for them. The lock is held, and a worker runs."""
        runtime = self._runtime
        while self._thieves and self._inter is not None:
            thief = self._thieves.pop(0)
            loot = self._loot(self._inter)
            try:
                with runtime.within(self._finish):
                    runtime.spawn(thief, take, (self._key, loot, runtime.here), counted=True, urgent=False)
                self.statistics.given += 1
            except (BadPlaceException, DeadPlaceException):
                self._inter = self._with(self._inter, loot)

    def _loot(self, bag: Bag[Any]) -> Bag[Any]:
        """A part of ``bag``, which is what is there for other places: all of it if there is but one other, as the
        rest would only be asked for a little later. The lock is held."""
        if bag.is_splittable and len(self._places) > 2:
            return self._half(bag)
        self._inter = None
        return bag

    def _refill(self, bag: Bag[Any]) -> bool:
        """More for a worker whose bag is empty, from what the place has."""
        with self._runtime.monitor:
            for name in ("_intra", "_inter"):
                found: Bag[Any] | None = getattr(self, name)
                if found is not None:
                    setattr(self, name, None)
                    self._with(bag, found)
                    return not bag.is_empty
        return False

    # ---- bags ----------------------------------------------------------------------------------------------

    def _half(self, bag: Bag[Any]) -> Bag[Any]:
        """A part of a bag that can be split."""
        before = bag.tasks
        half = bag.split(take_all=False)
        if self._settings.check:
            self._count("split", bag, before, bag.tasks, half.tasks)
        return half

    def _with(self, bag: Bag[Any] | None, other: Bag[Any]) -> Bag[Any]:
        """``bag`` with all that ``other`` has."""
        if bag is None:
            return other
        before, more = bag.tasks, other.tasks
        bag.merge(other)
        if self._settings.check and before is not None:
            self._count("merge", bag, None if more is None else before + more, bag.tasks, 0)
        return bag

    def _count(self, what: str, bag: Bag[Any], before: int | None, *after: int | None) -> None:
        if before is None or None in after:
            return
        there = sum(each for each in after if each is not None)
        if there != before:
            raise PliantError(
                f"{Place(self._runtime.here)}: {what} of a {type(bag).__name__} made {there} tasks of {before}"
            )

    def _merged(self, bags: list[Bag[Any]]) -> Bag[Any] | None:
        """All in one, the first of them."""
        whole: Bag[Any] | None = None
        for bag in bags:
            whole = self._with(whole, bag)
        return whole

    # ---- without work ----------------------------------------------------------------------------------

    def _steal(self) -> Bag[Any] | None:
        """What one of a few other places, tried at random, has to give."""
        runtime = self._runtime
        others = [place for place in self._places if place != runtime.here]
        for victim in self._random.sample(others, min(len(others), self._settings.random_steals)):
            self.statistics.asked += 1
            try:
                loot: Bag[Any] | None = runtime.call(victim, steal, (self._key, runtime.here), urgent=True)
            except (BadPlaceException, DeadPlaceException):
                continue
            if loot is not None:
                self.statistics.stolen += 1
                return loot
        return None

    def _ask_lifelines(self) -> None:
        """The lock is held."""
        runtime = self._runtime
        for place in self._lifelines:
            if place not in self._asked:
                try:
                    runtime.tell(place, lifeline, self._key, runtime.here)
                except (BadPlaceException, DeadPlaceException):
                    continue
                self._asked.add(place)


# ---- what other places ask of a balancer: functions, as those travel by name -----------------------------------


def of_this_place(key: str) -> Balancer | None:
    balancer: Balancer | None = current().objects.get(key)
    return balancer


def take(key: str, bag: Bag[Any], sender: int) -> None:
    balancer = of_this_place(key)
    if balancer is None:
        raise BadPlaceException(
            f"{Place(current().here)} got work of a computation that it does not take part in"
        )
    balancer.take(bag, sender)


def steal(key: str, thief: int) -> Bag[Any] | None:
    balancer = of_this_place(key)
    return balancer.steal(thief) if balancer is not None else None


def lifeline(key: str, thief: int) -> None:
    balancer = of_this_place(key)
    if balancer is not None:
        balancer.lifeline(thief)


def arrange(key: str, places: tuple[int, ...]) -> None:
    balancer = of_this_place(key)
    if balancer is not None:
        balancer.arrange(places)


def resume(key: str) -> None:
    balancer = of_this_place(key)
    if balancer is not None:
        balancer.resume()


def keep(key: str, bag: Bag[Any]) -> None:
    balancer = of_this_place(key)
    if balancer is not None:
        balancer.keep(bag)


def pack(key: str) -> tuple[Bag[Any] | None, Statistics]:
    balancer = of_this_place(key)
    return (balancer.pack(), balancer.statistics) if balancer is not None else (None, Statistics())


def leave(key: str) -> None:
    """The computation is over at this place."""
    current().objects.pop(key, None)
    current().on_death.pop(key, None)
    current().on_load.pop(key, None)


def check_done(place: int, bag: Bag[Any]) -> None:
    """PliantError if a computation that is over has left tasks in a bag: its result would be wrong."""
    if not bag.is_empty:
        raise PliantError(f"the computation has ended, but tasks were left at place({place})")

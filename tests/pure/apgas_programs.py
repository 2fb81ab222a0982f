"""Small programs of places for tests: a bag whose result is known, and changes of the places at random."""

from __future__ import annotations

import random
from typing import Self

from pliant.apgas import glb, places
from pliant.apgas.malleable import HandlerError, malleability
from pliant.apgas.runtime import Runtime
from pliant.apgas.together import Together

MOST_AT_ONCE = 3


class Seen:
    """How many tasks there were, and which: a sum that any loss or repetition changes."""

    def __init__(self) -> None:
        self.count = 0
        self.marks = 0

    def merge(self, other: Self) -> None:
        self.count += other.count
        self.marks += other.marks


class Tree:
    """Tasks (mark, depth) that beget up to four others, as the mark says."""

    def __init__(self, tasks: list[tuple[int, int]]) -> None:
        self._tasks = tasks
        self._seen = Seen()

    @property
    def tasks(self) -> int:
        return len(self._tasks)

    @property
    def is_empty(self) -> bool:
        return not self._tasks

    @property
    def is_splittable(self) -> bool:
        return len(self._tasks) > 1

    def process(self, n: int) -> bool:
        for _ in range(n):
            if not self._tasks:
                break
            mark, depth = self._tasks.pop()
            self._seen.count += 1
            self._seen.marks += mark
            for child in range(mark % 5 if depth else 0):
                self._tasks.append(
                    ((mark * 6364136223846793005 + child * 1442695040888963407 + 1) % 2**63 >> 7, depth - 1)
                )
        return bool(self._tasks)

    def split(self, take_all: bool) -> Self:  # noqa: FBT001
        half = 0 if take_all else len(self._tasks) // 2
        other = type(self)(self._tasks[half:])
        del self._tasks[half:]
        return other

    def merge(self, bag: Self) -> None:
        self._tasks += bag._tasks
        self._seen.merge(bag._seen)

    def submit(self, result: Seen) -> None:
        result.merge(self._seen)
        self._seen = Seen()

    @classmethod
    def drawn(cls, rng: random.Random, depth: int) -> Tree:
        return cls([(rng.randrange(2**50) * 5 + 4, depth) for _ in range(3)])

    def alone(self) -> tuple[int, int]:
        """What comes out where one does it all; the bag is not used up."""
        other, seen = Tree(list(self._tasks)), Seen()
        while other.process(1000):
            pass
        other.submit(seen)
        return seen.count, seen.marks


class Changes:
    """Grows and shrinks a running program at random, from a thread of place 0."""

    def __init__(self, world: Together, zero: Runtime, rng: random.Random, workers: int, pause: int) -> None:
        self._world, self._zero, self._rng, self._workers, self._pause = world, zero, rng, workers, pause
        self.grown = self.shrunk = 0

    def start(self) -> None:
        self._zero.threads.start(self._change, "changes")

    def _change(self) -> None:
        following = max(place for place in self._world.runtimes) + 1
        with self._zero.within(None):
            while True:
                for _ in range(self._rng.randrange(self._pause)):
                    self._zero.threads.pause()
                count = self._rng.randrange(1, MOST_AT_ONCE + 1)
                there = len(places())
                try:
                    if there <= count or (there < 2 * MOST_AT_ONCE and self._rng.random() < 0.5):
                        self._grow(list(range(following, following + count)))
                        following += count
                        self.grown += 1
                    else:
                        malleability().shrink(count, 60.0)
                        self.shrunk += 1
                except HandlerError:
                    return  # the computation is over

    def _grow(self, numbers: list[int]) -> None:
        def start() -> None:
            for number in numbers:
                self._world.newcomer(number, self._workers)

        malleability().grow(numbers, start, 60.0)


class Deaths:
    """Kills places at random, from a thread of place 0, each time when all is well again or long after that."""

    def __init__(self, world: Together, zero: Runtime, rng: random.Random, most: int) -> None:
        self._world, self._zero, self._rng, self._most = world, zero, rng, most
        self.killed: list[int] = []

    def start(self) -> None:
        self._zero.threads.start(self._kill, "deaths")

    def _kill(self) -> None:
        with self._zero.within(None):
            for _ in range(self._most):
                for _ in range(self._rng.randrange(400)):
                    self._zero.threads.pause()
                others = [each.id for each in places() if each.id]
                if others:
                    self.killed.append(self._rng.choice(others))
                    self._world.kill(self.killed[-1])


def survived(
    seed: int, depth: int, deaths: int, *, changing: bool = False
) -> tuple[Deaths, glb.Outcome[Seen], tuple[int, int]]:
    """A resilient computation whose places die, what came out, and what had to."""
    rng = random.Random(seed)
    world, workers = Together(seed), rng.choice([1, 2])
    bag = Tree.drawn(rng, depth)
    expected = bag.alone()
    killing: list[Deaths] = []
    settings = glb.Settings(grain=rng.choice([1, 3, 10]), seed=seed, resilient=True, check=True)

    def main() -> glb.Outcome[Seen]:
        zero = world.runtimes[0]
        killing.append(Deaths(world, zero, rng, deaths))
        killing[0].start()
        if changing:
            Changes(world, zero, rng, workers, 60).start()
        return glb.run(bag, Seen(), settings=settings)

    outcome = world.begin(main, 2 + seed % 6, workers)
    return killing[0], outcome, expected


def balanced(seed: int, depth: int, pause: int = 20) -> tuple[Changes, glb.Outcome[Seen], tuple[int, int]]:
    """A computation whose places come and go all the time, what came out, and what had to."""
    rng = random.Random(seed)
    world, workers = Together(seed), rng.choice([1, 2, 3])
    bag = Tree.drawn(rng, depth)
    expected = bag.alone()
    changes: list[Changes] = []
    settings = glb.Settings(grain=rng.choice([1, 3, 10]), random_steals=rng.randrange(3), seed=seed)

    def main() -> glb.Outcome[Seen]:
        changes.append(Changes(world, world.runtimes[0], rng, workers, pause))
        changes[0].start()
        return glb.run(bag, Seen(), settings=settings)

    outcome = world.begin(main, 1 + seed % 5, workers)
    return changes[0], outcome, expected

"""Computations over places in one process whose places come, go and die at random: a seed draws it all, and
the result is
known."""

from __future__ import annotations

import random
from typing import NamedTuple, Self

from pliant.apgas import MultipleException, glb, places
from pliant.apgas.malleable.handler import HandlerError, malleability
from pliant.apgas.runtime import Runtime
from pliant.apgas.transport.together import Together
from pliant.model.errors import PliantError

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


class Trial(NamedTuple):
    """What happened in a computation, and whether its result was exact; ``problem`` says what else went wrong."""

    seed: int
    tasks: int
    grown: int
    shrunk: int
    deaths: int
    exact: bool
    problem: str = ""


def attempt(seed: int, *, depth: int = 8, deaths: int = 0, changing: bool = True, pause: int = 20) -> Trial:
    """A computation from this seed. With ``deaths``, so many places die at the most, and it is resilient; ``pause`` is
    about how long places stay as they are."""
    rng = random.Random(seed)  # noqa: S311 - to be repeated
    world, workers = Together(seed), rng.choice([1, 2, 3])
    bag = Tree.drawn(rng, depth)
    expected = bag.alone()
    settings = glb.Settings(
        grain=rng.choice([1, 3, 10]),
        random_steals=rng.randrange(3),
        seed=seed,
        resilient=deaths > 0,
        check=True,
    )
    zero = world.place(0, workers)
    changes, dying = Changes(world, zero, rng, workers, pause), Deaths(world, zero, rng, deaths)

    def main() -> glb.Outcome[Seen]:
        dying.start()
        if changing:
            changes.start()
        return glb.run(bag, Seen(), settings=settings)

    problem, found = "", (0, 0)
    try:
        outcome = world.begin(main, 1 + seed % 6 + (deaths > 0), workers)
    except (PliantError, MultipleException) as error:
        problem = f"{type(error).__name__}: {error}"
    else:
        found = outcome.result.count, outcome.result.marks
    return Trial(
        seed, expected[0], changes.grown, changes.shrunk, len(dying.killed), found == expected, problem
    )

"""Monte Carlo Pi: how many random points of a square lie in its circle?

    python -m pliant.apps.pi --points 1000000000

The i-th point is a function of the seed and i, and a task is a block of 65,536 points in a row: so the count, and with
it the result, is the same whoever counts which block.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from pliant.apps import balanced
from pliant.apps.kernels import pi as kernels
from pliant.apps.ranges import Range, RangeBag

BLOCK = 65_536
CHUNK = 128  # blocks; about 3 ms


@dataclass
class Points:
    """The points that have been looked at."""

    inside: int = 0
    points: int = 0

    @property
    def pi(self) -> float:
        return 4 * self.inside / self.points

    def merge(self, other: Points) -> None:
        self.inside += other.inside
        self.points += other.points


class PointsBag(RangeBag):
    """Blocks of points, by number."""

    def __init__(self, points: int, seed: int = 1, block: int = BLOCK) -> None:
        super().__init__([(0, -(-points // block))])
        self.points, self.seed, self.block = points, seed, block
        self._partial = Points()

    def _another(self, ranges: list[Range]) -> PointsBag:
        bag = PointsBag(self.points, self.seed, self.block)
        bag._ranges = ranges
        return bag

    def prepare(self) -> None:
        """Load what is called, or compile it."""
        kernels.inside(np.uint64(self.seed), 0, 0)

    def process(self, n: int) -> bool:
        for first, last in self._take(n):
            begin, end = first * self.block, min(last * self.block, self.points)
            self._partial.merge(Points(kernels.inside(np.uint64(self.seed), begin, end), end - begin))
        return bool(self._ranges)

    def merge(self, bag: PointsBag) -> None:
        self._add(bag._ranges)
        self._partial.merge(bag._partial)

    def submit(self, result: Points) -> None:
        result.merge(self._partial)
        self._partial = Points()


def bare(points: int, seed: int = 1) -> Points:
    """The same work by the kernel alone, in one call."""
    return Points(kernels.inside(np.uint64(seed), 0, points), points)


def parser() -> argparse.ArgumentParser:
    options = balanced.parser(__doc__, CHUNK, f"blocks of {BLOCK:,} points")
    options.add_argument(
        "--points", type=balanced.whole(1, 2**60), default=10**9, help="how many (default %(default)s)"
    )
    options.add_argument(
        "--seed", type=balanced.whole(0, 2**64 - 1), default=1, help="of the points (default %(default)s)"
    )
    return options


def main() -> None:
    options = parser().parse_args()
    found = Points()
    bag = PointsBag(options.points, options.seed)
    bag.prepare()
    timing = balanced.compute(
        options, bag, found, lambda: str(found.pi), lambda: bare(options.points, options.seed)
    )
    facts = {"pi": found.pi, "inside": found.inside, "points": found.points, **timing}
    balanced.say(facts, str(found.pi), as_json=options.json)


if __name__ == "__main__":
    balanced.main(main)

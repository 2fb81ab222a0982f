"""N-Queens: in how many ways can N queens stand on a board without attacking each other?

    python -m pliant.apps.nqueens --n 14               # 365,596 solutions
    python -m pliant.apps.nqueens --n 12 --check board

The result is the number of solutions; symmetric ones count each. ``--check bits`` keeps columns and diagonals
as sets of bits, ``--check board`` compares each place with every queen on the board, as the program of the
paper does. ``tried`` is the number of tasks: places that were looked at. With bits, those that are attacked
never come up, so the two kinds of task are not the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pliant.apps import balanced
from pliant.apps.kernels import nqueens as kernels
from pliant.apps.stack import ROOM, Counts, Rows, StackBag

CHUNK = 1_048_576  # about 6 ms with bits
SOLUTIONS, TRIED = 1, 2
MOST_QUEENS = 31


@dataclass
class Solutions:
    """What has been found."""

    solutions: int = 0
    tried: int = 0

    def merge(self, other: Solutions) -> None:
        self.solutions += other.solutions
        self.tried += other.tried


def _kernel(check: str) -> Callable[[Rows, Counts, int, int], None]:
    return kernels.place_by_bits if check == "bits" else kernels.place_by_board


def _row(queens: int, check: str) -> Rows:
    """The empty board."""
    row = np.zeros((1, kernels.BITS_ROW if check == "bits" else kernels.FIRST_QUEEN + queens), np.uint32)
    row[0, kernels.FREE] = (1 << queens) - 1
    return row


class QueensBag(StackBag):
    """Partial placements: a row has the columns that are still to be tried for the next queen, each a task."""

    def __init__(self, queens: int, check: str = "bits") -> None:
        super().__init__(_row(queens, check), 2)
        self.queens, self.check = queens, check

    def prepare(self) -> None:
        """Load what is called, or compile it."""
        _kernel(self.check)(_row(self.queens, self.check)[:0], np.zeros(3, np.int64), 0, self.queens)

    def process(self, n: int) -> bool:
        kernel, counts = _kernel(self.check), self._counts
        until = counts[TRIED] + n
        while counts[0] and counts[TRIED] < until:
            self._make_room()
            kernel(self._rows, counts, until - counts[TRIED], self.queens)
        return bool(counts[0])

    def submit(self, result: Solutions) -> None:
        result.merge(Solutions(*self._submitted()))

    def _bits(self) -> Rows:
        """A line of zeros and ones for each row in use: the columns to try, in no particular order."""
        free = np.ascontiguousarray(self._used[:, kernels.FREE])
        return np.unpackbits(free.view(np.uint8)).astype(np.uint32).reshape(len(free), 32)

    def _sizes(self) -> Counts:
        sizes: Counts = self._bits().sum(axis=1, dtype=np.int64)
        return sizes

    def _half(self) -> Rows:
        bits = self._bits()
        second = bits & (np.cumsum(bits).reshape(bits.shape) % 2 == 0)
        given = np.packbits(second.astype(np.uint8)).view(np.uint32)
        half = self._used.copy()
        half[:, kernels.FREE] = given
        self._used[:, kernels.FREE] ^= given
        return half[given > 0]


def bare(queens: int, check: str = "bits") -> Solutions:
    """The same work by the kernel alone: one stack, one call."""
    row = _row(queens, check)
    rows = np.empty((3 * ROOM, row.shape[1]), np.uint32)
    rows[:1] = row
    counts = np.array([1, 0, 0], np.int64)
    _kernel(check)(rows, counts, 2**62, queens)
    return Solutions(int(counts[SOLUTIONS]), int(counts[TRIED]))


def parser() -> argparse.ArgumentParser:
    options = balanced.parser(__doc__, CHUNK, "places on the board")
    options.add_argument(
        "--n", type=balanced.whole(1, MOST_QUEENS), default=12, help="queens (default %(default)s)"
    )
    options.add_argument("--check", choices=("bits", "board"), default="bits", help="how attacks are seen")
    return options


def main() -> None:
    options = parser().parse_args()
    found = Solutions()
    bag = QueensBag(options.n, options.check)
    bag.prepare()
    timing = balanced.compute(
        options, bag, found, lambda: str(found.solutions), lambda: bare(options.n, options.check)
    )
    facts = {"solutions": found.solutions, "tried": found.tried, **timing}
    balanced.say(facts, str(found.solutions), as_json=options.json)


if __name__ == "__main__":
    balanced.main(main)

"""Unbalanced tree search: how many nodes has a tree that is known only by visiting it?

    python -m pliant.apps.uts --depth 10     # 4,130,071 nodes

The tree is that of the UTS distribution (Olivier et al. 2006): geometric, of fixed shape, at most 100 children a node.
The result is the number of nodes. ``hashes`` are those that were computed: every node above the depth limit is hashed,
the root included; those at the limit have no children, and are counted without. Node rates that others report are four
times as high with the default tree.

PLIANT_SHA=plain, ni or wide chooses the kernel; they give the same hashes, and without it the quickest here is taken.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pliant.apps import balanced
from pliant.apps.kernels import uts as kernels
from pliant.apps.stack import ROOM, Counts, Rows, StackBag
from pliant.model.errors import PliantError
from pliant.model.limits import as_number

CHUNK = 262_144  # 4 ms with wide vectors, 24 ms with the plain kernel
MOST_CHILDREN = 100  # MAXNUMCHILDREN of the UTS distribution
NODES, HASHES = 1, 2


@dataclass
class UtsTree:
    """What has been found of the tree."""

    nodes: int = 0
    hashes: int = 0

    def merge(self, other: UtsTree) -> None:
        self.nodes += other.nodes
        self.hashes += other.hashes


def variant(environ: Mapping[str, str] = os.environ) -> str:
    """The kernel to use: ``plain``, ``ni`` or ``wide``; PliantError if what PLIANT_SHA asks for is not there."""
    asked = environ.get("PLIANT_SHA", "") or kernels.best()
    if asked not in kernels.SEARCHES:
        raise PliantError(
            f"PLIANT_SHA is {asked!r}; it must be one of {', '.join(kernels.SEARCHES)}, or unset"
        )
    if asked == "ni" and not kernels.has_ni():
        raise PliantError(
            "PLIANT_SHA is 'ni', but this processor has no SHA instructions: use plain or wide, or unset it"
        )
    return asked


@functools.cache
def _search() -> kernels.Search:
    return kernels.SEARCHES[variant()]


@functools.cache
def _tables(b: float) -> tuple[Rows, Rows]:
    """``guide`` and ``fewest`` of the kernels: which hashes give how many children.

    A node whose last word is h (31 bits) has floor(log(1 - h / 2**31) / log(1 - 1 / (1 + b))) children. That grows
    with h, so that a table of its steps says the same, and quicker.
    """
    scale = math.log(1 - 1 / (1 + b))
    end = 2**31
    fewest: list[int] = []
    while len(fewest) < MOST_CHILDREN and (not fewest or fewest[-1] < end):
        low, high = (fewest[-1] if fewest else 0), end
        while low < high:
            middle = (low + high) // 2
            if math.floor(math.log(1 - middle / end) / scale) > len(fewest):
                high = middle
            else:
                low = middle + 1
        fewest.append(low)
    steps = np.array([*fewest, end], np.uint32)
    beginnings = np.arange(2**kernels.GUIDE_BITS, dtype=np.int64) << (31 - kernels.GUIDE_BITS)
    return np.searchsorted(steps, beginnings, side="right").astype(np.uint32), steps


def _root(depth: int, b: float, seed: int) -> tuple[Rows, UtsTree]:
    """The root as a row, or no row if it has no children to be visited; and what is known of the tree by it."""
    state = struct.unpack(
        ">5I", hashlib.sha1(bytes(16) + struct.pack(">I", seed), usedforsecurity=False).digest()
    )
    if depth == 0:
        return np.empty((0, kernels.ROW), np.uint32), UtsTree(1, 0)
    children = int(np.searchsorted(_tables(b)[1], state[-1] & 0x7FFFFFFF, side="right"))
    if depth == 1:
        return np.empty((0, kernels.ROW), np.uint32), UtsTree(1 + children, 1)
    row = np.array([[*state, depth - 1, 0, children]], np.uint32)
    return row[: min(children, 1)], UtsTree(1, 1)


class TreeBag(StackBag):
    """Nodes to be visited: a row is a node whose children LOWER <= i < UPPER are still to be hashed.

    A task is one of those children; nodes at the depth limit are none.
    """

    def __init__(self, depth: int, b: float = 4.0, seed: int = 19) -> None:
        rows, known = _root(depth, b, seed)
        super().__init__(rows, 2)
        self._counts[NODES], self._counts[HASHES] = known.nodes, known.hashes
        self.b = b

    def prepare(self) -> None:
        """Load what is called, or compile it."""
        _search()(np.empty((0, kernels.ROW), np.uint32), np.zeros(3, np.int64), 0, *_tables(self.b))

    def process(self, n: int) -> bool:
        search, (guide, fewest) = _search(), _tables(self.b)
        counts = self._counts
        until = counts[HASHES] + n
        while counts[0] and counts[HASHES] < until:
            self._make_room()
            search(self._rows, counts, until - counts[HASHES], guide, fewest)
        return bool(counts[0])

    def submit(self, result: UtsTree) -> None:
        result.merge(UtsTree(*self._submitted()))

    def _sizes(self) -> Counts:
        used = self._used.astype(np.int64)
        return used[:, kernels.UPPER] - used[:, kernels.LOWER]

    def _half(self) -> Rows:
        given = np.diff(np.cumsum(self._sizes()) // 2, prepend=0).astype(np.uint32)
        middle = self._used[:, kernels.LOWER] + given
        half = self._used.copy()
        half[:, kernels.UPPER] = middle
        self._used[:, kernels.LOWER] = middle
        return half[given > 0]


def bare(depth: int, b: float = 4.0, seed: int = 19) -> UtsTree:
    """The same work by the kernel alone: one stack, one call."""
    row, known = _root(depth, b, seed)
    rows = np.empty(((1 + depth) * ROOM, kernels.ROW), np.uint32)
    rows[: len(row)] = row
    counts = np.array([len(row), known.nodes, known.hashes], np.int64)
    _search()(rows, counts, 2**62, *_tables(b))
    if counts[0]:
        raise PliantError(f"the stack of {len(rows)} rows is too small for a tree of depth {depth}")
    return UtsTree(int(counts[NODES]), int(counts[HASHES]))


def parser() -> argparse.ArgumentParser:
    options = balanced.parser(__doc__, CHUNK, "nodes")
    options.add_argument(
        "--depth", type=balanced.whole(0, 1000), default=10, help="depth limit (default %(default)s)"
    )
    options.add_argument(
        "--b", type=_branching, default=4.0, help="children a node, on average (default %(default)g)"
    )
    options.add_argument(
        "--seed", type=balanced.whole(0, 2**31 - 1), default=19, help="of the root (default %(default)s)"
    )
    return options


def _branching(text: str) -> float:
    b = as_number(text)
    if not 0 < b <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and up to 1,000")
    return b


def main() -> None:
    options = parser().parse_args()
    tree = UtsTree()
    bag = TreeBag(options.depth, options.b, options.seed)
    bag.prepare()
    timing = balanced.compute(
        options, bag, tree, lambda: str(tree.nodes), lambda: bare(options.depth, options.b, options.seed)
    )
    facts = {"nodes": tree.nodes, "hashes": tree.hashes, **timing, "sha": variant()}
    balanced.say(facts, str(tree.nodes), as_json=options.json)


if __name__ == "__main__":
    balanced.main(main)

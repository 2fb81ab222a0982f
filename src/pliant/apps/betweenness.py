"""Betweenness centrality: how many shortest paths of a graph go through each of its vertices?

    python -m pliant.apps.betweenness --scale 12

The graph is a directed R-MAT graph of 2**scale vertices: 8 edges a vertex are drawn with the probabilities of SSCA 2
(0.55, 0.1, 0.1, 0.25), loops and repeated edges are left out, and the vertices are renamed at random. Each place makes
it from the seed. A task is a source vertex, by Brandes' algorithm; centralities are those of directed graphs and not
normalised. What a source gives a vertex is rounded to a fixed fraction of 1 and added as an integer: so the result is
the same to the last bit whoever does which source. ``checksum`` is the SHA-256 of the sums.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pliant.apps import balanced
from pliant.apps.kernels import betweenness as kernels
from pliant.apps.ranges import Range, RangeBag

EDGES_A_VERTEX = 8
Sums = NDArray[np.int64]


class Graph(NamedTuple):
    """The vertices that v points to are ``targets[offsets[v]:offsets[v + 1]]``, in order."""

    offsets: NDArray[np.int64]
    targets: NDArray[np.uint32]

    @property
    def vertices(self) -> int:
        return len(self.offsets) - 1


_making = threading.Lock()


def graph(scale: int, seed: int) -> Graph:
    """The graph, made once a process; threads that need it meanwhile wait."""
    with _making:
        return _made(scale, seed)


@functools.lru_cache(maxsize=1)
def _made(scale: int, seed: int) -> Graph:
    vertices = 2**scale
    names = kernels.shuffled(np.uint64(2 * seed), vertices)
    drawn = kernels.edges(np.uint64(2 * seed + 1), scale, EDGES_A_VERTEX * vertices)
    sources, targets = names[drawn // vertices], names[drawn % vertices]
    other = sources != targets
    keys = np.unique(sources[other] * vertices + targets[other])
    offsets = np.searchsorted(keys, np.arange(vertices + 1) * vertices)
    return Graph(offsets.astype(np.int64), (keys % vertices).astype(np.uint32))


def chunk(scale: int) -> int:
    """Sources that take about 3 ms; from scale 15 on a single one takes longer."""
    return max(1, 2**16 >> scale)


def unit(vertices: int) -> float:
    """Sums count in units of 1 / this, a power of two: as fine as fits when each source gives all paths to a vertex."""
    return 2.0 ** (62 - 2 * max(1, (vertices - 1).bit_length()))


class Workspace(NamedTuple):
    """What the kernel needs beside the graph, for one thread at a time; as it says."""

    distance: NDArray[np.int32]
    order: NDArray[np.uint32]
    paths: NDArray[np.float64]
    share: NDArray[np.float64]
    begins: NDArray[np.int64]
    onward: NDArray[np.uint32]


def workspace(graph: Graph) -> Workspace:
    vertices, edges = graph.vertices, len(graph.targets)
    return Workspace(
        distance=np.full(vertices, -1, np.int32),
        order=np.empty(vertices + 1, np.uint32),
        paths=np.zeros(vertices),
        share=np.zeros(vertices),
        begins=np.empty(vertices + 1, np.int64),
        onward=np.empty(edges + 1, np.uint32),
    )


def accumulate(graph: Graph, room: Workspace, first: int, last: int, sums: Sums) -> None:
    """Add what the sources first <= s < last give each vertex to ``sums``, in units."""
    kernels.accumulate(
        graph.offsets, graph.targets, first, last, unit(graph.vertices), sums,
        room.distance, room.order, room.paths, room.share, room.begins, room.onward,
    )  # fmt: skip


NO_SUMS: Sums = np.empty(0, np.int64)  # stands for zero everywhere


def added(sums: Sums, others: Sums) -> Sums:
    """The sum of both, either of which may be empty; in place if it can be."""
    if not len(sums):
        return others
    if len(others):
        sums += others
    return sums


@dataclass
class Centrality:
    """The sums so far, a vertex each, in units; empty where nothing was added yet."""

    sums: Sums = field(default_factory=NO_SUMS.copy)

    def merge(self, other: Centrality) -> None:
        self.sums = (
            self.sums + other.sums if len(self.sums) and len(other.sums) else added(self.sums, other.sums)
        )

    def scores(self) -> NDArray[np.float64]:
        """The centrality of each vertex."""
        return self.sums / unit(len(self.sums))

    def checksum(self) -> str:
        """Equal only if every bit is."""
        return hashlib.sha256(self.sums.astype("<i8").tobytes()).hexdigest()


class SourcesBag(RangeBag):
    """Source vertices, by number. The graph and the room to work in do not travel."""

    def __init__(self, scale: int, seed: int = 2) -> None:
        super().__init__([(0, 2**scale)])
        self.scale, self.seed = scale, seed
        self._sums = NO_SUMS
        self._workspace: Workspace | None = None

    def _another(self, ranges: list[Range]) -> SourcesBag:
        bag = SourcesBag(self.scale, self.seed)
        bag._ranges = ranges
        return bag

    def prepare(self) -> None:
        """Load what is called, or compile it, and make the graph."""
        known = graph(self.scale, self.seed)
        accumulate(known, workspace(known), 0, 0, np.zeros(1, np.int64))

    def process(self, n: int) -> bool:
        known = graph(self.scale, self.seed)
        if self._workspace is None:
            self._workspace = workspace(known)
        if not len(self._sums):
            self._sums = np.zeros(2**self.scale, np.int64)
        for first, last in self._take(n):
            accumulate(known, self._workspace, first, last, self._sums)
        return bool(self._ranges)

    def merge(self, bag: SourcesBag) -> None:
        self._add(bag._ranges)
        self._sums = added(self._sums, bag._sums)

    def submit(self, result: Centrality) -> None:
        result.merge(Centrality(self._sums))
        self._sums = NO_SUMS

    def __getstate__(self) -> dict[str, Any]:
        """A snapshot, without what each process has of its own."""
        return {**self.__dict__, "_sums": self._sums.copy(), "_workspace": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._sums.flags.writeable:  # it may be the message that it came in
            self._sums = self._sums.copy()


def bare(scale: int, seed: int = 2) -> Centrality:
    """The same work by the kernel alone, in one call."""
    known = graph(scale, seed)
    sums = np.zeros(known.vertices, np.int64)
    accumulate(known, workspace(known), 0, known.vertices, sums)
    return Centrality(sums)


def parser() -> argparse.ArgumentParser:
    options = balanced.parser(__doc__, None, "source vertices")
    options.add_argument(
        "--scale", type=balanced.whole(1, 26), default=12, help="2**scale vertices (default %(default)s)"
    )
    options.add_argument(
        "--seed", type=balanced.whole(0, 2**62), default=2, help="of the graph (default %(default)s)"
    )
    return options


def main() -> None:
    options = parser().parse_args()
    found = Centrality()
    bag = SourcesBag(options.scale, options.seed)
    bag.prepare()
    options.chunk = options.chunk or chunk(options.scale)
    timing = balanced.compute(options, bag, found, found.checksum, lambda: bare(options.scale, options.seed))
    known = graph(options.scale, options.seed)
    size = {"vertices": known.vertices, "edges": len(known.targets)}
    facts = {"checksum": found.checksum(), **size, "most": float(found.scores().max()), **timing}
    balanced.say(facts, found.checksum(), as_json=options.json)


if __name__ == "__main__":
    balanced.main(main)

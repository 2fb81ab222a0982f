"""Betweenness centrality by Brandes' algorithm, one source vertex at a time, and the R-MAT graph it is measured on.

Graphs are directed and without weights: the vertices that v points to are ``targets[offsets[v]:offsets[v + 1]]``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pliant.apps.kernels.compiled import kernel, part

Offsets = NDArray[np.int64]
Vertices = NDArray[np.uint32]  # numba checks signed indices for being negative
Distances = NDArray[np.int32]
Reals = NDArray[np.float64]
Fixed = NDArray[np.int64]

GAMMA = 0x9E3779B97F4A7C15
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@kernel
def accumulate(  # noqa: PLR0913, PLR0917 - compiled code has its arrays, and room to work in, as parameters
    offsets: Offsets, targets: Vertices, first: int, last: int, unit: float, centrality: Fixed,
    distance: Distances, order: Vertices, paths: Reals, share: Reals, begins: Offsets, onward: Vertices,
) -> None:  # fmt: skip
    """Add the dependencies of the sources first <= s < last to ``centrality``, in units of 1 / ``unit``.

    Those of one source are rounded to that unit before they are added, as integers: so the sum does not depend on
    the order of the sources. The rest is room to work in. A place a vertex: ``distance``, -1 everywhere before and
    after; ``paths``, 0 everywhere; ``share``; and with one more ``order``, the vertices as they are reached, and
    ``begins``, where the edges of shortest paths from each of those begin in ``onward``, a place an edge and one more.

    Which edges those are is hard to foresee: nothing branches on it, and what is not needed is overwritten.
    """
    for source in range(first, last):
        distance[source] = 0
        paths[source] = 1.0
        order[0] = source
        reached, at, kept = 1, 0, 0
        while at < reached:
            vertex = order[at]
            begins[at] = kept
            at += 1
            further = distance[vertex] + np.int32(1)
            here = paths[vertex]
            for edge in range(offsets[vertex], offsets[vertex + 1]):
                target = targets[edge]
                new = distance[target] < 0
                order[reached] = target
                reached += int(new)
                distance[target] = further if new else distance[target]
                shortest = distance[target] == further
                onward[kept] = target
                kept += int(shortest)
                paths[target] += here if shortest else 0.0
        begins[reached] = kept
        for at in range(reached - 1, 0, -1):
            vertex = order[at]
            passed = 0.0
            for edge in range(begins[at], begins[at + 1]):
                passed += share[onward[edge]]
            dependency = paths[vertex] * passed
            share[vertex] = (1.0 + dependency) / paths[vertex]
            centrality[vertex] += np.int64(np.rint(dependency * unit))
        for at in range(reached):
            distance[order[at]] = -1
            paths[order[at]] = 0.0


@part
def _drawn(state: np.uint64) -> np.uint64:
    """The output of SplitMix64 in that state."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


@kernel
def edges(seed: np.uint64, scale: int, count: int) -> NDArray[np.int64]:
    """``count`` edges of an R-MAT graph of 2**scale vertices, each as source * 2**scale + target.

    Quadrants have the probabilities of SSCA 2: 0.55, 0.1, 0.1 and 0.25. The same edge may come up again.
    """
    drawn = np.empty(count, np.int64)
    state = np.uint64(seed)
    for i in range(count):
        source, target = np.int64(0), np.int64(0)
        for _ in range(scale):
            state += np.uint64(GAMMA)
            part_of_one = np.float64(_drawn(state) >> np.uint64(11)) * 2.0**-53
            down = part_of_one >= 0.65
            right = (0.55 <= part_of_one < 0.65) or part_of_one >= 0.75
            source = source * 2 + np.int64(down)
            target = target * 2 + np.int64(right)
        drawn[i] = (source << scale) + target
    return drawn


@kernel
def shuffled(seed: np.uint64, count: int) -> NDArray[np.int64]:
    """The numbers below ``count`` in an order drawn by ``seed``."""
    numbers = np.arange(count)
    state = np.uint64(seed)
    for i in range(count - 1, 0, -1):
        state += np.uint64(GAMMA)
        other = np.int64(_drawn(state) % np.uint64(i + 1))
        numbers[i], numbers[other] = numbers[other], numbers[i]
    return numbers

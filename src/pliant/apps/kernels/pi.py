"""Monte Carlo Pi: how many of a range of numbered points lie in the circle.

The i-th point is a function of the seed and i alone: the i-th output of SplitMix64 (Steele, Lea and Flood 2014), whose
halves are the coordinates. So the count of a range does not depend on who counts which part of it.
"""

from __future__ import annotations

import numpy as np

from pliant.apps.kernels.compiled import kernel

GAMMA = 0x9E3779B97F4A7C15
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@kernel
def inside(seed: np.uint64, first: int, last: int) -> int:
    """How many of the points first <= i < last are in the circle."""
    count = 0
    for i in range(first, last):
        z = seed + np.uint64(i + 1) * np.uint64(GAMMA)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
        z ^= z >> np.uint64(31)
        x, y = np.int64(z) >> 32, np.int64(z << np.uint64(32)) >> 32
        # Both lie in [-2**31, 2**31): the circle that touches the square's sides has 2**62 as its squared radius.
        if x * x + y * y < (1 << 62):
            count += 1
    return count

"""What the core hears first, where several things happen in one instant of the virtual clock."""

from __future__ import annotations

from enum import StrEnum


class Instant(StrEnum):
    """In which order the core hears of what happens in one instant.

    ``together``: everything in one call and one pass, ends before submissions. ``pyss``: as the simulator
    of that name does it, which the published results of EASY on archived traces depend on: jobs that end at
    their estimate as one batch, then each submission with a pass of its own, then each early end with one.
    """

    TOGETHER = "together"
    PYSS = "pyss"

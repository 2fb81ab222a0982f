"""What the core hears first, where several things happen in one instant of the virtual clock."""

from __future__ import annotations

from enum import StrEnum


class Instant(StrEnum):
    """In which order the core hears of what happens in one instant.

    ``together``: everything in one call and one pass, ends before submissions. ``pyss``: as the simulator
    of that name does it, which the published results of EASY on archived traces depend on. Jobs that end at
    their estimate free their processors, all at once and without a pass; each submission is followed by a
    pass; then one pass follows for each end, in the order in which the jobs were started, and a job that
    ends before its estimate frees its processors just before its own. ``elastisim``: as that simulator does it,
    which the sizes of moldable jobs depend on. A pass follows each end, in the order in which the jobs were started,
    and then each submission.
    """

    TOGETHER = "together"
    PYSS = "pyss"
    ELASTISIM = "elastisim"

"""When each job of some ended: what is compared job by job."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import ClassVar

from pliant.core import records as r
from pliant.history.timeline import ROWS, Life, Listener
from pliant.model.jobs import JobSpec, JobState


class Turnarounds(Listener):
    """``turnarounds`` and ``waits``, in seconds, of the jobs with these ``specs``, in their order; NaN of one that was
    not completed. A job is known by the identity of its specification, whatever its number is now."""

    IGNORES: ClassVar[frozenset[str]] = frozenset(ROWS) - {"ended"}

    def __init__(self, specs: Sequence[JobSpec]) -> None:
        self.turnarounds = array("d", [math.nan] * len(specs))
        self.waits = array("d", [math.nan] * len(specs))
        self._place = {id(spec): i for i, spec in enumerate(specs)}

    def ended(self, life: Life, end: r.JobEnded, _size: int) -> None:
        i = self._place.get(id(life.spec))
        if i is None or life.start is None or end.state is not JobState.COMPLETED:
            return
        self.turnarounds[i] = end.at - life.submit
        self.waits[i] = life.start - life.submit

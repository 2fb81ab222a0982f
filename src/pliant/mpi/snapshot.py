"""The state of a job, for ranks that join it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pliant.job.watching.findings import Seen
from pliant.model.speedup import Model
from pliant.mpi.data.arrays import ArrayForm


class LoopPlace(NamedTuple):
    """A ``steps()`` loop of the block: its number, from 0, and the steps ``first`` up to, not including, ``stop``,
    counted over all loops."""

    number: int
    first: int
    stop: int


class Snapshot(NamedTuple):
    """What a newcomer gets besides the arrays' cells; ``forms`` of arrays that the program has given another layout or
    shape."""

    step: int
    """Counted over all loops of the block."""
    loop: LoopPlace
    should_s: float
    paced_s: float
    model: Model | None
    values: dict[str, Any]
    forms: dict[str, ArrayForm]
    seen: Seen | None = None
    """What rank 0 of before saw of its own variables."""

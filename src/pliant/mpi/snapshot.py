"""The state of a job, for ranks that join it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pliant.job.watching.findings import Seen
from pliant.model.speedup import Model


class Snapshot(NamedTuple):
    """What a newcomer gets besides the arrays' rows."""

    step: int
    total: int
    lag: int
    should_s: float
    paced_s: float
    model: Model | None
    values: dict[str, Any]
    seen: Seen | None = None
    """What rank 0 of before saw of its own variables."""

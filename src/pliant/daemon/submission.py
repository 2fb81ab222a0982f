"""What is refused before a live run starts anything."""

from __future__ import annotations

from pliant.model.batch import Batch
from pliant.model.errors import BatchError
from pliant.model.limits import LIVE_NODES


def check(batch: Batch) -> None:
    """BatchError if the batch cannot be run live on this machine."""
    if batch.cluster.nodes > LIVE_NODES:
        raise BatchError(
            f"{batch.source}: {batch.cluster.nodes:,} nodes are too many to run: each is a process, and the "
            f"most is {LIVE_NODES}; larger machines can be simulated (pliant simulate, or --dry-run)"
        )

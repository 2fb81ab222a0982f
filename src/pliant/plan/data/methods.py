"""By which method data go from rank to rank, and which of them is taken where the program leaves it open."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class MoveMethod(StrEnum):
    """What carries the rows of a redistribution. Each takes any layout."""

    P2P = "p2p"
    """Messages in chunks, receives posted first."""
    ALLTOALL = "alltoall"
    """One non-blocking all-to-all of each stage, whose datatypes say where everything lies."""
    RMA = "rma"
    """Targets get it from windows of the sources."""
    SHARED = "shared"
    """Targets read the memory of sources on their own machine; from others, and of rows that lie in small pieces, they
    get messages."""


AUTO = "auto"
TRIED = (MoveMethod.P2P, MoveMethod.ALLTOALL, MoveMethod.SHARED)
"""What is measured where the method is left open. A window is made and freed by calls that block: a newcomer that is
lost there would take the job with it, so that one-sided moves have to be asked for."""
TRY_FROM = 1 << 28
"""Bytes, of all ranks: what is less is moved in less time than trying takes."""
SAMPLES = 32
"""A sample is one of so many parts of what is to be moved, or less."""
MOST_SAMPLE = 1 << 25


def sample_bytes(total: int) -> int:
    """How much is moved, of all ranks, to try a method before ``total`` bytes are."""
    return min(MOST_SAMPLE, total // SAMPLES)


def best(speeds: Mapping[MoveMethod, float]) -> MoveMethod:
    """The method with the most bytes a second; p2p where nothing is known, or another is not clearly quicker."""
    if not speeds:
        return MoveMethod.P2P
    quickest = max(speeds, key=lambda method: speeds[method])
    return quickest if speeds[quickest] > CLEARLY * speeds.get(MoveMethod.P2P, 0.0) else MoveMethod.P2P


CLEARLY = 1.1
"""Samples are short: less of a difference may be chance."""

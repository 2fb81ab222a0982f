"""By which method data go from rank to rank."""

from __future__ import annotations

from enum import StrEnum


class MoveMethod(StrEnum):
    """The carrier of the rows of a redistribution. Each takes any layout."""

    P2P = "p2p"
    """Messages in chunks, receives posted first: the default."""
    ALLTOALL = "alltoall"
    """One non-blocking all-to-all of each stage, whose datatypes say where everything lies."""
    SHARED = "shared"
    """Targets read the memory of sources on their own machine. Sources on other machines send messages, and so do all
    where rows lie in small pieces."""

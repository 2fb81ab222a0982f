"""What a group's PMIx server and the agent say to each other: lines of JSON, each with its ``type``.

A server numbers what it asks; the answer is a Done with that ``id``. A blob is what ranks have put, opaque, in base64.
"""

from __future__ import annotations

from pliant.protocol.messages import Message

# ---- the server says, and its agent knows what to do -------------------------------------------------


class Opened(Message, frozen=True):
    """The server is up: the environment by which each rank of the group finds it."""

    env: tuple[dict[str, str], ...]


class Failed(Message, frozen=True):
    """It cannot be."""

    error: str


class Aborted(Message, frozen=True):
    """A rank has called MPI_Abort."""

    rank: int
    code: int
    text: str = ""


class Missing(Message, frozen=True):
    """These ranks have ended, and others wait for them in MPI_Init or MPI_Finalize."""

    ranks: tuple[int, ...]


class Fence(Message, frozen=True):
    """All ranks of the group are at a fence of their namespace; ``blob`` is what they have put."""

    id: int
    blob: str


# ---- the agent says ----------------------------------------------------------------------------------


class Done(Message, frozen=True):
    """What was asked is answered, with a status of PMIx: 0 is success."""

    id: int
    status: int = 0
    blobs: tuple[str, ...] = ()


class Left(Message, frozen=True):
    """A rank has ended, and well."""

    rank: int


ServerMessage = Opened | Failed | Aborted | Missing | Fence

"""What a group's PMIx server, its agent and the controller say to each other: lines of JSON, each with its ``type``.

A server numbers what it asks; the answer is a Done with that ``id``. What only the other groups of the job can answer
travels in an Ask, which the agent passes on unread. Worlds go by their numbers in the job, ranks by theirs in the
world; a blob is what ranks have put, opaque, in base64. Statuses are PMIx's: 0 is success.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pliant.protocol.messages import Message

NOT_FOUND, TIMEOUT, UNREACHABLE, BAD_PARAM, TOO_MUCH, TAKEN, FAILED, NOT_SUPPORTED = (
    -46,
    -24,
    -25,
    -27,
    -29,
    -53,
    -1,
    -47,
)
"""Statuses: nothing has that name; it took too long; who was to take part is lost; nobody can know what is meant; it
does not fit into a message; something has that name; it was tried and has failed; nobody here does that."""
STRING = 3
"""The number of a type."""


class Span(NamedTuple):
    """The ranks of ``world`` from ``first`` up to, and without, ``end``; -1 is for all that it has."""

    world: int
    first: int
    end: int


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that ``rank`` of ``world`` has published under a name, of a type that PMIx numbers. ``once``: whoever
    reads it first takes it."""

    key: str
    world: int
    rank: int
    kind: int
    blob: str
    once: bool = False


class Space(NamedTuple):
    """A world, with the numbers of ranks on its nodes."""

    world: int
    sizes: tuple[int, ...]


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


class Initialized(Message, frozen=True):
    """A rank is in MPI_Init."""

    rank: int


class Finalized(Message, frozen=True):
    """A rank has called MPI_Finalize, which returns only when this has been said."""

    rank: int


class Spawning(Message, frozen=True):
    """A rank has called MPI_Comm_spawn, and waits."""

    rank: int


class Fence(Message, frozen=True):
    """All ranks of the group are at a fence of their namespace; ``blob`` is what they have put."""

    id: int
    blob: str


class Ask(Message, frozen=True):
    """Something that concerns other groups, for the controller."""

    id: int
    ask: msgspec.Raw


ServerMessage = Opened | Failed | Aborted | Initialized | Finalized | Spawning | Fence | Ask

# ---- the server asks the controller ------------------------------------------------------------------


class Publish(Message, frozen=True):
    """Answered at once, though what is published may have to be said to a controller that begins anew. ``new``: it is
    refused where something else has one of the names; else it takes their place."""

    items: tuple[Item, ...]
    new: bool = False


class Lookup(Message, frozen=True):
    """Answered with what is there, or, to ``wait``, when all of it is."""

    keys: tuple[str, ...]
    wait: bool = False


class Unpublish(Message, frozen=True):
    """Take back the group's values of these names; with ``anybodys`` those of any group: then it is an
    error if nobody has one."""

    keys: tuple[str, ...]
    anybodys: bool = False


class Meet(Message, frozen=True):
    """All members that are here have come to this: "connect", "disconnect" or a "fence", to which they bring a
    ``blob``. Answered when all groups that have members are there, with their worlds and what they have brought."""

    what: str
    members: tuple[Span, ...]
    blob: str = ""


class Modex(Message, frozen=True):
    """What has this rank put?"""

    world: int
    rank: int


class Got(Message, frozen=True):
    """The answer to Want."""

    rank: int
    status: int
    blob: str = ""


class Program(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command, and how many ranks run it. ``cwd``: where, if that is said."""

    argv: tuple[str, ...]
    ranks: int
    cwd: str = ""


class Spawn(Message, frozen=True):
    """Start a world of these programs, whose ranks find the ``values`` in their key-value space. Answered when all of
    them have been started, or one cannot be."""

    programs: tuple[Program, ...]
    values: dict[str, str]


HubAsk = Publish | Lookup | Unpublish | Meet | Modex | Got | Spawn

# ---- to the server -----------------------------------------------------------------------------------


class Done(Message, frozen=True):
    """What was asked is answered."""

    id: int
    status: int = 0
    blobs: tuple[str, ...] = ()
    items: tuple[Item, ...] = ()
    spaces: tuple[Space, ...] = ()


class Want(Message, frozen=True):
    """Another group wants to know what this rank has put: Got answers."""

    rank: int


class Gone(Message, frozen=True):
    """This world is over: nothing of it has to be known any more."""

    world: int

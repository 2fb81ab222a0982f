"""What the root of a launch tree keeps for another one that may have to begin in its place (`b.Resumed`).

The driver writes it as soon as the root listens, and then before each change takes effect: before it adds nodes, and
before it returns from ``again`` and ``gone``. So no rank is used twice, and a node that was told as gone stays gone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pliant.live.tree import messages as b
from pliant.model.errors import PliantError
from pliant.model.hosts import apart


class KeptRoot(msgspec.Struct, frozen=True):
    """How the root is reached, the ``secret`` of its links, the ``tree`` along which the first ``agents`` were started,
    the rank that is given next, and the ``nodes`` that there are or will be, by rank."""

    contact: str
    secret: str
    tree: str
    agents: int
    following: int = 1
    nodes: dict[int, str] = {}

    @classmethod
    def opened(cls, contact: str, secret: str, tree: str, nodes: Sequence[str]) -> KeptRoot:
        """Of a root that is about to be opened on ``nodes``."""
        return cls(contact, secret, tree, len(nodes)).more(nodes)

    @property
    def port(self) -> int:
        return apart(self.contact)[1]

    @property
    def host(self) -> str:
        return apart(self.contact)[0] if self.contact else ""

    def more(self, nodes: Sequence[str]) -> KeptRoot:
        """As these nodes are added."""
        new = dict(enumerate(nodes, self.following))
        return msgspec.structs.replace(self, following=self.following + len(new), nodes={**self.nodes, **new})

    def again(self, started: b.Again) -> KeptRoot:
        """As an agent is started anew, under the next rank."""
        return self.gone(started.lost).more((started.node,))

    def gone(self, rank: int) -> KeptRoot:
        """As an agent is lost, or has left."""
        return msgspec.structs.replace(
            self, nodes={each: node for each, node in self.nodes.items() if each != rank}
        )

    def resumed(self) -> b.Resumed:
        """What the next root is told."""
        return b.Resumed(self.nodes, self.agents, self.following)


def encode(kept: KeptRoot) -> bytes:
    return msgspec.json.encode(kept)


def decode(data: bytes) -> KeptRoot:
    """PliantError if it is not that of this version."""
    try:
        return msgspec.json.decode(data, type=KeptRoot)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PliantError(f"what an earlier controller has kept cannot be read: {error}") from error


def write(path: Path, kept: KeptRoot) -> None:
    """All of it or nothing, for its owner alone, on the disk when this returns; OSError."""
    new = path.with_name(f"{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a file descriptor has no path
        os.fchmod(descriptor, 0o600)
        file.write(encode(kept))
        file.flush()
        os.fsync(descriptor)
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path) -> KeptRoot:
    """OSError if there is none, PliantError if it is not that of this version."""
    return decode(path.read_bytes())

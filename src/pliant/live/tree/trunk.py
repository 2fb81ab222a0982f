"""What the parts of an agent's machine in the launch tree need of the machine that has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from pliant.live.tree import messages as b
from pliant.protocol.branches import BranchMessage


class Trunk(Protocol):
    """The agent's place in the tree, by ranks: whom it has links to, who can be reached where, who is gone and why."""

    @property
    def parent(self) -> int: ...
    @property
    def links(self) -> Collection[int]: ...
    @property
    def reached(self) -> Mapping[int, str]: ...
    @property
    def gone(self) -> Mapping[int, str]: ...
    @property
    def late(self) -> Iterable[int]:
        """At the root, the ranks of those that were added after the start."""

    @property
    def agents(self) -> int:
        """How many there are from the start on, 0 as long as that is not known."""

    def below(self) -> Iterable[int] | None:
        """The children; None as long as others may follow."""

    def way(self, rank: int) -> int | None:
        """The child by which ``rank`` is reached."""

    def do(self, output: b.AnyOutput) -> None:
        """Have the shell do this."""

    def tell(self, rank: int, message: BranchMessage) -> None:
        """Send the message over the link to ``rank``, if there is one."""

    def deliver(self, message: msgspec.Raw) -> None:
        """The message has come to this node's agent."""

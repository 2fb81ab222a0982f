"""What the core asks of the world. Commands name nodes; the shell knows how to reach them."""

from __future__ import annotations

import msgspec

from pliant.model.groups import Group, kind_of
from pliant.model.need import Need
from pliant.model.nodes import NodeSet


class Command(msgspec.Struct, frozen=True, gc=False):
    """Base of all commands."""


class Start(Command, frozen=True):
    """Start one group of the job on each of ``nodes``: the whole job, or the newcomers of a resize."""

    job: int
    nodes: NodeSet
    resize: int = 0


class Offer(Command, frozen=True):
    """Offer the job to go from ``before`` to ``size`` nodes. ``nodes`` are reserved for the ``arriving``
    groups; those of ``leaving``, on the nodes ``leave``, have to be among the groups that leave.

    ``must`` makes it a drain, which the job cannot decline. ``slots``: how many ranks of groups are to be awake.
    """

    job: int
    resize: int
    before: int
    size: int
    nodes: NodeSet
    leave: NodeSet
    deadline_s: float
    arriving: tuple[Group, ...] = ()
    leaving: tuple[int, ...] = ()
    must: bool = False
    slots: dict[int, int] = {}

    @property
    def kind(self) -> str:
        """The word for it: expand, shrink, migrate or slots."""
        return kind_of(self.before, self.size, self.slots)


class Stay(Command, frozen=True):
    """Tell a job that asked that it keeps its size."""

    job: int


class Withdraw(Command, frozen=True):
    """Take a resize back; the job still answers."""

    job: int
    resize: int


class Release(Command, frozen=True):
    """Have ``nodes`` proved clean of the job; answered by Clean."""

    job: int
    nodes: NodeSet


class Kill(Command, frozen=True):
    """End the job: ask first, and after ``grace_s`` seconds use force."""

    job: int
    grace_s: float = 0.0


class Acquire(Command, frozen=True):
    """Ask the provider for so many nodes more, each with this ``need``; answered by Granted and Refused, which may
    share them."""

    count: int
    need: Need | None = None


class WithdrawNodes(Command, frozen=True):
    """So many nodes that the provider was asked for are not wanted any more: answered by Refused for those that will
    not come. Others have come by then."""

    count: int


class GiveBack(Command, frozen=True):
    """Give ``nodes``, which nobody uses, back to the provider; answered by Returned."""

    nodes: NodeSet


class WakeAt(Command, frozen=True):
    """Send a Tick at this time, unless something happens before."""

    at: float

"""How groups that were started together become one communicator: a star on the first of them, the leader.

Measured: a tree is not faster at these sizes, and a star with a port of its own for every step cannot mix up
two peers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class JoinStep(NamedTuple):
    """``accepting`` (already joined, the leader first) accept ``connecting`` on the port stored at ``key``."""

    accepting: tuple[int, ...]
    connecting: int
    key: str

    @property
    def turn(self) -> int:
        """Its place among the steps, from 1."""
        return len(self.accepting)


class JoinPlan(NamedTuple):
    """The steps in order; ``up`` maps each group but the leader to the key that says it is waiting."""

    leader: int
    up: dict[int, str]
    steps: tuple[JoinStep, ...]


def star(groups: Sequence[int], resize: int) -> JoinPlan:
    """The plan for ``groups``, the leader first; ValueError if they are none or not all different."""
    if not groups or len(set(groups)) != len(groups):
        raise ValueError(f"groups to join must be one or more different ones, not {list(groups)}")
    steps = tuple(
        JoinStep(tuple(groups[:i]), group, f"r{resize}/turn/{group}") for i, group in enumerate(groups) if i
    )
    return JoinPlan(groups[0], {group: f"r{resize}/up/{group}" for group in groups[1:]}, steps)


def joined_key(resize: int) -> str:
    """Stored when all newcomers of a resize are one communicator."""
    return f"r{resize}/joined"


def source_key(resize: int) -> str:
    """Holds the port on which the sources accept the newcomers."""
    return f"r{resize}/source"

"""The ranks of a job that are started together on one node."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Group(msgspec.Struct, frozen=True, gc=False):
    """Group ``id`` of its job: up to ``slots`` ranks on ``node``. Numbers of groups are never used again within a job.

    A job may have several groups on one node: a node is left when none of them is there any more.
    """

    id: int
    node: int
    slots: int = 1


def kind_of(before: int, after: int, slots: Mapping[int, int]) -> str:
    """What people call a resize from ``before`` to ``after`` nodes: expand, shrink or, at equal size, migrate; slots
    if it changes how many ranks of groups are awake."""
    if slots:
        return "slots"
    if after == before:
        return "migrate"
    return "expand" if after > before else "shrink"

"""A second opinion on orders to resize: which of slots can be given, and that all are followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.history.audit import Audit
from pliant.live.cluster import orders as o
from pliant.model.jobs import JobClass
from pliant.model.kinds import JobKind
from pliant_lab.injection.audit.violation import Violation

if TYPE_CHECKING:
    from pliant_lab.injection.world import World


def objection_to_slots(  # noqa: PLR0911 - each supposes that those before it do not hold
    world: World, audit: Audit, number: int, slots: Mapping[int, int], *, accepts: bool
) -> str:
    """What an order of slots to a running job has to be refused for, in a few of the words that its user gets; empty if
    nothing is against it."""
    job, spec = audit.jobs[number], world.ledger.specs_by_number[number]
    if spec.kind is not JobKind.MPI:
        return "has no ranks that can sleep"
    if spec.job_class is JobClass.RIGID:
        return "keeps all its ranks"
    if not accepts:
        return "is not inside its loop"
    if job.offer is not None:
        return "is still under way"
    most = world.head.cluster.core.state.nodes.slots
    for node, count in slots.items():
        if node not in job.nodes:
            return "is none of the nodes"
        if not 1 <= count <= most[node]:
            return "was started with" if count else "give the node back with --leave"
    awake = {node: audit.awake(number).get(group, most[node]) for group, node in job.groups.items()}
    return "" if any(awake[node] != count for node, count in slots.items()) else "nothing would change"


def objection_to_moving(  # noqa: PLR0911 - each supposes that those before it do not hold
    world: World, audit: Audit, number: int, leave: frozenset[int], *, accepts: bool
) -> str:
    """What an order to move a running job off these nodes has to be refused for, as above."""
    job, spec = audit.jobs[number], world.ledger.specs_by_number[number]
    if spec.kind is not JobKind.MPI:
        return "which cannot move"
    if spec.job_class is JobClass.RIGID:
        return "keeps its nodes"
    if not accepts:
        return "is not inside its loop"
    if job.offer is not None:
        return "is still under way"
    if not leave <= job.nodes:
        return "is none of the nodes"
    if not job.bounds.allows(len(job.nodes)):
        return "order it to one of these sizes"
    return "missing" if len(leave) > len(audit.nodes("free")) else ""


def followed(given: o.Resize, records: Sequence[r.Record], *, may: bool, pinned: bool) -> None:
    """The job is offered what was ordered, if it ``may`` be, and keeps its size until the next order; ``pinned``: it
    did so before."""
    if given.slots:
        _slots_followed(given, records, may=may)
        return
    mine = [each for each in records if getattr(each, "job", 0) == given.job]
    pins = [each.on for each in mine if isinstance(each, r.JobPinned)]
    offered = [
        each.after for each in mine if isinstance(each, r.ResizeOffered) and each.reason.code == "ordered"
    ]
    if given.leave and not given.size:
        moved = [each for each in mine if isinstance(each, r.ResizeOffered) and each.kind == "migrate"]
        if bool(moved) != may or len(offered) != len(moved) or pins:
            raise Violation("wrong", f"{given} {'may' if may else 'must not'} be followed: {mine}")
        return
    wanted = ([given.size] if given.size else []) if may else []
    if offered != wanted or pins != ([bool(given.size)] if may and (given.size or pinned) else []):
        raise Violation("wrong", f"{given} {'may' if may else 'must not'} be followed: {offered}, {pins}")


def _slots_followed(given: o.Resize, records: Sequence[r.Record], *, may: bool) -> None:
    """The job is offered what was ordered, and keeps what it has of nodes and of its policy."""
    mine = [each for each in records if getattr(each, "job", 0) == given.job]
    offered = [
        sorted(each.slots.values()) for each in mine if isinstance(each, r.ResizeOffered) and each.slots
    ]
    pinned = [each for each in mine if isinstance(each, r.JobPinned)]
    if offered != ([sorted(given.slots.values())] if may else []) or pinned:
        raise Violation("wrong", f"{given} {'may' if may else 'must not'} be followed: {mine}")

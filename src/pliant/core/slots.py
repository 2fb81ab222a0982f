"""Slots of nodes in resizes: how many ranks of a job are to be awake on nodes that stay its own."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.core.job import ScheduledJob
from pliant.core.state import State
from pliant.model.jobs import JobClass
from pliant.model.kinds import KINDS
from pliant.model.nodes import NodeSet
from pliant.protocol import resizing


def by_group(state: State, job: ScheduledJob, slots: Mapping[int, int]) -> dict[int, int]:
    """What is said of nodes, said of the job's groups on them."""
    return {number: slots[node] for number, node in state.groups(job).items() if node in slots}


def by_node(state: State, job: ScheduledJob) -> dict[int, int]:
    """How many ranks of the job are awake on each node on which some sleep."""
    groups = state.groups(job)
    return {groups[number]: count for number, count in job.awake.items()}


def objection(  # noqa: PLR0911 - each objection supposes that those before it fail
    state: State, job: ScheduledJob, slots: Mapping[int, int]
) -> str | None:
    """Why so many ranks of a running job cannot be ordered to be awake on these nodes, or None."""
    who = f"job {job.id} ({job.spec.name})"
    if not KINDS[job.spec.kind].sleeps:
        return (
            f"{who} is of kind {job.spec.kind}, which has no ranks that can sleep; resize it by nodes, or give a "
            f"node back with --leave {state.nodes.hosts([next(iter(slots))])}"
        )
    if job.spec.job_class is JobClass.RIGID or job.one_world:
        return f"{who} is {job.spec.job_class} and keeps all its ranks; submit it as malleable to resize it"
    if not job.accepts_offers:
        return f"{who} is not inside its loop, where its ranks can be put to sleep; try again when it is"
    if job.resize is not None:
        said = (
            " and is being called off"
            if job.resize.stage not in (resizing.OFFERED, resizing.ACCEPTED)
            else ""
        )
        return f"resize {job.resize.id} of job {job.id} is still under way{said}; try again when it is over"
    for node, count in slots.items():
        if why := _of_node(state, job, node, count):
            return why
    groups = by_group(state, job, slots)
    if all(job.awake.get(number, _started(state, job, number)) == count for number, count in groups.items()):
        return f"job {job.id} has so many ranks awake on {state.nodes.hosts(slots)} already; nothing would change"
    return None


def _of_node(state: State, job: ScheduledJob, node: int, count: int) -> str:
    name, most = state.nodes.hosts([node]), state.nodes.slots.get(node, 1)
    if node not in NodeSet(job.nodes):
        return f"{name} is none of the nodes of job {job.id}, which holds {state.nodes.hosts(NodeSet(job.nodes))}"
    if count < 1:
        return (
            f"{name}={count}: at least one rank stays awake on a node that the job keeps; give the node back with "
            f"--leave {name}"
        )
    if count > most:
        return f"{name}={count}: job {job.id} was started with {most} there; give a number from 1 to {most}"
    return ""


def _started(state: State, job: ScheduledJob, number: int) -> int:
    return state.nodes.slots.get(state.groups(job)[number], 1)

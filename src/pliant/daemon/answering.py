"""What a controller answers to other terminals: its queue, and what it makes of an operator's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pliant.core import moving
from pliant.core.job import ScheduledJob
from pliant.core.settings import NEVER
from pliant.core.slots import by_node
from pliant.core.state import State
from pliant.daemon.control import ControlAnswer, ControlRequest
from pliant.daemon.controller import Controller
from pliant.live.cluster import orders as o
from pliant.model.errors import PliantError
from pliant.model.nodes import NodeSet, hostlist, parse_counts, parse_hostlist
from pliant.model.words import count


def answer(controller: Controller, request: ControlRequest) -> ControlAnswer:
    """Carry out another terminal's request; PliantError, with the reason, if that cannot be."""
    try:
        match request.verb:
            case "queue":
                return ControlAnswer(jobs=describe(controller))
            case "resize":
                return _resize(controller, request)
            case "migrate":
                return _migrate(controller, request)
            case "nodes":
                return _nodes(controller, request)
            case "list":
                return _list(controller)
            case _:
                raise PliantError(f"unknown verb {request.verb!r}")
    except ValueError as error:  # a malformed hostlist
        raise PliantError(str(error)) from None


def describe(controller: Controller) -> list[dict[str, object]]:
    """Pending and running jobs, for people."""
    return [
        {
            "job": job.id, "name": job.spec.name, "kind": job.spec.kind.value, "state": job.state.value,
            "nodes": job.size,
            "nodelist": controller.core.state.nodes.hosts(NodeSet(job.nodes)),
            "sizes": job.bounds.describe(),
            **_awake(controller.core.state, job),
            **({} if job.wish is None else {"wish": job.wish.describe()}),
            **_expires(controller.core.state, job.nodes),
            **_labels(controller.core.state, job),
        }
        for job in controller.core.state.jobs.values()
    ]  # fmt: skip


def _expires(state: State, nodes: int) -> dict[str, object]:
    """In how many seconds jobs have to be over on the first of these nodes, or off it, where some expire."""
    end = state.nodes.end_on(nodes)
    return {} if end == NEVER else {"expires": round(max(0.0, end - state.now), 1)}


def _labels(state: State, job: ScheduledJob) -> dict[str, object]:
    """By label, which nodes of the job have it, where some have any; and the sources of its nodes."""
    nodes, found = state.nodes, dict[str, list[int]]()
    for node in NodeSet(job.nodes) if nodes.labels else ():
        for label in nodes.labels.get(node, ()):
            found.setdefault(label, []).append(node)
    sources = sorted({nodes.sources[node] for node in NodeSet(job.nodes) if nodes.sources.get(node)})
    labels = {label: nodes.hosts(found[label]) for label in sorted(found)}
    return ({"labels": labels} if labels else {}) | ({"source": ",".join(sources)} if sources else {})


def _list(controller: Controller) -> ControlAnswer:
    """All nodes of the cluster, and what is asked for."""
    state = controller.core.state
    nodes, users = state.nodes, dict[int, str]()
    for _, _, job in state.running:
        reserved = job.resize.nodes if job.resize is not None else 0
        users |= dict.fromkeys(NodeSet(job.nodes | reserved), f"job {job.id} ({job.spec.name})")
    for number, mask in nodes.dirty.items():
        users |= dict.fromkeys(NodeSet(mask), f"cleaned of job {number}")
    users |= dict.fromkeys(NodeSet(nodes.parked_mask), "leaving")
    there = [
        {
            "node": nodes.called([node])[0], "slots": nodes.slots.get(node, 1), "labels": nodes.labels.get(node, ()),
            "source": nodes.sources.get(node, ""),
            "use": "lost" if nodes.lost_mask >> node & 1 else users.get(node, "free"),
            **({"asked_back": True} if nodes.reclaimed_mask >> node & 1 else {}),
            **_expires(state, 1 << node),
        }
        for node in NodeSet(nodes.all_mask)
    ]  # fmt: skip
    awaited = [
        {"count": count, **({} if need is None else {"slots": need.slots, "labels": need.labels})}
        for need, count in nodes.wanted(nodes.coming)
    ]
    return ControlAnswer(there=there, awaited=awaited)


def _awake(state: State, job: ScheduledJob) -> dict[str, object]:
    """How many ranks are awake where some sleep, of a job of which some do."""
    return (
        {"awake": {state.nodes.names[node]: count for node, count in by_node(state, job).items()}}
        if job.awake
        else {}
    )


def _resize(controller: Controller, request: ControlRequest) -> ControlAnswer:
    """An operator's order for the size of a job, or, with size 0, to leave that to the policy again."""
    state = controller.core.state
    job = _job(state, request.job)
    if request.slots:
        slots = parse_counts(request.slots)
        said = ", ".join(f"{count} on {name}" for name, count in slots.items())
        return _ordered(
            controller, job, o.Resize(job.id, 0, slots=slots), f"ordered to have ranks awake: {said}"
        )
    leave = tuple(parse_hostlist(request.leave)) if request.size else ()
    said = "the policy decides again"
    if request.size:
        said = f"ordered from {job.size} to {count(request.size, 'node')}"
        said += f", without {hostlist(leave)}" if leave else ""
    return _ordered(controller, job, o.Resize(job.id, request.size, leave), said)


def _migrate(controller: Controller, request: ControlRequest) -> ControlAnswer:
    """An operator's order to move a job off those of ``leave``, by default off all of its nodes."""
    state = controller.core.state
    job = _job(state, request.job)
    leave = tuple(parse_hostlist(request.leave)) or state.nodes.called(NodeSet(job.nodes))
    to = count(len(leave), "other node")
    return _ordered(
        controller, job, o.Resize(job.id, 0, leave), f"ordered to move from {hostlist(leave)} to {to}"
    )


def _ordered(controller: Controller, job: ScheduledJob, order: o.Resize, said: str) -> ControlAnswer:
    """Give the order, and say so; PliantError if the core refuses it."""
    state = controller.core.state
    slots = dict(zip(_numbers(state, order.slots), order.slots.values(), strict=True))
    if (
        why := controller.core.resizes.refusal(
            job.id, order.size, NodeSet.of(_numbers(state, order.leave)), slots
        )
    ) is not None:
        raise PliantError(why)
    controller.tell(order)
    return ControlAnswer(f"job {job.id} ({job.spec.name}): {said}", job=job.id, name=job.spec.name)


def _job(state: State, wanted: str) -> ScheduledJob:
    """The first job of this number or name; PliantError if there is none."""
    for job in state.jobs.values():
        if wanted in (str(job.id), job.spec.name):
            return job
    known = ", ".join(f"{job.id} ({job.spec.name})" for job in state.jobs.values()) or "none"
    raise PliantError(f"no pending or running job {wanted!r}; there are: {known}")


def _numbers(state: State, names: Iterable[str]) -> list[int]:
    """The numbers of these nodes; PliantError for a node that is not there."""
    there = NodeSet(state.nodes.all_mask)
    numbers = dict(zip(state.nodes.called(there), there, strict=True))
    for name in names:
        if name not in numbers:
            raise PliantError(f"there is no node {name!r}; there are {hostlist(numbers)}")
    return [numbers[name] for name in names]


def _nodes(controller: Controller, request: ControlRequest) -> ControlAnswer:
    """An operator's order for ``size`` nodes more, or to give back those of ``leave``."""
    state = controller.core.state
    if controller.core.held:
        raise PliantError(f"no nodes come or go now: {controller.core.held}")
    if request.size > 0:
        controller.tell(o.Ask(request.size, request.need))
        what = "" if request.need is None else f", {request.need}"
        return ControlAnswer(f"{count(request.size, 'node')} more asked for{what}", count=request.size)
    if request.size < 0:
        return _withdraw(controller, -request.size)
    names = parse_hostlist(request.leave)
    nodes = NodeSet.of(_numbers(state, names))
    if not nodes:
        raise PliantError("no nodes are named that could be given back")
    left = (state.nodes.all_mask & ~state.nodes.reclaimed_mask & ~nodes.mask).bit_count()
    if short := [job for job in state.queue if job.bounds.min > left]:
        need = f"job {short[0].id} ({short[0].spec.name}) waits for {count(short[0].bounds.min, 'node')}"
        raise PliantError(f"{need}, and {left} would be left")
    controller.tell(o.Reclaim(tuple(names), request.within_s or None))
    used = nodes - NodeSet(state.nodes.free_mask)
    first = "".join(f"; {said}" for said in _emptied(state, nodes))
    if request.within_s:
        first += f"; what is still there is ended in time for {request.within_s:g} s from now"
    # What runs there, and what is not yet proved clean.
    when = f"; {count(len(used), 'node')} of them when what is there has ended" if used and not first else ""
    return ControlAnswer(f"{hostlist(names)} will be given back{when}{first}", nodes=names)


def _withdraw(controller: Controller, most: int) -> ControlAnswer:
    """Do without up to so many of the nodes that were asked for and have not come."""
    state = controller.core.state
    number = min(most, state.nodes.coming)
    if number < 1:
        raise PliantError("no nodes were asked for that have not come or been refused; see pliant nodes add")
    controller.tell(o.AskLess(number))
    return ControlAnswer(f"{count(number, 'node')} not wanted any more", count=number)


def _emptied(state: State, nodes: NodeSet) -> Iterator[str]:
    """How jobs leave nodes that are asked back, as far as it can be told now."""
    free = (state.nodes.free_mask & ~state.nodes.reclaimed_mask & ~nodes.mask).bit_count()
    for _, _, job in state.running:
        held, who = NodeSet(job.nodes & nodes.mask), f"job {job.id} ({job.spec.name})"
        if not held:
            continue
        its = state.nodes.hosts(held)
        why = moving.why_stays(state, job, held, free)
        way = moving.way_off(state, job, held.mask, free)
        if why or way is None:
            them = "it" if len(held) == 1 else "them"
            yield f"{its} when {who} has left {them}: that job {why}"
            continue
        moved = max(0, way.size - job.size + len(way.leave))
        free -= moved
        off = state.nodes.hosts(way.leave)
        if way.size == job.size:
            yield f"{who} is asked to move from {off} to {count(moved, 'free node')}"
        else:
            yield f"{who} is asked to leave {off} and go from {job.size} to {count(way.size, 'node')}"
        if rest := held - way.leave:
            why = moving.why_stays(state, job, rest, 0)
            yield f"{state.nodes.hosts(rest)} when it has left{why and f': it {why}'}"

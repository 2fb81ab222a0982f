"""What can happen to the core. Events carry nodes; ``job`` is the number given at submission."""

from __future__ import annotations

import msgspec

from pliant.model.jobs import Bounds, JobSpec, JobState
from pliant.model.need import Need
from pliant.model.nodes import NodeSet
from pliant.protocol import messages as m


class Event(msgspec.Struct, frozen=True, gc=False):
    """Base of all events."""


class Submitted(Event, frozen=True):
    """A user submits a job; ``job`` must be above all numbers given before. ``requeue_of`` is the number under which
    the same job was ended by its nodes, 0 if it is new."""

    job: int
    spec: JobSpec
    requeue_of: int = 0


class Cancelled(Event, frozen=True):
    """A job is taken back, by its user or because it cannot be run any more; ``why`` is for people. One that runs ends
    in ``state``."""

    job: int
    why: str = ""
    state: JobState = JobState.CANCELLED


class ResizeOrdered(Event, frozen=True):
    """An operator orders a running job to ``size`` nodes, giving back ``leave`` among others.

    Size 0 hands the job back to the policy; with ``leave`` it moves the job off these nodes to as many others. With
    ``slots`` the nodes stay, and so many ranks are to be awake on each of these; ``size`` counts no more.
    """

    job: int
    size: int
    leave: NodeSet = NodeSet()
    slots: dict[int, int] = {}


class Launched(Event, frozen=True):
    """All processes of the job have been started; whether it will ever say hello is not known."""

    job: int


class Hello(Event, frozen=True):
    """The job's first session stands; ``bounds`` is what the program itself allows."""

    job: int
    bounds: Bounds | None = None


class RootSaid(Event, frozen=True):
    """The root of the job has said this in its session; of a job that has left its loop, or lost its root, its life
    says what follows from that."""

    job: int
    message: m.CoreMessage


class TakenBack(Event, frozen=True):
    """Whatever resize of the job is open is to be taken back, for this reason; the job still answers."""

    job: int
    why: str


class Resumed(Event, frozen=True):
    """A controller goes on where another one has ended, and knows all that has happened meanwhile."""


class Ended(Event, frozen=True):
    """Nothing of the job computes any more; its nodes still have to be proved clean. With ``requeue`` it will be
    submitted again, under another number. ``cpu_s`` is what its ranks that have ended took of the processors;
    ``places`` what each place of a program of places says that it has done."""

    job: int
    exit_code: int
    result: str | None = None
    error: str = ""
    requeue: bool = False
    cpu_s: float = 0.0
    places: dict[int, dict[str, float]] = {}


class Granted(Event, frozen=True):
    """The provider hands over nodes; what is said of them is as in the record NodesGranted."""

    nodes: NodeSet
    names: tuple[str, ...] = ()
    slots: tuple[int, ...] = ()
    until: float | None = None
    labels: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    need: Need | None = None


class Clean(Event, frozen=True):
    """Agents have proved that nothing of the job is left on ``nodes``."""

    job: int
    nodes: NodeSet


class Lost(Event, frozen=True):
    """Nodes are gone, with all that ran there. ``over``: jobs with groups there that had ended well before.
    ``restarting``: jobs that, if they are on, go on from a checkpoint at the largest size that they allow and have
    left, if there is one. ``why`` is for people."""

    nodes: NodeSet
    over: tuple[tuple[int, int], ...] = ()
    restarting: tuple[int, ...] = ()
    why: str = ""


class GroupsLost(Event, frozen=True):
    """These groups of a job have failed, each as a whole, and the job goes on without them if its kind can."""

    job: int
    groups: tuple[int, ...]
    why: str = ""


class Back(Event, frozen=True):
    """Lost nodes can be used again."""

    nodes: NodeSet


class NodesOrdered(Event, frozen=True):
    """An operator asks for so many nodes more, each with this ``need``."""

    count: int
    need: Need | None = None


class NodesWithdrawn(Event, frozen=True):
    """An operator does not want so many of the nodes any more that were asked for and have not come."""

    count: int


class Refused(Event, frozen=True):
    """The provider cannot hand over ``count`` of the nodes that it was asked for with this ``need``."""

    count: int
    why: str
    need: Need | None = None


class Reclaim(Event, frozen=True):
    """The provider or an operator wants these nodes back: each goes when it is free and clean. ``by``: at the latest
    then; what can neither move nor shrink is ended in time before."""

    nodes: NodeSet
    by: float | None = None


class Returned(Event, frozen=True):
    """The provider has these nodes again: they are the cluster's no more."""

    nodes: NodeSet


class Tick(Event, frozen=True):
    """Time has passed: the answer to a WakeAt."""

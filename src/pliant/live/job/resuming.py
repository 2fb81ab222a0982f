"""How a job's life is made anew from what the core knows of it, after the controller was killed, and what becomes of
a resize that was open then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from pliant.core import commands as c
from pliant.core.core import SchedulerCore
from pliant.core.job import ScheduledJob
from pliant.core.state import State
from pliant.live.job.life import KILLED, JobLife
from pliant.model.groups import Group
from pliant.model.nodes import NodeSet
from pliant.protocol import messages as m
from pliant.protocol import resizing, scheduler_side
from pliant.protocol.scheduler_side import SchedulerSide


def take_up(life: JobLife, job: ScheduledJob, state: State) -> None:
    """Give a new life what was recorded of its job: groups, root, epoch, and where its session is."""
    members = [
        Group(number, node, state.nodes.slots.get(node, 1)) for number, node in state.groups(job).items()
    ]
    life.quiet = True
    know_losses(life, job)
    life.add(members, 0)
    if job.resize is not None and job.resize.stage in resizing.STARTED:
        life.add(job.resize.arriving, job.resize.id)
    for group in life.groups.values():
        group.resumed = group.words_missed = True
    resize = job.resize.id if job.resize is not None else None
    life.side = SchedulerSide.resumed(job.root, job.epoch, _wire(job), resize)


def know_losses(life: JobLife, job: ScheduledJob) -> None:
    """Give a life what was recorded of the groups that its job has lost, and who speaks for it."""
    life.losses = {group: loss.why for loss in job.losses for group in loss.groups}
    life.side.root = job.root


def _wire(job: ScheduledJob) -> str:
    """The state of the job's session, as its scheduler sees it."""
    if not job.greeted:
        return scheduler_side.START
    if job.resize is None:
        return scheduler_side.PROJECTION[resizing.NONE]
    if job.resize.stage == resizing.OFFERED and job.resize.must:
        return "draining"
    return scheduler_side.PROJECTION[job.resize.stage]


def find_missing(life: JobLife, job: ScheduledJob, there: Collection[tuple[int, int]]) -> None:
    """See to the groups that no agent has. An agent forgets none before it is proved clean: so those the job began with
    were never started, if nobody has lost their node, nor were newcomers. The one that has said hello was: its agent is
    another one now."""
    for group in life.alive():
        if not group.resumed:
            continue  # it has been seen to, or was started since, by an answer that was repeated
        group.resumed = False
        is_there = (life.number, group.number) in there
        greeted = job.greeted and group.number == job.root
        if is_there or (group.joined and not job.epoch and job.ending is None and not greeted):
            life.start_again(group, order=not is_there)
        else:
            life.gone(group.number, KILLED, "its ranks were gone when the controller came back")


def unanswered(core: SchedulerCore, is_proving: Callable[[int, int], bool]) -> Iterator[c.Command]:
    """The ends of jobs and the proofs of nodes that the records hold no answer to. ``is_proving(job, node)``: that node
    is being proved clean of that job already. Starts, resizes and requests for nodes are not among them."""
    for command in core.unanswered():
        match command:
            case c.Release():
                nodes = [node for node in command.nodes if not is_proving(command.job, node)]
                yield c.Release(command.job, NodeSet.of(nodes))
            case c.Kill():
                yield command
            case _:
                pass


def roll_back(core: SchedulerCore, life: JobLife, job: ScheduledJob) -> bool:
    """Have the job told what it may not have heard of its losses and its open resize; whether that is still to be taken
    back."""
    life.tell_losses()
    resize = job.resize
    if resize is None or job.ending is not None:
        return False
    commands = core.resizes.of_resize(job, resize)
    if resize.stage in (resizing.OFFERED, resizing.WITHDRAWN):
        # Nobody knows whether it got the offer; it has one answer to give to that and to its withdrawal.
        life.say_again(life.offer_of(core.resizes.offer_of(job, resize)))
    if resize.stage in (resizing.OFFERED, resizing.ACCEPTED):
        return True
    for command in commands:
        if isinstance(command, c.Withdraw):
            life.say_again(m.Withdraw(command.resize))
    return False

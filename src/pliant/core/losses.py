"""What is lost to jobs: nodes, and groups whose ranks have failed. What that means is in the table of kinds
(``model/kinds.py``), and is the same for both."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.core import events as e
from pliant.core import records as r
from pliant.core.job import ScheduledJob
from pliant.core.ledger import Ledger
from pliant.core.resizes import Resizes
from pliant.model.jobs import JobState
from pliant.model.kinds import KINDS, Loss
from pliant.model.nodes import NodeSet, hostlist, lowest_bits, without
from pliant.protocol import messages as m


class Losses:
    """What the loss of nodes and groups means to jobs: they go on without them, restart, or are ended."""

    def __init__(self, ledger: Ledger, resizes: Resizes) -> None:
        self._ledger = ledger
        self._state = ledger.state
        self._resizes = resizes

    def lost(self, event: e.Lost) -> None:
        nodes = NodeSet(event.nodes.mask & self._state.nodes.all_mask & ~self._state.nodes.lost_mask)
        if not nodes:
            return  # they were returned meanwhile, or lost already
        self._ledger.record_due(r.NodesLost(self._state.now, nodes, event.why))
        for _, _, job in list(self._state.running):
            newcomers = job.resize.nodes if job.resize is not None else 0
            if job.nodes & nodes.mask:
                self._lose_nodes(job, nodes, event.why, event.over, restarts=job.id in event.restarting)
                if job.ending is not None:
                    self._ledger.expect_back(job)
            if newcomers & nodes.mask and job.ending is None:
                self._resizes.withdraw(job, "a node of the expansion is lost")

    def groups_lost(self, event: e.GroupsLost) -> None:
        if (job := self._ledger.live(event.job)) is not None:
            self._lose(job, event.groups, event.why, node=False)

    def done(self, job: ScheduledJob, said: m.Done) -> None:
        gained = self._resizes.commit(job, said)
        if lost := gained & self._state.nodes.lost_mask:
            # The resize was done before the job heard that a newcomer's node is gone.
            self._lose_nodes(job, NodeSet(lost))

    def _lose_nodes(
        self,
        job: ScheduledJob,
        nodes: NodeSet,
        why: str = "",
        over: Iterable[tuple[int, int]] = (),
        *,
        restarts: bool = False,
    ) -> None:
        """These nodes are gone, and with them the groups of the job there; but not those that had ended well before."""
        done = {group for number, group in over if number == job.id}
        groups = tuple(group for group in self._state.groups_on(job, nodes.mask) if group not in done)
        mine = NodeSet(nodes.mask & job.nodes)
        lost = f"lost node{'s' if len(mine) > 1 else ''} {self._state.nodes.hosts(mine)}"
        why = f"{lost}: {why}" if why else lost
        if restarts and (gone := self._without(job, groups)):
            self._go_on(job, gone, why, node=True)
        else:
            self._lose(job, groups, why, node=True)

    def _without(self, job: ScheduledJob, gone: tuple[int, ...]) -> tuple[int, ...]:
        """The groups without which a job restarts that has lost ``gone``: it gives up the highest-numbered nodes too
        that are too many for a size that it allows. None of them if it cannot go on."""
        if not gone or job.ending is not None or not job.accepts_offers or job.spec.keeps_size:
            return ()
        left = without(job.nodes, self._state.nodes_without(job, gone))
        size = job.bounds.floor(left.bit_count())
        return (*gone, *self._state.groups_on(job, without(left, lowest_bits(left, size)))) if size else ()

    def _lose(self, job: ScheduledJob, groups: tuple[int, ...], why: str, *, node: bool) -> None:
        """The job goes on without these groups, as its kind has it, or is ended."""
        present = self._state.groups(job)
        gone = tuple(group for group in dict.fromkeys(groups) if group in present)
        if not gone or job.ending is not None:
            return
        loss = KINDS[job.spec.kind].loss
        left = [group for group in present if group not in gone]
        if not left or loss is Loss.ENDS_JOB or (loss is Loss.IS_TOLD and job.root in gone):
            self._ledger.end(job, JobState.NODE_FAIL if node else JobState.FAILED, why)
            return
        self._go_on(job, gone, why, node=node)

    def _go_on(self, job: ScheduledJob, gone: tuple[int, ...], why: str, *, node: bool) -> None:
        state = self._state
        nodes = NodeSet(state.nodes_without(job, gone))
        root = job.root
        if root in gone:
            root = min(group for group in state.groups(job) if group not in gone)
        self._ledger.record_due(r.GroupsLost(state.now, job.id, gone, nodes, root, why, node))
        if unclean := nodes.mask & ~state.nodes.lost_mask:
            self._ledger.leave(job, NodeSet(unclean))
        self._resizes.withdraw(job, f"{lost_groups(gone)} of the job is lost")

    def end_of(self, job: ScheduledJob, event: e.Ended) -> tuple[JobState, int, str]:
        """The state, exit code and error that a job ends with: by what it said, and by what it has lost."""
        state = job.ending or (JobState.FAILED if event.exit_code or event.error else JobState.COMPLETED)
        if not job.losses or job.ending is not None or KINDS[job.spec.kind].loss is not Loss.FAILS_JOB:
            return state, event.exit_code, job.why or event.error
        state = JobState.NODE_FAIL if any(loss.node for loss in job.losses) else JobState.FAILED
        gone = lost_groups(group for loss in job.losses for group in loss.groups)
        why = event.error or job.losses[0].why
        return state, event.exit_code or 1, f"lost {gone} on {hostlist(job.lost_on)}: {why}"


def lost_groups(groups: Iterable[int]) -> str:
    """Groups in words: ``group 3``, ``groups 1-4,7``."""
    numbers = NodeSet.of(groups)
    return f"group{'s' if len(numbers) > 1 else ''} {numbers}"

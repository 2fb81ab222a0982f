"""What events bring about: records, each applied to the state at once, and commands."""

from __future__ import annotations

from pliant.core import commands as c
from pliant.core import records as r
from pliant.core.job import ScheduledJob
from pliant.core.state import State
from pliant.model.jobs import JobState
from pliant.model.nodes import NodeSet, without

AT_ONCE_S = 1.0
"""Nodes that were left are waited for so long, where they are proved clean within it as a rule (``leave_s``)."""

Outcome = tuple[list[r.Record], list[c.Command]]
"""Records first: they are written before the commands are carried out."""


class Ledger:
    """Where all parts of the core write their records and commands. Each record changes the state at once. ``due``: a
    pass is to be made. ``held``: why none is made, and no job is offered anything; empty if it is."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.records: list[r.Record] = []
        self.commands: list[c.Command] = []
        self.due = False
        self.held = ""
        self.left: dict[int, float] = {}
        """By job: until when the nodes that it has left, or leaves as it ends, are expected to be back at once."""

    def begin(self, now: float) -> Outcome:
        """What follows is of this time, and goes to these lists."""
        state = self.state
        if now < state.now:
            raise ValueError(f"time ran backwards: {now} after {state.now}")
        state.now = now
        outcome: Outcome = [], []
        self.records, self.commands = outcome
        return outcome

    def record(self, record: r.Record) -> None:
        """Apply and keep a record after which no pass is due."""
        self.state.apply(record)
        self.records.append(record)

    def record_due(self, record: r.Record) -> None:
        """The same of one after which a pass is due."""
        self.state.apply(record)
        self.records.append(record)
        self.due = True

    def live(self, number: int) -> ScheduledJob | None:
        """The running job, unless it is already being ended: then nothing it says matters any more."""
        job = self.state.jobs.get(number)
        if job is None or job.state is JobState.PENDING or job.ending is not None:
            return None
        return job

    def end(self, job: ScheduledJob, state: JobState, error: str, *, requeue: bool = False) -> None:
        """End a running job in this state, for the reason ``error``, unless it is being ended already."""
        if job.ending is None:
            self.record(r.JobEnding(self.state.now, job.id, state, error, requeue))
            self.commands.append(self.kill_of(job, state))

    def kill_of(self, job: ScheduledJob, state: JobState) -> c.Kill:
        """The command that ends a job in this state: at once, if it has failed or lost a node."""
        hard = state in (JobState.NODE_FAIL, JobState.FAILED)
        return c.Kill(job.id, 0.0 if hard else self.state.settings.kill_grace_s)

    def leave(self, job: ScheduledJob, nodes: NodeSet) -> None:
        """These nodes are to be proved clean of the job."""
        self.expect_back(job)
        self.commands.append(c.Release(job.id, nodes))

    def expect_back(self, job: ScheduledJob) -> None:
        """Its nodes are on their way back, and may be waited for; where passes have times of their own they are not."""
        if self.state.cost.leave_s <= AT_ONCE_S and not self.state.settings.pass_interval_s:
            self.left[job.id] = self.state.now + AT_ONCE_S

    def back_at_once(self) -> float:
        """Until when nodes that are on their way back may be waited for; 0 if there are none.

        A pass amid nodes that come back together sees a cluster that nobody will ever see again: small jobs start on
        those that are there, and so pass the second of the queue, which would have started with the others.
        """
        state = self.state
        for number, until in list(self.left.items()):
            job = state.jobs.get(number)
            ends = job is not None and job.ending is not None
            if until <= state.now or not (
                ends or without(state.nodes.dirty.get(number, 0), state.nodes.reclaimed_mask)
            ):
                del self.left[number]
        return max(self.left.values(), default=0.0)

"""What must hold in the world, looked at after every record and, as a whole, now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.core.audit import Audit, AuditError
from pliant.core.settings import NEVER
from pliant.model.jobs import JobState
from pliant.protocol import resizing

if TYPE_CHECKING:
    from pliant.testing.world import World

ALLOWED: dict[JobState, frozenset[str]] = {
    JobState.FAILED: frozenset(
        {
            "rank killed", "agent killed", "link cut", "link stalled", "exec refused", "undead", "head killed",
            "in accept", "fails", "liar", "no hello", "started late", "slow link", "silent",
        }
    ),
    JobState.NODE_FAIL: frozenset({"agent killed", "link cut", "link stalled", "undead", "slow link"}),
    JobState.CANCELLED: frozenset({"cancel", "too large"}),
    JobState.TIMEOUT: frozenset({"walltime"}),
}  # fmt: skip
"""By which faults, programs and orders a job may end so. A newcomer's death before it connects is none of them."""


class Violation(Exception):  # noqa: N818 - what the world is there to find
    """Something that must hold does not. ``kind`` is lost, run_twice, leaked, stuck or wrong."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind


class Cells:
    """Which cells of the table of resizes the records have been through, and in which state each job is."""

    def __init__(self) -> None:
        self.visited: Counter[tuple[str, str]] = Counter()
        self.offered = self.done = 0
        self._stage: dict[int, str] = {}

    def stage(self, job: int) -> str:
        return self._stage.get(job, resizing.NONE)

    def add(self, record: r.Record) -> None:
        match record:
            case r.ResizeOffered():
                self.offered += 1
                self._move(record.job, "Offer")
            case r.ResizeAccepted():
                self._move(record.job, "Accept")
            case r.ResizeDeclined():
                self._move(record.job, "Decline")
            case r.ResizeWithdrawn():
                self._move(record.job, "Withdraw")
            case r.ResizeDone():
                self.done += 1
                self._move(record.job, "Done")
            case r.ResizeFailed():
                self._move(record.job, "Failed")
            case r.JobEnded() if record.job in self._stage:
                self._move(record.job, "End")
            case _:
                pass

    def _move(self, job: int, what: str) -> None:
        stage = self.stage(job)
        move = resizing.TABLE.get((stage, what))
        if move is None:
            raise Violation("wrong", f"job {job}: {what} in state {stage} of its resize")
        self.visited[stage, what] += 1
        if move.state == resizing.NONE:
            self._stage.pop(job, None)
        else:
            self._stage[job] = move.state


class Checks:
    """A second opinion on everything that the world's controllers record, and on what is there besides."""

    def __init__(self, world: World) -> None:
        self.cells = Cells()
        self.states: Counter[JobState] = Counter()
        self._world = world
        self._audit = Audit()
        self._names: dict[str, int] = {}
        self._seen = 0

    def begin_again(self, records: Iterable[r.Record]) -> None:
        """Another controller has read these, and nothing else has happened."""
        self._audit, self._names = Audit(), {}
        visited, self.cells = self.cells, Cells()
        for record in records:
            self._audit.add(record)
            self.cells.add(record)
            if isinstance(record, r.JobSubmitted):
                self._names[record.spec.name] = record.job
        self.cells.visited, self.cells.offered, self.cells.done = (
            visited.visited,
            visited.offered,
            visited.done,
        )

    def record(self, record: r.Record) -> None:
        try:
            self._audit.add(record)
        except AuditError as error:
            raise Violation("wrong", str(error)) from error
        self.cells.add(record)
        match record:
            case r.JobSubmitted():
                if record.spec.name in self._names:
                    raise Violation("run_twice", f"{record.spec.name} is submitted again as job {record.job}")
                self._names[record.spec.name] = record.job
            case r.ResizeDone():
                self._agree(record)
            case r.JobEnded():
                self._ended(record)
            case r.NodesClean():
                self._clean(record)
            case _:
                pass

    def _agree(self, record: r.ResizeDone) -> None:
        """Both ends have the same groups, in the same epoch, with the same root."""
        state = self._world.head.cluster.core.state
        job = state.jobs.get(record.job)
        if job is None:
            return
        for members in self._world.members(record.job, job.epoch):
            if set(members) != set(state.groups(job)):
                raise Violation(
                    "wrong",
                    f"job {record.job} in epoch {job.epoch}: it has {members}, the core {state.groups(job)}",
                )
        side = self._world.head.cluster.lives[record.job].side
        if (side.epoch, side.root) != (job.epoch, job.root):
            raise Violation(
                "wrong", f"job {record.job}: its session is in epoch {side.epoch}, the core {job.epoch}"
            )

    def _ended(self, record: r.JobEnded) -> None:
        world, state = self._world, record.state
        self.states[state] += 1
        if state is JobState.COMPLETED:
            if problem := world.unfinished(record.job, record.result):
                raise Violation("lost", f"job {record.job} is COMPLETED, but {problem}")
        elif not ALLOWED[state] & world.touched(record.job):
            touched = ", ".join(sorted(world.touched(record.job))) or "nothing"
            story = "; ".join([*world.fabric(record.job).story][-3:])
            raise Violation(
                "lost",
                f"job {record.job} ended {state} ({record.error.splitlines()[:1]}), and met {touched}: {story}",
            )

    def _clean(self, record: r.NodesClean) -> None:
        state = self._world.head.cluster.core.state
        for number in record.nodes:
            if (node := self._world.nodes.get(state.names[number])) is None:
                continue  # it has been given back meanwhile
            there = state.jobs.get(record.job)
            mine = state.groups(there) if there is not None and there.size else {}
            left = [
                proc.pid
                for proc in node.processes.values()
                if proc.job == record.job and proc.group not in mine
            ]
            if left:
                raise Violation(
                    "leaked", f"{node.name} counts as clean of job {record.job}, which has {left} there"
                )

    def told(self) -> None:
        """A job that is being resized has been told of each newcomer that is gone."""
        head = self._world.head
        for number in head.cluster.core.state.resizing:
            life = head.cluster.lives[number]
            for group in life.groups.values():
                lost = not group.alive and not group.joined and life.side.state not in ("new", "closed")
                if lost and (number, group.number) not in head.told_lost:
                    raise Violation("wrong", f"job {number} is not told that newcomer {group.number} is gone")

    def look(self) -> None:
        """The waits: each has a time by which it ends."""
        head = self._world.head
        if head.pending:
            return  # what has come is not yet dealt with
        timers = head.timers
        state = head.cluster.core.state
        for job in state.resizing.values():
            resize = job.resize
            if resize is not None and resize.deadline == NEVER and resize.stage != resizing.WITHDRAWN:
                raise Violation(
                    "stuck", f"resize {resize.id} of job {job.id} waits without end in {resize.stage}"
                )
            if resize is not None and resize.deadline != NEVER and ("wake",) not in timers and not job.ending:
                raise Violation("stuck", f"nobody looks at the deadline of resize {resize.id}")
        for job_number, mask in state.dirty.items():
            for node in (bit for bit in range(mask.bit_length()) if mask >> bit & 1):
                if ("proof", job_number, node) not in timers:
                    raise Violation(
                        "stuck", f"node {node} is waited for, to be clean of job {job_number}, for ever"
                    )

    def end(self) -> None:
        """Nothing is left, and nothing waits."""
        world = self._world
        state = world.head.cluster.core.state
        if state.jobs:
            names = ", ".join(f"{job.id} ({job.state})" for job in state.jobs.values())
            raise Violation("stuck", f"at the end these jobs have not ended: {names}")
        if len(self._audit.ended) != len(world.specs):
            raise Violation("lost", f"{len(world.specs)} jobs, and {len(self._audit.ended)} have ended")
        for node in world.nodes.values():
            number = next((n for n, name in state.names.items() if name == node.name), None)
            lost = number is None or state.lost_mask >> number & 1
            if node.processes and not lost:
                left = [(proc.job, proc.group, proc.rank) for proc in node.processes.values()]
                raise Violation("leaked", f"at the end {node.name} has {left}")

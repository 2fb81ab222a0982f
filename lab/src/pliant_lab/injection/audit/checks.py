"""What must hold in the world, looked at after every record and, as a whole, now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.journal import read
from pliant.core.settings import NEVER
from pliant.history.audit import Audit, AuditError
from pliant.live.cluster import orders as o
from pliant.model.jobs import JobState
from pliant.model.kinds import KINDS, Loss
from pliant.protocol import messages as m
from pliant.protocol import resizing
from pliant_lab.injection.audit.cells import Cells
from pliant_lab.injection.audit.ends import Ends
from pliant_lab.injection.audit.groups import Groups
from pliant_lab.injection.audit.handled import Handled
from pliant_lab.injection.audit.memory import weigh
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.standins.fabric import read_result
from pliant_lab.injection.standins.running import own_words

if TYPE_CHECKING:
    from pliant_lab.injection.standins.node import Node
    from pliant_lab.injection.world import World

ALLOWED: dict[JobState, frozenset[str]] = {
    JobState.FAILED: frozenset(
        {
            "rank killed", "agent killed", "link cut", "link stalled", "exec refused", "undead", "head killed",
            "in merge", "fails", "liar", "no hello", "started late", "slow link", "silent", "hangs", "ended now",
            "node lost", "end forgotten",
        }
    ),
    JobState.NODE_FAIL: frozenset(
        {
            "agent killed", "hung for long", "link cut", "link stalled", "slow link", "undead", "node lost",
            "head killed",
        }
    ),
    JobState.CANCELLED: frozenset({"cancel", "too large", "ended", "too long"}),
    JobState.TIMEOUT: frozenset({"walltime", "expired"}),
}  # fmt: skip
"""By which faults, programs and orders a job may end so. A newcomer's death before it is in Merge is none of them."""


GIVEN_UP = frozenset(
    {"agent killed", "hung for long", "link cut", "link stalled", "slow link", "undead", "node lost"}
)
"""What may keep a node from proving in time that it is clean."""
UNSETTLED = frozenset({"undead", "hung for long", "link stalled", "slow link"})
"""What may keep a node from having done all that it has to."""
LOSSES = frozenset({"rank killed", "newcomer killed", "agent killed", "places", "places cut", "walltime"})
"""What is over when a group is gone."""
LATE_S = 1.0
KEPT_OF_RUN, KEPT_OF_A_NODE = 120, 8
"""What a controller remembers at most when all has ended, and of each node."""
KEPT, KEPT_OF_A_GROUP = 150, 6
"""What an agent remembers at most where nothing goes on, with some programs for which it has a warm process, or has
tried to have one in vain; and of each group that it ever had: that it is over, and what its job used."""


class Checks:
    """A second opinion on everything that the world's controllers record, and on what is there besides."""

    def __init__(self, world: World) -> None:
        self.states: Counter[JobState] = Counter()
        self._returned = False
        """A node was given back."""
        self._world = world
        self._begun: set[tuple[int, int]] = set()
        self._spawned: set[tuple[int, int, int]] = set()
        self._audit = Audit()
        self.handled = Handled(world, self._audit)
        self._ends = Ends(world)
        self._groups = Groups(world)
        self._names: dict[str, int] = {}
        self._roots: dict[int, int] = {}
        self._open_before: set[int] = set()
        """Resizes that were open when this controller began."""

    def begin_again(self, records: Iterable[r.Record]) -> None:
        """Another controller has read these, and nothing else has happened."""
        if not self._world.outside.grace:
            self._spawned.clear()
        self._audit, self._names, self._roots = Audit(), {}, {}
        self._open_before = {
            job.resize.id for job in self._world.head.cluster.core.state.resizing.values() if job.resize
        }
        self.handled = Handled(self._world, self._audit)
        self._ends = Ends(self._world)
        ledger = self._world.ledger
        visited, ledger.cells = ledger.cells, Cells()
        for record in records:
            self._audit.add(record)
            ledger.cells.add(record)
            self.handled.know(record)
            self._ends.add(record)
            self._groups.know(record)
            if isinstance(record, r.JobSubmitted):
                self._names[record.spec.name] = record.job
            elif isinstance(record, r.ResizeDone):
                self._roots[record.job] = record.root
        cells = ledger.cells
        cells.visited, cells.offered, cells.done = visited.visited, visited.offered, visited.done

    def record(self, record: r.Record) -> None:
        try:
            self._audit.add(record)
        except AuditError as error:
            raise Violation("wrong", str(error)) from error
        self._world.ledger.cells.add(record)
        self._ends.add(record)
        self._groups.add(record, self._audit)
        self._returned |= isinstance(record, r.NodesReturned)
        match record:
            case r.JobSubmitted():
                if self._names.get(record.spec.name, 0) != record.requeue_of:
                    raise Violation("run_twice", f"{record.spec.name} is submitted again as job {record.job}")
                self._names[record.spec.name] = record.job
            case r.ResizeAccepted():
                self._begin(record)
            case r.GroupsLost():
                self._begun.update((record.job, group) for group in record.groups)
            case r.ResizeDone():
                self._agree(record)
            case r.JobEnded():
                self._ended(record)
            case r.NodesClean():
                self._clean(record)
            case r.NodesLost():
                self._given_up(record)
            case _:
                pass

    def _begin(self, record: r.ResizeAccepted) -> None:
        job = self._audit.jobs[record.job]
        if job.offer is not None and job.accepted:
            self._begun.update((record.job, group.id) for group in job.offer.arriving)

    @staticmethod
    def written(job: int, waiting: Iterable[r.Record]) -> None:
        """What is begun for a job is in the journal, and not in memory alone: ``waiting`` is not written yet."""
        for record in waiting:
            if isinstance(record, r.JobStarted | r.ResizeOffered | r.ResizeAccepted) and record.job == job:
                raise Violation("wrong", f"job {job}: begun before this was written: {record}")

    def starts(self, order: m.StartGroup, name: str) -> None:
        """What a group is started for has been recorded, and its job has not ended; or the node called ``name`` is not
        clean of it, where an order that comes again is followed by the one to end it."""
        self._groups.sized(order, name)
        job = self._audit.jobs.get(order.job)
        arriving = job.offer.arriving if job is not None and job.offer is not None and job.accepted else ()
        wanted = job is not None and job.started and order.group in job.groups
        if job is not None and wanted:
            groups = len(job.groups) if self._world.ledger.specs_by_number[order.job].one_world else 1
            if len(order.world.sizes) != groups:
                raise Violation("wrong", f"job {order.job} gets a world over {len(order.world.sizes)} nodes")
        begun = (order.job, order.group) in self._begun  # and perhaps over again, in the same instant
        state = self._world.head.cluster.core.state
        number = next((number for number, called in state.nodes.names.items() if called == name), 0)
        begun = begun or bool(state.nodes.dirty.get(order.job, 0) >> number & 1)
        if not wanted and not begun and order.group not in {group.id for group in arriving}:
            raise Violation(
                "run_twice", f"group {order.group} of job {order.job} is started, and no record says so"
            )

    def spawned(self, job: int, group: int, rank: int) -> None:
        """No rank of a group is started twice, but by a controller whose predecessor could not write of the first."""
        if (job, group, rank) in self._spawned:
            raise Violation("run_twice", f"rank {rank} of group {group} of job {job} is started again")
        self._spawned.add((job, group, rank))
        self._groups.spawned(job, group)

    def _given_up(self, record: r.NodesLost) -> None:
        """A node whose agent is there is given up only where something made it unable to prove that it is clean."""
        names = self._world.head.cluster.core.state.nodes.names
        for name in (names[number] for number in record.nodes):
            link = self._world.head.links.get(name)
            if (
                link is not None
                and link.open
                and link.ready
                and not GIVEN_UP & self._world.ledger.touched_node(name)
            ):
                raise Violation("lost", f"{name} is given up, though nothing keeps it from being clean")

    def _agree(self, record: r.ResizeDone) -> None:
        """Both ends have the same groups, in the same epoch, with the same root."""
        state = self._world.head.cluster.core.state
        job = state.jobs.get(record.job)
        if job is None:
            return
        self._done_by(record, job.epoch)
        slots = {group: state.nodes.slots.get(node, 1) for group, node in state.groups(job).items()}
        slots |= job.awake
        for members in self._world.roster.members(record.job, job.epoch):
            if members != slots:
                raise Violation(
                    "wrong",
                    f"job {record.job} in epoch {job.epoch}: it has {members} awake, the core {slots}",
                )
        side = self._world.head.cluster.lives[record.job].side
        if (side.epoch, side.root) != (job.epoch, job.root):
            raise Violation(
                "wrong", f"job {record.job}: its session is in epoch {side.epoch}, the core {job.epoch}"
            )

    def _done_by(self, record: r.ResizeDone, epoch: int) -> None:
        """Who has said that a resize is done has itself come to the next epoch."""
        liar = own_words(self._world.ledger.specs_by_number[record.job].command)[0] == "liar"
        for proc, now in () if liar else self._world.roster.epochs(record.job):
            if now < epoch and (proc.group, proc.rank) == (self._roots.get(record.job, 0), 0):
                raise Violation(
                    "wrong",
                    f"resize {record.resize} of job {record.job} is done, and its root is in epoch {now}",
                )
        self._roots[record.job] = record.root

    def _ended(self, record: r.JobEnded) -> None:
        world, state = self._world, record.state
        self.states[state] += not record.requeued
        if problems := world.ledger.fabric(record.job).problems:
            raise Violation("wrong", problems[0])
        if state is JobState.COMPLETED:
            if problem := self._unfinished(record.job, record.result):
                raise Violation("lost", f"job {record.job} is COMPLETED, but {problem}")
            used = world.ledger.fabric(record.job).cpu_s
            # What a node's ranks have used is gone with its agent where another controller asks for it.
            told = not (world.resumed and self._returned)
            if told and world.ledger.touched(record.job) <= {"malleable", "rigid"} and record.cpu_s != used:
                raise Violation(
                    "wrong", f"job {record.job} has used {used} s, and its end tells {record.cpu_s}"
                )
        elif state is JobState.FAILED and not (record.error.partition("\n")[0] or record.exit_code):
            raise Violation("wrong", f"job {record.job} has failed, and nothing tells why")
        elif not ALLOWED[state] & world.ledger.touched(record.job):
            touched = ", ".join(sorted(world.ledger.touched(record.job))) or "nothing"
            story = "; ".join([*world.ledger.fabric(record.job).story][-3:])
            raise Violation(
                "lost",
                f"job {record.job} ended {state} ({record.error.splitlines()[:1]}), and met {touched}: {story}",
            )
        else:
            self._goes_on(record)

    def _unfinished(self, job: int, result: str | None) -> str:
        """What is wrong with the result of a job that has completed; empty if nothing is."""
        ledger = self._world.ledger
        what, *numbers = own_words(ledger.specs_by_number[job].command)
        if what not in ("malleable", "places"):
            return ""
        wanted = int(numbers[0])
        said = read_result(result).steps if result else None
        done = ledger.fabric(job).tasks or ledger.fabric(job).result().steps
        return "" if said == done == wanted else f"of {wanted} steps it did {done} and says {said}"

    def _goes_on(self, record: r.JobEnded) -> None:
        """A job that can go on without a group that is lost has done so, if nothing but losses met it."""
        world = self._world
        life = world.head.cluster.lives.get(record.job)
        if (
            life is None
            or KINDS[life.spec.kind].loss is not Loss.IS_TOLD
            or world.ledger.touched(record.job) - LOSSES
        ):
            return
        if record.state in (JobState.FAILED, JobState.NODE_FAIL) and life.side.root not in life.losses:
            raise Violation(
                "lost", f"job {record.job} ended {record.state}, and its root was there: {record.error}"
            )

    def _clean(self, record: r.NodesClean) -> None:
        state = self._world.head.cluster.core.state
        for number in record.nodes:
            if (node := self._world.roster.nodes.get(state.nodes.names[number])) is None:
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
        self._begun.clear()
        head = self._world.head
        if self._open_before and not (head.cluster.resuming or head.pending):
            self._rolled_back()
        for number in head.cluster.core.state.resizing:
            life = head.cluster.lives[number]
            root = life.groups[life.side.root]
            if not (root.alive and head.reaches(root.node)):
                continue  # it will be told when its agent is back, if that is to be
            for group in life.groups.values():
                lost = not group.alive and not group.joined and life.side.state not in ("new", "closed")
                if lost and (number, group.number) not in head.told_lost:
                    raise Violation("wrong", f"job {number} is not told that newcomer {group.number} is gone")

    def _rolled_back(self) -> None:
        """What was open when the controller began, and is still, has been taken back."""
        for job in self._world.head.cluster.core.state.resizing.values():
            resize = job.resize if job.ending is None else None
            kept = resize is not None and resize.stage in (resizing.OFFERED, resizing.ACCEPTED)
            if resize is not None and kept and resize.id in self._open_before:
                raise Violation("wrong", f"resize {resize.id} was open at the restart, and still is")
        self._open_before.clear()

    def look(self) -> None:
        """The waits: each has a time by which it ends."""
        head = self._world.head
        if head.pending or head.cluster.resuming:
            return  # what has come is not yet dealt with
        self.waits()
        self._tidy()
        for node in self._world.roster.nodes.values():
            if node.agent is not None:
                node.agent.helpers.look()

    def _tidy(self) -> None:
        """What is on each node."""
        state = self._world.head.cluster.core.state
        for number, name in state.nodes.names.items():
            if (node := self._world.roster.nodes.get(name)) is not None:
                self._belongs(number, node)

    def timed(self) -> None:
        """Walltimes, resizes and proofs end in time."""
        head = self._world.head
        if not (head.pending or head.cluster.resuming):
            self._limits()
            self._proofs_timed()

    def _limits(self) -> None:
        """The walltimes of jobs, and the deadlines of resizes."""
        timers, state = self._world.head.timers, self._world.head.cluster.core.state
        for end, number, job in state.running:
            if job.limited and job.ending is None and end < self._world.clock.now - LATE_S:
                raise Violation("stuck", f"job {number} goes on behind its walltime, over at {end:.3f} s")
        for job in state.resizing.values():
            resize = job.resize
            if resize is not None and resize.deadline == NEVER and resize.stage != resizing.WITHDRAWN:
                raise Violation(
                    "stuck", f"resize {resize.id} of job {job.id} waits without end in {resize.stage}"
                )
            due = self.handled.overdue.due(job, resize) if resize is not None and not job.ending else NEVER
            if resize is not None and due != NEVER and ("wake",) not in timers:
                raise Violation("stuck", f"nobody looks at the deadline of resize {resize.id}")
            if resize is not None and due < self._world.clock.now - LATE_S:
                raise Violation("stuck", f"resize {resize.id} is {resize.stage}, and its deadline is over")

    def _proofs_timed(self) -> None:
        timers, state = self._world.head.timers, self._world.head.cluster.core.state
        for job_number, mask in state.nodes.dirty.items():
            for node in (bit for bit in range(mask.bit_length()) if mask >> bit & 1):
                if ("proof", job_number, node) not in timers:
                    raise Violation(
                        "stuck", f"node {node} is waited for, to be clean of job {job_number}, for ever"
                    )

    def _belongs(self, number: int, node: Node) -> None:
        """No process is there of a job that has ended, where the node is not waited for to be clean of it."""
        state = self._world.head.cluster.core.state
        link = self._world.head.links.get(node.name)
        if link is None or not (link.open and link.ready):
            return  # whoever starts the next agent ends them
        for proc in node.processes.values():
            waited = (state.nodes.dirty.get(proc.job, 0) | state.nodes.lost_mask) >> number & 1
            job = state.jobs.get(proc.job)
            resize = job.resize if job is not None else None
            mine = set(state.groups(job)) if job is not None and job.size else set()
            mine |= {group.id for group in resize.arriving} if resize is not None else set()
            if proc.group not in mine and not waited and not proc.dying and proc.program is not None:
                raise Violation(
                    "leaked", f"{node.name} has a process of job {proc.job}, and counts as clean of it"
                )

    def waits(self) -> None:
        """What the lives of jobs wait for: the timer that ends each wait is there."""
        head = self._world.head
        if head.pending or head.cluster.pending or head.cluster.resuming:
            return
        jobs = head.cluster.core.state.jobs
        timers = head.timers
        for number, life in head.cluster.lives.items():
            alive = life.alive()
            if life.ended or number not in jobs:
                continue
            needed: list[o.Key] = [("start", number, group.number) for group in alive if not group.started]
            needed += [("gone", number, group.number) for group in alive if group.killed]
            willing = any(group.joined and not group.killed for group in alive)
            if willing and jobs[number].ending is not None:
                needed.append(("kill", number))
            if not alive and (life.groups or jobs[number].ending is not None):
                needed.append(("tail", number))  # else its start waits for the disk
            if willing and jobs[number].ending is None and life.side.state not in ("new", "closed"):
                needed += [
                    ("linger", number, group.number)
                    for group in life.groups.values()
                    if group.joined and not group.released and group.is_over
                ]
            if missing := [key for key in needed if key not in timers]:
                raise Violation("stuck", f"job {number} waits without end: there is no timer {missing[0]}")

    def idle(self) -> None:
        """All has ended, and nobody has been told to leave: what is still known of it is little, and in the journal."""
        world = self._world
        for node in world.roster.nodes.values():
            agent = node.agent
            link = world.head.links.get(node.name)
            if (
                agent is None
                or link is None
                or not link.ready
                or world.ledger.touched_node(node.name) & UNSETTLED
            ):
                continue
            if world.ledger.hung_s(node.name) or agent.is_behind:
                continue
            agent.helpers.idle()
            agent.audit.idle()
            if timers := agent.waits_for():
                raise Violation("leaked", f"{node.name} waits for {timers}, and nothing goes on there")
            if world.head.cluster.held_back:
                continue  # of what is in no journal yet nothing has been acknowledged
            if files := agent.files():
                raise Violation("leaked", f"{node.name} has {files} of groups that are over")
            if agent.kept() > KEPT + KEPT_OF_A_GROUP * agent.had:
                raise Violation("leaked", f"{node.name} keeps {agent.kept()} things of what is over")
        if world.disk.full or not world.head.alive:
            return
        core, names = world.head.cluster.core, world.head.cluster.core.state.nodes.names
        kept = weigh(world.head.cluster) - weigh(core.state.over)  # ends stay until a pass has read them
        asking = any(
            key[0] == "proof" for key in world.head.timers
        )  # as a controller does that has just begun again
        if kept > KEPT_OF_RUN + KEPT_OF_A_NODE * len(names) and not asking:
            raise Violation("leaked", f"the controller keeps {kept} things, and nothing is left of any job")
        self.journal()

    def journal(self) -> None:
        """What is in the journal tells all that the controller knows."""
        world = self._world
        journal = read(bytes(world.disk.data).splitlines(keepends=True))
        state = world.head.cluster.core.state
        if journal.torn:
            raise Violation("lost", "the last record of the journal is not whole")
        folded = replay(journal.records, journal.header.settings).snapshot()
        if wrong := [name for name, value in state.snapshot().items() if folded[name] != value]:
            raise Violation("lost", f"the journal tells otherwise of {wrong[0]}: {folded[wrong[0]]}")

    def end(self) -> None:
        """Nothing is left, and nothing waits."""
        world = self._world
        state = world.head.cluster.core.state
        if state.jobs:
            names = ", ".join(f"{job.id} ({job.state})" for job in state.jobs.values())
            raise Violation("stuck", f"at the end these jobs have not ended: {names}")
        if left_over := [number for number in world.head.cluster.lives if number not in state.nodes.dirty]:
            raise Violation("leaked", f"at the end the lives of jobs {left_over} are not forgotten")
        ended = sum(not end.requeued for end in self._audit.ended.values())
        if ended != len(world.specs) and not world.ledger.ended:
            raise Violation("lost", f"{len(world.specs)} jobs, and {ended} have ended")
        for node in world.roster.nodes.values():
            number = next((n for n, name in state.nodes.names.items() if name == node.name), None)
            lost = number is None or state.nodes.lost_mask >> number & 1
            if node.agent is not None and not lost and not self._world.ledger.touched_node(node.name):
                raise Violation("stuck", f"the agent of {node.name} was told to leave, and is still there")
            if node.processes and not lost and node.agent is None:
                left = [(proc.job, proc.group, proc.rank) for proc in node.processes.values()]
                raise Violation("leaked", f"at the end {node.name} has {left}")

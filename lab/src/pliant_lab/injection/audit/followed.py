"""More of what has to follow from what a controller is told, in the same call: nothing that came is passed over, and
what is kept of a job is what was recorded of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.live.cluster import orders as o
from pliant.model.errors import ProtocolError
from pliant.model.nodes import NodeSet
from pliant.protocol import codec, resizing
from pliant.protocol import messages as m
from pliant_lab.injection.audit.amid import amid_s
from pliant_lab.injection.audit.fences import Pieces
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.ledger import own_bounds
from pliant_lab.injection.standins.running import own_words

if TYPE_CHECKING:
    from pliant.core.job import ScheduledJob
    from pliant.live.job.life import JobLife
    from pliant_lab.injection.world import World


class Followed:
    """Of one controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._agents = codec.from_agent()
        self._asked = world.policy.asked
        self._pieces = Pieces()
        self._resuming = False

    def look(
        self, inputs: Sequence[o.AnyInput], records: Sequence[r.Record], outputs: Sequence[o.Output]
    ) -> None:
        if records:
            self._counted(records)
        self._heard_out()
        self._gone_on(inputs)
        self._policy_replaced()
        errors = [
            each.nodes
            for each in outputs
            if isinstance(each, o.Send) and not each.id and isinstance(each.message, m.Error)
        ]
        for given in inputs:
            if isinstance(given, o.Returned):
                self._returned(given.names)
            elif isinstance(given, o.Said) and not self._readable(given) and (given.node,) not in errors:
                raise Violation("lost", f"{given.node} is not told that it cannot be understood")
        for output in outputs:
            if isinstance(output, o.Send):
                self._sent(output.message)

    def _counted(self, records: Sequence[r.Record]) -> None:
        """The numbers of nodes, and where jobs are on their way to."""
        state = self._world.head.cluster.core.state
        there = state.nodes.all_mask & ~state.nodes.lost_mask & ~state.nodes.parked_mask
        if (state.nodes.free, state.nodes.total) != (state.nodes.free_mask.bit_count(), there.bit_count()):
            raise Violation(
                "wrong", f"{state.nodes.free} of {state.nodes.total} nodes are free, by the counts alone"
            )
        for number in {getattr(record, "job", 0) for record in records}:
            job = state.jobs.get(number)
            if job is not None and job.resize is None and job.target != job.size:
                raise Violation(
                    "wrong", f"job {job.id} has {job.size} nodes and is on its way to {job.target}"
                )

    def _heard_out(self) -> None:
        """Nothing is decided before all agents have said again what may not have been recorded."""
        was, self._resuming = self._resuming, self._world.head.cluster.resuming
        if not was or self._resuming:
            return
        nodes = self._world.head.cluster.core.state.nodes
        lost = nodes.called(NodeSet(nodes.lost_mask))
        for name, link in self._world.head.links.items():
            if link.open and link.ready and link.told < link.repeats and name not in lost:
                raise Violation("lost", f"the controller goes on, and {name} has not said all that it had")

    def _gone_on(self, inputs: Iterable[o.AnyInput]) -> None:
        """When what has held it up is over, it decides."""
        asked, self._asked = self._asked, self._world.policy.asked
        cluster, state = self._world.head.cluster, self._world.head.cluster.core.state
        if not any(isinstance(each, o.Release) for each in inputs):
            return
        held = cluster.core.held or cluster.resuming or state.policy_failed or state.settings.pass_interval_s
        if not (held or amid_s(state)) and (state.nodes.free or state.waiting) and asked == self._asked:
            raise Violation("stuck", "nothing holds the controller up any more, and it decides nothing")

    def _policy_replaced(self) -> None:
        if self._world.policy.nonsense and not self._world.head.cluster.core.state.policy_failed:
            raise Violation("wrong", f"the policy decides {self._world.policy.nonsense}, and goes on")

    def _returned(self, names: Iterable[str]) -> None:
        nodes = self._world.head.cluster.core.state.nodes
        if kept := sorted({*names}.intersection(nodes.called(NodeSet(nodes.all_mask & ~nodes.lost_mask)))):
            raise Violation("lost", f"{kept} were taken back, and no record tells")

    def _readable(self, said: o.Said) -> bool:
        try:
            self._agents.decode(said.message)
        except ProtocolError:
            return False
        return True

    def _sent(self, message: m.ControllerMessage) -> None:
        if isinstance(message, m.Fenced):
            self._pieces.look(message)
        elif isinstance(message, m.Deliver) and b'"error"' in bytes(message.message)[:20]:
            what = own_words(self._world.ledger.specs_by_number[message.job].command)[0]
            if what != "liar":
                raise Violation("wrong", f"job {message.job} hears {bytes(message.message)[:200]!r}")

    def greeted(self, number: int, size: int, mine: Sequence[type[r.Record]]) -> None:
        """A job runs from its hello on, or is ended where it allows no size that it may have."""
        spec = self._world.ledger.specs_by_number[number]
        own = own_bounds(spec) or spec.nodes
        both = spec.nodes.intersect(own)
        may = both is not None and both.allows(size)
        if (r.JobRunning if may else r.JobEnding) not in mine or (not may and r.JobRunning in mine):
            raise Violation("wrong", f"job {number} on {size} nodes allows {own}, and is recorded as {mine}")

    # ---- from time to time ---------------------------------------------------------------------------

    def waits(self) -> None:
        head = self._world.head
        if head.pending or head.cluster.pending or head.cluster.resuming or head.cluster.held_back:
            return
        jobs = head.cluster.core.state.jobs
        for number, life in head.cluster.lives.items():
            if number not in jobs or life.ended:
                continue
            self._on_nodes(life)
            self._losses_told(life)
            if life.groups and jobs[number].ending is None:
                self._same(life, jobs[number])

    def _on_nodes(self, life: JobLife) -> None:
        """What lives of a job is on nodes that there are."""
        state = self._world.head.cluster.core.state
        for group in life.alive():
            if not (state.nodes.all_mask & ~state.nodes.lost_mask) >> group.node & 1:
                raise Violation(
                    "lost", f"group {group.number} of job {life.number} was on a node that is lost"
                )

    def _losses_told(self, life: JobLife) -> None:
        """Who speaks for the job has been told of all groups that it has lost."""
        head, root = self._world.head, life.groups.get(life.side.root)
        if not life.losses or root is None or not root.alive or life.side.state in ("new", "closed"):
            return
        missing = {each for each in life.losses if (life.number, each, root.number) not in head.told_losses}
        if missing and head.reaches(root.node):
            raise Violation("wrong", f"job {life.number} is not told that groups {sorted(missing)} are lost")

    def _same(self, life: JobLife, job: ScheduledJob) -> None:
        """The life of a job and the records of it agree."""
        state, resize = self._world.head.cluster.core.state, job.resize
        # A start that is taken back at once is never made.
        arriving = resize.arriving if resize is not None and resize.stage == resizing.ACCEPTED else ()
        groups = {*state.groups(job), *(group.id for group in arriving)}
        if missing := sorted(groups - life.groups.keys()):
            raise Violation("lost", f"job {job.id} has groups {missing}, and nobody looks after them")
        over = {group.number for group in life.groups.values() if group.is_over}
        gone = {
            group for group, node in state.groups(job).items() if state.nodes.lost_mask >> node & 1
        } - over
        gone |= life.losses.keys() & state.groups(job).keys()
        if gone and not all(group.killed for group in life.alive()):
            raise Violation("lost", f"job {job.id} has lost groups {sorted(gone)}, and no record tells")
        if (life.side.root, life.side.epoch) != (job.root, job.epoch):
            raise Violation("wrong", f"job {job.id} has root {job.root}, and its session {life.side.root}")

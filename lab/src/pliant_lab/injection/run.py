"""A world's run: faults at drawn times, until nothing is left to do, and everything is looked at meanwhile.

Everything below sockets, clocks, files and exec is the code that is shipped.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from pliant.core import records as r
from pliant.live.cluster import orders as o
from pliant.model.deadlines import CHANNEL_AGAIN_S
from pliant.model.kinds import KINDS, Loss
from pliant.protocol import messages as m
from pliant.protocol import resizing
from pliant_lab.injection.audit.checks import Checks
from pliant_lab.injection.audit.verdict import Verdict
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.drawn import RARE, SEEKING, draw_faults
from pliant_lab.injection.faults import AT_ONCE, FAULTS, FENCE_S, LOOKS, MEANWHILE
from pliant_lab.injection.nodes import Life
from pliant_lab.injection.spawning.expansion import expansions
from pliant_lab.injection.tree.launches import launch
from pliant_lab.injection.tree.restarts import restart
from pliant_lab.injection.world import World

LAUNCHES, RESTARTS = 5, 2
"""Over a tree, before all else."""
LIVES, STEPS = 2, 120
"""Fleets without processes, and how much happens in each, before all else too."""
LONGEST_S = 50_000.0
"""Of virtual time: what is not over by then is stuck."""
MOST_EVENTS, MOST_OF_A_NODE = 3_000_000, 30_000
"""So many things happen at most, and on each node: an agent looks for its controller ten times a second."""
HANGING_ON = 0.1
"""The share of agents to which somebody holds a connection when all is over."""
ACK_S = 0.1
"""What has been recorded is acknowledged so soon, where nothing is wrong with the link."""
LEAVE_S = 15.0
"""All agents have left so long after they were told to."""
QUIET_S = 3000.0
"""If nothing has been recorded for so long, nothing ever will be."""
LOOK = 1000
"""After so many things that have happened everything is looked at as a whole."""
CROSSING, CROSSING_OTHERS = 0.25, 0.65
"""The share of acceptances that cross the loss of what was accepted, or the time that they had; for growths of jobs
that a loss does not end, of which there are few."""
_MOVES = r.ResizeOffered | r.ResizeAccepted | r.ResizeWithdrawn


class WorldRun:
    """One seed's world under these faults, and the witness of all that happens there."""

    def __init__(
        self, seed: int, faults: Iterable[str] = FAULTS, *, telling: bool = False, grace: float | None = None
    ) -> None:
        self._names = [name for name in FAULTS if name in set(faults)]
        self.world = World(seed, grace, mortal="kill-head" in self._names, telling=telling)
        self.checks = Checks(self.world)
        self._seed = seed
        self._most = max(MOST_EVENTS, MOST_OF_A_NODE * len(self.world.roster.nodes))
        self._expansions: Counter[str] = Counter()
        self._ambushes: dict[str, list[str]] = {}
        self._begun = False
        self._news_at = 0.0
        self.world.outside.witness = self
        self.world.on_resumed = self.checks.begin_again

    # ---- the witness ---------------------------------------------------------------------------------

    def recorded(self, records: Sequence[r.Record]) -> None:
        world, ledger = self.world, self.world.ledger
        for record in records:
            self._news_at = world.clock.now
            if not self._begun:
                self._begin()
            if isinstance(record, r.JobSubmitted):
                ledger.specs_by_number[record.job] = record.spec
            if isinstance(record, r.JobStarted):
                ledger.holds(record.job, record.nodes, record.at)
            elif isinstance(record, r.JobEnding) and self._blocks(record.job):
                ledger.touch(record.job, "in merge")
            elif isinstance(record, r.ResizeDone):
                ledger.holds(record.job, record.gained, record.at)
            if world.outside.telling:
                world.outside.tell(repr(record)[:300])
            self.checks.record(record)
            if isinstance(record, _MOVES):
                self._spring(record.job)

    def _blocks(self, job: int) -> bool:
        """Whether the job waits in MPI for a newcomer that was killed: nothing but its end gets it out."""
        if "newcomer killed" not in self.world.ledger.touched(job):
            return False
        procs = self.world.roster.processes(job)
        waits = (proc.program.waiting for proc in procs if proc.program is not None)
        return any(wait is not None and wait.watchdog for wait in waits)

    def handled(
        self, inputs: Sequence[o.AnyInput], records: Sequence[r.Record], outputs: Sequence[o.Output]
    ) -> None:
        self.checks.handled.look(inputs, records, outputs)

    def sends(self, message: m.ControllerMessage, node: str, waiting: Iterable[r.Record]) -> None:
        if isinstance(message, m.StartGroup):
            self.checks.starts(message, node)
            self.checks.written(message.job, waiting)
        elif isinstance(message, m.Deliver) and b'"offer"' in bytes(message.message):
            self.checks.written(message.job, waiting)

    def checked(self) -> None:
        world, happened = self.world, self.world.clock.happened
        cluster = world.head.cluster
        self.checks.told()
        if happened % 8 == 0:
            self.checks.waits()
        if happened % 64 == 0:
            self.checks.handled.waits()
            self.checks.timed()
        up_to_date = world.ledger.ended or world.submitted == len(world.specs)
        if cluster.idle and up_to_date and not cluster.pending:
            world.outside.over = True

    def torn(self) -> None:
        self.world.head_crashed()

    def spawned(self, job: int, group: int, rank: int) -> None:
        self.checks.spawned(job, group, rank)

    def order(self, given: o.Resize) -> None:
        self.checks.handled.order(given)

    def accepts(self, job: int, node: str) -> None:
        """Now and then that takes its time, and a newcomer's node is lost meanwhile."""
        world = self.world
        link, jobs = world.head.links.get(node), world.head.cluster.core.state.jobs
        if job not in jobs or link is None or "lose-reserved" not in self._names:
            return
        if world.random.random() >= self._crossing(job):
            return
        resize = jobs[job].resize
        if resize is not None and not resize.arriving:
            seconds = world.random.uniform(1.0, 25.0)
            link.up.stall(seconds)
            link.down.stall(seconds)
            world.ledger.touch_node(node, "link stalled")
            return
        link.up.latency_s = world.random.uniform(0.3, 1.0)
        world.ledger.touch_node(node, "slow link")
        self._fault("lose-reserved", 0, job)

    def _crossing(self, job: int) -> float:
        spec, resize = (
            self.world.ledger.specs_by_number[job],
            self.world.head.cluster.core.state.jobs[job].resize,
        )
        grows = resize is not None and resize.arriving
        return CROSSING_OTHERS if grows and KINDS[spec.kind].loss is not Loss.ENDS_JOB else CROSSING

    # ---- faults --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """All nodes are there."""
        self._begun = True
        self.world.head.tell(o.Batch(self.world.specs))
        self._plan()

    def _plan(self) -> None:
        """When which fault comes."""
        world = self.world
        # Agents that outlive their controller are not taken away.
        names = [name for name in self._names if name != "take-away" or not world.outside.grace]
        timed, self._ambushes = draw_faults(world.random, names, world.specs[-1].submit_s + 20.0)
        if world.roster.site.slots > 1 and "order" in names:
            ends = world.specs[-1].submit_s + 20.0
            timed += [
                (world.random.uniform(1.0, ends), "order", 5) for _ in range(world.random.randint(0, 40))
            ]
        for at, name, patience in timed:
            world.clock.at(at, partial(self._fault, name, patience))

    def _spring(self, job: int) -> None:
        """A fault that has waited for a job to come to the state in which this one is now, comes a little later."""
        stage = self.world.ledger.cells.stage(job)
        waiting, random = self._ambushes.get(stage, []), self.world.random
        names = [name for name in SEEKING if name in waiting]
        others = [name for name in waiting if name not in SEEKING]
        names += random.sample(others, min(len(others), 2 if stage in RARE else random.random() < 0.7))
        for name in names:
            waiting.remove(name)
            if (name, stage) in AT_ONCE:
                self._fault(name, 0, job, stage)
                continue
            delay_s = random.choice([0.0, 0.001, 0.05])
            patience = LOOKS if name == "kill-in-fence" else 0
            self.world.clock.later(delay_s, partial(self._fault, name, patience, job, stage))

    def _fault(self, name: str, patience: int, job: int = 0, stage: str = "") -> None:
        world = self.world
        if world.outside.over or world.ledger.ended or not (world.head.alive or name in MEANWHILE):
            return
        if stage and world.ledger.cells.stage(job) != stage:
            self._ambushes[stage].append(name)  # too late
            return
        before = {
            number: world.ledger.cells.stage(number) for number in world.head.cluster.core.state.resizing
        }
        if stage:
            before[job] = stage  # the controller may be further already
        met = FAULTS[name](world, job)
        if met is None:
            if patience:
                wait_s = FENCE_S if stage else world.random.uniform(0.1, 2.0)
                world.clock.later(wait_s, lambda: self._fault(name, patience - 1, job, stage))
            elif stage and name in SEEKING:
                self._ambushes[stage].append(name)
            return
        world.outside.note(met, name)
        phases = {before.get(number, resizing.NONE) for number in met} if met else set(before.values())
        world.ledger.met.update((name, phase) for phase in phases or {resizing.NONE})

    # ---- the run -------------------------------------------------------------------------------------

    def run(self) -> Verdict:
        """Until all is over; the violation that ended it, if one did. Before it, agents are launched over a tree, as
        those of the world itself are not yet, also under controllers that begin again, and jobs of a bare mpiexec
        expand."""
        world, outside = self.world, self.world.outside
        violation = None
        try:
            for number in range(LAUNCHES):
                launch(self._seed, number, disturbed=bool(self._names))
            for number in range(RESTARTS if self._names else 0):
                restart(self._seed, number)
            for number in range(LIVES if self._names else 0):
                world.moves += Life(self._seed * LIVES + number, STEPS).shell.moves
            told = outside.story if outside.telling else None
            self._expansions = expansions(self._seed, told, disturbed=bool(self._names))
            world.head.tell(o.Begin(len(world.roster.nodes)))
            while not outside.over:
                self._step()
            self._let(ACK_S + (8.0 * CHANNEL_AGAIN_S if outside.lossy else 0.0))
            self.checks.idle()
            for node in world.roster.nodes.values():
                if node.agent is not None and world.random.random() < HANGING_ON:
                    node.agent.hung_on()
            world.head.driver.close()
            self._let(LEAVE_S)
            self.checks.end()
        except Violation as found:
            violation = found
        except Exception as error:  # noqa: BLE001 - a machine that raises is a violation too
            where = "".join(traceback.format_tb(error.__traceback__)[-3:])
            violation = Violation("wrong", f"{type(error).__name__}: {error}\n{where}")
        return self._verdict(violation)

    def _step(self) -> None:
        """Let the next thing happen, and look at it all now and then."""
        world, clock = self.world, self.world.clock
        if not clock.step(LONGEST_S):
            raise Violation("stuck", f"nothing is left to happen: {self._waits()}")
        if clock.happened > self._most:
            raise Violation("stuck", f"after {self._most} things that happened it is not over")
        if clock.now > self._news_at + QUIET_S and self._are_undead() and not world.ledger.ended:
            world.end_all()  # as a user does who sees that a job does not end
            self._news_at = clock.now
        if clock.now > self._news_at + QUIET_S:
            raise Violation("stuck", f"nothing has been recorded for {QUIET_S:g} s: {self._waits()}")
        if clock.happened % LOOK == 0 and world.head.alive:
            self.checks.look()
            if self._reads_journal() and not (world.disk.problem or world.disk.full):
                self.checks.journal()

    def _are_undead(self) -> bool:
        """Whether all jobs that run are left with processes that were killed by their agents, and do not go: no
        controller ends such a job by itself."""
        running = {job.id for _, _, job in self.world.head.cluster.core.state.running}
        procs = [
            each
            for node in self.world.roster.nodes.values()
            for each in node.processes.values()
            if each.job in running
        ]
        return bool(running) and running == {each.job for each in procs if each.dying}

    def _reads_journal(self) -> bool:
        """Whether it is time to do so: each time it takes longer, and there is as much time before the next."""
        return (self.world.clock.happened // LOOK).bit_count() == 1

    def _waits(self) -> str:
        """Who waits for what."""
        state = self.world.head.cluster.core.state
        few = islice(state.jobs.values(), 5)
        jobs = [f"job {job.id} is {job.state} on {job.size} ({job.bounds.describe()})" for job in few]
        waits = [
            f"{proc.job}.{proc.group}.{proc.rank} on {node.name}: {proc.program.waiting.what}"
            for node in self.world.roster.nodes.values()
            for proc in node.processes.values()
            if proc.program is not None and proc.program.waiting is not None
        ]
        there = state.nodes
        nodes = f"{there.free} free, {there.lost_mask.bit_count()} lost of {there.all_mask.bit_count()}"
        return "; ".join(
            [*jobs, nodes, *waits[:8], f"dirty {there.dirty}", f"timers {self.world.head.timers}"]
        )

    def _let(self, seconds: float) -> None:
        """Let what is under way arrive."""
        end = self.world.clock.now + seconds
        while self.world.clock.step(end):
            pass

    def _verdict(self, violation: Violation | None) -> Verdict:
        world = self.world
        cells = world.ledger.cells
        ended = Counter({str(state): count for state, count in self.checks.states.items()})
        return Verdict(
            self._seed, violation.kind if violation is not None else "", str(violation or ""), world.outside.story,
            len(world.specs), len(world.roster.nodes), ended, cells.offered, cells.done, cells.slots, cells.visited,
            world.ledger.met, self._expansions, world.moves + world.head.control.fleet.moves,
        )  # fmt: skip

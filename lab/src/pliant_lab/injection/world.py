"""The world: nodes, a controller, jobs and faults, all drawn from one seed and driven until nothing is left to do.

Everything below sockets, clocks, files and exec is the code that is shipped.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from random import Random

from pliant.core import records as r
from pliant.core.journal import read
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Site
from pliant.live.fleet.stages import Happens, NodeStage
from pliant.model.deadlines import CHANNEL_AGAIN_S
from pliant.model.kinds import KINDS, Loss
from pliant.protocol import resizing
from pliant_lab.injection.audit.amid import amid_s
from pliant_lab.injection.audit.checks import Checks
from pliant_lab.injection.audit.touched import Touched
from pliant_lab.injection.audit.verdict import Verdict
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.clock import Clock
from pliant_lab.injection.drawn import (
    RARE,
    SEEKING,
    draw_faults,
    draw_grace,
    draw_jobs,
    draw_policy,
    draw_settings,
)
from pliant_lab.injection.faults import AT_ONCE, FAULTS, FENCE_S, LOOKS, MEANWHILE
from pliant_lab.injection.nodes import Life
from pliant_lab.injection.spawning.expansion import expansions
from pliant_lab.injection.standins.agent import Agent
from pliant_lab.injection.standins.head import Disk, Head
from pliant_lab.injection.standins.node import Node
from pliant_lab.injection.standins.process import Proc
from pliant_lab.injection.standins.programs import read_result
from pliant_lab.injection.standins.running import own_words
from pliant_lab.injection.tree.launches import launch
from pliant_lab.injection.tree.restarts import restart

LAUNCHES, RESTARTS = 5, 2
"""Over a tree, before all else."""
LOSSY = 4
"""One world in so many loses messages."""
LIVES, STEPS = 2, 120
"""Fleets without processes, and how much happens in each, before all else too."""
NAMED = 2
"""One world in so many has a list of hosts."""
LARGE = 100
"""One world in so many has a thousand nodes."""
LONGEST_S = 50_000.0
"""Of virtual time: what is not over by then is stuck."""
MOST_EVENTS, MOST_OF_A_NODE = 3_000_000, 30_000
"""So many things happen at most, and on each node: an agent looks for its controller ten times a second."""
REPEATED = 0.05
"""The share of orders to start a group that come twice."""
EARLY, HAIR_S, LATE, LATE_S = 0.2, 1e-9, 0.1, 0.02
"""The shares of the controller's timers that come early and late, and by how much."""
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
TOO_LONG = 0.1
"""The share of absences of the controller that are longer than agents wait."""
CROSSING, CROSSING_OTHERS = 0.25, 0.65
"""The share of acceptances that cross the loss of what was accepted, or the time that they had; for growths of jobs
that a loss does not end, of which there are few."""
_MOVES = r.ResizeOffered | r.ResizeAccepted | r.ResizeWithdrawn


class World(Touched):
    """One seed's world. ``story`` is what happened, for people; it is told only where ``telling``."""

    def __init__(
        self, seed: int, faults: Iterable[str] = FAULTS, *, telling: bool = False, grace: float | None = None
    ) -> None:
        super().__init__()
        self.seed = seed
        self.grace = draw_grace(seed) if grace is None else grace
        """How long agents outlive their controller; with 0 they end with it."""
        self.lossy = seed % LOSSY == 0
        """Envelopes are lost and doubled on their way, though links stand."""
        self.random = Random(seed)  # noqa: S311 - seeded on purpose
        self.clock = Clock()
        self.over = self.was_full = self.resumed = self.begun = False
        self.ended = self.ended_now = False
        """The run is ended from outside: in good order, or at once."""
        self.story: list[str] = []
        self._telling = telling
        large = seed % LARGE == LARGE - 1
        count = 1000 if large else self.random.randint(3, self.random.choice([6, 16, 64]))
        slots = self.random.choice([1, 1, 1, 2, 3])
        self.nodes = {f"n{i}": Node(self, f"n{i}", slots) for i in range(count)}
        self._slots = slots
        # Where nodes have names of their own, one that was given back comes again behind all others.
        hosts = tuple(f"n{i}" for i in range(2 * count + 8)) if seed % NAMED == 0 else ()
        labels: dict[str, tuple[str, ...]] = {f"n{i}": ("odd",) for i in range(1, 2 * count + 8, 2)}
        self.site = Site(hosts=hosts, slots=slots, labels=labels, source="world", grace_s=self.grace)
        self.needs = Random(~seed)  # noqa: S311 - seeded on purpose
        """What nodes have to have that are asked for; drawn apart, so that all else stays as it is."""
        self._most = max(MOST_EVENTS, MOST_OF_A_NODE * count)
        self.specs = draw_jobs(self.random, count, large=large)
        self.met: Counter[tuple[str, str]] = Counter()
        self._expansions: Counter[str] = Counter()
        self.moves: Counter[tuple[NodeStage, Happens]] = Counter()
        """How often nodes went each way of the table of their lives, under controllers that are gone."""
        self._names = [name for name in FAULTS if name in set(faults)]
        self._ambushes: dict[str, list[str]] = {}
        self._was_held = False
        self._news_at = self._head_since = self._down_since = 0.0
        self.kill_again_s: float | None = None
        """So long after it begins the next controller is killed as well."""
        self.settings = draw_settings(self.random)
        self._policy = draw_policy(self.random)
        self.checks = Checks(self)
        self.disk = Disk()
        self.head = Head(self, self._policy, self.settings, self.disk, resumed=False)

    # ---- jobs ----------------------------------------------------------------------------------------

    def is_newcomer(self, job: int, group: int) -> bool:
        """Whether the group is none of the job's yet: a resize may be done that nobody has recorded."""
        state = self.head.cluster.core.state
        if (live := state.jobs.get(job)) is None or group in (groups := state.groups(live)):
            return False
        return all(proc.group not in groups or epoch <= live.epoch for proc, epoch in self.epochs(job))

    def members(self, job: int, epoch: int) -> Iterator[dict[int, int]]:
        """What the processes of a job that are in ``epoch`` take for its groups, and for the ranks awake in each."""
        for node in self.nodes.values():
            for proc in node.processes.values():
                if proc.job == job and proc.program is not None:
                    team = proc.program.team(epoch)
                    if team is not None:
                        yield team

    def epochs(self, job: int) -> Iterator[tuple[Proc, int]]:
        """The processes of a job that are alive, with the epoch in which each is."""
        for node in self.nodes.values():
            for proc in node.processes.values():
                if proc.job == job and proc.program is not None and not proc.dying:
                    yield proc, proc.program.epoch

    def unfinished(self, job: int, result: str | None) -> str:
        """What is wrong with the result of a job that has completed; empty if nothing is."""
        what, *numbers = own_words(self.specs_by_number[job].command)
        if what not in ("malleable", "places"):
            return ""
        wanted = int(numbers[0])
        said = read_result(result).steps if result else None
        done = self.fabric(job).tasks or self.fabric(job).result().steps
        return "" if said == done == wanted else f"of {wanted} steps it did {done} and says {said}"

    # ---- what befalls the controller -----------------------------------------------------------------

    def fill_disk(self, seconds: float) -> None:
        self.disk.full = self.was_full = True
        self.clock.later(seconds, self._free_disk)

    def _free_disk(self) -> None:
        self.disk.full = False
        self.head.disk_changed()

    def break_policy(self) -> bool:
        broken, self._policy.broken = self._policy.broken, True
        return not broken

    @property
    def policy_name(self) -> str:
        return "" if self._policy.broken else self._policy.name

    @property
    def nonsense(self) -> str:
        """What the policy has decided that cannot be, if it has."""
        return self._policy.nonsense

    @property
    def asked(self) -> int:
        """How often the policy has been asked."""
        return self._policy.asked

    @property
    def asked_at(self) -> float:
        """When it was asked last."""
        return self._policy.asked_at

    def late_pass(self) -> str:
        """What is wrong where the policy was to be asked by now; nothing else."""
        policy, core = self._policy, self.head.cluster.core
        if core.state.policy_failed:
            policy.alarm = None
        if (core.held or self._was_held) and policy.alarm is not None:
            policy.alarm = max(policy.alarm, self.clock.now)
        self._was_held = bool(core.held)
        after_s = self.settings.pass_interval_s + amid_s(core.state) + 0.1
        late = policy.alarm is not None and self.clock.now > policy.alarm + after_s
        return f"the policy wanted to be asked at {policy.alarm:.3f} s" if late else ""

    def end_all(self) -> None:
        """The user ends the run, and now and then has no patience."""
        self.ended = True
        self.head.tell(o.EndAll("its user has ended the run"))
        if self.random.random() < 0.3:
            self.clock.later(self.random.choice([0.0, 0.2, 3.0]), self._end_now)

    def _end_now(self) -> None:
        if not self.over:
            self.ended_now = True
            self.head.tell(o.EndNow())

    # ---- what the parts of the world need of it ------------------------------------------------------

    def latency_s(self) -> float:
        return self.random.choice([1e-4, 1e-3, 5e-3])

    def connected(self, agent: Agent) -> None:
        """An agent that outlives its controllers has come to the one there is."""
        self.head.driver.connected(agent)

    def about(self, moment: float) -> float:
        """When a timer comes: a clock that is read twice may say that it is a little too early, and others may be
        served before it."""
        if self.random.random() < EARLY:
            return moment - HAIR_S
        return moment + self.random.uniform(0.0, LATE_S) if self.random.random() < LATE else moment

    def repeat(self, send: Callable[[], None]) -> None:
        """Now and then an order comes once more, at any time."""
        if self.random.random() < REPEATED:
            self.clock.later(self.random.choice([0.0, 0.01, 1.0, 20.0]), send)

    def new_node(self, name: str) -> Node:
        """A node that is not there."""
        node = self.nodes[name] = Node(self, name, self._slots)
        return node

    def _begin(self) -> None:
        """All nodes are there."""
        self.begun = True
        self.head.tell(o.Batch(self.specs))
        self._plan()

    def recorded(self, records: Iterable[r.Record]) -> None:
        for record in records:
            self._news_at = self.clock.now
            if not self.begun:
                self._begin()
            if isinstance(record, r.JobSubmitted):
                self.specs_by_number[record.job] = record.spec
            if isinstance(record, r.JobStarted):
                self.holds(record.job, record.nodes, record.at)
            elif isinstance(record, r.JobEnding) and self._blocks(record.job):
                self.touch(record.job, "in merge")
            elif isinstance(record, r.ResizeDone):
                self.holds(record.job, record.gained, record.at)
            if self._telling:
                self.tell(repr(record)[:300])
            self.checks.record(record)
            if isinstance(record, _MOVES):
                self._spring(record.job)

    def _blocks(self, job: int) -> bool:
        """Whether the job waits in MPI for a newcomer that was killed: nothing but its end gets it out."""
        if "newcomer killed" not in self.touched(job):
            return False
        procs = (proc for node in self.nodes.values() for proc in node.processes.values() if proc.job == job)
        waits = (proc.program.waiting for proc in procs if proc.program is not None)
        return any(wait is not None and wait.watchdog for wait in waits)

    def checked(self) -> None:
        cluster = self.head.cluster
        self.checks.told()
        if self.clock.happened % 8 == 0:
            self.checks.waits()
        if self.clock.happened % 64 == 0:
            self.checks.handled.waits()
            self.checks.timed()
        if cluster.idle and self._up_to_date() and not cluster.pending:
            self.over = True

    def _up_to_date(self) -> bool:
        return self.ended or self._submitted == len(self.specs)

    @property
    def _submitted(self) -> int:
        """How many jobs were, however often each was."""
        return len({spec.name for spec in self.specs_by_number.values()})

    def tell(self, text: str) -> None:
        if self._telling:
            self.story.append(f"{self.clock.now:10.3f} {text}")

    # ---- the controller's end ------------------------------------------------------------------------

    def head_killed(self) -> None:
        """At once, or while it writes what it makes next."""
        if self.random.random() < 0.5:
            self.head.tearing = True
            self.head.tell(o.Fired(("wake",)))
        else:
            self.head_crashed()

    def head_crashed(self) -> None:
        self.tell("the controller is killed")
        for record in self.disk.waiting():
            if isinstance(record, r.JobEnding):
                self.touch(record.job, "end forgotten")
        self.head.crash()
        for node in self.nodes.values():
            if self.clock.now < node.cut_off_until:
                self.touch_node(node, "link cut")  # it may be without a controller for too long
        self.clock.later(self._away_s(), self._resume)

    def _away_s(self) -> float:
        """How long there is no controller: shorter than agents wait for one that has been there for a while."""
        now, most = self.clock.now, 0.8 * min(self.grace, 60.0)
        if now > self._head_since + 1.0:
            self._down_since = now
        seconds = self.random.uniform(0.1, 2.0)
        if self.grace and self.random.random() < TOO_LONG:
            for node in self.nodes.values():
                self.touch_node(node, "link cut")
            return self.grace * self.random.uniform(1.0, 1.5)
        if self.grace and self.random.random() < 0.3:
            seconds = self.random.uniform(2.0, most)
        return min(seconds, max(0.05, self._down_since + most - now)) if self.grace else seconds

    def _resume(self) -> None:
        self.tell("the controller begins again")
        self.resumed = True
        self._head_since = self.clock.now
        self.disk.full = False
        self._policy.begin_again()
        self.moves += self.head.control.fleet.moves
        self.head = Head(self, self._policy, self.settings, self.disk, resumed=True)
        self._recorded_again()
        if self.kill_again_s is not None:
            self.clock.later(self.kill_again_s, self._kill_again)

    def kill_soon(self) -> None:
        if self.head.alive and not self.over and "kill-head" in self._names:
            self.head_killed()

    def _kill_again(self) -> None:
        if self.head.alive and not self.over:
            self.kill_again_s = None
            self.head_killed()

    def _recorded_again(self) -> None:
        """What was made but not written has not happened: look again at what was, and submit what was not."""
        journal = read(bytes(self.disk.data).splitlines(keepends=True))
        self.specs_by_number = {
            record.job: record.spec for record in journal.records if isinstance(record, r.JobSubmitted)
        }
        self.checks.begin_again(journal.records)
        if self.grace:
            self.head.tell(o.Batch(self.specs[self._submitted :]))
            return
        ended = {record.job for record in journal.records if isinstance(record, r.JobEnded)}
        self.fabrics = {job: fabric for job, fabric in self.fabrics.items() if job in ended}
        for job in self.specs_by_number.keys() - ended:
            self.touch(job, "head killed")
        self.head.tell(o.Batch(self.specs[self._submitted :]))

    # ---- the run -------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """When which fault comes."""
        # Agents that outlive their controller are not taken away.
        names = [name for name in self._names if name != "take-away" or not self.grace]
        timed, self._ambushes = draw_faults(self.random, names, self.specs[-1].submit_s + 20.0)
        if self._slots > 1 and "order" in names:
            ends = self.specs[-1].submit_s + 20.0
            timed += [(self.random.uniform(1.0, ends), "order", 5) for _ in range(self.random.randint(0, 40))]
        for at, name, patience in timed:
            self.clock.at(at, partial(self._fault, name, patience))

    def accepts(self, proc: Proc) -> None:
        """A job says that it accepts: now and then that takes its time, and a newcomer's node is lost meanwhile."""
        link = self.head.links.get(proc.node.name)
        if proc.job not in self.head.cluster.core.state.jobs:
            return
        if (
            "lose-reserved" in self._names
            and link is not None
            and self.random.random() < self._crossing(proc)
        ):
            resize = self.head.cluster.core.state.jobs[proc.job].resize
            if resize is not None and not resize.arriving:
                seconds = self.random.uniform(1.0, 25.0)
                link.up.stall(seconds)
                link.down.stall(seconds)
                self.touch_node(proc.node, "link stalled")
                return
            link.up.latency_s = self.random.uniform(0.3, 1.0)
            self.touch_node(proc.node, "slow link")
            self._fault("lose-reserved", 0, proc.job)

    def _crossing(self, proc: Proc) -> float:
        spec, resize = self.specs_by_number[proc.job], self.head.cluster.core.state.jobs[proc.job].resize
        grows = resize is not None and resize.arriving
        return CROSSING_OTHERS if grows and KINDS[spec.kind].loss is not Loss.ENDS_JOB else CROSSING

    def _spring(self, job: int) -> None:
        """A fault that has waited for a job to come to the state in which this one is now, comes a little later."""
        stage = self.checks.cells.stage(job)
        waiting, random = self._ambushes.get(stage, []), self.random
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
            self.clock.later(delay_s, partial(self._fault, name, patience, job, stage))

    def _fault(self, name: str, patience: int, job: int = 0, stage: str = "") -> None:
        if self.over or self.ended or not (self.head.alive or name in MEANWHILE):
            return
        if stage and self.checks.cells.stage(job) != stage:
            self._ambushes[stage].append(name)  # too late
            return
        before = {number: self.checks.cells.stage(number) for number in self.head.cluster.core.state.resizing}
        if stage:
            before[job] = stage  # the controller may be further already
        met = FAULTS[name](self, job)
        if met is None:
            if patience:
                wait_s = FENCE_S if stage else self.random.uniform(0.1, 2.0)
                self.clock.later(wait_s, lambda: self._fault(name, patience - 1, job, stage))
            elif stage and name in SEEKING:
                self._ambushes[stage].append(name)
            return
        self.note(met, name)
        phases = {before.get(number, resizing.NONE) for number in met} if met else set(before.values())
        self.met.update((name, phase) for phase in phases or {resizing.NONE})

    def note(self, met: list[int] | None, name: str = "meanwhile") -> None:
        self.tell(f"FAULT {name}: jobs {met}")

    def run(self) -> Verdict:
        """Until all is over; the violation that ended it, if one did. Before it, agents are launched over a tree, as
        those of the world itself are not yet, also under controllers that begin again, and jobs of a bare mpiexec
        expand."""
        violation = None
        try:
            for number in range(LAUNCHES):
                launch(self.seed, number, disturbed=bool(self._names))
            for number in range(RESTARTS if self._names else 0):
                restart(self.seed, number)
            for number in range(LIVES if self._names else 0):
                self.moves += Life(self.seed * LIVES + number, STEPS).shell.moves
            told = self.story if self._telling else None
            self._expansions = expansions(self.seed, told, disturbed=bool(self._names))
            self.head.tell(o.Begin(len(self.nodes)))
            while not self.over:
                self._step()
            self._let(ACK_S + (8.0 * CHANNEL_AGAIN_S if self.lossy else 0.0))
            self.checks.idle()
            for node in self.nodes.values():
                if node.agent is not None and self.random.random() < HANGING_ON:
                    node.agent.hung_on()
            self.head.driver.close()
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
        if not self.clock.step(LONGEST_S):
            raise Violation("stuck", f"nothing is left to happen: {self._waits()}")
        if self.clock.happened > self._most:
            raise Violation("stuck", f"after {self._most} things that happened it is not over")
        if self.clock.now > self._news_at + QUIET_S and self._are_undead() and not self.ended:
            self.end_all()  # as a user does who sees that a job does not end
            self._news_at = self.clock.now
        if self.clock.now > self._news_at + QUIET_S:
            raise Violation("stuck", f"nothing has been recorded for {QUIET_S:g} s: {self._waits()}")
        if self.clock.happened % LOOK == 0 and self.head.alive:
            self.checks.look()
            if self._reads_journal() and not (self.disk.problem or self.disk.full):
                self.checks.journal()

    def _are_undead(self) -> bool:
        """Whether all jobs that run are left with processes that were killed by their agents, and do not go: no
        controller ends such a job by itself."""
        running = {job.id for _, _, job in self.head.cluster.core.state.running}
        procs = [
            each for node in self.nodes.values() for each in node.processes.values() if each.job in running
        ]
        return bool(running) and running == {each.job for each in procs if each.dying}

    def _reads_journal(self) -> bool:
        """Whether it is time to do so: each time it takes longer, and there is as much time before the next."""
        return (self.clock.happened // LOOK).bit_count() == 1

    def _waits(self) -> str:
        """Who waits for what."""
        state = self.head.cluster.core.state
        few = islice(state.jobs.values(), 5)
        jobs = [f"job {job.id} is {job.state} on {job.size} ({job.bounds.describe()})" for job in few]
        waits = [
            f"{proc.job}.{proc.group}.{proc.rank} on {node.name}: {proc.program.waiting.what}"
            for node in self.nodes.values()
            for proc in node.processes.values()
            if proc.program is not None and proc.program.waiting is not None
        ]
        there = state.nodes
        nodes = f"{there.free} free, {there.lost_mask.bit_count()} lost of {there.all_mask.bit_count()}"
        return "; ".join([*jobs, nodes, *waits[:8], f"dirty {there.dirty}", f"timers {self.head.timers}"])

    def _let(self, seconds: float) -> None:
        """Let what is under way arrive."""
        end = self.clock.now + seconds
        while self.clock.step(end):
            pass

    def _verdict(self, violation: Violation | None) -> Verdict:
        cells = self.checks.cells
        ended = Counter({str(state): count for state, count in self.checks.states.items()})
        return Verdict(
            self.seed, violation.kind if violation is not None else "", str(violation or ""), self.story,
            len(self.specs), len(self.nodes), ended, cells.offered, cells.done, cells.slots, cells.visited, self.met,
            self._expansions, self.moves + self.head.control.fleet.moves,
        )  # fmt: skip

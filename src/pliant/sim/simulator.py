"""A virtual clock and model jobs around the core: what the live controller does with processes, this does
with arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, NamedTuple

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import SchedulerCore
from pliant.core.settings import NEVER, Settings
from pliant.history.energy import Energy, Power
from pliant.model.jobs import Bounds, JobClass, JobState
from pliant.model.nodes import NodeSet, lowest_bits, without
from pliant.model.wishes import Wish
from pliant.policy.view import Policy
from pliant.sim.breakdowns import MOST_REQUEUES, Breakdowns
from pliant.sim.checkpoints import Saved
from pliant.sim.evolving import new_run
from pliant.sim.instant import Instant
from pliant.sim.refusals import check_dependencies, check_jobs, restless, sleepless, stuck
from pliant.sim.running import Follower, Former, RunningJob
from pliant.workloads.checkpoints import Checkpoints
from pliant.workloads.failures import Failures
from pliant.workloads.job import SimJob

ELASTIC = (JobClass.MALLEABLE, JobClass.EVOLVING)
"""Jobs that can be resized: by the scheduler's wish, or only by their own."""

KILLED = 143
"""Exit code of a job that was ended: 128 + SIGTERM, as a shell shows it."""


ROUNDS = 1000
"""So many times, and 20 more for each running job, may something follow in no time from what was before,
without a job that ends or is submitted."""


WAKES = 100_000
"""So many times in a row may a policy ask to be woken while nothing else is left to happen."""


class SimEnd(NamedTuple):
    """``jobs`` jobs were simulated until ``at`` seconds, in ``calls`` calls of the core.

    ``node_failures`` times a node has failed, and ``requeued`` times a job that lost one was submitted again.
    ``lost_node_s`` are the node-seconds that jobs had held when a failing node ended them, or set them back to a
    checkpoint: with these, those held since the last. The others are those of ``history.energy.Use``, None where nobody
    has said what nodes draw.
    """

    at: float
    jobs: int
    calls: int
    node_failures: int = 0
    requeued: int = 0
    lost_node_s: float = 0.0
    energy_kwh: float | None = None
    off_node_h: float | None = None
    boots: int | None = None


class Conditions(NamedTuple):
    """What a simulation goes by, beside its jobs, nodes and policy.

    ``starting``: a job computes only after its groups have started, at the cost of the settings. ``instant``
    is the order in which events of one instant reach the core. With ``failures`` nodes fail and return, until
    all jobs have ended. With ``checkpoints`` jobs write these, and go on from them. ``power`` is what a node draws, and
    whether nodes are switched off: what starts on such waits until they are up.
    """

    settings: Settings = Settings()
    starting: bool = False
    instant: Instant = Instant.TOGETHER
    failures: Failures | None = None
    checkpoints: Checkpoints | None = None
    power: Power | None = None


PLAIN = Conditions()


class Simulator:
    """Runs ``jobs`` on ``nodes`` nodes; ``sink`` gets every record.

    A job answers an offer after ``answer_s``, stands still for ``blocked_s`` before a resize is done, and its
    former nodes are clean ``leave_s`` later (0: in the same instant, and the same call).

    Raises BatchError for jobs that cannot be simulated.
    """

    def __init__(
        self,
        jobs: Sequence[SimJob],
        nodes: int,
        policy: Policy,
        conditions: Conditions = PLAIN,
        sink: Callable[[r.Record], None] | None = None,
    ) -> None:
        settings, starting, instant, failures, self._checkpoints, power = conditions
        check_jobs(jobs, nodes)
        ordered = sorted(jobs, key=attrgetter("spec.submit_s"))
        self._count = len(ordered)
        self._followers: dict[str, list[SimJob]] = {}
        """Jobs that are to be submitted after others, by the name of those."""
        self._thinking = 0
        for job in ordered:
            if job.after:
                self._followers.setdefault(job.after, []).append(job)
        if self._followers:
            check_dependencies(ordered)
        self._jobs = [job for job in ordered if not job.after] if self._followers else ordered
        self._nodes = nodes
        self._policy = policy
        self._cost = settings.cost
        self.core = SchedulerCore(policy, settings)
        self._energy = Energy(power) if power is not None else None
        sinks = (self._energy.add if self._energy is not None else None, sink)
        self._sinks = [each for each in sinks if each is not None]
        self._starting = starting
        self._happen = {
            Instant.TOGETHER: self._together,
            Instant.PYSS: self._in_pyss_order,
            Instant.ELASTISIM: self._one_by_one,
        }[instant]
        self._progress: Callable[[int], None] | None = None
        self._failures = failures
        self._breakdowns = Breakdowns(failures.outages(nodes) if failures is not None else (), nodes)
        self._heap: list[
            tuple[float, int, Callable[[Any, int], None], RunningJob | Former | Follower, int]
        ] = []
        self._order = 0
        self._runs: dict[int, RunningJob] = {}
        self._events: list[e.Event] = []
        self._wishes: list[e.Event] = []
        self._wake = NEVER
        self._now = 0.0
        self._next = 0
        self._due = self._jobs[0].spec.submit_s
        self._submitted = 0
        self._waiting: dict[int, SimJob] = {}
        self._ended = 0
        self._calls = 0
        self._requeues: dict[int, Saved] = {}
        """Where jobs go on that were requeued and wait, by their number."""
        self._requeued = 0
        self._lost_node_s = 0.0
        self._carry_out: dict[type[c.Command], Callable[[Any], None]] = {
            c.Start: self._start,
            c.Offer: self._offer,
            c.Withdraw: self._withdraw,
            c.Release: self._release,
            c.Kill: self._kill,
            c.WakeAt: self._wake_at,
            c.Stay: lambda _command: None,
        }

    def run(self, progress: Callable[[int], None] | None = None) -> SimEnd:
        """Simulate until every job has ended and every node is clean; ``progress`` is told the number of ended jobs
        now and then.

        Raises PolicyError if jobs are left and nothing will ever happen again, or if resizes follow one another
        without end in one instant; BatchError if too many nodes stay away for what waits.
        """
        self._progress = progress
        heap, breakdowns, dirty = self._heap, self._breakdowns, self.core.state.dirty
        count = self._count
        rounds = done = wakes = asleep = 0
        self._events.append(e.Granted(NodeSet.first(self._nodes)))
        while True:
            self._happen()
            later = heap[0][0] if heap else NEVER
            if self._ended == count and not dirty:
                return self._end()
            later = min(later, self._due, self._wake)
            if breakdowns.at <= later:
                later = breakdowns.at
                idle = not self._runs and self._due == NEVER and not self._thinking
                if idle and breakdowns.hopeless(self._ended + self._submitted, self.core.state.total):
                    later = NEVER
            if later == NEVER:
                raise stuck(self.core.state, self._policy.name, self._nodes, breakdowns)
            before, done = done, self._ended + self._submitted
            rounds = rounds + 1 if later == self._now and done == before else 0
            if later == self._wake and not heap and self._due == NEVER:
                wakes, asleep = wakes + 1 if done == asleep else 0, done
                if wakes > WAKES:
                    raise sleepless(self.core.state, self._policy.name)
            if rounds > ROUNDS + 20 * len(self._runs):
                raise restless(self.core.state, self._policy.name)
            self._now = later

    def _end(self) -> SimEnd:
        return SimEnd(
            self._now,
            self._count,
            self._calls,
            self._breakdowns.failed,
            self._requeued,
            self._lost_node_s,
            *(self._energy.use() if self._energy is not None else ()),
        )

    def _together(self) -> None:
        """All that happens now, in one call of the core."""
        now, heap = self._now, self._heap
        while heap and heap[0][0] <= now:
            _, _, happen, run, turn = heappop(heap)
            happen(run, turn)
        if self._breakdowns.at <= now:
            self._break_down()
        while self._due <= now:
            self._submit_next()
        if self._wake <= now:
            self._tick()
        self._tell()

    def _in_pyss_order(self) -> None:
        """All that happens now, in the calls that ``Instant.PYSS`` describes.

        What frees processors without a pass is told with what comes next: a call is one pass.
        """
        now, heap, known = self._now, self._heap, self.core.state.jobs
        ends: list[tuple[Any, int, bool]] = []
        while heap and heap[0][0] <= now:
            _, _, happen, run, turn = heappop(heap)
            early = False
            if happen == self._finish and turn == run.turn:
                early = known[run.number].expected_end > now
                ends.append((run, turn, early))
            if not early:
                happen(run, turn)
        if self._breakdowns.at <= now:
            self._break_down()
        if self._wake <= now:
            self._tick()
        while self._due <= now:
            self._submit_next()
            self._tell()
        for run, turn, early in ends:  # in the order in which they were started
            if early:
                self._finish(run, turn)
            else:
                self._events.append(e.Tick())  # its processors are free already: only the pass is due
            self._tell()
        self._tell()

    def _one_by_one(self) -> None:
        """All that happens now, in the calls that ``Instant.ELASTISIM`` describes."""
        now, heap = self._now, self._heap
        while heap and heap[0][0] <= now:
            _, _, happen, run, turn = heappop(heap)
            happen(run, turn)
            self._tell()
        if self._breakdowns.at <= now:
            self._break_down()
        if self._wake <= now:
            self._tick()
        self._tell()
        while self._due <= now:
            self._submit_next()
            self._tell()

    def _break_down(self) -> None:
        runs = () if self._checkpoints is None else self._runs.values()
        self._events += self._breakdowns.events(self._now, runs)

    def _submit_next(self) -> None:
        """Submit the next job, which is due."""
        self._submit(self._jobs[self._next])
        self._next += 1
        self._due = self._jobs[self._next].spec.submit_s if self._next < len(self._jobs) else NEVER

    def _submit(self, job: SimJob, requeue_of: int = 0) -> None:
        self._submitted = number = self._submitted + 1
        self._waiting[number] = job
        self._events.append(e.Submitted(number, job.spec, requeue_of))

    def _tick(self) -> None:
        self._wake = NEVER
        self._events.append(e.Tick())

    def _tell(self) -> None:
        """Let the core handle the events, and what its commands cause in the same instant."""
        while self._events or self._wishes:
            events, self._events = self._events, []
            if self._wishes:
                events += self._wishes
                self._wishes = []
            self._calls += 1
            records, commands = self.core.handle(events, self._now)
            if self._breakdowns.failed:
                self._lose_groups(records)
            for sink in self._sinks:
                for record in records:
                    sink(record)
            for command in commands:
                self._carry_out[type(command)](command)

    def _at(
        self, time: float, happen: Callable[[Any, int], None], run: RunningJob | Former | Follower
    ) -> None:
        self._order += 1
        heappush(self._heap, (time, self._order, happen, run, run.turn))

    # ---- commands ------------------------------------------------------------------------------------

    def _start(self, command: c.Start) -> None:
        if command.resize:
            return  # the newcomers of an expansion; their time is part of expand_s
        number = command.job
        mask = command.nodes.mask
        run = self._runs[number] = new_run(number, self._waiting.pop(number), mask, self._now)
        if self._checkpoints is not None:
            run.write(self._checkpoints)
        if self._requeues and (saved := self._requeues.pop(number, None)) is not None:
            run.go_on(saved)
        up = self._up(mask)
        if self._starting:
            cost = self._cost
            self._at(up + cost.start_s + cost.start_each_s * mask.bit_count(), self._begin, run)
        elif up > self._now:
            self._at(up, self._begin, run)
        else:
            self._begin(run, 0)

    def _up(self, mask: int) -> float:
        """When these nodes are up: now, but for those that had been switched off."""
        return self._now if self._energy is None else self._energy.up(mask, self._now)

    def _offer(self, command: c.Offer) -> None:
        run = self._runs.get(command.job)
        if run is None:
            return
        run.offer = command
        run.accepted = False
        looks = self._now
        if period := run.job.period_s:
            looks = max(looks, run.began + (math.floor((looks - run.began) / period) + 1) * period)
        self._at(looks + self._cost.answer_s, self._accept, run)

    def _withdraw(self, command: c.Withdraw) -> None:
        run = self._runs.get(command.job)
        if run is None or run.offer is None or run.offer.resize != command.resize:
            return
        offer, run.offer = run.offer, None
        if not run.accepted:
            self._events.append(e.Declined(run.number, offer.resize, "withdrawn"))
            return
        if run.whole is None:
            self._compute(run)
        self._events.append(e.ResizeFailed(run.number, offer.resize, "withdrawn"))
        if offer.nodes and not self._cost.leave_s:
            self._events.append(e.Clean(run.number, offer.nodes))

    def _release(self, command: c.Release) -> None:
        if leave_s := self._cost.leave_s:
            self._at(self._now + leave_s, self._clean, Former(command.job, command.nodes.mask))

    def _kill(self, command: c.Kill) -> None:
        run = self._runs.get(command.job)
        if run is None:
            return
        if self.core.state.jobs[command.job].ending is JobState.NODE_FAIL:
            self._lose(run)
        else:
            self._over(run, KILLED)

    def _wake_at(self, command: c.WakeAt) -> None:
        self._wake = command.at

    # ---- what jobs do --------------------------------------------------------------------------------

    def _begin(self, run: RunningJob, _turn: int) -> None:
        """Say hello and compute."""
        if run.number not in self._runs:
            return
        run.began = self._now
        spec = run.job.spec
        elastic = spec.job_class in ELASTIC
        self._events.append(e.Hello(run.number))
        if elastic:
            self._events.append(e.Malleable(run.number, on=True))
        self._compute(run)
        self._ask(run)

    def _ask(self, run: RunningJob, *, again: bool = False) -> None:
        """An evolving job says which size it wants, if not the one it has; told after all else that happens. It goes on
        wanting it until it has it, or its phase is over, if it does not ask once."""
        if again and run.asks_once:
            return
        wish = run.wish()
        if wish is not None:
            self._wishes.append(e.Wants(run.number, Wish(wish), open=not run.asks_once))
        elif self.core.state.jobs[run.number].wish is not None:
            self._wishes.append(e.Wants(run.number, Wish(Bounds.exactly(run.mask.bit_count()))))

    def _compute(self, run: RunningJob) -> None:
        """Go on computing at the present size; the end moves accordingly."""
        now = self._now
        run.since = now
        run.whole = run.time(run.mask.bit_count())
        run.turn += 1
        ending = self._cost.end_s if self._starting else 0.0
        self._at(now + run.lasts(run.whole) + ending, self._finish, run)

    def _finish(self, run: RunningJob, turn: int) -> None:
        if turn != run.turn:
            return
        if run.advance(self._now):
            self._compute(run)
            self._ask(run)
        else:
            self._over(run, 0)

    def _over(self, run: RunningJob, exit_code: int, *, requeue: bool = False) -> None:
        run.turn += 1
        del self._runs[run.number]
        self._ended += not requeue
        if self._followers and not requeue:
            self._follow(run.job.spec.name)
        self._events.append(e.Ended(run.number, exit_code, requeue=requeue))
        if not self._cost.leave_s:
            mask = run.mask
            if run.offer is not None:
                mask |= run.offer.nodes.mask
            self._events.append(e.Clean(run.number, NodeSet(mask)))
        if self._progress is not None and not self._ended % 500:
            self._progress(self._ended)

    def _follow(self, name: str) -> None:
        """Its followers are submitted when they have thought about it."""
        for job in self._followers.pop(name, ()):
            self._thinking += 1
            self._at(self._now + job.think_s, self._arrive, Follower(job))

    def _arrive(self, follower: Follower, _turn: int) -> None:
        self._thinking -= 1
        self._submit(follower.job)

    def _lose(self, run: RunningJob) -> None:
        """A node of the job has failed and its work is lost, or set back: submit it again, but not for ever."""
        self._lost_node_s += run.fall_back(self._now)
        requeue = self._failures is not None and self._failures.requeue
        again = requeue and run.saved.vain <= MOST_REQUEUES
        self._over(run, KILLED, requeue=again)
        if again:
            self._requeued += 1
            self._submit(run.job, requeue_of=run.number)
            self._requeues[self._submitted] = run.saved

    def _lose_groups(self, records: Sequence[r.Record]) -> None:
        """Jobs that go on without nodes that have failed, or that they give up then."""
        for record in records:
            if type(record) is r.GroupsLost:
                run = self._runs[record.job]
                if run.saving is not None:
                    self._lost_node_s += run.fall_back(self._now)
                if run.lose(record.nodes.mask, self._now):
                    self._compute(run)
                if run.saving is not None:
                    self._ask(run, again=True)
                    given_up = NodeSet(without(record.nodes.mask, self.core.state.lost_mask))
                    if given_up and not self._cost.leave_s:
                        self._events.append(e.Clean(run.number, given_up))

    def _accept(self, run: RunningJob, _turn: int) -> None:
        offer = self._current(run)
        if offer is None or run.accepted:
            return
        run.accepted = True
        self._events.append(e.Accepted(run.number, offer.resize))
        if offer.nodes:
            starting = self._cost.expand_s(run.mask.bit_count(), offer.size) - self._cost.blocked_s
            self._at(self._up(offer.nodes.mask) + starting - self._cost.answer_s, self._block, run)
        else:
            self._block(run, run.turn)

    def _block(self, run: RunningJob, _turn: int) -> None:
        """Stand still: the last part of every resize."""
        offer = self._current(run)
        if offer is None:
            return
        run.settle(self._now)
        before, job = run.mask.bit_count(), run.job
        run.still_s = self._cost.still_s(before, offer.size, job.spec.data_mb)
        if job.adapting is not None:
            run.still_s += job.adapting.still_s(before, offer.size)
        run.whole = None
        run.turn += 1
        self._at(self._now + run.still_s, self._resized, run)

    def _resized(self, run: RunningJob, turn: int) -> None:
        offer = self._current(run)
        if offer is None or turn != run.turn:
            return
        run.offer = None
        run.hold(self._now)
        # Those leave that must, and of the others the highest-numbered.
        staying = without(run.mask | offer.nodes.mask, offer.leave.mask)
        kept = lowest_bits(staying, offer.size)
        released = without(run.mask, kept)
        run.mask = kept
        left, root = self._leaving(run.number, offer, released)
        self._events.append(e.Resized(run.number, offer.resize, left, run.still_s, root=root))
        if released and not self._cost.leave_s:
            self._events.append(e.Clean(run.number, NodeSet(released)))
        self._compute(run)
        self._ask(run, again=True)

    def _leaving(self, number: int, offer: c.Offer, released: int) -> tuple[tuple[int, ...], int]:
        """The groups that leave a job with these nodes, and the one that speaks for it then."""
        state = self.core.state
        job = state.jobs[number]
        root = job.root
        if not released:
            return (), root
        left = state.groups_on(job, released)
        if root in left:
            root = next(
                number
                for number in [*state.groups(job), *(g.id for g in offer.arriving)]
                if number not in left
            )
        return left, root

    def _current(self, run: RunningJob) -> c.Offer | None:
        """The outstanding offer, if the job still runs."""
        return run.offer if self._runs.get(run.number) is run else None

    def _clean(self, former: Former, _turn: int) -> None:
        self._events.append(e.Clean(former.number, NodeSet(former.mask)))


def simulate(
    jobs: Sequence[SimJob],
    nodes: int,
    policy: Policy,
    conditions: Conditions = PLAIN,
    sink: Callable[[r.Record], None] | None = None,
) -> SimEnd:
    """Run ``jobs`` on ``nodes`` nodes under ``policy``; see Simulator. Job numbers follow submission, from 1."""
    return Simulator(jobs, nodes, policy, conditions, sink).run()

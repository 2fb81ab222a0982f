"""A virtual clock and model jobs around the core: what the live controller does with processes, this does
with arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.arrays import ArrayThrottle, any_limited
from pliant.core.core import SchedulerCore
from pliant.core.settings import NEVER
from pliant.history.energy import Energy
from pliant.model.bookings import check_bookings
from pliant.model.errors import BatchError, PolicyError
from pliant.model.instants import rounding_s
from pliant.model.jobs import Bounds, JobClass, JobState
from pliant.model.limits import REQUEUES
from pliant.model.nodes import NodeSet, lowest_bits, without
from pliant.policy.view import Policy
from pliant.protocol import messages as m
from pliant.sim.booked import Booked, BookedNodes
from pliant.sim.breakdowns import Breakdowns
from pliant.sim.checkpoints import Saved
from pliant.sim.conditions import PLAIN, Conditions, Neighbourhood, SimEnd
from pliant.sim.evolving import new_run
from pliant.sim.instant import Instant
from pliant.sim.refusals import Watch, check_dependencies, check_jobs, stuck
from pliant.sim.running import Follower, Former, Requested, RunningJob, leaving
from pliant.workloads.job import SimJob

__all__ = ["PLAIN", "Conditions", "SimEnd", "Simulator", "simulate"]

ELASTIC = (JobClass.MALLEABLE, JobClass.EVOLVING)
"""Jobs that can be resized: by the scheduler's wish, or only by their own."""

KILLED = 143
"""Exit code of a job that was ended: 128 + SIGTERM, as a shell shows it."""

Happens = RunningJob | Former | Follower | Requested | BookedNodes
"""To whom, or to which nodes, something happens at a time."""


class Simulator:
    """Runs ``jobs`` on ``nodes`` nodes; ``sink`` gets every record. It may be one of several beside each other
    (``sim/beside.py``): its place among them says which nodes it has, and how its jobs are numbered.

    A job answers an offer after ``answer_s``, stands still for ``blocked_s`` before a resize is done, and its
    former nodes are clean ``leave_s`` later (0: in the same instant, and the same call).

    What is to happen is on a heap, or due: the next submission at ``_due``, the policy's wish to be woken at ``_wake``,
    and the next node that fails or is back by ``_breakdowns``; ``next`` is when, as far as it is known. Events for the
    core are collected until ``_tell``. ``over``: all jobs have ended, and all nodes are clean.

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
        settings, starting, instant, failures, self._checkpoints, neighbourhood, bookings, power = conditions
        self._now = self._lost_node_s = 0.0
        self._wake = self.next = NEVER
        self._heap: list[tuple[float, int, Callable[[Any, int], None], Happens, int]] = []
        self._events: list[e.Event] = []
        self._in_time: set[int] = set()  # who would be ended now and is done now, but has not been told to be
        self._happen = {
            Instant.TOGETHER: self._together,
            Instant.PYSS: self._in_pyss_order,
            Instant.ELASTISIM: self._one_by_one,
        }[instant]
        ordered = sorted(jobs, key=attrgetter("spec.submit_s"))
        if neighbourhood is None:
            check_jobs(jobs, nodes)
            check_dependencies(ordered)
            neighbourhood = Neighbourhood()
            check_bookings(bookings, nodes)
        self._count = len(ordered)
        self._followers = neighbourhood.followers
        self._thinking = 0
        neighbourhood.expect(self, ordered)
        self._throttle: ArrayThrottle[SimJob] | None = (
            ArrayThrottle() if any_limited(job.spec for job in jobs) else None
        )
        self._jobs = [job for job in ordered if not job.after]
        self._nodes = nodes
        self._neighbourhood = neighbourhood
        self._policy = policy
        self._cost = settings.cost
        self._pool = settings.pool
        self._away = 0  # nodes that were not granted, or were given back, where they come and go
        self._delay_s, self._lease_s = (
            (0.0, NEVER) if settings.pool is None else (settings.pool.delay_s, settings.pool.lease_s)
        )
        self._requested: list[Requested] = []
        self._leased = self._lease_s != NEVER
        self.core = SchedulerCore(policy, settings)
        self.core.state.number_resizes(neighbourhood.index, neighbourhood.count)
        self._energy = Energy(power) if power is not None else None
        energy = (self._energy.add,) if self._energy is not None else ()
        self._sinks = (*energy, sink) if sink is not None else energy
        self._starting = starting
        self._ending_s = settings.cost.end_s if starting else 0.0
        self._progress: Callable[[int], None] | None = None
        self._failures = failures
        outages = failures.outages(nodes, neighbourhood.first) if failures is not None else ()
        # Of a machine alone, failures count from its first submission on: a trace may begin years after time 0.
        self._breakdowns = Breakdowns(
            outages, nodes, ordered[0].spec.submit_s if neighbourhood.count == 1 else 0.0
        )
        self._watch = Watch()
        self._runs: dict[int, RunningJob] = {}
        self._wishes: list[e.Event] = []
        self._next = 0
        self._due = self._jobs[0].spec.submit_s if self._jobs else NEVER
        self.over = False
        self._order = self._submitted = self._ended = self._calls = self._requeued = 0
        self._waiting: dict[int, SimJob] = {}
        self._requeues: dict[int, Saved] = {}  # where jobs go on that were requeued and wait
        self._carry_out: dict[type[c.Command], Callable[[Any], None]] = {
            c.Start: self._start,
            c.Offer: self._offer,
            c.Withdraw: self._withdraw,
            c.Release: self._release,
            c.Kill: self._kill,
            c.WakeAt: self._wake_at,
            c.Stay: lambda _command: None,
            c.GiveBack: self._give_back,
            c.Acquire: self._request,
            c.WithdrawNodes: self._withdraw_nodes,
        }
        self._booked = Booked(bookings, self._at, self._hear) if bookings else None

    def run(self, progress: Callable[[int], None] | None = None) -> SimEnd:
        """Simulate until every job has ended and every node is clean; ``progress`` is told the number of ended jobs
        now and then.

        Raises PolicyError if jobs are left and nothing will ever happen again, or if resizes follow one another
        without end in one instant; BatchError if too many nodes stay away for what waits.
        """
        self.begin(progress)
        while not self.over:
            if self.next == NEVER:
                raise self.stuck()
            self.go_on()
        return self.end()

    def begin(self, progress: Callable[[int], None] | None = None) -> None:
        """All that happens at the start."""
        self._progress = progress
        there = self._nodes if self._pool is None else self._pool.min
        self._away = ((1 << self._nodes) - 1) >> there << there
        self._events.append(e.Granted(NodeSet(((1 << there) - 1) << self._neighbourhood.first)))
        self._happen()
        self._look_ahead()

    def go_on(self) -> None:
        """All that happens at ``next``. Raises PolicyError if this goes on for ever."""
        self._now = self.next
        if self._wake <= self._now and self.core.state.limited:
            self._in_time = self._are_in_time()
        self._happen()
        self._look_ahead()

    def _look_ahead(self) -> None:
        if self._ended == self._count and not self.core.state.nodes.dirty:
            self.over, self.next = True, NEVER
            return
        heap = self._heap
        later = heap[0][0] if heap else NEVER
        if self._due < later:  # noqa: PLR1730 - a call of min would take as long as all else here
            later = self._due
        if self._wake < later:  # noqa: PLR1730
            later = self._wake
        if self._breakdowns.at <= later:
            later = self._next_outage()
        self.next = later
        if later == self._wake and not heap and self._due == NEVER != later:
            self._watch.asleep(self.core.state, self._policy.name, self._ended + self._submitted)
        if later == self._now:
            done = self._ended + self._submitted
            self._watch.at_once(self.core.state, self._policy.name, done, len(self._runs))

    def _next_outage(self) -> float:
        busy = self.busy or any(other.busy for other in self._neighbourhood.others)
        done = self._ended + self._submitted
        hopeless = not busy and self._breakdowns.hopeless(done, self.core.state.total)
        return NEVER if hopeless else self._breakdowns.at

    @property
    def busy(self) -> bool:
        """Whether a job runs, or will be submitted."""
        return bool(self._runs) or self._due != NEVER or self._thinking > 0

    def stuck(self) -> PolicyError | BatchError:
        """Why nothing is left to happen though not all jobs have ended."""
        return stuck(self.core.state, self._policy.name, self._nodes, self._breakdowns)

    def end(self) -> SimEnd:
        """What it came to."""
        if self._booked is not None:
            self._booked.close(self._now)
        booked = self._booked
        return SimEnd(
            self._now,
            self._count,
            self._calls,
            self._breakdowns.failed,
            self._requeued,
            self._lost_node_s,
            *((0.0, 0.0) if booked is None else (booked.held_node_s, booked.lacked_node_s)),
            *(self._energy.use() if self._energy is not None else ()),
        )

    def _hear(self, event: e.Event) -> None:
        self._events.append(event)

    def _at(self, time: float, happen: Callable[[Any, int], None], run: Happens) -> None:
        self._order += 1
        heappush(self._heap, (time, self._order, happen, run, run.turn))

    # ---- one instant -----------------------------------------------------------------------------------

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
            if not self._in_time:  # else this call would end those who are done a call later
                self._tell()
        if self._breakdowns.at <= now:
            self._break_down()
        if self._wake <= now:
            self._tick()
        self._tell()
        while self._due <= now:
            self._submit_next()
            self._tell()

    # ---- what happens there ----------------------------------------------------------------------------

    def _break_down(self) -> None:
        runs = () if self._checkpoints is None else self._runs.values()
        self._events += self._breakdowns.events(self._now, runs)

    def _submit_next(self) -> None:
        """Submit the next job, which is due."""
        job = self._jobs[self._next]
        if self._throttle is None or self._throttle.come(job.spec, job) is not None:
            self._submit(job)
        self._next += 1
        self._due = self._jobs[self._next].spec.submit_s if self._next < len(self._jobs) else NEVER

    def _submit(self, job: SimJob, requeue_of: int = 0) -> int:
        number = next(self._neighbourhood.numbers)
        self._submitted += 1
        self._waiting[number] = job
        self._events.append(e.Submitted(number, job.spec, requeue_of))
        return number

    def _tick(self) -> None:
        self._wake = NEVER
        self._events.append(e.Tick())

    def _tell(self) -> None:
        """Let the core handle the events, and what its commands cause in the same instant."""
        booked = self._booked
        while self._events or self._wishes:
            events, self._events = self._events, []
            if self._wishes:
                events += self._wishes
                self._wishes = []
            self._calls += 1
            records, commands = self.core.handle(events, self._now)
            if self._breakdowns.failed:
                self._lose_groups(records)
            if self._leased:
                self._wait_no_more(records)
            for sink in self._sinks:
                for record in records:
                    sink(record)
            for command in commands:
                self._carry_out[type(command)](command)
            if booked is not None:
                booked.claim(self.core.state.nodes.free_mask, self._now)

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

    def _request(self, command: c.Acquire) -> None:
        requested = Requested(command.count)
        self._requested.append(requested)
        self._at(self._now + self._delay_s, self._grant, requested)

    def _withdraw_nodes(self, command: c.WithdrawNodes) -> None:
        """Those that were asked for last do not come."""
        left = command.count
        for requested in reversed(self._requested):
            fewer = min(left, requested.nodes)
            requested.nodes -= fewer
            left -= fewer
        if refused := command.count - left:
            self._events.append(e.Refused(refused, "withdrawn"))

    def _grant(self, requested: Requested, _turn: int) -> None:
        """The nodes that were asked for come: the lowest numbers that are not in use."""
        self._requested.remove(requested)
        if not requested.nodes:
            return  # withdrawn
        coming = lowest_bits(self._away, requested.nodes)
        self._away = without(self._away, coming)
        until = None if self._lease_s == NEVER else self._now + self._lease_s
        self._events.append(e.Granted(NodeSet(coming), until=until))

    def _give_back(self, command: c.GiveBack) -> None:
        self._away |= command.nodes.mask
        self._events.append(e.Returned(command.nodes))

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
            self._say(run, m.Decline(run.epoch, offer.resize, "withdrawn"))
            return
        if run.whole is None:
            self._compute(run)
        self._say(run, m.Failed(run.epoch, offer.resize, "withdrawn"))
        if offer.nodes and not self._cost.leave_s:
            self._events.append(e.Clean(run.number, offer.nodes))

    def _release(self, command: c.Release) -> None:
        if leave_s := self._cost.leave_s:
            self._at(self._now + leave_s, self._clean, Former(command.job, command.nodes.mask))

    def _kill(self, command: c.Kill) -> None:
        run = self._runs.get(command.job)
        if run is None:
            return
        job = self.core.state.jobs[command.job]
        if job.requeues or job.ending is JobState.NODE_FAIL:
            self._lose(run, requeue=job.requeues)
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
            self._say(run, m.Malleable(run.epoch, on=True))
        self._compute(run)
        self._ask(run)

    def _say(self, run: RunningJob, message: m.CoreMessage) -> None:
        self._events.append(e.RootSaid(run.number, message))

    def _ask(self, run: RunningJob, *, again: bool = False) -> None:
        """An evolving job says which size it wants, if not the one it has; told after all else that happens. It goes on
        wanting it until it has it, or its phase is over, if it does not ask once."""
        if again and run.asks_once:
            return
        wish = run.wish()
        if wish is not None:
            said = m.Want(run.epoch, wish, open=not run.asks_once)
        elif self.core.state.jobs[run.number].wish is not None:
            said = m.Want(run.epoch, Bounds.exactly(run.mask.bit_count()))
        else:
            return
        self._wishes.append(e.RootSaid(run.number, said))

    def _compute(self, run: RunningJob) -> None:
        """Go on computing at the present size; the end moves accordingly."""
        now = self._now
        run.since = now
        run.whole = run.time(run.mask.bit_count())
        run.turn += 1
        self._at(now + run.lasts(run.whole) + self._ending_s, self._finish, run)

    def _finish(self, run: RunningJob, turn: int) -> None:
        if turn != run.turn:
            return
        if run.advance(self._now):
            self._compute(run)
            self._ask(run)
        else:
            self._over(run, 0)

    def _are_in_time(self) -> set[int]:
        """Who is done just when its walltime is over. Both are sums of the same times, each in an order of its own:
        what differs by no more than rounding is one instant."""
        now, found = self._now, set[int]()
        for end, number, job in self.core.state.running:
            if end > now:
                break
            run = self._runs.get(number)
            if run is None or run.whole is None or not job.limited:
                continue
            done = run.since + run.lasts(run.whole) + self._ending_s
            if done <= now + rounding_s(now):
                found.add(number)
                if done > now:
                    self._at(now, self._finish, run)
        return found

    def _over(self, run: RunningJob, exit_code: int, *, requeue: bool = False) -> None:
        run.turn += 1
        self._in_time.discard(run.number)
        del self._runs[run.number]
        if not requeue:
            self._count_end(run.job)
        self._events.append(e.Ended(run.number, exit_code, requeue=requeue))
        if not self._cost.leave_s:
            mask = run.mask
            if run.offer is not None:
                mask |= run.offer.nodes.mask
            self._events.append(e.Clean(run.number, NodeSet(mask)))
        if self._progress is not None and not self._ended % 500:
            self._progress(self._ended)

    def _wait_no_more(self, records: Sequence[r.Record]) -> None:
        """Jobs that have ended before they began, as no nodes last long enough for them."""
        for record in records:
            if type(record) is r.JobEnded and (job := self._waiting.pop(record.job, None)) is not None:
                self._count_end(job)

    def _count_end(self, job: SimJob) -> None:
        self._ended += 1
        if self._followers:
            self._follow(job.spec.name)
        if self._throttle is not None and (after := self._throttle.ended(job.spec)) is not None:
            self.come(after, self._now)

    def _follow(self, name: str) -> None:
        """Its followers are submitted when they have thought about it."""
        for where, job in self._followers.pop(name, ()):
            where.come(job, self._now + job.think_s)

    def come(self, job: SimJob, at: float) -> None:
        """It is to be submitted then."""
        self._thinking += 1
        self._at(at, self._arrive, Follower(job))
        self.next = min(self.next, at)

    def _arrive(self, follower: Follower, _turn: int) -> None:
        self._thinking -= 1
        self._submit(follower.job)

    def _lose(self, run: RunningJob, *, requeue: bool) -> None:
        """Its nodes have ended the job: its work is lost, or goes on from its last checkpoint. Submit it again if the
        core says so, or a node has failed and that has not happened too often."""
        fails = self._failures is not None and self._failures.requeue
        again = requeue or (fails and run.losses(self._now) < REQUEUES)
        self._lost_node_s += run.fall_back(self._now)
        self._over(run, KILLED, requeue=again)
        if again:
            self._requeued += 1
            self._requeues[self._submit(run.job, requeue_of=run.number)] = run.saved

    def _lose_groups(self, records: Sequence[r.Record]) -> None:
        """Jobs that go on without nodes that have failed, or that they give up then."""
        for record in records:
            if type(record) is r.GroupsLost:
                run = self._runs.get(record.job)
                if run is None:
                    continue  # it ends in this very instant, which the core is told next
                if run.saving is not None:
                    self._lost_node_s += run.fall_back(self._now)
                if run.lose(record.nodes.mask, self._now):
                    self._compute(run)
                if run.saving is not None:
                    self._ask(run, again=True)
                    given_up = NodeSet(without(record.nodes.mask, self.core.state.nodes.lost_mask))
                    if given_up and not self._cost.leave_s:
                        self._events.append(e.Clean(run.number, given_up))

    def _accept(self, run: RunningJob, _turn: int) -> None:
        offer = self._current(run)
        if offer is None or run.accepted:
            return
        run.accepted = True
        self._say(run, m.Accept(run.epoch, offer.resize))
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
        left, root = leaving(self.core.state, run.number, offer, released)
        self._say(run, m.Done(run.epoch, offer.resize, root, left, blocked_s=run.still_s))
        run.epoch += 1
        if released and not self._cost.leave_s:
            self._events.append(e.Clean(run.number, NodeSet(released)))
        self._compute(run)
        self._ask(run, again=True)

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

"""A virtual clock and model jobs around the core: what the live controller does with processes, this does
with arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import SchedulerCore
from pliant.core.metrics import Metrics, RunMetrics
from pliant.core.state import NEVER, Settings
from pliant.model.errors import BatchError, PolicyError
from pliant.model.jobs import JobClass, JobSpec
from pliant.model.nodes import NodeSet, lowest_bits
from pliant.plan.cost import ResizeCost
from pliant.policy.view import Policy
from pliant.sim.instant import Instant

INSTANT = ResizeCost(start_s=0.0, start_each_s=0.0, blocked_s=0.0, leave_s=0.0, answer_s=0.0)
"""Nothing but the work takes time: the usual assumption for traces of rigid jobs."""

KILLED = 143
"""Exit code of a job that was ended: 128 + SIGTERM, as a shell shows it."""


class SimJob(msgspec.Struct, frozen=True):
    """A job and how long it really runs: ``runtime_s`` at its preferred size, else by its model.

    It looks for offers ``period_s`` after it began to compute and at multiples of that (paper 3, section 5.1:
    the checking inhibitor); 0 is at any time.
    """

    spec: JobSpec
    runtime_s: float | None = None
    period_s: float = 0.0

    def time(self, nodes: int) -> float:
        """Run time on ``nodes`` all the way, in seconds; without a model, speed-up is linear."""
        spec = self.spec
        if self.runtime_s is None:
            return spec.model.time(nodes) if spec.model is not None else spec.estimate(nodes)
        preferred = spec.nodes.preferred
        if nodes == preferred:
            return self.runtime_s
        return self.runtime_s * spec.speed_ratio(nodes, preferred)


class SimEnd(NamedTuple):
    """``jobs`` jobs were simulated until ``at`` seconds, in ``calls`` calls of the core."""

    at: float
    jobs: int
    calls: int


class _Run:
    """A job that has been started. ``left`` is the share of its work still to do at ``since``; it computes
    at rate 1 / ``whole``, or stands still if that is None. ``turn`` tells stale ends from the valid one."""

    __slots__ = ("accepted", "began", "job", "left", "mask", "number", "offer", "since", "turn", "whole")

    def __init__(self, number: int, job: SimJob, mask: int, now: float) -> None:
        self.number = number
        self.job = job
        self.mask = mask
        self.left = 1.0
        self.began = now
        self.since = now
        self.whole: float | None = None
        self.turn = 0
        self.offer: c.Offer | None = None
        self.accepted = False

    def settle(self, now: float) -> None:
        """Book the work done up to ``now``."""
        if self.whole is not None:
            self.left = max(0.0, self.left - (now - self.since) / self.whole)
        self.since = now


class Simulator:
    """Runs ``jobs`` on ``nodes`` nodes; ``sink`` gets every record.

    ``starting``: a job computes only after its groups have started, at the cost of the settings. ``instant``
    is the order in which events of one instant reach the core. A job answers an offer after
    ``answer_s``, stands still for ``blocked_s`` before a resize is done, and its former nodes are clean
    ``leave_s`` later (0: in the same instant, and the same call). ``progress`` is told the number of ended
    jobs now and then.

    Raises BatchError for jobs that cannot be simulated.
    """

    def __init__(
        self,
        jobs: Sequence[SimJob],
        nodes: int,
        policy: Policy,
        settings: Settings | None = None,
        sink: Callable[[r.Record], None] | None = None,
        *,
        starting: bool = False,
        instant: Instant = Instant.TOGETHER,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        _check(jobs, nodes)
        self._jobs = sorted(jobs, key=attrgetter("spec.submit_s"))
        self._nodes = nodes
        self._policy = policy
        self._settings = settings or Settings()
        self._cost = self._settings.cost
        self.core = SchedulerCore(policy, self._settings, sink)
        self._starting = starting
        self._happen = self._in_pyss_order if instant is Instant.PYSS else self._together
        self._progress = progress
        self._heap: list[tuple[float, int, Callable[[_Run, int], None], _Run, int]] = []
        self._order = 0
        self._runs: dict[int, _Run] = {}
        self._events: list[e.Event] = []
        self._wake = NEVER
        self._now = 0.0
        self._submitted = 0
        self._ended = 0
        self._calls = 0
        self._carry_out: dict[type[c.Command], Callable[[Any], None]] = {
            c.Start: self._start,
            c.Offer: self._offer,
            c.Withdraw: self._withdraw,
            c.Release: self._release,
            c.Kill: self._kill,
            c.WakeAt: self._wake_at,
            c.Stay: lambda _command: None,
        }

    def run(self) -> SimEnd:
        """Simulate until every job has ended and every node is clean.

        Raises PolicyError if jobs are left and nothing will ever happen again.
        """
        jobs, heap = self._jobs, self._heap
        count = len(jobs)
        self._events.append(e.Granted(NodeSet.first(self._nodes)))
        while True:
            self._happen()
            later = heap[0][0] if heap else NEVER
            if self._submitted < count:
                later = min(later, jobs[self._submitted].spec.submit_s)
            elif not heap and self._ended == count:
                return SimEnd(self._now, count, self._calls)
            later = min(later, self._wake)
            if later == NEVER:
                raise self._stuck()
            self._now = later

    def _together(self) -> None:
        """All that happens now, in one call of the core."""
        now, heap = self._now, self._heap
        while heap and heap[0][0] <= now:
            _, _, happen, run, turn = heappop(heap)
            happen(run, turn)
        while self._submit_next():
            pass
        self._tick()
        self._tell()

    def _in_pyss_order(self) -> None:
        """All that happens now, in the calls that ``Instant.PYSS`` describes."""
        now, heap, known = self._now, self._heap, self.core.state.jobs
        early: list[tuple[_Run, int]] = []
        while heap and heap[0][0] <= now:
            _, _, happen, run, turn = heappop(heap)
            if happen == self._finish and turn == run.turn and known[run.number].expected_end > now:
                early.append((run, turn))
            else:
                happen(run, turn)
        self._tick()
        self._tell()
        while self._submit_next():
            self._tell()
        for run, turn in early:
            self._finish(run, turn)
            self._tell()

    def _submit_next(self) -> bool:
        """Submit the next job, if it is due."""
        i = self._submitted
        if i == len(self._jobs) or self._jobs[i].spec.submit_s > self._now:
            return False
        self._submitted = i + 1
        self._events.append(e.Submitted(i + 1, self._jobs[i].spec))
        return True

    def _tick(self) -> None:
        if self._wake <= self._now:
            self._wake = NEVER
            self._events.append(e.Tick())

    def _tell(self) -> None:
        """Let the core handle the events, and what its commands cause in the same instant."""
        while self._events:
            events, self._events = self._events, []
            self._calls += 1
            for command in self.core.handle(events, self._now):
                self._carry_out[type(command)](command)

    def _at(self, time: float, happen: Callable[[_Run, int], None], run: _Run) -> None:
        self._order += 1
        heappush(self._heap, (time, self._order, happen, run, run.turn))

    def _stuck(self) -> PolicyError:
        waiting = [job.spec.name for job in self.core.state.queue]
        shown = ", ".join(waiting[:10]) + (", ..." if len(waiting) > 10 else "")
        return PolicyError(
            f"policy {self._policy.name!r} is stuck at {self._now:.3f} s: {len(waiting)} jobs wait "
            f"({shown}), {self.core.state.free} of {self._nodes} nodes are free, and nothing is left to happen"
        )

    # ---- commands ------------------------------------------------------------------------------------

    def _start(self, command: c.Start) -> None:
        if command.resize:
            return  # the newcomers of an expansion; their time is part of expand_s
        number = command.job
        mask = command.nodes.mask
        run = self._runs[number] = _Run(number, self._jobs[number - 1], mask, self._now)
        if self._starting:
            cost = self._cost
            self._at(self._now + cost.start_s + cost.start_each_s * mask.bit_count(), self._begin, run)
        else:
            self._begin(run, 0)

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
        if offer.kind == "expand" and not self._cost.leave_s:
            self._events.append(e.Clean(run.number, offer.nodes))

    def _release(self, command: c.Release) -> None:
        if leave_s := self._cost.leave_s:
            former = _Run(command.job, self._jobs[command.job - 1], command.nodes.mask, self._now)
            self._at(self._now + leave_s, self._clean, former)

    def _kill(self, command: c.Kill) -> None:
        run = self._runs.get(command.job)
        if run is not None:
            self._over(run, KILLED)

    def _wake_at(self, command: c.WakeAt) -> None:
        self._wake = command.at

    # ---- what jobs do --------------------------------------------------------------------------------

    def _begin(self, run: _Run, _turn: int) -> None:
        """Say hello and compute."""
        if run.number not in self._runs:
            return
        run.began = self._now
        spec = run.job.spec
        elastic = spec.job_class is JobClass.MALLEABLE
        self._events.append(e.Hello(run.number, elastic))
        if elastic:
            self._events.append(e.Malleable(run.number, on=True))
        self._compute(run)

    def _compute(self, run: _Run) -> None:
        """Go on computing at the present size; the end moves accordingly."""
        now = self._now
        run.since = now
        run.whole = run.job.time(run.mask.bit_count())
        run.turn += 1
        self._at(now + run.left * run.whole, self._finish, run)

    def _finish(self, run: _Run, turn: int) -> None:
        if turn == run.turn:
            self._over(run, 0)

    def _over(self, run: _Run, exit_code: int) -> None:
        run.turn += 1
        del self._runs[run.number]
        self._ended += 1
        self._events.append(e.Ended(run.number, exit_code))
        if not self._cost.leave_s:
            mask = run.mask
            if run.offer is not None and run.offer.kind == "expand":
                mask |= run.offer.nodes.mask
            self._events.append(e.Clean(run.number, NodeSet(mask)))
        if self._progress is not None and not self._ended % 500:
            self._progress(self._ended)

    def _accept(self, run: _Run, _turn: int) -> None:
        offer = self._current(run)
        if offer is None or run.accepted:
            return
        run.accepted = True
        self._events.append(e.Accepted(run.number, offer.resize))
        if offer.kind == "expand":
            preparing = self._cost.expand_s(run.mask.bit_count(), offer.size)
            self._at(self._now + preparing - self._cost.answer_s - self._cost.blocked_s, self._block, run)
        else:
            self._block(run, run.turn)

    def _block(self, run: _Run, _turn: int) -> None:
        """Stand still: the last part of every resize."""
        if self._current(run) is None:
            return
        run.settle(self._now)
        run.whole = None
        run.turn += 1
        self._at(self._now + self._cost.blocked_s, self._resized, run)

    def _resized(self, run: _Run, turn: int) -> None:
        offer = self._current(run)
        if offer is None or turn != run.turn:
            return
        run.offer = None
        released = NodeSet()
        if offer.kind == "expand":
            run.mask |= offer.nodes.mask
        else:
            # Those that must leave, and the highest-numbered others.
            kept = lowest_bits(run.mask & ~offer.nodes.mask, offer.size)
            released = NodeSet(run.mask & ~kept)
            run.mask = kept
        self._events.append(e.Resized(run.number, offer.resize, released, self._cost.blocked_s))
        if released and not self._cost.leave_s:
            self._events.append(e.Clean(run.number, released))
        self._compute(run)

    def _current(self, run: _Run) -> c.Offer | None:
        """The outstanding offer, if the job still runs."""
        return run.offer if self._runs.get(run.number) is run else None

    def _clean(self, former: _Run, _turn: int) -> None:
        self._events.append(e.Clean(former.number, NodeSet(former.mask)))


def simulate(
    jobs: Sequence[SimJob],
    nodes: int,
    policy: Policy,
    settings: Settings | None = None,
    sink: Callable[[r.Record], None] | None = None,
    *,
    starting: bool = False,
    instant: Instant = Instant.TOGETHER,
    progress: Callable[[int], None] | None = None,
) -> SimEnd:
    """Run ``jobs`` on ``nodes`` nodes under ``policy``; see Simulator. Job numbers follow submission, from 1."""
    simulator = Simulator(
        jobs, nodes, policy, settings, sink, starting=starting, instant=instant, progress=progress
    )
    return simulator.run()


def measured(
    jobs: Sequence[SimJob],
    nodes: int,
    policy: Policy,
    settings: Settings | None = None,
    *,
    starting: bool = False,
    instant: Instant = Instant.TOGETHER,
    keep_jobs: bool = True,
) -> RunMetrics:
    """``simulate``, and the metrics of it."""
    metrics = Metrics(keep_jobs=keep_jobs)
    simulate(jobs, nodes, policy, settings, metrics.add, starting=starting, instant=instant)
    return metrics.summary(nodes)


def _check(jobs: Sequence[SimJob], nodes: int) -> None:
    if not jobs:
        raise BatchError("there are no jobs to simulate")
    for job in jobs:
        spec = job.spec
        if spec.nodes.min > nodes:
            raise BatchError(
                f"job {spec.name!r}: nodes: it needs {spec.nodes.min} nodes and there are {nodes}; "
                "it could never start"
            )
        if spec.submit_s < 0:
            raise BatchError(f"job {spec.name!r}: submit: {spec.submit_s:g} s lies before the start")
        if not job.time(spec.nodes.preferred) > 0:
            raise BatchError(f"job {spec.name!r}: its run time must be above 0 seconds")

"""What cannot be simulated, or cannot go on, and why."""

from __future__ import annotations

from collections.abc import Sequence

from pliant.core.state import State
from pliant.model.errors import BatchError, PolicyError
from pliant.model.limits import LATEST_S
from pliant.model.words import are, count
from pliant.sim.breakdowns import Breakdowns
from pliant.workloads.job import SimJob

ROUNDS = 1000
"""So many times, and 20 more for each running job, may something follow in no time from what was before,
without a job that ends or is submitted."""
WAKES = 100_000
"""So many times in a row may a policy ask to be woken while nothing else is left to happen."""


class Watch:
    """Notices what would go on for ever, where ``done`` jobs have ended or were submitted."""

    __slots__ = ("_asleep", "_at", "_done", "_rounds", "_wakes")

    def __init__(self) -> None:
        self._rounds = self._done = self._wakes = self._asleep = 0
        self._at = -1.0

    def at_once(self, state: State, policy: str, done: int, running: int) -> None:
        """Something follows in no time, while so many jobs run. PolicyError."""
        again = state.now == self._at and done == self._done
        self._rounds = self._rounds + 1 if again else 0
        self._at, self._done = state.now, done
        if self._rounds > ROUNDS + 20 * running:
            raise restless(state, policy)

    def asleep(self, state: State, policy: str, done: int) -> None:
        """Nothing is left to happen but that ``policy`` is woken, which comes next. PolicyError."""
        self._wakes, self._asleep = self._wakes + 1 if done == self._asleep else 0, done
        if self._wakes > WAKES:
            raise sleepless(state, policy)


def check_jobs(jobs: Sequence[SimJob], nodes: int, there: str = "there are") -> None:
    """BatchError for jobs that cannot be simulated on ``nodes`` nodes, which ``there`` are."""
    if not jobs:
        raise BatchError("there are no jobs to simulate")
    for job in jobs:
        spec = job.spec
        if spec.nodes.min > nodes:
            raise BatchError(
                f"job {spec.name!r}: nodes: it needs {count(spec.nodes.min, 'node')} and {there} {nodes}; "
                "it could never start"
            )
        if spec.submit_s < 0:
            raise BatchError(f"job {spec.name!r}: submit: {spec.submit_s:g} s lies before the start")
        if not spec.submit_s <= LATEST_S:
            raise BatchError(
                f"job {spec.name!r}: submit: {spec.submit_s:g} s; the latest is {LATEST_S:g} s, as there times can "
                "still be told apart"
            )
        if spec.nodes.min < spec.nodes.max and not spec.walltime_s > 0:
            raise BatchError(
                f"job {spec.name!r}: walltime: a job with several sizes needs an estimate above 0 s"
            )
        if not job.time(spec.nodes.preferred) >= 0:
            raise BatchError(f"job {spec.name!r}: its run time must be 0 seconds or more")


def check_dependencies(jobs: Sequence[SimJob]) -> None:
    """BatchError if one of ``jobs``, in order of submission, follows none that is before it: of a circle none would
    ever be submitted."""
    if not any(job.after for job in jobs):
        return
    earlier: set[str] = set()
    for job in jobs:
        if job.after and job.after not in earlier:
            raise BatchError(
                f"job {job.spec.name!r}: it is to follow job {job.after!r}, which is no job before it"
            )
        if job.spec.name in earlier:
            raise BatchError(
                f"job {job.spec.name!r}: there are two of this name, and jobs follow others by name"
            )
        earlier.add(job.spec.name)


def stuck(state: State, policy: str, nodes: int, breakdowns: Breakdowns) -> PolicyError | BatchError:
    """Jobs wait and nothing will ever happen again: too many nodes stay away, or ``policy`` does nothing."""
    most = nodes if state.settings.pool is not None else max(state.total, breakdowns.most_up)
    for job in state.queue:
        if job.bounds.min > most:
            return BatchError(
                f"job {job.spec.name!r} waits for {count(job.bounds.min, 'node')} and cannot start at "
                f"{state.now:.3f} s: of {count(nodes, 'node')}, "
                f"{count(nodes - state.total, 'has failed', 'have failed')}, and never more than {most} are there at "
                "once; give the nodes shorter repairs, or the job fewer nodes"
            )
    return PolicyError(
        f"policy {policy!r} is stuck at {state.now:.3f} s: {count(state.waiting, 'job waits', 'jobs wait')} "
        f"({_shown(state)}), {state.free} of {nodes} nodes are free, and nothing is left to happen"
    )


def sleepless(state: State, policy: str) -> PolicyError:
    """``policy`` asks to be woken again and again while jobs wait, and starts none."""
    return PolicyError(
        f"policy {policy!r} is stuck at {state.now:.3f} s: {count(state.waiting, 'job waits', 'jobs wait')} "
        f"({_shown(state)}), {are(state.free, 'node')} free, and it asks to be woken ever again but starts none"
    )


def _shown(state: State) -> str:
    """The names of those that wait, if there are not too many."""
    waiting = [job.spec.name for job in state.queue]
    return ", ".join(waiting[:10]) + (", ..." if len(waiting) > 10 else "")


def restless(state: State, policy: str) -> PolicyError:
    """``policy`` resizes jobs to and fro while no time passes."""
    sizes = ", ".join(f"{job.spec.name} has {job.size}" for _, _, job in state.running[:5])
    return PolicyError(
        f"policy {policy!r} makes no end of resizing at {state.now:.3f} s: {count(state.resizes, 'resize')} so far "
        f"({sizes}{', ...' if len(state.running) > 5 else ''}); what it gives it must not take back at once"
    )

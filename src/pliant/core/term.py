"""The end of the nodes' time, where their grant has one: who is ended before it, and who waits in vain.

A job is not started that could not end in time by its estimate, whatever size it got. Where its user has stated none,
nobody knows: it may begin, and is ended with the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from pliant.core.job import Job
from pliant.core.settings import Settings
from pliant.core.state import State
from pliant.model.jobs import JobSpec, JobState

ORDERLY_S = 10.0
"""What a run gets to end in good order, beside what its jobs get."""
OVER = "the time of the nodes is over"


def end_of(until: float, settings: Settings) -> float:
    """When jobs are ended on nodes that are there until then."""
    return until - settings.kill_grace_s - ORDERLY_S


def shortest_s(spec: JobSpec, nodes: int) -> float:
    """The least estimate of its sizes on so many nodes; 0 if nobody has stated one."""
    if spec.unestimated is True:
        return 0.0
    least = spec.nodes.min
    sizes = spec.nodes.up_to(nodes).sizes() if nodes > least else [least]
    return min(map(spec.estimate, sizes))


class Term:
    """What follows from the end of the nodes' time. Of the jobs that wait those are at hand that need the longest."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._longest: list[tuple[float, int]] = []

    def begin(self) -> None:
        """Take up those that wait."""
        for job in self._state.queue:
            self.waits(job)

    def waits(self, job: Job) -> None:
        """This job has been submitted."""
        heappush(self._longest, (-self._least_s(job), job.id))

    def due(self) -> Iterator[tuple[Job, str]]:
        """Jobs that must not wait or run any longer, and why."""
        state = self._state
        end = end_of(state.nodes.until, state.settings)
        left = max(0.0, end - state.now)
        while self._longest and (not left or -self._longest[0][0] > left):
            least, number = heappop(self._longest)
            job = state.jobs.get(number)
            if job is None or job.state is not JobState.PENDING:
                continue
            if left and -least > (now_least := self._least_s(job)):
                heappush(self._longest, (-now_least, number))  # there are more nodes since
            else:
                yield job, self._in_vain(-least, left)
        if not left:
            yield from ((job, OVER) for _, _, job in list(state.running) if job.ending is None)

    def _least_s(self, job: Job) -> float:
        """The least that it needs on the nodes that are there or asked for."""
        return shortest_s(job.spec, self._state.total + self._state.nodes.awaited)

    @staticmethod
    def _in_vain(least_s: float, left_s: float) -> str:
        if not left_s:
            return f"{OVER}, and it had not started"
        return (
            f"it needs {least_s:.6g} s by its estimate, and jobs can run on these nodes for {left_s:.6g} s: "
            "have the nodes for longer, or state less time"
        )

"""A job as the simulator takes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import msgspec

from pliant.model.jobs import Bounds, JobSpec
from pliant.model.speedup import Simple, Table


class Adapting(msgspec.Struct, frozen=True, gc=False):
    """What a job itself does at a resize, beside what a resize costs any job: seconds for which it stands still.

    ``resized`` by the nodes that it has then; where it grows, ``grown`` by those that are new. None is no time.
    """

    resized: Simple | None = None
    grown: Simple | None = None

    def still_s(self, before: int, after: int) -> float:
        """How long a resize from ``before`` to ``after`` nodes takes."""
        seconds = self.resized.time(after) if self.resized is not None else 0.0
        if after > before and self.grown is not None:
            seconds += self.grown.time(after - before)
        return seconds

    def longest_s(self, nodes: Bounds) -> float:
        """No resize of a job of these sizes takes longer."""
        return _longest_s(self.resized, nodes.min, nodes.max) + _longest_s(self.grown, 1, nodes.max)


def _longest_s(model: Simple | None, least: int, most: int) -> float:
    if model is None:
        return 0.0
    return max(model.time(nodes) for nodes in (model.times if isinstance(model, Table) else (least, most)))


class SimJob(msgspec.Struct, frozen=True, gc=False):
    """A job and how long it really runs: ``runtime_s`` at its preferred size, else by its model.

    It looks for offers ``period_s`` after it began to compute and at multiples of that (Iserte et al. 2018, section
    5.1: the checking inhibitor); 0 is at any time.

    ``adapting`` is what it does itself at a resize.

    With ``after``, the name of another job, it is submitted ``think_s`` after that has ended, whenever that is.
    """

    spec: JobSpec
    runtime_s: float | None = None
    period_s: float = 0.0
    after: str = ""
    think_s: float = 0.0
    adapting: Adapting | None = None

    def time(self, nodes: int) -> float:
        """Run time on ``nodes`` all the way, in seconds; without a model, speed-up is linear."""
        spec = self.spec
        if self.runtime_s is None:
            return spec.model.time(nodes) if spec.model is not None else spec.estimate(nodes)
        preferred = spec.nodes.preferred
        if nodes == preferred:
            return self.runtime_s
        return self.runtime_s * spec.speed_ratio(nodes, preferred)


def without(jobs: list[SimJob], others: Sequence[JobSpec]) -> list[SimJob]:
    """The jobs that are none of these; who was to follow one of those comes at its own time."""
    if not others:
        return jobs
    gone, names = {id(spec) for spec in others}, {spec.name for spec in others}
    return [
        msgspec.structs.replace(job, after="", think_s=0.0) if job.after in names else job
        for job in jobs
        if id(job.spec) not in gone
    ]


def reference_times(jobs: Sequence[SimJob]) -> Callable[[int, JobSpec], float | None]:
    """For ``Metrics``: seconds by number and specification, None for a job that is not one of ``jobs``.

    Numbers follow submission, from 1, as in ``Simulator``; a job that has another number is known by the
    identity of its specification.
    """
    by_number = sorted(jobs, key=attrgetter("spec.submit_s"))
    count = len(by_number)
    by_spec: dict[int, SimJob] = {}

    def reference(number: int, spec: JobSpec) -> float | None:
        job = by_number[number - 1] if number <= count else None
        if job is None or job.spec is not spec:
            if not by_spec:
                by_spec.update((id(each.spec), each) for each in by_number)
            job = by_spec.get(id(spec))
            if job is None:
                return None
        # What time() says of the preferred size, without the call: this is asked of every job.
        return job.time(spec.nodes.preferred) if job.runtime_s is None else job.runtime_s

    return reference

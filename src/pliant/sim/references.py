"""How long simulated jobs would run at their preferred size all the way: what their slowdown is measured by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from pliant.model.jobs import JobSpec
from pliant.workloads.job import SimJob


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

"""Simulations beside each other under one clock: the partitions of a machine. Each has a core, a policy and nodes of
its own, so that the jobs of one never see those of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from pliant.core import records as r
from pliant.core.settings import NEVER
from pliant.model.bookings import check_bookings
from pliant.model.errors import BatchError, PolicyError
from pliant.policy.view import Policy
from pliant.sim.conditions import PLAIN, Conditions, Neighbourhood, SimEnd
from pliant.sim.refusals import check_dependencies, check_jobs
from pliant.sim.simulator import Simulator
from pliant.workloads.bookings import of_partition
from pliant.workloads.job import SimJob


class PartSimulation(NamedTuple):
    """The ``jobs`` of a partition, on ``nodes`` nodes of its own under a ``policy`` of its own. ``sink`` gets the
    records of it alone."""

    name: str
    jobs: Sequence[SimJob]
    nodes: int
    policy: Policy
    sink: Callable[[r.Record], None] | None = None


class SimulatorsBeside:
    """Runs ``parts``, whose nodes are numbered in their order. Jobs are numbered over all of them, as they are
    submitted, and may follow one of another part.

    Of what happens in one instant, that of the first part is told first. Raises BatchError, which names the part, for
    jobs that cannot be simulated.
    """

    def __init__(self, parts: Sequence[PartSimulation], conditions: Conditions = PLAIN) -> None:
        total = sum(part.nodes for part in parts)
        failures = conditions.failures
        if failures is not None:
            failures.outages(total)  # those that are listed exist
        every = [job for part in parts for job in part.jobs]
        if not every:
            raise BatchError("there are no jobs to simulate")
        check_dependencies(sorted(every, key=attrgetter("spec.submit_s")))
        self._parts = parts
        self._simulators: list[Simulator] = []
        first, neighbourhood = 0, None
        for index, part in enumerate(parts):
            if part.jobs:
                check_jobs(part.jobs, part.nodes, f"partition {part.name!r} has")
            neighbourhood = Neighbourhood(index, len(parts), first, neighbourhood)
            booked = of_partition(conditions.bookings, part.name, index)
            check_bookings(booked, part.nodes, f"partition {part.name!r} has")
            own = conditions._replace(neighbourhood=neighbourhood, bookings=booked)
            if failures is not None:
                own = own._replace(failures=failures.among(first, part.nodes))
            simulator = Simulator(part.jobs, part.nodes, part.policy, own, part.sink)
            neighbourhood.others.append(simulator)
            self._simulators.append(simulator)
            first += part.nodes

    def run(self, progress: Callable[[int], None] | None = None) -> SimEnd:
        """As of a simulator, for all of them."""
        ended = [0] * len(self._parts)

        def told(index: int) -> Callable[[int], None] | None:
            def tell(count: int) -> None:
                ended[index] = count
                if progress is not None:
                    progress(sum(ended))

            return tell

        simulators = self._simulators
        for index, each in enumerate(simulators):
            each.begin(told(index))
        soonest = attrgetter("next")
        while (first := min(simulators, key=soonest)).next != NEVER:
            first.go_on()
        for part, each in zip(self._parts, simulators, strict=True):
            if not each.over:
                raise self._stuck(part, each)
        return self._end([each.end() for each in simulators])

    def _stuck(self, part: PartSimulation, simulator: Simulator) -> PolicyError | BatchError:
        error = simulator.stuck()
        if len(self._parts) == 1:
            return error
        return type(error)(f"partition {part.name!r}: {error}")

    def _end(self, ends: Sequence[SimEnd]) -> SimEnd:
        return SimEnd(
            max(end.at for end in ends),
            sum(end.jobs for end in ends),
            sum(end.calls for end in ends),
            sum(end.node_failures for end in ends),
            sum(end.requeued for end in ends),
            sum(end.lost_node_s for end in ends),
            sum(end.reserved_node_s for end in ends),
            sum(end.reserved_late_node_s for end in ends),
        )

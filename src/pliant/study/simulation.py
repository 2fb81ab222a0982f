"""One simulation of a study, and what it comes to."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import msgspec

from pliant.core import records as r
from pliant.files.external import at_work, is_external
from pliant.files.policy import PolicySpec
from pliant.history.energy import EnergyBetween
from pliant.history.metrics import Metrics, RunMetrics
from pliant.history.timeline import Listener, Timeline
from pliant.history.within import MetricsWithin
from pliant.model.errors import BatchError
from pliant.policy.booked import Calendar
from pliant.policy.elastic import Elastic
from pliant.policy.registry import keeps_sizes
from pliant.policy.view import Policy, provisions
from pliant.sim.beside import PartSimulation, SimulatorsBeside
from pliant.sim.instant import Instant
from pliant.sim.simulator import Conditions, SimEnd, Simulator
from pliant.workloads.bookings import of_partition
from pliant.workloads.job import SimJob, reference_times
from pliant.workloads.partitions import Partitions
from pliant.workloads.sources import JOURNAL, Workload, WorkloadRequest, read_workload

Sink = Callable[[r.Record], None]
NOT_SHOWN = ("jobs", "ended", "pace_overrun")
"""Metrics of no interest here: jobs are not kept, all of them end, and none is paced."""
NO_NUMBERS = ("classes", "partitions", "unmapped")
"""Of the figures of a simulation, those that have several of each."""


class SimulationResult(NamedTuple):
    """What a simulation came to; ``cpu_s`` is its own time, without reading the workload. ``parts`` are the metrics of
    each partition by its name, if there are some."""

    end: SimEnd
    metrics: RunMetrics
    cpu_s: float
    parts: Mapping[str, RunMetrics] = {}

    def doubt(self, load: Workload) -> str:
        """What makes the figures of a window doubtful; empty if nothing does."""
        waited_s = self.metrics.wait_max_s
        if waited_s <= load.warm_s:
            return ""
        return (
            f"a job of the window waited for {waited_s:,.0f} s, longer than its warm-up of {load.warm_s:,.0f} s: the "
            "queue from before that is missing; give a longer --warm-up, or --warm-up all"
        )

    def node_hours(self, load: Workload) -> float | None:
        """The node-hours held, where nodes come and go."""
        return None if load.settings.pool is None else self.metrics.capacity_node_s / 3600.0

    def price(self, load: Workload) -> float | None:
        """What the node-hours held cost, where a price was given."""
        pool, hours = load.settings.pool, self.node_hours(load)
        return None if pool is None or pool.price is None or hours is None else hours * pool.price

    def figures(self, load: Workload) -> dict[str, Any]:
        """The metrics of ``RunMetrics``, and what the simulator adds to them. All are numbers, None where there is
        nothing to count, but for ``classes`` and ``partitions``, which have the numbers of each by its name, and
        ``unmapped``, a list of what is not simulated. Of a window they are those of the ``jobs`` in it; ``simulated``
        are these with those around them."""
        end, cpu_s = self.end, self.cpu_s
        return {
            "left_out": load.left_out,
            "too_wide": len(load.too_wide),
            "too_long": len(load.too_long),
            "jobs": end.jobs if load.counted is None else len(load.counts),
            "simulated": end.jobs,
            **_shown(self.metrics),
            "node_hours": self.node_hours(load),
            "node_hours_price": self.price(load),
            "node_failures": end.node_failures,
            "requeued": end.requeued,
            "lost_node_s": end.lost_node_s,
            "reserved_node_s": end.reserved_node_s,
            "reserved_late_node_s": end.reserved_late_node_s,
            "energy_kwh": end.energy_kwh,
            "off_node_h": end.off_node_h,
            "boots": end.boots,
            "cpu_s": cpu_s,
            "jobs_per_cpu_s": end.jobs / cpu_s if cpu_s > 0 else None,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "partitions": self._of_partitions(load),
            "unmapped": [row._asdict() for row in load.unmapped],
        }

    def _of_partitions(self, load: Workload) -> dict[str, Any]:
        if load.partitions is None:
            return {}
        return {
            partition.name: {
                "nodes": partition.nodes,
                "too_wide": sum(spec.partition == partition.name for spec in load.too_wide),
                "too_long": sum(spec.partition == partition.name for spec in load.too_long),
                "jobs": self.parts[partition.name].ended,
                **_shown(self.parts[partition.name]),
            }
            for partition in load.partitions.each
        }


def _shown(metrics: RunMetrics) -> dict[str, Any]:
    found = msgspec.to_builtins(metrics, str_keys=True)
    return {key: value for key, value in found.items() if key not in NOT_SHOWN}


class Simulation(NamedTuple):
    """A workload under a policy; ``others`` are those of the second partition and of the following, if there are
    any."""

    load: Workload
    policy: Policy
    instant: Instant = Instant.TOGETHER
    others: Sequence[Policy] = ()

    def run(
        self,
        *listeners: Listener,
        keep_jobs: bool = False,
        keep: Sink | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> SimulationResult:
        """Simulate it. ``listeners`` are told the lives of its jobs, ``keep`` is given the records, and
        ``progress`` is told how many jobs have ended."""
        load = self.load
        metrics = self._metrics(load.jobs, keep_jobs=keep_jobs)
        between = self._energy_between()
        add = Timeline(metrics, *listeners, *([between] if between is not None else [])).add

        began = time.process_time()
        conditions = Conditions(
            load.settings,
            load.starting,
            self.instant,
            load.failures,
            load.checkpoints,
            bookings=load.bookings,
            power=load.power,
        )
        sink = add if keep is None else _both(add, keep)
        parts: dict[str, Metrics] = {}
        with ExitStack() as stack:
            for policy in (self.policy, *self.others):
                stack.enter_context(at_work(policy))
            simulator: Simulator | SimulatorsBeside
            if load.partitions is None:
                simulator = Simulator(load.jobs, load.nodes, self.policy, conditions, sink)
            else:
                simulator = SimulatorsBeside(list(self._parts(load.partitions, sink, parts)), conditions)
            end = simulator.run(progress)
        if between is not None:
            end = end._replace(**between.use()._asdict())
        of_each = {name: each.summary() for name, each in parts.items()}
        return SimulationResult(end, metrics.summary(), time.process_time() - began, of_each)

    def _metrics(self, jobs: Sequence[SimJob], *, keep_jobs: bool = False) -> Metrics:
        """Of these jobs, or those of them that count."""
        reference = reference_times(jobs)
        if self.load.counted is None:
            return Metrics(keep_jobs=keep_jobs, reference=reference)
        counted = {id(job.spec) for job in self.load.counts}
        return MetricsWithin([job.spec for job in jobs if id(job.spec) in counted], reference=reference)

    def _energy_between(self) -> EnergyBetween | None:
        """What is asked of a window's energy."""
        power = self.load.power
        if self.load.counted is None or power is None:
            return None
        return EnergyBetween(power, [job.spec for job in self.load.counts])

    def _parts(
        self, partitions: Partitions, sink: Sink, metrics: dict[str, Metrics]
    ) -> Iterator[PartSimulation]:
        """The partitions as they are simulated, whose metrics go to ``metrics``."""
        for partition, policy in zip(partitions.each, (self.policy, *self.others), strict=True):
            jobs = [job for job in self.load.jobs if job.spec.partition == partition.name]
            own = metrics[partition.name] = self._metrics(jobs)
            yield PartSimulation(
                partition.name, jobs, partition.nodes, policy, _both(sink, Timeline(own).add)
            )


def simulation(wish: WorkloadRequest, policy: PolicySpec, instant: Instant = Instant.TOGETHER) -> Simulation:
    """The workload of ``wish`` under ``policy``, else its own, else EASY, or where jobs are made malleable
    the malleable one. BatchError, TraceError or PolicyError."""
    load = read_workload(wish)
    default = "easy" if wish.percent is None else "malleable"
    chosen = policy.over(load.own, default)
    if wish.text.endswith(JOURNAL):
        chosen = _what_if(chosen, load.own)
    first, *others = chosen.make_each(_calendars(load))
    if wish.pool is not None and is_external(first.name):
        raise BatchError(
            f"--elastic and policy {first.name!r}: not simulated together, as a start may wait for its nodes, and a "
            "policy in a process of its own takes it for done; choose a policy in Python"
        )
    if wish.pool is not None and not provisions(first):
        first = Elastic(first)
    return Simulation(load, first, instant, others)


def _what_if(chosen: PolicySpec, own: PolicySpec) -> PolicySpec:
    """The policy for the jobs of a journal. Those that could be resized are rigid without that: under a policy that
    keeps sizes each waits for its preferred one, if nobody says otherwise and the journal's own policy resized jobs."""
    unsaid = chosen.start is None and chosen.own is None and ":" not in chosen.name
    rigid = unsaid and keeps_sizes(chosen.name) and not keeps_sizes(own.name)
    return chosen._replace(start="exact") if rigid else chosen


def _calendars(load: Workload) -> list[Calendar | None]:
    """What is reserved of each partition, None where nothing is."""
    sizes = (
        {"": load.nodes}
        if load.partitions is None
        else {each.name: each.nodes for each in load.partitions.each}
    )
    each = [(nodes, of_partition(load.bookings, name, i)) for i, (name, nodes) in enumerate(sizes.items())]
    return [Calendar(nodes, bookings) if bookings else None for nodes, bookings in each]


def _both(one: Sink, other: Sink) -> Sink:
    """What gives each record to both."""

    def both(record: r.Record) -> None:
        one(record)
        other(record)

    return both

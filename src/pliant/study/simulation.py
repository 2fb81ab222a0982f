"""One simulation of a study, and what it comes to."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from pliant.core import records as r
from pliant.files.external import at_work
from pliant.files.policy import PolicySpec
from pliant.history.lives import Listener, Lives
from pliant.history.metrics import Metrics, RunMetrics
from pliant.history.within import MetricsWithin
from pliant.policy.view import Policy
from pliant.sim.instant import Instant
from pliant.sim.references import reference_times
from pliant.sim.simulator import Conditions, SimEnd, Simulator
from pliant.workloads.sources import Wish, Workload, read_workload

Sink = Callable[[r.Record], None]
NOT_SHOWN = ("jobs", "ended", "pace_overrun")
"""Metrics of no interest here: jobs are not kept, all of them end, and none is paced."""


class Ended(NamedTuple):
    """What a simulation came to; ``cpu_s`` is its own time, without reading the workload."""

    end: SimEnd
    metrics: RunMetrics
    cpu_s: float

    def doubt(self, load: Workload) -> str:
        """What makes the figures of a window doubtful; empty if nothing does."""
        waited_s = self.metrics.wait_max_s
        if waited_s <= load.warm_s:
            return ""
        return (
            f"a job of the window waited for {waited_s:,.0f} s, longer than its warm-up of {load.warm_s:,.0f} s: the "
            "queue from before that is missing; give a longer --warm-up, or --warm-up all"
        )

    def figures(self, load: Workload) -> dict[str, Any]:
        """What the command gives as JSON: the metrics of ``RunMetrics``, and what the simulator adds to them. All are
        numbers, None where there is nothing to count, but for ``classes``, which has the numbers of each. Of a window
        they are those of the jobs in it, and ``simulated`` are these with those around them."""
        end, cpu_s = self.end, self.cpu_s
        metrics = msgspec.to_builtins(self.metrics, str_keys=True)
        within = {} if load.counted is None else {"simulated": end.jobs}
        return {
            "left_out": load.left_out,
            "too_wide": len(load.too_wide),
            "jobs": end.jobs if load.counted is None else len(load.counts),
            **within,
            **{key: value for key, value in metrics.items() if key not in NOT_SHOWN},
            "node_failures": end.node_failures,
            "requeued": end.requeued,
            "lost_node_s": end.lost_node_s,
            "energy_kwh": end.energy_kwh,
            "off_node_h": end.off_node_h,
            "boots": end.boots,
            "cpu_s": cpu_s,
            "jobs_per_cpu_s": end.jobs / cpu_s if cpu_s > 0 else None,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


class Simulation(NamedTuple):
    """A workload under a policy."""

    load: Workload
    policy: Policy
    instant: Instant = Instant.TOGETHER

    def run(
        self,
        *listeners: Listener,
        keep_jobs: bool = False,
        keep: Sink | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Ended:
        """Simulate it. ``listeners`` are told the lives of its jobs, ``keep`` is given the records, and
        ``progress`` is told how many jobs have ended."""
        load = self.load
        reference = reference_times(load.jobs)
        if load.counted is None:
            metrics = Metrics(keep_jobs=keep_jobs, reference=reference)
        else:
            metrics = MetricsWithin([job.spec for job in load.counts], reference=reference)
        add = Lives(metrics, *listeners).add

        def both(record: r.Record) -> None:
            add(record)
            if keep is not None:
                keep(record)

        began = time.process_time()
        conditions = Conditions(
            load.settings, load.starting, self.instant, load.failures, load.checkpoints, load.power
        )
        sink = add if keep is None else both
        with at_work(self.policy):
            end = Simulator(load.jobs, load.nodes, self.policy, conditions, sink).run(progress)
        return Ended(end, metrics.summary(), time.process_time() - began)


def simulation(wish: Wish, policy: PolicySpec, instant: Instant = Instant.TOGETHER) -> Simulation:
    """The workload of ``wish`` under ``policy``, else its own, else EASY, or where jobs are made malleable
    the malleable one. BatchError, TraceError or PolicyError."""
    load = read_workload(wish)
    default = "easy" if wish.percent is None else "malleable"
    return Simulation(load, policy.over(load.own, default).make(), instant)

"""One simulation of a study, and what it comes to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from pliant.core import records as r
from pliant.files.external import at_work
from pliant.files.policy import PolicySpec
from pliant.history.lives import Listener, Lives
from pliant.history.metrics import Metrics, RunMetrics
from pliant.policy.view import Policy
from pliant.sim.instant import Instant
from pliant.sim.references import reference_times
from pliant.sim.simulator import Conditions, SimEnd, Simulator
from pliant.workloads.sources import Wish, Workload, read_workload

Sink = Callable[[r.Record], None]


class Ended(NamedTuple):
    """What a simulation came to; ``cpu_s`` is its own time, without reading the workload."""

    end: SimEnd
    metrics: RunMetrics
    cpu_s: float


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
        metrics = Metrics(keep_jobs=keep_jobs, reference=reference_times(load.jobs))
        add = Lives(metrics, *listeners).add

        def both(record: r.Record) -> None:
            add(record)
            if keep is not None:
                keep(record)

        began = time.process_time()
        conditions = Conditions(load.settings, load.starting, self.instant, load.failures, load.checkpoints)
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

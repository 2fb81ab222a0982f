"""The files that one simulation writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from pliant.core import records as r
from pliant.files.journal import RecordsFile
from pliant.history.timeline import Listener
from pliant.sim.evalys_csv import evalys_csv
from pliant.sim.job_rows import jobs_csv
from pliant.sim.swf_schedule import swf_schedule
from pliant.study.simulation import Simulation
from pliant.workloads.formats.swf_writing import header, write_swf

Sinks = tuple[list[Listener], Callable[[r.Record], None] | None]
"""Who listens to a simulation, and what is given its records."""


class Files(NamedTuple):
    """Where they go, None for those that nobody wants. ``made_by`` is the command, for the headers of traces."""

    jobs_csv: Path | None = None
    records: Path | None = None
    swf: Path | None = None
    convert: Path | None = None
    evalys_csv: Path | None = None
    made_by: str = ""

    def named(self) -> list[tuple[str, Path]]:
        """Those that are wanted, with their options."""
        places = ((name, getattr(self, name)) for name in self._fields if name != "made_by")
        return [("--" + name.replace("_", "-"), place) for name, place in places if place is not None]

    @contextmanager
    def opened(self, made: Simulation, name: str) -> Iterator[Sinks]:
        """For the time of the simulation ``made`` of the workload ``name``; all of them are there after it, or with an
        error none of those that it has not written yet. BatchError if one cannot be written."""
        load, policy = made.load, made.policy.name
        names = [] if load.partitions is None else [each.name for each in load.partitions.each]
        conversion = ", ".join(filter(None, (f"Pliant {version('pliant')}", self.made_by)))
        with ExitStack() as stack:
            listeners: list[Listener] = []
            if self.jobs_csv is not None:
                table = jobs_csv(self.jobs_csv, partitions=load.partitions is not None)
                listeners.append(stack.enter_context(table))
            if self.evalys_csv is not None:
                listeners.append(stack.enter_context(evalys_csv(self.evalys_csv, Path(name).stem)))
            if self.swf is not None:
                head = header(len(load.jobs), load.nodes, conversion, f"{SCHEDULE} {policy}", load.began)
                listeners.append(stack.enter_context(swf_schedule(self.swf, load.jobs, head, names)))
            keep = None
            if self.records is not None:
                keep = stack.enter_context(RecordsFile(self.records, policy, load.settings)).add
            yield listeners, keep
            if self.convert is not None:
                head = header(len(load.jobs), load.nodes, conversion, JOBS, load.began)
                write_swf("--convert", self.convert, load.jobs, head, names)


SCHEDULE = (
    "waits, run times and processors (of jobs that were resized, the mean) as simulated under the policy"
)
JOBS = "run times are those on the processors given; bounds and models of jobs with a choice have no field"

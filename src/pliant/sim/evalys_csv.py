"""What became of each job, as Batsim writes it and Evalys reads it: written while the simulation runs, there once it is
whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from pliant.core import records as r
from pliant.files.partial import PartialTable
from pliant.history.timeline import Life, Listener
from pliant.model.jobs import JobState
from pliant.model.nodes import NodeSet

COLUMNS = (
    "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources", "requested_time",
    "success", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time",
    "stretch", "allocated_resources", "consumed_energy", "metadata",
)  # fmt: skip
"""Those of jobs.csv, in Batsim's order. Times in seconds; ``stretch`` is turnaround over run time, without a bound."""
FINAL_STATES = {
    JobState.COMPLETED: "COMPLETED_SUCCESSFULLY",
    JobState.FAILED: "COMPLETED_FAILED",
    JobState.TIMEOUT: "COMPLETED_WALLTIME_REACHED",
}
"""All others were killed."""
NO_NODES = (0, 0.0)
NO_ENERGY = -1
"""Batsim's, where it measures none."""


class EvalysCsv(Listener):
    """Listens to a simulation of the workload ``name``, and fills a table.

    A line for each time that a job was submitted, in order; one that is submitted again goes on as ``NAME#1``, as
    pybatsim submits jobs again. The format has one set of nodes for a job: of one that was resized, those that it held
    for the longest time without a change.
    """

    IGNORES: ClassVar[frozenset[str]] = frozenset({
        "began", "launched", "offered", "accepted", "withdrawn", "resized", "settled", "groups_lost", "wasted",
        "idle", "noted", "used", "nodes_there", "nodes_lost", "nodes_returned",
    })  # fmt: skip

    def __init__(self, table: PartialTable, name: str) -> None:
        self._table = table
        self._name = name
        self._nodes: dict[int, tuple[int, float]] = {}
        """Of jobs that run: those that it held longest, and for how long."""
        self._times: dict[int, int] = {}
        """How often jobs that have not ended were submitted again, if they were."""

    def submitted(self, life: Life) -> None:
        if life.again:
            self._times[life.job] = self._times.pop(life.requeue_of, 0) + 1

    def started(self, life: Life) -> None:
        self._nodes[life.job] = life.mask, 0.0

    def held(self, life: Life) -> None:
        took = self.lives.now - life.since
        if took > self._nodes[life.job][1]:
            self._nodes[life.job] = life.mask, took

    def ended(self, life: Life, end: r.JobEnded, _size: int) -> None:
        spec, start, number = life.spec, life.start, life.job
        times = self._times.get(number, 0) if end.requeued else self._times.pop(number, 0)
        nodes = NodeSet(self._nodes.pop(number, NO_NODES)[0])
        state = FINAL_STATES.get(end.state, "COMPLETED_KILLED")
        met: list[Any] = [""] * 6
        if start is None:
            state = "REJECTED"
        else:
            run, turnaround = end.at - start, end.at - life.queued
            stretch = round(turnaround / run, 6) if run > 0 else ""
            met = [
                *(round(each, 6) for each in (start, run, end.at, start - life.queued, turnaround)),
                stretch,
            ]
        row = [
            f"{spec.name}#{times}" if times else spec.name, self._name, spec.job_class,
            round(life.queued, 6), spec.nodes.preferred, spec.walltime_s,
            int(end.state is JobState.COMPLETED), state, *met, str(nodes).replace(",", " "), NO_ENERGY, "",
        ]  # fmt: skip
        self._table.put(number, row)


@contextmanager
def evalys_csv(path: Path, name: str) -> Iterator[EvalysCsv]:
    """The table in a file, which is there when all jobs have ended. BatchError, on entering already, if ``path`` cannot
    be written."""
    with PartialTable("--evalys-csv", path) as table:
        table.head(COLUMNS)
        yield EvalysCsv(table, name)

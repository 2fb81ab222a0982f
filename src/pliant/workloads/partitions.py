"""Partitions of a machine: nodes of their own, with a queue of their own, like Slurm's, or a trace's queues.

Partitions share no nodes: each says how many it has, and they are numbered in the order of the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from pliant.files.batch import tables_of
from pliant.model.errors import BatchError, TraceError
from pliant.model.jobs import JobSpec
from pliant.model.keys import amount_of, count_of, known, text_of
from pliant.model.limits import MOST_NODES
from pliant.model.speedup import scaled
from pliant.model.words import count, nearest
from pliant.workloads.formats.swf import SwfJob
from pliant.workloads.job import SimJob, without

KEYS = ("name", "nodes", "speed", "max_time", "swf_queue", "swf_partition")
NUMBERS = ("swf_queue", "swf_partition")
"""By which of a trace's fields its jobs may be told apart: 15 or 16."""
MOST_SPEED = 1e6
FEW = 5


class Partition(NamedTuple):
    """``nodes`` nodes on which jobs run ``speed`` times as quickly as they say, of jobs that by their estimates take no
    longer than ``max_time_s`` there; None: however long. A trace's jobs belong to it whose queue or partition is one of
    ``numbers``."""

    name: str
    nodes: int
    speed: float = 1.0
    max_time_s: float | None = None
    numbers: tuple[int, ...] = ()


class Partitions(NamedTuple):
    """All of a machine. Jobs that name none are the first's. ``field`` is which of a trace's numbers tell its jobs
    apart, empty if none do."""

    each: tuple[Partition, ...]
    field: str = ""

    @property
    def nodes(self) -> int:
        return sum(partition.nodes for partition in self.each)

    def named(self, name: str) -> Partition:
        return next(partition for partition in self.each if partition.name == name)

    def of_trace(self, job: SwfJob) -> str:
        """The name of the partition of a trace's job."""
        if self.field:
            number = job.queue if self.field == "swf_queue" else job.partition
            for partition in self.each:
                if number in partition.numbers:
                    return partition.name
        return self.each[0].name

    def number(self, spec: JobSpec) -> int:
        """Which partition a job's is, from 1; -1 if it has none."""
        names = [partition.name for partition in self.each]
        return names.index(spec.partition) + 1 if spec.partition in names else -1


def read_partitions(said: Any) -> Partitions:
    """The partitions of a TOML file, or of tables with its keys; BatchError names the file and what is wrong."""
    fields: set[str] = set()
    partitions: list[Partition] = []
    where, tables = tables_of(said, "partition")
    for number, data in enumerate(tables, 1):
        partition = _partition(data, number, where, fields)
        for other in partitions:
            if other.name == partition.name:
                raise BatchError(
                    f"{where}: partition {partition.name!r}: name: two have it; names must differ"
                )
            if both := sorted({*other.numbers} & {*partition.numbers}):
                raise BatchError(
                    f"{where}: partition {partition.name!r}: {min(fields)}: {both[0]} is also that of partition "
                    f"{other.name!r}; a job can be of one only"
                )
        partitions.append(partition)
    if len(fields) > 1:
        raise BatchError(
            f"{where}: swf_queue and swf_partition: tell the jobs of a trace apart by one of them"
        )
    found = Partitions(tuple(partitions), min(fields, default=""))
    if found.nodes > MOST_NODES:
        raise BatchError(
            f"{where}: {found.nodes:,} nodes are too many to simulate; the most is {MOST_NODES:,}"
        )
    return found


def _partition(data: Mapping[str, Any], number: int, where: str, fields: set[str]) -> Partition:
    name = text_of(data, "name", f"{where}: partition {number}", "")
    at = f"{where}: partition {name!r}" if name else f"{where}: partition {number}"
    known(data, KEYS, at)
    if not name.strip() or not name.isprintable():
        raise BatchError(f"{at}: name: give it one, of characters that can be printed")
    if "nodes" not in data:
        raise BatchError(f"{at}: nodes: missing; say how many it has")
    speed = amount_of(data, "speed", at, "how many times as quickly jobs run", 1.0) or 0.0
    if not 1 / MOST_SPEED <= speed <= MOST_SPEED:
        raise BatchError(
            f"{at}: speed: {data['speed']!r}; it must be above 0, and 1 is as quickly as jobs say"
        )
    max_time_s = amount_of(data, "max_time", at, "seconds", None)
    if max_time_s == 0:
        raise BatchError(f"{at}: max_time: it must be above 0 seconds")
    numbers: tuple[int, ...] = ()
    for field in NUMBERS:
        if field in data:
            fields.add(field)
            numbers += _numbers(data[field], f"{at}: {field}")
    return Partition(name, count_of(data, "nodes", at, 1, MOST_NODES), speed, max_time_s, numbers)


def _numbers(value: Any, where: str) -> tuple[int, ...]:
    listed = value if isinstance(value, list | tuple) else [value]
    for number in listed:
        if not isinstance(number, int) or isinstance(number, bool):
            raise BatchError(
                f"{where}: {number!r} is no number of a trace's; write {where.rpartition(' ')[2]} = [1, 2]"
            )
    return tuple(listed)


def check_named(jobs: Sequence[SimJob], partitions: Partitions | None, text: str) -> None:
    """BatchError if partitions go by numbers that are in traces alone, and no job of ``text`` names its own."""
    if partitions is None or not partitions.field:
        return
    if all(job.spec.partition is UNSET for job in jobs):
        raise BatchError(
            f"--partitions: {partitions.field} changes nothing for {text}: only a trace in SWF has such numbers, and "
            "no job names its partition"
        )


def assigned(jobs: list[SimJob], partitions: Partitions | None, text: str) -> list[SimJob]:
    """The jobs of the workload ``text``, each with its partition if there are some. BatchError for one that is to run
    in none of these, and for run times that are not to be had at another speed."""
    if partitions is None:
        for job in jobs:
            if job.spec.partition is not UNSET:
                raise BatchError(
                    f"{text}: job {job.spec.name!r}: partition: it is to run in {job.spec.partition!r}, and there are "
                    "no partitions; describe them by --partitions FILE.toml"
                )
        return jobs
    if text.endswith(".ndjson") and any(partition.speed != 1 for partition in partitions.each):
        raise BatchError(
            f"{text}: --partitions: run times of a journal are those on the nodes that its jobs had; give partitions "
            "without a speed"
        )
    names = [partition.name for partition in partitions.each]
    return [_assigned(job, names, text) for job in jobs]


def _assigned(job: SimJob, names: Sequence[str], text: str) -> SimJob:
    spec = job.spec
    if spec.partition is UNSET:
        return msgspec.structs.replace(job, spec=msgspec.structs.replace(spec, partition=names[0]))
    if spec.partition not in names:
        there = f"there is no {spec.partition!r}{nearest(spec.partition, names)}"
        raise BatchError(f"{text}: job {spec.name!r}: partition: {there}")
    return job


def unfit(too_wide: Sequence[JobSpec], too_long: Sequence[JobSpec], submitted: int) -> str:
    """Which of so many jobs their partitions do not take, for people; empty if they take all."""
    wrong = [(spec, f"{count(spec.nodes.min, 'node')}") for spec in too_wide]
    wrong += [(spec, f"{spec.walltime_s:,.0f} s") for spec in too_long]
    if not wrong:
        return ""
    first = ", ".join(f"{spec.name} ({need} in {spec.partition})" for spec, need in wrong[:FEW])
    more = ", ..." if len(wrong) > FEW else ""
    of = f"{len(wrong):,} of {count(submitted, 'job')}"
    return f"left out {of}, too wide or too long for their partitions: {first}{more}"


def by_partition(
    jobs: Sequence[SimJob],
    partitions: Partitions,
    change: Callable[[list[SimJob], Partition], list[SimJob]],
) -> list[SimJob]:
    """The jobs, in their order, as ``change`` makes those of each partition."""
    changed = list(jobs)
    for partition in partitions.each:
        where = [i for i, job in enumerate(jobs) if job.spec.partition == partition.name]
        for i, job in zip(where, change([jobs[i] for i in where], partition), strict=True):
            changed[i] = job
    return changed


def at_speed(jobs: Sequence[SimJob], partition: Partition) -> list[SimJob]:
    """The jobs as they are on the partition's nodes: run times and estimates divided by its speed, and with them the
    times of their models."""
    speed = partition.speed
    return list(jobs) if speed == 1 else [_at_speed(job, speed) for job in jobs]


def _at_speed(job: SimJob, speed: float) -> SimJob:
    spec = job.spec
    quicker = msgspec.structs.replace(
        spec,
        walltime_s=spec.walltime_s / speed,
        model=None if spec.model is None else scaled(spec.model, 1.0 / speed),
    )
    runtime_s = None if job.runtime_s is None else job.runtime_s / speed
    return msgspec.structs.replace(job, spec=quicker, runtime_s=runtime_s)


def in_time(
    jobs: list[SimJob], partitions: Partitions, text: str, *, leaves_out: bool
) -> tuple[list[SimJob], list[JobSpec]]:
    """The jobs that their partitions allow to take as long as they say, and the others. BatchError if there is one, and
    none is to be left out; TraceError if none is allowed."""
    long = [job.spec for job in jobs if _too_long(job, partitions)]
    if long and not leaves_out:
        spec = long[0]
        most = partitions.named(str(spec.partition)).max_time_s
        raise BatchError(
            f"{text}: job {spec.name!r}: walltime: {spec.walltime_s:g} s are more than partition {spec.partition!r} "
            f"allows (max_time = {most:g})"
        )
    if jobs and len(long) == len(jobs):
        raise TraceError(
            f"{text}: each of its jobs ({len(jobs):,}) takes longer than its partition allows (max_time)"
        )
    return without(jobs, long), long


def _too_long(job: SimJob, partitions: Partitions) -> bool:
    """Whether it takes longer than its partition allows, by its estimate."""
    most = partitions.named(str(job.spec.partition)).max_time_s
    return most is not None and job.spec.walltime_s > most

"""What is settled before a live run starts anything: what is refused, as commands that cannot be started, and which
MPI each job will load."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from pliant.daemon.detect import mpi_of
from pliant.daemon.directory import current_directory
from pliant.daemon.journal import log_file
from pliant.launch.verify import with_own_python
from pliant.model.batch import Batch
from pliant.model.errors import BatchError
from pliant.model.flavours import UNKNOWN, LaunchWay, Mpi, named, way_of
from pliant.model.jobs import JobClass, JobSpec
from pliant.model.kinds import JobKind
from pliant.model.limits import LIVE_NODES
from pliant.protocol.starting import room_beside, start_problem


def check(batch: Batch, output: Path) -> None:
    """BatchError if the batch cannot be run live on this machine, its jobs' output going to ``output``."""
    if batch.cluster.nodes > LIVE_NODES:
        raise BatchError(
            f"{batch.source}: {batch.cluster.nodes:,} nodes are too many to run: each is a process, and the "
            f"most is {LIVE_NODES:,}; larger machines can be simulated (pliant simulate, or --dry-run)"
        )
    own = with_own_python(os.environ)
    room = room_beside(own, os.sysconf("SC_ARG_MAX"))
    here = current_directory()
    for job in batch.jobs:
        env = {"PATH": own["PATH"], **job.env}
        place = str(log_file(Path(here) / output, job))
        for what, words in (("", job.command), ("verify: ", job.verify)):
            if words and (problem := start_problem(words, env, job.cwd or here, place, room)):
                raise BatchError(f"{batch.source}: job {job.name!r}: {what}{problem}")


class Settled(NamedTuple):
    """Jobs as they will be run, and what their user should know of that."""

    jobs: tuple[JobSpec, ...]
    notices: tuple[str, ...]


def settle(jobs: Sequence[JobSpec], source: str) -> Settled:
    """Which MPI each job will load, as far as it says so or can be asked. Jobs that cannot be resized with theirs keep
    the size that they are started with; BatchError for one that cannot be started at all."""
    settled: list[JobSpec] = []
    keeping: dict[str, list[str]] = {}
    for job in jobs:
        if job.kind is not JobKind.MPI:
            settled.append(job)
            continue
        mpi, way, library = _mpi_of(job.command, job.mpi, {**os.environ, **job.env}, job.cwd)
        if way.refused:
            raise BatchError(f"{source}: job {job.name!r}: it loads {mpi.name}: {way.refused}")
        if way.keeps and not job.keeps_size:
            keeping.setdefault(f"{mpi.name}: {way.keeps}", []).append(job.name)
            job = msgspec.structs.replace(job, job_class=JobClass.MOLDABLE)  # noqa: PLW2901
        told = {way.library: library} if way.library and library else {}
        settled.append(msgspec.structs.replace(job, mpi=mpi.text, env={**told, **job.env}))
    notices = tuple(
        f"{_some(names)} will keep the size of the start, as MPI cannot do more there: {why}; see pliant doctor"
        for why, names in keeping.items()
    )
    return Settled(tuple(settled), notices)


def dialect_of(command: Sequence[str], said: str) -> tuple[str, dict[str, str]]:
    """How the ranks of an MPI program are launched, which loads what was ``said``, if anything, and what they find in
    their environment for that; BatchError if they cannot be."""
    try:
        mpi, way, library = _mpi_of(command, said, os.environ, "")
    except ValueError as error:
        raise BatchError(f"--mpi-is: {error}") from None
    if way.refused:
        raise BatchError(f"the program loads {mpi.name}: {way.refused}")
    return way.dialect_of(one_world=True), {way.library: library} if way.library and library else {}


def _mpi_of(
    command: Sequence[str], said: str, environ: Mapping[str, str], cwd: str
) -> tuple[Mpi, LaunchWay, str]:
    """Which MPI the command loads, and from which file if that is known. Of what cannot be asked, as a shell's script,
    that of the Python which it would find; else what Pliant brings."""
    library = ""
    if said:
        mpi = named(said)
    elif found := mpi_of(command, environ, cwd) or mpi_of(("python",), environ, cwd):
        mpi, library = found
    else:
        return Mpi("", ()), UNKNOWN, ""
    return mpi, way_of(mpi, environ), library


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ("job " if len(names) == 1 else "jobs ") + ", ".join(names[:most]) + more

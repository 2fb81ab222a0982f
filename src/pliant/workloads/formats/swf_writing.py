"""Jobs written in the Standard Workload Format, version 2.2: www.cs.huji.ac.il/labs/parallel/workload/swf.html.

The format has a number for a job and its user, and one size. A malleable job's bounds and model have no field, and the
definition leaves no room for fields of one's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from operator import attrgetter
from pathlib import Path

from pliant.files.partial import Partial
from pliant.workloads.formats.swf import SwfJob
from pliant.workloads.job import SimJob

MOST_DIGITS = 15
"""Longer numbers are no longer exact where numbers are floating point."""


class Numbers:
    """The numbers of ``jobs`` and their users: their names, where all are different whole numbers, as those of a trace
    are; else they are counted from 1, in order of submission."""

    def __init__(self, jobs: Iterable[SimJob]) -> None:
        specs = [job.spec for job in by_submission(jobs)]
        names = [spec.name for spec in specs]
        self._named = len(set(names)) == len(names) and all(map(_whole, names))
        users = list(dict.fromkeys(spec.user for spec in specs if spec.user))
        own = all(map(_whole, users))
        self._users = {user: int(user) if own else number for number, user in enumerate(users, 1)}

    def job(self, name: str, count: int) -> int:
        """The number of the job that is called so and was submitted as number ``count``."""
        return int(name) if self._named else count

    def user(self, name: str) -> int:
        return self._users.get(name, -1)


def by_submission(jobs: Iterable[SimJob]) -> list[SimJob]:
    """In the order in which the simulator submits them."""
    return sorted(jobs, key=attrgetter("spec.submit_s"))


def _whole(name: str) -> bool:
    """Whether this is a number as ``str`` writes it, and not below 0."""
    return name.isascii() and name.isdigit() and len(name) <= MOST_DIGITS and str(int(name)) == name


def words(job: SwfJob) -> list[str]:
    """The 18 fields. Times may have fractions, which the definition allows: they are read again as they were."""
    return [_word(value) for value in job]


def _word(value: float) -> str:
    if not math.isfinite(value):
        return "-1"
    return str(int(value)) if value == int(value) else f"{Decimal(repr(value)):f}"


def header(jobs: int, nodes: int, made_by: str, note: str, began: float | None = None) -> str:
    """The comments at the head of a file; a node is a processor. ``began`` is what time 0 is, in seconds since 1970."""
    said = {
        "Version": "2.2",
        "Computer": f"simulated, of {nodes} nodes with a processor each",
        "Conversion": made_by,
        "MaxJobs": jobs,
        "MaxRecords": jobs,
        "Preemption": "No",
        "UnixStartTime": int(began or 0),
        "MaxNodes": nodes,
        "MaxProcs": nodes,
        "Note": note,
    }
    return "".join(f"; {key}: {_line(str(value))}\n" for key, value in said.items())


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def write_swf(
    option: str, path: Path, jobs: Sequence[SimJob], head: str, partitions: Sequence[str] = ()
) -> None:
    """The jobs as they are given to the simulator: each on its preferred number of processors, with the run time that
    it has there. BatchError if ``path``, which ``option`` names, cannot be written."""
    numbers = Numbers(jobs)
    with Partial(option, path) as file:
        file.write(head)
        for count, job in enumerate(by_submission(jobs), 1):
            file.write(" ".join(words(_as_swf(job, count, numbers, partitions))) + "\n")


def _as_swf(job: SimJob, count: int, numbers: Numbers, partitions: Sequence[str]) -> SwfJob:
    spec = job.spec
    preferred = spec.nodes.preferred
    return SwfJob(
        number=numbers.job(spec.name, count),
        submit=spec.submit_s,
        wait=-1,
        run=job.time(preferred),
        allocated=preferred,
        requested=preferred,
        requested_time=spec.walltime_s,
        user=numbers.user(spec.user),
        **further(job, partitions),
    )


def further(job: SimJob, partitions: Sequence[str] = ()) -> dict[str, float]:
    """Its fields 17 and 18, if it follows another job (those that do are a trace's, whose names are numbers), and field
    16, if the machine has ``partitions``: which of them it ran in, from 1."""
    fields: dict[str, float] = {"preceding": int(job.after), "think": job.think_s} if job.after else {}
    if partitions:
        fields["partition"] = partitions.index(str(job.spec.partition)) + 1
    return fields

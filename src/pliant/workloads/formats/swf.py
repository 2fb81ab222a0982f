"""The Standard Workload Format: one job a line, 18 numbers, -1 where unknown; header lines begin with ``;``.

Definition: Chapin et al., Benchmarks and Standards for the Evaluation of Parallel Job Schedulers, 1999.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from pliant.model.errors import TraceError
from pliant.model.jobs import Bounds, JobSpec
from pliant.model.limits import LATEST_S, whole
from pliant.workloads.formats.foreign import foreign
from pliant.workloads.formats.opening import opened
from pliant.workloads.job import SimJob
from pliant.workloads.unmapped import Unmapped

INFINITY = float("inf")


class SwfJob(NamedTuple):
    """The 18 fields in their order; times in seconds, memory in kilobytes a processor."""

    number: float
    submit: float
    wait: float
    run: float
    allocated: float
    cpu: float = -1
    memory: float = -1
    requested: float = -1
    requested_time: float = -1
    requested_memory: float = -1
    status: float = -1
    user: float = -1
    group: float = -1
    executable: float = -1
    queue: float = -1
    partition: float = -1
    preceding: float = -1
    think: float = -1

    @property
    def processors(self) -> int:
        return int(max(self.requested, self.allocated))

    @property
    def runs(self) -> bool:
        """Whether it did: a run time of 0 is one."""
        return self.run >= 0 and self.processors > 0

    @property
    def memory_mb(self) -> float:
        """Of all its processors, used, or else requested: megabytes of 1,000 kilobytes; 0 where it is unknown."""
        known = [kb for kb in (self.memory, self.requested_memory) if 0 < kb < INFINITY]
        return known[0] * self.processors / 1000 if known else 0.0


class SwfTrace(msgspec.Struct, frozen=True):
    """``header`` holds the ``; Key: value`` comments, of several with one key the first: the others are ``again``. Each
    job is in one of ``lines``. ``parts`` are the jobs, by their numbers, of which other lines told parts, and ``alone``
    those of which no line tells the whole: their parts are among ``jobs``."""

    source: str
    header: dict[str, str]
    jobs: list[SwfJob]
    lines: Sequence[int] = ()
    parts: Sequence[float] = ()
    alone: Sequence[float] = ()
    again: Mapping[str, Sequence[str]] = {}

    @property
    def processors(self) -> int | None:
        """The size of the machine by the header, if it says."""
        return next((size for key in SIZES if (size := _count(self.header.get(key, "")))), None)

    @property
    def doubtful(self) -> tuple[Unmapped, ...]:
        """Other sizes of the machine that the header gives by the same key."""
        key = next((key for key in SIZES if _count(self.header.get(key, ""))), "")
        others = dict.fromkeys(each for each in self.again.get(key, ()) if _count(each) != self.processors)
        if not others:
            return ()
        what = f"{key}: {', '.join(others)} of the header, which says {key}: {self.header[key]} before"
        return (Unmapped(what, f"the machine has {self.processors:,} processors; --nodes says another size"),)

    @property
    def unmapped(self) -> tuple[Unmapped, ...]:
        """What is in it and not simulated."""
        found: list[Unmapped] = []
        for numbers, of, instead in (
            (self.parts, "jobs", "left out, as the job's own line has its whole run time"),
            (self.alone, "jobs that no line has as a whole", "each is simulated as a job by itself"),
        ):
            if numbers:
                lines = "1 line" if len(numbers) == 1 else f"{len(numbers):,} lines"
                what = f"{lines} of parts of {of}, with a status of 2 to 4"
                found.append(Unmapped(what, instead, len(set(numbers)), f"{numbers[0]:.0f}"))
        return tuple(found)

    @property
    def began(self) -> float | None:
        """What time 0 is, in seconds since 1970, if the header says (``UnixStartTime``)."""
        words = self.header.get("UnixStartTime", "").split()
        number = whole(words[0]) if words else None
        return float(number) if number else None


SIZES = ("MaxProcs", "MaxNodes")
"""Keys of the header that say how large the machine is: the first goes before the second."""
_COUNT = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+)(?![.,]?\d)")
LEAST_FIELDS = 5
"""A line may end early, but without submission, run time and processors it describes no job."""


COMMON = {str(number): float(number) for number in range(-1, 1025)}
"""Most fields of most jobs are unknown or small: shared numbers halve the memory of a trace."""


def _count(value: str) -> int | None:
    """The number that a value of the header begins with, as in ``1,024 processors``."""
    found = _COUNT.match(value)
    return whole(found[1].replace(",", "")) if found else None


def read_swf(path: Path) -> SwfTrace:
    """The trace in ``path``, plain or compressed; TraceError names file and line of what is wrong."""
    with opened(path) as (lines, begins):
        if what := foreign(begins, ".swf"):
            raise TraceError(f"{path}: {what}")
        return parse_swf(lines, str(path))


def parse_swf(lines: Iterable[str], source: str) -> SwfTrace:
    """A trace from its lines. Times may have a fraction; fields may be missing at the end.

    A job that was swapped out in between has a line for all of it, and may have further ones for its parts, which come
    without a time of submission: they say how that system worked, and are left out. Logs use the status of such parts
    for other things too: where no line has the whole, they are jobs.
    """
    header: dict[str, str] = {}
    again: dict[str, list[str]] = {}
    jobs: list[SwfJob] = []
    numbers = array("I")
    parts: dict[int, SwfJob] = {}
    latest = 0.0
    for at, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        if words[0].startswith(";"):
            _note(line, header, again)
            continue
        if not LEAST_FIELDS <= len(words) <= len(SwfJob._fields):
            raise TraceError(
                f"{source}:{at}: {len(words)} fields, where {len(SwfJob._fields)} describe a job in SWF"
            )
        try:
            job = SwfJob(*[COMMON.get(word) or float(word) for word in words])
        except ValueError:
            raise TraceError(f"{source}:{at}: {_culprit(words)}") from None
        if 2 <= job.status <= 4:
            parts[at] = job
            continue
        if not _can_be(job, latest):
            raise TraceError(f"{source}:{at}: {_wrong(job, latest)}")
        latest = job.submit
        jobs.append(job)
        numbers.append(at)
    if not parts:
        return SwfTrace(source, header, jobs, numbers, again=again)
    told = {job.number for job in jobs}
    alone = {at: part for at, part in parts.items() if part.number not in told}
    jobs, lines_of = _with(alone, dict(zip(numbers, jobs, strict=True)), source)
    left_out = [part.number for part in parts.values() if part.number in told]
    return SwfTrace(source, header, jobs, lines_of, left_out, [part.number for part in alone.values()], again)


def _note(line: str, header: dict[str, str], again: dict[str, list[str]]) -> None:
    """What a comment says as ``; Key: value``."""
    key, colon, value = (each.strip() for each in line.strip().lstrip("; ").partition(":"))
    if colon and header.setdefault(key, value) != value:
        again.setdefault(key, []).append(value)


def _can_be(job: SwfJob, latest: float) -> bool:
    """Whether its fields say a job that was submitted at ``latest`` or later."""
    return (
        latest <= job.submit <= LATEST_S
        and -1 <= job.run < INFINITY
        and -1 <= job.requested_time < INFINITY
        and not (job.number % 1 or job.allocated % 1 or job.requested % 1 or job.user % 1)
    )


def _with(
    alone: Mapping[int, SwfJob], jobs: Mapping[int, SwfJob], source: str
) -> tuple[list[SwfJob], list[int]]:
    """The jobs by their lines, with parts that are jobs by themselves, and those lines. TraceError for a part that can
    be no job."""
    every = sorted([*jobs.items(), *alone.items()])
    latest = 0.0
    for at, job in every:
        if not _can_be(job, latest):
            wrong = _wrong(job, latest)
            if at in alone:
                wrong = (
                    f"field status is {job.status:g}, so it is a part of job {job.number:g}, which has no line for all "
                    f"of it; and it can be no job by itself: {wrong}"
                )
            raise TraceError(f"{source}:{at}: {wrong}")
        latest = job.submit
    return [job for _, job in every], [at for at, _ in every]


def _culprit(words: list[str]) -> str:
    for name, word in zip(SwfJob._fields, words, strict=False):
        try:
            float(word)
        except ValueError:
            return f"field {name} is {word!r}, which is no number"
    return "not a job in SWF"


def _wrong(job: SwfJob, latest: float) -> str:
    """Which of a job's fields cannot be; -1 stands for unknown, but every job was submitted at some time."""
    if not 0 <= job.submit <= LATEST_S:
        return (
            f"field submit is {job.submit:g}; it must be 0 s or more, and at most {LATEST_S:g} s, as there times can "
            "still be told apart"
        )
    if job.submit < latest:
        return (
            f"field submit is {job.submit:g}, and the job before was submitted at {latest:g}; "
            "SWF has jobs in order of submission: sort -s -n -k 2"
        )
    for name in ("number", "allocated", "requested", "user"):
        if getattr(job, name) % 1 != 0:
            return f"field {name} is {getattr(job, name):g}; it must be a whole number, or -1 where it is unknown"
    field = "requested_time" if -1 <= job.run < INFINITY else "run"
    return f"field {field} is {getattr(job, field):g}; it must be 0 s or more, or -1 where it is unknown"


def rigid_jobs(
    trace: SwfTrace,
    processors: int | None,
    *,
    dependencies: bool = False,
    memory: bool = False,
    partition_of: Callable[[SwfJob], str | UnsetType] = lambda _job: UNSET,
) -> list[SimJob]:
    """The trace's jobs as rigid ones, one node a processor.

    A job takes as many processors as it requested or got, whichever is more; its estimate is the requested
    time, or the run time where that is longer or nothing was requested. Jobs without a run time (0 is one) or
    without processors did not run and are left out. TraceError if a job does not fit on ``processors``; None: that
    is looked at elsewhere.

    With ``dependencies``, a job that has a preceding one is submitted its think time after that has ended (fields 17
    and 18); where that was left out, at its own time. TraceError if it comes later in the trace, or is not there, or if
    two jobs have one number.

    With ``memory``, a resize of a job has to move what it used (field 7), or else requested (field 10); nothing where
    the trace has neither. ``partition_of`` tells the partition of a job, where there are some.
    """
    earlier: dict[float, bool] = {}
    jobs: list[SimJob] = []
    for job in trace.jobs:
        runs = job.runs
        after, think_s = "", 0.0
        if dependencies:
            if runs and earlier.get(job.number):
                raise TraceError(_again(trace, job.number))
            after, think_s = _preceding(job, earlier, trace.source)
            earlier[job.number] = runs
        if not runs:
            continue
        name = f"{job.number:.0f}"
        if processors is not None and job.processors > processors:
            raise TraceError(
                f"{trace.source}: job {name} needs {job.processors} processors and there are {processors}"
            )
        spec = JobSpec(
            name=name,
            nodes=Bounds.exactly(job.processors),
            submit_s=max(0.0, job.submit),
            walltime_s=max(job.requested_time, job.run),
            user="" if job.user < 0 else f"{job.user:.0f}",
            data_mb=job.memory_mb if memory else 0.0,
            partition=partition_of(job),
        )
        jobs.append(SimJob(spec, job.run, 0.0, after, think_s))
    if not jobs:
        raise TraceError(f"{trace.source}: there is no job with a run time and processors in it")
    return jobs


def _again(trace: SwfTrace, number: float) -> str:
    """That there are two jobs of this number."""
    run = [(job, at) for job, at in zip(trace.jobs, trace.lines, strict=True) if job.runs]
    first, second = [at for job, at in run if job.number == number][:2]
    return (
        f"{trace.source}:{second}: field number is {number:g}, as in line {first}; with --dependencies, "
        "where jobs follow others by their numbers, each needs one of its own"
    )


def _preceding(job: SwfJob, earlier: Mapping[float, bool], source: str) -> tuple[str, float]:
    """The name of the job that this one follows, empty if none, and the think time between them. ``earlier`` jobs are
    those before it in the trace, with whether they run."""
    preceding, think_s = job.preceding, max(0.0, job.think)
    if preceding <= 0:
        return "", 0.0
    if preceding not in earlier:
        raise TraceError(
            f"{source}: job {job.number:.0f}: field preceding is {preceding:g}, which is no job before it"
        )
    if not think_s <= LATEST_S:
        raise TraceError(
            f"{source}: job {job.number:.0f}: field think is {job.think:g}; it must be a number of seconds, at most "
            f"{LATEST_S:g}"
        )
    return (f"{preceding:.0f}", think_s) if earlier[preceding] else ("", 0.0)

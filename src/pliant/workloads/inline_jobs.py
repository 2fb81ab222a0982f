"""Jobs that a program gives: as ``Job``, as rows, or as a table of columns, which any data frame is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.kinds import JobKind
from pliant.model.limits import MOST_NODES
from pliant.model.speedup import Model, Phases, check_model
from pliant.model.words import nearest
from pliant.workloads.job import SimJob


class Job(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A job of a workload that is made in a program; a row of a table has the same names.

    It is submitted at ``submit_s`` and runs for ``run_s`` seconds on ``nodes`` nodes; with a ``model``, ``run_s`` may
    be left out. ``walltime_s`` is the user's estimate, else the run time. ``nodes_min`` and ``nodes_max`` are the
    sizes that it may have beside ``nodes``, multiplied by ``factor`` from one to the next (1: every size). Then it is
    malleable, unless ``job_class`` says something else (in a row ``class``): rigid, moldable, malleable or evolving.
    At another size it runs as long as its ``model`` says, an ``Amdahl`` or a ``Downey``; without one its speed-up is
    linear. The others are as for ``JobSpec``. Jobs are called by their place in the workload, if not by ``name``.
    """

    submit_s: float
    run_s: float | None = None
    nodes: int = 1
    walltime_s: float | None = None
    user: str = ""
    name: str = ""
    nodes_min: int | None = None
    nodes_max: int | None = None
    factor: int = 1
    job_class: str = ""
    model: Model | None = None
    kill: bool = False
    priority: int = 0
    data_mb: float = 0.0
    kind: str = JobKind.MPI.value
    partition: str = ""


FIELDS = Job.__struct_fields__


def given_jobs(workload: Any) -> list[SimJob]:
    """The jobs of a sequence of jobs or rows, or of a table: columns by name, as a data frame of pandas or polars or a
    dict of lists. A cell that is None or NaN says nothing. BatchError names job and field."""
    rows = _rows_of_table(workload)
    if rows is None:
        if isinstance(workload, str | bytes) or not isinstance(workload, Iterable):
            raise BatchError(
                f"workload: {workload!r} is none: give a file or a generator by name, a sequence of pliant.Job, or a "
                "table of their fields"
            )
        rows = list(workload)
    return [_sim_job(row, number) for number, row in enumerate(rows, 1)]


def _rows_of_table(workload: Any) -> Sequence[Any] | None:
    """The rows of a table; None if it is none."""
    if isinstance(workload, Mapping):
        names = list(workload)
    elif hasattr(workload, "columns") and hasattr(workload, "__getitem__"):
        names = list(workload.columns)
    else:
        return None
    columns: list[list[Any]] = []
    for name in names:
        try:
            columns.append(list(workload[name]))
        except TypeError:
            raise BatchError(f"workload: {name}: {workload[name]!r} is no column of cells") from None
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in zip(names, columns, strict=True))
        raise BatchError(f"workload: its columns are of different lengths: {lengths}")
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _sim_job(row: Any, number: int) -> SimJob:
    match row:
        case SimJob():
            return row
        case Job():
            return _made(row, number)
        case Mapping():
            return _made(_job(row, f"job {number}"), number)
        case _:
            raise BatchError(
                f"workload: job {number}: {row!r} is none: give a pliant.Job, or a mapping of {', '.join(FIELDS)}"
            )


def _job(row: Mapping[Any, Any], where: str) -> Job:
    said: dict[str, Any] = {}
    for key, cell in row.items():
        name = "job_class" if key == "class" else str(key)
        if name not in FIELDS:
            raise BatchError(f"workload: {where}: a job has no {name!r}{nearest(name, FIELDS)}")
        if not _nothing(cell):
            said[name] = cell
    if "submit_s" not in said:
        raise BatchError(f"workload: {where}: submit_s: missing; say when it is submitted")
    return Job(**said)


def _nothing(cell: Any) -> bool:
    """Whether it is None, NaN or pandas' NA."""
    try:
        return cell is None or bool(cell != cell)  # noqa: PLR0124 - NaN is what does not equal itself
    except TypeError:
        return True  # NA is neither true nor false
    except ValueError:
        return False  # an array, which is no cell; whoever reads it says so


def _made(job: Job, number: int) -> SimJob:
    name = _text(job.name) or str(number)
    where = f"workload: job {name}"
    model = _model(job, where)
    bounds = _bounds(job, where)
    run_s = None if job.run_s is None else _amount(job.run_s, where, "run_s", "seconds")
    if run_s is None and model is None:
        raise BatchError(f"{where}: run_s: missing; say how long it runs, or give it a model")
    by_model = model.time(bounds.preferred) if run_s is None and model is not None else 0.0
    estimate = (run_s or by_model) if job.walltime_s is None else job.walltime_s
    spec = JobSpec(
        name=name,
        nodes=bounds,
        job_class=_class(job, bounds, where),
        submit_s=_amount(job.submit_s, where, "submit_s", "seconds"),
        walltime_s=_amount(estimate, where, "walltime_s", "seconds"),
        kill=bool(job.kill),
        model=model,
        user=_text(job.user),
        priority=_whole(job.priority, where, "priority", -math.inf),
        data_mb=_amount(job.data_mb, where, "data_mb", "megabytes"),
        kind=JobKind(_one_of(JobKind, job.kind, where, "kind")),
        partition=_text(job.partition) or UNSET,
    )
    return SimJob(spec, run_s)


def _text(cell: object) -> str:
    """A name or a number that stands for one, which a column with gaps has as a real number."""
    return f"{cell:.0f}" if isinstance(cell, float) and cell.is_integer() else str(cell)


def _bounds(job: Job, where: str) -> Bounds:
    preferred = _whole(job.nodes, where, "nodes")
    low = preferred if job.nodes_min is None else _whole(job.nodes_min, where, "nodes_min")
    high = preferred if job.nodes_max is None else _whole(job.nodes_max, where, "nodes_max")
    try:
        return Bounds(low, high, _whole(job.factor, where, "factor"), preferred)
    except ValueError as error:
        raise BatchError(f"{where}: nodes: {error}") from None


def _class(job: Job, bounds: Bounds, where: str) -> JobClass:
    default = JobClass.MALLEABLE if bounds.min < bounds.max else JobClass.RIGID
    if isinstance(job.model, Phases):
        default = JobClass.EVOLVING
    kind = JobClass(_one_of(JobClass, job.job_class or default.value, where, "class"))
    if kind is JobClass.RIGID and bounds.min < bounds.max:
        raise BatchError(f"{where}: class: a rigid job has one size; leave out nodes_min and nodes_max")
    return kind


def _model(job: Job, where: str) -> Model | None:
    if job.model is not None:
        if not isinstance(job.model, Model):
            raise BatchError(
                f"{where}: model: {job.model!r} is none; give a pliant.Amdahl or a pliant.Downey"
            )
        if problem := check_model(job.model):
            raise BatchError(f"{where}: {problem}")
    return job.model


def _one_of(kinds: Iterable[str], cell: object, where: str, field: str) -> str:
    known = [str(kind) for kind in kinds]
    if cell not in known:
        raise BatchError(f"{where}: {field}: there is no {cell!r}{nearest(str(cell), known)}")
    return str(cell)


def _amount(cell: object, where: str, field: str, what: str) -> float:
    number = _number(cell)
    if not 0 <= number < math.inf:
        raise BatchError(f"{where}: {field}: {cell!r} is no number of {what}, 0 or more")
    return number


def _whole(cell: object, where: str, field: str, least: float = 1) -> int:
    number = _number(cell)
    if not (abs(number) <= MOST_NODES and number >= least and number == int(number)):
        at_least = f", {least:g} or more" if least > -math.inf else ""
        raise BatchError(
            f"{where}: {field}: {cell!r} is no whole number{at_least}, and at most {MOST_NODES:,}"
        )
    return int(number)


def _number(cell: Any) -> float:
    """NaN if it is none, of whatever library; a text is none, nor a truth."""
    try:
        return math.nan if isinstance(cell, str | bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan

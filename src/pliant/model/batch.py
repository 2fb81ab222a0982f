"""A batch: a cluster and its jobs, as written in TOML for ``pliant run``. Checked whole before anything
starts; every error names the file, the job and the key."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from pliant.model.arrays import INDEX, ArrayMember, Elements, read_elements
from pliant.model.errors import BatchError
from pliant.model.flavours import named
from pliant.model.jobs import NO_ESTIMATE_S, Bounds, JobClass, JobSpec
from pliant.model.keys import amount_of, count_of, cut, flag_of, known, seconds_of, table_of, text_of, time_of
from pliant.model.kinds import JobKind
from pliant.model.limits import BATCH_JOBS, LATEST_S, LIVE_SLOTS, MOST_NODES, name_problem, whole
from pliant.model.need import checked_label
from pliant.model.nodes import parse_hostlist
from pliant.model.speedup import Amdahl, Downey, Model, Phase, Phases, Simple, Table, check_model

CLUSTER_KEYS = (
    "nodes", "slots", "policy", "start", "order", "weights", "cooldown_s", "resize_deadline_s", "pass_interval_s",
    "pass_deadline_s", "labels",
)  # fmt: skip
JOB_KEYS = (
    "name", "submit", "command", "cwd", "env", "nodes", "class", "walltime", "kill", "model", "verify", "user",
    "priority", "count", "array", "partition", "phases", "data_mb", "kind", "mpi", "outlast", "requeue",
)  # fmt: skip
START_S = 10.0
"""What a walltime that was not stated allows for starting, beside half as much again as the model says."""
PHASE_KEYS = ("share", "model", "nodes")
NODES_KEYS = ("min", "max", "factor", "preferred")


class ClusterSpec(msgspec.Struct, frozen=True):
    """``nodes`` nodes with ``slots`` processes each; the policy by name, the queue's order with the users'
    weights, and settings in seconds. ``labels`` are those of nodes, by name."""

    nodes: int = 8
    slots: int = 1
    policy: str = "malleable"
    start: str | None = None
    order: str = "submission"
    weights: dict[str, float] = {}
    cooldown_s: float | None = None
    resize_deadline_s: float | None = None
    pass_interval_s: float | None = None
    pass_deadline_s: float | None = None
    labels: dict[str, tuple[str, ...]] = {}


class Batch(msgspec.Struct, frozen=True):
    """Jobs in order of submission."""

    cluster: ClusterSpec
    jobs: tuple[JobSpec, ...]
    source: str


def read_batch(data: Mapping[str, Any], source: str, nodes: int = 8) -> Batch:
    """A batch from parsed TOML; ``source`` is the file's name for messages, ``nodes`` how many the cluster has if the
    batch does not say. Raises BatchError."""
    known(data, ("cluster", "jobs"), source)
    where = f"{source}: cluster"
    cluster = _cluster(table_of(data.get("cluster", {}), where), where, nodes)
    entries = data.get("jobs", [])
    if not isinstance(entries, list) or not entries:
        raise BatchError(f"{source}: there are no jobs; add at least one [[jobs]] table")
    jobs: list[JobSpec] = []
    arrays: dict[str, int] = {}
    for number, entry in enumerate(entries, 1):
        made = _job(table_of(entry, f"{source}: job {number}"), number, source, cluster)
        array = made[0].array
        if array is not UNSET and arrays.setdefault(array.name, number) != number:
            # How many of an array run at once is counted by its name.
            raise BatchError(
                f"{source}: job {array.name!r}: name: jobs {arrays[array.name]} and {number} are arrays of that name; "
                "names must differ"
            )
        jobs += made
        if len(jobs) > BATCH_JOBS:
            raise BatchError(
                f"{source}: with job {number} there are {len(jobs):,} jobs; the most is {BATCH_JOBS:,}"
            )
    seen: set[str] = set()
    for job in jobs:
        if job.name in seen:
            raise BatchError(f"{source}: job {job.name!r}: name: two jobs have it; names must differ")
        seen.add(job.name)
    jobs.sort(key=lambda job: job.submit_s)
    return Batch(cluster, tuple(jobs), source)


def _cluster(data: Mapping[str, Any], where: str, nodes: int) -> ClusterSpec:
    known(data, CLUSTER_KEYS, where)
    nodes = count_of(data, "nodes", where, nodes, MOST_NODES)
    slots = count_of(data, "slots", where, 1, LIVE_SLOTS)
    return ClusterSpec(
        nodes=nodes,
        slots=slots,
        policy=text_of(data, "policy", where, "malleable"),
        start=text_of(data, "start", where, "") or None,
        order=text_of(data, "order", where, "submission"),
        weights=_weights(data.get("weights", {}), f"{where}: weights"),
        cooldown_s=seconds_of(data, "cooldown_s", where, None),
        resize_deadline_s=seconds_of(data, "resize_deadline_s", where, None),
        pass_interval_s=seconds_of(data, "pass_interval_s", where, None),
        pass_deadline_s=seconds_of(data, "pass_deadline_s", where, None),
        labels=_labels(data.get("labels", {}), f"{where}: labels"),
    )


def _labels(value: Any, where: str) -> dict[str, tuple[str, ...]]:
    table = table_of(value, where)
    try:
        return labels_of((label, text_of(table, label, where, "")) for label in table)
    except ValueError as error:
        raise BatchError(f"{where}: {error}") from None


def labels_of(nodes: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """The labels of each node, sorted, from pairs of a label and a hostlist; ValueError where one is none."""
    found: dict[str, set[str]] = {}
    for label, text in nodes:
        names = parse_hostlist(text)
        if not names:
            raise ValueError(f"label {checked_label(label)!r} names no node")
        for name in names:
            found.setdefault(name, set()).add(checked_label(label))
    return {name: tuple(sorted(labels)) for name, labels in found.items()}


def _weights(value: Any, where: str) -> dict[str, float]:
    users = table_of(value, where)
    weights = {user: amount_of(users, user, where, "a weight", None) or 0.0 for user in users}
    for user, weight in weights.items():
        if weight <= 0:
            raise BatchError(f"{where}: {user}: a weight must be above 0")
    return weights


def _job(data: Mapping[str, Any], number: int, source: str, cluster: ClusterSpec) -> list[JobSpec]:
    name = text_of(data, "name", f"{source}: job {number}", f"job{number}")
    count = count_of(data, "count", f"{source}: job {cut(name)!r}", 1, BATCH_JOBS)
    where = f"{source}: job {cut(name)!r}"
    known(data, JOB_KEYS, where)
    array = _array(data, where)
    last = f"{name}_{array.indices[-1]}" if array else name
    if problem := name_problem(last if count == 1 else f"{name}-{count}"):
        raise BatchError(f"{where}: name: {problem}")
    bounds = _bounds(data.get("nodes", 1), where)
    job_class = _class(data, where, bounds)
    if bounds.min > cluster.nodes:
        raise BatchError(
            f"{where}: nodes: it needs {bounds.min} nodes and the cluster has {cluster.nodes}; it could never start"
        )
    command = _command(data, "command", where)
    if not command:
        raise BatchError(f"{where}: command: missing; say what the job runs")
    whole = _model(data.get("model"), where)
    model: Model | None = whole
    if "phases" in data:
        if job_class is not JobClass.EVOLVING:
            raise BatchError(f"{where}: phases: a {job_class} job has none; write class = 'evolving'")
        model = _phases(data["phases"], whole, bounds, where)
    walltime = time_of(
        data, "walltime", where, model.time(bounds.preferred) * 1.5 + START_S if model else NO_ESTIMATE_S
    )
    if walltime <= 0:
        raise BatchError(f"{where}: walltime: it must be above 0 seconds")
    submit_s = time_of(data, "submit", where, 0.0)
    if submit_s > LATEST_S:
        raise BatchError(f"{where}: submit: {submit_s:g} s are too many; the most is {LATEST_S:g}")
    env, kind = _env(data.get("env", {}), f"{where}: env"), _kind(data, where)
    spec = JobSpec(
        name=name,
        nodes=bounds,
        job_class=job_class,
        submit_s=submit_s,
        command=command,
        cwd=text_of(data, "cwd", where, ""),
        env=env,
        walltime_s=walltime,
        kill=flag_of(data, "kill", where),
        model=model,
        verify=_command(data, "verify", where),
        user=text_of(data, "user", where, ""),
        priority=_priority(data, where),
        data_mb=amount_of(data, "data_mb", where, "megabytes", 0.0) or 0.0,
        kind=kind,
        mpi=_mpi(data, kind, where),
        partition=text_of(data, "partition", where, "") if "partition" in data else UNSET,
        unestimated=UNSET if model or "walltime" in data else True,
        outlast=True if flag_of(data, "outlast", where) else UNSET,
        requeue=True if flag_of(data, "requeue", where) else UNSET,
    )
    if array is not None:
        return [_element(spec, index, array.limit) for index in array.indices]
    if count == 1:
        return [spec]
    return [msgspec.structs.replace(spec, name=f"{name}-{i}") for i in range(1, count + 1)]


def _array(data: Mapping[str, Any], where: str) -> Elements | None:
    if "array" not in data:
        return None
    text = text_of(data, "array", where, "")
    if "count" in data:
        raise BatchError(f"{where}: array: it has a count as well; say how many jobs there are once")
    try:
        return read_elements(text)
    except ValueError as error:
        raise BatchError(f"{where}: array: {cut(text)!r}: {error}") from None


def _element(spec: JobSpec, index: int, limit: int) -> JobSpec:
    """The job of this index of the array that ``spec`` stands for."""
    return msgspec.structs.replace(
        spec,
        name=f"{spec.name}_{index}",
        env={**spec.env, INDEX: str(index)},
        array=ArrayMember(spec.name, index, limit),
    )


def _bounds(value: Any, where: str) -> Bounds:
    if isinstance(value, int) and not isinstance(value, bool):
        value = {"min": value, "max": value}
    if isinstance(value, str):
        parts = value.split(":")
        low, high = whole(parts[0]), whole(parts[-1])
        if len(parts) > 2 or low is None or high is None:
            raise BatchError(f"{where}: nodes: {cut(value)!r} is neither a number nor min:max")
        value = {"min": low, "max": high}
    table = table_of(value, f"{where}: nodes")
    known(table, NODES_KEYS, f"{where}: nodes")
    if "min" not in table or "max" not in table:
        raise BatchError(f"{where}: nodes: give a number, or min and max")
    numbers = {key: count_of(table, key, f"{where}: nodes", 1, MOST_NODES) for key in table}
    try:
        return Bounds(**numbers)
    except ValueError as error:
        raise BatchError(f"{where}: nodes: {error}") from None


def _class(data: Mapping[str, Any], where: str, bounds: Bounds) -> JobClass:
    default = JobClass.MALLEABLE if bounds.max > bounds.min else JobClass.RIGID
    if "phases" in data:
        default = JobClass.EVOLVING
    text = text_of(data, "class", where, default.value)
    try:
        job_class = JobClass(text)
    except ValueError:
        raise BatchError(
            f"{where}: class: {text!r} is none of {', '.join(kind.value for kind in JobClass)}"
        ) from None
    if job_class is JobClass.RIGID and bounds.min != bounds.max:
        raise BatchError(f"{where}: class: a rigid job has one size; write nodes = {bounds.preferred}")
    return job_class


def _env(value: Any, where: str) -> dict[str, str]:
    env = table_of(value, where)
    if bad := [key for key, value in env.items() if not isinstance(value, str)]:
        raise BatchError(f"{where}.{bad[0]}: values are text; put it in quotes")
    if bad := [key for key in env if not key or "=" in key]:
        raise BatchError(f"{where}: {bad[0]!r} cannot be the name of a variable; leave out '='")
    return dict(env)


def _kind(data: Mapping[str, Any], where: str) -> JobKind:
    text = text_of(data, "kind", where, JobKind.MPI.value)
    try:
        return JobKind(text)
    except ValueError:
        raise BatchError(
            f"{where}: kind: {text!r} is none of {', '.join(kind.value for kind in JobKind)}"
        ) from None


def _mpi(data: Mapping[str, Any], kind: JobKind, where: str) -> str:
    text = text_of(data, "mpi", where, "")
    if text and kind is not JobKind.MPI:
        raise BatchError(f"{where}: mpi: a job of kind {kind} loads none for Pliant; leave it out")
    try:
        return named(text).text if text else ""
    except ValueError as error:
        raise BatchError(f"{where}: mpi: {error}") from None


def _phases(value: Any, whole: Simple | None, bounds: Bounds, where: str) -> Phases:
    """The phases of an evolving job: shares of the job's model ``whole``, or with models of their own."""
    if not isinstance(value, list) or not value:
        raise BatchError(f"{where}: phases: expected a list of tables, one for each phase, got {value!r}")
    phases: list[Phase] = []
    shares = 0.0
    for number, entry in enumerate(value, 1):
        at = f"{where}: phase {number}"
        table = table_of(entry, at)
        known(table, PHASE_KEYS, at)
        if ("share" in table) == ("model" in table):
            raise BatchError(f"{at}: give either its share of the job's model, or a model of its own")
        low, high = _phase_sizes(table, bounds, at)
        model, share = _model(table.get("model"), at), 1.0
        if model is None:
            if whole is None:
                raise BatchError(f"{at}: share: the job has no model that it could be a share of")
            model, share = whole, seconds_of(table, "share", at, 0.0) or 0.0
            if share <= 0:
                raise BatchError(f"{at}: share: {table['share']!r}; it must be above 0")
            shares += share
        phases.append(Phase(model, share, low, high))
    if whole is not None and abs(shares - 1.0) > 1e-6:
        raise BatchError(
            f"{where}: phases: their shares of the job's model sum up to {shares:g} instead of 1"
        )
    return Phases(tuple(phases))


def _phase_sizes(table: Mapping[str, Any], bounds: Bounds, where: str) -> tuple[int, int | None]:
    """What a phase asks for; it must be left with a size that the job allows."""
    if "nodes" not in table:
        return 1, None
    if isinstance(table["nodes"], Mapping):
        known(table["nodes"], ("min", "max"), f"{where}: nodes")
    wanted = _bounds(table["nodes"], where)
    if bounds.floor(wanted.max) < wanted.min:
        raise BatchError(
            f"{where}: nodes: none of the job's sizes, {bounds.describe()}, is in {wanted.min}:{wanted.max}"
        )
    return wanted.min, wanted.max


def _model(value: Any, where: str) -> Simple | None:
    if value is None:
        return None
    table = table_of(value, f"{where}: model")
    try:
        if "times" in table:
            model: Simple = Table({int(n): float(t) for n, t in table_of(table["times"], where).items()})
            known(table, ("times",), f"{where}: model")
        else:
            downey = "parallelism" in table or "sigma" in table
            model = msgspec.convert(dict(table), Downey) if downey else msgspec.convert(dict(table), Amdahl)
    except (msgspec.ValidationError, ValueError, TypeError, OverflowError) as error:
        raise BatchError(
            f"{where}: model: {error}; write {{work_s, serial_fraction}}, {{work_s, parallelism, sigma}} "
            "(both with io_s, if it does any) or {times = {1 = 60.0}}"
        ) from None
    if problem := check_model(model):
        raise BatchError(f"{where}: {problem}")
    return model


def _command(data: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = data.get(key, ())
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise BatchError(f"{where}: {key}: {error}") from None
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
        raise BatchError(f"{where}: {key}: give one text, or a list of texts")
    return tuple(value)


def _priority(data: Mapping[str, Any], where: str) -> int:
    value = data.get("priority", 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BatchError(f"{where}: priority: expected a whole number, got {value!r}")
    return value

"""ElastiSim's job file (JSON) and the application models it names (https://elastisim.github.io).

What maps is read, all else is refused by name:

- Rigid, moldable, malleable and evolving jobs on nodes, their submission, time limit, arguments, and the attributes
  name, user and priority. A rigid job is ended at its limit; for other jobs the limit is the estimate.
- Phases of computing, waiting and sequences of them, with performance models. The phases are taken together:
  a job's run time on n nodes is their sum, and it may be resized at any time.
- The phases of an evolving job remain apart. One with an ``evolving_request``, which may depend on the job's
  arguments, asks for that number of nodes when it begins, and once, not before each iteration.

GPUs, communication, storage, adaptive jobs, and tasks run on a reconfiguration are not simulated, so a job
with any of them would seem faster than it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pliant.model.errors import TraceError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl, Model, Phase, Phases, Simple, Table
from pliant.workloads.formats.expression import evaluate
from pliant.workloads.job import SimJob

CLASSES = {kind.value: kind for kind in JobClass}
JOB_KEYS = (
    "type", "submit_time", "application_model", "walltime", "arguments", "attributes", "num_nodes",
    "num_nodes_min", "num_nodes_max",
)  # fmt: skip
GPU_KEYS = ("num_gpus_per_node", "num_gpus_per_node_min", "num_gpus_per_node_max")
ATTRIBUTES = ("name", "user", "priority")
PHASE_KEYS = (
    "name", "iterations", "scheduling_point", "final_scheduling_point", "barrier", "tasks", "evolving_request",
)  # fmt: skip
WAITS = ("busy_wait", "idle")
DISTRIBUTED = ("all_ranks", "total")
"""The first is the present name: the load is divided among the nodes."""
NO_LIMIT_S = 365.0 * 86400.0
"""The estimate of a job without time limit."""
MOST_SIZES = 64
"""A job with more sizes is tabulated at this many of them, and its times are interpolated between."""


def read_elastisim(path: Path, node_flops: float | None = None) -> list[SimJob]:
    """The jobs in the file ``path``. ``node_flops`` is the speed of a node in FLOP/s, which ElastiSim has
    from its platform; jobs that compute need it. TraceError names file and job of what does not map.

    Paths of application models are looked for from the file's folder and those around it.
    """
    data = _read(path)
    entries = data.get("jobs") if isinstance(data, Mapping) else None
    if not isinstance(entries, list) or not entries:
        raise TraceError(f"{path}: there are no jobs; ElastiSim's job file has them in a list named jobs")

    @cache
    def application(name: str) -> tuple[Path, Mapping[str, Any]]:
        file = _find(path, name)
        model = _read(file)
        if not isinstance(model, Mapping):
            raise TraceError(f"{file}: is no application model: it has no phases")
        return file, model

    jobs: list[SimJob] = []
    for number, entry in enumerate(entries, 1):
        where = f"{path}: job {number}"
        if not isinstance(entry, Mapping):
            raise TraceError(f"{where}: is no job, but {entry!r}")
        jobs.append(_job(entry, number, where, application, node_flops))
    return jobs


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: is no text in UTF-8: {error}") from None
    except json.JSONDecodeError as error:
        raise TraceError(f"{path}:{error.lineno}: is no JSON: {error.msg}") from None


def _find(jobs: Path, name: str) -> Path:
    """The file of an application model: ElastiSim takes its path from where it was started."""
    for folder in (jobs.parent, *jobs.resolve().parent.parents, Path()):
        if (folder / name).is_file():
            return folder / name
    raise TraceError(f"{jobs}: the application model {name} is not there, neither beside this file nor above")


def _job(
    entry: Mapping[str, Any],
    number: int,
    where: str,
    application: Callable[[str], tuple[Path, Mapping[str, Any]]],
    node_flops: float | None,
) -> SimJob:
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in CLASSES:
        raise TraceError(f"{where}: type: {kind!r} is not simulated; {', '.join(CLASSES)} jobs are")
    if gpus := [key for key in GPU_KEYS if entry.get(key)]:
        raise TraceError(f"{where}: {gpus[0]}: GPUs are not simulated")
    _refuse_others(entry, (*JOB_KEYS, *GPU_KEYS), where)
    attributes = _table(entry, "attributes", where)
    _refuse_others(attributes, ATTRIBUTES, f"{where}: attributes")
    job_class = CLASSES[kind]
    sizes = _sizes(entry, job_class, where)
    name = entry.get("application_model")
    if not isinstance(name, str):
        raise TraceError(f"{where}: application_model: give the path of a file, not {name!r}")
    file, phases = application(name)
    arguments = {
        key: _number(value, f"{where}: {key}", {}) for key, value in _table(entry, "arguments", where).items()
    }
    evolving = job_class is JobClass.EVOLVING
    model = _model(phases, f"{where}: {file}", sizes, _Known(arguments, node_flops), evolving=evolving)
    limit = _number(entry.get("walltime", 0), f"{where}: walltime", {})
    priority = attributes.get("priority", 0)
    if not isinstance(priority, int):
        raise TraceError(f"{where}: attributes: priority: {priority!r} is no whole number")
    return SimJob(
        JobSpec(
            name=str(attributes.get("name", number)),
            nodes=sizes,
            job_class=job_class,
            submit_s=_number(entry.get("submit_time"), f"{where}: submit_time", {}),
            walltime_s=limit or NO_LIMIT_S,
            kill=limit > 0 and job_class is JobClass.RIGID,
            model=model,
            user=str(attributes.get("user", "")),
            priority=priority,
        )
    )


def _sizes(entry: Mapping[str, Any], job_class: JobClass, where: str) -> Bounds:
    """What the job allows; ElastiSim knows no preferred size, so the largest stands for it: the estimate
    then holds where the job is fastest, and grows for fewer nodes."""
    if job_class is JobClass.RIGID:
        low = high = entry.get("num_nodes")
    else:
        low, high = entry.get("num_nodes_min"), entry.get("num_nodes_max")
    if not isinstance(low, int) or not isinstance(high, int):
        wanted = "num_nodes" if job_class is JobClass.RIGID else "num_nodes_min and num_nodes_max"
        raise TraceError(f"{where}: {wanted}: missing or no whole number")
    try:
        return Bounds(low, high, preferred=high)
    except ValueError as error:
        raise TraceError(f"{where}: num_nodes: {error}") from None


class _Known(NamedTuple):
    """What the formulas of a job go by, beside its nodes; a node's speed if it is known."""

    arguments: Mapping[str, float]
    node_flops: float | None


def _model(
    application: Mapping[str, Any],
    where: str,
    sizes: Bounds,
    by: _Known,
    *,
    evolving: bool,
) -> Model:
    """The job's run time by its nodes, phase by phase if it is evolving."""
    _refuse_others(application, ("phases", "on_init", "on_reconfiguration", "on_expansion"), where)
    for key in ("on_reconfiguration", "on_expansion"):
        if application.get(key):
            raise TraceError(f"{where}: {key} is not simulated; a resize costs what the settings say")
    phases = application.get("phases")
    if not isinstance(phases, list) or not phases:
        raise TraceError(f"{where}: there are no phases")
    first = application.get("on_init") or []
    first = first if isinstance(first, list) else _list(first, "tasks", f"{where}: on_init")

    def time(nodes: int, chosen: Sequence[tuple[int, Any]]) -> float:
        known = {**by.arguments, "num_nodes": float(nodes)}
        whole = _tasks(first, f"{where}: on_init", known, by.node_flops) if chosen[0][0] == 1 else 0.0
        for number, phase in chosen:
            whole += _phase(phase, f"{where}: phase {number}", by.arguments, known, by.node_flops)
        return whole

    numbered = list(enumerate(phases, 1))
    if not evolving:
        for number, phase in numbered:
            if isinstance(phase, Mapping) and "evolving_request" in phase:
                raise TraceError(
                    f"{where}: phase {number}: evolving_request: only evolving jobs can make one"
                )
        return _fitted({n: time(n, numbered) for n in _tabulated(sizes)}, where)
    parts: list[Phase] = []
    for number, phase in numbered:
        at = f"{where}: phase {number}"
        model = _fitted({n: time(n, [(number, phase)]) for n in _tabulated(sizes)}, at)
        low, high = _request(phase, at, sizes, by.arguments)
        parts.append(Phase(model, 1.0, low, high))
    return Phases(tuple(parts))


def _request(
    phase: Mapping[str, Any], where: str, sizes: Bounds, arguments: Mapping[str, float]
) -> tuple[int, int | None]:
    """The least and largest number of nodes that a phase wants."""
    if "evolving_request" not in phase:
        return 1, None
    at = f"{where}: evolving_request"
    number = _number(phase["evolving_request"], at, arguments)
    if not number.is_integer() or not sizes.allows(int(number)):
        raise TraceError(f"{at}: {number:g} is no size of the job, {sizes.describe()}")
    return int(number), int(number)


def _fitted(times: Mapping[int, float], where: str) -> Simple:
    """Amdahl's law where it fits the times exactly, else a table of them."""
    if bad := [n for n, t in times.items() if not 0 < t < float("inf")]:
        raise TraceError(f"{where}: runs {times[bad[0]]:g} s on {bad[0]} nodes; it must be above 0")
    return _amdahl(times) or Table(dict(times))


def _tabulated(sizes: Bounds) -> list[int]:
    """All sizes, or the ends and a geometric row between them."""
    if sizes.max - sizes.min < MOST_SIZES:
        return sizes.sizes()
    ratio = sizes.max / sizes.min
    row = {round(sizes.min * ratio ** (i / (MOST_SIZES - 1))) for i in range(MOST_SIZES)}
    return sorted(row | {sizes.min, sizes.max})


def _amdahl(times: Mapping[int, float]) -> Amdahl | None:
    """Amdahl's law through the first and last time, if all lie on it."""
    low, high = min(times), max(times)
    if low == high:
        return None
    divided = (times[low] - times[high]) / (1 / low - 1 / high)
    fixed = times[low] - divided / low
    if divided < 0 or fixed < -1e-9 * divided or fixed + divided <= 0:
        return None
    fixed = max(0.0, fixed)
    if any(abs(fixed + divided / n - t) > 1e-9 * t for n, t in times.items()):
        return None
    return Amdahl(fixed + divided, fixed / (fixed + divided))


def _phase(
    phase: Any, where: str, arguments: Mapping[str, float], known: Mapping[str, float], flops: float | None
) -> float:
    """Seconds of all iterations of a phase; their number may not depend on the nodes."""
    if not isinstance(phase, Mapping):
        raise TraceError(f"{where}: is no phase, but {phase!r}")
    _refuse_others(phase, PHASE_KEYS, where)
    times = _number(phase.get("iterations", 1), f"{where}: iterations", arguments)
    return times * _tasks(_list(phase, "tasks", where), where, known, flops)


def _tasks(tasks: list[Any], where: str, known: Mapping[str, float], flops: float | None) -> float:
    """Seconds of ``tasks``, one after the other."""
    whole = 0.0
    for number, task in enumerate(tasks, 1):
        at = f"{where}: task {number}"
        if not isinstance(task, Mapping):
            raise TraceError(f"{at}: is no task, but {task!r}")
        whole += _number(task.get("iterations", 1), f"{at}: iterations", known) * _task(
            task, at, known, flops
        )
    return whole


def _task(task: Mapping[str, Any], where: str, known: Mapping[str, float], flops: float | None) -> float:
    common = ("type", "name", "iterations", "synchronized")
    kind = task.get("type")
    if kind == "sequence":
        _refuse_others(task, (*common, "tasks"), where)
        return _tasks(_list(task, "tasks", where), where, known, flops)
    if kind in WAITS:
        _refuse_others(task, (*common, "delay", "pattern"), where)
        if task.get("pattern", "uniform") != "uniform":
            raise TraceError(f"{where}: pattern: {task['pattern']!r} of a delay is not simulated")
        return _number(task.get("delay"), f"{where}: delay", known)
    if kind != "cpu":
        raise TraceError(
            f"{where}: type: {kind!r} is not simulated; cpu, {', '.join(WAITS)} and sequence are"
        )
    if task.get("bytes"):
        raise TraceError(f"{where}: bytes: communication is not simulated")
    _refuse_others(
        task, (*common, "flops", "computation_pattern", "bytes", "communication_pattern", "coupled"), where
    )
    if flops is None:
        raise TraceError(f"{where}: flops: the speed of a node is not known; give it (--node-flops)")
    load = _number(task.get("flops"), f"{where}: flops", known)
    pattern = task.get("computation_pattern")
    if pattern in DISTRIBUTED:
        load /= known["num_nodes"]
    elif pattern not in ("uniform", "root_only"):
        raise TraceError(f"{where}: computation_pattern: {pattern!r} is not simulated")
    return load / flops


def _refuse_others(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise TraceError(f"{where}: {key}: not known or not simulated (known: {', '.join(known)})")


def _table(entry: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = entry.get(key, {})
    if not isinstance(value, Mapping):
        raise TraceError(f"{where}: {key}: expected an object, got {value!r}")
    return value


def _list(table: Any, key: str, where: str) -> list[Any]:
    value = table.get(key) if isinstance(table, Mapping) else None
    if not isinstance(value, list):
        raise TraceError(f"{where}: {key}: expected a list, got {value!r}")
    return value


def _number(value: Any, where: str, known: Mapping[str, float]) -> float:
    """A number, or what a performance model gives with the variables ``known``; 0 or more."""
    if isinstance(value, str):
        try:
            value = evaluate(value, known)
        except ValueError as error:
            raise TraceError(f"{where}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise TraceError(f"{where}: expected a number, 0 or more, got {value!r}")
    return float(value)

"""ElastiSim's job file (JSON) and the application models it names, or its configuration, which names that file and the
platform (https://elastisim.github.io).

- Jobs of all five types, their submission, time limit, arguments, GPUs, and the attributes name, user and priority. A
  rigid job is ended at its limit; for other jobs the limit is the estimate. An adaptive job is a malleable one that
  also asks for nodes itself.
- All tasks, on a machine that each job has for itself (``elastisim_tasks.py``). Without requests the phases are taken
  together: a job's run time on n nodes is their sum, and it may be resized at any time.
- The phases of an evolving or adaptive job remain apart where some have an ``evolving_request``. It is made when a
  phase begins, and if it depends on the size or the iteration, or the job is adaptive, before each iteration; never
  before the first of all. What is beyond the job's sizes is clipped.
- ``on_reconfiguration`` and ``on_expansion``: for so long a job stands still at each resize.

What does not map is collected and named, and the rest is read; what is no job file at all is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pliant.model.errors import TraceError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.keys import LARGEST, cut
from pliant.model.limits import MOST_NODES
from pliant.workloads.formats.elastisim_models import Application, Named
from pliant.workloads.formats.elastisim_tasks import Miss, number_of, whole_of
from pliant.workloads.formats.expression import evaluate
from pliant.workloads.formats.foreign import foreign_json
from pliant.workloads.formats.simgrid import Platform, Speeds, read_platform
from pliant.workloads.job import SimJob
from pliant.workloads.unmapped import Collected, Unmapped, listed

CLASSES = {kind.value: kind for kind in JobClass} | {"adaptive": JobClass.MALLEABLE}
JOB_KEYS = (
    "type", "submit_time", "application_model", "walltime", "arguments", "attributes", "num_nodes",
    "num_nodes_min", "num_nodes_max", "num_gpus_per_node", "num_gpus_per_node_min", "num_gpus_per_node_max",
)  # fmt: skip
ATTRIBUTES = ("name", "user", "priority")
SETTINGS: dict[str, tuple[Any, str]] = {
    "allow_oversubscription": (False, "a node has one job at a time"),
    "clip_evolving_requests": (True, "requests beyond a job's sizes are clipped"),
    "job_kill_grace_period": (0, "rigid jobs are ended at their limit"),
    "scheduling_interval": (0, "the policy decides whenever it may matter, if --pass-interval does not say"),
    "min_scheduling_interval": (
        0,
        "the policy decides whenever it may matter, if --pass-interval does not say",
    ),
}
"""Of a configuration, what would change the schedule: the value that is simulated, and what that means."""
NO_LIMIT_S = 365.0 * 86400.0
"""The estimate of a job without time limit."""


class ElastiSim(NamedTuple):
    """What was read. ``nodes`` are those of the platform, 0 without one."""

    jobs: list[SimJob]
    nodes: int
    unmapped: tuple[Unmapped, ...]


def read_elastisim(path: Path, speeds: Speeds = Speeds()) -> ElastiSim:  # noqa: B008 -- it is frozen
    """The jobs of the job file or configuration ``path``, on the platform that the configuration or ``speeds`` names.
    TraceError names file and job of what cannot be read, or says that nothing of it maps.

    Paths in a file are looked for from its folder and those around it.
    """
    missed = Collected()
    data, platform_file = _read(path), speeds.platform
    file = path
    if isinstance(data, Mapping) and "jobs_file" in data:
        for key, (simulated, instead) in SETTINGS.items():
            if data.get(key, simulated) != simulated:
                missed.add(f"{key} {json.dumps(data[key])} of the configuration", instead)
        if not platform_file and "platform_file" in data:
            platform_file = str(_find(path, str(data["platform_file"]), "platform"))
        file = _find(path, str(data["jobs_file"]), "job file")
        data = _read(file)
    if what := foreign_json(data):
        raise TraceError(f"{file}: {what}")
    entries = data.get("jobs") if isinstance(data, Mapping) else None
    if not isinstance(entries, list) or not entries:
        raise TraceError(f"{file}: there are no jobs; ElastiSim's job file has them in a list named jobs")
    platform = read_platform(Path(platform_file)) if platform_file else Platform()
    for row in platform.unmapped:
        missed.add(row.what, row.instead)
    reader = _Reader(file, speeds.of(platform), missed)
    jobs = [job for number, entry in enumerate(entries, 1) if (job := reader.job(entry, number)) is not None]
    rows = missed.rows()
    if not jobs:
        raise TraceError(f"{file}: none of its jobs ({len(entries):,}) can be simulated:{listed(rows)}")
    return ElastiSim(jobs, platform.nodes, rows)


def named_files(path: Path) -> list[Path]:
    """The files that the job file or configuration ``path`` names, as far as they can be read: nothing is to be
    written there."""
    try:
        data = _read(path)
        if not isinstance(data, Mapping):
            return []
        if "jobs_file" in data:
            named = [(str(data["jobs_file"]), "job file")]
            named += [(str(data["platform_file"]), "platform")] if "platform_file" in data else []
            files = [_find(path, name, what) for name, what in named]
            return [*files, *named_files(files[0])]
        jobs = data.get("jobs")
        entries = [job for job in jobs if isinstance(job, Mapping)] if isinstance(jobs, list) else []
        models = {str(job.get("application_model")) for job in entries}
        return [_find(path, name, "application model") for name in sorted(models)]
    except (TraceError, RecursionError, OSError):
        return []  # whoever simulates it is told


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: is no text in UTF-8: {error}") from None
    except json.JSONDecodeError as error:
        raise TraceError(f"{path}:{error.lineno}: is no JSON: {error.msg}") from None
    except RecursionError:
        raise TraceError(f"{path}: cannot be read: it is nested too deeply") from None
    except ValueError:
        raise TraceError(f"{path}: cannot be read: a number in it has too many digits") from None


def _find(file: Path, name: str, what: str) -> Path:
    """A file that another names: ElastiSim takes its path from where it was started."""
    for folder in (file.parent, *file.resolve().parent.parents, Path()):
        try:
            if (folder / name).is_file():
                return folder / name
        except OSError:  # no file can be called so, or it cannot be looked at
            continue
    raise TraceError(f"{file}: the {what} {cut(name)} is not there, neither beside this file nor above")


class _Reader:
    def __init__(self, file: Path, platform: Platform, missed: Collected) -> None:
        self.file = file
        self.platform = platform
        self.missed = missed
        self.application = cache(self._application)

    def _application(self, name: str) -> tuple[Path, Mapping[str, Any]]:
        file = _find(self.file, name, "application model")
        model = _read(file)
        if not isinstance(model, Mapping):
            raise TraceError(f"{file}: is no application model: it has no phases")
        return file, model

    def job(self, entry: Any, number: int) -> SimJob | None:
        """The job, or None if it is left out."""
        where = f"{self.file}: job {number}"
        if not isinstance(entry, Mapping):
            raise TraceError(f"{where}: is no job, but {entry!r}")
        attributes = _table(entry, "attributes", where)
        name = str(attributes.get("name", number))

        def miss(what: str, instead: str) -> None:
            self.missed.add(what, instead, name)

        _look_over(entry, attributes, miss)
        kind = str(entry.get("type")).lower()
        if kind not in CLASSES:
            miss(f"jobs of type {entry.get('type')!r}", "they are left out")
            return None
        job_class = CLASSES[kind]
        sizes = _sizes(entry, job_class, where)
        model_name = entry.get("application_model")
        if not isinstance(model_name, str):
            raise TraceError(f"{where}: application_model: give the path of a file, not {model_name!r}")
        file, phases = self.application(model_name)
        job = Named(f"{where}: {file}", sizes, _arguments(entry, where), _gpus(entry, where, miss), miss)
        made = Application(phases, job, job_class, self.platform)
        model = made.model(asks=kind in ("evolving", "adaptive"), once=kind == "adaptive")
        if model is None:
            miss("jobs that take no time", "they are left out")
            return None
        limit = number_of(entry.get("walltime", 0), f"{where}: walltime", {})
        kills = limit > 0 and job_class is JobClass.RIGID
        if limit and not kills:
            miss("time limits of jobs that are not rigid", "they are estimates, and end no job")
        priority = attributes.get("priority", 0)
        spec = JobSpec(
            name=name,
            nodes=sizes,
            job_class=job_class,
            submit_s=number_of(entry.get("submit_time"), f"{where}: submit_time", {}),
            walltime_s=limit or NO_LIMIT_S,
            kill=kills,
            model=model,
            user=str(attributes.get("user", "")),
            priority=priority if isinstance(priority, int) else 0,
        )
        return SimJob(spec, adapting=made.adapting())


def _look_over(entry: Mapping[str, Any], attributes: Mapping[str, Any], miss: Miss) -> None:
    """Say what of a job is not looked at."""
    for key in entry:
        if key not in JOB_KEYS:
            miss(f"{key!r} of a job", "it is not looked at")
    for key in attributes:
        if key not in ATTRIBUTES:
            miss(f"the attribute {key!r}", "no policy looks at it")
    if not isinstance(attributes.get("priority", 0), int):
        miss("a priority that is no whole number", "it is 0")


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
    if max(low, high) > MOST_NODES:
        many = cut(f"{max(low, high):,}")
        raise TraceError(f"{where}: num_nodes: {many} nodes are too many; the most is {MOST_NODES:,}")
    try:
        return Bounds(low, high, preferred=high)
    except ValueError as error:
        raise TraceError(f"{where}: num_nodes: {error}") from None


def _gpus(entry: Mapping[str, Any], where: str, miss: Miss) -> int:
    """Those of the job on each node."""
    each, low, high = (
        whole_of(entry.get(f"num_gpus_per_node{end}", 0), f"{where}: num_gpus_per_node{end}", {})
        for end in ("", "_min", "_max")
    )
    if "num_gpus_per_node" in entry:
        return each
    if low != high:
        miss("a choice of GPUs on a node", "each job has the most")
    return high


def _arguments(entry: Mapping[str, Any], where: str) -> dict[str, float]:
    """The arguments that are numbers; what is none of them is missed where a formula has it."""
    arguments: dict[str, float] = {}
    for key, value in _table(entry, "arguments", where).items():
        number: Any = value
        if isinstance(value, str):
            try:
                number = evaluate(value, {})
            except ValueError:
                continue
        if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) < LARGEST:
            raise TraceError(f"{where}: arguments: {key}: {cut(repr(value))} is no number below {LARGEST:g}")
        arguments[key] = float(number)
    return arguments


def _table(entry: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = entry.get(key, {})
    if not isinstance(value, Mapping):
        raise TraceError(f"{where}: {key}: expected an object, got {value!r}")
    return value

"""How long the tasks of ElastiSim's application models take on n nodes, of a job that has the machine for itself.

Nothing is shared between jobs. A task lasts as long as on the node that has most to do, and the next begins when it is
over; one that is ``async`` goes on beside those after it, and ends with them. A transfer lasts a route's latency,
and then as long as what is slowest of these: a node's link, in the direction with most bytes; the cluster's backbone;
the file system, with all bytes of the job; and a single flow, for which SimGrid allows ``WINDOW_BYTES`` a round trip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pliant.model.errors import TraceError
from pliant.model.keys import LARGEST, cut
from pliant.model.limits import DIGITS
from pliant.workloads.formats.expression import evaluate
from pliant.workloads.formats.simgrid import WINDOW_BYTES, Platform, Route

Values = Mapping[str, float]
Miss = Callable[[str, str], None]
"""Says what is not simulated, and what was done instead."""

COMMON = ("type", "name", "iterations", "synchronized")
COMPUTING = (*COMMON, "flops", "computation_pattern", "bytes", "communication_pattern")
KEYS: dict[str, tuple[str, ...]] = {
    "cpu": (*COMPUTING, "coupled"),
    "gpu": COMPUTING,
    "pfs_read": (*COMMON, "bytes", "pattern", "async"),
    "pfs_write": (*COMMON, "bytes", "pattern", "async"),
    "bb_read": (*COMMON, "bytes", "pattern", "async"),
    "bb_write": (*COMMON, "bytes", "pattern", "async"),
    "busy_wait": (*COMMON, "delay", "pattern"),
    "idle": (*COMMON, "delay", "pattern"),
    "sequence": (*COMMON, "tasks"),
}
SHARES = ("all_ranks", "total", "root_only", "even_ranks", "odd_ranks", "uniform", "vector")
"""Patterns of what each node has to do; ``total`` is an older name of the first."""
FLOWS = (
    "all_to_all", "gather", "scatter", "master_worker", "ring", "ring_clockwise", "ring_counter_clockwise", "matrix",
)  # fmt: skip
NO_TIME = "they take no time"


class ElastisimMachine(NamedTuple):
    """What tasks run on, and who is told what of them is not simulated. ``gpus`` are those of the job on each node;
    ``fixed`` says that the number of its nodes is, so that it may list what each has to do."""

    platform: Platform
    miss: Miss
    gpus: int = 0
    fixed: bool = False


class _Task(NamedTuple):
    """What a task ``says``, where it stands, the variables of its formulas, and what it runs on."""

    says: Mapping[str, Any]
    where: str
    known: Values
    on: ElastisimMachine

    @property
    def nodes(self) -> int:
        return int(self.known["num_nodes"])


class _Traffic(NamedTuple):
    """Bytes: of the nodes that have most, what goes out and comes in; of all; and of the largest flow."""

    ends: tuple[tuple[float, float], ...]
    total: float
    flow: float


def tasks_s(tasks: Sequence[Any], where: str, known: Values, on: ElastisimMachine) -> float:
    """Seconds of ``tasks``. TraceError names what cannot be read."""
    at_s = last_s = 0.0
    for number, task in enumerate(tasks, 1):
        at = f"{where}: task {number}"
        if not isinstance(task, Mapping):
            raise TraceError(f"{at}: is no task, but {task!r}")
        times = whole_of(task.get("iterations", 1), f"{at}: iterations", known)
        seconds = finite(times * _task_s(_Task(task, at, known, on)), at)
        last_s = max(last_s, at_s + seconds)
        if task.get("async") is not True:
            at_s += seconds
    return last_s


def _task_s(task: _Task) -> float:
    says, on = task.says, task.on
    kind = str(says.get("type", "")).lower()
    if kind not in KEYS:
        on.miss(f"tasks of type {says.get('type')!r}", NO_TIME)
        return 0.0
    for key in says:
        if key not in KEYS[kind]:
            on.miss(f"{key!r} of a task of type {kind}", "it is not looked at")
    if kind == "sequence":
        return tasks_s(list_of(says, "tasks", task.where), task.where, task.known, on)
    if kind in ("busy_wait", "idle"):
        most, _ = _share(task, "delay", "pattern")
        return most
    return _computing_s(task, kind) if kind in ("cpu", "gpu") else _storing_s(task, kind)


def _computing_s(task: _Task, kind: str) -> float:
    """Computing and communicating at once, if a task does both."""
    says, on = task.says, task.on
    if "flops" not in says and "bytes" not in says:
        raise TraceError(f"{task.where}: neither flops nor bytes; give one of them")
    seconds = 0.0
    if "flops" in says:
        most, _ = _share(task, "flops", "computation_pattern")
        seconds = _flops_s(most, kind, on)
    if "bytes" in says:
        pattern = _pattern(task, "communication_pattern", FLOWS)
        sizes = _sizes(task, "bytes", pattern)
        moving = _gpus_s if kind == "gpu" else _moving_s
        coupled = says.get("coupled") is True and kind == "cpu"
        latency_s, moving_s = moving(sizes, pattern, task.nodes, on)
        # Coupled tasks begin to compute when the first byte has come.
        return latency_s + max(seconds, moving_s) if coupled else max(seconds, latency_s + moving_s)
    return seconds


def _flops_s(flops: float, kind: str, on: ElastisimMachine) -> float:
    platform = on.platform
    if kind == "cpu":
        speed = platform.node_flops
        if speed is None:
            on.miss("cpu tasks on nodes of unknown speed (--node-flops, --platform)", NO_TIME)
    else:
        speed = _gpu_flops(on)
    return flops / speed if speed else 0.0


def _gpu_flops(on: ElastisimMachine) -> float | None:
    """Of all GPUs of the job on one node."""
    platform = on.platform
    if not on.gpus:
        on.miss("gpu tasks of jobs that have no GPUs", NO_TIME)
        return None
    if not platform.gpu_flops:
        on.miss("gpu tasks on GPUs of unknown speed (num_gpus and flops_per_gpu in --platform)", NO_TIME)
        return None
    if on.gpus > platform.gpus:
        on.miss("more GPUs on a node than the platform has", "each job has as many as it wants")
    return platform.gpu_flops * on.gpus


def _storing_s(task: _Task, kind: str) -> float:
    most, total = _share(task, "bytes", "pattern")
    on, reads = task.on, kind.endswith("read")
    if kind.startswith("bb"):
        if on.platform.buffer is None:
            on.miss(f"{kind} tasks without burst buffers (node_local_bb in --platform)", NO_TIME)
            return 0.0
        return most / on.platform.buffer[0 if reads else 1]
    storage = on.platform.storage
    way = storage.read if reads else storage.write
    if way is None:
        on.miss(
            f"{kind} tasks on a file system of unknown speed (--{kind.replace('_', '-')}, --platform)",
            NO_TIME,
        )
        return 0.0
    if not most:
        return 0.0
    ends = ((0.0, most),) if reads else ((most, 0.0),)
    traffic = _Traffic(ends, total, most / storage.hosts)
    latency_s, seconds = _transfer_s(traffic, on.platform, way, 1)
    return latency_s + seconds


def _moving_s(sizes: Sequence[float], pattern: str, nodes: int, on: ElastisimMachine) -> tuple[float, float]:
    """The latency and the seconds that follow of communication between the nodes."""
    if on.platform.link is None:
        on.miss("communication on links of unknown speed (--link, --platform)", NO_TIME)
        return 0.0, 0.0
    traffic = _traffic(sizes, pattern, nodes)
    return _transfer_s(traffic, on.platform, None, 2) if traffic.total else (0.0, 0.0)


def _transfer_s(traffic: _Traffic, platform: Platform, way: Route | None, ends: int) -> tuple[float, float]:
    """The latency and the seconds that follow, through the links of ``ends`` nodes a flow, and by ``way``."""
    link, backbone = platform.link, platform.backbone
    latency_s = sum(
        route.latency_s * count
        for route, count in ((link, ends), (backbone, 1), (way, 1))
        if route is not None
    )
    seconds = traffic.flow * 2.0 * latency_s / WINDOW_BYTES
    if link is not None:
        busiest = max(max(out, into) if platform.duplex else out + into for out, into in traffic.ends)
        seconds = max(seconds, busiest / link.bytes_s)
    for shared in (backbone, way):
        if shared is not None:
            seconds = max(seconds, traffic.total / shared.bytes_s)
    return latency_s, seconds


def _traffic(sizes: Sequence[float], pattern: str, n: int) -> _Traffic:
    """Who sends what, of the size that the pattern divides; the shares are those that ElastiSim makes."""
    if pattern == "matrix":
        rows = [[0.0 if i == j else sizes[i * n + j] for j in range(n)] for i in range(n)]
        ends = tuple((sum(rows[i]), sum(row[i] for row in rows)) for i in range(n))
        return _Traffic(ends, sum(out for out, _ in ends), max(map(max, rows)))
    size = sizes[0]
    each = size / n
    both = ((each, each),)
    one_to_all = ((each * (n - 1), 0.0), (0.0, each))
    traffic = {
        "all_to_all": lambda: _Traffic(both, size, each / (n - 1)),
        "scatter": lambda: _Traffic(one_to_all, each * (n - 1), each),
        "gather": lambda: _Traffic(tuple((out, into) for into, out in one_to_all), each * (n - 1), each),
        "master_worker": lambda: _Traffic(((2.0 * size, 2.0 * size),), 4.0 * size, 2.0 * size / (n - 1)),
        "ring": lambda: _Traffic(both, size, each if n == 2 else each / 2.0),
    }
    if n == 1:
        return _Traffic(((0.0, 0.0),), 0.0, 0.0)
    return traffic.get(pattern, lambda: _Traffic(both, size, each))()


def _gpus_s(sizes: Sequence[float], pattern: str, nodes: int, on: ElastisimMachine) -> tuple[float, float]:
    """Between all GPUs of the job: those of a node over their own links, pair by pair, and the nodes over theirs."""
    size, each, gpus = sizes[0], on.gpus, on.gpus * nodes
    if not each:
        on.miss("gpu tasks of jobs that have no GPUs", NO_TIME)
        return 0.0, 0.0
    if each == 1:
        return _moving_s(sizes, pattern, nodes, on)
    if pattern not in ("all_to_all", "ring", "ring_clockwise", "ring_counter_clockwise"):
        on.miss(f"{pattern} between GPUs", NO_TIME)
        return 0.0, 0.0
    if pattern == "all_to_all":
        flow = size / (gpus * (gpus - 1))
        pair, between = 2.0 * flow, flow * gpus * (gpus - each)
    else:
        # Neighbours share a link; where a node has two GPUs, all that stays there goes over it.
        hops = each if nodes == 1 else each - 1
        pair = size / gpus * hops / (each if each > 2 else 1)
        between = size / gpus * nodes if nodes > 1 else 0.0
    inside_s = 0.0
    if on.platform.gpu_link is None:
        on.miss("communication of GPUs on a node of unknown speed (gpu_to_gpu_bw in --platform)", NO_TIME)
    else:
        inside_s = pair / on.platform.gpu_link
    latency_s, seconds = _moving_s([between], pattern, nodes, on) if between else (0.0, 0.0)
    return latency_s, max(seconds, inside_s - latency_s)


def _share(task: _Task, key: str, pattern_key: str) -> tuple[float, float]:
    """Of what the pattern divides among the nodes, the part of the node with most, and the sum."""
    pattern = _pattern(task, pattern_key, SHARES, "uniform" if key == "delay" else None)
    sizes, nodes = _sizes(task, key, pattern), task.nodes
    size = sizes[0]
    if pattern == "vector":
        return max(sizes), sum(sizes)
    if pattern == "uniform":
        return size, size * nodes
    if pattern == "odd_ranks" and nodes == 1:
        return 0.0, 0.0
    sharing = {"root_only": 1, "even_ranks": (nodes + 1) // 2, "odd_ranks": nodes // 2}
    return size / sharing.get(pattern, nodes), size


def _pattern(task: _Task, key: str, among: tuple[str, ...], default: str | None = None) -> str:
    value = task.says.get(key, default)
    pattern = value.lower() if isinstance(value, str) else value
    if pattern not in among:
        raise TraceError(f"{task.where}: {key}: {value!r} is none of {', '.join(among)}")
    return str(pattern)


def _sizes(task: _Task, key: str, pattern: str) -> list[float]:
    """The number that the pattern divides, or with a list those of each node, or pair of nodes."""
    where, known = f"{task.where}: {key}", task.known
    if pattern not in ("vector", "matrix"):
        return [number_of(task.says.get(key), where, known)]
    if not task.on.fixed:
        raise TraceError(f"{task.where}: {pattern}: only a rigid job can list what each of its nodes does")
    sizes, nodes = list_of(task.says, key, task.where), task.nodes
    if len(sizes) != (wanted := nodes if pattern == "vector" else nodes * nodes):
        raise TraceError(f"{where}: {len(sizes)} numbers for {nodes} nodes; it takes {wanted}")
    return [number_of(size, where, known) for size in sizes]


def list_of(table: Any, key: str, where: str) -> list[Any]:
    """The list named ``key``. TraceError."""
    value = table.get(key) if isinstance(table, Mapping) else None
    if not isinstance(value, list):
        raise TraceError(f"{where}: {key}: expected a list, got {value!r}")
    return value


def number_of(value: Any, where: str, known: Values) -> float:
    """A number, or what a performance model gives with the variables ``known``; 0 or more. TraceError."""
    if isinstance(value, str):
        try:
            value = evaluate(value, known)
        except ValueError as error:
            raise TraceError(f"{where}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
        raise TraceError(
            f"{where}: expected a number, 0 or more and below {LARGEST:g}, got {cut(repr(value))}"
        )
    return float(value)


def whole_of(value: Any, where: str, known: Values) -> int:
    """How many there are, as by ``number_of`` and rounded down. TraceError."""
    number = math.floor(number_of(value, where, known))
    if number >= 10**DIGITS:
        raise TraceError(f"{where}: {number:g} are too many; give less than {10**DIGITS:g}")
    return number


def finite(seconds: float, where: str) -> float:
    """The ``seconds`` that something takes; TraceError if no simulation can last so long."""
    if not seconds < LARGEST:
        raise TraceError(f"{where}: it takes {seconds:g} s; give it less than {LARGEST:g} s")
    return seconds

"""An application model of ElastiSim's as a job's run time by its nodes: what all of it takes, or each of its phases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pliant.model.errors import TraceError
from pliant.model.jobs import Bounds, JobClass
from pliant.model.keys import cut
from pliant.model.speedup import Amdahl, Model, Phase, Phases, Simple, Table
from pliant.workloads.formats.elastisim_tasks import (
    ElastisimMachine,
    Miss,
    finite,
    list_of,
    tasks_s,
    whole_of,
)
from pliant.workloads.formats.expression import evaluate, names
from pliant.workloads.formats.simgrid import Platform
from pliant.workloads.job import Adapting

PHASE_KEYS = (
    "name", "iterations", "scheduling_point", "final_scheduling_point", "barrier", "tasks", "evolving_request",
)  # fmt: skip
MODEL_KEYS = ("phases", "on_init", "on_reconfiguration", "on_expansion")
CHANGING = ("num_nodes", "num_gpus", "phase_iteration")
"""Variables of a request that are others at the next iteration."""
MOST_SIZES = 64
"""A job with more sizes is tabulated at this many of them, and its times are interpolated between."""
MOST_REQUESTS = 1000
"""So many iterations of a phase ask for a size of their own."""
LEAST_S = 1e-9
"""What takes no time on some sizes only; a model has none without."""


class Named(NamedTuple):
    """A job, and ``where`` its model is; ``gpus`` are those that it has on each node."""

    where: str
    sizes: Bounds
    arguments: Mapping[str, float]
    gpus: int
    miss: Miss


class Application:
    """The application ``model`` of a job, on a machine. TraceError names what cannot be read."""

    def __init__(self, model: Mapping[str, Any], job: Named, job_class: JobClass, platform: Platform) -> None:
        self.given = model
        self.job = job
        self.job_class = job_class
        self.on = ElastisimMachine(platform, job.miss, job.gpus, job_class is JobClass.RIGID)
        self.tabulated = _tabulated(job.sizes)
        for key in model:
            if key not in MODEL_KEYS:
                job.miss(f"{key!r} of an application model", "it is not looked at")
        if not isinstance(phases := model.get("phases"), list) or not phases:
            raise TraceError(f"{job.where}: there are no phases")
        self.phases = [
            self._checked(phase, f"{job.where}: phase {number}") for number, phase in enumerate(phases, 1)
        ]

    def _checked(self, phase: Any, where: str) -> tuple[str, Mapping[str, Any]]:
        if not isinstance(phase, Mapping):
            raise TraceError(f"{where}: is no phase, but {phase!r}")
        for key in phase:
            if key not in PHASE_KEYS:
                self.job.miss(f"{key!r} of a phase", "it is not looked at")
        if phase.get("barrier") is False:
            self.job.miss("phases without barrier", "nodes wait for each other after each")
        return where, phase

    def model(self, *, asks: bool, once: bool) -> Model | None:
        """The job's run time by its nodes; phase by phase if it ``asks`` for nodes itself, each time ``once``. None if
        it takes none."""
        if self.job_class is JobClass.MALLEABLE:
            self.job.miss(
                "scheduling points of malleable and adaptive jobs", "they may be resized at any time"
            )
        first = self._one_time("on_init")
        if asks and (not once or any("evolving_request" in phase for _, phase in self.phases)):
            parts = tuple(self._parts(first, once=once))
            return Phases(parts) if parts else None
        whole = dict(first)
        for where, phase in self.phases:
            times, each = self._iterations(where, phase), self._iteration(where, phase)
            for nodes in whole:
                whole[nodes] += times * each[nodes]
        return _fitted(whole, self.job.where)

    def adapting(self) -> Adapting | None:
        """What the job does itself at a resize."""
        if self.job_class in (JobClass.RIGID, JobClass.MOLDABLE):
            return None
        sizes = self.job.sizes
        new = _tabulated(Bounds(1, sizes.max - sizes.min)) if sizes.max > sizes.min else []
        resized, grown = (
            _fitted(self._one_time(key, on), f"{self.job.where}: {key}")
            for key, on in (("on_reconfiguration", None), ("on_expansion", new))
        )
        return None if resized is None and grown is None else Adapting(resized, grown)

    def _one_time(self, key: str, sizes: list[int] | None = None) -> dict[int, float]:
        """Seconds of one of the phases that are none of the job's work, by nodes."""
        sizes, phase = self.tabulated if sizes is None else sizes, self.given.get(key)
        if not phase:
            return dict.fromkeys(sizes, 0.0)
        where = f"{self.job.where}: {key}"
        phase = {"tasks": phase} if isinstance(phase, list) else phase
        if not isinstance(phase, Mapping):
            raise TraceError(f"{where}: expected a phase or a list of tasks, got {cut(repr(phase))}")
        times, each = self._iterations(where, phase), self._iteration(where, phase, sizes)
        return {nodes: times * seconds for nodes, seconds in each.items()}

    def _iterations(self, where: str, phase: Mapping[str, Any]) -> int:
        """How often; it may not depend on the nodes."""
        value = phase.get("iterations", 1)
        return whole_of(value, f"{where}: iterations", self.job.arguments)

    def _iteration(
        self, where: str, phase: Mapping[str, Any], sizes: list[int] | None = None
    ) -> dict[int, float]:
        """Seconds of one iteration, by nodes."""
        tasks = list_of(phase, "tasks", where)
        sizes = self.tabulated if sizes is None else sizes
        return {nodes: tasks_s(tasks, where, self._known(nodes), self.on) for nodes in sizes}

    def _known(self, nodes: int) -> dict[str, float]:
        """The variables of performance models."""
        gpus = self.job.gpus
        own = {"num_nodes": float(nodes), "num_gpus_per_node": float(gpus), "num_gpus": float(nodes * gpus)}
        return {**self.job.arguments, **own}

    def _parts(self, first: Mapping[int, float], *, once: bool) -> Iterator[Phase]:
        """The phases, or iterations of them, that ask for a size of their own; ``first`` is what goes before them."""
        begun = False
        for where, phase in self.phases:
            times, each = self._iterations(where, phase), self._iteration(where, phase)
            request = phase.get("evolving_request")
            if request is not None:
                request = str(request)
            silent = times if request is None else min(times, int(not begun))
            if silent:
                before = dict.fromkeys(each, 0.0) if begun else first
                model = _fitted({n: before[n] + silent * each[n] for n in each}, where)
                begun = True
                if model is not None:
                    yield Phase(model)
            if request is not None and times > silent:
                at = f"{where}: evolving_request"
                yield from self._asking(at, request, range(silent, times), each, once=once)
        if not begun and (model := _fitted(first, self.job.where)) is not None:
            yield Phase(model)

    def _asking(
        self, where: str, request: str, iterations: range, each: Mapping[int, float], *, once: bool
    ) -> Iterator[Phase]:
        """``iterations`` of a phase, which take ``each`` by nodes."""
        sizes, changing = self.job.sizes, names_in(request, where).intersection(CHANGING)
        finite(len(iterations) * max(each.values()), where)
        if not changing and not once:
            size = self._size(where, request, sizes.min, iterations[0])
            if (model := _fitted({n: len(iterations) * s for n, s in each.items()}, where)) is not None:
                yield Phase(model, 1.0, size, size)
            return
        if (model := _fitted(each, where)) is None:
            return
        if len(iterations) > MOST_REQUESTS:
            self.job.miss(
                f"requests in more than {MOST_REQUESTS:,} iterations of a phase", "those after make none"
            )
        seen: dict[tuple[int, ...], dict[int, int]] = {}
        asks: dict[int, int] | None = None
        for iteration in iterations[:MOST_REQUESTS]:
            if asks is None or "phase_iteration" in changing:
                asked = tuple(self._size(where, request, nodes, iteration) for nodes in sizes.sizes())
                asks = seen.setdefault(
                    asked, {n: size for n, size in zip(sizes.sizes(), asked, strict=True) if n != size}
                )
            yield Phase(model, asks=asks)
        if (rest := len(iterations) - MOST_REQUESTS) > 0:
            yield Phase(model, float(rest))

    def _size(self, where: str, request: str, nodes: int, iteration: int) -> int:
        """What a job of ``nodes`` nodes asks for, clipped to the sizes that it allows."""
        sizes = self.job.sizes
        known = {
            **self._known(nodes),
            "num_nodes_min": float(sizes.min),
            "num_nodes_max": float(sizes.max),
            "phase_iteration": float(iteration),
        }
        try:
            value = evaluate(request, known)
        except ValueError as error:
            raise TraceError(f"{where}: {error}") from None
        if not math.isfinite(value):
            raise TraceError(f"{where}: {request!r} is no number of nodes")
        return min(max(math.trunc(value), sizes.min), sizes.max)


def names_in(request: str, where: str) -> frozenset[str]:
    """The variables of a request. TraceError."""
    try:
        return names(request)
    except ValueError as error:
        raise TraceError(f"{where}: {error}") from None


def _fitted(times: Mapping[int, float], where: str) -> Simple | None:
    """Amdahl's law where it fits the times exactly, else a table of them; None if they are all 0. TraceError."""
    if not any(times.values()):
        return None
    times = {nodes: max(finite(seconds, where), LEAST_S) for nodes, seconds in times.items()}
    return _amdahl(times) or Table(times)


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

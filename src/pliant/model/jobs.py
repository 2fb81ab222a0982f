"""Jobs: what a user submits, in nodes and seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from pliant.model.arrays import ArrayMember
from pliant.model.flavours import named, way_of
from pliant.model.kinds import KINDS, JobKind
from pliant.model.speedup import Model

NO_ESTIMATE_S = 3600.0
"""A job is taken to need so long if its user says nothing of it."""


class JobClass(StrEnum):
    """Feitelson and Rudolph's classes: who chooses the size, and when."""

    RIGID = "rigid"
    MOLDABLE = "moldable"
    MALLEABLE = "malleable"
    EVOLVING = "evolving"


class JobState(StrEnum):
    """Slurm's names."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    RESIZING = "RESIZING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    NODE_FAIL = "NODE_FAIL"


ENDED = frozenset(
    {JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.CANCELLED, JobState.NODE_FAIL}
)


KEEP_SIZE = (JobClass.RIGID, JobClass.MOLDABLE)


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The sizes a job allows, in nodes: min, min * factor, ... up to max; factor 1 allows every size.

    preferred is one of them.
    """

    min: int
    max: int
    factor: int = 1
    preferred: int = 0  # 0 stands for min

    def __post_init__(self) -> None:
        if self.preferred == 0:
            msgspec.structs.force_setattr(self, "preferred", self.min)
        if self.min < 1:
            raise ValueError(f"min is {self.min}; a job needs at least 1 node")
        if self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        if self.factor < 1:
            raise ValueError(f"factor is {self.factor}; it must be 1 or more")
        if not self.allows(self.preferred):
            raise ValueError(
                f"preferred {self.preferred} is no allowed size ({self.describe()}); "
                f"nearest below: {self.floor(self.preferred) or self.min}"
            )

    @classmethod
    def exactly(cls, nodes: int) -> Bounds:
        """The bounds of a rigid job of so many nodes."""
        return cls(nodes, nodes)

    def sizes(self) -> list[int]:
        """All allowed sizes, ascending. A program may allow a thousand million: what comes from one is not asked
        for this."""
        if self.factor == 1:
            return list(range(self.min, self.max + 1))
        sizes = [self.min]
        while sizes[-1] * self.factor <= self.max:
            sizes.append(sizes[-1] * self.factor)
        return sizes

    def allows(self, nodes: int) -> bool:
        """Whether a job may run on so many nodes."""
        return nodes > 0 and self.floor(nodes) == nodes

    def floor(self, nodes: int) -> int:
        """The largest allowed size of at most ``nodes``, or 0."""
        if nodes < self.min:
            return 0
        if self.factor == 1:
            if nodes < self.max:
                return nodes
            return self.max
        size, most = self.min, min(nodes, self.max)
        while (more := size * self.factor) <= most:
            size = more
        return size

    def above(self, nodes: int) -> int:
        """The smallest allowed size of more than ``nodes``, or 0."""
        if self.factor == 1:
            return max(nodes + 1, self.min) if nodes < self.max else 0
        size = self.min
        while size <= nodes:
            size *= self.factor
        return size if size <= self.max else 0

    def nearest(self, nodes: int, low: int, high: int) -> int:
        """The allowed size in ``low`` .. ``high`` that is nearest to the allowed size ``nodes``, or 0 if there
        is none."""
        size = self.above(low - 1) if nodes < low else self.floor(min(nodes, high))
        return size if low <= size <= high else 0

    def up_to(self, most: int) -> Bounds:
        """Its sizes of at most ``most`` nodes, or else its smallest; it prefers the nearest below that is left."""
        top = max(self.min, self.floor(most))
        return Bounds(self.min, top, self.factor, self.floor(min(self.preferred, top)))

    def intersect(self, other: Bounds) -> Bounds | None:
        """The sizes both allow, with this one's preferred size where it is left; None if there are none.

        Two factors other than 1 meet only where the common sizes are again a geometric row.
        """
        if self.factor == other.factor == 1:
            low, high = max(self.min, other.min), min(self.max, other.max)
            return Bounds(low, high, 1, min(max(self.preferred, low), high)) if low <= high else None
        rows = (self, other) if self.factor > 1 else (other, self)  # the first is a geometric, so a short one
        common = [n for n in rows[0].sizes() if rows[1].allows(n)]
        if not common:
            return None
        factor = max(self.factor, other.factor)
        low = high = common[0]
        if len(common) > 1:
            factor = common[1] // common[0]
            while high * factor in common:
                high *= factor
        inside = [n for n in common if low <= n <= high]
        preferred = min(inside, key=lambda n: (abs(n - self.preferred), n))
        return Bounds(low, high, factor, preferred)

    def describe(self) -> str:
        """The bounds as a user writes them: ``2:8 by factor 2``."""
        if self.min == self.max:
            return f"{self.min}"
        return f"{self.min}:{self.max}" + (f" by factor {self.factor}" if self.factor > 1 else "")

    def in_nodes(self) -> str:
        """``1 node``, ``1:4 nodes``."""
        return f"{self.describe()} {'node' if self.max == 1 else 'nodes'}"


class Check(NamedTuple):
    """What the check of a job's result said: whether it is as ``expected``. None: it could not be made, and
    ``problem`` says why."""

    verified: bool | None = None
    expected: str | None = None
    problem: str = ""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was submitted. Times in seconds; ``submit_s`` counts from the start of the batch.

    ``walltime_s`` is the user's estimate at the preferred size: only with ``kill`` is the job ended when it is
    over. ``nodes`` are the allowed sizes.
    ``kind`` is what its groups are to each other (``model/kinds.py``).
    ``mpi`` is which MPI it loads, where that is known (``model/flavours.py``).
    ``verify`` is a command whose last line of output must equal the job's result. A higher ``priority``
    goes first, where the policy's order is by priority. ``data_mb`` megabytes are redistributed at a resize.
    ``array`` is said of jobs of an array alone, and ``partition`` where a simulated machine has some, in a journal too;
    ``unestimated`` where nobody has said how long the job takes, and its walltime is a default. ``stdin`` is the file
    that rank 0 of its first node reads. ``outlast``: it may start on nodes that end before it does, by its estimate.
    ``requeue``: it is submitted again where the end of its nodes has ended it, and others may do.
    """

    name: str
    nodes: Bounds
    job_class: JobClass = JobClass.RIGID
    submit_s: float = 0.0
    command: tuple[str, ...] = ()
    cwd: str = ""
    env: Mapping[str, str] = {}
    walltime_s: float = NO_ESTIMATE_S
    kill: bool = False
    model: Model | None = None
    verify: tuple[str, ...] = ()
    user: str = ""
    priority: int = 0
    data_mb: float = 0.0
    kind: JobKind = JobKind.MPI
    mpi: str = ""
    array: ArrayMember | UnsetType = UNSET
    partition: str | UnsetType = UNSET
    unestimated: bool | UnsetType = UNSET
    stdin: str | UnsetType = UNSET
    outlast: bool | UnsetType = UNSET
    requeue: bool | UnsetType = UNSET

    @property
    def dialect(self) -> str:
        """How its groups are launched: a name in ``live/node/dialects.py``."""
        if not self.mpi:
            return KINDS[self.kind].dialect
        return way_of(named(self.mpi), self.env).dialect_of(one_world=self.one_world)

    @property
    def may_outlast(self) -> bool:
        """Whether it may start on nodes of any end: its user says so, or has stated no estimate."""
        return self.outlast is True or self.unestimated is True

    @property
    def keeps_size(self) -> bool:
        """Whether the size that it is started with is the one it ends with."""
        return self.job_class in KEEP_SIZE

    @property
    def one_world(self) -> bool:
        """Whether all ranks share one MPI_COMM_WORLD, as with any launcher. In a job that may be resized the ranks
        of each node have a world of their own, so that any node can be given back whole; so have those that
        need no MPI."""
        return self.job_class in KEEP_SIZE and KINDS[self.kind].one_world

    def speed_ratio(self, nodes: int, base: int) -> float:
        """Run time on ``nodes`` over run time on ``base``; without a model, speed-up is taken as linear."""
        if self.model is None:
            return base / nodes
        return self.model.time(nodes) / self.model.time(base)

    def speed_ratios(self, base: int) -> Callable[[int], float]:
        """``speed_ratio`` with this base, for who asks about many sizes."""
        if self.model is None:
            return lambda nodes: base / nodes
        time, whole = self.model.time, self.model.time(base)
        return lambda nodes: time(nodes) / whole

    def estimate(self, nodes: int) -> float:
        """The walltime scaled from the preferred size to ``nodes``, in seconds.

        Without a model it stays an upper bound: linear below the preferred size, no gain above it.
        """
        preferred = self.nodes.preferred
        if nodes == preferred or (self.model is None and nodes > preferred):
            return self.walltime_s
        return self.walltime_s * self.speed_ratio(nodes, preferred)

    def estimate_ratio(self, nodes: int, base: int) -> float:
        """``estimate`` on ``nodes`` over that on ``base``."""
        if self.model is None:
            preferred = self.nodes.preferred
            nodes, base = min(nodes, preferred), min(base, preferred)
        return self.speed_ratio(nodes, base)

    def rigid(self) -> JobSpec:
        """The same job, rigid at its preferred size."""
        return msgspec.structs.replace(
            self, nodes=Bounds.exactly(self.nodes.preferred), job_class=JobClass.RIGID
        )

"""The batches of Finnerty, Posner et al., On the Performance of Malleable APGAS Programs and Batch Job
Schedulers, SN Computer Science 5, 2024: 25 jobs of eleven programs on 32 nodes, ten batches, six shares of
malleable jobs.

Programs, sizes and weights are the experiment's Table 2 and its published configuration. Run times were
never published: those here are calibrated (``WORK``), not measured.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from pliant.core.settings import Settings
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl
from pliant.plan.cost import ResizeCost
from pliant.workloads.job import SimJob

NODES = 32
JOBS = 25
SEEDS = range(43, 53)
PERCENTAGES = (0, 20, 40, 60, 80, 100)
AT_ONCE = 5
"""So many jobs are submitted together at the start."""
WINDOW_S = 600
"""Submissions are drawn from these ten minutes. The published configuration says three, which fits none of
the article's figures."""
ESTIMATE_S = 800.0
"""Every job's requested time in the experiment; hence its backfilling could not tell jobs apart."""


class Table2Row(NamedTuple):
    """A line of Table 2: the expected number of such jobs among 25 is ``weight``."""

    program: str
    nodes: int
    weight: float


TABLE2 = (
    Table2Row("BC_17", 2, 1.5), Table2Row("BC_17", 4, 1.0),
    Table2Row("BC_18", 2, 1.5), Table2Row("BC_18", 4, 1.0), Table2Row("BC_18", 8, 0.5),
    Table2Row("BC_19", 8, 1.0), Table2Row("BC_19", 16, 0.5),
    Table2Row("NQueens_17", 2, 1.5), Table2Row("NQueens_17", 4, 1.0),
    Table2Row("NQueens_18", 8, 1.0), Table2Row("NQueens_18", 16, 0.5),
    Table2Row("UTS_18", 2, 1.5), Table2Row("UTS_18", 4, 0.5),
    Table2Row("UTS_19", 2, 1.5), Table2Row("UTS_19", 4, 1.0), Table2Row("UTS_19", 8, 1.0),
    Table2Row("UTS_20", 8, 1.0), Table2Row("UTS_20", 16, 0.5),
    Table2Row("Pi_8e10", 2, 1.5), Table2Row("Pi_8e10", 4, 1.0),
    Table2Row("Pi_6e11", 4, 1.5), Table2Row("Pi_6e11", 8, 1.0), Table2Row("Pi_6e11", 16, 0.5),
    Table2Row("Pi_1.2e12", 8, 1.0), Table2Row("Pi_1.2e12", 16, 0.5),
)  # fmt: skip
RANGES = {
    "BC_17": (1, 4), "BC_18": (2, 16), "BC_19": (8, 16),
    "NQueens_17": (1, 8), "NQueens_18": (8, 16),
    "UTS_18": (1, 4), "UTS_19": (2, 16), "UTS_20": (8, 16),
    "Pi_8e10": (1, 4), "Pi_6e11": (4, 16), "Pi_1.2e12": (8, 16),
}  # fmt: skip
"""The nodes that a malleable job of a program may have."""

SCALE = 0.931
"""Brings the mean run time of all rigid jobs to the article's 195.36 s."""
WORK = {
    "BC_17": 182.0, "BC_18": 4 * 182.0, "BC_19": 16 * 182.0,
    "NQueens_17": 498.0, "NQueens_18": 7.7 * 498.0,
    "UTS_18": 175.0, "UTS_19": 4 * 175.0, "UTS_20": 16 * 175.0,
    "Pi_8e10": 147.0, "Pi_6e11": 7.5 * 147.0, "Pi_1.2e12": 15 * 147.0,
}  # fmt: skip
"""Calibrated, in node-seconds before ``SCALE``: within a program by its complexity, each program with the
same share of all work."""
FIXED_S = 5.0
"""What a job takes on any number of nodes; calibrated, too."""

GROW_S, SHRINK_S = 14.55, 7.41
"""Means of the article, from the order on; a job computes meanwhile on the nodes it had."""
COST = ResizeCost(start_s=GROW_S - SHRINK_S, start_each_s=0.0, blocked_s=0.0, leave_s=0.0, answer_s=SHRINK_S)
"""``leave_s`` is 0, since nodes of a job that has ended are free at once: all of a shrink is in its answer."""


class Table2Job(NamedTuple):
    """A job of a batch: its line of Table 2, and its submission in seconds from the first."""

    row: Table2Row
    submit_s: int


def entries(seed: int, window_s: int = WINDOW_S) -> list[Table2Job]:
    """The batch of ``seed`` in order of submission, drawn as by the experiment's program."""
    random = Random(seed)  # noqa: S311 - a workload, not a secret
    rows = random.choices(TABLE2, weights=[row.weight for row in TABLE2], k=JOBS)
    drawn = sorted(((random.randint(0, window_s - 1), row) for row in rows), key=lambda entry: entry[0])
    start = drawn[AT_ONCE - 1][0]
    return [Table2Job(row, max(0, at - start)) for at, row in drawn]


def malleable_indices(seed: int, percent: int) -> set[int]:
    """Which jobs of the batch, by position, are malleable; sets of two percentages are not nested."""
    count = JOBS * percent // 100
    return set(Random(seed).sample(range(JOBS), count))  # noqa: S311 - a workload, not a secret


def paper2_jobs(
    seed: int, percent: int = 0, *, window_s: int = WINDOW_S, estimate_s: float | None = ESTIMATE_S
) -> list[SimJob]:
    """The jobs of batch ``seed``, ``percent`` of them malleable and the others rigid.

    Every job's estimate is ``estimate_s``; None makes estimates exact.
    """
    if not 0 <= percent <= 100:
        raise BatchError(f"paper2: {percent} % of malleable jobs; it must lie in 0 .. 100")
    malleable = malleable_indices(seed, percent)
    return [
        _job(index, entry, index in malleable, estimate_s)
        for index, entry in enumerate(entries(seed, window_s))
    ]


def paper2_settings() -> Settings:
    """The core's settings for malleable batches: the article's mean costs of resizes."""
    return Settings(cooldown_s=6.0, cost=COST)  # 6 s: until a job that has started can receive orders


def model(program: str) -> Amdahl:
    """T(n) = FIXED_S + work / n."""
    work = WORK[program] * SCALE
    return Amdahl(work_s=FIXED_S + work, serial_fraction=FIXED_S / (FIXED_S + work))


def _job(index: int, entry: Table2Job, malleable: bool, estimate_s: float | None) -> SimJob:  # noqa: FBT001
    program, nodes, _ = entry.row
    speed = model(program)
    low, high = RANGES[program] if malleable else (nodes, nodes)
    spec = JobSpec(
        name=f"{index}-{program}-{nodes}",
        nodes=Bounds(low, high, preferred=nodes),
        job_class=JobClass.MALLEABLE if malleable else JobClass.RIGID,
        submit_s=float(entry.submit_s),
        walltime_s=speed.time(nodes) if estimate_s is None else estimate_s,
        model=speed,
    )
    return SimJob(spec)

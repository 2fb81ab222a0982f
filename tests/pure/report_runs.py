"""Runs for the report's tests: a realistic pair from the simulator, and small ones made by hand."""

from __future__ import annotations

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl
from pliant.policy.registry import make
from pliant.policy.view import Reason
from pliant.report.runs import Run
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.job import SimJob

# (name, submit s, work s at one node, serial fraction, min, max, factor, preferred, class)
BATCH = (
    ("heat-a", 0.0, 96.0, 0.02, 1, 8, 2, 4, "malleable"),
    ("cg-small", 1.0, 40.0, 0.05, 1, 4, 2, 2, "malleable"),
    ("nbody", 2.0, 80.0, 0.0, 2, 8, 2, 4, "malleable"),
    ("render", 3.0, 30.0, 0.0, 3, 3, 1, 3, "rigid"),
    ("jacobi", 5.0, 70.0, 0.02, 1, 8, 2, 2, "malleable"),
    ("uts", 8.0, 90.0, 0.0, 1, 8, 1, 3, "malleable"),
    ("mesh", 9.0, 24.0, 0.1, 2, 2, 1, 2, "rigid"),
    ("heat-b", 14.0, 60.0, 0.02, 1, 8, 2, 4, "malleable"),
    ("sort", 18.0, 36.0, 0.05, 2, 4, 2, 2, "malleable"),
    ("stencil", 22.0, 64.0, 0.0, 2, 8, 2, 4, "malleable"),
    ("post", 27.0, 18.0, 0.0, 4, 4, 1, 4, "rigid"),
    ("tail", 33.0, 110.0, 0.0, 1, 8, 1, 2, "malleable"),
)
NODES = 8
NAMES = [f"n{i}" for i in range(NODES)]
RAISED = """ValueError: no; rank 0 of group 0 on n1 exited with 3
Traceback (most recent call last):
  File "head.py", line 3, in <module>
\traise ValueError("no")
ValueError: no
Abort(3) on node 0 (rank 0 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 0"""
"""What a job's error is: the reason in its first line, then details and what the job printed last."""


def specs() -> list[JobSpec]:
    found = []
    for name, submit, work, serial, low, high, factor, preferred, kind in BATCH:
        model = Amdahl(work, serial)
        found.append(
            JobSpec(
                name=name,
                nodes=Bounds(low, high, factor, preferred),
                job_class=JobClass(kind),
                submit_s=submit,
                walltime_s=model.time(preferred) * 1.3,
                model=model,
            )
        )
    return found


def simulated(name: str, policy: str, jobs: list[JobSpec], nodes: int = NODES) -> Run:
    records: list[r.Record] = []
    sim_jobs = [SimJob(spec) for spec in jobs]
    simulate(sim_jobs, nodes, make(policy), Conditions(Settings(), starting=True), records.append)
    return Run(name, policy, [f"n{i}" for i in range(nodes)], records)


def realistic() -> list[Run]:
    """A rigid and a malleable run of one batch on eight nodes."""
    jobs = specs()
    return [
        simulated("rigid", "easy", [spec.rigid() for spec in jobs]),
        simulated("malleable", "malleable", jobs),
    ]


def finished(name: str, *ends: float, pace: float = 0.0, jobs: str = "job", policy: str = "easy") -> Run:
    """A run of rigid one-node jobs, all submitted and started at 1 s and ended at ``ends`` seconds; with
    ``pace`` they overran their pace by that share."""
    records: list[r.Record] = [r.NodesGranted(0.5, NodeSet.first(len(ends)))]
    for i in range(1, len(ends) + 1):
        spec = JobSpec(name=f"{jobs}{i}", nodes=Bounds.exactly(1))
        records.append(r.JobSubmitted(1.0, i, spec))
        records.append(r.JobStarted(1.0, i, NodeSet.of([i - 1]), Reason("fits")))
        records.append(r.JobRunning(1.0, i, spec.nodes))
        if pace:
            records.append(r.JobProgressed(1.0, i, 0.5, 10.0, 10.0 * (1 + pace)))
    for end, i in sorted((end, i) for i, end in enumerate(ends, 1)):
        records.append(r.JobEnded(end, i, JobState.COMPLETED, 0, NodeSet.of([i - 1])))
        records.append(r.NodesClean(end, i, NodeSet.of([i - 1])))
    return Run(name, policy, [f"n{i}" for i in range(len(ends))], records)


def offered(*answers: r.Record) -> Run:
    """Three nodes. ``solver`` starts on n0 at 2 s and is offered the others at 4 s; ``answers`` follow."""
    base = one_resize()
    return Run(base.name, base.policy, base.names, [*base.records[:6], *answers])


def one_resize() -> Run:
    """Three nodes. ``solver`` starts on n0 at 2 s, is offered n1 and n2 at 4 s, holds them from 5 s, gives
    n1 back at 9 s (clean at 9.5 s) for ``head``, and ends at 13 s; ``head`` runs on n1 from 9.5 s to 12 s and
    fails."""
    solver = JobSpec(name="solver", nodes=Bounds(1, 3), job_class=JobClass.MALLEABLE)
    head = JobSpec(name="head", nodes=Bounds.exactly(1))
    n = NodeSet.of
    records: list[r.Record] = [
        r.NodesGranted(0.0, NodeSet.first(3)),
        r.JobSubmitted(1.0, 1, solver),
        r.JobStarted(2.0, 1, n([0]), Reason("fits")),
        r.JobRunning(2.0, 1, solver.nodes),
        r.JobMalleable(2.0, 1, True),
        r.ResizeOffered(4.0, 1, 1, 1, 3, n([1, 2]), Reason("idle_nodes", figures={"remaining_s": 20.0})),
        r.ResizeAccepted(4.2, 1, 1),
        r.ResizeDone(5.0, 1, 1, n([1, 2]), NodeSet(), 0.04, {"connect": 0.01, "redistribute": 0.03}),
        r.JobSubmitted(8.0, 2, head),
        r.ResizeOffered(8.0, 1, 2, 3, 2, NodeSet(), Reason("shrink_for_head", 2, {"wait_saved_s": 3.0})),
        r.ResizeAccepted(8.5, 1, 2),
        r.ResizeDone(9.0, 1, 2, NodeSet(), n([1]), 0.02),
        r.NodesClean(9.5, 1, n([1])),
        r.JobStarted(9.5, 2, n([1]), Reason("backfilled")),
        r.JobRunning(9.5, 2, head.nodes),
        r.JobEnded(12.0, 2, JobState.FAILED, 3, n([1]), None, RAISED),
        r.JobEnded(13.0, 1, JobState.COMPLETED, 0, n([0, 2]), "42"),
        r.NodesClean(13.0, 1, n([0, 2])),
        r.NodesClean(13.0, 2, n([1])),
    ]
    return Run("malleable", "malleable", ["n0", "n1", "n2"], records)

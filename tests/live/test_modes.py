"""Modes 2 and 3 of the DMR policy (Iserte et al. 2018, section 4) with real jobs: they do what they do in the simulator. Mode 1, a
request of the job itself, is in ``test_checks_live.py`` and ``test_wishes_live.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from harness import BatchRun, is_right, job, until_told

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT
from pliant.policy.registry import make
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.job import SimJob

NODES = 4
WAYS = {
    "dmr-preferred": [(4, 2, "to_preferred")],  # who has its preferred size stays as it is
    "dmr-wide": [(4, 2, "shrink_for_start"), (2, 4, "idle_nodes")],
}


def resized(records: list[r.Record]) -> list[tuple[int, int, str]]:
    """From how many nodes to how many, and why, of all resizes that were done."""
    done = {each.resize for each in records if isinstance(each, r.ResizeDone)}
    offers = [each for each in records if isinstance(each, r.ResizeOffered) and each.resize in done]
    return [(each.before, each.after, each.reason.code) for each in offers]


def simulated(policy: str) -> list[tuple[int, int, str]]:
    """The same in the simulator: a malleable job, and one that comes later, needs two nodes and ends sooner."""
    long, short = Amdahl(400.0), Amdahl(20.0)
    wide = JobSpec(
        name="wide", nodes=Bounds(1, 4, 2, 2), job_class=JobClass.MALLEABLE, model=long, walltime_s=200.0
    )
    other = JobSpec(name="other", nodes=Bounds.exactly(2), submit_s=5.0, model=short, walltime_s=10.0)
    records: list[r.Record] = []
    jobs = [SimJob(wide, long.time(2)), SimJob(other, short.time(2))]
    simulate(jobs, NODES, make(policy), Conditions(Settings(cooldown_s=0.0, cost=INSTANT)), records.append)
    return resized(records)


@pytest.mark.long
@pytest.mark.parametrize("policy", WAYS)
def test_a_policy_of_paper_3_does_live_what_it_does_in_the_simulator(
    start: Callable[..., BatchRun], tmp_path: Path, policy: str
) -> None:
    assert simulated(policy) == WAYS[policy]
    enough, over = tmp_path / "enough", tmp_path / "over"
    run = start(
        f'nodes = {NODES}\npolicy = "{policy}"\ncooldown_s = 0',
        until_told("wide", "{ min = 1, max = 4, factor = 2, preferred = 2 }", enough),
        job("other", f"sh -c 'until [ -e {over} ]; do sleep 0.02; done'", "2", kind="tasks", submit=1.0),
    )
    run.wait_for(r.JobStarted, lambda x: x.job != 1)
    over.touch()
    run.wait_for(r.JobEnded)
    if len(WAYS[policy]) > 1:
        run.wait_for(r.ResizeDone, lambda x: bool(x.gained))
    enough.touch()
    jobs = run.finish()
    assert is_right(jobs["wide"]["result"])
    assert resized([*run.records()]) == WAYS[policy], run.story()

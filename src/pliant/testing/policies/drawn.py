"""Workloads and conditions, drawn by Hypothesis: few jobs, of whole seconds, so that many things coincide."""

from __future__ import annotations

from hypothesis import strategies as st

from pliant.core.settings import Settings
from pliant.files.cost import read_cost
from pliant.model.jobs import Bounds, JobClass
from pliant.model.kinds import JobKind
from pliant.model.speedup import Amdahl
from pliant.testing.policies.cases import Case
from pliant.workloads.inline_jobs import Job, given_jobs

NODES = 24
COOLDOWNS = st.sampled_from([0.0, 2.0, 15.0])
DEADLINES = st.sampled_from([1.0, 30.0])  # the short one calls most expansions off
COSTS = st.sampled_from(["none", "default", "start_s=3,blocked_s=1,leave_s=0"])


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    low = draw(st.integers(1, 8))
    sizes = Bounds(low, draw(st.integers(low, NODES)), draw(st.integers(1, 3))).sizes()
    factor = 1 if len(sizes) == 1 else max(1, sizes[1] // sizes[0] if sizes[1] - sizes[0] > 1 else 1)
    if Bounds(low, sizes[-1], factor).sizes() != sizes:
        factor = sizes[1] // sizes[0]
    return Bounds(low, sizes[-1], factor, draw(st.sampled_from(sizes)))


@st.composite
def jobs(draw: st.DrawFn) -> list[Job]:
    """Jobs of all classes but evolving ones, with models, some killed at their walltime."""
    made = []
    for _ in range(draw(st.integers(1, 14))):
        model = Amdahl(float(draw(st.integers(5, 800))), draw(st.sampled_from([0.0, 0.05, 0.5])))
        sizes = draw(bounds())
        kind = draw(
            st.sampled_from([JobClass.MALLEABLE, JobClass.MALLEABLE, JobClass.MOLDABLE, JobClass.RIGID])
        )
        rigid = kind is JobClass.RIGID
        made.append(
            Job(
                nodes=sizes.preferred,
                nodes_min=None if rigid or sizes.min == sizes.preferred else sizes.min,
                nodes_max=None if rigid or sizes.max == sizes.preferred else sizes.max,
                factor=1 if rigid else sizes.factor,
                job_class=kind.value,
                submit_s=float(draw(st.integers(0, 60))),
                walltime_s=model.time(sizes.preferred) * draw(st.sampled_from([0.5, 1.0, 1.2, 3.0])),
                kill=draw(st.booleans()),
                kind=draw(st.sampled_from(JobKind)).value,
                model=model,
            )
        )
    return made


elastic_jobs = jobs().map(given_jobs)
"""The same as the simulator takes them."""
settings_ = st.builds(Settings, cooldown_s=COOLDOWNS, resize_deadline_s=DEADLINES, cost=COSTS.map(read_cost))
cases = st.builds(
    Case,
    jobs=jobs(),
    nodes=st.just(NODES),
    cooldown_s=COOLDOWNS,
    resize_deadline_s=DEADLINES,
    cost=COSTS,
    starting=st.booleans(),
)

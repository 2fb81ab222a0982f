"""A small workload and the conditions that a policy is tried under, for people and as code."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pliant.core.settings import Settings
from pliant.files.cost import read_cost
from pliant.model.speedup import Amdahl, Downey
from pliant.sim.simulator import Conditions
from pliant.workloads.inline_jobs import Job, given_jobs
from pliant.workloads.job import SimJob


class Case(msgspec.Struct, frozen=True):
    """``jobs`` on a machine of ``nodes`` nodes. The others are as for ``pliant.simulate``, with the defaults of a live
    cluster; ``starting``: a job computes only once its processes have started, at that cost."""

    jobs: Sequence[Job]
    nodes: int
    cooldown_s: float = 2.0
    resize_deadline_s: float = 30.0
    cost: str = "default"
    starting: bool = False

    @property
    def settings(self) -> Settings:
        """What the core goes by. BatchError for a cost that is none."""
        return Settings(
            cooldown_s=self.cooldown_s, resize_deadline_s=self.resize_deadline_s, cost=read_cost(self.cost)
        )

    @property
    def conditions(self) -> Conditions:
        """The conditions of the simulation that this case is."""
        return Conditions(self.settings, starting=self.starting)

    def sim_jobs(self) -> list[SimJob]:
        """As the simulator takes them. BatchError for jobs that are none."""
        return given_jobs(self.jobs)

    def words(self) -> str:
        """What people read."""
        resizes = {"none": "resizes take no time", "default": "resizes take what they do by default"}
        starting = ", jobs start at that cost" if self.starting else ""
        conditions = (
            f"{self.nodes} nodes; {resizes.get(self.cost, f'resizes cost {self.cost}')}{starting}, are at least "
            f"{self.cooldown_s:g} s apart, and are called off after {self.resize_deadline_s:g} s"
        )
        return "\n".join([conditions, *(f"job {job.spec.name}: {_words(job)}" for job in self.sim_jobs())])

    def code(self, policy: str) -> str:
        """A program that checks ``policy``, which it calls so, on this case alone."""
        models = sorted(
            {type(job.model).__name__ for job in self.jobs if isinstance(job.model, Amdahl | Downey)}
        )
        jobs = "".join(f"        {_code(job)},\n" for job in self.jobs)
        return (
            f"from pliant import {', '.join([*models, 'Job'])}\n"
            "from pliant.testing import Case, check_policy\n\n"
            f"case = Case(\n    jobs=[\n{jobs}    ],\n    {_fields(self, 'jobs')},\n)\n"
            f"check_policy({policy}, case=case)\n"
        )


def _code(value: object) -> str:
    return f"{type(value).__name__}({_fields(value)})" if isinstance(value, msgspec.Struct) else repr(value)


def _fields(of: msgspec.Struct, *but: str) -> str:
    """Those that are not by default."""
    values = [
        (field, getattr(of, field.name)) for field in msgspec.structs.fields(of) if field.name not in but
    ]
    return ", ".join(f"{field.name}={_code(value)}" for field, value in values if value != field.default)


def _words(job: SimJob) -> str:
    spec = job.spec
    preferred = spec.nodes.preferred
    sizes = spec.nodes.describe() + (" node" if spec.nodes.max == 1 else " nodes")
    if spec.nodes.min < spec.nodes.max:
        sizes += f" (preferred {preferred})"
    return (
        f"{spec.job_class}, {sizes}, submitted at {spec.submit_s:g} s, runs {job.time(preferred):g} s on "
        f"{preferred}, estimate {spec.walltime_s:g} s{', killed then' if spec.kill else ''}"
    )

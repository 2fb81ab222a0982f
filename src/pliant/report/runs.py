"""A run and what the records tell of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from pliant.core import records as r
from pliant.core.records import PolicyFailed
from pliant.history.gantt import Gantt
from pliant.history.metrics import JobOutcome, Metrics, RunMetrics
from pliant.history.timeline import Stretch, told
from pliant.model.errors import PliantError
from pliant.model.jobs import ENDED, Check, JobState
from pliant.model.kinds import JobKind
from pliant.model.nodes import NodeSet, hostlist
from pliant.policy.view import Reason
from pliant.report.words import why

PACE_LIMIT = 0.02
"""Paced runs that overran their pace by a larger share do not show what they claim to show."""


class Facts(msgspec.Struct, eq=False, dict=True):
    """What one run of a batch has left behind.

    ``name`` says which of the runs compared it is (rigid, malleable, ...), ``names`` are the nodes' names
    by number. ``checks`` are those of results, by job name. ``predicted_makespan_s`` is the simulator's forecast, if
    one was made. ``stopped`` is what ended the run before its jobs had ended.
    """

    name: str
    policy: str
    names: Sequence[str]
    records: Sequence[r.Record]
    checks: Mapping[str, Check] = {}
    predicted_makespan_s: float | None = None
    stopped: PliantError | None = None


class Run(Facts, eq=False, dict=True):
    """One run of a batch, and what follows from its facts: figures, charts and words, made when they are asked for."""

    @cached_property
    def _told(self) -> tuple[Metrics, Gantt]:
        metrics, chart = Metrics(), Gantt()
        told(self.records, metrics, chart)
        return metrics, chart

    @cached_property
    def metrics(self) -> RunMetrics:
        metrics = self._told[0].summary()
        for job in metrics.jobs:
            check = self.checks.get(job.name, Check())
            job.verified, job.expected, job.unchecked = check
        return metrics

    @property
    def chart(self) -> Gantt:
        return self._told[1]

    @cached_property
    def idle(self) -> list[Stretch]:
        """Node-time in which nobody computed, though no node was free: in order of its end."""
        return self.chart.idle_time()

    @cached_property
    def jobs(self) -> dict[int, JobOutcome]:
        """The jobs by the number that each had last, in order of submission."""
        return dict(zip(dict.fromkeys(self._last.values()), self.metrics.jobs, strict=True))

    @cached_property
    def _last(self) -> dict[int, int]:
        """For every number the last one of the same job: whenever a job is requeued it gets another."""
        last: dict[int, int] = {}
        for record in self.records:
            if isinstance(record, r.JobSubmitted):
                last[record.job] = record.job
                if again := record.requeue_of:
                    last |= {number: record.job for number, now in last.items() if now == again}
        return last

    def last_number(self, number: int) -> int:
        """By which a job is found in ``jobs``, whichever of its numbers it had at the time."""
        return self._last.get(number, number)

    @cached_property
    def kinds(self) -> dict[int, JobKind]:
        """What the jobs are, by number."""
        return {record.job: record.spec.kind for record in self.records if isinstance(record, r.JobSubmitted)}

    @cached_property
    def _starts(self) -> dict[int, r.JobStarted]:
        return {record.job: record for record in self.records if isinstance(record, r.JobStarted)}

    @cached_property
    def start_reasons(self) -> dict[int, Reason]:
        return {number: start.reason for number, start in self._starts.items()}

    def first_size(self, number: int) -> int:
        """The nodes a job started with; 0 if it never did."""
        start = self._starts.get(number)
        return len(start.nodes) if start is not None else 0

    @cached_property
    def origin_s(self) -> float:
        """The first submission, in journal time: where charts and tables start to count."""
        return next((record.at for record in self.records if isinstance(record, r.JobSubmitted)), 0.0)

    @cached_property
    def end_s(self) -> float:
        """The last end (while jobs are left: the last record), in journal time."""
        return self.origin_s + self.metrics.makespan_s

    @cached_property
    def nodes_there(self) -> tuple[int, int]:
        """The fewest and the most nodes that there were from the first submission to the end: some may have been added,
        given back or lost."""
        steps = self.chart.there
        before = [nodes for at, nodes in steps if at <= self.origin_s][-1:]
        counts = before + [nodes for at, nodes in steps if self.origin_s < at < self.end_s]
        return (min(counts), max(counts)) if counts else (0, 0)

    @property
    def nodes_text(self) -> str:
        """``8``, or ``8 to 10``."""
        least, most = self.nodes_there
        return f"{least:,}" if least == most else f"{least:,} to {most:,}"

    @property
    def pace_valid(self) -> bool:
        overrun = self.metrics.pace_overrun
        return overrun is None or overrun <= PACE_LIMIT

    @property
    def failed(self) -> list[JobOutcome]:
        """Jobs that ended otherwise than by completing."""
        return [
            job for job in self.metrics.jobs if job.state in ENDED and job.state is not JobState.COMPLETED
        ]

    @property
    def unfinished(self) -> list[JobOutcome]:
        return [job for job in self.metrics.jobs if job.state not in ENDED]

    @property
    def differing(self) -> list[JobOutcome]:
        """Jobs whose result was checked and is wrong."""
        return [job for job in self.metrics.jobs if job.verified is False]

    @property
    def unchecked(self) -> list[JobOutcome]:
        """Jobs whose result was to be checked and could not be."""
        return [job for job in self.metrics.jobs if job.unchecked]

    @property
    def policy_failed(self) -> str:
        """Why the run went on under another policy; empty if it did not."""
        return next((record.error for record in self.records if isinstance(record, PolicyFailed)), "")

    def hosts(self, nodes: NodeSet) -> str:
        """The nodes' names, in hostlist form."""
        return hostlist(self.names[i] if i < len(self.names) else f"node{i}" for i in nodes)

    def job_name(self, number: int) -> str:
        job = self.jobs.get(self.last_number(number))
        return job.name if job is not None else f"job {number}"

    def why(self, reason: Reason) -> str:
        return why(reason, self.job_name)


def alike_in_nodes(runs: Sequence[Run]) -> bool:
    """Whether all had the same number of nodes, all the time."""
    return len({nodes for run in runs for nodes in run.nodes_there}) <= 1


def is_paced(runs: Sequence[Run]) -> bool:
    """Whether any job of the runs was paced by its speed-up model."""
    return any(run.metrics.pace_overrun is not None for run in runs)


SIGNS = {"expand": "▲", "shrink": "▼", "migrate": "⇄", "slots": "◐"}
"""Of the kinds of resizes."""
RESULT_WIDTH = 24
"""Of a result that is shown; report.json has all of it."""


def state_text(job: JobOutcome) -> str:
    """``FAILED (3)``; a job that was ended from outside has the code of the signal, which tells nothing."""
    failed = job.state is JobState.FAILED and job.exit_code
    return f"{job.state} ({job.exit_code})" if failed else str(job.state)


def sizes_text(run: Run, number: int) -> str:
    """The sizes a job has had, with a sign between that says which way: ``2 ▲ 4 ▼ 1``."""
    job = run.jobs[number]
    done = [resize for resize in job.resizes if resize.outcome == "done" and resize.kind != "slots"]
    if not done:
        size = run.first_size(number)
        return str(size) if size else "-"
    parts = [str(done[0].before)]
    parts += [f"{SIGNS[resize.kind]} {resize.after}" for resize in done]
    return " ".join(parts)

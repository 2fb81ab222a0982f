"""A run and what the records tell of it, and report.json (schema 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from pliant.core import records as r
from pliant.core.gantt import Gantt
from pliant.core.lives import Stretch, told
from pliant.core.metrics import JobOutcome, Metrics, ResizeOutcome, RunMetrics
from pliant.core.records import PolicyFailed
from pliant.model.errors import PliantError
from pliant.model.jobs import ENDED, Check, JobState
from pliant.model.kinds import JobKind
from pliant.model.nodes import NodeSet, hostlist
from pliant.policy.view import Reason
from pliant.report.words import why

SCHEMA = 1
PACE_LIMIT = 0.02
"""Paced runs that overran their pace by a larger share do not show what they claim to show."""


class Run:
    """One run of a batch: its records, and what follows from them.

    ``name`` says which of the runs compared it is (rigid, malleable, ...), ``names`` are the nodes' names
    by number. ``checks`` are those of results, by job name. ``predicted_makespan_s`` is the simulator's forecast, if
    one was made. ``stopped`` is what ended the run before its jobs had ended.
    """

    def __init__(
        self,
        name: str,
        policy: str,
        names: Sequence[str],
        records: Sequence[r.Record],
        checks: Mapping[str, Check] | None = None,
        predicted_makespan_s: float | None = None,
        stopped: PliantError | None = None,
    ) -> None:
        self.name = name
        self.policy = policy
        self.names = list(names)
        self.records = list(records)
        self.checks = dict(checks or {})
        self.predicted_makespan_s = predicted_makespan_s
        self.stopped = stopped

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


def is_paced(runs: Sequence[Run]) -> bool:
    """Whether any job of the runs was paced by its speed-up model."""
    return any(run.metrics.pace_overrun is not None for run in runs)


def report_data(runs: Sequence[Run], *, paced: bool | None = None) -> dict[str, Any]:
    """report.json as plain data. Times are in seconds since each run's journal began, ``origin_s`` is that
    of its first submission. ``paced`` None: as the records tell."""
    return {
        "schema": SCHEMA,
        "paced": is_paced(runs) if paced is None else paced,
        "valid": all(run.pace_valid for run in runs),
        "runs": [_run_data(run) for run in runs],
    }


def report_json(runs: Sequence[Run], *, paced: bool | None = None) -> bytes:
    """DESIGN's report.json, indented, for people and programs."""
    return msgspec.json.format(msgspec.json.encode(report_data(runs, paced=paced)), indent=2) + b"\n"


def _run_data(run: Run) -> dict[str, Any]:
    metrics = run.metrics
    data: dict[str, Any] = {"name": run.name, "policy": run.policy, "nodes": run.hosts(_all(run))}
    for key in metrics.__struct_fields__:
        if key != "jobs":
            data[key] = _plain(getattr(metrics, key))
    data["predicted_makespan_s"] = _maybe(run.predicted_makespan_s)
    data["policy_failed"] = run.policy_failed
    data["origin_s"] = _rounded(run.origin_s)
    data["jobs"] = [_job_data(run, number, job) for number, job in run.jobs.items()]
    return data


def _job_data(run: Run, number: int, job: JobOutcome) -> dict[str, Any]:
    started = run.start_reasons.get(number)
    return {
        "id": number,
        "name": job.name,
        "class": str(job.job_class),
        "kind": str(run.kinds[number]),
        "state": str(job.state),
        "exit_code": job.exit_code,
        "cpu_s": _rounded(job.cpu_s),
        "verified": job.verified,
        "submit_s": _rounded(job.submit_s),
        "start_s": _maybe(job.start_s),
        "end_s": _maybe(job.end_s),
        "start_reason": _reason_data(run, started) if started is not None else None,
        "lost_groups": job.lost_groups,
        "resizes": [_resize_data(run, resize) for resize in job.resizes],
        "result": job.result,
        "expected": job.expected,
        "unchecked": job.unchecked,
        "error": job.error,
    }


def _resize_data(run: Run, resize: ResizeOutcome) -> dict[str, Any]:
    return {
        "id": resize.id,
        "kind": resize.kind,
        "from": resize.before,
        "to": resize.after,
        "nodes": run.hosts(resize.nodes),
        "offered_s": _rounded(resize.offered_s),
        "done_s": _maybe(resize.done_s),
        "blocked_s": _rounded(resize.blocked_s),
        "phases": {name: _rounded(value) for name, value in resize.phases.items()},
        "outcome": resize.outcome,
        "error": resize.error,
        "late": resize.late,
        "reason": _reason_data(run, resize.reason),
    }


def _reason_data(run: Run, reason: Reason) -> dict[str, Any]:
    """The reason as data; the job it serves by name, as everywhere in the report."""
    return {
        "code": reason.code,
        "for_job": run.job_name(reason.for_job) if reason.for_job else None,
        "figures": {name: _rounded(value) for name, value in reason.figures.items()},
        "text": run.why(reason),
    }


def _all(run: Run) -> NodeSet:
    return NodeSet.first(len(run.names))


def _rounded(value: float) -> float:
    """To the microsecond: clocks tell no more, and 0.1 stays 0.1."""
    return round(value, 6)


def _plain(value: Any) -> Any:
    """A figure, or figures by class, as plain data."""
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, dict):
        return {str(key): _plain(msgspec.to_builtins(each)) for key, each in value.items()}
    return value


def _maybe(value: float | None) -> float | None:
    return None if value is None else _rounded(value)

"""report.json (schema 1): runs as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pliant.history.metrics import JobOutcome, ResizeOutcome, RunMetrics
from pliant.model.nodes import NodeSet
from pliant.policy.view import Reason
from pliant.report.runs import Run, is_paced

SCHEMA = 1


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


def figures(metrics: RunMetrics) -> dict[str, Any]:
    """The metrics of a run as plain data, without its jobs."""
    return {key: _plain(getattr(metrics, key)) for key in metrics.__struct_fields__ if key != "jobs"}


def _run_data(run: Run) -> dict[str, Any]:
    data: dict[str, Any] = {"name": run.name, "policy": run.policy, "nodes": run.hosts(_all(run))}
    data["nodes_min"], data["nodes_max"] = run.nodes_there
    data |= figures(run.metrics)
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
        **_places_data(job),
        "resizes": [_resize_data(run, resize) for resize in job.resizes],
        "result": job.result,
        "expected": job.expected,
        "unchecked": job.unchecked,
        "error": job.error,
        **({"notes": job.notes} if job.notes else {}),
    }


def _places_data(job: JobOutcome) -> dict[str, Any]:
    """What its places have done, of a job that tells that."""
    places = {
        str(place): {name: _rounded(value) for name, value in figures.items()}
        for place, figures in sorted(job.places.items())
    }
    return {"places": places} if places else {}


def _resize_data(run: Run, resize: ResizeOutcome) -> dict[str, Any]:
    return {
        "id": resize.id,
        "kind": resize.kind,
        **({"slots": {str(group): count for group, count in resize.slots.items()}} if resize.slots else {}),
        "from": resize.before,
        "to": resize.after,
        "nodes": run.hosts(resize.nodes),
        **({"moved_to": run.hosts(resize.moved_to)} if resize.moved_to else {}),
        "offered_s": _rounded(resize.offered_s),
        "done_s": _maybe(resize.done_s),
        "blocked_s": _rounded(resize.blocked_s),
        "phases": {name: _rounded(value) for name, value in resize.phases.items()},
        "outcome": resize.outcome,
        "error": resize.error,
        "phase": resize.phase,
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

"""A whole run's records, audited, and its Gantt chart."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.core import records as r
from pliant.history.audit import Audit
from pliant.history.gantt import Gantt
from pliant.history.timeline import told


def audit(records: Iterable[r.Record]) -> Audit:
    """Check all records; AuditError where they contradict themselves."""
    checked = Audit()
    for record in records:
        checked.add(record)
    return checked


def gantt(records: Iterable[r.Record]) -> Gantt:
    chart = Gantt()
    told(records, chart)
    return chart

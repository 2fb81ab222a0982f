"""A whole run's records, audited."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.core import records as r
from pliant.core.audit import Audit


def audit(records: Iterable[r.Record]) -> Audit:
    """Check all records; AuditError where they contradict themselves."""
    checked = Audit()
    for record in records:
        checked.add(record)
    return checked

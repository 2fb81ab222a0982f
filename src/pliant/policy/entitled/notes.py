"""What a ledger has asked to be remembered. Most of it is as it was in the pass before: only what is not is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.policy.view import Memory, Remember, merged

JOBS = "jobs"

Row = list[float | None]


class Notes:
    """Fields, and a row for each of some jobs."""

    def __init__(self) -> None:
        self._whole: Mapping[str, Any] = {}
        """What they have come to."""

    def are(self, memory: Mapping[str, Any]) -> bool:
        """Whether this is what they have come to: a policy may be asked about another cluster meanwhile, again from the
        start, or again for what it has been asked before."""
        if memory is not self._whole:
            if memory != self._whole:
                return False
            self._whole = (
                memory  # the next one has the same rows, not equal ones: they are compared in no time
            )
        return True

    def tell(self, fields: Memory, rows: Mapping[int, Row | None]) -> Remember | None:
        """``rows`` are those that may have changed, None for those that are no more. What has to be remembered for it:
        all, the first time."""
        before = self._whole
        known = before.get(JOBS, {})
        changes = {name: field for name, field in fields.items() if field != before.get(name)}
        jobs = {text: row for number, row in rows.items() if row != known.get(text := str(number))}
        if jobs or not before:
            changes[JOBS] = jobs
        if not changes:
            return None
        self._whole = merged(before, changes)
        return Remember(changes, merge=bool(before))

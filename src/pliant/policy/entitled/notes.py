"""What a ledger has asked to be remembered. Most of it is as it was in the pass before: only what is not is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.policy.memory import Memory
from pliant.policy.view import Remember

JOBS = "jobs"

Row = list[float | None]


class Notes:
    """Fields, and a row for each of some jobs."""

    def __init__(self) -> None:
        self._fields: Memory = {}
        self._numbers: set[str] = set()
        self._last: Memory = {}
        """What was told last."""
        self._seen: Mapping[str, Any] | None = None
        """What was found to be these notes."""

    def are(self, memory: Mapping[str, Any]) -> bool:
        """Whether this is what they have come to, by what was told last: a policy may be asked about another cluster
        meanwhile, or again from the start."""
        if memory is not self._seen:
            jobs = memory.get(JOBS, {})
            if len(jobs) != len(self._numbers):
                return False
            for name, field in self._last.items():
                if name == JOBS:
                    for number, row in field.items():
                        if jobs.get(number) != row:
                            return False
                elif memory.get(name) != field:
                    return False
            self._seen = memory
        return True

    def tell(self, fields: Memory, rows: Mapping[int, Row | None]) -> Remember | None:
        """``rows`` are those that may have changed, None for those that are no more. What has to be remembered for it:
        all, the first time."""
        before = self._fields
        changes = {name: field for name, field in fields.items() if field != before.get(name)}
        jobs: dict[str, Row | None] = {}
        for number, row in rows.items():
            text = str(number)
            if row is not None:
                self._numbers.add(text)
            elif text in self._numbers:
                self._numbers.remove(text)
            else:
                continue
            jobs[text] = row
        first = not before
        if jobs or first:
            changes[JOBS] = jobs
        if not changes:
            return None
        self._fields, self._last = fields, changes
        return Remember(changes, merge=not first)

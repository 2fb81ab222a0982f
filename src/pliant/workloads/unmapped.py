"""What a workload has that is not simulated: collected over all its jobs, and said in one list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Unmapped(NamedTuple):
    """``what`` is not simulated as it was meant, and ``instead`` is what was done: of ``jobs`` jobs, the first of them
    called ``first``; or of the machine, if there are none."""

    what: str
    instead: str
    jobs: int = 0
    first: str = ""

    def says(self) -> str:
        of = f" ({self.jobs:,} job{'s' if self.jobs != 1 else ''}, first {self.first})" if self.jobs else ""
        return f"{self.what}{of}: {self.instead}"


class Collected:
    """The list as it grows. A job, which is named before the next, counts once for each thing."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], list[str]] = {}

    def add(self, what: str, instead: str, job: str = "") -> None:
        jobs = self._jobs.setdefault((what, instead), [])
        if job and job not in jobs[-1:]:
            jobs.append(job)

    def rows(self) -> tuple[Unmapped, ...]:
        """In the order in which they were found."""
        return tuple(
            Unmapped(what, instead, len(jobs), *jobs[:1]) for (what, instead), jobs in self._jobs.items()
        )


def listed(rows: Iterable[Unmapped]) -> str:
    """The rows for people, a line each."""
    return "".join(f"\n  {row.says()}" for row in rows)


def refused(note: str, how: str) -> str:
    """A note with how to have it refused: on a line of its own below a list."""
    return f"{note}\n{how} refuses them" if "\n" in note else f"{note}; {how} refuses them"

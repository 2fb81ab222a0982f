"""What has ended since the last scheduling pass."""

from __future__ import annotations

from pliant.core import records as r
from pliant.core.job import ScheduledJob
from pliant.model.jobs import JobState
from pliant.policy.view import End


class EndedSinceLastPass:
    """What has ended since the last scheduling pass, of which a policy reads ``view.news``.

    Filled by the core, and emptied by it after each pass: passes are no records, so this is no fold, and empty after a
    resume. An end costs no more than to be noted, until somebody reads it.

    ``ends`` are (job, its end, the number it has now or 0). One that is requeued is ``awaited`` until it is submitted
    again.
    """

    __slots__ = ("awaited", "ends")

    def __init__(self) -> None:
        self.ends: list[tuple[ScheduledJob, r.JobEnded, int]] = []
        self.awaited: dict[int, tuple[ScheduledJob, r.JobEnded]] = {}

    def again(self, before: int, number: int) -> None:
        """The job that was ``before`` is now ``number``; nothing if its end was told already."""
        if before in self.awaited:
            self.ends.append((*self.awaited.pop(before), number))
        for i, (job, record, _) in enumerate(self.ends):
            if job.id == before:
                self.ends[i] = job, record, number

    def news(self) -> tuple[End, ...]:
        """In the order in which they became known."""
        return tuple(
            End(job.id, job.spec, record.state, _done(job, record), number, job.worked_s(record.at))
            for job, record, number in self.ends
        )


def _done(job: ScheduledJob, record: r.JobEnded) -> float:
    return 1.0 if record.state is JobState.COMPLETED else job.done(record.at)

"""What a policy sees beside nodes and jobs: what has ended, what users have used, for whom others shrink, and which
wishes of jobs are open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.core.nodes import Nodes
from pliant.core.usage import Fold, both, followed
from pliant.model.errors import PolicyError
from pliant.model.jobs import JobState
from pliant.model.wishes import Wish
from pliant.policy.backlog import Backlog
from pliant.policy.view import End

if TYPE_CHECKING:
    from pliant.core.job import Job


LONG = 64
"""From so many waiting jobs on there is an index of them: fewer are looked at one by one as quickly."""


class Beside(Nodes):
    """A part of the state. What users have used is attached to its fold, so that it costs only the records that it is
    about, and those only where it is asked for."""

    now: float
    jobs: dict[int, Job]
    _queue: dict[int, Job]

    def follow(self, half_life_s: float, fold: Fold) -> None:
        """Begin; from now on ``fold`` books these too."""
        self._books = fold
        self._backlog: Backlog | None = None
        self._indexes = False
        self.over = Over()
        self.served = self._served_by = 0
        self.wishing: dict[int, Job] = {}
        self.used = followed(half_life_s, fold)

    @property
    def news(self) -> Sequence[End]:
        return self.over.news()

    @property
    def backlog(self) -> Backlog | None:
        waiting = len(self._queue)
        if self._backlog is None and waiting >= LONG:
            self._backlog = Backlog(self._queue.values())
            if not self._indexes:
                self._index()
        elif waiting < LONG // 2:
            self._backlog = None
        return self._backlog

    def _index(self) -> None:
        """From now on the index follows the records, while there is one."""
        self._indexes = True
        books = self._books
        books[r.JobSubmitted] = both(books[r.JobSubmitted], self._waits)
        books[r.JobStarted] = both(self._waits_no_more, books[r.JobStarted])
        books[r.JobEnded] = both(self._waits_no_more, books[r.JobEnded])

    def _waits(self, record: r.JobSubmitted) -> None:
        if self._backlog is not None:
            self._backlog.add(self._queue[record.job])

    def _waits_no_more(self, record: r.JobStarted | r.JobEnded) -> None:
        if self._backlog is not None and record.job in self._queue:
            self._backlog.discard(self._queue[record.job])

    def usage(self, user: str) -> float:
        if self.used is None:
            raise PolicyError("usage is not followed: a policy that goes by it states half_life_s, above 0 s")
        return self.used.of(user, self.now)

    def beside(self) -> dict[str, object]:
        """What is known of it, comparable."""
        used = self.used.snapshot() if self.used is not None else None
        return {"served": (self.served, self._served_by), "usage": used}

    def asked(self, record: r.ResizeOffered) -> None:
        """A job was offered a resize for another one."""
        if record.kind == "shrink":
            self.served, self._served_by = record.reason.for_job, record.resize

    def wish(self, job: Job, wish: Wish | None) -> None:
        """From now on this wish of the job is open, or none."""
        job.wish = wish
        if wish is None:
            self.wishing.pop(job.id, None)
        else:
            self.wishing[job.id] = job

    def meet(self, job: Job) -> None:
        """Its wish is over if it has such a size."""
        if job.wish is not None and job.wish.met(job.bounds, job.size):
            self.wish(job, None)

    def _wishes(self, record: r.JobWishes) -> None:
        self.wish(self.jobs[record.job], record.wish)

    def _pinned(self, record: r.JobPinned) -> None:
        self.jobs[record.job].pinned = record.on

    def in_vain(self, resize: int) -> None:
        """This resize came to nothing."""
        if resize == self._served_by:
            self.served = self._served_by = 0


class Over:
    """What has ended since the last scheduling pass, of which a policy reads ``view.news``.

    Filled by the core, and emptied by it after each pass: passes are no records, so this is no fold, and empty after a
    resume. An end costs no more than to be noted, until somebody reads it.

    ``ends`` are (job, its end, the number it has now or 0). One that is requeued is ``awaited`` until it is submitted
    again.
    """

    __slots__ = ("awaited", "ends")

    def __init__(self) -> None:
        self.ends: list[tuple[Job, r.JobEnded, int]] = []
        self.awaited: dict[int, tuple[Job, r.JobEnded]] = {}

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


def _done(job: Job, record: r.JobEnded) -> float:
    return 1.0 if record.state is JobState.COMPLETED else job.done(record.at)

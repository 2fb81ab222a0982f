"""What each job has done in reality and in the virtual schedule, kept up to date by what a policy sees.

All of it is remembered by the core, so that a controller that begins anew decides as the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.model.jobs import JobState
from pliant.policy.entitled.virtual import Entry, Schedule
from pliant.policy.view import ClusterView, End, JobView

PLACES = 5
"""Work is rounded to microseconds: the sum of what a job has done in parts is else not what it has done at once."""


class Ledger:
    """The virtual schedule, and its entry of each job that has not ended both there and here.

    ``kept`` has the nodes that jobs hold for good which started before they did virtually; ``last`` is the highest
    number of a job that it has seen; ``moved`` are the jobs that were resized in this instant.
    """

    def __init__(self, total: int) -> None:
        self.schedule = Schedule(total)
        self.entries: dict[int, Entry] = {}
        self.kept: dict[int, int] = {}
        self.waiting: dict[int, JobView] = {}
        self.last = 0
        self.moved: set[int] = set()
        self._at = 0.0

    @classmethod
    def of(cls, view: ClusterView) -> Ledger:
        """As the core remembers it. Jobs of which it remembers nothing are taken to have begun virtually with what they
        have done, if they run."""
        memory = view.memory
        ledger = cls(int(memory.get("total", view.total)))
        ledger.last = int(memory.get("last", 0))
        ledger._at, ledger.moved = memory.get("at", 0.0), set(memory.get("moved", ()))
        known: Mapping[str, Any] = memory.get("jobs", {})
        for text, (nodes, estimate_s, began, length_s, since, kept) in known.items():
            entry = ledger.entries[int(text)] = Entry(int(text), nodes, estimate_s, since)
            entry.length_s = length_s
            if kept:
                ledger.kept[entry.id] = kept
            if began is not None:
                entry.began = began
                ledger.schedule.place(entry)
        for _, number, job in view.running:
            if number not in ledger.entries:
                entry = ledger.entries[number] = _entry(job)
                entry.began = view.now - job.worked_s(view.now)
                ledger.schedule.place(entry)
        for job in view.queue:
            if job.id <= ledger.last and job.id not in ledger.entries:
                ledger.entries[job.id] = _entry(job)
        ledger._take_up(memory, view.now)
        return ledger

    def _take_up(self, memory: Mapping[str, Any], now: float) -> None:
        """Where the virtual schedule stands, whose jobs that have begun are in their places."""
        schedule = self.schedule
        for number in sorted(self.entries):
            if self.entries[number].began is None:
                schedule.queue[number] = self.entries[number]
        schedule.head, schedule.reserved = schedule.queue.get(memory.get("head", 0)), memory.get("reserved")
        schedule.at, schedule.horizon = memory.get("passed", 0.0), memory.get("horizon", now)
        for number, nodes, estimate_s, began, length_s, since in memory.get("recent", ()):
            entry = Entry(number, nodes, estimate_s, since)
            entry.began, entry.length_s = began, length_s
            schedule.recent.append(entry)

    def memory(self) -> dict[str, Any]:
        """Of who waits in both nothing is kept: that is in the view."""
        schedule = self.schedule
        return {
            "total": schedule.total,
            "last": self.last,
            "head": schedule.head.id if schedule.head is not None else 0,
            "reserved": schedule.reserved,
            "at": self._at if self.moved else 0.0,
            "moved": sorted(self.moved),
            "passed": schedule.at,
            "horizon": schedule.horizon,
            "recent": [[entry.id, *_row(entry, schedule.horizon)] for entry in schedule.recent],
            "jobs": {
                str(number): [*_row(entry, schedule.horizon), self.kept.get(number, 0)]
                for number, entry in self.entries.items()
                if entry.began is not None
                or number in self.kept
                or number not in self.waiting
                or entry.since > schedule.horizon
            },
        }  # fmt: skip

    def follow(self, view: ClusterView) -> None:
        """Bring the virtual schedule to the present."""
        schedule, now = self.schedule, view.now
        if now > self._at:
            self._at = now
            self.moved.clear()
        self.waiting = {job.id: job for job in view.queue}
        for end in view.news:
            self._ended(end, now)
        back, over = schedule.catch_up(now)
        self.entries.update((entry.id, entry) for entry in back)
        self._over(over)
        schedule.resize(view.total)
        new = [number for number in self.waiting if number > self.last]
        for number in sorted(new):
            entry = self.entries[number] = _entry(self.waiting[number], now)
            schedule.submit(entry)
            self.last = number
        self._over(schedule.settle(now))

    def _ended(self, end: End, now: float) -> None:
        if (entry := self.entries.get(end.job)) is None:
            return
        length_s = round(end.worked_s, PLACES)
        if end.state is JobState.CANCELLED and not length_s:
            if entry.began is None:
                self.schedule.cancel(entry)
                self._over([entry])
                return
            length_s = now - entry.began
        self.schedule.ended(entry, length_s)

    def _over(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.entries.pop(entry.id, None)
            self.kept.pop(entry.id, None)

    def lead_s(self, job: JobView, now: float) -> float:
        """By how many seconds of work the job is ahead of the virtual schedule, in which it has begun."""
        began = self.entries[job.id].began
        done = now - began if began is not None else 0.0
        return job.worked_s(now) - done


def _row(entry: Entry, horizon: float) -> list[float | None]:
    """What is remembered of it: since when it waits only if the past may have to be gone through again."""
    since = entry.since if entry.since > horizon else 0.0
    return [entry.nodes, entry.estimate_s, entry.began, entry.length_s, since]


def _entry(job: JobView, since: float = 0.0) -> Entry:
    return Entry(job.id, job.bounds.preferred, job.spec.walltime_s, since)

"""What each job has done in reality and in the virtual schedule, kept up to date by what a policy sees.

All of it is remembered by the core, so that a controller that begins anew decides as the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.model.jobs import JobState
from pliant.policy.entitled.orders import Orders
from pliant.policy.entitled.terms import virtual_s
from pliant.policy.entitled.virtual import Entry, Schedule
from pliant.policy.view import ClusterView, End, JobView

PLACES = 5
"""Of a second, to which work is rounded: what a job has done in parts adds up to what it has done at once."""


class Ledger:
    """The virtual schedule, and its entry of each job that has not ended both there and here.

    ``kept`` has the nodes that jobs hold for good which started before they did virtually; ``last`` is the highest
    number of a job that it has seen; ``orders`` is what was decided in this instant, None if nothing has been since
    something happened.
    """

    def __init__(self, total: int) -> None:
        self.schedule = Schedule(total)
        self.entries: dict[int, Entry] = {}
        self.kept: dict[int, int] = {}
        self.waiting: dict[int, JobView] = {}
        self.last = 0
        self.orders: Orders | None = None
        self._at = 0.0
        self._told: dict[int, Entry] = {}
        """Those of the entries of which something is remembered: more than that they wait."""

    @classmethod
    def of(cls, view: ClusterView) -> Ledger:
        """As the core remembers it. Jobs of which it remembers nothing are taken to have begun virtually with what they
        have done, if they run."""
        memory = view.memory
        ledger = cls(int(memory.get("total", view.total)))
        ledger.last = int(memory.get("last", 0))
        ledger._at = memory.get("at", 0.0)
        if "orders" in memory:
            ledger.orders = Orders.of(memory["orders"])
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
                entry = ledger.entries[number] = _entry(job, view.total)
                entry.began = view.now - virtual_s(job.spec, entry.nodes, job.worked_s(view.now))
                ledger.schedule.place(entry)
        for job in view.queue:
            if job.id <= ledger.last and job.id not in ledger.entries:
                ledger.entries[job.id] = _entry(job, view.total)
        ledger._told.update(ledger.entries)
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
            "at": self._at,
            "orders": self.orders.memory() if self.orders is not None else [[], []],
            "passed": schedule.at,
            "horizon": schedule.horizon,
            "recent": [[entry.id, *_row(entry, schedule.horizon)] for entry in schedule.recent],
            "jobs": self._rows(),
        }  # fmt: skip

    def _rows(self) -> dict[str, list[float | None]]:
        horizon, kept, waiting, told = self.schedule.horizon, self.kept, self.waiting, self._told
        for number in kept:
            told.setdefault(number, self.entries[number])
        rows = {}
        waits = []
        for number, entry in told.items():
            row = entry.row
            if row is None:
                begun = entry.began is not None
                if not begun and entry.since <= horizon and number in waiting and number not in kept:
                    waits.append(number)
                    continue
                row = [*_row(entry, horizon), kept.get(number, 0)]
                if begun and entry.since <= horizon:
                    entry.row = row
            rows[str(number)] = row
        for number in waits:
            del told[number]
        return rows

    def due(self) -> list[tuple[float, int]]:
        """(when, number) of who has begun virtually and waits, in this order."""
        waiting = self.waiting
        return sorted(
            (entry.began, number)
            for number, entry in self._told.items()
            if entry.began is not None and number in waiting
        )

    def follow(self, view: ClusterView) -> None:
        """Bring the virtual schedule to the present."""
        schedule, now = self.schedule, view.now
        happened = now > self._at or bool(view.news) or view.total != schedule.total
        self._at = max(now, self._at)
        new = self._wait(view)
        for end in view.news:
            self._ended(end, now)
        back, over = schedule.catch_up(now)
        self.entries.update((entry.id, entry) for entry in back)
        self._told.update((entry.id, entry) for entry in back)
        self._over(over)
        if view.total != schedule.total:
            schedule.resize(view.total)
            self._fit(view.total)
        for job in new:
            entry = self.entries[job.id] = self._told[job.id] = _entry(job, view.total, now)
            schedule.submit(entry)
            self.last = job.id
        self._over(schedule.settle(now))
        self._told.update((entry.id, entry) for entry in schedule.begun if entry.id in self.entries)
        schedule.begun.clear()
        if happened or new:
            self.orders = None

    def _wait(self, view: ClusterView) -> list[JobView]:
        """Brings ``waiting`` up to date; those that are new in it, without a look at all others."""
        waiting, queue = self.waiting, list(view.queue)
        for _, number, _ in view.running:
            waiting.pop(number, None)
        for end in view.news:
            waiting.pop(end.job, None)
        new: list[JobView] = []
        for job in reversed(queue):
            if job.id <= self.last:
                break
            new.append(job)
        waiting.update((job.id, job) for job in new)
        if len(waiting) != len(queue):  # it is in another order, or the first pass
            self.waiting = {job.id: job for job in queue}
            new = [job for job in queue if job.id > self.last]
        return sorted(new, key=lambda job: job.id)

    def _fit(self, total: int) -> None:
        """The machine has another size: who waits may have to be content with less than it prefers."""
        for number, entry in self.schedule.queue.items():
            if (job := self.waiting.get(number)) is not None:
                entry.nodes, entry.estimate_s = _needs(job, total)

    def _ended(self, end: End, now: float) -> None:
        if (entry := self.entries.get(end.job)) is None:
            return
        length_s = round(virtual_s(end.spec, entry.nodes, end.worked_s), PLACES)
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
            self._told.pop(entry.id, None)
            self.kept.pop(entry.id, None)


def _row(entry: Entry, horizon: float) -> list[float | None]:
    """What is remembered of it: since when it waits only if the past may have to be gone through again."""
    since = entry.since if entry.since > horizon else 0.0
    return [entry.nodes, entry.estimate_s, entry.began, entry.length_s, since]


def _entry(job: JobView, total: int, since: float = 0.0) -> Entry:
    nodes, estimate_s = _needs(job, total)
    return Entry(job.id, nodes, estimate_s, since)


def _needs(job: JobView, total: int) -> tuple[int, float]:
    """What it has in the virtual schedule, by the user: its preferred size, or the largest that there is on ``total``
    nodes; its least where there is none, for which it waits."""
    bounds, spec = job.bounds, job.spec
    nodes = bounds.preferred
    if nodes > total:
        nodes = bounds.floor(total) or bounds.min
    return nodes, virtual_s(spec, nodes, spec.walltime_s)

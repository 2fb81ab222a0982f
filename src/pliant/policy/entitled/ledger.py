"""What each job has done in reality and in the virtual schedule, kept up to date by what a policy sees.

All of it is remembered by the core, so that a controller that begins anew decides as the one before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sized
from typing import Any

from pliant.model.jobs import JobState
from pliant.policy.entitled.notes import Notes, Row
from pliant.policy.entitled.orders import PlannedOrders
from pliant.policy.entitled.terms import virtual_s
from pliant.policy.entitled.virtual import Schedule, VirtualJob
from pliant.policy.job_view import JobView
from pliant.policy.view import ClusterView, Decision, End, Remember, Start

PLACES = 5
"""Of a second, to which work is rounded: what a job has done in parts adds up to what it has done at once."""


class VirtualLedger:
    """The virtual schedule, and its entry of each job that has not ended both there and here.

    ``kept`` has the nodes that jobs hold for good which started before they did virtually; ``last`` is the highest
    number of a job that it has seen; ``orders`` is what was decided in this instant, None if nothing has been since
    something happened.
    """

    def __init__(self, total: int) -> None:
        self.schedule = Schedule(total)
        self.entries: dict[int, VirtualJob] = {}
        self.kept: dict[int, int] = {}
        self.waiting: dict[int, JobView] = {}
        self.last = 0
        self.orders: PlannedOrders | None = None
        self.notes = Notes()
        self._at = 0.0
        self._due: dict[int, VirtualJob] = {}
        """Those that had begun virtually when last somebody looked, and waited."""
        self._changed: dict[int, None] = {}
        """The numbers of those of which something else may have to be remembered."""
        self._young: deque[VirtualJob] = deque()
        """Those that came after the horizon, in this order."""

    @classmethod
    def of(cls, view: ClusterView) -> VirtualLedger:
        """As the core remembers it. Jobs of which it remembers nothing are taken to have begun virtually with what they
        have done, if they run."""
        memory = view.memory
        ledger = cls(int(memory.get("total", view.total)))
        ledger.last = int(memory.get("last", 0))
        ledger._at = memory.get("at", 0.0)
        if "orders" in memory:
            ledger.orders = PlannedOrders.of(memory["orders"])
        known: Mapping[str, Any] = memory.get("jobs", {})
        for text, (nodes, estimate_s, began, length_s, since, kept) in known.items():
            entry = ledger.entries[int(text)] = VirtualJob(int(text), nodes, estimate_s, since)
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
        total = ledger.schedule.total  # of then: how it has changed since is still to come
        for job in view.queue:
            if job.id <= ledger.last and job.id not in ledger.entries:
                ledger.entries[job.id] = _entry(job, total)
        ledger._take_up(memory, view.now)
        ledger._end_untold(view)
        return ledger

    def _end_untold(self, view: ClusterView) -> None:
        """A job that ended between the last pass of a controller and its death is in no view and in no news: it ends
        here now, or never begins."""
        there = {number for _, number, _ in view.running} | {job.id for job in view.queue}
        there.update(end.job for end in view.news)
        for number in [*self.entries.keys() - there]:
            entry = self.entries[number]
            if entry.length_s is None:
                self._stop(entry, view.now)

    def _take_up(self, memory: Mapping[str, Any], now: float) -> None:
        """Where the virtual schedule stands, whose jobs that have begun are in their places."""
        schedule = self.schedule
        for number in sorted(self.entries):
            if self.entries[number].began is None:
                schedule.queue[number] = self.entries[number]
        head = memory.get("head", 0)
        schedule.head, schedule.reserved = schedule.queue.get(head), memory.get("reserved")
        if head and schedule.head is None:
            schedule.stir()  # it was cancelled, and nobody is told
        schedule.at, schedule.horizon = memory.get("passed", 0.0), memory.get("horizon", now)
        for number, nodes, estimate_s, began, length_s, since in memory.get("recent", ()):
            entry = VirtualJob(number, nodes, estimate_s, since)
            entry.began, entry.length_s = began, length_s
            schedule.recent.append(entry)
        self._due.update(self.entries)
        self._changed.update(dict.fromkeys(self.entries))
        late = [each for each in (*self.entries.values(), *schedule.recent) if each.since > schedule.horizon]
        self._young.extend(sorted(late, key=lambda each: each.since))

    def remember(self) -> Remember | None:
        """What has to be remembered. Of who waits in both nothing is kept: that is in the view."""
        schedule = self.schedule
        fields = {
            "total": schedule.total,
            "last": self.last,
            "head": schedule.head.id if schedule.head is not None else 0,
            "reserved": schedule.reserved,
            "at": self._at,
            "orders": self.orders.memory() if self.orders else [[], []],
            "passed": schedule.at,
            "horizon": schedule.horizon,
            "recent": [[entry.id, *_row(entry, schedule.horizon)] for entry in schedule.recent],
        }
        while self._young and self._young[0].since <= schedule.horizon:
            self._changed[self._young.popleft().id] = None
        rows = {number: self._row(number) for number in self._changed}
        self._changed.clear()
        return self.notes.tell(fields, rows)

    def _row(self, number: int) -> Row | None:
        entry, horizon = self.entries.get(number), self.schedule.horizon
        if entry is None:
            return None
        kept = self.kept.get(number, 0)
        if entry.began is None and not kept and number in self.waiting and entry.since <= horizon:
            return None
        return [*_row(entry, horizon), kept]

    def due(self) -> list[tuple[float, int]]:
        """(when, number) of who has begun virtually and waits, in this order."""
        due = [
            (entry.began, number)
            for number, entry in self._due.items()
            if entry.began is not None and number in self.waiting
        ]
        self._due = {number: self._due[number] for _, number in due}
        return sorted(due)

    def start(self, decisions: Iterable[Decision]) -> None:
        """Those that start no longer wait."""
        for each in decisions:
            if isinstance(each, Start):
                del self.waiting[each.job]
                self._changed[each.job] = None

    def follow(self, view: ClusterView) -> bool:
        """Bring the virtual schedule to the present. Whether something has happened since the last time."""
        schedule, now, news, total = self.schedule, view.now, view.news, view.total
        new = self._wait(view.queue, news)
        if now <= self._at and not news and not new and total == schedule.total:
            return False
        self._at = max(now, self._at)
        for end in news:
            self._ended(end, now)
        back, over = schedule.catch_up(now)
        self.entries.update((entry.id, entry) for entry in back)
        self._changed.update((entry.id, None) for entry in back)
        self._over(over)
        if total != schedule.total:
            schedule.resize(total)
            self._over(schedule.end(now))
            self._withdraw()
            self._fit(total)
        for job in new:
            entry = self.entries[job.id] = _entry(job, total, now)
            self._changed[job.id] = None
            self._young.append(entry)
            schedule.submit(entry)
            self.last = job.id
        self._over(schedule.settle(now))
        self._touched()
        self.orders = None
        return True

    def _touched(self) -> None:
        """What the virtual schedule has done is to be remembered, and who has begun there is due."""
        for entry in self.schedule.touched:
            self._changed[entry.id] = None
            if entry.began is not None and entry.id in self.waiting:
                self._due[entry.id] = entry
        self.schedule.touched.clear()

    def _wait(self, queue: Iterable[JobView], news: Iterable[End]) -> list[JobView]:
        """Brings ``waiting`` up to date; those that are new in it, without a look at all others."""
        waiting = self.waiting
        if not isinstance(queue, Sized):
            queue = list(queue)
        for end in news:
            waiting.pop(end.job, None)
        if len(waiting) == len(queue):
            return []
        new: list[JobView] = []
        for job in reversed(list(queue)):
            if job.id <= self.last:
                break
            new.append(job)
        waiting.update((job.id, job) for job in new)
        if len(waiting) != len(queue):  # it is in another order, or the first pass
            self.waiting = {job.id: job for job in queue}
            new = [job for job in queue if job.id > self.last]
        return sorted(new, key=lambda job: job.id)

    def _withdraw(self) -> None:
        """Nodes are lost, and more have been given away than there are: who has begun virtually and waits, as those
        were not there yet, waits there too, the last first."""
        self._touched()
        for _, number in reversed(self.due()):
            if self.schedule.free >= 0:
                return
            self.schedule.withdraw(self.entries[number])

    def _fit(self, total: int) -> None:
        """The machine has another size: who waits may have to be content with less than it prefers."""
        for number, entry in self.schedule.queue.items():
            if (job := self.waiting.get(number)) is not None:
                entry.nodes, entry.estimate_s = _needs(job, total)
                self._changed[number] = None

    def _ended(self, end: End, now: float) -> None:
        if (entry := self.entries.get(end.job)) is None:
            if end.job <= self.last and end.state is JobState.CANCELLED and not end.worked_s:
                self.schedule.stir()  # it waited in both when this ledger began
            return
        length_s = round(virtual_s(end.spec, entry.nodes, end.worked_s), PLACES)
        if end.state is JobState.CANCELLED and not length_s:
            self._stop(entry, now)
        else:
            self.schedule.ended(entry, length_s)

    def _stop(self, entry: VirtualJob, now: float) -> None:
        """It ends now, or never begins."""
        if entry.began is None:
            self.schedule.cancel(entry)
            self._over([entry])
        else:
            self.schedule.ended(entry, now - entry.began)

    def _over(self, entries: Iterable[VirtualJob]) -> None:
        for entry in entries:
            self.entries.pop(entry.id, None)
            self.kept.pop(entry.id, None)
            self._changed[entry.id] = None


def _row(entry: VirtualJob, horizon: float) -> Row:
    """What is remembered of it: since when it waits only if the past may have to be gone through again."""
    since = entry.since if entry.since > horizon else 0.0
    return [entry.nodes, entry.estimate_s, entry.began, entry.length_s, since]


def _entry(job: JobView, total: int, since: float = 0.0) -> VirtualJob:
    nodes, estimate_s = _needs(job, total)
    return VirtualJob(job.id, nodes, estimate_s, since)


def _needs(job: JobView, total: int) -> tuple[int, float]:
    """What it has in the virtual schedule, by the user: its preferred size, or the largest that there is on ``total``
    nodes; its least where there is none, for which it waits."""
    bounds, spec = job.bounds, job.spec
    nodes = bounds.preferred
    if nodes > total:
        nodes = bounds.floor(total) or bounds.min
    return nodes, virtual_s(spec, nodes, spec.walltime_s)

"""Wishes of jobs: what they ask for by themselves is answered, and where it stays open it is offered when it can be.

What a wish comes to is found here by trying all sizes, apart from ``model/size_request.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.core.job import ScheduledJob
from pliant.core.state import State
from pliant.model.jobs import Bounds, JobClass
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant_lab.injection.audit.amid import amid_s
from pliant_lab.injection.audit.violation import Violation

if TYPE_CHECKING:
    from pliant.history.audit import Audit
    from pliant_lab.injection.world import World

LATE_S = 0.1
"""An open wish that can be met is offered in the very pass; so long after it is too late."""
Objection = Callable[[int, int, frozenset[int], Mapping[int, int]], str]


def goal(allowed: Bounds, wish: Bounds, size: int, free: int, *, prefers: bool) -> int:
    """The size that a job of ``size`` nodes goes to by its wish, where ``free`` others are."""
    most = max(size + free, allowed.preferred, wish.max)
    sizes = [
        n for n in range(1, min(most, allowed.max, wish.max) + 1) if allowed.allows(n) and wish.allows(n)
    ]
    if not sizes:
        return size
    below = [n for n in sizes if n <= size]
    nearest = max(below) if below else min(sizes)
    if not prefers:
        return nearest
    best = min(sizes, key=lambda n: (abs(n - wish.preferred), n))
    reached = [n for n in sizes if n <= size + free]
    return best if best <= size + free else max([nearest, *reached])


class Wished:
    """Of one controller."""

    def __init__(self, world: World, audit: Audit, objection: Objection) -> None:
        self._world = world
        self._audit = audit
        self._objection = objection
        self._said = codec.from_job()
        self._open: dict[int, m.Want] = {}
        self._sizes: dict[int, int] = {}
        self._bounds: dict[int, Bounds] = {}
        self._could: dict[int, float] = {}
        """Since when an open wish could have been met."""

    @property
    def _state(self) -> State:
        return self._world.head.cluster.core.state

    def know(self, record: r.Record) -> None:
        """What was recorded before this controller began counts as well."""
        match record:
            case r.JobWishes(job=number, wish=wish):
                self._open.pop(number, None)
                if wish is not None:
                    self._open[number] = m.Want(0, wish.bounds, True, wish.prefers)
            case r.JobMalleable(job=number, on=False) | r.JobEnded(job=number):
                self._open.pop(number, None)
            case r.JobRunning():
                self._bounds[record.job] = record.bounds
            case r.JobStarted():
                self._sizes[record.job] = len(record.nodes)
            case r.ResizeDone():
                self._resized(record.job, len(record.gained) - len(record.released))
            case r.GroupsLost():
                self._resized(record.job, -len(record.nodes))
            case _:
                pass

    def _resized(self, number: int, more: int) -> None:
        self._sizes[number] += more
        if (want := self._open.get(number)) is None:
            return
        size, allowed = self._sizes[number], self._bounds[number]
        if goal(allowed, want.bounds, size, want.bounds.max, prefers=want.prefers) == size:
            del self._open[number]

    # ---- in the call in which a job asks -------------------------------------------------------------

    def asked(self, relay: m.Relay, records: Sequence[r.Record], told: Sequence[tuple[int, bytes]]) -> None:
        """A job's wish is granted where it can be, and answered in any case; it stays open where it is to."""
        want, job = self._said.decode(relay.message), self._state.jobs[relay.job]
        if not isinstance(want, m.Want) or want.epoch != job.epoch:
            return
        self._kept(want, job)
        offers = [each for each in records if isinstance(each, r.ResizeOffered) and each.job == relay.job]
        if job.resize is not None and not offers:
            return  # the offer that is under way is the answer
        granted = [each.after for each in offers if each.reason.code == "wanted"]
        stay = any(b'"stay"' in said[:20] for _, said in told)
        taken = [each.nodes for each in records if isinstance(each, r.ResizeOffered | r.JobStarted)]
        free = len(self._audit.nodes("free")) + sum(map(len, taken))
        size = goal(job.bounds, want.bounds, job.size, free, prefers=want.prefers)
        if len(granted) + stay != 1 or (granted and granted != [size]):
            raise Violation("wrong", f"job {job.id} wants {want.bounds}: {granted} is offered, stay {stay}")
        more = size - job.size
        soon = more > 0 and self._state.now < job.grow_from
        if stay and more and more <= free - sum(map(len, taken)) and not offers and not soon:
            why = self._objection(job.id, size, frozenset(), {})
            if not why:
                raise Violation(
                    "wrong", f"job {job.id} may go from {job.size} to {size} nodes, and must stay"
                )

    def _kept(self, want: m.Want, job: ScheduledJob) -> None:
        """What is open now is this wish, if it is to be and is not met."""
        most = goal(job.bounds, want.bounds, job.size, want.bounds.max, prefers=want.prefers)
        possible = job.accepts_offers and job.spec.job_class is not JobClass.RIGID
        expected = want.bounds if want.open and possible and most != job.size else None
        kept = None if job.wish is None else job.wish.bounds
        if kept != expected:
            raise Violation("wrong", f"job {job.id} says {want}, and of its wishes {kept} is open")

    # ---- later ---------------------------------------------------------------------------------------

    def granted(self, record: r.ResizeOffered, *, asks: bool) -> None:
        """Nobody who waits is delayed by a wish that was left open."""
        if record.reason.code != "wanted" or asks:
            return
        if record.job not in self._open:
            raise Violation("wrong", f"job {record.job} is offered what it does not wish for: {record}")
        if record.after > record.before and self._state.waiting:
            raise Violation("wrong", f"{record} is for an open wish, and {self._state.waiting} jobs wait")

    def look(self, resumed_at: float) -> None:
        """An open wish that can be met is offered."""
        now, later_s = self._world.clock.now, self._state.settings.pass_interval_s + amid_s(self._state)
        could = {number for number in self._open if self._could_meet(number)}
        self._could = {number: max(self._could.get(number, now), resumed_at) for number in could}
        for number, since in self._could.items():
            if now > since + later_s + LATE_S:
                raise Violation(
                    "stuck", f"job {number} could have had {self._open[number].bounds} at {since:.3f} s"
                )

    def _could_meet(self, number: int) -> bool:
        job, state, want = self._state.jobs.get(number), self._state, self._open[number]
        if self._world.head.cluster.core.held or job is None or job.pinned or job.resize is not None:
            return False
        if job.ending is not None or state.now < job.not_before:
            return False
        free = 0 if state.waiting or state.now < job.grow_from else len(self._audit.nodes("free"))
        size = goal(job.bounds, want.bounds, job.size, free, prefers=want.prefers)
        possible = size != job.size and size <= job.size + free
        return possible and not self._objection(number, size, frozenset(), {})

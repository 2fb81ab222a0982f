"""What each user's jobs have held, where the past counts less and less: a fold that the state attaches if its settings
ask for it. It is what fair share goes by, and a controller that resumes from its records has it again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from pliant.core import records as r

Fold = dict[type[r.Record], Callable[[Any], None]]
"""What is done with each kind of record."""


class _Used:
    """``used`` node-seconds at ``at``, past ones decayed; from then on ``size`` nodes are held."""

    __slots__ = ("at", "size", "used")

    def __init__(self, at: float) -> None:
        self.at = at
        self.size = 0
        self.used = 0.0

    def by(self, now: float, half_life_s: float) -> float:
        """What ``used`` is at ``now``."""
        life = half_life_s / math.log(2.0)
        past = (now - self.at) / life
        # What was used in between has decayed as well: the integral of exp(-t / life).
        return self.used * math.exp(-past) - self.size * life * math.expm1(-past)


class Usage:
    """Node-seconds by user, halved every ``half_life_s`` seconds; running jobs count up to now.

    Exact at every change of a job's size: its start, a resize that is done, groups that are lost, its end.
    """

    IGNORES: ClassVar[r.Ignores] = frozenset({
        r.JobPromised, r.JobLaunched, r.JobRunning, r.JobMalleable, r.JobPinned, r.JobWishes, r.JobProgressed,
        r.JobNoted, r.ResizeOffered, r.ResizeWithdrawn, r.ResizeAccepted, r.ResizeDeclined, r.ResizeFailed,
        r.JobEnding, r.ControllerResumed, r.PolicyFailed, r.PolicyRemembers, r.NodesGranted, r.NodesClean,
        r.NodesLost, r.NodesBack, r.NodesOrdered, r.NodesRefused, r.NodesReclaimed, r.NodesReturned,
        r.NodesExpire, r.NodesWithdrawn,
    })  # fmt: skip

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._users: dict[str, _Used] = {}
        self._jobs: dict[int, tuple[str, int]] = {}

    def of(self, user: str, now: float) -> float:
        """Node-seconds of ``user`` at ``now``; 0 for one whom nobody has seen."""
        used = self._users.get(user)
        return used.by(now, self._half_life_s) if used is not None else 0.0

    def attach(self, fold: Fold) -> None:
        """Book the records that ``fold`` handles, too, before it does."""
        books: Fold = {
            r.JobSubmitted: self._submitted,
            r.JobStarted: self._started,
            r.ResizeDone: self._resized,
            r.GroupsLost: self._groups_lost,
            r.JobEnded: self._ended,
        }
        for kind, book in books.items():
            fold[kind] = both(book, fold[kind])

    def snapshot(self) -> dict[str, tuple[float, int, float]]:
        """By user (node-seconds, nodes held since, time), comparable."""
        return {user: (used.used, used.size, used.at) for user, used in self._users.items()}

    def _submitted(self, record: r.JobSubmitted) -> None:
        self._jobs[record.job] = record.spec.user, 0

    def _started(self, record: r.JobStarted) -> None:
        self._grow(record.job, len(record.nodes), record.at)

    def _resized(self, record: r.ResizeDone) -> None:
        self._grow(record.job, len(record.gained) - len(record.released), record.at)

    def _groups_lost(self, record: r.GroupsLost) -> None:
        self._grow(record.job, -len(record.nodes), record.at)

    def _ended(self, record: r.JobEnded) -> None:
        self._grow(record.job, -self._jobs[record.job][1], record.at)
        del self._jobs[record.job]

    def _grow(self, job: int, more: int, at: float) -> None:
        user, size = self._jobs[job]
        self._jobs[job] = user, size + more
        if more:
            used = self._users.get(user) or self._users.setdefault(user, _Used(at))
            used.used, used.at = used.by(at, self._half_life_s), at
            used.size += more


def followed(half_life_s: float, fold: Fold) -> Usage | None:
    """The usage, attached to ``fold``; None, and nothing attached, with a half-life of 0."""
    if not half_life_s:
        return None
    usage = Usage(half_life_s)
    usage.attach(fold)
    return usage


def both(first: Callable[[Any], None], then: Callable[[Any], None]) -> Callable[[Any], None]:
    """One after the other."""

    def book(record: r.Record) -> None:
        first(record)
        then(record)

    return book

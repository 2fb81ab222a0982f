"""What a policy sees beside nodes and jobs: what has ended, what users have used, and for whom others shrink."""

from __future__ import annotations

from collections.abc import Sequence

from pliant.core import records as r
from pliant.core.over import Over
from pliant.core.usage import Fold, both, followed
from pliant.model.errors import PolicyError
from pliant.policy.view import End


class Beside:
    """A part of the state. What is a fold here is attached to the state's, so that it costs only the records that it
    is about."""

    now: float

    def follow(self, half_life_s: float, fold: Fold) -> None:
        """Begin; from now on ``fold`` books these too."""
        self.over = Over()
        self.served = self._served_by = 0
        self.used = followed(half_life_s, fold)
        fold[r.ResizeOffered] = both(self._asked, fold[r.ResizeOffered])
        for kind in (r.ResizeDeclined, r.ResizeFailed):
            fold[kind] = both(self._in_vain, fold[kind])

    @property
    def news(self) -> Sequence[End]:
        return self.over.news()

    def usage(self, user: str) -> float:
        if self.used is None:
            raise PolicyError("usage is not followed: a policy that goes by it states half_life_s, above 0 s")
        return self.used.of(user, self.now)

    def beside(self) -> dict[str, object]:
        """What is known of it, comparable."""
        used = self.used.snapshot() if self.used is not None else None
        return {"served": (self.served, self._served_by), "usage": used}

    def _asked(self, record: r.ResizeOffered) -> None:
        if record.kind == "shrink" and record.reason.for_job:
            self.served, self._served_by = record.reason.for_job, record.resize

    def _in_vain(self, record: r.ResizeDeclined | r.ResizeFailed) -> None:
        if record.resize == self._served_by:
            self.served = self._served_by = 0

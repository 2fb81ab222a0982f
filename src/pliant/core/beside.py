"""What a policy sees beside nodes and jobs: what has ended, what users have used, and for whom others shrink."""

from __future__ import annotations

from collections.abc import Sequence

from pliant.core import records as r
from pliant.core.over import Over
from pliant.core.usage import Fold, followed
from pliant.model.errors import PolicyError
from pliant.policy.view import End


class Beside:
    """A part of the state. What users have used is attached to its fold, so that it costs only the records that it is
    about, and those only where it is asked for."""

    now: float

    def follow(self, half_life_s: float, fold: Fold) -> None:
        """Begin; from now on ``fold`` books these too."""
        self.over = Over()
        self.served = self._served_by = 0
        self.used = followed(half_life_s, fold)

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

    def asked(self, record: r.ResizeOffered) -> None:
        """A job was offered a resize for another one."""
        if record.kind == "shrink":
            self.served, self._served_by = record.reason.for_job, record.resize

    def in_vain(self, resize: int) -> None:
        """This resize came to nothing."""
        if resize == self._served_by:
            self.served = self._served_by = 0

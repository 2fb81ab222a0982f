"""A deadline for a policy's passes in live runs: while one decides, nothing else happens."""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pliant.model.deadlines import POLICY_LAST_RESORT_S
from pliant.model.errors import PolicyError
from pliant.policy.view import ClusterView, Decision, Policy, half_life_s, rebalances

LOOK_S = 0.1
"""How often a long pass is interrupted to look at the time. CPython may also overlook a signal that comes at a bad
moment, for as long as nothing else interrupts a loop: this does."""


class _Abandoned(BaseException):
    """Leaves a pass wherever it is; no error that a policy would handle."""


class TimedPolicy:
    """``policy`` with a deadline in seconds. For the main thread only, as it goes by signals.

    A pass that takes longer raises PolicyError. After ``abandon`` nothing is decided any more.
    """

    def __init__(self, policy: Policy, deadline_s: float) -> None:
        self.name = policy.name
        self.rebalances = rebalances(policy)
        self.half_life_s = half_life_s(policy)
        self._policy = policy
        self._deadline_s = deadline_s
        self._deciding = False
        self._deadline = 0.0
        self._over = False
        self.cut = False
        """A pass was abandoned, or not made any more: what comes of that depends on the time, not on the cluster."""

    def decide(self, view: ClusterView) -> list[Decision]:
        if self._has_ended():
            self.cut = True
            return []
        try:
            with self._watched():
                return list(self._policy.decide(view))
        except _Abandoned:
            self.cut = True
            if self._has_ended():
                return []
            raise PolicyError(
                f"policy {self.name!r} at {view.now:.3f} s did not decide within {self._deadline_s:g} s "
                "(pass_deadline_s of the cluster)"
            ) from None

    def _has_ended(self) -> bool:
        return self._over

    def abandon(self) -> None:
        """From a signal handler: the pass that goes on, if one does, ends now, and no other is made."""
        self._over = True
        if self._deciding:
            raise _Abandoned

    def _look(self, _number: int, _frame: FrameType | None) -> None:
        if self._deciding and time.monotonic() >= self._deadline:
            raise _Abandoned

    @contextmanager
    def _watched(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, self._look)
        self._deadline = time.monotonic() + self._deadline_s
        faulthandler.dump_traceback_later(
            self._deadline_s + POLICY_LAST_RESORT_S, exit=True, file=sys.__stderr__ or sys.stderr
        )
        signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
        try:
            self._deciding = True
            yield
        finally:
            self._deciding = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
            signal.signal(signal.SIGALRM, before)

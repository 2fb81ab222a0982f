"""Where a resize is, on a rank of a job that takes part in it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from pliant.mpi.context import Context
from pliant.protocol.messages import Reached
from pliant.protocol.phases import Phase


class PhaseFollower:
    """Follows one resize: what its phases take, in ``seconds``, and what is waited for in them. The root tells the
    scheduler of each when it begins, so that this is known also of a job that comes to its end there.

    A resize begins with the stop of all ranks, of which the scheduler knows.
    """

    def __init__(self, context: Context, resize: int) -> None:
        self.seconds: dict[str, float] = {}
        self._context = context
        self._resize = resize
        self._tells = (
            context.speaks and context.negotiation is not None and context.negotiation.resize == resize
        )
        self._phase = Phase.SYNCHRONISE
        self._since = self.began = time.perf_counter()

    def come(self, phase: Phase) -> None:
        """The phase before is over."""
        self._book()
        self._phase = self._context.wait.phase = phase
        if self._tells and self._context.connection is not None:
            self._context.connection.send(Reached(self._context.epoch, self._resize, phase))

    def add(self, seconds: Mapping[str, float], moving_s: float) -> None:
        """What it took of phases before the job computed on, for so long, and its constant data moved."""
        for phase, took in seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + took
        self.seconds[Phase.REDISTRIBUTE] = self.seconds.get(Phase.REDISTRIBUTE, 0.0) + moving_s

    def end(self) -> float:
        """The last one is over as well; seconds since the first began."""
        self._book()
        return self._since - self.began

    def _book(self) -> None:
        now = time.perf_counter()
        self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._since
        self._since = now

    def __enter__(self) -> Self:
        self._context.wait.phase = self._phase
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.wait.phase = None

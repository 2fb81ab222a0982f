"""Nodes that fail and return, as the simulator meets them: the core's Lost and Back."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.core import events as e
from pliant.core.settings import NEVER
from pliant.model.limits import REQUEUES
from pliant.model.nodes import NodeSet
from pliant.sim.running import RunningJob
from pliant.workloads.failures import Outage

PATIENCE = 100
"""So many failures and returns of each node, on average, may pass while jobs wait and none can start."""


class Breakdowns:
    """The outages as the simulator meets them: ``at`` is the time of the next, NEVER if there is none.

    ``failed`` counts the failures so far, from ``begin`` seconds on. ``most_up`` is the largest number of nodes that
    were up at once since jobs wait, none runs, and nothing but outages happens.
    """

    __slots__ = ("_begin", "_idle", "_nodes", "_outages", "_progress", "_soon", "at", "failed", "most_up")

    def __init__(self, outages: Iterable[Outage] = (), nodes: int = 0, begin: float = 0.0) -> None:
        self._begin = begin
        self._outages = iter(outages)
        self._nodes = nodes
        self._soon: Outage | None = None
        self._idle = self._progress = 0
        self.at = NEVER
        self.failed = 0
        self.most_up = 0
        self._advance()

    def _advance(self) -> None:
        self._soon = next(self._outages, None)
        self.at = NEVER if self._soon is None else self._soon.at

    def events(self, now: float, runs: Iterable[RunningJob] = ()) -> list[e.Event]:
        """All that happens to nodes up to ``now``: first those that are back, then those that fail. Of
        ``runs`` those go on that write checkpoints, but not for ever."""
        back = lost = 0
        while self._soon is not None and self._soon.at <= now:
            bit = 1 << self._soon.node
            if self._soon.fails:
                lost |= bit
                self.failed += self._soon.at >= self._begin
            else:
                back |= bit
            self._advance()
        events: list[e.Event] = [e.Back(NodeSet(back))] if back else []
        if lost:
            restarting = tuple(
                run.number
                for run in runs
                if run.saving is not None and run.mask & lost and run.losses(now) < REQUEUES
            )
            events.append(e.Lost(NodeSet(lost), restarting=restarting))
        return events

    def hopeless(self, progress: int, up: int) -> bool:
        """Asked before each outage while no job runs and none will be submitted, with ``up`` nodes there:
        whether it has gone on for too long with the same ``progress``."""
        if progress != self._progress:
            self._progress, self._idle, self.most_up = progress, 0, 0
        self._idle += 1
        self.most_up = max(self.most_up, up)
        return self._idle > PATIENCE * self._nodes

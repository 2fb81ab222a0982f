"""What the nodes of a run draw: a fold over its records. They are busy or idle, or off while nobody needs them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from pliant.core import records as r
from pliant.history.capacity import Capacity
from pliant.history.timeline import Life, Listener
from pliant.model.jobs import JobSpec
from pliant.model.nodes import NodeSet

JOULES = 3.6e6
"""Of a kilowatt-hour."""
HOUR_S = 3600.0


class Power(NamedTuple):
    """What a node draws, in watts: ``busy_w`` while a job holds it, else ``idle_w``. Once nobody has used it for
    ``after_s`` it is switched off and draws ``off_w``; it takes ``boot_s`` until it is up again."""

    idle_w: float
    busy_w: float
    off_w: float = 0.0
    after_s: float = math.inf
    boot_s: float = 0.0


class Use(NamedTuple):
    """``off_node_h`` are the node-hours switched off, ``boots`` how often a node was switched on again: None where
    nodes are never switched off."""

    energy_kwh: float
    off_node_h: float | None = None
    boots: int | None = None


class Energy(Listener):
    """Listens to the life of every job; ``use`` may be asked at any time.

    From the first submission to the last end, or while jobs are left up to the last record, a node that is there, and
    not lost, is busy while a job holds it, also one that is still being started or stands still. It is used too, but
    draws what an idle one does, while it is reserved for an expansion or waits to be proved clean. All nodes are on at
    first, and a node that comes, or comes back, is on. It is switched off when it has not been used for ``after_s``,
    and on when it is given to a job or reserved for one.
    """

    IGNORES: ClassVar[frozenset[str]] = frozenset({
        "submitted", "launched", "accepted", "withdrawn", "settled", "noted", "held",
    })  # fmt: skip

    def __init__(self, power: Power) -> None:
        self._power = power
        self._switched = power.after_s < math.inf
        self._capacity = Capacity()
        self._busy = self._off = 0.0
        self._boots = 0
        self._begun = False
        self._last_end = 0.0
        self._there = 0
        self._since: dict[int, float] = {}
        """Since when each node is not in use; of one that is, from when at most it was not."""
        self._up: dict[int, float] = {}
        """When nodes that were switched on are up."""
        self._changed = self._kept = 0.0
        """When nodes came or went last, and how long nodes had been off until the last end before that."""

    def up(self, mask: int, now: float) -> float:
        """From when on all of these nodes are up, which have been given to a job or reserved for one: ``now``, or
        later."""
        return (
            max([now, *(self._up[node] for node in NodeSet(mask) if node in self._up)]) if self._up else now
        )

    def use(self) -> Use:
        """What was drawn so far."""
        lives, power = self.lives, self._power
        until = lives.now if lives.jobs else self._last_end
        busy = self._busy + lives.in_use * max(0.0, until - lives.since)
        off = self._off_until(until)
        idle = max(0.0, self._capacity.until(until) - busy - off) if self._begun else 0.0
        joules = busy * power.busy_w + idle * power.idle_w + off * power.off_w
        return Use(
            joules / JOULES,
            off / HOUR_S if self._switched else None,
            self._boots if self._switched else None,
        )

    # ---- rows ----------------------------------------------------------------------------------------

    def began(self, at: float) -> None:
        self._begun = True
        self._capacity.begin(at)
        self._free(self._there)

    def used(self, _held: int, in_use: int, from_s: float, to_s: float) -> None:
        self._busy += in_use * (to_s - from_s)

    def started(self, life: Life) -> None:
        self._take(life.mask)

    def offered(self, _life: Life, offer: r.ResizeOffered) -> None:
        self._take(offer.nodes.mask)

    def resized(self, _life: Life, done: r.ResizeDone, _kind: str, _before: int) -> None:
        self._free(done.released.mask)

    def groups_lost(self, _life: Life, loss: r.GroupsLost) -> None:
        self._free(loss.nodes.mask)

    def ended(self, _life: Life, end: r.JobEnded, _size: int) -> None:
        self._last_end = end.at
        self._free(end.nodes.mask)

    def wasted(self, _job: int, _kind: str, mask: int, _since: float) -> None:
        self._free(mask)

    def idle(self, _job: int, _kind: str, mask: int, _since: float) -> None:
        self._free(mask)

    def nodes_there(self, mask: int) -> None:
        self._keep()
        self._capacity.grant(mask, self.lives.now, self._last_end)
        self._there |= mask
        self._free(mask)

    def nodes_lost(self, mask: int) -> None:
        self._gone(mask)
        self._capacity.lose(mask, self.lives.now, self._last_end)

    def nodes_returned(self, mask: int) -> None:
        self._gone(mask)
        self._capacity.give_back(mask, self.lives.now, self._last_end)

    # ---- parts of it ---------------------------------------------------------------------------------

    def _take(self, mask: int) -> None:
        """From now on these nodes are in use: those that were off are switched on."""
        if not self._switched:
            return
        now, since = self.lives.now, self._since
        for node in NodeSet(mask & self._there):
            if (off := now - since[node] - self._power.after_s) > 0:
                self._off += off
                self._boots += 1
                self._up[node] = now + self._power.boot_s
            since[node] = now  # if the use takes no time, nothing tells that it is over

    def _free(self, mask: int) -> None:
        """From now on these nodes are not in use."""
        if self._switched:
            self._since.update(dict.fromkeys(NodeSet(mask), self.lives.now))

    def _gone(self, mask: int) -> None:
        """These nodes are there no more: those that were off are so no more."""
        self._keep()
        self._off += self._off_of(mask & self._there & ~self._taken(), self.lives.now)
        self._there &= ~mask
        for node in NodeSet(mask):
            self._up.pop(node, None)

    def _keep(self) -> None:
        """As ``Capacity`` does: nobody knows yet whether another job will end."""
        if self._begun:
            self._kept = self._off_until(self._last_end)
            self._changed = self.lives.now

    def _off_until(self, until: float) -> float:
        """The node-seconds switched off up to ``until``, which is now or the last end."""
        if until < self._changed:
            return self._kept
        return self._off + self._off_of(self._there & ~self._taken(), until)

    def _off_of(self, mask: int, until: float) -> float:
        """For how long nodes that are not in use have been off."""
        if not (self._switched and self._begun):
            return 0.0
        after_s = self._power.after_s
        return sum(max(0.0, until - self._since[node] - after_s) for node in NodeSet(mask))

    def _taken(self) -> int:
        """The nodes in use."""
        taken = 0
        for life in self.lives.jobs.values():
            taken |= life.mask
        for stretch in self.lives.idle():
            taken |= stretch.nodes.mask
        return taken


class EnergyBetween(Energy):
    """``use`` is what was used from the first to the last submission of the jobs with the specifications ``counted``,
    by their identity; what begins with the one is in it, and what begins with the other is not. Where they are all
    submitted in one instant, it is up to their last end, as in ``MetricsWithin``.

    Which of them is the first is known once it comes: jobs that follow others come in another order than in a trace.
    """

    IGNORES: ClassVar[frozenset[str]] = Energy.IGNORES - {"submitted"}

    def __init__(self, power: Power, counted: Iterable[JobSpec]) -> None:
        super().__init__(power)
        self._specs = {id(spec) for spec in counted}
        self._first: float | None = None
        self._last = 0.0
        """When the first and the last of them were submitted."""
        self._before = self._after = super().use()

    def submitted(self, life: Life) -> None:
        if life.again or id(life.spec) not in self._specs:
            return
        self._last = self.lives.now
        self._after = super().use()
        if self._first is None:
            self._first, self._before = self._last, self._after

    def ended(self, life: Life, end: r.JobEnded, size: int) -> None:
        super().ended(life, end, size)
        if not end.requeued and id(life.spec) in self._specs and self._last == self._first:
            self._after = super().use()

    def use(self) -> Use:
        (kwh, off_h, boots), (kwh_before, off_before, boots_before) = self._after, self._before
        return Use(
            kwh - kwh_before,
            None if off_h is None else off_h - (off_before or 0.0),
            None if boots is None else boots - (boots_before or 0),
        )

"""Agreements: which nodes, free or on their way back, are kept for which waiting job; the agreement axis of
the 3 x 3 malleable policies of PECS'23 (10.1007/978-3-031-48803-0_14).

Policies see counts, so an agreement is counts too: so many free nodes, and so many still awaited of each
donor. All is mended at the beginning of a pass from what the view says then; what cannot be mended is
dropped, and its job waits like any other, at its old place in the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import msgspec

from pliant.policy.backlog import named
from pliant.policy.job_view import JobView
from pliant.policy.view import ClusterView, Reason

ANYONE = 0
"""The donor of nodes that are on their way back in any case: of whichever job, the first that come."""

AGREED = Reason("agreement_met")
TAKEN = Reason("agreement_exchanged")


class Rule(NamedTuple):
    """When a job with an agreement starts: with its own nodes; or with free nodes of other agreements, in
    exchange for those that it still awaits; or with any free nodes."""

    name: str
    exchanges: bool = False
    pools: bool = False


AGREEMENT = Rule("agreement")
STEAL = Rule("steal", exchanges=True)
POOL = Rule("pool", exchanges=True, pools=True)


class NodeAgreement(msgspec.Struct, eq=False):
    """``size`` nodes for job ``job``: ``free`` of them now, the others ``awaited`` of donors by number.

    ``run_s`` is how long the job will run by its estimate. ``robbed`` says that one behind it has taken its
    free nodes; that happens once, or it might never start.
    """

    job: int
    size: int
    free: int
    awaited: dict[int, int]
    run_s: float
    since: float
    robbed: bool = False

    @classmethod
    def of(cls, job: JobView, size: int, free: int, awaited: dict[int, int], since: float) -> Self:
        """A new one for a waiting job."""
        return cls(job.id, size, free, awaited, job.spec.estimate(size), since)

    @property
    def lacking(self) -> int:
        return self.size - self.free

    def arrive(self, donor: int, nodes: int) -> None:
        """``nodes`` that were awaited of ``donor`` are free."""
        self.free += nodes
        self._hand_over(donor, nodes)

    def rob(self, other: NodeAgreement, nodes: int) -> None:
        """Take free nodes of ``other`` for nodes still awaited: both keep their size."""
        self.free += nodes
        other.free -= nodes
        for donor in list(self.awaited):
            moved = min(nodes, self.awaited[donor])
            if moved:
                nodes -= moved
                self._hand_over(donor, moved)
                other.awaited[donor] = other.awaited.get(donor, 0) + moved

    def _hand_over(self, donor: int, nodes: int) -> None:
        self.awaited[donor] -= nodes
        if not self.awaited[donor]:
            del self.awaited[donor]


class AgreementLedger:
    """All agreements. Together they never bind more nodes than are free, nor await more than are returning.

    Between passes they are a policy's ``memory``.
    """

    def __init__(self, rule: Rule, patience_s: float, memory: Mapping[str, Any]) -> None:
        self._rule = rule
        self._patience_s = patience_s
        self._left_with: dict[int, int] = {}
        self.held: dict[int, NodeAgreement] = {}
        if not memory:
            return
        self._left_with.update(memory.get("left_with", ()))
        for job, size, free, awaited, run_s, since, robbed in memory.get("agreements", ()):
            self.held[job] = NodeAgreement(job, size, free, dict(awaited), run_s, since, robbed=robbed)

    def memory(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        if not self.held:
            return {}
        return {
            "agreements": [
                [
                    a.job,
                    a.size,
                    a.free,
                    [list(part) for part in a.awaited.items()],
                    a.run_s,
                    a.since,
                    a.robbed,
                ]
                for a in self.held.values()
            ],
            "left_with": [list(left) for left in self._left_with.items()],
        }

    @property
    def bound(self) -> int:
        return sum(each.free for each in self.held.values())

    @property
    def awaited(self) -> int:
        return sum(each.lacking for each in self.held.values())

    def add(self, agreement: NodeAgreement, left_with: dict[int, int]) -> None:
        """``left_with`` is the size that each of its donors goes to."""
        self.held[agreement.job] = agreement
        self._left_with.update(left_with)

    def repair(self, view: ClusterView) -> None:
        """Bring all in line with the view: forget jobs that wait no more, book what has arrived, and drop
        the agreements of which a donor kept its nodes, or which have waited longer than the patience."""
        if not self.held:
            return
        oldest = view.now - self._patience_s
        waiting = [
            job.id for job in named(view.queue, view.backlog, self.held)
        ]  # from now on in the order of the queue
        self.held = {number: each for number in waiting if (each := self.held[number]).since >= oldest}
        awaited: dict[int, int] = {}
        for each in self.held.values():
            for donor, nodes in each.awaited.items():
                awaited[donor] = awaited.get(donor, 0) + nodes
        awaited.pop(ANYONE, None)
        self._left_with = {donor: self._left_with[donor] for donor in awaited}
        gone = {donor: nodes - view.returning(donor) for donor, nodes in awaited.items()}
        if any(nodes > 0 for nodes in gone.values()):
            sizes = {number: job.target for _, number, job in view.running}
            for donor, nodes in gone.items():
                if nodes > 0:
                    came = sizes.get(donor, 0) <= self._left_with[donor]
                    self._settle(donor, nodes, came=came)
        self._cover(view)

    def _settle(self, donor: int, nodes: int, *, came: bool) -> None:
        """``nodes`` that were awaited of ``donor`` are awaited no more: they came, or it kept them."""
        for each in list(self.held.values())[:: 1 if came else -1]:
            part = min(nodes, each.awaited.get(donor, 0))
            if part and came:
                each.arrive(donor, part)
            elif part:
                del self.held[each.job]
            nodes -= part

    def _cover(self, view: ClusterView) -> None:
        """Nodes awaited of anyone come first of all; who lacks nodes then, since some were lost or went to
        somebody else, is dropped, the last in the queue first."""
        unbound = view.free - self.bound
        for each in self.held.values():
            part = min(unbound, each.awaited.get(ANYONE, 0))
            if part > 0:
                each.arrive(ANYONE, part)
                unbound -= part
        back = view.returning() - self.awaited
        for each in reversed(list(self.held.values())):
            if (unbound < 0 and each.free) or (back < 0 and ANYONE in each.awaited):
                del self.held[each.job]
                unbound += each.free
                back += each.lacking

    def resolve(self, unbound: int) -> list[tuple[NodeAgreement, Reason]]:
        """The agreements whose jobs start now, in the order of the queue, which hereby end.

        ``unbound`` nodes belong to nobody and may be pooled; the awaited nodes of who starts with them
        belong to nobody from then on.
        """
        met: list[tuple[NodeAgreement, Reason]] = []
        for agreement in list(self.held.values()):
            reason = AGREED
            if agreement.lacking and self._rule.exchanges:
                unbound -= self._exchange(agreement, unbound if self._rule.pools else 0)
                reason = TAKEN
            if not agreement.lacking:
                del self.held[agreement.job]
                met.append((agreement, reason))
        return met

    def _exchange(self, agreement: NodeAgreement, unbound: int) -> int:
        """Let it have all it lacks, if it can, of those behind it first; the unbound nodes that this took."""
        others = self._robbable(agreement)
        if agreement.lacking > sum(each.free for each, _ in others) + unbound:
            return 0
        for each, ahead in others:
            part = min(agreement.lacking, each.free)
            if part:
                agreement.rob(each, part)
                each.robbed = each.robbed or ahead
        used = agreement.lacking
        agreement.free += used
        agreement.awaited.clear()
        return used

    def _robbable(self, agreement: NodeAgreement) -> list[tuple[NodeAgreement, bool]]:
        """(agreement, whether it is ahead of this one), from the last to the first."""
        ahead = True
        found: list[tuple[NodeAgreement, bool]] = []
        for each in self.held.values():
            if each is agreement:
                ahead = False
            elif each.free and not (ahead and each.robbed):
                found.append((each, ahead))
        return found[::-1]

    def soon(self, now: float, shrink_s: float) -> list[tuple[float, int]]:
        """(expected end, nodes) of the jobs that will start by agreement."""
        return [(now + shrink_s + each.run_s, each.size) for each in self.held.values()]

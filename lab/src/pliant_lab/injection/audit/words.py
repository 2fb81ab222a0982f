"""What jobs say is recorded as they said it, if they may say it, and is refused else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.live.cluster import orders as o
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.protocol.phases import BEFORE, in_order
from pliant.protocol.scheduler_side import START
from pliant_lab.injection.audit.violation import Violation

if TYPE_CHECKING:
    from pliant_lab.injection.world import World

Told = Sequence[tuple[int, bytes]]
"""What a job is told in the same call, with the group that hears it."""


class Words:
    """Of one controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._agents, self._decoder = codec.from_agent(), codec.from_job()

    def said(self, relay: m.Relay, records: Sequence[r.Record], told: Told, *, root: bool) -> None:
        """A group of a job that goes on has said this, and nothing else was told in this call; ``root``: it speaks for
        the job."""
        if b'"progress"' not in bytes(relay.message)[:30]:
            return
        said = self._decoder.decode(relay.message)
        mine = [each for each in records if getattr(each, "job", 0) == relay.job]
        if isinstance(said, m.Progress):
            self._progress(said, relay, mine, told, root=root)

    def _progress(
        self, said: m.Progress, relay: m.Relay, mine: Sequence[r.Record], told: Told, *, root: bool
    ) -> None:
        who, epoch = (
            f"job {relay.job}: group {relay.group}",
            self._world.head.cluster.core.state.jobs[relay.job].epoch,
        )
        known = [each.fraction for each in mine if isinstance(each, r.JobProgressed)]
        if not root and known:
            raise Violation("wrong", f"{who} tells how far it is, and is not its root")
        if said.epoch < epoch and known:
            raise Violation(
                "wrong", f"{who} tells how far it was in epoch {said.epoch}, and {epoch} is recorded"
            )
        if self._world.head.cluster.resuming:
            return  # a controller that begins again hears old words, and refuses none
        refused = any(group == relay.group and b'"error"' in word[:20] for group, word in told)
        # What is of an epoch to come may be of the next root.
        if said.epoch <= epoch and not (root and said.epoch == epoch) and not refused:
            raise Violation("wrong", f"{who} is not told that it has no say")
        life = self._world.head.cluster.lives[relay.job]
        heard = not life.quiet and life.side.state not in (START, "closed")
        if root and said.epoch == epoch and heard and known != [said.fraction]:
            raise Violation("lost", f"{who} has done {said.fraction} of its work, and recorded is {known}")

    def done(self, inputs: Sequence[o.AnyInput], records: Sequence[r.Record]) -> None:
        """A resize is recorded as its job says that it is done, in the epoch in which that was offered; what is said of
        another epoch changes nothing. All ``inputs`` of a call count: those of a slow link come at once."""
        jobs = self._world.head.cluster.core.state.jobs
        later: Counter[int] = Counter()
        for each in reversed(records):
            if not isinstance(each, r.ResizeDone) or (job := jobs.get(each.job)) is None:
                continue
            later[each.job] += 1
            said = [done for done in self._dones(inputs, each.job) if done.resize == each.resize]
            epoch = job.epoch - later[each.job]
            if said and not any(done.epoch == epoch and _is_as_said(each, done) for done in said):
                raise Violation(
                    "wrong", f"job {each.job} in epoch {epoch} says {said}, and recorded is {each}"
                )

    def _dones(self, inputs: Sequence[o.AnyInput], job: int) -> Iterator[m.Done]:
        for given in inputs:
            data = bytes(given.message) if isinstance(given, o.Said) else b""
            if b'"relay"' not in data[:20] or b'"done"' not in data:
                continue
            relay = self._agents.decode(data)
            if isinstance(relay, m.Relay) and relay.job == job:
                said = self._decoder.decode(relay.message)
                if isinstance(said, m.Done):
                    yield said


def _is_as_said(record: r.ResizeDone, said: m.Done) -> bool:
    told = {name: said.phases[name] for name in in_order(said.phases) if name not in BEFORE}
    kept = {name: seconds for name, seconds in record.phases.items() if name not in BEFORE}
    return (record.blocked_s, kept, record.root) == (said.blocked_s, told, said.root)

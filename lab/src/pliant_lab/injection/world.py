"""What there is in a world: nodes, a controller and jobs, all drawn from one seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

from pliant.core import records as r
from pliant.core.journal import read
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Site
from pliant.live.fleet.stages import Happens, NodeStage
from pliant_lab.injection.drawn import draw_grace, draw_jobs, draw_policy, draw_settings
from pliant_lab.injection.outside import Outside
from pliant_lab.injection.roster import Roster
from pliant_lab.injection.standins.head import Disk, Head

NAMED = 2
"""One world in so many has a list of hosts."""
LARGE = 100
"""One world in so many has a thousand nodes."""
TOO_LONG = 0.1
"""The share of absences of the controller that are longer than agents wait."""


class World:
    """One seed's world: its ``roster`` of nodes, the ``ledger`` of what they and the jobs have met, and ``head``, the
    controller that there is, which is killed and begins again."""

    def __init__(self, seed: int, grace: float | None = None, *, mortal: bool, telling: bool) -> None:
        """``mortal``: faults may kill the controller."""
        self.outside = outside = Outside(seed, draw_grace(seed) if grace is None else grace, telling=telling)
        self.clock, self.random, self.ledger = outside.clock, outside.random, outside.ledger
        large = seed % LARGE == LARGE - 1
        count = 1000 if large else self.random.randint(3, self.random.choice([6, 16, 64]))
        slots = self.random.choice([1, 1, 1, 2, 3])
        # Where nodes have names of their own, one that was given back comes again behind all others.
        hosts = tuple(f"n{i}" for i in range(2 * count + 8)) if seed % NAMED == 0 else ()
        labels: dict[str, tuple[str, ...]] = {f"n{i}": ("odd",) for i in range(1, 2 * count + 8, 2)}
        site = Site(hosts=hosts, slots=slots, labels=labels, source="world", grace_s=outside.grace)
        self.roster = Roster(outside, site, count)
        self.needs = Random(~seed)  # noqa: S311 - seeded on purpose
        """What nodes have to have that are asked for; drawn apart, so that all else stays as it is."""
        self.specs = draw_jobs(self.random, count, large=large)
        self.settings = draw_settings(self.random)
        self.policy = draw_policy(self.random)
        self.disk = Disk()
        self.resumed = self.was_full = False
        self.moves: Counter[tuple[NodeStage, Happens]] = Counter()
        """How often nodes went each way of the table of their lives, under controllers that are gone."""
        self.kill_again_s: float | None = None
        """So long after it begins the next controller is killed as well."""
        self.on_resumed: Callable[[Iterable[r.Record]], None] = lambda _: None
        """Is told what another controller has read in the journal."""
        self._mortal = mortal
        self._head_since = self._down_since = 0.0
        self._begin_head()

    def _begin_head(self) -> None:
        settings = None if self.resumed else self.settings
        self.head = Head(self.roster, self.policy, self.disk, settings)
        self.outside.connector = self.head.driver
        self.ledger.state = self.head.cluster.core.state

    @property
    def submitted(self) -> int:
        """How many jobs were, however often each was."""
        return len({spec.name for spec in self.ledger.specs_by_number.values()})

    def fill_disk(self, seconds: float) -> None:
        self.disk.full = self.was_full = True
        self.clock.later(seconds, self._free_disk)

    def _free_disk(self) -> None:
        self.disk.full = False
        self.head.disk_changed()

    def end_all(self) -> None:
        """The user ends the run, and now and then has no patience."""
        self.ledger.ended = True
        self.head.tell(o.EndAll("its user has ended the run"))
        if self.random.random() < 0.3:
            self.clock.later(self.random.choice([0.0, 0.2, 3.0]), self._end_now)

    def _end_now(self) -> None:
        if not self.outside.over:
            self.ledger.ended_now = True
            self.head.tell(o.EndNow())

    # ---- the controller's end ------------------------------------------------------------------------

    def head_killed(self) -> None:
        """At once, or while it writes what it makes next."""
        if self.random.random() < 0.5:
            self.head.tearing = True
            self.head.tell(o.Fired(("wake",)))
        else:
            self.head_crashed()

    def head_crashed(self) -> None:
        self.outside.tell("the controller is killed")
        for record in self.disk.waiting():
            if isinstance(record, r.JobEnding):
                self.ledger.touch(record.job, "end forgotten")
        self.head.crash()
        for node in self.roster.nodes.values():
            if self.clock.now < node.cut_off_until:
                self.ledger.touch_node(node.name, "link cut")  # it may be without a controller for too long
        self.clock.later(self._away_s(), self._resume)

    def _away_s(self) -> float:
        """How long there is no controller: shorter than agents wait for one that has been there for a while."""
        grace = self.outside.grace
        now, most = self.clock.now, 0.8 * min(grace, 60.0)
        if now > self._head_since + 1.0:
            self._down_since = now
        seconds = self.random.uniform(0.1, 2.0)
        if grace and self.random.random() < TOO_LONG:
            for node in self.roster.nodes.values():
                self.ledger.touch_node(node.name, "link cut")
            return grace * self.random.uniform(1.0, 1.5)
        if grace and self.random.random() < 0.3:
            seconds = self.random.uniform(2.0, most)
        return min(seconds, max(0.05, self._down_since + most - now)) if grace else seconds

    def _resume(self) -> None:
        self.outside.tell("the controller begins again")
        self.resumed = True
        self._head_since = self.clock.now
        self.disk.full = False
        self.policy.begin_again()
        self.moves += self.head.control.fleet.moves
        self._begin_head()
        self._recorded_again()
        if self.kill_again_s is not None:
            self.clock.later(self.kill_again_s, self._kill_again)

    def kill_soon(self) -> None:
        if self.head.alive and not self.outside.over and self._mortal:
            self.head_killed()

    def _kill_again(self) -> None:
        if self.head.alive and not self.outside.over:
            self.kill_again_s = None
            self.head_killed()

    def _recorded_again(self) -> None:
        """What was made but not written has not happened: look again at what was, and submit what was not."""
        ledger = self.ledger
        records = read(bytes(self.disk.data).splitlines(keepends=True)).records
        ledger.specs_by_number = {
            record.job: record.spec for record in records if isinstance(record, r.JobSubmitted)
        }
        self.on_resumed(records)
        if not self.outside.grace:
            ended = {record.job for record in records if isinstance(record, r.JobEnded)}
            ledger.fabrics = {job: fabric for job, fabric in ledger.fabrics.items() if job in ended}
            for job in ledger.specs_by_number.keys() - ended:
                ledger.touch(job, "head killed")
        self.head.tell(o.Batch(self.specs[self.submitted :]))

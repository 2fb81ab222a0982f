"""Who is waited for, and for how long: jobs answer between two steps, and steps may be long."""

from __future__ import annotations

import job_says
import pytest
from driving import Driven

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.nodes import NodeSet
from pliant.model.size_request import SizeRequest
from pliant.policy.malleable import Malleable

SETTINGS = Settings(offer_deadline_s=20.0, resize_deadline_s=30.0, kill_grace_s=5.0)


@pytest.fixture
def core() -> Driven:
    """A job on 1 of 4 nodes that has been offered the others at time 0."""
    core = Driven(Malleable(), SETTINGS)
    spec = JobSpec(name="j", nodes=Bounds(1, 4), job_class=JobClass.MALLEABLE, walltime_s=3600.0)
    core.tell([e.Granted(NodeSet.first(4)), e.Submitted(1, spec)], 0.0)
    commands = core.tell([e.Hello(1), job_says.malleable(1, on=True)], 0.0)
    assert [type(command) for command in commands] == [c.Offer, c.WakeAt]
    return core


def until(core: Driven, end: float, commands: list[c.Command]) -> list[tuple[float, str]]:
    """Give the core its ticks up to ``end``; what it commanded besides, with the times."""
    seen: list[tuple[float, str]] = []
    wake = next((x.at for x in commands if isinstance(x, c.WakeAt)), None)
    while wake is not None and wake <= end:
        commands = core.tell([e.Tick()], wake)
        seen += [(wake, type(x).__name__) for x in commands if not isinstance(x, c.WakeAt)]
        wake = next((x.at for x in commands if isinstance(x, c.WakeAt)), None)
    return seen


def test_a_job_that_does_not_answer_keeps_running_and_the_offered_nodes_are_free_again(core: Driven) -> None:
    seen = until(core, 10_000.0, [*core.tell([job_says.progressed(1, 0.01)], 1.0), c.WakeAt(20.0)])
    assert [what for _, what in seen] == ["Withdraw"]
    assert (core.state.free, core.state.running[0][2].size) == (3, 1)
    assert core.state.resizing  # no other offer before it has answered this one
    core.tell([job_says.declined(1, 1, "withdrawn")], 10_001.0)
    assert (core.state.free, core.state.resizing) == (3, {})


def test_a_job_with_long_steps_is_given_three_of_them(core: Driven) -> None:
    core.tell([job_says.progressed(1, 0.1)], 15.0)  # so long does a step take
    commands = core.tell([job_says.accepted(1, 1)], 15.0)
    assert [type(x) for x in commands if not isinstance(x, c.WakeAt)] == [c.Start]
    seen = until(core, 10_000.0, commands)
    assert seen == [(15.0 + 30.0 + 45.0, "Withdraw"), (90.0 + 30.0 + 3 * 75.0, "Kill")]


def test_a_job_that_is_stuck_after_it_accepted_is_ended(core: Driven) -> None:
    core.tell([job_says.progressed(1, 0.1)], 1.0)
    seen = until(core, 1000.0, core.tell([job_says.accepted(1, 1)], 1.0))
    assert seen == [(34.0, "Withdraw"), (34.0 + 30.0 + 3 * 33.0, "Kill")]


def test_the_end_of_the_loop_answers_an_offer_that_crossed_it(core: Driven) -> None:
    core.tell([job_says.malleable(1, on=False)], 1.0)
    assert core.state.free == 3
    assert core.tell([job_says.declined(1, 1, "the loop has ended")], 500.0) == []
    assert core.state.jobs[1].ending is None


class Drive:
    """A core under a virtual clock: job 1, on 1 of 4 nodes, has been offered the others at time 0."""

    def __init__(self, core: Driven) -> None:
        self.core = core
        self.now = 0.0
        self.said: list[c.Command] = []
        self._wake = 0.0

    def tell(self, *events: e.Event, after: float = 0.0) -> list[c.Command]:
        self.now += after
        commands = self.core.tell(events, self.now)
        self._wake = next((x.at for x in commands if isinstance(x, c.WakeAt)), self._wake)
        self.said += commands
        return commands

    def offered(self) -> tuple[float, str]:
        """Seconds from now to the next offer, and its kind; time goes there."""
        begin = self.now
        while not (offers := [x for x in self.said if isinstance(x, c.Offer)]):
            assert self._wake > self.now, "no Tick is asked for"
            self.tell(e.Tick(), after=self._wake - self.now)
        self.said.clear()
        return self.now - begin, offers[0].kind

    @property
    def resize(self) -> int:
        return self.core.state.last_resize

    def fail(self, error: str = "ValueError", *, late: bool = False) -> None:
        """The job accepts what it was offered, and two seconds later it fails."""
        self.tell(job_says.accepted(1, self.resize))
        self.tell(job_says.failed(1, self.resize, error, late=late), after=2.0)
        self.tell(e.Clean(1, NodeSet.first(4)))

    def waits(self, times: int, *, late: bool = False) -> list[float]:
        """Growth fails so many times in a row; how long after each it is offered again."""
        found = []
        for _ in range(times):
            self.fail(late=late)
            waited, kind = self.offered()
            assert kind == "expand"
            found.append(waited)
        return found

    def order(self, size: int, *released: int) -> None:
        """An operator resizes the job and lets go of it again."""
        self.tell(e.ResizeOrdered(1, size))
        self.tell(job_says.accepted(1, self.resize))
        self.tell(self.core.resized(1, self.resize, *released), e.ResizeOrdered(1, 0))
        self.tell(e.Clean(1, NodeSet.of(released)))
        self.said.clear()


@pytest.fixture
def drive(core: Driven) -> Drive:
    return Drive(core)


def test_growth_that_keeps_failing_is_offered_ever_more_seldom(drive: Drive) -> None:
    assert drive.waits(9) == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 320.0, 320.0]
    drive.tell(job_says.accepted(1, drive.resize))
    drive.tell(job_says.resized(1, drive.resize))  # they have come: all is forgotten
    drive.order(1, 1, 2, 3)
    assert drive.offered() == (SETTINGS.cooldown_s, "expand")
    assert drive.waits(2) == [5.0, 10.0]


def test_a_refusal_or_the_end_of_a_loop_is_no_failure(drive: Drive) -> None:
    assert drive.waits(3, late=True) == [5.0, 5.0, 5.0]
    for _ in range(3):
        drive.tell(job_says.declined(1, drive.resize, "not now"))
        assert drive.offered() == (5.0, "expand")
    assert drive.waits(2) == [5.0, 10.0]


def test_a_job_whose_growth_keeps_failing_can_still_shrink(drive: Drive) -> None:
    drive.tell(job_says.accepted(1, drive.resize))
    drive.tell(job_says.resized(1, drive.resize))
    drive.order(2, 2, 3)
    drive.offered()
    assert drive.waits(6)[-1] == 160.0
    drive.fail()
    drive.tell(e.Submitted(2, JobSpec(name="k", nodes=Bounds(3, 3), walltime_s=100.0)))
    assert drive.offered() == (5.0, "shrink")


def test_the_nodes_that_it_cannot_use_go_to_others(drive: Drive) -> None:
    drive.waits(3)
    drive.fail()
    spec = JobSpec(name="k", nodes=Bounds(1, 4), job_class=JobClass.MALLEABLE, walltime_s=3600.0)
    drive.tell(e.Submitted(2, spec))
    drive.tell(e.Hello(2), job_says.malleable(2, on=True))
    assert [(x.job, x.size) for x in drive.said if isinstance(x, c.Offer)] == [(2, 3)]


def test_a_wish_to_grow_waits_as_an_offer_does(drive: Drive) -> None:
    drive.waits(3)
    drive.fail()
    answer, *_ = drive.tell(job_says.wants(1, SizeRequest(Bounds(2, 4))), after=6.0)
    assert isinstance(answer, c.Stay)


def test_a_cooldown_that_is_over_is_noticed_whatever_event_comes_first(core: Driven) -> None:
    core.tell([job_says.accepted(1, 1)], 1.0)
    core.tell([job_says.resized(1, 1)], 2.0)
    core.tell([e.Submitted(2, JobSpec(name="k", nodes=Bounds(2, 2), walltime_s=100.0))], 3.0)
    over = SETTINGS.cooldown_s + 2.0
    commands = core.tell(
        [job_says.progressed(1, 0.1)], over + 0.001
    )  # a hair before its Tick would have come
    assert [x.kind for x in commands if isinstance(x, c.Offer)] == ["shrink"]


def test_a_tick_that_comes_too_early_is_asked_for_again() -> None:
    core = Driven(Malleable(), SETTINGS)
    spec = JobSpec(name="r", nodes=Bounds(1, 1), walltime_s=100.0, kill=True)
    first = core.tell([e.Granted(NodeSet.first(1)), e.Submitted(1, spec)], 0.0)
    assert [x.at for x in first if isinstance(x, c.WakeAt)] == [100.0]
    again = core.tell([e.Tick()], 99.9999)
    assert [x.at for x in again if isinstance(x, c.WakeAt)] == [100.0]

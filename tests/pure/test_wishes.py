"""What a job asks for by itself: which size that is, and wishes that stay open. Iserte et al. 2018, sections 4.1 and 4.2."""

from __future__ import annotations

import job_says
import pytest
from audits import audit
from driving import Driven
from hypothesis import given
from hypothesis import strategies as st

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import SchedulerCore, replay
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.nodes import NodeSet
from pliant.model.size_request import SizeRequest
from pliant.policy.fcfs import Fcfs
from pliant.policy.registry import make
from pliant.policy.view import ClusterView, Decision, Reason, Resize
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant_lab.injection.audit.wished import goal

SETTINGS = Settings(cooldown_s=2.0, decline_backoff_s=5.0)
EVOLVING = JobClass.EVOLVING
WIDE = SizeRequest(Bounds(4, 6))


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    low, factor = draw(st.integers(1, 9)), draw(st.sampled_from([1, 1, 2, 3]))
    sizes = Bounds(low, draw(st.integers(low, 40)), factor).sizes()
    return Bounds(low, max(sizes), factor, draw(st.sampled_from(sizes)))


@given(bounds(), bounds(), st.booleans(), st.integers(1, 40), st.integers(0, 40))
def test_the_goal_is_what_trying_all_sizes_finds(
    allowed: Bounds,
    wish: Bounds,
    prefers: bool,  # noqa: FBT001
    size: int,
    free: int,
) -> None:
    sizes = wish.intersect(allowed)
    assert SizeRequest(wish, prefers).goal(allowed, size, free) == goal(
        allowed, wish, size, free, prefers=prefers
    )
    assert SizeRequest(wish, prefers).met(allowed, SizeRequest(wish, prefers).goal(allowed, size))
    assert sizes is not None or SizeRequest(wish, prefers).goal(allowed, size, free) == size


@pytest.mark.parametrize(
    ("size", "free", "wish", "goes"),
    [
        (4, 12, SizeRequest(Bounds(1, 16, 1, 8), prefers=True), 8),
        (4, 3, SizeRequest(Bounds(1, 16, 1, 8), prefers=True), 7),  # towards it
        (4, 0, SizeRequest(Bounds(1, 16, 1, 8), prefers=True), 4),
        (8, 9, SizeRequest(Bounds(1, 16, 1, 8), prefers=True), 8),  # section 4.2: no action
        (12, 0, SizeRequest(Bounds(1, 16, 1, 8), prefers=True), 8),
        (12, 0, SizeRequest(Bounds(1, 16, 1, 1), prefers=True), 1),  # the least one can be preferred too
        (12, 0, SizeRequest(Bounds(1, 16, 1, 1)), 12),
        (5, 30, SizeRequest(Bounds(8, 32, 2)), 8),
        (5, 30, SizeRequest(Bounds(1, 32, 2)), 4),  # a size of its row
        (9, 30, SizeRequest(Bounds(3, 32, 2)), 6),
    ],
)
def test_preferred_sizes_and_factors_are_honoured(size: int, free: int, wish: SizeRequest, goes: int) -> None:
    assert wish.goal(Bounds(1, 32), size, free) == goes


def test_a_want_of_older_peers_is_one_that_does_not_stay_open() -> None:
    old = codec.from_job().decode(b'{"type":"want","epoch":0,"bounds":{"min":2,"max":3}}')
    assert old == m.Want(0, Bounds(2, 3))
    assert b"open" not in codec.encode(m.Want(0, Bounds(2, 3)))


# ---- wishes that stay open -----------------------------------------------------------------------------


class Busy:
    """A core with an evolving job 1 on 2 of 6 nodes, in its loop, and a rigid job 2 on the others."""

    def __init__(self, policy: object = None) -> None:
        self.records: list[r.Record] = []
        self.core = Driven(policy or Fcfs(), SETTINGS, self.records.append)  # type: ignore[arg-type]
        spec = JobSpec(name="a", nodes=Bounds(1, 6, 1, 2), job_class=EVOLVING)
        self.tell(0.0, e.Granted(NodeSet.first(6)), e.Submitted(1, spec))
        self.tell(0.0, e.Hello(1), job_says.malleable(1, on=True), self.rigid(2, 4))

    @staticmethod
    def rigid(number: int, size: int) -> e.Submitted:
        return e.Submitted(number, JobSpec(name="b", nodes=Bounds.exactly(size)))

    def tell(self, at: float, *events: e.Event) -> list[tuple[str, int]]:
        """What job 1 is told, with the size."""
        commands = self.core.tell(events, at)
        self.wakes = [each.at for each in commands if isinstance(each, c.WakeAt)]
        said = [each for each in commands if isinstance(each, c.Offer | c.Stay) and each.job == 1]
        return [(type(each).__name__, getattr(each, "size", 0)) for each in said]

    def free(self, at: float, number: int, nodes: int) -> list[tuple[str, int]]:
        """A rigid job ends."""
        mask = NodeSet(self.core.state.jobs[number].nodes)
        assert len(mask) == nodes
        return self.tell(at, e.Ended(number, 0), e.Clean(number, mask))

    def resized(self, at: float, *left: int) -> list[tuple[str, int]]:
        resize = self.core.state.last_resize
        self.tell(at, job_says.accepted(1, resize))
        return self.tell(at, self.core.resized(1, resize, *left))

    @property
    def wish(self) -> SizeRequest | None:
        lines = [r.from_line(r.to_line(record)) for record in self.records]
        assert replay(lines, SETTINGS).snapshot() == self.core.state.snapshot()
        audit(self.records)
        return self.core.state.jobs[1].wish


def test_a_wish_that_cannot_be_met_now_is_offered_as_soon_as_it_can_be() -> None:
    busy = Busy()
    assert busy.tell(1.0, job_says.wants(1, WIDE, open=True)) == [("Stay", 0)]
    assert busy.wish == WIDE
    assert busy.free(2.0, 2, 4) == [("Offer", 4)]
    reasons = [each.reason for each in busy.records if isinstance(each, r.ResizeOffered)]
    assert reasons == [Reason("wanted")]
    assert busy.resized(3.0) == []
    assert busy.wish is None


def test_once_is_the_default() -> None:
    busy = Busy()
    assert busy.tell(1.0, job_says.wants(1, WIDE)) == [("Stay", 0)]
    assert busy.wish is None
    assert busy.free(2.0, 2, 4) == []


def test_no_waiting_job_is_delayed_by_it() -> None:
    busy = Busy()
    busy.tell(1.0, job_says.wants(1, WIDE, open=True), busy.rigid(3, 3), busy.rigid(4, 4))
    assert busy.free(2.0, 2, 4) == []  # job 3 takes three of them, and job 4 waits for more than there are
    assert busy.tell(3.0, e.Cancelled(4)) == []  # one is free, and it takes two
    assert busy.free(4.0, 3, 3) == [("Offer", 4)]


@pytest.mark.parametrize(
    "ends",
    [
        job_says.wants(1, SizeRequest(Bounds(1, 6))),
        job_says.wants(1, WIDE),
        job_says.wants(1, SizeRequest(Bounds(1, 6)), open=True),
        job_says.malleable(1, on=False),
    ],
)
def test_a_wish_ends_with_another_one_and_with_the_loop(ends: e.Event) -> None:
    busy = Busy()
    busy.tell(1.0, job_says.wants(1, WIDE, open=True))
    busy.tell(2.0, ends)
    assert busy.wish is None
    assert busy.free(3.0, 2, 4) == []


def test_another_open_wish_takes_its_place() -> None:
    busy = Busy()
    busy.tell(1.0, job_says.wants(1, WIDE, open=True))
    busy.tell(2.0, job_says.wants(1, SizeRequest(Bounds(6, 6)), open=True))
    assert busy.free(3.0, 2, 4) == [("Offer", 6)]


def test_a_declined_wish_stays_open_and_rests() -> None:
    busy = Busy()
    busy.tell(1.0, job_says.wants(1, WIDE, open=True))
    busy.free(2.0, 2, 4)
    assert busy.tell(3.0, job_says.declined(1, busy.core.state.last_resize, "not now")) == []
    assert busy.wakes == [8.0]
    assert busy.wish == WIDE
    assert busy.tell(7.9, e.Tick()) == []
    assert busy.tell(8.0, e.Tick()) == [("Offer", 4)]


def test_a_failed_growth_is_waited_out() -> None:
    busy = Busy()
    busy.tell(1.0, job_says.wants(1, WIDE, open=True))
    busy.free(2.0, 2, 4)
    for at, again in ((3.0, 8.0), (8.0, 18.0)):
        resize = busy.core.state.last_resize
        busy.tell(at, job_says.accepted(1, resize))
        assert busy.tell(at, job_says.failed(1, resize, "broken")) == []
        dirty = NodeSet(busy.core.state.nodes.dirty[1])
        assert busy.tell(at, e.Clean(1, dirty)) == []
        assert busy.tell(again - 0.1, e.Tick()) == []
        assert busy.tell(again, e.Tick()) == [("Offer", 4)]


def test_an_open_wish_to_shrink_waits_for_the_cool_down_alone() -> None:
    busy = Busy()
    busy.tell(1.0, job_says.wants(1, SizeRequest(Bounds(1, 1)), open=True))
    assert busy.tell(1.5, job_says.declined(1, busy.core.state.last_resize, "not now")) == []
    assert busy.wakes == [6.5]
    assert busy.tell(6.5, e.Tick()) == [("Offer", 1)]


def test_a_wish_towards_a_preferred_size_goes_on_until_it_is_reached() -> None:
    busy = Busy()
    wish = SizeRequest(Bounds(1, 6, 1, 6), prefers=True)
    busy.tell(1.0, job_says.wants(1, wish, open=True))
    assert busy.wish == wish
    busy.tell(1.5, busy.rigid(4, 2))
    assert busy.free(2.0, 2, 4) == [("Offer", 4)]  # job 4 has two of them
    busy.resized(3.0)
    assert busy.wish == wish
    assert busy.free(4.0, 4, 2) == []
    assert busy.tell(5.0, e.Tick()) == [("Offer", 6)]


def test_an_operators_order_comes_before_a_wish() -> None:
    busy = Busy()
    busy.tell(1.0, job_says.wants(1, WIDE, open=True))
    assert busy.tell(2.0, e.ResizeOrdered(1, 1)) == [("Offer", 1)]
    busy.resized(3.0, 1)
    assert busy.free(4.0, 2, 4) == []
    assert busy.tell(6.0, e.Tick()) == []
    assert busy.tell(7.0, e.ResizeOrdered(1, 0)) == [("Offer", 4)]


def test_a_policy_sees_it_and_can_take_it_up() -> None:
    class Obliging(Fcfs):
        def decide(self, view: ClusterView) -> list[Decision]:
            wishes = [(job, job.wish) for _, _, job in view.running if job.wish and view.resizable(job)]
            more = [Resize(job.id, wish.bounds.max, Reason("obliging")) for job, wish in wishes]
            return [*super().decide(view), *(more if view.free >= 4 else [])]

    busy = Busy(Obliging())
    busy.tell(1.0, job_says.wants(1, WIDE, open=True))
    assert busy.free(2.0, 2, 4) == [("Offer", 6)]
    assert [each.reason.code for each in busy.records if isinstance(each, r.ResizeOffered)] == ["obliging"]


def test_a_controller_that_goes_on_still_knows_it() -> None:
    busy = Busy()
    busy.tell(1.0, job_says.wants(1, WIDE, open=True))
    lines = [r.from_line(r.to_line(record)) for record in busy.records]
    core = SchedulerCore.resume(make("fcfs"), SETTINGS, lines)
    nodes = NodeSet(core.state.jobs[2].nodes)
    _, commands = core.handle([e.Resumed(), e.Ended(2, 0), e.Clean(2, nodes)], 2.0)
    assert [each.size for each in commands if isinstance(each, c.Offer)] == [4]


def test_a_rigid_job_has_no_wishes() -> None:
    records: list[r.Record] = []
    core = Driven(Fcfs(), SETTINGS, records.append)
    core.tell([e.Granted(NodeSet.first(4)), e.Submitted(1, JobSpec(name="a", nodes=Bounds(1, 4)))], 0.0)
    core.tell([e.Hello(1), job_says.malleable(1, on=True)], 0.0)
    assert [type(each) for each in core.tell([job_says.wants(1, WIDE, open=True)], 1.0)] == [c.Stay]
    assert not any(isinstance(each, r.JobWishes) for each in records)

"""The core under events that come late, twice, out of order, or from a job that lies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import job_says
import pytest
from audits import audit
from drawing import examples
from driving import Driven
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.commands import Offer, Start
from pliant.core.core import SchedulerCore, replay
from pliant.core.job import ScheduledJob
from pliant.core.settings import NEVER, Settings, end_of
from pliant.core.state import State
from pliant.history.metrics import measure
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.kinds import JobKind
from pliant.model.need import Need
from pliant.model.nodes import NodeSet, lowest_bits
from pliant.model.size_request import SizeRequest
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.easy import Easy
from pliant.policy.registry import POLICIES, make
from pliant.policy.view import Policy
from pliant.protocol import resizing
from pliant.testing.policies.properties import Forgetful, memories_whole

NODES = 12
BOUNDS = [Bounds(1, 4), Bounds(1, 8, 2), Bounds(2, 12), Bounds(3, 9, 3), Bounds(12, 12), Bounds(1, 6, 1, 3)]
MODELS = [None, Amdahl(4000.0), Amdahl(900.0, 0.2)]

SPANS_S = (-5.0, 0.0, 10.0, 40.0, 100.0, 400.0)
"""So long from now nodes expire, or are asked back by."""

Step = tuple[str, int, int, int]
"""What happens, three numbers that choose among what is possible."""

KINDS = {
    "submit": 3, "launch": 2, "greet": 2, "malleable": 2, "accept": 10, "resized": 10, "decline": 2, "fail": 3, "ended": 2,
    "cancel": 1, "clean": 6, "lost": 1, "back": 3, "order": 6, "want": 5, "progress": 2, "tick": 5, "granted": 1,
    "groups": 3, "slots": 6, "ask": 1, "refused": 1, "reclaim": 2, "returned": 3,
    "expire": 2, "reclaim by": 2, "withdraw": 1,
}  # fmt: skip
steps_ = st.lists(
    st.tuples(
        st.sampled_from([kind for kind in KINDS for _ in range(KINDS[kind])]),
        st.integers(0, 50),
        st.integers(0, 50),
        st.integers(0, 4095),
    ),
    min_size=60,
    max_size=160,
)


class World:
    """Makes events of steps: mostly such as fit the state, so that the run gets somewhere."""

    def __init__(self, state: State) -> None:
        self._state = state

    def event(self, step: Step) -> e.Event:
        kind, a, b, mask = step
        number = self._number(a)
        resize = self._resize(number, b)
        match kind:
            case "submit":
                return e.Submitted(self._state.last_job + 1, self._spec(a, b))
            case "launch":
                return e.Launched(number)
            case "greet":
                own = BOUNDS[b % len(BOUNDS)] if b % 5 == 0 else None
                return e.Hello(number, bounds=own)
            case "malleable":
                return job_says.malleable(number, on=b % 4 != 0)
            case "accept":
                return job_says.accepted(number, resize)
            case "resized":
                return self._resized(number, resize, b, mask)
            case "decline":
                return job_says.declined(number, resize, "no")
            case "fail":
                return job_says.failed(number, resize, "broken")
            case "ended":
                return e.Ended(number, b % 3)
            case "cancel":
                return e.Cancelled(number)
            case "clean":
                return self._clean(a, b, mask)
            case "lost":
                return e.Lost(NodeSet(1 << mask % (NODES + 1)), ((number, b % 5),) if b % 3 == 0 else ())
            case "groups":
                return self._groups_lost(number, b, mask)
            case "back":
                return e.Back(NodeSet(mask & self._state.nodes.lost_mask if b % 4 else 1 << a % NODES))
            case "order":
                return e.ResizeOrdered(number, b % 13, NodeSet(mask if b % 2 else 0))
            case "slots":
                return e.ResizeOrdered(number, b % 3, slots=self._slots(number, b, mask))
            case "want":
                return job_says.wants(
                    number, SizeRequest(BOUNDS[b % len(BOUNDS)], prefers=b % 3 == 0), open=b % 2 == 0
                )
            case "progress":
                return job_says.progressed(number, b / 50, 1.0, 1.1)
            case "granted":
                return e.Granted(NodeSet(mask))
            case "ask":
                return e.NodesOrdered(a)
            case "refused":
                return e.Refused(b, "none are left")
            case "reclaim":
                return e.Reclaim(NodeSet(1 << mask % (NODES + 1)))
            case "expire":
                return e.Granted(
                    NodeSet(mask if b % 6 else 0), until=self._state.now + SPANS_S[a % len(SPANS_S)]
                )
            case "reclaim by":
                return e.Reclaim(
                    NodeSet(1 << mask % (NODES + 1)), self._state.now + SPANS_S[a % len(SPANS_S)]
                )
            case "withdraw":
                return e.NodesWithdrawn(b)
            case "returned":
                return e.Returned(NodeSet(self._state.nodes.parked_mask if b % 5 else 1 << a % NODES))
            case _:
                return e.Tick()

    def _slots(self, number: int, b: int, mask: int) -> dict[int, int]:
        """For nodes of the job, most of the time."""
        job = self._state.jobs.get(number)
        nodes = list(NodeSet(job.nodes & (mask | 1))) if job is not None and b % 7 else [b % NODES]
        return {node: (mask >> node) % (5 if b % 9 == 0 else 2) + (b % 9 != 0) for node in nodes}

    def _number(self, a: int) -> int:
        live = list(self._state.jobs)
        if live and a % 8:
            return live[a % len(live)]
        return a % (self._state.last_job + 2)

    def _resize(self, number: int, b: int) -> int:
        job = self._state.jobs.get(number)
        if job is not None and job.resize is not None and b % 6:
            return job.resize.id
        return b % (self._state.last_resize + 2)

    def _resized(self, number: int, resize: int, b: int, mask: int) -> e.RootSaid:
        job = self._state.jobs.get(number)
        if job is None or job.resize is None or b % 7 == 0:
            return job_says.resized(number, resize, tuple(NodeSet(mask)), 0.1, root=b % 5)
        there = self._state.groups(job)  # without those that it has lost since it was to leave them
        leave = sum(1 << there[group] for group in job.resize.leaving if group in there)
        nodes = (job.nodes | job.resize.nodes) & ~leave
        left = job.nodes & ~lowest_bits(nodes, min(nodes.bit_count(), job.resize.after))
        groups = self._state.groups_on(job, left)
        staying = [*self._state.groups(job), *(group.id for group in job.resize.arriving)]
        root = job.root if job.root not in groups else next(n for n in staying if n not in groups)
        return job_says.resized(number, resize, groups, 0.1, root=root)

    def _groups_lost(self, number: int, b: int, mask: int) -> e.GroupsLost:
        """Some that the job has and some that it may not have; seldom all of them."""
        job = self._state.jobs.get(number)
        groups = list(self._state.groups(job)) if job is not None and job.size else []
        some = groups[b % 3 :: 2] if b % 7 else groups
        return e.GroupsLost(number, (*some, mask), "failed")

    def _clean(self, a: int, b: int, mask: int) -> e.Event:
        dirty = self._state.nodes.dirty
        if dirty and b % 5:
            number = list(dirty)[a % len(dirty)]
            return e.Clean(number, NodeSet(dirty[number] if b % 3 else mask))
        return e.Clean(self._number(a), NodeSet(mask))

    @staticmethod
    def _spec(a: int, b: int) -> JobSpec:
        spec = JobSpec(
            name=f"{a}-{b}",
            nodes=BOUNDS[a % len(BOUNDS)],
            job_class=(JobClass.MALLEABLE, JobClass.MALLEABLE, JobClass.EVOLVING, JobClass.MOLDABLE)[b % 4],
            walltime_s=float(10 + b * b),
            kill=b % 3 == 0,
            model=MODELS[b % len(MODELS)],
            kind=(JobKind.MPI, JobKind.TASKS, JobKind.PLACES, JobKind.PLACES)[a // 5 % 4],
        )
        return spec.rigid() if a % 5 == 0 else spec


def reserved(job: ScheduledJob) -> int:
    return job.resize.nodes if job.resize is not None else 0


def check(state: State) -> None:
    """Every node is in exactly one place, and what is counted is what is there."""
    held = dirty = 0
    for job in state.jobs.values():
        mine = job.nodes | reserved(job)
        assert job.nodes & reserved(job) == 0
        assert held & mine == 0
        held |= mine
        assert job.size == job.nodes.bit_count()
        assert not job.size or job.losses or job.bounds.allows(job.size)
        assert not job.size or set(NodeSet(job.nodes)) == set(state.groups(job).values())
        assert not job.size or job.root in state.groups(job)
        assert (job.resize is not None) == (job.id in state.resizing)
        for group, awake in job.awake.items():
            assert 1 <= awake < state.nodes.slots[state.groups(job)[group]]
    for mask in state.nodes.dirty.values():
        assert mask
        assert dirty & mask == 0
        dirty |= mask
    held &= ~state.nodes.lost_mask
    assert state.nodes.free_mask & (held | dirty | state.nodes.lost_mask | state.nodes.parked_mask) == 0
    assert dirty & (held | state.nodes.lost_mask | state.nodes.parked_mask) == 0
    assert state.nodes.parked_mask & (held | state.nodes.lost_mask) == 0
    assert (
        state.nodes.free_mask | held | dirty | state.nodes.lost_mask | state.nodes.parked_mask
        == state.nodes.all_mask
    )
    assert state.nodes.parked_mask & ~state.nodes.reclaimed_mask == 0
    assert state.nodes.free_mask & state.nodes.reclaimed_mask == 0
    assert state.nodes.reclaimed_mask & ~state.nodes.all_mask == 0
    assert state.free == state.nodes.free_mask.bit_count()
    assert (
        state.total == (state.nodes.all_mask & ~state.nodes.lost_mask & ~state.nodes.parked_mask).bit_count()
    )
    open_ = [job.resize for job in state.resizing.values() if job.resize is not None]
    waited_for = [x for x in open_ if x.stage in (resizing.OFFERED, resizing.ACCEPTED)]
    leaving = sum(max(0, x.before + x.nodes.bit_count() - x.after) for x in waited_for)
    assert state.returning() == (dirty & ~state.nodes.reclaimed_mask).bit_count() + leaving
    assert all((x.nodes == 0) for x in open_ if x.stage not in resizing.HOLDING)
    assert state.returning() == sum(
        state.returning(number) for number in {*state.nodes.dirty, *state.resizing}
    )
    assert state.running == sorted(state.running, key=lambda entry: entry[:2])
    assert {n for _, n, _ in state.running} == {job.id for job in state.jobs.values() if job.size}
    assert {job.id for job in state.queue} == {job.id for job in state.jobs.values() if not job.size}
    assert 0 <= state.nodes.unwanted <= state.nodes.awaited
    expiring = 0
    for until, mask in state.nodes.expiry.items():
        assert mask
        assert mask & (expiring | ~state.nodes.all_mask) == 0
        expiring |= mask
        if end_of(until, state.settings) <= state.now:
            assert mask & ~state.nodes.reclaimed_mask == 0
            assert all(job.ending for job in state.jobs.values() if job.nodes & mask)
    staying = state.nodes.all_mask & ~state.nodes.reclaimed_mask & ~expiring
    assert (
        state.nodes.until == NEVER
        if staying
        else not state.nodes.expiry or state.nodes.until == max(state.nodes.expiry)
    )


def finish(core: Driven, now: float) -> None:
    """From any state a world that behaves gets all jobs done and all nodes back."""
    state = core.state
    core.tell([e.Granted(NodeSet.first(NODES)), e.Back(NodeSet(state.nodes.lost_mask))], now)
    for _ in range(1000):
        if not state.jobs and not state.nodes.dirty:
            return
        now += 1.0
        # What is free goes back to the provider as ordered, and comes anew.
        core.tell([e.Returned(NodeSet(state.nodes.parked_mask))], now)
        core.tell([e.Granted(NodeSet.first(NODES))], now)
        over: list[e.Event] = [e.Ended(job.id, 0) for job in state.jobs.values() if job.size]
        over += [e.Clean(number, NodeSet(mask)) for number, mask in state.nodes.dirty.items()]
        core.tell(over, now)
        check(state)
    raise AssertionError(f"left: {state.jobs.keys()}, dirty: {state.nodes.dirty}")


@settings(max_examples=examples(120))
@given(
    steps_,
    st.sampled_from([*POLICIES, "malleable", "malleable"]),
    st.sampled_from([0.0, 3.0]),
    st.integers(1, 4),
)
def test_nothing_that_a_job_or_a_node_does_upsets_the_core(
    steps: list[Step], policy: str, cooldown: float, together: int
) -> None:
    records: list[r.Record] = []
    options = Settings(cooldown_s=cooldown, decline_backoff_s=1.0, offer_deadline_s=4.0, kill_grace_s=2.0)
    core = Driven(make(policy), options, records.append)
    for i in gone_through(core, steps, together):
        check(core.state)
        if i % 16 == 0:
            assert replay_equal(core.state, records, options)
    finish(core, core.state.now)
    checked = audit(records)
    assert not checked.jobs
    assert checked.nodes("free") == NodeSet(core.state.nodes.free_mask)
    assert replay_equal(core.state, [r.from_line(r.to_line(record)) for record in records], options)


def gone_through(core: Driven, steps: list[Step], together: int) -> Iterator[int]:
    """Tell the core what happens, so many steps at once; after each time the number of steps."""
    world = World(core.state)
    now = 0.0
    core.tell([e.Granted(NodeSet.first(NODES), slots=tuple(1 + node % 4 for node in range(NODES)))], now)
    yield 0
    for i in range(0, len(steps), together):
        now += steps[i][1] % 4 / 2
        events = [world.event(step) for step in steps[i : i + together] if step[0] != "submit"]
        events += [world.event(step) for step in steps[i : i + together] if step[0] == "submit"][:1]
        commands = core.tell(events, now)
        yield i
        if steps[i][2] % 5:  # most jobs come up and take part
            started = [each.job for each in commands if isinstance(each, Start) and not each.resize]
            core.tell([e.Hello(job) for job in started], now)
            core.tell([job_says.malleable(job, on=True) for job in started], now)
            yield i


@settings(max_examples=examples(60))
@given(
    steps_,
    st.sampled_from(["entitled", "min-agreement", "average-pool"]),
    st.sampled_from([0.0, 3.0]),
    st.sampled_from([INSTANT, ResizeCost()]),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_a_policy_that_is_made_anew_now_and_then_decides_as_if_it_were_not(
    steps: list[Step], policy: str, cooldown: float, cost: ResizeCost, together: int, every: int
) -> None:
    """All that it has to know is in what it remembers, whatever has happened: jobs are cancelled and lost here too."""
    options = Settings(cooldown_s=cooldown, decline_backoff_s=1.0, offer_deadline_s=4.0, cost=cost)

    def told(some: Policy) -> list[r.Record]:
        records: list[r.Record] = []
        core = Driven(some, options, records.append)
        for _ in gone_through(core, steps, together):
            pass
        finish(core, core.state.now)
        return list(memories_whole(records))

    assert told(Forgetful(partial(make, policy), every)) == told(make(policy))


def replay_equal(state: State, records: list[r.Record], options: Settings) -> bool:
    return replay(records, options).snapshot() == state.snapshot()


def test_time_must_not_run_backwards() -> None:
    core = Driven(Easy())
    core.tell([e.Granted(NodeSet.first(2))], 5.0)
    with pytest.raises(ValueError, match="time ran backwards"):
        core.tell([e.Tick()], 4.0)


# ---- races that were found, one by one ---------------------------------------------------------------


def running(
    policy: str = "fcfs", nodes: int = 4, bounds: Bounds | None = None
) -> tuple[Driven, list[r.Record]]:
    """A core with one malleable job of 2 to 4 nodes that runs on 2 of ``nodes`` and takes offers."""
    records: list[r.Record] = []
    core = Driven(make(policy, "min"), None, records.append)
    spec = JobSpec(name="a", nodes=bounds or Bounds(2, 4), job_class=JobClass.MALLEABLE)
    core.tell([e.Granted(NodeSet.first(nodes)), e.Submitted(1, spec)], 0.0)
    core.tell([e.Hello(1), job_says.malleable(1, on=True)], 0.0)
    return core, records


def test_a_node_that_is_back_before_its_job_has_ended_is_not_given_away() -> None:
    core, _ = running()
    core.tell([e.Lost(NodeSet.of([1]))], 1.0)
    core.tell([e.Back(NodeSet.of([1]))], 2.0)
    assert core.state.nodes.free_mask == 0b1100
    core.tell([e.Ended(1, 1)], 3.0)
    assert core.state.nodes.dirty == {1: 0b0011}


def test_an_offer_of_a_node_that_is_lost_is_taken_back_and_holds_none_until_it_is_answered() -> None:
    core, _ = running()
    core.tell([e.ResizeOrdered(1, 4)], 1.0)
    assert core.state.nodes.free_mask == 0
    core.tell([e.Lost(NodeSet.of([3]))], 2.0)
    assert (core.state.nodes.free_mask, core.state.free) == (0b0100, 1)
    core.tell([e.Back(NodeSet.of([3]))], 3.0)
    assert (core.state.nodes.free_mask, core.state.free) == (0b1100, 2)
    assert not [each for each in core.tell([e.Tick()], 100.0) if isinstance(each, Offer)]
    core.tell([job_says.accepted(1, 1)], 101.0)  # it crossed: nothing is started for it
    assert core.state.free == 2
    core.tell([job_says.failed(1, 1)], 102.0)
    assert (core.state.free, core.state.nodes.dirty) == (2, {})


def test_a_job_cannot_have_done_what_was_never_started() -> None:
    core, records = running()
    core.tell([e.ResizeOrdered(1, 4)], 1.0)
    core.tell([e.Lost(NodeSet.of([3]))], 2.0)
    core.tell([job_says.accepted(1, 1)], 3.0)
    core.tell([job_says.resized(1, 1)], 4.0)
    assert isinstance(records[-1], r.JobEnding)
    assert "no group was started" in records[-1].error


def test_a_resize_that_is_done_on_a_lost_node_ends_the_job() -> None:
    core, records = running()
    core.tell([e.ResizeOrdered(1, 4)], 1.0)
    core.tell([job_says.accepted(1, 1)], 1.0)
    core.tell([e.Lost(NodeSet.of([3]))], 2.0)
    core.tell([job_says.resized(1, 1)], 2.5)
    assert isinstance(records[-1], r.JobEnding)
    assert "lost node n3" in records[-1].error


def test_a_job_that_gives_back_the_wrong_number_of_nodes_is_ended() -> None:
    core, records = running(bounds=Bounds(1, 2, 1, 2))
    core.tell([e.ResizeOrdered(1, 2)], 1.0)
    core.tell([job_says.accepted(1, 1)], 1.0)
    core.tell([core.resized(1, 1, 0)], 2.0)
    assert isinstance(records[-1], r.JobEnding)
    assert "gave back 1 node" in records[-1].error


def test_a_job_that_is_being_ended_is_offered_nothing() -> None:
    core, _ = running("malleable", nodes=2)
    core.tell([e.Cancelled(1)], 1.0)
    assert core.state.resizing == {}
    assert core.tell([e.Granted(NodeSet.of([2, 3]))], 2.0) == []
    assert core.resizes.refusal(1, 3, NodeSet()) == "job 1 (a) is being ended"


def test_a_wish_below_all_allowed_sizes_is_answered_by_stay() -> None:
    core, _ = running()
    commands = core.tell([job_says.wants(1, SizeRequest(Bounds(1, 1)))], 1.0)
    assert [type(command).__name__ for command in commands] == ["Stay"]


def test_only_what_became_true_is_recorded() -> None:
    """Nodes that are lost or come twice, more that are refused than were asked for, a job that is let go and was never
    pinned, a fraction that cannot be."""
    core, records = running()
    events: list[tuple[e.Event, r.Record | None]] = [
        (e.ResizeOrdered(1, 0), None),
        (job_says.progressed(1, 7.0), r.JobProgressed(1.0, 1, 1.0)),
        (e.Lost(NodeSet.of([3])), r.NodesLost(1.0, NodeSet.of([3]))),
        (e.Lost(NodeSet.of([2, 3])), r.NodesLost(1.0, NodeSet.of([2]))),
        (e.Back(NodeSet.of([0, 2])), r.NodesBack(1.0, NodeSet.of([2]))),
        (e.Back(NodeSet.of([2])), None),
        (
            e.Granted(NodeSet.of([0, 4]), ("n0", "n4"), (1, 2)),
            r.NodesGranted(1.0, NodeSet.of([4]), ("n4",), (2,)),
        ),
        (e.Granted(NodeSet.of([0])), None),
        (e.Refused(1, "none"), None),
        (e.NodesOrdered(2), r.NodesOrdered(1.0, 2)),
        (e.Refused(3, "none"), r.NodesRefused(1.0, 2, "none")),
    ]
    for event, expected in events:
        made, _ = core.note(event, 1.0)
        assert made == ([] if expected is None else [expected])
        records += made
    audit(records)


def test_a_drain_that_is_declined_stays_open() -> None:
    core, records = running()
    core.tell([e.ResizeOrdered(1, 4), job_says.accepted(1, 1), core.resized(1, 1)], 1.0)
    core.tell([e.ResizeOrdered(1, 2)], 20.0)
    made = len(records)
    core.tell([job_says.declined(1, 2, "no")], 21.0)
    assert not records[made:]
    assert core.state.jobs[1].resize is not None
    core.tell([job_says.accepted(1, 2), core.resized(1, 2, 2, 3)], 22.0)
    assert core.state.jobs[1].size == 2
    audit(records)


# ---- nodes that come and go --------------------------------------------------------------------------


def test_nodes_are_asked_for_and_what_was_not_answered_is_asked_again() -> None:
    core, records = running()
    assert c.Acquire(3) in core.tell([e.NodesOrdered(3)], 1.0)
    core.tell([e.Granted(NodeSet.of([4]), ("n4",), (1,))], 2.0)
    core.tell([e.Refused(1, "no more")], 3.0)
    again = SchedulerCore.resume(make("fcfs", "min"), Settings(), records)
    assert c.Acquire(1) in again.unanswered()
    assert (again.state.free, again.state.total) == (3, 5)


def test_nodes_keep_what_is_known_of_them_and_what_was_asked_for_is_asked_again_with_its_needs() -> None:
    gpu, wide = Need(labels=("gpu",)), Need(8)
    core, records = running()
    assert c.Acquire(2, gpu) in core.tell(
        [e.NodesOrdered(2, gpu), e.NodesOrdered(2), e.NodesOrdered(1, wide)], 1.0
    )
    core.tell([e.Granted(NodeSet.of([5]), ("n5",), (2,), None, (("big", "gpu"),), "ssh", gpu)], 2.0)
    core.tell([e.Refused(1, "none", wide), e.Granted(NodeSet.of([4]), ("n4",), (1,))], 3.0)
    audit(records)
    again = SchedulerCore.resume(make("fcfs", "min"), Settings(), map(r.from_line, map(r.to_line, records)))
    assert again.unanswered()[-2:] == [c.Acquire(1, gpu), c.Acquire(1)]
    assert again.state.snapshot() == core.state.snapshot()
    nodes = again.state.nodes
    assert (nodes.labels[5], nodes.labels.get(4, ()), nodes.sources[5]) == (("big", "gpu"), (), "ssh")
    granted = next(record for record in records if isinstance(record, r.NodesGranted) and 5 in record.nodes)
    assert r.to_line(granted) == (
        b'{"record":"NodesGranted","at":2.0,"nodes":"5","names":["n5"],"slots":[2],"labels":[["big","gpu"]],'
        b'"source":"ssh","need":{"labels":["gpu"]}}\n'
    )
    plain = b'{"record":"NodesGranted","at":2.0,"nodes":"5","names":["n5"],"slots":[2]}\n'
    assert r.to_line(r.from_line(plain)) == plain, "as it was before nodes had labels"


def test_a_free_node_is_given_back_at_once_and_one_in_use_after_its_job() -> None:
    core, records = running(nodes=5)
    core.tell([job_says.malleable(1, on=False)], 0.5)  # else it would move off it
    commands = core.tell([e.Reclaim(NodeSet.of([1, 3]))], 1.0)
    assert [each for each in commands if isinstance(each, c.GiveBack)] == [c.GiveBack(NodeSet.of([3]))]
    assert (core.state.nodes.free_mask, core.state.total) == (0b10100, 4)
    core.tell([e.Submitted(2, JobSpec(name="b", nodes=Bounds(3, 3)))], 2.0)
    core.tell([e.Returned(NodeSet.of([3])), e.Back(NodeSet.of([3])), e.Lost(NodeSet.of([3]))], 3.0)
    assert core.state.nodes.all_mask == 0b10111
    core.tell([e.Ended(1, 0)], 4.0)
    assert core.state.returning() == 1
    commands = core.tell([e.Clean(1, NodeSet.of([0, 1]))], 5.0)
    assert c.GiveBack(NodeSet.of([1])) in commands
    assert core.state.jobs[2].nodes == 0b10101
    assert c.GiveBack(NodeSet.of([1])) in SchedulerCore.resume(make("fcfs"), Settings(), records).unanswered()
    core.tell([e.Returned(NodeSet.of([1]))], 6.0)
    assert audit(records).nodes("held") == NodeSet(core.state.nodes.all_mask)
    figures = measure(records)
    assert figures.capacity_node_s == 5 * 3.0 + 4 * 3.0


def test_a_node_that_is_lost_on_its_way_back_is_given_back_when_it_is_there_again() -> None:
    core, _ = running()
    core.tell([e.Reclaim(NodeSet.of([3]))], 1.0)
    core.tell([e.Lost(NodeSet.of([3]))], 2.0)
    assert c.GiveBack(NodeSet.of([3])) in core.tell([e.Back(NodeSet.of([3]))], 3.0)
    assert core.state.nodes.free_mask == 0b0100


def test_a_node_that_its_provider_takes_away_unasked_is_lost() -> None:
    core, records = running()
    core.tell([e.Returned(NodeSet.of([1, 3]))], 1.0)
    assert core.state.nodes.lost_mask == 0b1010
    assert isinstance(records[-1], r.JobEnding)
    assert audit(records).nodes("lost") == NodeSet.of([1, 3])

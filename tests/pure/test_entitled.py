"""Nobody later than under rigid EASY: docs/entitled.md, sentence by sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import job_says
import pytest
from drawing import examples
from driving import Driven
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from test_simulation import run
from workloads import malleable, records_of, rigid, upper_bound_jobs

from pliant.core import events as e
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.errors import PolicyError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT
from pliant.policy import view as p
from pliant.policy.easy import Easy
from pliant.policy.entitled.entitled import Entitled
from pliant.policy.entitled.ledger import VirtualLedger
from pliant.policy.entitled.room import Room
from pliant.policy.entitled.virtual import Schedule, VirtualJob
from pliant.sim.simulator import Conditions, simulate
from pliant.testing.policies.drawn import elastic_jobs, settings_
from pliant.testing.policies.properties import Forgetful, memories_whole
from pliant.workloads.failures import DrawnFailures, Failures
from pliant.workloads.job import SimJob

NODES = 16
FREE = Settings(cost=INSTANT, cooldown_s=0.0)
"""Resizes take no time, and may follow one another at once."""
ROUNDING_S = 1e-3


@st.composite
def mixed_jobs(
    draw: st.DrawFn, estimates: tuple[float, ...] = (1.0, 1.0, 1.5, 4.0), nodes: int = NODES
) -> list[SimJob]:
    """Jobs of all classes but evolving, with any bounds; estimates are so many times the truth."""
    jobs = []
    for number in range(draw(st.integers(1, 25))):
        job_class = draw(st.sampled_from([JobClass.RIGID, JobClass.MOLDABLE, *[JobClass.MALLEABLE] * 3]))
        low = draw(st.integers(1, nodes))
        high = draw(st.integers(low, nodes))
        factor = draw(st.sampled_from([1, 1, 1, 2]))
        preferred = draw(st.sampled_from(Bounds(low, high, factor).sizes()))
        model = Amdahl(float(draw(st.integers(1, 400))), draw(st.sampled_from([0.0, 0.05, 0.5])))
        spec = JobSpec(
            name=f"j{number}",
            nodes=Bounds(low, high, factor, preferred),
            job_class=job_class,
            submit_s=float(draw(st.integers(0, 60))),
            walltime_s=model.time(preferred) * draw(st.sampled_from(estimates)),
            model=model,
        )
        jobs.append(SimJob(spec.rigid() if job_class is JobClass.RIGID else spec))
    return sorted(jobs, key=lambda job: job.spec.submit_s)


class Watched:
    """Entitled, with the invariant checked in every pass, while estimates hold for those that have begun early."""

    name = "watched"
    rebalances = True

    def __init__(self) -> None:
        self._policy = Entitled()
        self.begun: dict[int, float] = {}
        self.outrun = False
        self.early = 0
        self._ahead: set[int] = set()
        """Who runs and has not begun virtually."""
        self._reserved: dict[int, float] = {}
        """Until when the head has begun early, by number."""
        self._resized: Counter[tuple[float, int]] = Counter()

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        decisions = self._policy.decide(view)
        ledger = self._policy._ledger
        assert ledger is not None
        self._look(view, ledger)
        for each in decisions:
            if isinstance(each, p.Start):
                self.early += each.reason.code == "early"
            elif isinstance(each, p.Resize):
                self._resized[view.now, each.job] += 1
                # Once because it is worth it, once because somebody is entitled to the nodes.
                assert self._resized[view.now, each.job] <= 2, (view.now, each.job)
        return decisions

    def _look(self, view: p.ClusterView, ledger: VirtualLedger) -> None:
        for number, entry in ledger.entries.items():
            if entry.began is not None:
                self.begun.setdefault(number, entry.began)
        self.outrun |= any(
            end.job in self._ahead and end.worked_s > end.spec.walltime_s + ROUNDING_S for end in view.news
        )
        self._ahead.clear()
        self._look_at_head(view, ledger)
        for _, number, job in view.running:
            entry = ledger.entries[number]
            early = number in ledger.kept and entry.began is None
            if early:
                self._ahead.add(number)
            self.outrun |= early and job.worked_s(view.now) > job.spec.walltime_s + ROUNDING_S
            if entry.began is not None and not self.outrun:
                lead_s = job.worked_s(view.now) - (view.now - entry.began)
                assert lead_s >= -ROUNDING_S, (view.now, number)
        for number, job in ledger.waiting.items():
            began = ledger.entries[number].began
            # It starts in this instant, when those who shrink for it have.
            if began is not None and not self.outrun and job.spec.job_class is not JobClass.EVOLVING:
                assert view.now - began <= ROUNDING_S, (view.now, number)

    def _look_at_head(self, view: p.ClusterView, ledger: VirtualLedger) -> None:
        """It may run until its reservation; where others outrun their estimates until then, that is too long."""
        head, reserved = ledger.schedule.head, ledger.schedule.reserved
        if head is not None and reserved is not None and head.id in ledger.kept:
            until = self._reserved.setdefault(head.id, reserved)
            self.outrun |= reserved > until + ROUNDING_S
        self.outrun |= any(
            self.begun.get(number, view.now) > until + ROUNDING_S
            for number, until in self._reserved.items()
            if number in ledger.entries
        )


def of_easy(jobs: list[SimJob]) -> tuple[dict[int, float], dict[int, float]]:
    """Starts and ends under rigid EASY, by number."""
    return starts_and_ends(records_of([rigid_of(job) for job in jobs], Easy(), nodes=NODES, settings=FREE))


def rigid_of(job: SimJob) -> SimJob:
    return SimJob(job.spec.rigid(), job.time(job.spec.nodes.preferred))


def starts_and_ends(records: list[r.Record]) -> tuple[dict[int, float], dict[int, float]]:
    return (
        {record.job: record.at for record in records if isinstance(record, r.JobStarted)},
        {record.job: record.at for record in records if isinstance(record, r.JobEnded)},
    )


@settings(max_examples=examples(150))
@given(mixed_jobs())
def test_nobody_ends_later_than_under_rigid_easy(jobs: list[SimJob]) -> None:
    watched = Watched()
    _, ends = starts_and_ends(records_of(jobs, watched, nodes=NODES, settings=FREE))
    starts, limits = of_easy(jobs)
    assert not watched.outrun
    for number, limit in limits.items():
        assert ends[number] <= limit + ROUNDING_S, number
    for number, began in watched.begun.items():
        assert began == pytest.approx(starts[number], abs=ROUNDING_S), number


@pytest.mark.long
@settings(max_examples=examples(2000), deadline=None)
@given(mixed_jobs())
def test_nobody_ends_later_than_under_rigid_easy_in_many_workloads(jobs: list[SimJob]) -> None:
    _, ends = starts_and_ends(records_of(jobs, Watched(), nodes=NODES, settings=FREE))
    for number, limit in of_easy(jobs)[1].items():
        assert ends[number] <= limit + ROUNDING_S, number


@settings(max_examples=examples(60), deadline=None)
@given(mixed_jobs(nodes=600))
def test_on_a_large_machine_where_steps_are_larger_it_comes_to_rest(jobs: list[SimJob]) -> None:
    """The simulator stops a policy that gives and takes without end in one instant."""
    watched = Watched()
    _, ends = starts_and_ends(records_of(jobs, watched, nodes=600, settings=FREE))
    easy = starts_and_ends(records_of([rigid_of(job) for job in jobs], Easy(), nodes=600, settings=FREE))
    for number, limit in easy[1].items():
        assert ends[number] <= limit + ROUNDING_S, number


@settings(max_examples=examples(150))
@given(mixed_jobs((0.3, 0.8, 1.0, 2.0)))
def test_with_estimates_that_are_too_short_it_holds_until_somebody_who_began_early_outruns_his(
    jobs: list[SimJob],
) -> None:
    watched = Watched()
    _, ends = starts_and_ends(records_of(jobs, watched, nodes=NODES, settings=FREE))
    assert len(ends) == len(jobs)
    if not watched.outrun:
        for number, limit in of_easy(jobs)[1].items():
            assert ends[number] <= limit + ROUNDING_S, number


@settings(max_examples=examples(60))
@given(mixed_jobs((0.3, 1.0, 2.0)))
def test_without_malleable_jobs_it_is_easy(jobs: list[SimJob]) -> None:
    """To the last digit; the promises too."""
    fixed = [rigid_of(job) for job in jobs]

    def told(policy: p.Policy) -> list[r.Record]:
        records = records_of(fixed, policy, nodes=NODES, settings=FREE)
        kept = [each for each in records if not isinstance(each, r.PolicyRemembers | r.JobPromised)]
        return [
            structs.replace(each, reason=p.Reason("")) if isinstance(each, r.JobStarted) else each
            for each in kept
        ]

    assert told(Entitled()) == told(Easy())


def test_what_is_lent_and_taken_back_by_hand() -> None:
    """a is twice as quick on eight idle nodes as on four, and 20 s ahead when b begins on four of them, as it does
    virtually. From then on it has what it is entitled to. It ends at 80 s, and is a ghost until 100 s: d, which will
    have its nodes then, is too long to begin on them before; e is not."""
    jobs = [
        malleable("a", Bounds(1, 8, preferred=4), 100.0),
        rigid("b", 4, 150.0, at=20.0),
        rigid("c", 8, 10.0, at=25.0),
        rigid("d", 4, 60.0, at=30.0),
        rigid("e", 4, 20.0, at=31.0),
    ]
    watched = Watched()
    records = records_of(jobs, watched, nodes=8, settings=FREE)
    starts, ends = starts_and_ends(records)
    easy, limits = of_eight(jobs)
    assert starts[2] == easy[2] == 20.0
    assert ends[1] == pytest.approx(80.0)
    assert limits[1] == 100.0
    assert starts[5] == pytest.approx(80.0)
    assert easy[5] == 180.0
    assert starts[4] == easy[4] == 100.0
    assert starts[3] == easy[3] == 170.0
    assert watched.early == 1


def test_a_head_that_begins_early_trusts_the_estimates_of_those_it_waits_for() -> None:
    """m is 10 s ahead when r begins on the third node, of whose 5 s c takes the word: it borrows a node of m until r
    ends. But r takes 30 s, and m gets its node back too late. docs/entitled.md has it."""
    slow = rigid("r", 1, 30.0, at=20.0)
    jobs = [
        malleable("m", Bounds(1, 3, preferred=2), 100.0),
        structs.replace(slow, spec=structs.replace(slow.spec, walltime_s=5.0)),
        rigid("c", 1, 100.0, at=21.0),
    ]
    watched = Watched()
    starts, ends = starts_and_ends(records_of(jobs, watched, nodes=3, settings=FREE))
    easy, limits = starts_and_ends(
        records_of([rigid_of(job) for job in jobs], Easy(), nodes=3, settings=FREE)
    )
    assert (starts[3], easy[3]) == (21.0, 20.0 + 30.0)
    assert watched.outrun
    assert limits[1] == 100.0
    assert ends[1] > 104.0


def test_where_less_than_the_whole_estimate_has_to_be_certain_jobs_begin_earlier_and_some_end_later() -> None:
    """As by hand above, where d is too long for the ghost's nodes: a tenth of it is not, and c pays for it."""
    jobs = [
        malleable("a", Bounds(1, 8, preferred=4), 100.0),
        rigid("b", 4, 150.0, at=20.0),
        rigid("c", 8, 10.0, at=25.0),
        rigid("d", 4, 150.0, at=30.0),
    ]
    found = {}
    for certain in (1.0, 0.1):
        records = records_of(jobs, Entitled(certain), nodes=8, settings=FREE)
        found[certain] = starts_and_ends(records)
    limits = of_eight(jobs)[1]
    assert found[1.0][0][4] == 180.0
    assert found[0.1][0][4] == pytest.approx(80.0)
    assert all(found[1.0][1][number] <= limit for number, limit in limits.items())
    assert found[0.1][1][3] > limits[3] + 1.0
    with pytest.raises(PolicyError, match="certain is 0; it must be above 0"):
        Entitled(0.0)


def of_eight(jobs: list[SimJob]) -> tuple[dict[int, float], dict[int, float]]:
    return starts_and_ends(records_of([rigid_of(job) for job in jobs], Easy(), nodes=8, settings=FREE))


def test_promises_are_those_of_easy_and_are_kept() -> None:
    jobs = [malleable("a", Bounds(1, 8, preferred=4), 100.0), rigid("b", 8, 10.0, at=20.0)]
    for policy in (Easy(), Entitled()):
        records = records_of(jobs, policy, nodes=8, settings=FREE)
        assert [each.start_by for each in records if isinstance(each, r.JobPromised)] == [100.0]


# ---- what a policy of its own makes of it --------------------------------------------------------------------


@pytest.mark.long
@settings(max_examples=examples(60), deadline=None)
@given(elastic_jobs, settings_, st.booleans(), st.sampled_from([150.0, 400.0]), st.integers(0, 99))
def test_a_restart_loses_nothing_where_nodes_are_lost(
    jobs: list[SimJob], options: Settings, requeue: Literal[True, False], mtbf_s: float, seed: int
) -> None:
    def told(policy: p.Policy) -> list[r.Record]:
        records: list[r.Record] = []
        failures = Failures(DrawnFailures(mtbf_s, 20.0, seed=seed), requeue=requeue)
        simulate(jobs, 24, policy, Conditions(options, failures=failures), records.append)
        return list(memories_whole(records))

    known = told(Entitled())
    assert told(Forgetful(Entitled)) == known
    assert told(Forgetful(Entitled, every=4)) == known


@settings(max_examples=examples(60))
@given(upper_bound_jobs(moldable=False), st.integers(0, 999), st.booleans())
def test_without_malleable_jobs_it_makes_easys_starts_where_nodes_are_lost_too(
    jobs: list[SimJob], seed: int, requeue: Literal[True, False]
) -> None:
    def starts(policy: p.Policy) -> dict[int, float]:
        records: list[r.Record] = []
        failures = Failures(DrawnFailures(200.0, 20.0, seed=seed), requeue=requeue)
        simulate(jobs, 8, policy, Conditions(FREE, failures=failures), records.append)
        return starts_and_ends(records)[0]

    assert starts(Entitled()) == pytest.approx(starts(Easy()))


@settings(max_examples=examples(60))
@given(elastic_jobs, settings_)
def test_every_job_ends_with_what_resizes_take(jobs: list[SimJob], options: Settings) -> None:
    _, ends = starts_and_ends(run(jobs, 24, Entitled(), options))
    assert len(ends) == len(jobs)


def test_a_cancelled_job_is_over_virtually_too() -> None:
    policy = Entitled()
    core = Driven(policy, FREE)
    wide, one = (JobSpec(name="a", nodes=Bounds.exactly(n), walltime_s=100.0) for n in (4, 1))
    core.tell(
        [e.Granted(NodeSet.first(4)), e.Submitted(1, wide), e.Submitted(2, wide), e.Submitted(3, one)], 0.0
    )
    schedule = ledger_of(policy).schedule
    assert [entry.id for entry in schedule.queue.values()] == [2, 3]
    core.tell([e.Cancelled(2)], 10.0)
    assert [entry.id for entry in schedule.queue.values()] == [3]
    core.tell([e.Cancelled(1)], 20.0)
    assert core.tell([e.Ended(1, 143), e.Clean(1, NodeSet.first(4))], 30.0)
    assert schedule.queue == {}
    assert core.state.jobs[3].started == 30.0
    assert schedule.free == 3


def test_what_has_begun_virtually_and_is_cancelled_ends_there_now() -> None:
    """It waits for a node that is lost and virtually still there for nobody."""
    policy = Entitled()
    core = Driven(policy, structs.replace(FREE, cost=structs.replace(INSTANT, leave_s=5.0)))
    one = JobSpec(name="a", nodes=Bounds.exactly(1), walltime_s=100.0)
    core.tell([e.Granted(NodeSet.first(1)), e.Submitted(1, one), e.Submitted(2, one)], 0.0)
    core.tell([e.Ended(1, 0)], 10.0)
    assert ledger_of(policy).entries[2].began == 10.0  # its node is on its way back
    core.tell([e.Cancelled(2)], 12.0)
    assert ledger_of(policy).entries == {}
    assert ledger_of(policy).schedule.free == 1


def test_a_requeued_job_is_a_new_one() -> None:
    policy = Entitled()
    core = Driven(policy, FREE)
    spec = JobSpec(name="a", nodes=Bounds.exactly(2), walltime_s=100.0)
    core.tell([e.Granted(NodeSet.first(3)), e.Submitted(1, spec)], 0.0)
    core.tell([e.Lost(NodeSet.of([0]))], 10.0)
    core.tell([e.Ended(1, 1, requeue=True), e.Clean(1, NodeSet.of([1])), e.Submitted(2, spec, 1)], 20.0)
    assert list(ledger_of(policy).entries) == [2]
    assert ledger_of(policy).schedule.free == 0
    assert core.state.jobs[2].state is not JobState.PENDING


def test_it_takes_over_what_runs_already() -> None:
    """As after a policy that has remembered nothing: what has been done counts, and no more."""
    core = Driven(Easy(), FREE)
    spec = malleable("a", Bounds(1, 8, preferred=4), 100.0).spec
    core.tell([e.Granted(NodeSet.first(8)), e.Submitted(1, spec)], 0.0)
    core.tell([e.Hello(1), job_says.malleable(1, on=True)], 0.0)
    with replaced(core, Entitled()) as policy:
        core.tell([e.Submitted(2, JobSpec(name="b", nodes=Bounds.exactly(8), walltime_s=9.0))], 30.0)
        assert ledger_of(policy).entries[1].began == 0.0
        assert core.state.jobs[2].promised == 100.0


@contextmanager
def replaced(core: Driven, policy: Entitled) -> Iterator[Entitled]:
    core._policy = policy
    yield policy


def ledger_of(policy: Entitled) -> VirtualLedger:
    assert policy._ledger is not None
    return policy._ledger


# ---- parts ---------------------------------------------------------------------------------------------------

spans_ = st.lists(st.tuples(st.integers(1, 30).map(float), st.integers(1, 5)), max_size=8)


@given(spans_, spans_, st.integers(1, 12), st.integers(1, 31))
def test_room_is_the_least_at_any_moment(
    loans: list[tuple[float, int]], commitments: list[tuple[float, int]], nodes: int, until: int
) -> None:
    room = Room(loans, commitments)

    def at(moment: float) -> int:
        return sum(n for end, n in loans if end > moment) - sum(n for end, n in commitments if end > moment)

    assert room.now == at(0.0)
    assert room.fits(nodes, float(until)) == all(at(float(t)) >= nodes for t in range(until))
    room.commit(nodes, float(until))
    commitments = [*commitments, (float(until), nodes)]
    assert room.fits(1, 31.0) == all(at(float(t)) >= 1 for t in range(31))


def test_an_end_that_is_known_late_is_dated_back() -> None:
    schedule = Schedule(2)
    first, second = VirtualJob(1, 2, 100.0), VirtualJob(2, 2, 100.0)
    schedule.submit(first)
    schedule.submit(second)
    schedule.settle(0.0)
    schedule.ended(first, 40.0)
    assert schedule.catch_up(45.0) == ([], [first])
    assert second.began == 40.0
    with pytest.raises(ValueError, match="has not begun"):
        schedule.place(VirtualJob(3, 1, 1.0))


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.tuples(
            st.integers(0, 60),
            st.integers(1, 6),
            st.integers(1, 40),
            st.sampled_from([1.0, 1.5, 4.0]),
            st.integers(0, 30),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_ends_that_are_known_late_lead_to_the_same_schedule(
    rows: list[tuple[int, int, int, float, int]],
) -> None:
    """Each end is told only some time after it was: what was decided meanwhile is undone."""
    entries = [
        VirtualJob(number, nodes, length * factor, float(at))
        for number, (at, nodes, length, factor, _) in enumerate(sorted(rows), 1)
    ]
    lengths = {number: float(row[2]) for number, row in enumerate(sorted(rows), 1)}
    late = {number: row[4] for number, row in enumerate(sorted(rows), 1)}
    exact = of_easy_entries(entries, lengths)
    schedule = Schedule(6)
    told: set[int] = set()
    for now in range(60 + 20 * 40 + 31):
        over = [
            entry
            for entry in entries
            if entry.id not in told
            and entry.began is not None
            and entry.began + lengths[entry.id] + late[entry.id] <= now
        ]
        for entry in over:
            told.add(entry.id)
            schedule.ended(entry, lengths[entry.id])
        schedule.catch_up(float(now))
        for entry in entries:
            if entry.since == now:
                schedule.submit(entry)
        schedule.settle(float(now))
        schedule.forget(now - 31.0)
    assert {entry.id: entry.began for entry in entries} == exact


def of_easy_entries(entries: list[VirtualJob], lengths: dict[int, float]) -> dict[int, float]:
    """When they begin under rigid EASY, by the simulator."""
    jobs = [
        SimJob(
            JobSpec(
                name=str(entry.id),
                nodes=Bounds.exactly(entry.nodes),
                submit_s=entry.since,
                walltime_s=entry.estimate_s,
            ),
            lengths[entry.id],
        )
        for entry in entries
    ]
    return starts_and_ends(records_of(jobs, Easy(), nodes=6, settings=FREE))[0]

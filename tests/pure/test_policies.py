"""What each backfilling policy promises, and what a queue order changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from drawing import examples
from driving import Driven
from hypothesis import given, settings
from hypothesis import strategies as st
from workloads import NODES, in_order, records_of, rigid, starts_of, upper_bound_jobs

from pliant.core import records as r
from pliant.core.events import Granted, Lost, Submitted
from pliant.core.settings import Settings
from pliant.history.metrics import measure
from pliant.model.batch import read_batch
from pliant.model.errors import BatchError, PolicyError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl, Table
from pliant.plan.cost import ResizeCost
from pliant.policy.conservative import Conservative
from pliant.policy.easy import Easy
from pliant.policy.firstfit import FirstFit
from pliant.policy.order import ORDERS, ordered
from pliant.policy.registry import POLICIES, START_RULES, has_start_rule, make
from pliant.policy.view import Policy
from pliant.sim.instant import Instant
from pliant.workloads.job import SimJob

EXAMPLES = examples(60)
ROUNDING_S = 1e-6
"""An estimate scaled to another size and the run time there may differ in their last digits."""


@pytest.mark.parametrize("rule", START_RULES)
def test_a_job_that_is_quicker_on_fewer_nodes_starts_on_them(rule: str) -> None:
    """By a measured table: with eight nodes, and with those in between, it takes longer than there is time for."""
    table = Table({1: 90.0, 4: 30.0, 8: 50.0})
    wide = JobSpec(
        name="wide",
        nodes=Bounds(4, 8, preferred=8),
        job_class=JobClass.MOLDABLE,
        walltime_s=50.0,
        model=table,
    )
    jobs = [rigid("first", 8, 10.0), *[SimJob(wide) for _ in range(3)], rigid("last", 8, 10.0)]
    ends = [each for each in records_of(jobs, Conservative(rule), nodes=8) if isinstance(each, r.JobEnded)]
    assert len(ends) == 5


@settings(max_examples=EXAMPLES * 2)
@given(
    upper_bound_jobs(),
    st.sampled_from(START_RULES),
    st.sampled_from(sorted(ORDERS)),
    st.sampled_from(list(Instant)),
)
def test_a_conservative_promise_never_moves_later(
    jobs: list[SimJob], start: str, order: str, instant: Instant
) -> None:
    """Estimates are upper bounds and nodes return at once; then each job starts by its first promise."""
    promised: dict[int, float] = {}
    for record in records_of(jobs, make("conservative", start, order=order), instant=instant):
        if isinstance(record, r.JobPromised):
            assert record.at <= record.start_by <= promised.get(record.job, record.start_by) + ROUNDING_S
            promised[record.job] = record.start_by
        elif isinstance(record, r.JobStarted):
            assert record.at <= promised.get(record.job, record.at) + ROUNDING_S


@settings(max_examples=EXAMPLES)
@given(upper_bound_jobs(), st.sampled_from(list(Instant)))
def test_every_job_has_a_conservative_promise_or_has_started(jobs: list[SimJob], instant: Instant) -> None:
    known: set[int] = set()
    submitted: dict[int, float] = {}
    for record in records_of(jobs, Conservative(), instant=instant):
        if isinstance(record, r.JobSubmitted):
            submitted[record.job] = record.at
        elif isinstance(record, r.JobPromised | r.JobStarted) and record.job not in known:
            known.add(record.job)
            assert record.at == submitted[record.job]
    assert known == set(submitted)


def naive_conservative(jobs: list[SimJob]) -> dict[str, float]:
    """Starts of jobs with exact estimates: each at the earliest second from which its nodes stay free, around
    all that were submitted before. Nothing ends early, so no place ever gets better."""
    used: dict[int, int] = {}
    starts: dict[str, float] = {}
    for job in sorted(jobs, key=lambda job: job.spec.submit_s):
        nodes, length = job.spec.nodes.min, int(job.runtime_s or 0)
        at = int(job.spec.submit_s)
        while any(used.get(second, 0) + nodes > NODES for second in range(at, at + length)):
            at += 1
        for second in range(at, at + length):
            used[second] = used.get(second, 0) + nodes
        starts[job.spec.name] = float(at)
    return starts


@settings(max_examples=EXAMPLES)
@given(
    st.lists(
        st.tuples(st.integers(1, NODES), st.integers(1, 20), st.integers(0, 30)), min_size=1, max_size=20
    ),
    st.sampled_from(list(Instant)),
)
def test_conservative_is_conservative(shapes: list[tuple[int, int, int]], instant: Instant) -> None:
    jobs = [rigid(f"j{i}", nodes, float(run), at=float(at)) for i, (nodes, run, at) in enumerate(shapes)]
    assert starts_of(records_of(jobs, Conservative(), instant=instant)) == naive_conservative(jobs)


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.tuples(st.integers(1, NODES), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=20),
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from(list(Instant)),
)
def test_jobs_of_no_length_hold_nobody_up(
    shapes: list[tuple[int, int, int]], name: str, instant: Instant
) -> None:
    """With estimates of 0 they still need their nodes at the instant at which they run."""
    jobs = [rigid(f"j{i}", nodes, float(run), at=float(at)) for i, (nodes, run, at) in enumerate(shapes)]
    records = records_of(jobs, make(name), instant=instant)
    ended = [record for record in records if isinstance(record, r.JobEnded)]
    assert [record.state for record in ended] == [JobState.COMPLETED] * len(jobs)
    if name in ("easy", "conservative", "marginal"):
        assert measure(records).promises_broken == 0


def test_a_place_that_passes_before_its_nodes_are_clean_is_given_anew() -> None:
    jobs = [rigid("long", 2, 2.0), rigid("none", 1, 0.0, at=1.0)]
    starts = starts_of(
        records_of(jobs, Conservative(), nodes=2, settings=Settings(cost=ResizeCost(leave_s=0.1)))
    )
    assert starts == {"long": 0.0, "none": 2.1}


def test_conservative_protects_those_behind_the_head_and_easy_does_not() -> None:
    jobs = [
        rigid("runs", 6, 10.0),
        rigid("head", 8, 10.0, at=1.0),
        rigid("second", 8, 10.0, at=2.0),
        rigid("long", 2, 8.0, at=3.0),
        rigid("filler", 2, 7.0, at=3.0),
    ]
    easy, conservative = (starts_of(records_of(jobs, policy)) for policy in (Easy(), Conservative()))
    assert easy == conservative
    # "wide" may not pass "second" under conservative, though it leaves the head alone.
    jobs = [
        rigid("runs", 6, 10.0),
        rigid("head", 7, 10.0, at=1.0),
        rigid("second", 8, 10.0, at=2.0),
        rigid("thin", 1, 30.0, at=3.0),
    ]
    assert starts_of(records_of(jobs, Easy())) == {"runs": 0.0, "head": 10.0, "thin": 3.0, "second": 33.0}
    assert starts_of(records_of(jobs, Conservative())) == {
        "runs": 0.0, "head": 10.0, "second": 20.0, "thin": 30.0,
    }  # fmt: skip


@settings(max_examples=EXAMPLES // 2)
@given(st.integers(1, NODES), st.integers(1, 30), st.integers(1, NODES), st.integers(0, 30))
def test_with_one_waiting_job_conservative_is_easy(first: int, run: int, second: int, at: int) -> None:
    jobs = [rigid("a", first, float(run)), rigid("b", second, 5.0, at=float(at))]
    assert records_of(jobs, Conservative()) == records_of(jobs, Easy())


def test_a_promise_holds_while_nodes_are_on_their_way_back() -> None:
    """Nodes return a second late: who was promised them first gets them, though another would be tried first."""
    late = Settings(cost=ResizeCost(leave_s=1.0))
    jobs = [rigid("a", 8, 10.0), rigid("b", 8, 5.0, at=1.0), rigid("c", 8, 5.0, at=2.0)]
    assert starts_of(records_of(jobs, Conservative(), settings=late)) == {"a": 0.0, "b": 11.0, "c": 17.0}


def test_conservative_while_nodes_are_lost() -> None:
    """A job that needs more nodes than there are left has no promise, and does not stand in others' way."""
    records: list[r.Record] = []
    core = Driven(Conservative(), sink=records.append)
    core.tell([Granted(NodeSet.first(4))], 0.0)
    core.tell([Lost(NodeSet.of([3]))], 1.0)
    specs = [JobSpec(name=f"{n}", nodes=Bounds.exactly(n)) for n in (4, 3)]
    core.tell([Submitted(1, specs[0]), Submitted(2, specs[1])], 2.0)
    assert [record.job for record in records if isinstance(record, r.JobStarted)] == [2]
    assert not [record for record in records if isinstance(record, r.JobPromised)]


@pytest.mark.parametrize(
    ("policy", "starves"), [(FirstFit(), True), (Easy(), False), (Conservative(), False)]
)
def test_first_fit_starves_a_wide_job(policy: Policy, *, starves: bool) -> None:
    """Thin jobs come faster than they end, for 200 s; only without a reservation does the wide one wait for
    the last of them."""
    thin = [rigid(f"t{i}", 1, 20.0, at=float(i * 4)) for i in range(50)]
    starts = starts_of(records_of([*thin, rigid("wide", NODES, 5.0, at=1.0)], policy))
    assert (starts["wide"] > 200.0) is starves


# ---- queue orders --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fcfs", "firstfit", "easy", "conservative", "malleable"])
def test_orders_with_every_policy(name: str) -> None:
    def job(label: str, run: float, user: str, priority: int) -> SimJob:
        spec = JobSpec(
            name=label,
            nodes=Bounds.exactly(NODES),
            submit_s=1.0,
            walltime_s=run,
            user=user,
            priority=priority,
        )
        return SimJob(spec, run)

    first = rigid("first", NODES, 10.0, user="anna")
    jobs = [first, job("a", 30.0, "anna", 1), job("b", 20.0, "berta", 0), job("c", 10.0, "carl", 2)]

    def sequence(order: str) -> str:
        policy = make(name, order=order, weights={"carl": 0.5, "berta": 3.0})
        starts = starts_of(records_of(jobs, policy))
        return "".join(sorted("abc", key=starts.__getitem__))

    assert sequence("submission") == "abc"
    assert sequence("shortest") == "cba"
    assert sequence("priority") == "cab"
    assert sequence("weight") == "bac"
    # anna has used 8 * 10 node-seconds; b and c have used nothing and keep their order.
    assert sequence("fairshare") == "bca"


def test_fair_share_forgets_and_weighs() -> None:
    """anna used 800 node-seconds long ago, berta 80 a moment ago."""
    jobs = [
        rigid("old", NODES, 100.0, user="anna"),
        rigid("new", NODES, 10.0, at=1000.0, user="berta"),
        rigid("a", NODES, 10.0, at=1001.0, user="anna"),
        rigid("b", NODES, 10.0, at=1001.0, user="berta"),
    ]

    def first(half_life_s: float, weight: float = 1.0) -> str:
        policy = ordered(Easy(), "fairshare", {"anna": weight}, half_life_s)
        starts = starts_of(records_of(jobs, policy))
        return min("ab", key=starts.__getitem__)

    assert first(1e6) == "b"
    assert first(50.0) == "a"
    assert first(1e6, weight=20.0) == "a"


@settings(max_examples=EXAMPLES)
@given(upper_bound_jobs(), st.sampled_from(sorted(POLICIES)), st.sampled_from(sorted(ORDERS)))
def test_every_job_ends_in_every_order(jobs: list[SimJob], name: str, order: str) -> None:
    assert len(starts_of(records_of(jobs, in_order(order, name)))) == len(jobs)


@settings(max_examples=EXAMPLES)
@given(upper_bound_jobs(moldable=False), st.sampled_from(["shortest", "priority", "fairshare", "weight"]))
def test_fcfs_in_another_order_starts_nobody_before_who_goes_first(jobs: list[SimJob], order: str) -> None:
    """At each start, no job of a smaller key that was there before waits on."""
    keys: dict[str, Callable[[JobSpec], float]] = {
        "shortest": lambda spec: spec.walltime_s,
        "priority": lambda spec: -spec.priority,
        "weight": lambda spec: -{"anna": 2.0}.get(spec.user, 1.0),
    }
    if order not in keys:
        return
    waiting: dict[int, JobSpec] = {}
    for record in records_of(jobs, make("fcfs", order=order, weights={"anna": 2.0})):
        if isinstance(record, r.JobSubmitted):
            waiting[record.job] = record.spec
        elif isinstance(record, r.JobStarted):
            spec = waiting.pop(record.job)
            assert all(keys[order](spec) <= keys[order](other) for other in waiting.values())


def test_a_batch_states_priorities() -> None:
    def priority(value: object) -> int:
        return read_batch({"jobs": [{"command": "true", "priority": value}]}, "x.toml").jobs[0].priority

    assert (priority(-3), priority(7)) == (-3, 7)
    for wrong in (True, 1.5, "high"):
        with pytest.raises(BatchError, match=r"job 'job1': priority: expected a whole number"):
            priority(wrong)


def test_what_the_registry_refuses() -> None:
    with pytest.raises(PolicyError, match="no policy 'conservativ'; did you mean 'conservative'"):
        make("conservativ")
    with pytest.raises(PolicyError, match=r"no order 'shortst'; did you mean 'shortest'\? \(known: sub"):
        make("easy", order="shortst")
    for name, kind in POLICIES.items():
        if not has_start_rule(kind):
            with pytest.raises(PolicyError, match="has no start rule"):
                make(name, "min")


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize(
    ("said", "figures"),
    [
        ({"unestimated": True}, set()),
        ({"walltime_s": 500.0}, {"estimated_s"}),
        ({"model": Amdahl(400.0)}, {"remaining_s"}),
    ],
)
def test_a_reason_to_grow_tells_how_long_a_job_takes_as_far_as_anybody_knows(
    name: str, said: dict[str, Any], figures: set[str]
) -> None:
    spec = JobSpec(name="a", nodes=Bounds(1, 8, preferred=2), job_class=JobClass.MALLEABLE, **said)
    records = records_of([SimJob(spec, None if "model" in said else 200.0)], make(name), nodes=8)
    grown = [
        each.reason.figures
        for each in records
        if isinstance(each, r.ResizeOffered) and each.reason.code in ("idle_nodes", "best_use")
    ]
    told = [set(each) & {"estimated_s", "remaining_s"} for each in grown]
    assert all(each == figures for each in told if name != "equipartition")  # whose reason is its share

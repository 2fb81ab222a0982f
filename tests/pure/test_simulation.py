"""Properties of core and policies together, driven by the simulator on random workloads."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import pytest
from audits import audit
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.history.audit import Audit
from pliant.model.errors import PolicyError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT
from pliant.policy import view as p
from pliant.policy.easy import Easy, need_of
from pliant.policy.malleable import Malleable
from pliant.policy.registry import POLICIES, START_RULES, has_start_rule, make
from pliant.sim.simulator import Conditions, simulate
from pliant.testing.policies.cases import Case
from pliant.testing.policies.drawn import NODES, cases, elastic_jobs, settings_
from pliant.testing.policies.properties import (
    Make,
    decisions_repeat,
    every_job_ends,
    journal_is_enough,
    restart_loses_nothing,
    work_is_conserved,
)
from pliant.workloads.job import SimJob

EXAMPLES = examples(60)


@st.composite
def rigid_jobs(draw: st.DrawFn) -> list[SimJob]:
    """Rigid jobs whose estimates are upper bounds; whole seconds, so that many things coincide."""
    jobs = []
    for number in range(draw(st.integers(1, 25))):
        runtime = draw(st.integers(1, 30))
        spec = JobSpec(
            name=f"j{number}",
            nodes=Bounds.exactly(draw(st.integers(1, 8))),
            submit_s=float(draw(st.integers(0, 40))),
            walltime_s=float(runtime + draw(st.sampled_from([0, 0, 1, 5, 40]))),
        )
        jobs.append(SimJob(spec, float(runtime)))
    return jobs


policies_ = st.sampled_from(
    [
        (name, rule)
        for name in sorted(POLICIES)
        for rule in (START_RULES if has_start_rule(POLICIES[name]) else [None])
    ]
)


def run(
    jobs: list[SimJob], nodes: int, policy: p.Policy, options: Settings, *, starting: bool = False
) -> list[r.Record]:
    records: list[r.Record] = []
    simulate(jobs, nodes, policy, Conditions(options, starting=starting), records.append)
    return records


# What every policy keeps, users' own as well (``pliant.testing.check_policy``).
def maker(policy: tuple[str, str | None]) -> Make:
    return functools.partial(make, *policy)


@settings(max_examples=EXAMPLES)
@given(cases, policies_)
def test_records_hold_together_and_every_job_ends(case: Case, policy: tuple[str, str | None]) -> None:
    every_job_ends(maker(policy), case)


@settings(max_examples=EXAMPLES)
@given(cases, policies_)
def test_replaying_the_records_gives_the_same_state(case: Case, policy: tuple[str, str | None]) -> None:
    journal_is_enough(maker(policy), case)


@settings(max_examples=EXAMPLES // 2)
@given(cases, policies_)
def test_the_same_input_gives_the_same_records(case: Case, policy: tuple[str, str | None]) -> None:
    decisions_repeat(maker(policy), case)


@settings(max_examples=EXAMPLES)
# Its promises are in the view; made anew it looks for better places once more, as its documentation says.
@given(cases, policies_.filter(lambda policy: policy[0] != "conservative"))
def test_a_restart_loses_nothing_that_a_policy_remembers(case: Case, policy: tuple[str, str | None]) -> None:
    restart_loses_nothing(maker(policy), case)


@settings(max_examples=EXAMPLES)
@given(cases, policies_)
def test_work_is_conserved_and_metrics_agree_with_the_chart(
    case: Case, policy: tuple[str, str | None]
) -> None:
    work_is_conserved(maker(policy), case)


@settings(max_examples=EXAMPLES)
@given(elastic_jobs, settings_)
def test_a_job_is_left_in_peace_after_a_resize(jobs: list[SimJob], options: Settings) -> None:
    not_before: dict[int, float] = {}
    for record in run(jobs, NODES, make("malleable"), options):
        if isinstance(record, r.ResizeDone):
            not_before[record.job] = record.at + options.cooldown_s
        elif isinstance(record, r.ResizeDeclined | r.ResizeFailed):
            not_before[record.job] = record.at + options.decline_backoff_s
        elif isinstance(record, r.ResizeOffered):
            assert record.at >= not_before.get(record.job, 0.0)


class Watched:
    """Malleable, with every pass checked against what it saw."""

    name = "watched"

    def __init__(self, start: str) -> None:
        self._policy = Malleable(start)
        self._start = start

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        decisions = list(self._policy.decide(view))
        started = {d.job: d.size for d in decisions if isinstance(d, p.Start)}
        resizes = {d.job: d for d in decisions if isinstance(d, p.Resize)}
        free = view.free - sum(started.values())
        assert free >= 0
        heads = [job for job in view.queue if job.id not in started][:1]
        elastic = {job.id: job for job in view.elastic}
        shrinks = {n: d for n, d in resizes.items() if d.size < elastic[n].size}
        growth = sum(d.size - elastic[n].size for n, d in resizes.items() if n not in shrinks)
        assert growth <= free
        if shrinks:
            assert growth == 0
            need = need_of(heads[0], self._start, view.total) - free - view.returning()
            given_back = sum(elastic[n].size - d.size for n, d in shrinks.items())
            assert given_back >= need > 0  # all or nothing
            for number, decision in shrinks.items():  # just enough: no donor could keep one size more
                assert decision.reason.for_job == heads[0].id
                more = elastic[number].bounds.above(decision.size)
                assert given_back - (more - decision.size) < need
        return decisions


@pytest.mark.long
@settings(max_examples=EXAMPLES * 2)
@given(elastic_jobs, st.sampled_from(START_RULES), settings_)
def test_shrinks_are_just_enough_or_nothing(jobs: list[SimJob], start: str, options: Settings) -> None:
    run(jobs, NODES, Watched(start), options)


@settings(max_examples=EXAMPLES * 2)
@given(rigid_jobs())
def test_easy_never_starts_a_head_later_than_first_promised(jobs: list[SimJob]) -> None:
    promised: dict[int, float] = {}
    for record in run(jobs, 8, Easy(), Settings(cost=INSTANT)):
        if isinstance(record, r.JobPromised):
            promised.setdefault(record.job, record.start_by)
        elif isinstance(record, r.JobStarted):
            assert record.at <= promised.get(record.job, record.at)


def naive_easy(jobs: list[SimJob], nodes: int) -> list[float]:
    """Start times by EASY as in its definition, with nothing kept between the instants."""
    todo = sorted(jobs, key=lambda job: job.spec.submit_s)
    starts: dict[int, float] = {}
    now = 0.0
    while len(starts) < len(todo):
        queue = [i for i, job in enumerate(todo) if job.spec.submit_s <= now and i not in starts]
        while True:
            running = [i for i in starts if starts[i] + (todo[i].runtime_s or 0.0) > now]
            free = nodes - sum(todo[i].spec.nodes.min for i in running)
            if not queue or todo[queue[0]].spec.nodes.min > free:
                break
            starts[queue.pop(0)] = now
        if queue:
            need = todo[queue[0]].spec.nodes.min
            ends = sorted({starts[i] + todo[i].spec.walltime_s for i in running})

            def free_at(time: float, *, among: list[int] = running) -> int:
                held = [i for i in among if starts[i] + todo[i].spec.walltime_s > time]
                return nodes - sum(todo[i].spec.nodes.min for i in held)

            shadow = next(end for end in ends if free_at(end) >= need)
            spare = free_at(shadow) - need
            for i in queue[1:]:
                size = todo[i].spec.nodes.min
                if size > free:
                    continue
                if now + todo[i].spec.walltime_s > shadow:
                    if size > spare:
                        continue
                    spare -= size
                free -= size
                starts[i] = now
        later = [starts[i] + (todo[i].runtime_s or 0.0) for i in starts] + [job.spec.submit_s for job in todo]
        now = min((time for time in later if time > now), default=now)
    return [starts[i] for i in range(len(todo))]


@settings(max_examples=EXAMPLES * 2)
@given(rigid_jobs())
def test_easy_is_easy(jobs: list[SimJob]) -> None:
    records = run(jobs, 8, Easy(), Settings(cost=INSTANT))
    starts = {record.job: record.at for record in records if isinstance(record, r.JobStarted)}
    assert [starts[number] for number in sorted(starts)] == naive_easy(jobs, 8)


def test_fcfs_and_easy_by_hand() -> None:
    def job(name: str, nodes: int, runtime: float) -> SimJob:
        return SimJob(JobSpec(name=name, nodes=Bounds.exactly(nodes), walltime_s=runtime), runtime)

    def starts(policy: str, jobs: list[SimJob]) -> list[float]:
        records = run(jobs, 4, make(policy), Settings(cost=INSTANT))
        return [record.at for record in records if isinstance(record, r.JobStarted)]

    # c ends before b can start, so it may pass it; d would have to wait for c's node.
    jobs = [job("a", 3, 10.0), job("b", 4, 5.0), job("c", 1, 10.0), job("d", 1, 12.0)]
    assert starts("fcfs", jobs) == [0.0, 10.0, 15.0, 15.0]
    assert starts("easy", jobs) == [0.0, 0.0, 10.0, 15.0]
    # c outlasts the reservation, but b leaves a node over, then; d would need that node, too.
    jobs = [job("a", 2, 10.0), job("b", 3, 5.0), job("c", 1, 50.0), job("d", 1, 50.0)]
    assert starts("easy", jobs) == [0.0, 0.0, 10.0, 15.0]


@pytest.mark.parametrize(
    ("leave_s", "second", "small"), [(0.0, 5.0, 30.0), (0.1, 5.1, 30.2), (2.0, 34.0, 5.05)]
)
def test_who_fits_amid_nodes_that_are_back_at_once_does_not_pass_the_second_in_the_queue(
    leave_s: float, second: float, small: float
) -> None:
    """b and c wait for the nodes of a, which ends before its time; d comes when a has ended, and would fit beside b."""
    jobs = [rigid("a", 3, 10.0, 5.0), rigid("b", 2, 25.0), rigid("c", 2, 25.0), rigid("d", 1, 90.0, at=5.05)]
    records = run(jobs, 4, Easy(), Settings(cost=structs.replace(INSTANT, leave_s=leave_s)))
    starts = {record.job: record.at for record in records if isinstance(record, r.JobStarted)}
    assert (starts[3], starts[4]) == pytest.approx((second, small))


def rigid(name: str, nodes: int, estimate_s: float, runtime_s: float = 0.0, at: float = 0.0) -> SimJob:
    spec = JobSpec(name=name, nodes=Bounds.exactly(nodes), submit_s=at, walltime_s=estimate_s)
    return SimJob(spec, runtime_s or estimate_s)


@settings(max_examples=examples(50))
@given(elastic_jobs, policies_, settings_, st.sampled_from([0.1, 5.0]))
def test_passes_are_made_at_multiples_of_the_interval(
    jobs: list[SimJob], policy: tuple[str, str | None], options: Settings, interval_s: float
) -> None:
    """Finnerty et al.'s scheduler looks every five seconds: nothing starts and nothing is offered in between."""
    options = structs.replace(options, pass_interval_s=interval_s)
    records = run(jobs, NODES, make(*policy), options)
    assert not audit(records).jobs
    for record in records:
        if isinstance(record, r.JobStarted | r.ResizeOffered):
            multiples = record.at / interval_s
            assert abs(multiples - round(multiples)) < 1e-6, record


class Restless:
    """Gives a job a node when it has one, and takes it back at once."""

    name = "restless"
    rebalances = True

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        for job in view.queue:
            yield p.Start(job.id, 1, p.Reason("start"))
        for job in view.elastic:
            if view.resizable(job):
                yield p.Resize(job.id, 3 - job.size, p.Reason("why not"))


def test_a_policy_that_resizes_to_and_fro_is_stopped() -> None:
    spec = JobSpec(name="ball", nodes=Bounds(1, 2), job_class=JobClass.MALLEABLE, model=Amdahl(60.0))
    with pytest.raises(PolicyError, match=r"'restless' makes no end of resizing at 0.000 s.*ball has"):
        run([SimJob(spec)], 2, Restless(), Settings(cost=INSTANT, cooldown_s=0.0))
    records = run([SimJob(spec)], 2, Restless(), Settings(cost=INSTANT, cooldown_s=1.0))
    assert not audit(records).jobs  # with a rest between two resizes, it is merely wasteful


def test_an_unfinished_audit_shows_who_holds_what() -> None:
    checked = Audit()
    for record in run([SimJob(JobSpec(name="a", nodes=Bounds.exactly(2)), 5.0)], 3, Easy(), Settings()):
        checked.add(record)
        if isinstance(record, r.JobStarted):
            assert str(checked.nodes("held")) == "0-1"
            assert str(checked.nodes("free")) == "2"

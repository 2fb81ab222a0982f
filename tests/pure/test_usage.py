"""What users have used, as a fold in the view: fair share remembers nothing of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pytest
from audits import gantt
from commands import command
from drawing import examples
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from msgspec import structs
from test_simulation import policies_
from workloads import records_of, rigid, upper_bound_jobs

from pliant.core import records as r
from pliant.core.core import SchedulerCore, replay
from pliant.core.settings import Settings
from pliant.daemon.deadline import TimedPolicy
from pliant.model.errors import PolicyError
from pliant.policy import view as p
from pliant.policy.easy import Easy
from pliant.policy.registry import make
from pliant.sim.simulator import Conditions, Simulator
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.failures import DrawnFailures, Failures
from pliant.workloads.job import SimJob

USERS = ("", "anna", "berta")


class Reborn:
    """A policy that is made anew for each pass, as after a restart."""

    def __init__(self, name: str, start: str | None = None, order: str = "submission") -> None:
        self.name = name
        self._wish = name, start, order
        first = self._made()
        self.rebalances = p.rebalances(first)
        self.half_life_s = p.half_life_s(first)

    def _made(self) -> p.Policy:
        name, start, order = self._wish
        return make(name, start, order=order, half_life_s=20.0)

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        return list(self._made().decide(view))


def test_fair_share_goes_on_after_a_restart_as_before() -> None:
    jobs = [
        rigid("used", 8, 100.0, user="anna"),
        rigid("a", 8, 10.0, at=1.0, user="anna"),
        rigid("b", 8, 10.0, at=2.0, user="berta"),
    ]
    starts = [
        record.job
        for record in records_of(jobs, Reborn("easy", order="fairshare"))
        if isinstance(record, r.JobStarted)
    ]
    assert starts == [1, 3, 2]


@limits(max_examples=examples(60))
@given(upper_bound_jobs(), st.sampled_from(["fcfs", "easy", "malleable", "marginal"]))
def test_fair_share_remembers_nothing(jobs: list[SimJob], name: str) -> None:
    kept = make(name, order="fairshare", half_life_s=20.0)
    assert records_of(jobs, Reborn(name, order="fairshare")) == records_of(jobs, kept)


@limits(max_examples=examples(100))
@given(elastic_jobs, settings_, st.sampled_from(["max", "min", "preferred"]))
def test_the_job_that_dmr_serves_is_still_served_after_a_restart(
    jobs: list[SimJob], options: Settings, start: str
) -> None:
    kept, reborn = (
        records_of(jobs, policy, nodes=NODES, settings=options)
        for policy in (make("dmr-wide", start), Reborn("dmr-wide", start))
    )
    assert reborn == kept


class Asking:
    """Asks for usage at each pass, and notes it."""

    half_life_s = 30.0

    def __init__(self, policy: p.Policy) -> None:
        self.name = policy.name
        self.rebalances = p.rebalances(policy)
        self.seen: list[tuple[float, dict[str, float]]] = []
        self._policy = policy

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        self.seen.append((view.now, {user: view.usage(user) for user in USERS}))
        return self._policy.decide(view)


@limits(max_examples=examples(60), deadline=None)
@given(elastic_jobs, policies_, settings_, st.booleans(), st.integers(0, 2))
def test_usage_is_the_decayed_integral_over_what_was_held(
    jobs: list[SimJob],
    policy: tuple[str, str | None],
    options: Settings,
    fails: bool,  # noqa: FBT001 - Hypothesis passes it
    shift: int,
) -> None:
    jobs = [
        structs.replace(job, spec=structs.replace(job.spec, user=USERS[(i + shift) % 3]))
        for i, job in enumerate(jobs)
    ]
    records: list[r.Record] = []
    asking = Asking(make(*policy))
    failures = Failures(DrawnFailures(3000.0, 10.0)) if fails else None
    simulator = Simulator(jobs, NODES, asking, Conditions(options, failures=failures), records.append)
    simulator.run()
    user = {record.job: record.spec.user for record in records if isinstance(record, r.JobSubmitted)}
    held = [(user[each.job], len(each.nodes), each.from_s, each.to_s) for each in gantt(records).segments]
    life = Asking.half_life_s / math.log(2.0)
    for now, usage in asking.seen[:: max(1, len(asking.seen) // 10)]:
        expected = dict.fromkeys(USERS, 0.0)
        for who, size, from_s, to_s in held:
            if from_s < now:
                older, newer = now - from_s, now - min(now, to_s)
                expected[who] += size * life * (math.exp(-newer / life) - math.exp(-older / life))
        assert usage == pytest.approx(expected, rel=1e-6, abs=1e-6)
    # A replay of the journal gives the same, to the last digit.
    state = simulator.core.state
    again = replay([r.from_line(r.to_line(record)) for record in records], state.settings)
    again.now = state.now
    assert again.snapshot() == state.snapshot()
    assert [again.usage(who) for who in USERS] == [state.usage(who) for who in USERS]


def test_settings_state_the_half_life_before_the_policy_does() -> None:
    policy = make("easy", order="fairshare", half_life_s=50.0)
    assert SchedulerCore(policy).state.settings == Settings(half_life_s=50.0)
    assert SchedulerCore(policy, Settings(half_life_s=7.0)).state.settings.half_life_s == 7.0
    assert SchedulerCore(Easy()).state.settings == Settings()
    assert SchedulerCore(TimedPolicy(policy, 1.0)).state.settings.half_life_s == 50.0


MINE = """
from pliant.policy.view import Reason, Start

class Mine:
    name = "mine"
    HALF_LIFE
    def decide(self, view):
        free = view.free
        for job in sorted(view.queue, key=lambda job: view.usage(job.spec.user)):
            if job.bounds.min <= free:
                free -= job.bounds.min
                yield Start(job.id, job.bounds.min, Reason("used_least"))
"""


def test_a_policy_of_ones_own_asks_by_stating_the_half_life(tmp_path: Path) -> None:
    trace = tmp_path / "x.swf"
    trace.write_text("; MaxProcs: 2\n1 0 0 10 2\n2 1 0 10 2\n")
    mine = tmp_path / "mine.py"
    mine.write_text(MINE.replace("HALF_LIFE", "half_life_s = 3600.0"))
    assert '"makespan_s": 20.0' in command("simulate", str(trace), "--policy", str(mine), "--json")
    mine.write_text(MINE.replace("HALF_LIFE", ""))
    with pytest.raises(PolicyError, match=r"mine.*usage is not followed: .* states half_life_s"):
        command("simulate", str(trace), "--policy", str(mine), "--json")
    mine.write_text(MINE.replace("HALF_LIFE", "half_life_s = 'a week'"))
    with pytest.raises(PolicyError, match=r"half_life_s must be a number of seconds"):
        command("simulate", str(trace), "--policy", str(mine), "--json")

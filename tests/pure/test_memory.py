"""What a policy remembers: whole, and as changes."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest
from driving import Driven
from workloads import records_of, rigid

from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.settings import Settings
from pliant.model.errors import PolicyError
from pliant.model.nodes import NodeSet
from pliant.plan.cost import INSTANT
from pliant.policy import view as p
from pliant.policy.entitled.entitled import Entitled
from pliant.policy.entitled.notes import Notes
from pliant.policy.registry import POLICIES, make
from pliant.policy.resizing import shrink_reason
from pliant.policy.view import merged
from pliant_lab.commands.bench_bursts import NODES, burst


@pytest.mark.parametrize(
    ("memory", "changes", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_changes_are_merged_as_rfc_7396_has_it(
    memory: dict[str, Any], changes: dict[str, Any], result: dict[str, Any]
) -> None:
    """Those of its examples, in appendix A, in which both are objects."""
    before = copy.deepcopy((memory, changes))
    assert merged(memory, changes) == result
    assert (memory, changes) == before


class Counting:
    """First come, first served; it remembers when it was asked, and the last time by its number alone."""

    name = "counting"

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        times = dict(view.memory.get("times", {}))
        number = len(times)
        yield p.Remember({"times": {str(number): view.now}, "last": number}, merge=number > 0)
        yield from make("fcfs").decide(view)


def test_what_was_remembered_before_stays_and_a_journal_tells_the_same() -> None:
    records = records_of([rigid("a", 1, 3.0), rigid("b", 1, 3.0, at=1.0)], Counting())
    told = [each for each in records if isinstance(each, r.PolicyRemembers)]
    assert [each.merge for each in told] == [False] + [True] * (len(told) - 1)
    assert len(told) > 2
    read = [r.from_line(r.to_line(each)) for each in records]
    assert read == records
    assert replay(read).memory == {
        "times": {str(i): each.at for i, each in enumerate(told)},
        "last": len(told) - 1,
    }


class Careless:
    """It remembers a time that never comes."""

    name = "careless"

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:  # noqa: ARG002
        return [p.Remember({"gone": None, "jobs": {5: {"until": float("inf")}}}, merge=True)]


def test_a_number_that_json_has_not_makes_nothing_forgotten() -> None:
    with pytest.raises(PolicyError, match="can be remembered: a number is not finite"):
        records_of([rigid("a", 1, 3.0)], Careless())


def test_notes_tell_what_has_changed_alone() -> None:
    notes = Notes()
    first = notes.tell({"a": 1, "b": None}, {1: [1.0], 2: None})
    assert first == p.Remember({"a": 1, "jobs": {"1": [1.0]}})
    memory = merged({}, first.memory)
    assert notes.are(memory)
    assert notes.tell({"a": 1, "b": None}, {2: None}) is None
    second = notes.tell({"a": 1, "b": 2.0}, {1: None, 3: [3.0]})
    assert second == p.Remember({"b": 2.0, "jobs": {"1": None, "3": [3.0]}}, merge=True)
    assert not notes.are(memory)
    assert notes.are(merged(memory, second.memory))
    assert not notes.are({})


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_object_may_be_used_again(name: str) -> None:
    """Each time as if it were new."""
    load = [burst(20, 50.0), burst(40, 100.0)[20:], burst(20, 50.0)]
    policy = make(name)
    for jobs in load:
        assert records_of(jobs, policy, nodes=NODES) == records_of(jobs, make(name), nodes=NODES)


class AskedTwice:
    """As one who wonders what ``entitled`` would do, and asks again."""

    name = "asked twice"
    rebalances = True

    def __init__(self) -> None:
        self._policy = Entitled()

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        self._policy.decide(view)
        return self._policy.decide(view)


def test_an_answer_that_is_not_taken_up_is_given_again() -> None:
    jobs = burst(30, 50.0)
    once, twice = (
        [each for each in records_of(jobs, policy, nodes=NODES) if not isinstance(each, r.PolicyRemembers)]
        for policy in (Entitled(), AskedTwice())
    )
    assert twice == once


class Replaceable:
    """Some policy object in the place of which another one may be put."""

    name = "entitled"
    rebalances = True

    def __init__(self) -> None:
        self.made = Entitled()

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        return self.made.decide(view)


@pytest.mark.parametrize("again", ["never", "before a pass in which nothing happens", "before the cancel"])
def test_a_restart_does_not_hide_that_the_head_was_cancelled(again: str) -> None:
    """c may start when b, which waits for all nodes, is no more: of b nothing is remembered."""
    policy = Replaceable()
    core = Driven(policy, Settings(cost=INSTANT))
    a, b, c = (rigid("x", nodes, seconds).spec for nodes, seconds in ((3, 100.0), (4, 50.0), (1, 500.0)))
    core.tell([e.Granted(NodeSet.first(4)), e.Submitted(1, a), e.Submitted(2, b), e.Submitted(3, c)], 0.0)
    if again == "before a pass in which nothing happens":
        policy.made = Entitled()
    core.tell([e.Tick()], 0.0)
    if again == "before the cancel":
        policy.made = Entitled()
    core.tell([e.Cancelled(2)], 10.0)
    assert core.state.jobs[3].started == 10.0


class Endless:
    """It starts each job for a reason that has no end, or promises it a start that never comes."""

    name = "endless"

    def __init__(self, *, promises: bool) -> None:
        self._promises = promises

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        for job in view.queue:
            if self._promises:
                yield p.Promise(job.id, float("inf"))
            yield p.Start(job.id, 1, p.Reason("why", figures={"left_s": float("inf")}))


@pytest.mark.parametrize(
    ("promises", "said"),
    [(False, "a journal holds finite figures alone"), (True, "a start is promised at a finite time")],
)
def test_what_no_journal_holds_is_refused(promises: bool, said: str) -> None:  # noqa: FBT001 - a case
    with pytest.raises(PolicyError, match=said):
        records_of([rigid("a", 1, 3.0)], Endless(promises=promises))


def test_of_a_head_that_could_not_start_at_all_no_time_is_told() -> None:
    core = Driven(make("fcfs"))
    core.tell([e.Submitted(1, rigid("a", 1, 3.0).spec)], 0.0)
    [head] = core.state.jobs.values()
    assert shrink_reason(head, 2.5).figures == {"wait_saved_s": 2.5}
    assert shrink_reason(head, float("inf")).figures == {}

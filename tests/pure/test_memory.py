"""What a policy remembers: whole, and as changes."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest
from workloads import records_of, rigid

from pliant.core import records as r
from pliant.core.core import replay
from pliant.policy import view as p
from pliant.policy.entitled.entitled import Entitled
from pliant.policy.entitled.notes import Notes
from pliant.policy.memory import merged
from pliant.policy.registry import make


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


def test_notes_tell_what_has_changed_alone() -> None:
    notes = Notes()
    first = notes.tell({"a": 1, "b": None}, {1: [1.0], 2: None})
    assert first == p.Remember({"a": 1, "jobs": {"1": [1.0]}})
    memory = merged({}, first.memory)
    assert notes.are(memory)
    assert notes.tell({"a": 1, "b": None}, {2: None}) is None
    second = notes.tell({"a": 1, "b": 2.0}, {1: None, 3: [3.0]})
    assert second == p.Remember({"b": 2.0, "jobs": {"1": None, "3": [3.0]}}, merge=True)
    assert not notes.are(dict(memory))
    assert notes.are(merged(memory, second.memory))
    assert not notes.are({})


def test_a_policy_object_may_be_asked_about_two_clusters_in_turn() -> None:
    """As if there were one for each."""
    jobs = [
        [rigid("a", 1, 30.0), rigid("b", 2, 30.0, at=1.0)],
        [rigid("c", 2, 20.0), rigid("d", 1, 30.0, at=1.0)],
    ]
    alone = [records_of(each, Entitled(), nodes=2) for each in jobs]
    policy = Entitled()
    assert [records_of(each, policy, nodes=2) for each in jobs] == alone

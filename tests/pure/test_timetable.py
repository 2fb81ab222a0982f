"""What a program reads of when to resize itself, where no scheduler is."""

from __future__ import annotations

import pytest

from pliant.job.decisions import NEVER, Action, Decision
from pliant.job.timetable import Due, Timetable, TimetableHost, TimetableOrders, read
from pliant.model.errors import PliantError
from pliant.plan.choose import SpawnOption, SpawnPreferences
from pliant.plan.shrink import ShrinkMethod
from pliant.plan.spawn import Method, Strategy


def test_nothing_is_said_or_all() -> None:
    assert read({}) is None
    assert read({"PLIANT_RESIZE_AT": "", "PLIANT_RESIZE_METHOD": "?"}) is None
    assert read({"PLIANT_RESIZE_AT": "3:2"}) == TimetableOrders((Due(3, 2),), ())
    said = {
        "PLIANT_RESIZE_AT": "0:2,100:1",
        "PLIANT_RESIZE_HOSTS": "a:2, b:3",
        "PLIANT_RESIZE_METHOD": "Baseline",
        "PLIANT_RESIZE_STRATEGY": "diffusive, Asynchronous,one",
        "PLIANT_RESIZE_SHRINK": "zombie",
    }
    hosts = (TimetableHost("a", 2), TimetableHost("b", 3))
    assert read(said) == TimetableOrders(
        (Due(0, 2), Due(100, 1)),
        hosts,
        SpawnPreferences(Method.BASELINE, Strategy.DIFFUSIVE, ShrinkMethod.ZOMBIE, frozenset(SpawnOption)),
    )


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("AT", "100", "PLIANT_RESIZE_AT: '100' is no step and number of nodes, such as 100:8"),
        ("AT", "100:0", "'100:0' is no step"),
        ("AT", "-1:2", "'-1:2' is no step"),
        ("AT", "9:2,9:3", "step 9 comes after step 9"),
        ("AT", "9:3", "PLIANT_RESIZE_AT asks for 3 nodes, and PLIANT_RESIZE_HOSTS names 2: name more"),
        ("AT", "9:a=0", "PLIANT_RESIZE_AT: '9:a=0' is no step and number of nodes"),
        ("AT", "9:a=1+b", "nor are there slots of nodes in it, one at least of each, such as 100:n1=2+n2=1"),
        ("AT", "9:a=1+a=1", "PLIANT_RESIZE_AT: at step 9 a node is named twice"),
        (
            "AT",
            "9:c=1",
            "at step 9 'c' is named, and not in PLIANT_RESIZE_HOSTS: name it there, with its slots",
        ),
        ("AT", "9:a=2", "step 9 asks for 2 slots of 'a', and PLIANT_RESIZE_HOSTS gives it 1"),
        ("HOSTS", "a:1,b", "PLIANT_RESIZE_HOSTS: 'b' is no node with its slots, such as n0:2"),
        ("HOSTS", "a:1,a:1,b:1", "a node is named twice"),
        ("METHOD", "spawn", "PLIANT_RESIZE_METHOD is 'spawn': it must be one of merge, baseline"),
        (
            "SHRINK",
            "sleep",
            "PLIANT_RESIZE_SHRINK is 'sleep': it must be one of termination, zombie, respawn",
        ),
        (
            "STRATEGY",
            "one,cube",
            "PLIANT_RESIZE_STRATEGY is 'one,cube': 'cube' is none of single, sequential, hypercube, diffusive, asynchronous, one",
        ),
        ("STRATEGY", "single,diffusive", "single and diffusive exclude each other"),
    ],
)
def test_what_cannot_be_is_named(name: str, text: str, problem: str) -> None:
    said = {"PLIANT_RESIZE_AT": "1:2", "PLIANT_RESIZE_HOSTS": "a:1,b:1", f"PLIANT_RESIZE_{name}": text}
    with pytest.raises(PliantError) as refused:
        read(said)
    assert problem in str(refused.value)


def test_a_timetable_decides_at_its_steps_and_leaves_out_what_changes_nothing() -> None:
    table = Timetable((Due(2, 4), Due(5, 4), Due(7, 1)), 1)
    assert [table.following(step) for step in (0, 2, 3, 7, 8)] == [2, 2, 7, 7, NEVER]
    assert table.decide(2) == Decision(Action.EXPAND, resize=1)
    assert table.decide(7) == Decision(Action.SHRINK, resize=3)
    assert [table.due(1), table.due(3)] == [Due(2, 4), Due(7, 1)]


def test_slots_of_nodes_are_read_and_decided_among_the_others() -> None:
    orders = read({"PLIANT_RESIZE_AT": "1:2,4:b=1,6:a=2 + b=2,8:2,9:1", "PLIANT_RESIZE_HOSTS": "a:2,b:2"})
    assert orders is not None
    assert orders.due[1:3] == (Due(4, 0, (("b", 1),)), Due(6, 0, (("a", 2), ("b", 2))))
    table = Timetable(orders.due, 1)
    assert table.decide(4) == Decision(Action.SLOTS, resize=2)
    assert [table.following(step) for step in (2, 5, 7)] == [4, 6, 9]  # it is on 2 nodes at step 8

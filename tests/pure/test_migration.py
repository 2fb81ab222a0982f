"""Who has which rank after a migration, and what moves in one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.job.negotiation import leaving
from pliant.plan.data.splits import even
from pliant.plan.data.spreads import line
from pliant.plan.data.traffic import lower_bound, traffic
from pliant.plan.places import successors
from pliant_lab.injection.standins.team import after


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.integers(0, 9))
def test_who_stays_keeps_its_order_and_who_arrives_takes_the_places_of_who_leaves(
    stays: list[bool], arriving: int
) -> None:
    if not any(stays) and not arriving:
        with pytest.raises(ValueError, match=f"all {len(stays)} groups would leave"):
            successors(stays, arriving)
        return
    order = successors(stays, arriving)
    staying = [number for number, stay in enumerate(stays) if stay]
    assert [number for number in order if number < len(stays)] == staying
    assert [number for number in order if number >= len(stays)] == [
        len(stays) + each for each in range(arriving)
    ]
    if arriving >= stays.count(False):
        assert all(order[number] == number for number in staying)


@given(st.integers(0, 60), st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 3))
def test_of_equal_groups_only_what_the_leaving_ones_have_moves_and_once(
    rows: int, stays: list[bool], ranks: int
) -> None:
    new = tuple((10 + number, ranks) for number in range(stays.count(False)))
    gone = tuple(number for number, stay in enumerate(stays) if not stay)
    _, targets = after(tuple((number, ranks) for number in range(len(stays))), gone, new)
    sources, split = range(len(stays) * ranks), line(even(rows, len(stays) * ranks))
    plan = traffic(split, split, sources, targets)
    theirs = sum(split.size(rank) for rank in sources if not stays[rank // ranks])
    assert plan.moved == theirs == lower_bound(split, split, sources, targets)
    assert all(not stays[move.source // ranks] for move in plan.moves)
    assert all(move.target >= len(sources) for move in plan.moves)


def test_a_group_of_which_ranks_were_woken_is_there_twice_and_leaves_as_a_whole() -> None:
    groups, targets = after(((0, 1), (1, 2), (0, 1)), (0,), ((2, 2),))
    assert (groups, targets) == ([2, 1], [4, 5, 1, 2])


def test_all_groups_may_leave_where_others_arrive_and_none_else() -> None:
    assert leaving((3, 4), 0, (4, 3), least=0) == (3, 4)
    with pytest.raises(ValueError, match="2 groups cannot become 0 by giving back 3, 4"):
        leaving((3, 4), 0, (3, 4))
    with pytest.raises(ValueError, match="2 groups cannot become -1"):
        leaving((3, 4), -1, (), least=0)

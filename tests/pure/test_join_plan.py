from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.plan.join import star


@given(st.lists(st.integers(0, 99), min_size=1, max_size=20, unique=True), st.integers(0, 9))
def test_every_group_joins_once_on_a_port_of_its_own(groups: list[int], resize: int) -> None:
    plan = star(groups, resize)
    assert [plan.leader, *(step.connecting for step in plan.steps)] == groups
    keys = [*plan.up.values(), *(step.key for step in plan.steps)]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(f"r{resize}/") for key in keys)
    for i, step in enumerate(plan.steps):
        assert step.accepting == tuple(groups[: i + 1])
        assert step.turn == i + 1


def test_a_lone_group_has_no_steps() -> None:
    assert star([4], 0).steps == ()


def test_wrong_groups_are_named() -> None:
    with pytest.raises(ValueError, match="not \\[1, 1\\]"):
        star([1, 1], 0)

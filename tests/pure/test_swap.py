"""Arrays that change their data among each other, as a program's variables would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.mpi.data.arrays import Array, Seat, rotate
from pliant.mpi.data.uses import Uses
from pliant.mpi.team import Team
from pliant.mpi.wait import Wait
from pliant.plan.data.layouts import Block, Layout


def no_team(what: str) -> Team:
    raise AssertionError(what)


def array(name: str, layout: Layout | None = None, **more: Any) -> Array:
    given = {"shape": (4,), "dtype": "f8", "layout": layout or Block(), **more}
    return Array(name, seat=Seat(no_team, Wait(1.0), lambda _: 0, Uses(), str), **given)


def filled(names: str) -> list[Array]:
    made = [array(name) for name in names]
    for each in made:
        each.hold(np.full(4, ord(each.name), "f8"), 1, 0)
    return made


def held_blocks(arrays: list[Array]) -> list[int]:
    return [int(block[0]) for each in arrays if (block := each.held_block()) is not None]


@given(
    st.lists(st.permutations(range(4)).flatmap(lambda p: st.integers(2, 4).map(lambda n: p[:n])), max_size=8)
)
def test_arrays_rotate_as_variables_would(turns: list[list[int]]) -> None:
    arrays = filled("abcd")
    variables = held_blocks(arrays)
    for turn in turns:
        rotate([arrays[number] for number in turn])
        moved = [variables[number] for number in (*turn[1:], turn[0])]
        for number, value in zip(turn, moved, strict=True):
            variables[number] = value
    assert held_blocks(arrays) == variables
    assert [each.name for each in arrays] == list("abcd")


def test_nothing_is_copied_and_views_go_along() -> None:
    a, b = filled("ab")
    block = a.held_block()
    rotate([a, b])
    assert b.held_block() is block


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ([], "two or more different arrays, and these are: none"),
        ([array("a")], "two or more different arrays, and these are: 'a'"),
        ([array("a"), array("b"), array("a")], "these are: 'a', 'b', 'a'"),
        ([array("a"), array("b", shape=(5,))], "differ"),
        ([array("a"), array("b", dtype="f4")], "differ"),
        ([array("a"), array("b", Block(halo=1))], "differ"),
        ([array("a"), array("b", constant=True)], "'b' was registered with constant=True"),
    ],
)
def test_what_cannot_be_swapped_is_named(arrays: list[Array], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        rotate(arrays)

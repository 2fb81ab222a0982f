from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.plan.redistribute import Span, Traffic, block, traffic

rows_ = st.integers(0, 200)
parts_ = st.integers(1, 40)


@st.composite
def resizes(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    """Rows, and the ranks that hold them before and after: an expansion, a shrink or any two subsets."""
    ranks = draw(st.integers(1, 24))
    everyone = list(range(ranks))
    some = st.lists(st.sampled_from(everyone), min_size=1, unique=True).map(sorted)
    kind = draw(st.sampled_from(["expand", "shrink", "any"]))
    if kind == "expand":
        return draw(rows_), everyone[: draw(st.integers(1, ranks))], everyone
    if kind == "shrink":
        return draw(rows_), everyone, draw(some)
    return draw(rows_), draw(some), draw(some)


def partition(rows: int, parts: int) -> tuple[Span, ...]:
    """All parts of the axis, in order."""
    return tuple(block(rows, parts, part) for part in range(parts))


def moved_rows(plan: Traffic) -> int:
    return sum(move.stop - move.start for move in plan.moves)


@given(rows_, parts_)
def test_partition_is_numpys(rows: int, parts: int) -> None:
    expected = [len(part) for part in np.array_split(np.arange(rows), parts)]
    spans = partition(rows, parts)
    assert [span.rows for span in spans] == expected
    assert [row for span in spans for row in range(*span)] == list(range(rows))


@given(resizes())
def test_every_row_arrives_once_from_where_it_was(case: tuple[int, list[int], list[int]]) -> None:
    rows, sources, targets = case
    old = dict(zip(sources, partition(rows, len(sources)), strict=True))
    new = dict(zip(targets, partition(rows, len(targets)), strict=True))
    plan = traffic(rows, sources, targets)
    arrived: list[int] = []
    for source, target, start, stop in [*plan.moves, *((r, r, a, b) for r, a, b in plan.kept)]:
        assert start < stop
        assert old[source].start <= start <= stop <= old[source].stop
        assert new[target].start <= start <= stop <= new[target].stop
        arrived += range(start, stop)
    assert sorted(arrived) == list(range(rows))


@given(resizes())
def test_nothing_is_sent_that_the_receiver_holds(case: tuple[int, list[int], list[int]]) -> None:
    rows, sources, targets = case
    old = dict(zip(sources, partition(rows, len(sources)), strict=True))
    for move in traffic(rows, sources, targets).moves:
        assert move.source != move.target
        held = old.get(move.target, Span(0, 0))
        assert move.stop <= held.start or held.stop <= move.start


@given(resizes())
def test_as_few_messages_as_the_blocks_allow(case: tuple[int, list[int], list[int]]) -> None:
    rows, sources, targets = case
    plan = traffic(rows, sources, targets)
    pairs = [(move.source, move.target) for move in plan.moves]
    assert len(set(pairs)) == len(pairs)
    assert len(plan.moves) + len(plan.kept) < len(sources) + len(targets)


@given(rows_, parts_)
def test_identity_moves_nothing(rows: int, parts: int) -> None:
    plan = traffic(rows, range(parts), range(parts))
    assert plan.moves == ()
    assert moved_rows(plan) == 0


@given(resizes())
def test_the_way_back_is_the_mirror(case: tuple[int, list[int], list[int]]) -> None:
    rows, sources, targets = case
    there, back = traffic(rows, sources, targets), traffic(rows, targets, sources)
    assert [(m.target, m.source, m.start, m.stop) for m in there.moves] == [tuple(m) for m in back.moves]
    assert there.kept == back.kept


def test_hundreds_of_ranks_are_cheap() -> None:
    plan = traffic(1_000_000, range(300), range(150, 300))
    assert moved_rows(plan) + sum(k.stop - k.start for k in plan.kept) == 1_000_000


def test_wrong_ranks_are_named() -> None:
    with pytest.raises(ValueError, match="targets must be one or more different ranks, not \\[1, 1\\]"):
        traffic(5, [0], [1, 1])
    with pytest.raises(ValueError, match="no part 3 of 9 rows in 3 parts"):
        block(9, 3, 3)

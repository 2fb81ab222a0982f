"""Layouts, and the traffic between any two of them, against the same said row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.plan.data.layouts import (
    Block,
    BlockCyclic,
    Irregular,
    Layout,
    Replicated,
    Weighted,
    even,
    with_halo,
)
from pliant.plan.data.splits import RowRange, Split
from pliant.plan.data.traffic import Traffic, halo_moves, lower_bound, traffic

rows_ = st.integers(0, 120)
parts_ = st.integers(1, 12)


@st.composite
def layouts(draw: st.DrawFn, rows: int) -> Layout:
    match draw(st.sampled_from(["block", "cyclic", "irregular", "weighted", "replicated"])):
        case "block":
            return Block()
        case "cyclic":
            return BlockCyclic(draw(st.integers(1, 9)))
        case "irregular":
            return Irregular(_parted(draw, rows))
        case "weighted":
            return Weighted(draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows)))
        case _:
            return Replicated()


def _parted(draw: Any, rows: int) -> list[int]:
    at = sorted(draw(st.lists(st.integers(0, rows), max_size=6)))
    return [stop - start for start, stop in zip([0, *at], [*at, rows], strict=True)]


@st.composite
def resizes(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    """Rows, and the ranks that hold them before and after: an expansion, a shrink or any two subsets."""
    ranks = draw(parts_)
    everyone = list(range(ranks))
    some = st.lists(st.sampled_from(everyone), min_size=1, unique=True).map(sorted)
    kind = draw(st.sampled_from(["expand", "shrink", "any"]))
    if kind == "expand":
        return draw(rows_), everyone[: draw(st.integers(1, ranks))], everyone
    if kind == "shrink":
        return draw(rows_), everyone, draw(some)
    return draw(rows_), draw(some), draw(some)


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, Split, Split, list[int], list[int]]:
    rows, sources, targets = draw(resizes())
    old, new = draw(layouts(rows)), draw(layouts(rows))
    if draw(st.booleans()):
        new = old
    return rows, old.split(rows, len(sources)), new.split(rows, len(targets)), sources, targets


def numbers(split: Split, part: int) -> list[int]:
    return [row for stripe in split.held(part) for span in stripe.spans() for row in range(*span)]


def carried(plan: Traffic) -> Iterator[tuple[int, int, int]]:
    """Source, target and row of all that is sent or kept."""
    for move in [*plan.moves, *plan.kept]:
        for stripe in move.stripes:
            for span in stripe.spans():
                for row in range(*span):
                    yield move.source, move.target, row


def carry(held: dict[int, list[Any]], plan: Traffic, old: Split, new: Split, sources: Sequence[int], targets: Sequence[int]) -> dict[int, list[Any]]:  # fmt: skip
    """What each target then holds, in its own order, by the places that the splits say."""
    got: dict[int, list[Any]] = {rank: [None] * new.size(part) for part, rank in enumerate(targets)}
    for move in [*plan.moves, *plan.kept]:
        for stripe in move.stripes:
            here = old.place(sources.index(move.source), stripe)
            there = new.place(targets.index(move.target), stripe)
            for one, other in zip(here.spans(), there.spans(), strict=True):
                got[move.target][slice(*other)] = held[move.source][slice(*one)]
    return got


@given(rows_, parts_, st.data())
def test_a_layout_has_each_row_once_and_says_where_it_is(rows: int, parts: int, data: st.DataObject) -> None:
    layout = data.draw(layouts(rows))
    layout.check(rows)
    split = layout.split(rows, parts)
    assert split.parts == parts
    every = [numbers(split, part) for part in range(parts)]
    for part, mine in enumerate(every):
        assert mine == sorted(set(mine))
        assert split.size(part) == len(mine)
        places = [
            row for s in split.held(part) for span in split.place(part, s).spans() for row in range(*span)
        ]
        assert places == [*range(len(mine))]
    times = parts if isinstance(layout, Replicated) else 1
    assert Counter(row for mine in every for row in mine) == dict.fromkeys(range(rows), times)


@given(cases())
def test_every_row_arrives_once_from_where_it_was(
    case: tuple[int, Split, Split, list[int], list[int]],
) -> None:
    _, old, new, sources, targets = case
    plan = traffic(old, new, sources, targets)
    arrived: dict[int, list[int]] = {rank: [] for rank in targets}
    was = {rank: set(numbers(old, part)) for part, rank in enumerate(sources)}
    for source, target, row in carried(plan):
        assert row in was[source]
        arrived[target].append(row)
    assert {rank: sorted(rows) for rank, rows in arrived.items()} == {
        rank: numbers(new, part) for part, rank in enumerate(targets)
    }


@given(cases())
def test_no_more_is_sent_than_what_the_receivers_lack(
    case: tuple[int, Split, Split, list[int], list[int]],
) -> None:
    _, old, new, sources, targets = case
    plan = traffic(old, new, sources, targets)
    was = {rank: set(numbers(old, part)) for part, rank in enumerate(sources)}
    lacked = sum(len(set(numbers(new, part)) - was.get(rank, set())) for part, rank in enumerate(targets))
    assert plan.moved == lower_bound(old, new, sources, targets) == lacked
    pairs = [move[:2] for move in [*plan.moves, *plan.kept]]
    assert len(set(pairs)) == len(pairs)


@given(st.data())
def test_two_redistributions_come_to_the_same_as_the_direct_one(data: st.DataObject) -> None:
    rows = data.draw(rows_)
    some = st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True)
    ranks = [data.draw(some) for _ in range(3)]
    splits = [data.draw(layouts(rows)).split(rows, len(each)) for each in ranks]
    first = {rank: list[Any](numbers(splits[0], part)) for part, rank in enumerate(ranks[0])}

    def go(held: dict[int, list[Any]], a: int, b: int) -> dict[int, list[Any]]:
        plan = traffic(splits[a], splits[b], ranks[a], ranks[b])
        return carry(held, plan, splits[a], splits[b], ranks[a], ranks[b])

    assert go(go(first, 0, 1), 1, 2) == go(first, 0, 2)
    assert go(first, 0, 2) == {rank: numbers(splits[2], part) for part, rank in enumerate(ranks[2])}


@given(cases())
def test_the_way_back_sends_as_much_between_the_same_ranks(
    case: tuple[int, Split, Split, list[int], list[int]],
) -> None:
    _, old, new, sources, targets = case
    if any(isinstance(split, type(Replicated().split(0, 1))) for split in (old, new)):
        return
    there, back = traffic(old, new, sources, targets), traffic(new, old, targets, sources)
    assert {(m.target, m.source): m.rows for m in there.moves} == {m[:2]: m.rows for m in back.moves}


@given(resizes())
def test_as_few_messages_as_blocks_allow(case: tuple[int, list[int], list[int]]) -> None:
    rows, sources, targets = case
    plan = traffic(even(rows, len(sources)), even(rows, len(targets)), sources, targets)
    assert len(plan.moves) + len(plan.kept) < len(sources) + len(targets)
    assert all(len(move.stripes) == 1 for move in [*plan.moves, *plan.kept])


@given(rows_, parts_, st.data())
def test_where_nothing_changes_nothing_moves(rows: int, parts: int, data: st.DataObject) -> None:
    split = data.draw(layouts(rows)).split(rows, parts)
    assert traffic(split, split, range(parts), range(parts)).moves == ()


@given(rows_, parts_)
def test_blocks_are_numpys(rows: int, parts: int) -> None:
    expected = [len(part) for part in np.array_split(np.arange(rows), parts)]
    assert [even(rows, parts).size(part) for part in range(parts)] == expected


@given(st.data())
def test_counts_are_taken_as_they_are_and_their_curve_at_other_sizes(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=8))
    layout = Irregular(counts)
    split = layout.split(sum(counts), len(counts))
    assert [split.size(part) for part in range(len(counts))] == counts
    double = layout.split(sum(counts), 2 * len(counts))
    assert double.at[::2] == split.at


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), parts_)
def test_weights_are_as_equal_as_their_rows_allow(weights: list[int], parts: int) -> None:
    at = Weighted(weights).split(len(weights), parts).at
    if not sum(weights):
        return
    for part in range(1, parts):
        wanted = sum(weights) * part / parts
        found = abs(sum(weights[: at[part]]) - wanted)
        assert found == pytest.approx(
            min(abs(sum(weights[:cut]) - wanted) for cut in range(len(weights) + 1))
        )


@given(st.data())
def test_halos_have_the_rows_around_whoever_owns_them(data: st.DataObject) -> None:
    rows, parts, halo = data.draw(rows_), data.draw(parts_), data.draw(st.integers(0, 40))
    layout = Irregular(_parted(data.draw, rows)) if data.draw(st.booleans()) else Block()
    split = layout.split(rows, parts)
    every = [halo_moves(split, halo, part) for part in range(parts)]
    for part, (received, _) in enumerate(every):
        mine = split.span(part)
        seen = set(range(*with_halo(mine, halo, rows))) - set(range(*mine))
        got = [row for move in received for row in range(*move.span)]
        assert sorted(got) == sorted(seen)
        for peer, span in received:
            assert split.span(peer).start <= span.start < span.stop <= split.span(peer).stop
            assert (part, span) in every[peer][1]
    assert sum(len(sent) for _, sent in every) == sum(len(received) for received, _ in every)


def test_the_cost_does_not_grow_with_the_rows() -> None:
    rows = 10**15
    for old, new, most in (
        (Block(), Block(), 450),
        (Irregular([rows // 4, 3 * rows // 4]), Block(), 450),
        (BlockCyclic(3), BlockCyclic(3), 2 * 300),
        (BlockCyclic(64), Block(), 300 * 3 * 300),
    ):
        split = old.split(rows, 300), new.split(rows, 150)
        plan = traffic(*split, range(300), range(150, 300))
        assert sum(len(move.stripes) for move in [*plan.moves, *plan.kept]) <= most
        assert sum(move.rows for move in [*plan.moves, *plan.kept]) == rows
        assert plan.moved == lower_bound(*split, range(300), range(150, 300))


def test_what_cannot_be_is_named() -> None:
    blocks = even(5, 1)
    with pytest.raises(ValueError, match="targets must be one or more different ranks, not \\[1, 1\\]"):
        traffic(blocks, even(5, 2), [0], [1, 1])
    with pytest.raises(ValueError, match="2 targets for 1 parts"):
        traffic(blocks, blocks, [0], [1, 2])
    with pytest.raises(ValueError, match="spread over 0 parts"):
        even(9, 0)
    for layout, said in (
        (Irregular([3, 4]), "cover 7 rows of 9"),
        (Weighted([1.0]), "1 weights for 9 rows"),
        (BlockCyclic(0), "a block of 0 rows cannot be dealt out"),
        (Block(halo=-1), "a halo of -1 rows"),
        (Block(halo=1.5), "a halo of 1.5 rows"),  # type: ignore[arg-type]
        (BlockCyclic(2.5), "a block of 2.5 rows"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=said):
            layout.check(9)
    for counts in ([2, -1], [2.9, 3.9], "23"):
        with pytest.raises(ValueError, match="whole numbers, 0 or more each"):
            Irregular(counts)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="finite numbers"):
        Weighted([float("nan")])


def test_what_is_told_of_a_layout_is_short_and_tells_layouts_apart() -> None:
    one, other = (Weighted([*range(100_000), last]) for last in (1, 2))
    assert repr(one) != repr(other)
    assert len(repr(one)) < 100
    assert repr(Irregular([1, 2])) == "Irregular(1, 2, axis=0, halo=0)"
    assert repr(Irregular([1_000_000, 1_000_001])) != repr(Irregular([1_000_001, 1_000_000]))
    assert repr(Weighted([1, 1.0000001, 2])) != repr(Weighted([1, 1, 2.0000001]))
    assert RowRange(2, 5).rows == 3

"""Layouts, and the traffic between any two of them, against the same said row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.plan.data.grids import Grid, balanced
from pliant.plan.data.layouts import (
    AxisLayout,
    Block,
    BlockCyclic,
    Irregular,
    Layout,
    Replicated,
    Weighted,
    spread,
)
from pliant.plan.data.splits import RowRange, Split, Stripe, even
from pliant.plan.data.spreads import Patch, Spread, along, halo_moves, line
from pliant.plan.data.traffic import Traffic, lower_bound, traffic

rows_ = st.integers(0, 120)
parts_ = st.integers(1, 12)


@st.composite
def layouts(draw: st.DrawFn, rows: int) -> AxisLayout:
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
def grids(draw: st.DrawFn, shape: tuple[int, ...], *, halo: int = 0) -> Grid:
    axes = draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True))
    periods = [draw(st.booleans()) for _ in axes]
    halos = [
        draw(st.integers(0, min(halo, shape[axis]) if periodic else halo))
        for axis, periodic in zip(axes, periods, strict=True)
    ]
    ways: list[Any] = ["balanced", "surface", lambda ranks: (ranks, *[1] * (len(axes) - 1))]
    dims = draw(st.sampled_from(ways))
    return Grid(tuple(axes), tuple(halos), tuple(periods), dims, draw(st.booleans()))


@st.composite
def spreads(draw: st.DrawFn, shape: tuple[int, ...], parts: int) -> Spread:
    if draw(st.booleans()):
        return spread(draw(grids(shape, halo=3)), shape, parts)
    axis = draw(st.integers(0, len(shape) - 1))
    return along(draw(layouts(shape[axis])).split(shape[axis], parts), axis, shape)


shapes = st.one_of(
    rows_.map(lambda rows: (rows,)),
    st.tuples(st.integers(0, 14), st.integers(0, 14)),
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6)),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Spread, Spread, list[int], list[int]]:
    shape = draw(shapes)
    _, sources, targets = draw(resizes())
    return draw(spreads(shape, len(sources))), draw(spreads(shape, len(targets))), sources, targets


def numbers(split: Split, part: int) -> list[int]:
    return [row for stripe in split.held(part) for span in stripe.spans() for row in range(*span)]


def rows_of(stripe: Stripe) -> list[int]:
    return [row for span in stripe.spans() for row in range(*span)]


def cells_of(shape: Sequence[int], patches: Iterable[Patch]) -> list[int]:
    """The numbers of the cells in an array of this shape."""
    whole = np.arange(prod(shape)).reshape(shape)
    return [cell for patch in patches for cell in whole[np.ix_(*map(rows_of, patch))].reshape(-1).tolist()]


def held(spread: Spread, part: int) -> list[int]:
    """The cells that a part owns, in their order."""
    return sorted(cells_of(spread.shape, spread.held(part)))


def carried(plan: Traffic, shape: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Source, target and cell of all that is sent or kept."""
    for move in [*plan.moves, *plan.kept]:
        for cell in cells_of(shape, move.patches):
            yield move.source, move.target, cell


def carry(have: dict[int, Any], plan: Traffic, old: Spread, new: Spread, sources: Sequence[int], targets: Sequence[int]) -> dict[int, Any]:  # fmt: skip
    """What each target then holds, by the places that the spreads say; -1 where nothing has come, as in its halo."""
    got = {rank: np.full(new.local_shape(part), -1) for part, rank in enumerate(targets)}
    for move in [*plan.moves, *plan.kept]:
        for patch in move.patches:
            here = old.place(sources.index(move.source), patch)
            there = new.place(targets.index(move.target), patch)
            got[move.target][np.ix_(*map(rows_of, there))] = have[move.source][np.ix_(*map(rows_of, here))]
    return got


def filled(spread: Spread, ranks: Sequence[int]) -> dict[int, Any]:
    """What each rank holds of an array whose cells are their numbers; -1 in the halo."""
    whole = np.arange(prod(spread.shape)).reshape(spread.shape)
    found = {}
    for part, rank in enumerate(ranks):
        found[rank] = np.full(spread.local_shape(part), -1)
        for patch in spread.held(part):
            found[rank][np.ix_(*map(rows_of, spread.place(part, patch)))] = whole[
                np.ix_(*map(rows_of, patch))
            ]
    return found


def same(one: dict[int, Any], other: dict[int, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[rank], other[rank]) for rank in one)


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
def test_every_cell_arrives_once_from_where_it_was(case: tuple[Spread, Spread, list[int], list[int]]) -> None:
    old, new, sources, targets = case
    plan = traffic(*case)
    arrived: dict[int, list[int]] = {rank: [] for rank in targets}
    was = {rank: set(held(old, part)) for part, rank in enumerate(sources)}
    for source, target, cell in carried(plan, old.shape):
        assert cell in was[source]
        arrived[target].append(cell)
    assert {rank: sorted(cells) for rank, cells in arrived.items()} == {
        rank: held(new, part) for part, rank in enumerate(targets)
    }
    assert same(carry(filled(old, sources), plan, *case), filled(new, targets))


@given(cases())
def test_no_more_is_sent_than_what_the_receivers_lack(
    case: tuple[Spread, Spread, list[int], list[int]],
) -> None:
    old, new, sources, targets = case
    plan = traffic(*case)
    was = {rank: set(held(old, part)) for part, rank in enumerate(sources)}
    lacked = sum(len(set(held(new, part)) - was.get(rank, set())) for part, rank in enumerate(targets))
    assert plan.moved == lower_bound(*case) == lacked
    pairs = [move[:2] for move in [*plan.moves, *plan.kept]]
    assert len(set(pairs)) == len(pairs)


@given(cases())
def test_what_a_rank_plans_for_itself_is_its_part_of_the_whole_plan(
    case: tuple[Spread, Spread, list[int], list[int]],
) -> None:
    _, _, sources, targets = case
    whole = traffic(*case)
    for rank in {*sources, *targets}:
        own = traffic(*case, rank)
        assert sorted(own.moves) == sorted(move for move in whole.moves if rank in move[:2])
        assert own.kept == tuple(move for move in whole.kept if move.source == rank)


@given(st.data())
def test_two_redistributions_come_to_the_same_as_the_direct_one(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    some = st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True)
    ranks = [data.draw(some) for _ in range(3)]
    three = [data.draw(spreads(shape, len(each))) for each in ranks]

    def go(have: dict[int, Any], a: int, b: int) -> dict[int, Any]:
        case = three[a], three[b], ranks[a], ranks[b]
        return carry(have, traffic(*case), *case)

    first = filled(three[0], ranks[0])
    assert same(go(go(first, 0, 1), 1, 2), go(first, 0, 2))
    assert same(go(first, 0, 2), filled(three[2], ranks[2]))


@given(cases())
def test_the_way_back_sends_as_much_between_the_same_ranks(
    case: tuple[Spread, Spread, list[int], list[int]],
) -> None:
    old, new, sources, targets = case
    if old.replicated or new.replicated:
        return
    there, back = traffic(*case), traffic(new, old, targets, sources)
    assert {(m.target, m.source): m.cells for m in there.moves} == {m[:2]: m.cells for m in back.moves}


@given(resizes())
def test_as_few_messages_as_blocks_allow(case: tuple[int, list[int], list[int]]) -> None:
    rows, sources, targets = case
    plan = traffic(line(even(rows, len(sources))), line(even(rows, len(targets))), sources, targets)
    assert len(plan.moves) + len(plan.kept) < len(sources) + len(targets)
    assert all(len(move.patches) == 1 for move in [*plan.moves, *plan.kept])


@given(shapes, parts_, st.data())
def test_where_nothing_changes_nothing_moves(shape: tuple[int, ...], parts: int, data: st.DataObject) -> None:
    same = data.draw(spreads(shape, parts))
    assert traffic(same, same, range(parts), range(parts)).moves == ()


@given(cases(), st.data())
def test_an_array_that_changes_its_shape_keeps_what_is_in_both(
    case: tuple[Spread, Spread, list[int], list[int]], data: st.DataObject
) -> None:
    old, _, sources, targets = case
    shape = tuple(data.draw(st.integers(0, rows + 3)) for rows in old.shape)
    new = data.draw(spreads(shape, len(targets)))
    common = tuple(map(min, old.shape, shape))
    plan = traffic(old.clipped(common), new.clipped(common), sources, targets)
    box = tuple(slice(0, rows) for rows in common)
    expected = np.full(shape, -1)
    expected[box] = np.arange(prod(old.shape)).reshape(old.shape)[box]
    for rank, mine in carry(filled(old, sources), plan, old, new, sources, targets).items():
        for patch in new.held(targets.index(rank)):
            place = np.ix_(*map(rows_of, new.place(targets.index(rank), patch)))
            assert np.array_equal(mine[place], expected[np.ix_(*map(rows_of, patch))])


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


def exchanged(spread: Spread, *, corners: bool) -> dict[int, Any]:
    """What each part holds when all halos are filled by their moves, each pair's in one order."""
    have = filled(spread, range(spread.parts))
    plans = [halo_moves(spread, part, corners=corners) for part in range(spread.parts)]
    messages: dict[tuple[int, int], list[Any]] = {}
    for part, plan in enumerate(plans):
        for peer, at in plan.sent:
            messages.setdefault((part, peer), []).append(have[part][at].copy())
    for part, plan in enumerate(plans):
        for source, target in plan.copied:
            have[part][target] = have[part][source]
        for peer, at in plan.received:
            have[part][at] = messages[peer, part].pop(0)
    assert not any(messages.values())
    return have


@given(shapes, parts_, st.data())
def test_halos_have_the_cells_around_whoever_owns_them(
    shape: tuple[int, ...], parts: int, data: st.DataObject
) -> None:
    layout: Layout
    if data.draw(st.booleans()):
        layout = data.draw(grids(shape, halo=4))
    else:
        axis, halo = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(0, 20))
        counts = _parted(data.draw, shape[axis])
        layout = Irregular(counts, axis, halo) if data.draw(st.booleans()) else Block(axis, halo)
    over = spread(layout, shape, parts)
    corners = not isinstance(layout, Grid) or layout.corners
    whole = np.arange(prod(shape)).reshape(shape)
    for part, mine in exchanged(over, corners=corners).items():
        windows = [axis.window(at) for axis, at in zip(over.axes, over.coordinates(part), strict=True)]
        own = [axis.split.span(at) for axis, at in zip(over.axes, over.coordinates(part), strict=True)]  # type: ignore[union-attr]
        if not over.size(part):
            continue
        seen = [np.arange(*window) for window in windows]
        around = np.ix_(*(rows % n for rows, n in zip(seen, shape, strict=True)))
        beside = [(rows < span.start) | (rows >= span.stop) for rows, span in zip(seen, own, strict=True)]
        outside = sum(np.meshgrid(*(each.astype(int) for each in beside), indexing="ij"))
        expected = whole[around]
        if not corners:
            expected = np.where(outside > 1, -1, expected)
        assert np.array_equal(mine, expected)


@given(st.integers(1, 400), st.integers(1, 4))
def test_a_balanced_grid_is_as_equal_as_can_be(ranks: int, axes: int) -> None:
    found = balanced(ranks, axes)
    assert prod(found) == ranks
    assert sorted(found, reverse=True) == [*found]
    every = (
        [
            (*some, ranks // prod(some))
            for some in product(range(1, ranks + 1), repeat=axes - 1)
            if ranks % prod(some) == 0
        ]
        if ranks <= 60 and axes < 4
        else [found]
    )
    assert max(found) - min(found) == min(max(each) - min(each) for each in every)


def test_known_grids() -> None:
    """What MPI_Dims_create gives, and by hand: 8 ranks on a long strip stand in a row, on a cube as one."""
    assert [balanced(n, 2) for n in (1, 2, 4, 6, 7, 12, 36)] == [
        (1, 1),
        (2, 1),
        (2, 2),
        (3, 2),
        (7, 1),
        (4, 3),
        (6, 6),
    ]
    assert [balanced(n, 3) for n in (8, 12, 24, 27)] == [(2, 2, 2), (3, 2, 2), (4, 3, 2), (3, 3, 3)]
    surface = Grid(halo=1, dims="surface")
    assert surface.dims_for(8, (1000, 10)) == (8, 1)
    assert surface.dims_for(8, (10, 1000)) == (1, 8)
    assert surface.dims_for(4, (100, 100)) == (2, 2)
    assert Grid((0, 1, 2), dims="surface").dims_for(8, (50, 50, 50)) == (2, 2, 2)
    assert Grid(dims=(0, 2)).dims_for(6, (9, 9)) == (3, 2)
    assert Grid(dims=lambda ranks: (1, ranks)).dims_for(5, (9, 9)) == (1, 5)


def test_parts_are_numbered_in_the_order_of_the_axes() -> None:
    over = Grid((1, 0), dims=(3, 2)).spread((4, 9), 6)
    assert over.dims == (2, 3)
    assert [over.coordinates(part) for part in range(3)] == [(0, 0), (1, 0), (0, 1)]
    assert [over.part_at(over.coordinates(part)) for part in range(6)] == [*range(6)]


def test_layouts_are_equal_where_they_say_the_same() -> None:
    assert Weighted([1, 2]) == Weighted([1, 2]) != Weighted([2, 1])
    assert Irregular([1, 2]) == Irregular([1, 2]) != Irregular([1, 2], halo=1)
    assert len({Weighted([1, 2]), Weighted([1, 2]), Irregular([1, 2])}) == 2


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Grid(()), "axes are one or more different numbers"),
        (lambda: Grid((0, 0)), "axes are one or more different numbers"),
        (lambda: Grid((0, 1.5)), "axes are whole numbers"),  # type: ignore[arg-type]
        (lambda: Grid(halo=-1), "a halo of -1 rows"),
        (lambda: Grid(halo=(1, 2, 3)), "halo has 3 entries for 2 axes"),
        (lambda: Grid(0), "axes are whole numbers, as"),  # type: ignore[arg-type]
        (lambda: Grid(dims=lambda _: 1 // 0).spread((4, 4), 4), r"\(4\): ZeroDivisionError"),  # type: ignore[arg-type, return-value]
        (lambda: Grid(periods=(True,)), "periods has 1 entries for 2 axes"),
        (lambda: Grid(dims="square"), "dims are 'balanced', 'surface', numbers or a function, not 'square'"),
        (lambda: Grid(dims=partial(divmod, 4)), "dims is a function with a name, not functools.partial"),
        (lambda: Grid(dims=(2,)), r"dims \(2,\) need a number"),
        (lambda: Grid(dims=(0, 2)).spread((4, 4), 5), "5 ranks cannot stand in a grid of any x 2"),
        (
            lambda: Grid(dims=lambda _: (1, 2)).spread((4, 4), 4),
            r"\(4\) returned \(1, 2\), which are not 4 ranks",
        ),
        (lambda: Grid().check((4,)), "there is no axis 1"),
        (lambda: Grid(halo=3, periods=True).check((2, 9)), "a halo of 3 rows goes around axis 0 of 2 rows"),
    ],
)
def test_what_is_no_grid(made: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made()


def test_the_cost_does_not_grow_with_the_rows() -> None:
    rows = 10**15
    for old, new, most in (
        (Block(), Block(), 450),
        (Irregular([rows // 4, 3 * rows // 4]), Block(), 450),
        (BlockCyclic(3), BlockCyclic(3), 2 * 300),
        (BlockCyclic(64), Block(), 300 * 3 * 300),
    ):
        split = line(old.split(rows, 300)), line(new.split(rows, 150))
        plan = traffic(*split, range(300), range(150, 300))
        assert sum(len(move.patches) for move in [*plan.moves, *plan.kept]) <= most
        assert sum(move.cells for move in [*plan.moves, *plan.kept]) == rows
        assert plan.moved == lower_bound(*split, range(300), range(150, 300))


def test_what_a_rank_plans_for_itself_does_not_grow_with_the_pairs() -> None:
    """From rows to columns each of 2,000 ranks sends to all others."""
    shape, ranks = (10**6, 10**6), range(2000)
    rows, columns = spread(Block(0), shape, 2000), spread(Block(1), shape, 2000)
    plan = traffic(rows, columns, ranks, ranks, 7)
    assert len(plan.moves) == 2 * 1999
    assert sum(len(move.patches) for move in plan.moves) == 2 * 1999


def test_what_cannot_be_is_named() -> None:
    blocks = line(even(5, 1))
    with pytest.raises(ValueError, match="targets must be one or more different ranks, not \\[1, 1\\]"):
        traffic(blocks, line(even(5, 2)), [0], [1, 1])
    with pytest.raises(ValueError, match="2 targets for 1 parts"):
        traffic(blocks, blocks, [0], [1, 2])
    with pytest.raises(ValueError, match="spread over 0 parts"):
        even(9, 0)
    with pytest.raises(ValueError, match=r"shape \(5,\) cannot become one of \(6,\)"):
        traffic(blocks, line(even(6, 1)), [0], [0])
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

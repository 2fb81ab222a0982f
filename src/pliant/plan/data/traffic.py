"""What one redistribution moves: from any spread of an array over ranks to any other.

Pure data: the executor in ``pliant.mpi.data`` sends the cells of a move in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from math import lcm, prod
from typing import NamedTuple

from pliant.plan.data.splits import Copies, Cuts, Cycle, Exclusive, RowRange, Split, Stripe
from pliant.plan.data.spreads import Patch, Spread, SpreadAxis


class Move(NamedTuple):
    """Cells that go from ``source`` to ``target``, both ranks of the joint communicator; they stay if these are one."""

    source: int
    target: int
    patches: tuple[Patch, ...]

    @property
    def cells(self) -> int:
        """How many they are: rows, where an array has one axis."""
        return sum(prod(stripe.rows for stripe in patch) for patch in self.patches)


class Traffic(NamedTuple):
    """``moves``: one for each pair of different ranks that has to speak; ``kept``: what stays on its rank.

    Each cell that a target is to hold occurs once among what arrives there and what it keeps.
    """

    moves: tuple[Move, ...]
    kept: tuple[Move, ...]

    @property
    def moved(self) -> int:
        """Cells that are sent."""
        return sum(move.cells for move in self.moves)


def traffic(
    old: Spread, new: Spread, sources: Sequence[int], targets: Sequence[int], rank: int | None = None
) -> Traffic:
    """What has to move where rank ``sources[p]`` holds part p of ``old``, and ``targets[q]`` part q of ``new`` then;
    with ``rank`` only that in which this rank takes part, in the same order for each pair of ranks.

    Both are ranks of the joint communicator: in an expansion the sources are the first ranks and the targets all of
    them; in a shrink the sources are all ranks and the targets any of them. A rank occurs at most once in either:
    ValueError if not. No cell is sent to a rank that holds it: that is :func:`lower_bound`.

    The cost of an axis is that of its stripes, about sources + targets for consecutive parts, whatever the rows. A
    cycle on s ranks and one on t have about lcm(s, t) stripes if their blocks are equal, and one against consecutive
    parts has as many for each of these as there are ranks in the cycle. Those of all axes are combined.
    """
    for name, ranks, parts in (("sources", sources, old.parts), ("targets", targets, new.parts)):
        if not ranks or len(set(ranks)) != len(ranks):
            raise ValueError(f"{name} must be one or more different ranks, not {list(ranks)}")
        if len(ranks) != parts:
            raise ValueError(f"{len(ranks)} {name} for {parts} parts")
    if old.shape != new.shape:
        raise ValueError(f"an array of shape {old.shape} cannot become one of {new.shape} by moves")
    pairs: dict[tuple[int, int], list[Patch]] = {}
    for patch, source, target in _pieces(old, new, sources, targets, rank):
        pairs.setdefault((source, target), []).append(patch)
    every = [Move(source, target, tuple(patches)) for (source, target), patches in pairs.items()]
    return Traffic(
        tuple(move for move in every if move.source != move.target),
        tuple(move for move in every if move.source == move.target),
    )


def lower_bound(old: Spread, new: Spread, sources: Sequence[int], targets: Sequence[int]) -> int:
    """The fewest cells that any redistribution can send: each target has to be sent, once, each of its cells that it
    does not hold already. Which part a rank gets is not free: a resize fixes the order of ranks.

    Counted from what is held alone, without a plan.
    """
    place = {rank: part for part, rank in enumerate(sources)}
    missing = 0
    for part, rank in enumerate(targets):
        missing += new.size(part)
        if rank in place:
            both = zip(old.axes, old.coordinates(place[rank]), new.axes, new.coordinates(part), strict=True)
            missing -= prod(_common(one.split, here, other.split, there) for one, here, other, there in both)
    return missing


def _common(old: Split, old_part: int, new: Split, new_part: int) -> int:
    """Rows that both parts hold."""
    common = 0
    for mine in old.held(old_part):
        for theirs in new.held(new_part):
            common += _overlap(mine, theirs)
    return common


def _overlap(one: Stripe, other: Stripe) -> int:
    """Rows in both. Counted in one common round of both, and what is left of it."""
    if one.times == 1:
        return sum(_within(other, span) for span in one.spans())
    if other.times == 1:
        return sum(_within(one, span) for span in other.spans())
    common = lcm(one.step, other.step)
    first = max(one.start, other.start)
    stop = min(one.start + one.times * one.step, other.start + other.times * other.step)
    rounds = max(0, (stop - first) // common)
    middle = first + rounds * common
    found = rounds * _between(one, other, RowRange(first, first + common)) if rounds else 0
    return found + _between(one, other, RowRange(middle, stop)) if stop > middle else found


def _between(one: Stripe, other: Stripe, where: RowRange) -> int:
    """Rows in both, and in ``where``."""
    low = max(0, (where.start - one.start) // one.step)
    high = min(one.times, -(-(where.stop - one.start) // one.step))
    found = 0
    for number in range(low, high):
        first = one.start + number * one.step
        found += _within(other, RowRange(max(first, where.start), min(first + one.width, where.stop)))
    return found


def _within(stripe: Stripe, span: RowRange) -> int:
    """Rows of the stripe that are in the span."""

    def before(row: int) -> int:
        if row <= stripe.start:
            return 0
        if stripe.times == 1:
            return min(stripe.width, row - stripe.start)
        whole, rest = divmod(row - stripe.start, stripe.step)
        return stripe.rows if whole >= stripe.times else whole * stripe.width + min(rest, stripe.width)

    return before(span.stop) - before(span.start) if span.stop > span.start else 0


# ---- who has what in common -----------------------------------------------------------------------------


def _pieces(
    old: Spread, new: Spread, sources: Sequence[int], targets: Sequence[int], rank: int | None
) -> Iterator[tuple[Patch, int, int]]:
    """Cells with the rank they come from and the one they go to; with ``rank`` only of this one."""
    if old.replicated or new.replicated:
        for patches, source, target in _copied(old, new, sources, targets):
            if rank in {None, source, target}:
                yield from ((patch, source, target) for patch in patches)
        return
    met = [[*_meet(_single(one), _single(other))] for one, other in zip(old.axes, new.axes, strict=True)]
    if rank is None:
        yield from _combined(met, old, new, sources, targets)
        return
    if rank in sources:
        at = old.coordinates(sources.index(rank))
        mine = [[each for each in axis if each[1] == here] for axis, here in zip(met, at, strict=True)]
        yield from _combined(mine, old, new, sources, targets)
    if rank in targets:
        at = new.coordinates(targets.index(rank))
        mine = [[each for each in axis if each[2] == here] for axis, here in zip(met, at, strict=True)]
        yield from (each for each in _combined(mine, old, new, sources, targets) if each[1] != rank)


def _copied(
    old: Spread, new: Spread, sources: Sequence[int], targets: Sequence[int]
) -> Iterator[tuple[Iterator[Patch], int, int]]:
    """Where all parts hold all of it, before or then."""
    if not old.replicated:
        for target in targets:
            yield from ((old.held(part), source, target) for part, source in enumerate(sources))
        return
    # Whoever holds all keeps its own; the others are served by the sources in turn.
    holders, newcomers = set(sources), 0
    for part, target in enumerate(targets):
        source = target
        if target not in holders:
            source = sources[newcomers % len(sources)]
            newcomers += 1
        yield new.held(part), source, target


def _single(axis: SpreadAxis) -> Exclusive:
    """Its split, of which each row is in one part."""
    assert not isinstance(axis.split, Copies)  # noqa: S101 - the array is not replicated
    return axis.split


def _combined(
    met: list[list[tuple[Stripe, int, int]]],
    old: Spread,
    new: Spread,
    sources: Sequence[int],
    targets: Sequence[int],
) -> Iterator[tuple[Patch, int, int]]:
    """What each axis has in common, by the coordinates of its parts, combined to cells and ranks."""
    for each in product(*met):
        stripes, here, there = zip(*each, strict=True)
        yield stripes, sources[old.part_at(here)], targets[new.part_at(there)]


def _meet(old: Exclusive, new: Exclusive) -> Iterator[tuple[Stripe, int, int]]:
    """Rows with the part that holds them in either split.

    Between two bounds of consecutive parts the rest repeats itself: what is found in one round of that is there in all.
    """
    if isinstance(old, Cuts) and isinstance(new, Cuts):
        yield from _sweep_cuts(old, new)
        return
    periods = [split.period for split in (old, new) if isinstance(split, Cycle)]
    each = lcm(*periods)
    bounds = sorted({*old.bounds(), *new.bounds()})
    for first, stop in pairwise(bounds):
        begin = min(stop, -(-first // each) * each)
        rounds = (stop - begin) // each
        if rounds < 2:
            yield from _sweep(old, new, RowRange(first, stop))
            continue
        yield from _sweep(old, new, RowRange(first, begin))
        for stripe, part, new_part in _sweep(old, new, RowRange(begin, begin + each)):
            yield stripe._replace(step=each, times=rounds), part, new_part
        yield from _sweep(old, new, RowRange(begin + rounds * each, stop))


def _sweep(old: Exclusive, new: Exclusive, where: RowRange) -> Iterator[tuple[Stripe, int, int]]:
    """Run by run, over rows that no bound of consecutive parts divides but at their ends."""
    for span, part in old.runs(*where):
        for both, new_part in new.runs(*span):
            yield Stripe(both.start, both.rows), part, new_part


def _sweep_cuts(old: Cuts, new: Cuts) -> Iterator[tuple[Stripe, int, int]]:
    i = j = row = 0
    while row < old.at[-1]:
        stop = min(old.at[i + 1], new.at[j + 1])
        if stop > row:
            yield Stripe(row, stop - row), i, j
            row = stop
        ends = old.at[i + 1] == stop, new.at[j + 1] == stop
        i, j = i + ends[0], j + ends[1]

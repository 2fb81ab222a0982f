"""What one redistribution moves: from any split of the rows over ranks to any other.

Pure data: the executor in ``pliant.mpi.data`` sends the rows of a move in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from pliant.plan.data.splits import Copies, Cuts, Cycle, Exclusive, RowRange, Split, Stripe


class Move(NamedTuple):
    """Rows that go from ``source`` to ``target``, both ranks of the joint communicator; they stay if these are one."""

    source: int
    target: int
    stripes: tuple[Stripe, ...]

    @property
    def rows(self) -> int:
        return sum(stripe.rows for stripe in self.stripes)


class Traffic(NamedTuple):
    """``moves``: one for each pair of different ranks that has to speak; ``kept``: what stays on its rank.

    Each row that a target is to hold occurs once among what arrives there and what it keeps.
    """

    moves: tuple[Move, ...]
    kept: tuple[Move, ...]

    @property
    def moved(self) -> int:
        """Rows that are sent."""
        return sum(move.rows for move in self.moves)


def traffic(old: Split, new: Split, sources: Sequence[int], targets: Sequence[int]) -> Traffic:
    """What has to move where rank ``sources[p]`` holds part p of ``old``, and ``targets[q]`` part q of ``new`` then.

    Both are ranks of the joint communicator: in an expansion the sources are the first ranks and the targets all of
    them; in a shrink the sources are all ranks and the targets any of them. A rank occurs at most once in either:
    ValueError if not. No row is sent to a rank that holds it: that is :func:`lower_bound`.

    The cost is that of the stripes, about sources + targets for consecutive parts, whatever the rows. A cycle on s
    ranks and one on t have about lcm(s, t) stripes if their blocks are equal, and one against consecutive parts has as
    many for each of these as there are ranks in the cycle.
    """
    for name, ranks, parts in (("sources", sources, old.parts), ("targets", targets, new.parts)):
        if not ranks or len(set(ranks)) != len(ranks):
            raise ValueError(f"{name} must be one or more different ranks, not {list(ranks)}")
        if len(ranks) != parts:
            raise ValueError(f"{len(ranks)} {name} for {parts} parts")
    pairs: dict[tuple[int, int], list[Stripe]] = {}
    for stripe, source, target in _pieces(old, new, sources, targets):
        pairs.setdefault((source, target), []).append(stripe)
    every = [Move(source, target, tuple(stripes)) for (source, target), stripes in pairs.items()]
    return Traffic(
        tuple(move for move in every if move.source != move.target),
        tuple(move for move in every if move.source == move.target),
    )


def lower_bound(old: Split, new: Split, sources: Sequence[int], targets: Sequence[int]) -> int:
    """The fewest rows that any redistribution can send: each target has to be sent, once, each of its rows that it does
    not hold already. Which part a rank gets is not free: a resize fixes the order of ranks.

    Counted from what is held alone, without a plan.
    """
    place = {rank: part for part, rank in enumerate(sources)}
    missing = 0
    for part, rank in enumerate(targets):
        missing += new.size(part)
        if rank in place:
            missing -= _common(old, place[rank], new, part)
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
    old: Split, new: Split, sources: Sequence[int], targets: Sequence[int]
) -> Iterator[tuple[Stripe, int, int]]:
    """Rows with the rank they come from and the one they go to."""
    holders = set(sources)
    if isinstance(old, Copies):
        # Whoever holds all keeps its own; the others are served by the sources in turn.
        newcomers = 0
        for part, target in enumerate(targets):
            source = target
            if target not in holders:
                source = sources[newcomers % len(sources)]
                newcomers += 1
            for stripe in new.held(part):
                yield stripe, source, target
        return
    if isinstance(new, Copies):
        for target in targets:
            for part, source in enumerate(sources):
                for stripe in old.held(part):
                    yield stripe, source, target
        return
    for stripe, part, new_part in _meet(old, new):
        yield stripe, sources[part], targets[new_part]


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


# ---- halos ----------------------------------------------------------------------------------------------


class HaloMove(NamedTuple):
    """Rows ``span`` of the whole axis, which ``peer`` owns or is to see."""

    peer: int
    span: RowRange


def halo_moves(split: Cuts, halo: int, part: int) -> tuple[list[HaloMove], list[HaloMove]]:
    """What ``part`` receives of others for its halo, and what it sends them for theirs.

    A halo may be deeper than a neighbour's part: it then has rows of several. Parts without rows see and send none.
    """
    mine = split.span(part)
    if not mine.rows or not halo:
        return [], []
    low, high = mine.start - halo, mine.stop + halo
    received, sent = [], []
    for peers in (range(part - 1, -1, -1), range(part + 1, split.parts)):
        for peer in peers:
            theirs = split.span(peer)
            if theirs.stop <= low or theirs.start >= high:
                break
            if not theirs.rows:
                continue
            received.append(HaloMove(peer, RowRange(max(low, theirs.start), min(high, theirs.stop))))
            seen = RowRange(max(mine.start, theirs.start - halo), min(mine.stop, theirs.stop + halo))
            sent.append(HaloMove(peer, seen))
    return received, sent

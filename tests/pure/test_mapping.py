"""Who exchanges data with whom at a resize: Iserte et al. 2018, section 5."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.plan.data.mapping import among, mapping, partners

RANKS = st.integers(1, 200)


@given(RANKS, RANKS)
def test_what_every_rank_needs_is_covered_once(before: int, after: int) -> None:
    for rank in range(after):
        start, end = Fraction(rank, after), Fraction(rank + 1, after)
        cuts = [(Fraction(s, before), Fraction(s + 1, before)) for s in partners(rank, after, before)]
        parts = [(max(start, low), min(end, high)) for low, high in cuts]
        assert all(low < high for low, high in parts)
        assert sum(high - low for low, high in parts) == end - start


@given(RANKS, RANKS)
def test_senders_and_receivers_agree(before: int, after: int) -> None:
    sent = {(s, r) for s in range(before) for r in partners(s, before, after)}
    assert sent == {(s, r) for r in range(after) for s in partners(r, after, before)}


@given(RANKS, st.integers(1, 8))
def test_by_a_factor_a_rank_sends_to_as_many_or_as_many_send_to_one(ranks: int, factor: int) -> None:
    for rank in range(ranks):
        family = tuple(range(rank * factor, (rank + 1) * factor))
        assert partners(rank, ranks, ranks * factor) == family
        assert all(partners(each, ranks * factor, ranks) == (rank,) for each in family)


def test_a_rank_that_is_none_has_no_partners() -> None:
    with pytest.raises(ValueError, match="no rank 2 of 2"):
        partners(2, 2, 4)
    assert mapping(2, 1, 4, 1)[:5] == (2, 4, (2, 3), (0,), True)


@given(RANKS, RANKS, st.randoms(use_true_random=False))
def test_in_a_communicator_of_all_who_sends_is_expected(before: int, after: int, order: Random) -> None:
    ranks = list(range(before + after))
    order.shuffle(ranks)
    sources, targets = ranks[:before], ranks[-after:] if after > 1 else sources_of(ranks, before)
    every = {rank: among(rank, sources, targets) for rank in ranks}
    assert {(s, t) for s, each in every.items() for t in each.receivers} == {
        (s, t) for t, each in every.items() for s in each.senders
    }
    for rank, each in every.items():
        assert (rank in sources, rank in targets) == (each.old >= 0, each.new >= 0)
        assert [targets[number] for number in each.to] == [*each.receivers]
        assert [sources[number] for number in each.of] == [*each.senders]


def sources_of(ranks: list[int], before: int) -> list[int]:
    """One of those that were there goes on alone."""
    return ranks[before - 1 : before]

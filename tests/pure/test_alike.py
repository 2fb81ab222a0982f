"""The rank test of ``pliant bench resize``, beside what others have printed of it."""

from __future__ import annotations

import math
from itertools import combinations
from random import Random

import pytest

from pliant_lab.measure.alike import LEVEL, chance, quickest, runs_needed

EARLY = [1.15, 0.88, 0.90, 0.74, 1.21]
AT_TERM = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]


def test_published_examples() -> None:
    """One-sided, where the two-sided chance is twice as much."""
    # Hollander and Wolfe (1999), table 4.1; R's coin prints the exact two-sided p-value of 0.2544.
    assert 2 * chance(EARLY, AT_TERM) == pytest.approx(0.2544, abs=5e-5)
    # The example of scipy.stats.mannwhitneyu, by its exact method: U = 17, p = 0.1111.
    assert 2 * chance([20, 11, 17, 12], [19, 22, 16, 29, 24]) == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    ("few", "many", "critical"),
    [(3, 3, 0), (4, 4, 1), (5, 5, 4), (5, 8, 8), (8, 8, 15), (10, 10, 27), (20, 20, 138)],
)
def test_the_printed_table_of_critical_values(few: int, many: int, critical: int) -> None:
    """Of U, one-sided at 5 %: the greatest that is significant, and the next that is not."""

    def of(u: int) -> float:
        """Runs without ties of which so many pairs have the slow one first."""
        above, rest = divmod(u, many)
        before = [many] * above + [rest] + [0] * few
        quick = [float(behind) for behind in before[:few]]
        slow = [at + 0.5 for at in range(many)]
        return chance(quick_apart(quick), slow)

    def quick_apart(values: list[float]) -> list[float]:
        return [value + at * 1e-3 for at, value in enumerate(values)]

    assert of(critical) <= 0.05 < of(critical + 1)


def test_ties_and_runs_without_end_are_counted_as_by_dealing_them_all_out() -> None:
    random = Random(7)
    for _ in range(60):
        quick = [random.choice([1.0, 2.0, 3.0, 4.0, math.inf]) for _ in range(random.randint(1, 5))]
        slow = [random.choice([2.0, 3.0, 4.0, math.inf]) for _ in range(random.randint(1, 5))]
        pooled = quick + slow
        rank = {x: sum(y < x for y in pooled) + (pooled.count(x) + 1) / 2 for x in pooled}
        reached = sum(rank[x] for x in slow)
        deals = [sum(rank[x] for x in deal) >= reached for deal in combinations(pooled, len(slow))]
        assert chance(quick, slow) == pytest.approx(sum(deals) / len(deals))


def test_who_is_truly_the_quickest_is_left_out_one_time_in_twenty_at_most() -> None:
    """Five ways of which all are alike, each therefore the quickest: 2,000 cells of five runs."""
    random, left_out = Random(11), 0
    for _ in range(2000):
        told = quickest({str(way): [random.random() for _ in range(5)] for way in range(5)})
        left_out += told["0"] is False
    assert left_out / 2000 <= LEVEL


def test_how_many_runs_can_tell() -> None:
    """1 deal in C(2n, n) is the farthest apart; 5 % is shared by all but the best."""
    assert [runs_needed(ways) for ways in range(1, 9)] == [3, 3, 4, 4, 5, 5, 5, 5]
    apart = {way: [way * 10.0 + run for run in range(5)] for way in range(7)}
    assert quickest({str(way): times for way, times in apart.items()}) == {
        "0": True, **dict.fromkeys("123456", False),
    }  # fmt: skip
    few = {str(way): times[:4] for way, times in apart.items()}
    assert set(quickest(few).values()) == {None}
    assert quickest({**{k: apart[int(k)] for k in "012"}, "3": [99.0]}) == {
        "0": True, "1": False, "2": False, "3": None,
    }  # fmt: skip


def test_where_nothing_can_be_compared_nothing_is_said() -> None:
    assert quickest({}) == quickest({"a": []}) == {}
    assert quickest({"a": [1.0] * 9}) == {"a": None}
    assert quickest({"a": [math.inf] * 9, "b": [math.inf] * 9}) == {"a": None, "b": None}
    with pytest.raises(ValueError, match="one has none"):
        chance([], [1.0])

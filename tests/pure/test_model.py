"""Sets of nodes, bounds and speed-up models."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.nodes import NodeSet, hostlist, lowest_bits, parse_hostlist
from pliant.model.speedup import Amdahl, Downey, Model, Table, check_model
from pliant.model.words import are, count

sets_ = st.sets(st.integers(0, 400))


@given(sets_, sets_)
def test_a_node_set_is_a_set(a: set[int], b: set[int]) -> None:
    x, y = NodeSet.of(a), NodeSet.of(b)
    assert set(x) == a
    assert len(x) == len(a)
    assert bool(x) == bool(a)
    assert set(x | y) == a | b
    assert set(x & y) == a & b
    assert set(x - y) == a - b
    assert (x <= y) == (a <= b)
    assert (x == y) == (a == b)
    assert all((n in x) == (n in a) for n in range(0, 401, 7))
    assert NodeSet.parse(str(x)) == x
    assert sum(high - low + 1 for low, high in x.ranges()) == len(a)


@given(sets_, st.integers(0, 400), st.sampled_from([1, 7, 97]))
def test_the_lowest_nodes(a: set[int], count: int, apart: int) -> None:
    a = {n * apart for n in a}
    count %= len(a) + 1
    assert sorted(NodeSet(lowest_bits(NodeSet.of(a).mask, count))) == sorted(a)[:count]
    with pytest.raises(ValueError, match="nodes wanted"):
        lowest_bits(NodeSet.of(a).mask, len(a) + 1)


def test_text_of_node_sets() -> None:
    assert str(NodeSet.of([0, 1, 2, 3, 7])) == "0-3,7"
    assert str(NodeSet()) == ""
    assert NodeSet.first(3) == NodeSet.of([0, 1, 2])
    with pytest.raises(ValueError, match="backwards"):
        NodeSet.parse("7-3")
    with pytest.raises(ValueError, match="'a' is no number or range"):
        NodeSet.parse("a")


@given(st.lists(st.tuples(st.sampled_from(["n", "x-", "rack1-n"]), st.integers(0, 120)), unique=True))
def test_hostlists_lose_nothing(hosts: list[tuple[str, int]]) -> None:
    for width in (1, 3):
        names = [f"{prefix}{number:0{width}d}" for prefix, number in hosts]
        assert sorted(parse_hostlist(hostlist(names))) == sorted(names)


def test_hostlists_by_hand() -> None:
    assert hostlist(["n0", "n2", "n1", "x7", "login"]) == "login,n[0-2],x7"
    assert hostlist(["node01", "node03", "node02"]) == "node[01-03]"
    assert hostlist([]) == ""
    assert parse_hostlist("n[0-2,5],x7") == ["n0", "n1", "n2", "n5", "x7"]
    assert parse_hostlist(" a , r[1-2]n[01,03]-ib,[7-8]") == [
        "a", "r1n01-ib", "r1n03-ib", "r2n01-ib", "r2n03-ib", "7", "8",
    ]  # fmt: skip
    for text in ("n[a-b]", "n[1", "n1]", "n[]", "n[1,]", "n[[1]]", ",", "[]"):
        with pytest.raises(ValueError, match="no hostlist"):
            parse_hostlist(text)


@st.composite
def bounds_(draw: st.DrawFn) -> Bounds:
    low = draw(st.integers(1, 12))
    return Bounds(low, draw(st.integers(low, 64)), draw(st.integers(1, 4)))


@given(bounds_(), st.integers(0, 80))
def test_allowed_sizes(bounds: Bounds, nodes: int) -> None:
    sizes = bounds.sizes()
    assert sizes == [n for n in range(1, bounds.max + 1) if bounds.allows(n)]
    assert bounds.floor(nodes) == max((n for n in sizes if n <= nodes), default=0)
    assert bounds.above(nodes) == min((n for n in sizes if n > nodes), default=0)
    assert bounds.preferred in sizes


@given(bounds_(), bounds_())
def test_the_intersection_allows_what_both_allow(a: Bounds, b: Bounds) -> None:
    both = a.intersect(b)
    common = [n for n in a.sizes() if b.allows(n)]
    if both is None:
        assert not common
    else:
        assert set(both.sizes()) <= set(common)
        assert common[0] in both.sizes()
        if a.factor == b.factor:
            assert both.sizes() == common
        assert both.preferred in common


@given(bounds_(), st.integers(0, 80))
def test_the_sizes_up_to_a_number_of_nodes(bounds: Bounds, most: int) -> None:
    fewer = bounds.up_to(most)
    assert fewer.sizes() == ([n for n in bounds.sizes() if n <= most] or [bounds.min])
    assert fewer.preferred == max(
        n for n in fewer.sizes() if n <= max(bounds.min, min(bounds.preferred, most))
    )


@given(bounds_(), bounds_(), st.integers(1, 80))
def test_the_nearest_size_within_a_wish(bounds: Bounds, wish: Bounds, nodes: int) -> None:
    size = bounds.floor(nodes) or bounds.min
    inside = [n for n in bounds.sizes() if wish.min <= n <= wish.max]
    expected = min(inside, key=lambda n: abs(n - size), default=0)
    assert bounds.nearest(size, wish.min, wish.max) == expected


def test_bounds_of_any_length_cost_nothing() -> None:
    many = Bounds(1, 10**18, preferred=10**9)
    assert many.intersect(many) == many
    assert many.intersect(Bounds(3, 10**17)) == Bounds(3, 10**17, preferred=10**9)
    assert many.intersect(Bounds(1, 10**18, 10)) == Bounds(1, 10**18, 10, 10**9)
    assert many.nearest(10**9, 10**17, 10**19) == 10**17


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, 4), "min is 0"),
        ((4, 2), "max 2 is below min 4"),
        ((1, 8, 0), "factor is 0"),
        ((1, 8, 2, 3), r"preferred 3 is no allowed size \(1:8 by factor 2\); nearest below: 2"),
    ],
)
def test_bounds_say_what_is_wrong(numbers: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bounds(*numbers)


def test_amdahl_and_tables() -> None:
    assert Amdahl(100.0, 0.1).time(1) == 100.0
    assert Amdahl(100.0, 0.1).time(9) == pytest.approx(20.0)
    table = Table({4: 30.0, 1: 100.0})
    assert (table.time(1), table.time(4), table.time(99)) == (100.0, 30.0, 30.0)
    assert table.time(2) == pytest.approx(math.sqrt(100.0 * 30.0))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Amdahl(0.0), "work_s is 0"),
        (Amdahl(math.inf), "work_s is inf"),
        (Amdahl(1.0, 1.5), "serial_fraction is 1.5"),
        (Downey(-1.0, 8.0), "work_s is -1"),
        (Downey(1.0, 0.5), "parallelism is 0.5; it must be 1 or more"),
        (Downey(1.0, 8.0, -1.0), "sigma is -1"),
        (Downey(1.0, 8.0, math.nan), "sigma is nan"),
        (Table({}), "times is empty"),
        (Table({1: 5.0, 2: -1.0}), "no positive run time for 2 nodes"),
    ],
)
def test_models_say_what_is_wrong(model: Model, message: str) -> None:
    assert message in (check_model(model) or "")
    assert check_model(Amdahl(5.0, 0.5)) is None


@given(st.floats(1.0, 500.0), st.floats(0.0, 4.0))
def test_downeys_speed_up_is_continuous(parallelism: float, sigma: float) -> None:
    model = Downey(100.0, parallelism, sigma)
    assert model.speedup(1) == pytest.approx(1.0)
    assert model.time(1) == pytest.approx(100.0)
    assert check_model(model) is None
    a, s = parallelism, sigma
    for edge in (a, max(a, 2 * a - 1), a + a * s - s if s >= 1 else a):
        below, above = model.speedup(edge * (1 - 1e-9)), model.speedup(edge * (1 + 1e-9))
        if edge * (1 - 1e-9) >= 1:
            assert below == pytest.approx(above, rel=1e-6)
    ups = [model.speedup(n) for n in range(1, 60)]
    assert all(x <= y + 1e-9 for x, y in pairwise(ups))
    assert all(up <= min(n, a) + 1e-9 for n, up in enumerate(ups, 1))


@given(st.floats(1.0, 500.0), st.integers(1, 2000))
def test_downeys_two_forms_meet_at_sigma_1(parallelism: float, nodes: int) -> None:
    low, high = Downey(1.0, parallelism, 1.0 - 1e-10), Downey(1.0, parallelism, 1.0)
    assert low.speedup(nodes) == pytest.approx(high.speedup(nodes), rel=1e-6)


def test_downeys_speed_up_by_hand() -> None:
    assert Downey(1.0, 8.0).speedup(8) == 8.0  # no variation: perfect up to the average
    assert Downey(1.0, 8.0, 0.5).speedup(4) == pytest.approx(8 * 4 / (8 + 0.25 * 3))
    assert Downey(1.0, 8.0, 0.5).speedup(10) == pytest.approx(8 * 10 / (0.5 * 7.5 + 10 * 0.75))
    assert Downey(1.0, 8.0, 0.5).speedup(15) == 8.0
    assert Downey(1.0, 8.0, 2.0).speedup(4) == pytest.approx(4 * 8 * 3 / (2 * 11 + 8))
    assert Downey(1.0, 8.0, 2.0).speedup(22) == 8.0


def test_estimates_follow_the_model_and_stay_upper_bounds_without() -> None:
    bounds = Bounds(2, 16, 2, 4)
    plain = JobSpec(name="a", nodes=bounds, walltime_s=100.0)
    assert (plain.estimate(2), plain.estimate(4), plain.estimate(16)) == (200.0, 100.0, 100.0)
    modelled = JobSpec(name="a", nodes=bounds, walltime_s=100.0, model=Amdahl(400.0))
    assert modelled.estimate(16) == pytest.approx(25.0)
    assert modelled.rigid().nodes == Bounds.exactly(4)
    assert modelled.rigid().job_class is JobClass.RIGID


def test_what_is_counted_agrees_with_its_number() -> None:
    said = [count(1, "node"), count(1024, "node"), count(1, "job waits", "jobs wait")]
    assert said == ["1 node", "1,024 nodes", "1 job waits"]
    assert [are(1), are(2), are(1, "node"), are(0, "node")] == ["1 is", "2 are", "1 node is", "0 nodes are"]
    assert [bounds.in_nodes() for bounds in (Bounds(1, 1), Bounds(1, 4))] == ["1 node", "1:4 nodes"]

"""The task programs against known results and other programs, and as commands."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba")

from pliant.apps import balanced, betweenness, nqueens, pi, uts
from pliant.apps.kernels import pi as pi_kernels
from pliant.apps.kernels import uts as uts_kernels
from pliant.model.errors import PliantError

pytestmark = pytest.mark.long

VARIANTS = [name for name in uts_kernels.SEARCHES if name != "ni" or uts_kernels.has_ni()]
CHECKSUM = "c5e7e4d227967f09cd300cf3b4e9bedbb78b119fe8b31a7777b7b56d1bed2ca0"  # scale 10, seed 2
SOLUTIONS = {
    4: 2,
    5: 10,
    6: 4,
    7: 40,
    8: 92,
    9: 352,
    10: 724,
    11: 2680,
    12: 14200,
    13: 73712,
    14: 365596,
    15: 2279184,
}


@pytest.fixture
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A kernel of UTS, asked for by PLIANT_SHA."""
    name: str = request.param
    monkeypatch.setenv("PLIANT_SHA", name)
    uts._search.cache_clear()
    yield name
    uts._search.cache_clear()


def sha1(state: list[int], child: int) -> list[int]:
    return list(
        struct.unpack(">5I", hashlib.sha1(struct.pack(">6I", *state, child), usedforsecurity=False).digest())
    )


def children(state: list[int], b: float) -> int:
    """As the UTS distribution has it."""
    return min(100, math.floor(math.log(1 - (state[4] & 0x7FFFFFFF) / 2**31) / math.log(1 - 1 / (1 + b))))


def count(state: list[int], levels: int, b: float) -> int:
    if levels == 0:
        return 1
    return 1 + sum(count(sha1(state, child), levels - 1, b) for child in range(children(state, b)))


@pytest.mark.parametrize("variant", VARIANTS)
@given(st.integers(0, 2**32 - 1))
def test_hashes_are_those_of_hashlib(variant: str, seed: int) -> None:
    """A block of arbitrary nodes, each with one child to visit: those that have children are then on the stack."""
    lanes = uts_kernels.LANES[variant]
    draw = np.random.default_rng(seed)
    stack = np.zeros((2 * lanes, uts_kernels.ROW), np.uint32)
    stack[:lanes, :5] = draw.integers(0, 2**32, (lanes, 5))
    stack[:lanes, 5:7] = draw.integers([2, 0], [9, 100], (lanes, 2))
    stack[:lanes, 7] = stack[:lanes, 6] + 1
    visited = [(sha1(row[:5], row[6]), row[5] - 1) for row in stack[:lanes].tolist()]
    expected = [
        [*state, levels, 0, children(state, 4.0)] for state, levels in visited if children(state, 4.0)
    ]
    counts = np.array([lanes, 0, 0], np.int64)
    uts_kernels.SEARCHES[variant](stack, counts, lanes, *uts._tables(4.0))
    assert counts.tolist() == [len(expected), lanes, lanes]
    assert sorted(stack[: len(expected)].tolist()) == sorted(expected)


@pytest.mark.parametrize("variant", VARIANTS, indirect=True)
def test_a_tree_has_its_known_number_of_nodes(variant: str) -> None:
    assert uts.variant() == variant
    assert uts.bare(10) == uts.UtsTree(4_130_071, 1_031_269)


@given(st.integers(0, 5), st.floats(0.1, 5), st.integers(0, 2**31 - 1))
def test_trees_are_those_that_the_definition_gives(depth: int, b: float, seed: int) -> None:
    root = list(
        struct.unpack(
            ">5I", hashlib.sha1(bytes(16) + struct.pack(">I", seed), usedforsecurity=False).digest()
        )
    )
    tree, bag = uts.UtsTree(), uts.TreeBag(depth, b, seed)
    while bag.process(1000):
        pass
    bag.submit(tree)
    assert tree.nodes == count(root, depth, b)
    assert tree == uts.bare(depth, b, seed)
    above = uts.bare(depth - 1, b, seed).nodes if depth else 0
    assert tree.hashes == above  # all but those at the limit


@given(st.floats(0.01, 1000), st.lists(st.integers(0, 2**31 - 1), min_size=1))
def test_the_table_of_children_is_the_formula(b: float, drawn: list[int]) -> None:
    guide, fewest = uts._tables(b)
    for value in [*drawn, 0, 2**31 - 1, *np.clip(fewest.astype(np.int64), 1, 2**31 - 1) - 1]:
        expected = children([0, 0, 0, 0, int(value)], b)
        assert np.searchsorted(fewest, value, side="right") == expected
        assert guide[value >> (31 - uts_kernels.GUIDE_BITS)] <= expected


def test_a_kernel_that_cannot_be_had_is_refused() -> None:
    with pytest.raises(PliantError, match="PLIANT_SHA is 'best'; it must be one of plain, ni, wide"):
        uts.variant({"PLIANT_SHA": "best"})
    if not uts_kernels.has_ni():
        with pytest.raises(PliantError, match="no SHA instructions"):
            uts.variant({"PLIANT_SHA": "ni"})
    assert uts.variant({"PLIANT_SHA": ""}) == uts_kernels.best()


@pytest.mark.parametrize(("queens", "solutions"), SOLUTIONS.items())
def test_queens_have_their_known_numbers_of_solutions(queens: int, solutions: int) -> None:
    assert nqueens.bare(queens).solutions == solutions
    if queens <= 10:
        assert nqueens.bare(queens, "board").solutions == solutions


def test_a_board_of_one_has_a_solution_and_the_largest_one_begins() -> None:
    assert nqueens.bare(1) == nqueens.bare(1, "board") == nqueens.Solutions(1, 1)
    for check in ("bits", "board"):
        bag = nqueens.QueensBag(nqueens.MOST_QUEENS, check)
        assert bag.process(10_000)
        assert bag.is_splittable


GRAPHS = st.integers(2, 12).flatmap(
    lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
)


def compared(graph: betweenness.Graph) -> None:
    """With NetworkX."""
    import networkx as nx

    sums = np.zeros(graph.vertices, np.int64)
    betweenness.accumulate(graph, betweenness.workspace(graph), 0, graph.vertices, sums)
    other = nx.DiGraph()
    other.add_nodes_from(range(graph.vertices))
    for vertex in range(graph.vertices):
        ends = graph.targets[graph.offsets[vertex] : graph.offsets[vertex + 1]]
        other.add_edges_from((vertex, int(end)) for end in ends)
    expected = nx.betweenness_centrality(other, normalized=False)
    scores = betweenness.Centrality(sums).scores()
    np.testing.assert_allclose(
        scores, [expected[vertex] for vertex in range(graph.vertices)], rtol=1e-12, atol=1e-9
    )


@given(GRAPHS)
def test_centralities_are_those_of_networkx(drawn: tuple[int, set[tuple[int, int]]]) -> None:
    vertices, edges = drawn
    ordered = sorted((source, target) for source, target in edges if source != target)
    offsets = np.searchsorted([source for source, _ in ordered], np.arange(vertices + 1))
    compared(betweenness.Graph(offsets, np.array([target for _, target in ordered], np.uint32)))


def test_the_graph_is_the_same_everywhere() -> None:
    graph = betweenness.graph(7, 2)
    compared(graph)
    sources = np.repeat(np.arange(graph.vertices), np.diff(graph.offsets))
    assert (sources != graph.targets).all()
    assert (np.diff(sources * graph.vertices + graph.targets) > 0).all()
    checksum = betweenness.bare(10).checksum()
    assert checksum == CHECKSUM
    assert betweenness.bare(10, seed=3).checksum() != checksum


def splitmix(seed: int) -> Iterator[int]:
    """SplitMix64, as its authors wrote it."""
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) % 2**64
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        yield z ^ z >> 31


def signed(half: int) -> int:
    return half - 2**32 if half >= 2**31 else half


@given(st.integers(0, 2**64 - 1), st.integers(0, 50), st.integers(0, 100))
def test_points_are_drawn_by_splitmix(seed: int, first: int, points: int) -> None:
    drawn = splitmix(seed)
    numbers = [next(drawn) for _ in range(first + points)][first:]
    inside = sum(signed(z >> 32) ** 2 + signed(z % 2**32) ** 2 < 2**62 for z in numbers)
    assert pi_kernels.inside(np.uint64(seed), first, first + points) == inside


def test_pi_comes_near() -> None:
    known = splitmix(1234567)
    assert [next(known), next(known)] == [6457827717110365317, 3203168211198807973]
    assert abs(pi.bare(10_000_000).pi - math.pi) < 0.002  # four standard deviations


COMMANDS: dict[str, tuple[ModuleType, list[str], dict[str, object]]] = {
    "uts": (uts, ["--depth", "9"], {"nodes": 1_031_269, "hashes": 257_042}),
    "nqueens": (nqueens, ["--n", "8"], {"solutions": 92}),
    "board": (nqueens, ["--n", "8", "--check", "board"], {"solutions": 92}),
    "betweenness": (betweenness, ["--scale", "10"], {"checksum": CHECKSUM}),
    "pi": (pi, ["--points", "100000"], {"pi": 3.14984}),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_result_is_the_last_line_and_part_of_the_figures(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, arguments, expected = COMMANDS[name]
    for more in ([], ["--serial"], ["--chunk", "7"]):
        monkeypatch.setattr(sys, "argv", [name, *arguments, *more])
        balanced.main(program.main)
        assert capsys.readouterr().out.splitlines()[-1] == str(next(iter(expected.values())))
        monkeypatch.setattr(sys, "argv", [name, *arguments, *more, "--json"])
        balanced.main(program.main)
        figures = json.loads(capsys.readouterr().out)
        assert expected.items() <= figures.items()
        assert figures["places"] == 1
        assert figures["seconds"] >= 0


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        (uts, ["--depth", "-1"], "argument --depth: '-1' is not a whole number from 0 to 1,000"),
        (uts, ["--b", "nan"], "argument --b: 'nan' is not a number above 0 and up to 1,000"),
        (nqueens, ["--n", "32"], "argument --n: '32' is not a whole number from 1 to 31"),
        (betweenness, ["--scale", "x"], "argument --scale: 'x' is not a whole number from 1 to 26"),
        (pi, ["--points", "0"], "argument --points: '0' is not a whole number from 1 to"),
    ],
)
def test_bad_options_are_named(
    program: ModuleType, arguments: list[str], message: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    with pytest.raises(SystemExit, match="2"):
        balanced.main(program.main)
    assert message in capsys.readouterr().err


EVERY_KERNEL = """
from pliant.apps import balanced, betweenness, nqueens, pi, uts
from pliant.apps.kernels import betweenness as b, nqueens as n, pi as p, uts as u

for program, bag, result, size in (
    (uts, uts.TreeBag, uts.UtsTree, 6), (nqueens, nqueens.QueensBag, nqueens.Solutions, 6),
    (betweenness, betweenness.SourcesBag, betweenness.Centrality, 5), (pi, pi.PointsBag, pi.Points, 9999),
):
    whole = bag(size)
    whole.prepare()
    balanced.run(whole, result(), 100, str)
    program.bare(size)
for kernel in (u.SEARCHES[u.best()], n.place_by_bits, b.accumulate, b.edges, b.shuffled, p.inside):
    print(len(kernel.signatures), sum(kernel.stats.cache_misses.values()))
"""


def test_a_new_process_compiles_nothing() -> None:
    """Each kernel is called with one kind of arguments only, by bags and alone, and is found on disk."""
    exec(EVERY_KERNEL, {})  # noqa: S102
    command = [sys.executable, "-c", EVERY_KERNEL]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split() == ["1", "0"] * 6

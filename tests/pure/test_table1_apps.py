"""The programs of Iserte et al. 2018: what they compute, and what it takes to make them malleable."""

from __future__ import annotations

import ast
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")

from pliant.apps import (  # noqa: E402
    cg,
    cg_rigid,
    flexible_sleep,
    flexible_sleep_rigid,
    heat,
    heat_rigid,
    jacobi,
    nbody,
    nbody_rigid,
)
from pliant.apps.options import terms  # noqa: E402
from pliant.model.table1 import FACTOR, TABLE1, TIMES, model  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "how-to-malleable.md"
TWINS = {
    "flexible_sleep": (flexible_sleep, flexible_sleep_rigid),
    "cg": (cg, cg_rigid),
    "heat, jacobi": (heat, heat_rigid),
    "nbody": (nbody, nbody_rigid),
}


def code(module_file: str | None) -> list[str]:
    """The lines of ``solve`` that hold code, without indentation."""
    source = Path(str(module_file)).read_text("utf-8")
    [found] = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == "solve"]
    body = source.splitlines()[found.body[1].lineno - 1 : found.end_lineno]
    return [line.strip() for line in body if line.strip() and not line.strip().startswith("#")]


def line_of_table(name: str) -> str:
    malleable, rigid = (len(code(module.__file__)) for module in TWINS[name])
    return f"| `{name}` | {rigid} | {malleable} | {malleable - rigid:+} |"


@pytest.mark.parametrize("name", TWINS)
def test_the_page_counts_the_lines_that_make_a_program_malleable(name: str) -> None:
    assert line_of_table(name) in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_defaults_are_those_of_table_1() -> None:
    parsers = {
        "flexible-sleep": flexible_sleep.parser(), "cg": cg.parser(), "jacobi": jacobi.parser(), "n-body": nbody.parser()
    }  # fmt: skip
    for program, row in TABLE1.items():
        options = parsers[program].parse_args(["--pace", "0.5"])
        assert (options.steps, options.min, options.max, options.preferred) == row[:4]
        assert terms(options) == {
            "min": row.min, "max": row.max, "factor": FACTOR, "preferred": row.preferred, "inhibit": row.inhibit_s
        }  # fmt: skip
        assert options.pace.time(row.max) == pytest.approx(model(program).time(row.max) / 2)
    assert set(TIMES) < set(TABLE1)
    assert model("flexible-sleep").time(1) == pytest.approx(20 * model("flexible-sleep").time(20))


@given(st.integers(1, 12), st.data())
def test_parts_of_the_matrix_are_those_of_the_whole(side: int, data: st.DataObject) -> None:
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, side**2)] * 2)))
    vector = np.arange(side**2) ** 0.5
    whole = cg.times(cg.poisson(side, 0, side**2), vector)
    part = cg.times(cg.poisson(side, first, last), vector)
    assert part.tolist() == whole[first:last].tolist()


def dense(side: int) -> Any:
    whole = np.zeros((side**2, side**2))
    for point in range(side**2):
        rows = cg.poisson(side, point, point + 1)
        whole[point, rows.indices] = rows.data
    return whole


def test_the_gradients_find_the_solution_and_then_stay() -> None:
    side = 8
    matrix, b = cg.poisson(side, 0, side**2), cg.right_side(side)
    x, r, p = np.zeros(side**2), b.copy(), b.copy()
    for _ in range(1_000):
        cg.advance(x, r, p, cg.times(matrix, p))
    assert (dense(side) == dense(side).T).all()
    assert x == pytest.approx(np.linalg.solve(dense(side), b), rel=1e-9)


def test_the_bodies_keep_where_they_weigh_in_all() -> None:
    bodies = nbody.initial(0, 20)
    centre = bodies[:, :3].mean(axis=0)
    for _ in range(50):
        nbody.move(bodies, bodies[:, :3].copy())
    assert abs(bodies[:, 3:]).max() > 0.01
    assert bodies[:, :3].mean(axis=0) == pytest.approx(centre, abs=1e-12)


def test_two_bodies_pull_by_the_square_of_their_distance() -> None:
    places = np.array([[0.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    assert nbody.pull(places, places[:, 0]) == pytest.approx([0.5 / 4, 0, 0], rel=1e-3)


@given(st.integers(0, 3_000_000), st.lists(st.integers(0, 3_000_000), max_size=3))
def test_bytes_weigh_the_same_however_they_are_spread(size: int, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, size) for cut in cuts), size]
    total = 0
    for first, last in pairwise(edges):
        mine = np.empty(last - first, np.uint8)
        flexible_sleep.fill(mine, first)
        total += flexible_sleep.weigh(mine, first)
    assert flexible_sleep.solve_serial(Namespace(steps=2, bytes=size)) == f"2 {total}"


def test_bytes_that_change_places_are_noticed() -> None:
    data = flexible_sleep.content(0, 1000)
    before = flexible_sleep.weigh(data, 0)
    data[[3, 700]] = data[[700, 3]]
    assert flexible_sleep.weigh(data, 0) != before

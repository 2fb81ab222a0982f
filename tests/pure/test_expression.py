"""The arithmetic of ElastiSim's performance models."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.workloads.formats.expression import evaluate, names

KNOWN = {"x": 3.0, "y": 0.5, "num_nodes": 8.0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * x ^ 2 - -1", 19.0),
        (" max(ceil(2.5), 2) % 2 ", 1.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ -1", 0.5),
        ("2 ^ 3 ^ 2", 512.0),
        ("2 - 3 - 4", -5.0),
        ("16 / 2 / 4", 2.0),
        ("-7 % 4", -3.0),
        ("1.5e1 + .5 + 2.", 17.5),
        ("x % 2 == 0 ? num_nodes - 4 : num_nodes + 4", 12.0),
        ("0 ? 1 : 0 ? 2 : 3", 3.0),
        ("1 ? 0 ? 1 : 2 : 3", 2.0),
        ("1 + 1 < 3 and 2 * 2 >= 5 or x != 4", 1.0),
        ("1 & 0 | x <> 3", 0.0),
        ("x = 3", 1.0),
        ("if(y > 1, 10, 20) + clamp(1, 9, 4) + not(0)", 25.0),
        ("round(2.5) + round(-2.5) + trunc(-1.9) + sgn(-3) + avg(1, 2, 3)", 0.0),
        ("log2(8) + sqrt(16) + pow(2, 3) + root(27, 3)", 18.0),
    ],
)
def test_known_answers(text: str, value: float) -> None:
    assert evaluate(text, KNOWN) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x +", "is no arithmetic expression"),
        ("", "is no arithmetic expression"),
        ("z", r"'z' is no argument of the job \(known: x, y, num_nodes\)"),
        ("x.real", "is no arithmetic expression"),
        ("(lambda: 1)()", "is no arithmetic expression"),
        ("1 / 0", "cannot be computed"),
        ("10 ^ 400", "cannot be computed"),
        ("sqrt(0 - 1)", "cannot be computed"),
        ("clamp(1)", "cannot be computed"),
        ("'a'", "is no arithmetic expression"),
        ("max()", "is no arithmetic expression"),
        ("eval(1)", "'eval' is not understood here"),
        ("1 ? 2", "is no arithmetic expression"),
        ("1 2", "is no arithmetic expression"),
        ("x := 3", "is no arithmetic expression"),
        ("1 if x else 2", "is no arithmetic expression"),
        ("and", "is no arithmetic expression"),
        ("(" * 400 + "1" + ")" * 400, "nested too deeply"),
        ("2" + "^2" * 499, "nested too deeply|cannot be computed"),
        ("1" + "+1" * 600, "too long"),
    ],
)
def test_what_is_no_expression(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(text, KNOWN)


def test_names() -> None:
    assert names("a ? min(b, 2) : num_nodes + a") == {"a", "b", "num_nodes"}
    assert names("1 + 2") == frozenset()


@st.composite
def sums(draw: st.DrawFn, depth: int = 3) -> tuple[str, str]:
    """An expression, and the same in Python."""
    if depth == 0 or draw(st.booleans()):
        leaf = draw(st.one_of(st.sampled_from(sorted(KNOWN)), st.integers(0, 9).map(str)))
        return leaf, leaf
    (a, pa), (b, pb), (c, pc) = (draw(sums(depth - 1)) for _ in range(3))
    sign = draw(
        st.sampled_from(["+", "-", "*", "<", "<=", ">", ">=", "==", "!=", "and", "or", "?", "neg", "^"])
    )
    match sign:
        case "?":
            return f"({a} ? {b} : {c})", f"({pb} if {pa} else {pc})"
        case "neg":
            return f"-{a}", f"-{pa}"
        case "^":
            return f"({a}) ^ 2", f"float({pa}) ** 2"
        case "and" | "or":
            return f"({a} {sign} {b})", f"(bool({pa}) {sign} bool({pb}))"
        case "+" | "-" | "*":
            return f"{a} {sign} ({b})", f"{pa} {sign} ({pb})"
        case _:
            return f"({a} {sign} {b})", f"({pa} {sign} {pb})"


@given(sums())
def test_it_computes_what_python_does(pair: tuple[str, str]) -> None:
    text, python = pair
    wanted = float(eval(python, {"float": float, "bool": bool}, dict(KNOWN)))  # noqa: S307 -- it is drawn above
    assert math.isclose(evaluate(text, KNOWN), wanted, rel_tol=1e-12)

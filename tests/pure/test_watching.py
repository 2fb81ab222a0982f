"""What newcomers miss: which variables are read before they are set, what a look sees, and what ranks find together."""

from __future__ import annotations

import dis
import time
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.job.watching.findings import (
    Held,
    Parts,
    Seen,
    Used,
    differing,
    errors,
    exchanged,
    ranks_in_words,
    warnings,
)
from pliant.job.watching.liveness import live_behind
from pliant.mpi.data.arrays import Array, Seat
from pliant.mpi.data.uses import Uses
from pliant.mpi.looking import TEXT, look, looping
from pliant.mpi.team import Team
from pliant.mpi.wait import Wait
from pliant.plan.data.layouts import Block

# ---- live variables ---------------------------------------------------------------------------------


def live(text: str) -> set[str]:
    """Of a function's body with one loop, or of a script: what is live where the body of its loop begins."""
    code = compile(text, "a", "exec")
    for each in code.co_consts:
        if isinstance(each, CodeType) and each.co_name == "run":
            code = each
    loop = next(each.offset for each in dis.get_instructions(code) if each.opname == "FOR_ITER")
    return {*live_behind(code, loop)}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("total += step", {"total"}),
        ("error = f()", set[str]()),
        ("error = f()\n  if error < 1: break", set[str]()),
        ("if step: last = step", {"last"}),  # read behind the loop
        ("old, new = new, old", {"old", "new"}),
        ("old, new = (a, b) if step % 2 else (b, a)\n  use(old, new)", {"a", "b"}),
        ("try:\n   rest = f()\n  except ValueError:\n   use(rest)", {"rest"}),
        ("with f() as rest:\n   use(rest)", set[str]()),
        ("use(k for k in (total,))", {"total"}),
        ("for k in f():\n   inner = k\n   use(inner)", set[str]()),
        ("while f():\n   inner += 1", {"inner"}),
        ("assert total", {"total"}),
        ("del total", set[str]()),
    ],
)
def test_what_a_body_reads_before_it_sets_it(body: str, found: set[str]) -> None:
    tail = " use(last)\n" if "last" in body else ""
    text = f"def run(steps, f, use, a, b):\n total = error = rest = inner = old = new = last = 0\n for step in steps:\n  {body}\n{tail}"
    assert live(text) - {"steps", "f", "use", "step", "ValueError"} == found


def test_what_functions_within_see_is_always_live() -> None:
    assert "total" in live(
        "def run(steps):\n total = 0\n def add():\n  nonlocal total\n  total += 1\n for step in steps:\n  add()\n"
    )
    script = "total, other = 0, 0\ndef add():\n global total\n total += 1\nfor step in steps:\n other = 1\n add()\n"
    assert {"total", "add"} <= live(script)
    assert "other" not in live(script)


Body = Sequence[Any]
_names = st.sampled_from("abc")
_simple = st.tuples(st.sampled_from(["set", "read"]), _names) | st.sampled_from(
    [("break", ""), ("continue", "")]
)
_bodies: st.SearchStrategy[Body] = st.recursive(
    st.lists(_simple, max_size=4),
    lambda inner: st.lists(_simple | st.tuples(st.just("if"), inner, inner), max_size=4),
    max_leaves=5,
)


def written(body: Body, deep: int) -> str:
    lines = []
    for each in body:
        match each:
            case ("if", one, other):
                lines += ["if use():", written(one, 1), "else:", written(other, 1)]
            case ("set", name):
                lines.append(f"{name} = 1")
            case ("read", name):
                lines.append(f"use({name})")
            case (word, _):
                lines.append(word)
    return "\n".join(" " * deep + line for text in lines or ["pass"] for line in text.split("\n"))


def paths(body: Body) -> Iterator[list[tuple[str, str]]]:
    """All ways through it, with how each ends."""
    if not body:
        yield [("next", "")]
        return
    first, rest = body[0], body[1:]
    for before in [*paths(first[1]), *paths(first[2])] if first[0] == "if" else [[first, ("next", "")]]:
        *done, (end, _) = before
        if done and done[-1][0] in {"break", "continue"}:
            yield done
        elif end != "next":
            yield before
        else:
            yield from ([*done, *after] for after in paths(rest))


def unset(path: list[tuple[str, str]], behind: set[str]) -> set[str]:
    """What is read on this way, and ``behind`` it, before it is set."""
    found = set(behind)
    for what, name in reversed(path[:-1]):
        found = found | {name} if what == "read" else found - {name}
    return found


@given(_bodies, st.sets(_names))
def test_live_variables_are_those_of_all_ways_through_the_loop(body: Body, last: set[str]) -> None:
    text = f"def run(steps, use, a, b, c):\n for step in steps:\n{written(body, 2)}\n use({', '.join(sorted(last))})\n"
    expected: set[str] = set()
    ways = list(paths(body))
    for _ in range(4):
        behind = {"break": last, "continue": expected | last, "next": expected | last}
        expected = set[str]().union(*(unset(way, behind[way[-1][0]]) for way in ways))
    assert live(text) & {"a", "b", "c"} == expected


# ---- a look -----------------------------------------------------------------------------------------


def no_team(what: str) -> Team:
    raise AssertionError(what)


def array(name: str, uses: Uses | None = None) -> Array:
    made = Array(name, (4,), "f8", Block(), Seat(no_team, Wait(1.0), lambda _: 0, uses or Uses(), str))
    made.hold(np.zeros(4), 1, 0)
    return made


A, B = array("a"), array("b")


class Loop:
    """Looks at whoever iterates, each time."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Held]] = []

    def run(self, steps: int) -> Iterator[int]:
        for step in range(steps):
            frame = looping()
            assert frame is not None
            self.seen.append(look(frame, {"a": A, "b": B}))
            yield step


def seen_by(program: Callable[[Iterator[int]], object]) -> list[dict[str, Held]]:
    loop = Loop()
    program(loop.run(2))
    return loop.seen


def test_a_look_sees_what_the_body_may_read() -> None:
    def program(steps: Iterator[int]) -> None:
        total, word, pair, small, one, old = 0.0, "x", (1, "y"), np.arange(3), A, [A, B]
        began, large, thing, changed = time.perf_counter(), np.zeros(10_000), object(), 7
        for step in steps:
            total += 0.5
            changed = step
            one, old = B, old[::-1]
            str((total, word, pair, small, one, began, large, thing, changed))
        str((one, old))

    first, second = seen_by(program)
    assert {name: held.text for name, held in first.items()} == {
        "total": "0.0", "word": "'x'", "pair": "(1, 'y')", "small": "array([0, 1, 2])",
        "old": f"[{A!r}, {B!r}]"[: TEXT - 3] + "...",
    }  # fmt: skip
    assert {name for name in first if first[name].digest != second[name].digest} == {"total", "old"}
    assert (first["old"].arrays, second["old"].arrays) == (("a", "b"), ("b", "a"))


def test_a_look_sees_attributes_and_passes_generators_over() -> None:
    class Program:
        def __init__(self) -> None:
            self.total, self.now = 0, A

        def run(self, steps: Iterator[int]) -> None:
            for _ in (step for step in steps):
                self.total, self.now = self.total + 1, B

    first, second = seen_by(Program().run)
    assert [each["self.total"].text for each in (first, second)] == ["0", "1"]
    assert [each["self.now"].arrays for each in (first, second)] == [("a",), ("b",)]
    assert first["self.now"].text == "array 'a'"


def test_a_look_keeps_nothing_alive() -> None:
    from weakref import ref

    gone = []

    def program(steps: Iterator[int]) -> None:
        block = np.zeros(3)
        for _ in steps:
            gone.append(ref(block))
            block = block + 1

    seen_by(program)
    assert [each() for each in gone] == [None, None]


def test_a_look_leaves_the_program_what_locals_gave_it() -> None:
    def program(steps: Iterator[int]) -> None:
        given, params = 5, {}
        params = locals()
        for _ in steps:
            assert params["given"] == given

    assert len(seen_by(program)) == 2


class Odd(list[int]):
    def __repr__(self) -> str:
        raise RuntimeError


def test_what_cannot_be_looked_at_is_left_out() -> None:
    def program(steps: Iterator[int]) -> None:
        odd, huge, deep, wide = Odd([1]), 1 << 100_000, {"a": [object()]}, [[0] * 9 for _ in range(9)]
        for _ in steps:
            str((len(odd), huge > 1, deep, wide))

    assert seen_by(program) == [{}, {}]


ONES = [1, 1.0, True, np.int32(1), np.float32(1), 1 + 0j]


@pytest.mark.parametrize("value", ONES[:5])
def test_equal_numbers_look_alike_whatever_their_type(value: Any) -> None:
    def program(steps: Iterator[int]) -> None:
        held: Any = 1
        for _ in steps:
            str(held)
            held = value

    first, second = seen_by(program)
    assert first["held"].digest == second["held"].digest


# ---- what ranks find --------------------------------------------------------------------------------


class Variable(NamedTuple):
    """What the ranks that were there hold, and those that joined."""

    there: list[int]
    here: list[int]

    @property
    def is_missed(self) -> bool:
        return len({*self.there}) == len({*self.here}) == 1 and {*self.there} != {*self.here}


def variables(there: int, here: int) -> st.SearchStrategy[Variable]:
    few = st.integers(0, 1)
    some = st.lists(few, min_size=there, max_size=there), st.lists(few, min_size=here, max_size=here)
    return st.builds(Variable, *some)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[dict[str, Variable], list[Seen]]:
    there, here = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    held = draw(st.dictionaries(st.sampled_from("abcde"), variables(there, max(1, here))))
    ranks = [
        Seen(joined, {name: Held(one[joined][rank], str(one[joined][rank])) for name, one in held.items()})
        for joined, ranks in ((False, there), (True, here))
        for rank in range(ranks)
    ]
    return (held if here else {}), draw(st.permutations(ranks))


@given(jobs())
def test_missed_is_what_is_equal_on_those_there_and_another_on_those_that_joined(
    job: tuple[dict[str, Variable], list[Seen]],
) -> None:
    held, ranks = job
    found = differing(Parts.of(ranks, None))
    assert sorted(each.name for each in found) == sorted(name for name, one in held.items() if one.is_missed)
    assert len(warnings(Parts.of(ranks, None))) == len(found)
    assert errors(Parts.of(ranks, None), {}) == []


def seen_by_rank(joined: bool, **held: int | str) -> Seen:  # noqa: FBT001 - of two kinds of ranks
    """Numbers are values, and texts arrays."""
    return Seen(
        joined,
        {
            name.replace("_", "."): Held(hash(each), str(each), (each,) if isinstance(each, str) else ())
            for name, each in held.items()
        },
    )


def test_a_finding_names_values_ranks_and_the_remedy() -> None:
    ranks = [seen_by_rank(False, total=12), seen_by_rank(True, total=0), seen_by_rank(False, total=12)]
    assert warnings(Parts.of(ranks, None)) == {
        "total": "total is 12 on ranks 0 and 2, and 0 on those that joined: hold it in job.value"
    }
    assert warnings(Parts.of([seen_by_rank(True, total=0)], seen_by_rank(False, total=12))) == {
        "total": "total is 12 before the resize, and 0 on those that joined: hold it in job.value"
    }
    assert warnings(Parts.of([seen_by_rank(False, total=1), seen_by_rank(False, total=2)], None)) == {}


@given(jobs())
def test_ranks_of_one_digest_find_nothing(job: tuple[dict[str, Variable], list[Seen]]) -> None:
    _, ranks = job
    alike = [each._replace(held=ranks[0].held) for each in ranks]
    assert {each.digest for each in alike} == {ranks[0].digest}
    assert differing(Parts.of(alike, None)) == []
    changed = ranks[0]._replace(used=Used(("a",), frozenset({("", "a")})))
    assert len({ranks[0].digest, changed.digest, changed._replace(after={"a": 1}).digest}) == 3


def test_what_the_first_step_makes_differ_by_rank_is_not_named() -> None:
    one, two, three = seen_by_rank(False, own=5), seen_by_rank(True, own=0), seen_by_rank(True, own=0)
    assert "own" in warnings(Parts.of([one, two, three], None))
    after = [each._replace(after={"own": number}) for number, each in enumerate([one, two, three])]
    assert warnings(Parts.of(after, None)) == {}
    alike = [each._replace(after={"own": int(each.joined)}) for each in after]
    assert "own" in warnings(Parts.of(alike, None))


def test_people_are_told_once_whoever_has_told_them() -> None:
    for told in range(2):
        ranks = [seen_by_rank(False, total=1), seen_by_rank(True, total=0)]
        ranks[told] = ranks[told]._replace(named=frozenset({"total"}))
        assert warnings(Parts.of(ranks, None)) == {}
    assert (
        warnings(
            Parts.of(
                [seen_by_rank(True, total=0)],
                seen_by_rank(False, total=1)._replace(named=frozenset({"total"})),
            )
        )
        == {}
    )


def test_another_array_is_an_error_and_an_attribute_only_if_the_step_does_not_refute_it() -> None:
    kinds = dict.fromkeys("ab", "alike")
    ranks = [seen_by_rank(False, old="b"), seen_by_rank(True, old="a")]
    assert errors(Parts.of(ranks, None), kinds) == ["old is b on rank 0, and a on those that joined"]
    assert errors(Parts.of([seen_by_rank(False, old="b"), seen_by_rank(True, old=0)], None), kinds) == []
    ranks = [seen_by_rank(False, self_old="b"), seen_by_rank(True, self_old="a")]
    assert errors(Parts.of(ranks, None), kinds) == ["self.old is b on rank 0, and a on those that joined"]
    same = Used(("a", "b"), frozenset({("", "a"), ("a", "b")}))
    assert errors(Parts.of([each._replace(used=same) for each in ranks], None), kinds) == []


def used(pattern: Sequence[str]) -> Used:
    uses = Uses()
    uses.begin()
    for name in pattern:
        uses.note(name)
    return uses.end()


patterns = st.lists(st.sampled_from("abc"), max_size=6)


@given(patterns, st.permutations("abc"), st.lists(st.booleans(), min_size=2, max_size=5))
def test_arrays_are_exchanged_if_newcomers_use_others_in_the_same_way(
    pattern: list[str], order: list[str], joined: list[bool]
) -> None:
    names = dict(zip("abc", order, strict=True))
    other = [names[each] for each in pattern]
    ranks = [Seen(each, {}, used(other if each else pattern)) for each in joined]
    parts = Parts.of(ranks, None)
    differs = other != pattern and any(joined) and not all(joined)
    found = exchanged(parts, dict.fromkeys("abc", "alike"))
    assert found == ((used(pattern), used(other)) if differs else None)
    assert bool(errors(parts, dict.fromkeys("abc", "alike"))) == differs


@given(patterns, patterns, patterns)
def test_what_newcomers_use_as_well_as_one_that_was_there_is_no_error(
    one: list[str], two: list[str], three: list[str]
) -> None:
    ranks = [
        Seen(False, {}, used(one)),
        Seen(False, {}, used(two)),
        Seen(True, {}, used(two)),
        Seen(True, {}, used(three)),
    ]
    assert exchanged(Parts.of(ranks, None), dict.fromkeys("abc", "alike")) is None


def test_ranks_that_use_more_arrays_or_unlike_ones_are_no_error() -> None:
    kinds = {"a": 1, "b": 1, "c": 2}
    for one, other in (("ab", "bab"), ("a", "c"), ("a", "ab"), ("", "a")):
        ranks = [Seen(False, {}, used(one)), Seen(True, {}, used(other))]
        assert errors(Parts.of(ranks, None), kinds) == []


@given(patterns.filter(bool), st.integers(2, 5), st.integers(2, 5))
def test_how_often_a_loop_of_rows_turns_does_not_matter(pattern: list[str], one: int, other: int) -> None:
    assert used(pattern * one) == used(pattern * other)


def test_arrays_say_when_they_are_used() -> None:
    uses = Uses()
    one, other = array("one", uses), array("other", uses)
    one.local[:] = 1
    uses.begin()
    other.local[:] = one.local[:] + one.local[:]
    assert uses.end() == Used(("one", "other"), frozenset({("", "one"), ("one", "other")}))
    uses.begin()
    assert uses.end() == Used()


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ([3], "rank 3"),
        ([0, 1], "ranks 0 and 1"),
        ([0, 1, 2, 3], "ranks 0 to 3"),
        ([0, 2, 3], "ranks 0, 2 and 3"),
    ],
)
def test_ranks_in_words(ranks: list[int], told: str) -> None:
    assert ranks_in_words(ranks) == told

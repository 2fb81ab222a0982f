"""The bags of the four task programs: whatever is split, merged and sent, the result is the serial one exactly."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba")

from pliant.apgas.bag import Bag
from pliant.apps import betweenness, nqueens, pi, uts


class Program(NamedTuple):
    """A bag with all tasks, a new result, and the result of the kernel alone, each made by a call."""

    bag: Callable[[], Any]
    result: Callable[[], Any]
    bare: Callable[[], Any]


PROGRAMS = {
    "uts": Program(lambda: uts.TreeBag(5, seed=10), uts.UtsTree, lambda: uts.bare(5, seed=10)),
    "bits": Program(lambda: nqueens.QueensBag(7), nqueens.Solutions, lambda: nqueens.bare(7)),
    "board": Program(
        lambda: nqueens.QueensBag(6, "board"), nqueens.Solutions, lambda: nqueens.bare(6, "board")
    ),
    "betweenness": Program(
        lambda: betweenness.SourcesBag(5), betweenness.Centrality, lambda: betweenness.bare(5)
    ),
    "pi": Program(lambda: pi.PointsBag(5000, 7, 64), pi.Points, lambda: pi.bare(5000, 7)),
}
every_program = pytest.mark.parametrize("name", PROGRAMS)

NUMBER = st.integers(0, 30)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["process", "split", "split", "take", "merge", "send", "send out of band", "submit"]),
        NUMBER,
        NUMBER,
    ),
    max_size=30,
)


def comparable(result: Any) -> object:
    """What two results must agree on."""
    return result.sums.tolist() if isinstance(result, betweenness.Centrality) else result


def sent_through_a_pipe(bag: Any, *, out_of_band: bool) -> Any:
    """As it arrives in another process: its arrays in memory that may only be read."""
    if not out_of_band:
        return received(pickle.dumps(bag), [])
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(bag, protocol=5, buffer_callback=buffers.append)
    return received(message, [bytes(buffer) for buffer in buffers])


def received(message: bytes, buffers: Sequence[bytes | pickle.PickleBuffer]) -> Any:
    return pickle.loads(message, buffers=buffers)  # noqa: S301


def finished(bags: list[Any], result: Any) -> object:
    for bag in bags:
        while bag.process(1000):
            pass
        assert bag.is_empty
        assert bag.tasks == 0
        bag.submit(result)
        bag.submit(result)  # nothing counts twice
    return comparable(result)


def step(program: Program, bags: list[Any], result: Any, what: str, one: int, other: int) -> None:
    """Do something with the bags, and see that no task is lost or made by it."""
    bag = bags[one % len(bags)]
    tasks = sum(each.tasks for each in bags)
    if what == "process":
        assert bag.process(other) == (not bag.is_empty)
        return
    if what == "submit":
        bag.submit(result)
    elif what == "split" and bag.is_splittable:
        half = bag.split(take_all=False)
        assert abs(half.tasks - bag.tasks) <= 1
        assert not bag.is_empty
        assert not half.is_empty
        assert told_partial(program, half) == comparable(program.result())
        bags.append(half)
    elif what == "take" and not bag.is_empty:
        whole = bag.split(take_all=True)
        assert bag.is_empty
        assert told_partial(program, whole) == comparable(program.result())
        bags.append(whole)
    elif what == "merge" and len(bags) > 1:
        bags.remove(bag)
        bags[other % len(bags)].merge(bag)
    elif what.startswith("send"):
        bags[one % len(bags)] = sent_through_a_pipe(bag, out_of_band=what != "send")
    assert sum(each.tasks for each in bags) == tasks
    for each in bags:
        assert each.is_empty == (each.tasks == 0)
        assert each.is_splittable == (each.tasks > 1)


def told_partial(program: Program, bag: Any) -> object:
    result = program.result()
    sent_through_a_pipe(bag, out_of_band=False).submit(result)
    return comparable(result)


@every_program
@given(steps=STEPS)
def test_the_result_is_the_serial_one_whatever_becomes_of_the_bags(
    name: str, steps: list[tuple[str, int, int]]
) -> None:
    program = PROGRAMS[name]
    bags, result = [program.bag()], program.result()
    for what, one, other in steps:
        step(program, bags, result, what, one, other)
    assert finished(bags, result) == comparable(program.bare())


@every_program
def test_results_add_up_in_any_order(name: str) -> None:
    program = PROGRAMS[name]
    whole = program.bag()
    assert whole.process(20)
    bags = [whole, whole.split(take_all=False)]
    results = [program.result() for _ in bags]
    for bag, result in zip(bags, results, strict=True):
        finished([bag], result)
    first, second = results
    for one, other in ((first, second), (second, first)):
        total = program.result()
        total.merge(sent_through_a_pipe(one, out_of_band=True))
        total.merge(sent_through_a_pipe(other, out_of_band=True))
        assert comparable(total) == comparable(program.bare())


@every_program
def test_a_bag_carries_no_more_than_its_own(name: str) -> None:
    bag = PROGRAMS[name].bag()
    assert bag.process(20)
    for each, partial in ((bag.split(take_all=False), 0), (bag, 32)):
        buffers: list[pickle.PickleBuffer] = []
        rest = pickle.dumps(each, protocol=5, buffer_callback=buffers.append)
        assert len(rest) < 1000
        assert sum(len(bytes(buffer)) for buffer in buffers) <= 32 * each.tasks + 8 * partial


@every_program
def test_what_was_pickled_is_a_snapshot(name: str) -> None:
    program = PROGRAMS[name]
    bag = program.bag()
    assert bag.process(20)
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(bag, protocol=5, buffer_callback=buffers.append)
    finished([bag], program.result())
    copy = received(message, buffers)
    assert finished([copy], program.result()) == comparable(program.bare())


@pytest.mark.parametrize("name", ["betweenness", "pi"])
@given(of=st.integers(1, 100))
def test_tasks_that_are_known_beforehand_can_be_shared_out_at_the_start(name: str, of: int) -> None:
    program = PROGRAMS[name]
    shares = [program.bag().share(index, of) for index in range(of)]
    assert sum(share.tasks for share in shares) == program.bag().tasks
    assert max(share.tasks for share in shares) - min(share.tasks for share in shares) <= 1
    assert finished(shares, program.result()) == comparable(program.bare())


def test_the_bags_are_what_the_protocol_asks_for() -> None:
    tree: Bag[uts.UtsTree] = uts.TreeBag(3)
    queens: Bag[nqueens.Solutions] = nqueens.QueensBag(4)
    sources: Bag[betweenness.Centrality] = betweenness.SourcesBag(3)
    points: Bag[pi.Points] = pi.PointsBag(100)
    for bag in (tree, queens, sources, points):
        assert not bag.is_empty

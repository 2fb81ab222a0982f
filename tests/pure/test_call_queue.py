"""Which calls go where: drawn submissions, answers, deaths and calls given back, over places that come and go."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.apgas.calls.queue import AHEAD_S, CallQueue


@given(
    workers=st.integers(1, 3),
    most=st.none() | st.integers(1, 9),
    seed=st.integers(0, 1 << 30),
    cost_s=st.sampled_from([0.0, 1e-4, 1.0]),
)
def test_each_call_waits_or_is_at_one_place_or_has_ended(
    workers: int, most: int | None, seed: int, cost_s: float
) -> None:
    queue, rng = CallQueue(workers, most), random.Random(seed)
    places = [0, 1, 2]
    at: dict[int, list[int]] = {}
    ended: set[int] = set()
    added = 0

    def send(*, ahead: bool) -> None:
        while (batch := queue.batch(places, ahead=ahead)) is not None:
            here = at.setdefault(batch.place, [])
            assert batch.limit <= workers
            assert batch.numbers
            here += batch.numbers
            if not ahead:
                assert len(here) <= batch.limit
        if queue.waiting and queue.is_full(places):
            assert all(queue.held(place) >= limit for place, limit in queue.limits(places).items())
        if not ahead and queue.waiting:
            assert all(queue.held(place) >= limit for place, limit in queue.limits(places).items())

    for _ in range(60):
        step = rng.randrange(6)
        busy = [place for place, numbers in at.items() if numbers]
        if step <= 1:
            for _ in range(rng.randrange(1, 20)):
                queue.add(added)
                added += 1
        elif step == 2 and busy:
            place = rng.choice(busy)
            done = [at[place].pop(0) for _ in range(rng.randrange(1, len(at[place]) + 1))]
            ended |= {*done}
            queue.ended(place, done, cost_s * len(done))
        elif step == 3 and (asked := queue.surplus(places)) is not None:
            place, count = asked
            assert 1 <= count <= len(at[place])
            given_back = at[place][len(at[place]) - rng.randrange(count + 1) :]
            del at[place][len(at[place]) - len(given_back) :]
            queue.back(place, given_back)
        elif step == 4 and len(places) > 1:
            place = places.pop()
            lost = queue.lost(place)
            assert sorted(lost) == sorted(at.pop(place, []))
            ended |= {*lost}
        elif step == 5:
            places.append(max(places) + 1)
        if step != 0 or not queue.is_full(places):  # what is submitted is sent only where there is room
            send(ahead=rng.random() < 0.5)
        if queue.waiting and queue.is_full(places):
            assert all(queue.held(place) >= limit for place, limit in queue.limits(places).items())
        assert sorted([*queue.waiting, *ended, *(n for numbers in at.values() for n in numbers)]) == [
            *range(added)
        ]
        assert {place: queue.held(place) for place in at} == {place: len(at[place]) for place in at}
        if most is not None:
            assert sum(queue.limits(places).values()) <= most
    assert queue.is_empty == (len(ended) == added)


@pytest.mark.parametrize(("cost_s", "expected"), [(1.0, 2), (AHEAD_S / 4, 2 + 8), (0.0, 100)])
def test_short_calls_are_sent_ahead_and_long_ones_are_not(cost_s: float, expected: int) -> None:
    queue = CallQueue(2)
    for number in range(101):
        queue.add(number)
    first = queue.batch([5], ahead=True)
    assert first is not None
    assert first.numbers == [0, 1]  # nothing is known of what calls take
    queue.ended(5, [0], cost_s)
    queue.drop(5, 1)
    while queue.batch([5], ahead=True) is not None:
        pass
    assert queue.held(5) == min(expected, 99)


def test_an_idle_place_takes_back_half_of_what_another_has_not_begun_and_asks_once() -> None:
    queue = CallQueue(1)
    for number in range(12):
        queue.add(number)
    queue.batch([1], ahead=True)
    queue.ended(1, [0], 0.0)
    batch = queue.batch([1], ahead=True)
    assert batch is not None
    assert len(batch.numbers) == 11
    assert queue.backlog([1]) == 10
    assert queue.surplus([1]) is None  # nobody else could make one
    assert queue.surplus([1, 2]) == (1, 5)
    assert queue.surplus([1, 2]) is None
    queue.back(1, [])  # it has begun them all
    assert queue.surplus([1, 2]) is None  # until something changes there
    queue.ended(1, [1], 0.0)
    assert queue.surplus([1, 2]) == (1, 5)
    queue.back(1, batch.numbers[-5:])
    assert list(queue.waiting) == batch.numbers[-5:]
    again = queue.batch([1, 2], ahead=False)
    assert again is not None
    assert (again.place, again.numbers) == (2, batch.numbers[-5:-4])

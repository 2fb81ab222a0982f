"""Threads that wait for one thing each: what happens to others does not wake them."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial

from pliant.apgas.transport.threads import SystemThreads

PATIENCE_S = 30.0
THREADS = 20


def _has(found: list[int], count: int) -> bool:
    return len(found) == count


def test_who_waits_for_a_topic_looks_when_that_is_notified_and_not_before() -> None:
    monitor = SystemThreads().monitor()
    looks: Counter[int] = Counter()
    done: set[int] = set()
    ended: list[int] = []

    def wait(number: int) -> None:
        def look() -> bool:
            looks[number] += 1
            return number in done

        with monitor:
            if monitor.wait_for(look, PATIENCE_S, number):
                ended.append(number)
                monitor.notify_all()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    with monitor:
        assert monitor.wait_for(lambda: False, 0.0) is False
    for number in range(THREADS):
        while not looks[number]:  # it waits as soon as the lock is free
            with monitor:
                pass
        with monitor:
            monitor.notify_all()
            done.add(number)
            monitor.notify(number)
            assert monitor.wait_for(partial(ended.__contains__, number), PATIENCE_S)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert ended == [*range(THREADS)]
    assert max(looks.values()) == 2


def test_so_many_of_those_that_wait_for_a_topic_go_on() -> None:
    monitor = SystemThreads().monitor()
    permits: list[int] = []
    ended: list[int] = []
    waiting: list[int] = []

    def wait(number: int) -> None:
        with monitor:
            waiting.append(number)
            monitor.notify_all()
            if monitor.wait_for(lambda: bool(permits), PATIENCE_S, "ready"):
                ended.append(permits.pop())
                monitor.notify_all()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    with monitor:
        assert monitor.wait_for(lambda: len(waiting) == THREADS, PATIENCE_S)
        for count in (3, THREADS - 3):
            want = len(ended) + count
            permits += [1] * count
            monitor.notify("ready", count)
            assert monitor.wait_for(partial(_has, ended, want), PATIENCE_S)
    for thread in threads:
        thread.join(PATIENCE_S)

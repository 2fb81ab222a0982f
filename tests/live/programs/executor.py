"""Futures in a job that changes size: ``executor.py follow`` by its load, ``executor.py obey`` as it is told."""

from __future__ import annotations

import sys
import time
from concurrent.futures import CancelledError, Future

from pliant.apgas import PlaceExecutor, follow_load, here, run

PATIENCE_S = 40.0
CALL_S = 0.02


def square(x: int) -> tuple[int, int]:
    time.sleep(CALL_S)
    return here().id, x * x


def wait_for_workers(executor: PlaceExecutor, workers: int) -> None:
    limit = time.monotonic() + PATIENCE_S
    while executor.num_workers != workers:
        if time.monotonic() > limit:
            raise TimeoutError(f"{executor.num_workers} calls run at a time, not {workers}")
        time.sleep(0.01)


def follow() -> str:
    """Much to do until there are two places, then nothing until there is one."""
    with PlaceExecutor() as executor, follow_load(every_s=0.05):
        futures: list[Future[tuple[int, int]]] = []
        while executor.num_workers != 2:
            futures += [executor.submit(square, x) for x in range(len(futures), len(futures) + 10)]
            time.sleep(5 * CALL_S)
        answers = [future.result(PATIENCE_S) for future in futures]
        wait_for_workers(executor, 1)
    exact = [value for _, value in answers] == [x * x for x in range(len(futures))]
    return f"exact {exact}, at {sorted({place for place, _ in answers})}"


def obey() -> str:
    """Maps one after the other while the places go from one to two and back."""
    executor = PlaceExecutor()
    sizes = [executor.num_workers]
    exact = True
    used: set[int] = set()
    while len(sizes) < 3 or sizes[-1] != 1:
        answers = list(executor.map(square, range(30)))
        exact &= [value for _, value in answers] == [x * x for x in range(30)]
        used |= {place for place, _ in answers}
        if executor.num_workers != sizes[-1]:
            sizes.append(executor.num_workers)
    error = executor.submit(int, "x").exception(PATIENCE_S)
    futures = [executor.submit(square, x) for x in range(20)]
    executor.shutdown(cancel_futures=True)
    values = [future.result()[1] for future in futures if not future.cancelled()]
    exact &= values == [x * x for x in range(len(values))]
    try:
        futures[-1].result()
    except CancelledError:
        return f"exact {exact}, at {sorted(used)}, sizes {sizes}, raised {type(error).__name__}"
    return "nothing was cancelled"


if __name__ == "__main__":
    run(follow if sys.argv[1] == "follow" else obey)

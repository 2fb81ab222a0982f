"""An executor over places: results, exceptions, cancelling, and a place that is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import threading
import time

from pliant.apgas import DeadPlaceException, PlaceExecutor, here, run


def square(x: int) -> tuple[int, int]:
    time.sleep(0.01)
    return here().id, x * x


def die_at_2() -> int:
    if here().id == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return here().id


def lock() -> object:
    time.sleep(0.1)
    return threading.Lock()


def main() -> dict[str, object]:
    told: dict[str, object] = {}
    with PlaceExecutor() as executor:
        told["workers"] = executor.num_workers
        answers = list(executor.map(square, range(60)))
        told["squares"] = [value for _, value in answers] == [x * x for x in range(60)]
        told["places"] = sorted({number for number, _ in answers})
        told["raised"] = str(executor.submit(int, "x").exception())
        locks = [future.exception() for future in [executor.submit(lock) for _ in range(3)]]
        told["unpicklable"] = [type(error).__name__ for error in locks]
        lost = [future.exception() for future in [executor.submit(die_at_2) for _ in range(3)]]
        told["lost"] = [str(error) for error in lost if isinstance(error, DeadPlaceException)]
        told["workers_left"] = executor.num_workers
        told["after"] = executor.submit(pow, 2, 10).result()
        slow = [executor.submit(time.sleep, 0.2) for _ in range(9)]
        executor.shutdown(wait=False, cancel_futures=True)
    told["cancelled"] = sum(future.cancelled() for future in slow)
    try:
        executor.submit(abs, 1)
    except RuntimeError as error:
        told["closed"] = str(error)
    return told


if __name__ == "__main__":
    print(json.dumps(run(main, places=3, workers=1)))

"""Places as processes: tasks, values, large arrays, exceptions, and a place that is killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import numpy as np

from pliant.apgas import DeadPlaceException, GlobalRef, async_at, at, finish, here, places, run


def hello(depth: int, heard: GlobalRef[list[int]]) -> None:
    me = here().id
    async_at(heard.home, lambda: heard().append(me))
    if depth < 2:
        for each in places():
            async_at(each, hello, depth + 1, heard)


def fail() -> None:
    raise ValueError(here().id)


def main() -> dict[str, object]:
    heard: GlobalRef[list[int]] = GlobalRef([])
    with finish():
        for each in places():
            async_at(each, hello, 0, heard)
    array = np.arange(1e6)
    double = at(places()[-1], lambda x: x * 2, array)
    double += 1
    failed = 0
    try:
        with finish():
            for each in places():
                async_at(each, fail)
    except* ValueError as caught:
        failed = len(caught.exceptions)
    victim = places()[-1]
    pid = at(victim, os.getpid)
    lost = ""
    try:
        with finish():
            async_at(victim, time.sleep, 100)
            at(victim, abs, 1)
            os.kill(pid, signal.SIGKILL)
    except* DeadPlaceException as caught:
        lost = str(caught.exceptions[0])
    with finish():
        for each in places():
            async_at(each, hello, 2, heard)
    return {
        "heard": len(heard()),
        "array": bool((double == array * 2 + 1).all()),
        "failed": failed,
        "lost": lost,
        "left": [each.id for each in places()],
    }


if __name__ == "__main__":
    print(json.dumps(run(main, places=3, workers=2)))
    sys.exit(0)

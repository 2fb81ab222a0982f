"""Places that listen at addresses of their own, of which one stands still for some seconds: nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import threading
import time

import numpy as np

from pliant.apgas import GlobalRef, async_at, at, finish, here, place, places, run
from pliant.apgas.runtime import current

STALL_S = 3.0
ROUNDS = 40
os.environ["PLIANT_PLACE_HOST"] = f"127.0.0.{1 + int(os.environ.get('PLIANT_PLACE', '0'))}"


def note(heard: GlobalRef[list[tuple[int, int]]], number: int, data: np.ndarray) -> None:
    me = here().id, number if (data == number).all() else -1
    async_at(heard.home, lambda: heard().append(me))


def main() -> dict[str, object]:
    heard: GlobalRef[list[tuple[int, int]]] = GlobalRef([])
    victim = at(place(1), os.getpid)
    os.kill(victim, signal.SIGSTOP)
    begun = time.monotonic()
    threading.Timer(STALL_S, os.kill, (victim, signal.SIGCONT)).start()
    with finish():
        for number in range(ROUNDS):
            data = np.full(100_000, float(number))
            for each in places():
                async_at(each, note, heard, number, data)
    took = time.monotonic() - begun
    return {
        "stood_still": took >= STALL_S,
        "exact": sorted(heard()) == [(each, number) for each in range(3) for number in range(ROUNDS)],
        "places": [each.id for each in places()],
        "hosts": sorted(
            address[6:].split(":")[0] for address in current().machine.members.addresses.values()
        ),
    }


if __name__ == "__main__":
    print(json.dumps(run(main, places=3, workers=1)))

"""A team over sockets: large arrays, and a place that is killed while the others wait for it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from operator import add

import numpy as np

from pliant.apgas import (
    DeadPlaceException,
    Place,
    Team,
    async_at,
    collecting_finish,
    here,
    is_dead,
    offer,
    on_lost_place,
    places,
    run,
)


def sums(team: Team) -> None:
    whole = team.allreduce(np.full(1 << 20, float(here().id)))
    whole += 1  # nobody else's
    part = team.broadcast(np.arange(1 << 20) if here().id == 2 else None, team.places[2])
    assert part is not None
    offer([float(whole.sum() + part[-1])])


def loses(team: Team) -> None:
    if here().id == 1:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    try:
        team.barrier(60)
    except DeadPlaceException as error:
        offer([error.place if time.monotonic() - begun < 20 else -1])


def main() -> dict[str, object]:
    lost: list[Place] = []
    team = Team()
    none: list[float] = []
    with collecting_finish(add, none) as found:
        for each in places():
            async_at(each, sums, team)
    with on_lost_place(lost.append):
        try:
            with collecting_finish(add, none) as heard:
                for each in places():
                    async_at(each, loses, team)
        except* DeadPlaceException:
            pass
        while not lost:
            time.sleep(0.01)
    return {
        "sums": sorted(set(found.value)),
        "times": len(found.value),
        "heard": heard.value,
        "lost": [each.id for each in lost],
        "dead": is_dead(lost[0]),
    }


if __name__ == "__main__":
    print(json.dumps(run(main, places=3, workers=2)))
    sys.exit(0)

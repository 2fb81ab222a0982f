"""A program that asks for places when it has much to do, and gives them back when it has little."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

from pliant.apgas.errors import BadPlaceException, DeadPlaceException
from pliant.apgas.malleable.handler import malleability, offer_places, request_places
from pliant.apgas.malleable.load import LoadSample, LoadTrend, Thresholds, decide
from pliant.apgas.runtime import current
from pliant.model.errors import PliantError


class LoadFollower(AbstractContextManager["LoadFollower"]):
    """Follows the load until ``stop``, or the end of a ``with``."""

    def __init__(self, thresholds: Thresholds, every_s: float) -> None:
        thresholds.check()
        if not every_s > 0:
            raise ValueError(f"every_s={every_s:g}: it must be a positive number of seconds")
        self._thresholds, self._every_s = thresholds, every_s
        self._stopped = False
        self._malleability = malleability()
        self._runtime = current()
        self._runtime.threads.start(self._follow, "place 0 load")

    def stop(self) -> None:
        """Ask for nothing from now on."""
        with self._runtime.monitor:
            self._stopped = True
            self._runtime.flush()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _follow(self) -> None:
        seen = LoadTrend()
        # Where there is no scheduler, or the program ends, there is nothing to follow.
        with self._runtime.within(None), contextlib.suppress(PliantError):
            while not self._over():
                if not self._malleability.can_change:
                    continue
                load = self._measure()
                seen, change = decide(seen, load, self._thresholds)
                with contextlib.suppress(ValueError):  # places have come or left meanwhile
                    if change > 0:
                        request_places(change)
                    elif change < 0:
                        offer_places(-change)

    def _over(self) -> bool:
        """Wait until the next measure is due; whether there is none."""
        with self._runtime.monitor:
            return self._runtime.wait(lambda: self._stopped, self._every_s)

    def _measure(self) -> LoadSample:
        runtime = self._runtime
        with runtime.monitor:
            there = runtime.machine.members.places()
        found = [runtime.load()]
        for number in there:
            if number != runtime.here:
                with contextlib.suppress(BadPlaceException, DeadPlaceException):
                    found.append(runtime.call(number, load_here, (), urgent=True))
        return LoadSample(sum(tasks for tasks, _ in found), sum(workers for _, workers in found), len(found))


def load_here() -> tuple[int, int]:
    """Tasks and workers of this place; that it is asked is no load."""
    tasks, workers = current().load()
    return tasks - 1, workers


def follow_load(
    *, grow_above: float = 2.0, give_back_below: float = 0.5, every_s: float = 0.5
) -> LoadFollower:
    """Ask the scheduler for places while there are more than ``grow_above`` tasks a worker, and give places back while
    there are fewer than ``give_back_below``. At place 0; what comes of it is told to the program's malleable handler.

    The load is all tasks that are ready or running, calls that wait in a PlaceExecutor, and what glb.run has ready for
    others, over the workers of all places. It is measured each ``every_s`` seconds and smoothed; a number of places
    stays for three measures at least. ValueError if ``grow_above`` is not at least twice ``give_back_below``.

    It returns at once, and follows until ``stop()`` or the end of ``with follow_load(): ...``; a program without a
    scheduler keeps its places.
    """
    return LoadFollower(Thresholds(grow_above, give_back_below), every_s)

"""Tasks that fork: their children are no places, do no tasks, and keep no connection of a place that dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import signal
import sys
import time

from pliant.apgas import DeadPlaceException, PlaceExecutor, at, places, run
from pliant.model.errors import PliantError


def child_says() -> str:
    """What a child hears of its place; it comes back from the task, and has to end there."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            places()
        except PliantError as error:
            os.write(writing, str(error).encode())
        raise SystemExit(7)
    _, status = os.wait()
    return f"{os.read(reading, 1000).decode()[-30:]} {os.waitstatus_to_exitcode(status)}"


def in_a_pool() -> list[int]:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(abs, [-1, -2])


def sleeper() -> tuple[int, int]:
    """A child that outlives its place, and the place."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
    return child, os.getpid()


def sees_the_end() -> bool:
    """Whether a child that closes its writing end of a pipe, the last one, reads the end of the pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        raise SystemExit(0 if select.select([reading], [], [], 5)[0] else 1)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    os.close(reading)
    return os.waitstatus_to_exitcode(status) == 0


def cannot_flush() -> int:
    """The exit code of a child that returns from the task with its standard output closed."""
    child = os.fork()
    if child == 0:
        sys.stdout.close()
        return 0
    limit = time.monotonic() + 5
    while time.monotonic() < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        select.select([], [], [], 0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def main() -> dict[str, object]:
    said = [at(each, child_says) for each in places()]
    with PlaceExecutor() as executor:
        made = [executor.submit(child_says) for _ in range(3)]
        goes_on = [executor.submit(abs, -x).result() for x in range(8)] == list(range(8))
        said += [each.result() for each in made]
    child, place = at(places()[1], sleeper)
    os.kill(place, signal.SIGKILL)
    begun, lost = time.monotonic(), False
    try:
        at(places()[-1], time.sleep, 60)
    except DeadPlaceException:
        lost = True
    seconds = time.monotonic() - begun
    os.kill(child, signal.SIGKILL)
    return {
        "said": sorted(set(said)),
        "pool": in_a_pool(),
        "goes_on": goes_on,
        "end_of_file": at(places()[0], sees_the_end),
        "closed_output": at(places()[0], cannot_flush),
        "lost": lost and seconds < 10,
    }


if __name__ == "__main__":
    print(json.dumps(run(main, places=2, workers=2)))
    sys.exit(0)

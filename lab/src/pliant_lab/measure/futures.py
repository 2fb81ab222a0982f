"""A PlaceExecutor under CPython's own tests of executors, alone, on three places, and with place 0 left out.

``python -m pliant_lab.measure.futures [ERRORS]`` prints what passes, fails and hangs; tracebacks go to the file ERRORS.
The tests are those that come with the interpreter; some distributions have them in a package of their own.
"""

from __future__ import annotations

import importlib.util
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import IO, NamedTuple

SUITE = "pliant_lab.measure.futures_suite"
SILENCE_S = 60.0
"""A test that takes longer hangs; the longest of them sleeps for 6 s."""


class Arrangement(NamedTuple):
    """How the program runs: on so many places of so many workers, and whether place 0 makes calls."""

    title: str
    places: int
    workers: int
    whom: str


ARRANGEMENTS = (
    Arrangement("alone", 1, 5, "all"),
    Arrangement("three places", 3, 2, "all"),
    Arrangement("place 0 left out", 3, 3, "others"),
)


def measure(arrangement: Arrangement, errors: IO[str]) -> dict[str, str]:
    """By test what came of it: passed, failed, skipped or hung. A program that hangs is killed, and another goes on
    with the tests that are left."""
    found: dict[str, str] = {}
    while _run(arrangement, found, errors):
        pass
    return found


def _run(arrangement: Arrangement, found: dict[str, str], errors: IO[str]) -> bool:
    """Run the tests after those that are found; whether some are left."""
    environ = {
        **os.environ,
        "PLIANT_PLACES": str(arrangement.places),
        "PLIANT_WORKERS": str(arrangement.workers),
    }
    program = subprocess.Popen(
        [sys.executable, "-m", SUITE, arrangement.whom, str(len(found))],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(program, lines), daemon=True).start()
    begun = ""
    try:
        while line := lines.get(timeout=SILENCE_S):
            what, _, name = line.strip().partition(" ")
            if what == "begun":
                begun = name
            elif what in {"passed", "failed", "skipped"} and name == begun:
                found[name], begun = what, ""
    except queue.Empty:
        found[begun or "the end of the program"] = "hung"
        return bool(begun)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    if begun:
        found[begun] = "failed"  # it has ended the program
    return bool(begun)


def _read(program: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    for line in program.stdout or ():
        lines.put(line)
    lines.put("")


def main() -> None:
    if importlib.util.find_spec("test.test_concurrent_futures") is None:
        sys.exit(
            f"{sys.executable} has no test.test_concurrent_futures: install your distribution's package of Python's "
            "tests, or run this with another interpreter"
        )
    with Path(sys.argv[1] if len(sys.argv) > 1 else os.devnull).open("w", encoding="utf-8") as errors:
        for arrangement in ARRANGEMENTS:
            found = measure(arrangement, errors)
            counts = Counter(found.values())
            told = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
            sys.stdout.write(f"{arrangement.title}: {told} of {len(found)}\n")
            for name, what in found.items():
                if what not in {"passed", "skipped"}:
                    sys.stdout.write(f"  {what}: {name}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

"""What tasks of places in one process have done, in one log: functions of a module travel by name."""

from __future__ import annotations

from pliant.apgas.runtime import current

LOG: list[object] = []


def log(what: object) -> None:
    LOG.append(what)


def logged(what: object) -> bool:
    return what in LOG


def pause(times: int) -> None:
    """Let other tasks go first, so many times."""
    for _ in range(times):
        current().threads.pause()

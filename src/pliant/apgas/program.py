"""A program of several places: place 0 runs its main function, the others its tasks."""

from __future__ import annotations

import io
import ipaddress
import os
import sys
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from pliant.apgas import local
from pliant.apgas.malleable.handler import of
from pliant.apgas.place import script
from pliant.apgas.place.machine import GIVEN_UP
from pliant.apgas.place.membership import MOST_PLACES
from pliant.apgas.place.messages import Hello
from pliant.apgas.runtime import Runtime
from pliant.apgas.transport.keys import Contact, Keys
from pliant.apgas.transport.sockets import Sockets
from pliant.apgas.transport.threads import SystemThreads
from pliant.job import environment
from pliant.job.environment import Environment, deadline_s
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds

T = TypeVar("T")


def run(
    main: Callable[[], T],
    *,
    places: int | None = None,
    workers: int | None = None,
    bounds: Bounds | None = None,
) -> T:
    """Run ``main()`` at place 0 and return its value, when all tasks that it has spawned are over. At any other place
    it does not return: it runs tasks, and ends the process (SystemExit) when it is not needed any more.

    As a job of kind "places" it has a place on each of its nodes, and follows the scheduler within ``bounds`` while it
    has a malleable handler. A text that ``main`` returns is the job's result.

    Alone, it starts the other ``places`` as processes of this machine with the same command line; the default of 1 can
    be set by PLIANT_PLACES. Each runs ``workers`` tasks at a time: by default as many as it may use processors
    (PLIANT_WORKERS).
    """
    script.note()
    environ = os.environ
    where = environment.read()
    workers = workers or _number(environ, "PLIANT_WORKERS") or len(os.sched_getaffinity(0))
    if (place := local.begin()) is not None:
        _write_whole_lines()
        serve(*place, workers)
    if where is not None:
        return _as_job(main, where, workers, bounds or Bounds(1, MOST_PLACES))
    return _alone(main, places or _number(environ, "PLIANT_PLACES") or 1, workers)


def serve(number: int, contact: Contact, workers: int, leave: Callable[[], object] = lambda: None) -> None:
    """Be place ``number`` until place 0 says that it is enough; then ``leave``, and end the process."""
    runtime = Runtime(number, SystemThreads(), workers)
    sockets = runtime.transport = Sockets(runtime, contact.keys, _host())
    with runtime.monitor:
        runtime.machine.members.join({0: contact.address})
        runtime.machine.out.append((0, Hello(sockets.address), ()))
    runtime.flush()
    why = runtime.serve()
    sockets.close()
    if why.startswith(("place(0) is gone", GIVEN_UP)):  # in a job that is the loss of its group, not its end
        print(f"pliant: place({number}) ends: {why}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    leave()
    sys.exit(0)


def _alone(main: Callable[[], T], places: int, workers: int) -> T:
    runtime = Runtime(0, SystemThreads(), workers)
    if places == 1:
        return runtime.main(main)
    _write_whole_lines()
    sockets = runtime.transport = Sockets(runtime, Keys.make(), _host())
    try:
        others = local.LocalPlaces(sockets.contact, places)
        others.gather(runtime, deadline_s())
    except BaseException:
        sockets.close(linger_ms=0)  # nobody is left to be told
        raise
    try:
        return runtime.main(main)
    finally:
        runtime.stop_all()
        sockets.await_ends()
        sockets.close()
        others.end()


def _write_whole_lines() -> None:
    """Several places write to one pipe or file: what is printed goes there line by line, so that lines do not mix,
    also where Python does not buffer (``-u``, PYTHONUNBUFFERED) and would write a line's end on its own."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def _as_job(main: Callable[[], T], where: Environment, workers: int, bounds: Bounds) -> T:
    from pliant.apgas.session import PlaceSession, RootSession  # a program that runs alone needs no session

    limit_s = deadline_s()
    if where.group:
        member = PlaceSession(where, bounds, limit_s)
        serve(where.group, member.find(), workers, member.leave)
    root = RootSession(where, bounds, limit_s)
    runtime = Runtime(0, SystemThreads(), workers)
    sockets = runtime.transport = Sockets(runtime, Keys.make(), _host())
    try:
        root.begin(runtime, of(runtime), sockets.contact)
        _gather(runtime, root.welcome.groups[1:], limit_s)
        value = runtime.main(main)
        of(runtime).disable()
    except BaseException as error:
        root.fail(error)
        raise
    else:
        root.end(value if isinstance(value, str) else None, runtime.told_figures())
        return value
    finally:
        runtime.stop_all()
        sockets.await_ends()
        sockets.close()


def _gather(runtime: Runtime, places: Collection[int], limit_s: float) -> None:
    """Take in the places of the start; PliantError if they do not come in time."""
    if missing := runtime.await_arrival(places, limit_s):
        raise local.late(missing, limit_s)
    runtime.admit(places)


def _host() -> str:
    """Where this place listens, and others reach it."""
    text = os.environ.get("PLIANT_PLACE_HOST", "") or "127.0.0.1"
    try:
        reachable = not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        reachable = False
    if not reachable:
        raise PliantError(
            f"PLIANT_PLACE_HOST is {text!r}; it must be the IP address at which other places reach this one"
        )
    return text


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    if text and not (text.isascii() and text.isdigit() and int(text)):
        raise PliantError(f"{name} is {text!r}; it must be a positive whole number")
    return int(text or 0)

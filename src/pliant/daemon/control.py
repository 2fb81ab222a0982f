"""How other commands of the same user find a running controller and talk to it.

Every controller has a directory of its own below one that only its user can enter; in it, a Unix socket
takes one line of JSON and answers with one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from pliant.launch import CONTROL
from pliant.model.deadlines import COMMAND_ANSWER_S, COMMAND_RETRY_S
from pliant.model.errors import PliantError
from pliant.model.need import Need

REQUEST_BYTES = 1 << 16
ROOT_BYTES = 60
"""The kernel allows 107 bytes for a socket's path; ours add up to 40 to the directory's."""
SHORT = Path("/tmp")
"""Where no other directory will do: it is on every Linux, and ours in it is made and checked like any."""
STARTING_S = 10.0
"""A directory so young may belong to a controller that does not listen yet."""


class ControlRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """``verb`` is resize, migrate, nodes, list or queue; ``job`` a number or a name; size 0 hands the job back to the
    policy. A job migrates off the nodes of ``leave``, or off all that it has.
    With ``slots``, as ``n3=1``, it keeps its nodes, and so many of its ranks are to be awake on these. Of nodes,
    ``size`` more are asked for, which fulfil ``need``, below 0 so many fewer than were asked for, or those of ``leave``
    given back: in ``within_s`` seconds at the latest if that is not 0."""

    verb: str
    job: str = ""
    size: int = 0
    leave: str = ""
    slots: str = ""
    within_s: float = 0.0
    need: Need | None = None


class ControlAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """``error`` says why nothing was done, otherwise ``text`` says what was: of the ``job`` with its ``name``, of these
    ``nodes``, or of ``count`` nodes more. ``there`` are all nodes, a row each, and ``awaited`` those that were asked
    for and have not come."""

    text: str = ""
    error: str = ""
    jobs: list[dict[str, object]] = []
    job: int = 0
    name: str = ""
    nodes: list[str] = []
    count: int = 0
    there: list[dict[str, object]] = []
    awaited: list[dict[str, object]] = []


def base() -> Path:
    """The directory of this user's controllers, made if need be; PliantError if it is not safe to use."""
    path = _root() / f"pliant-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise PliantError(
            f"{path}: {error.strerror}; set XDG_RUNTIME_DIR to a directory of your own"
        ) from None
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or path.is_symlink():
        raise PliantError(
            f"{path} belongs to another user or is open to others; remove it or set XDG_RUNTIME_DIR"
        )
    return path


def _root() -> Path:
    """The user's own directory for such files if there is one, else that for temporary files, else /tmp: the first
    with a path so short that it leaves room for those of sockets."""
    roots = [os.environ.get("XDG_RUNTIME_DIR", "")]
    with contextlib.suppress(OSError):  # there is none
        roots.append(tempfile.gettempdir())
    for root in map(Path, filter(None, roots)):
        if root.is_absolute() and len(os.fsencode(root)) <= ROOT_BYTES and root.is_dir():
            return root
    return SHORT


class Survey(NamedTuple):
    """The ids of this user's controllers that take requests, and of those that may be alive and do not take one
    now, with the reason."""

    answering: list[str]
    silent: dict[str, str]


def survey() -> Survey:
    """Look for controllers; what dead ones left behind is removed.

    Nobody listens at a dead one's socket, or it is gone: no other error proves that.
    """
    found = Survey([], {})
    for path in sorted(each for each in base().iterdir() if each.is_dir()):
        try:
            _connect(path, 0.0).close()
            found.answering.append(path.name)
        except (ConnectionRefusedError, FileNotFoundError):
            _sweep(path)
        except OSError as error:
            found.silent[path.name] = (
                "it is busy" if error.errno == errno.EAGAIN else str(error.strerror or error)
            )
    return found


def runs() -> list[str]:
    """The ids of this user's controllers, also of those that may only be busy; what dead ones left is removed."""
    found = survey()
    return [*found.answering, *found.silent]


def _connect(runtime: Path, patience_s: float) -> socket.socket:
    """A connection to the controller of this directory; a busy one, whose queue is full, is tried again for so long."""
    deadline = time.monotonic() + patience_s
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(COMMAND_ANSWER_S)
        try:
            connection.connect(str(runtime / CONTROL))
        except BlockingIOError:
            connection.close()
            if time.monotonic() >= deadline:
                raise
            time.sleep(COMMAND_RETRY_S)
        except OSError:
            connection.close()
            raise
        else:
            return connection


def _sweep(path: Path) -> None:
    """Remove a dead controller's directory and what its dead groups have left."""
    try:
        young = time.time() - path.stat().st_mtime < STARTING_S
    except FileNotFoundError:
        return
    if young:
        return
    from pliant.launch import processes, shm  # seldom needed, and slow to load

    if not processes.find(path.name):
        shm.sweep(path, path.name)
        shutil.rmtree(path, ignore_errors=True)


def ask(run: str, request: ControlRequest) -> ControlAnswer:
    """Send one request to the controller ``run``; PliantError if it cannot be reached."""
    try:
        line = msgspec.json.encode(request) + b"\n"
    except UnicodeEncodeError as error:
        raise PliantError(f"{error.object!r} is no text in UTF-8") from None
    if len(line) > REQUEST_BYTES:
        raise PliantError(f"the request has {len(line):,} bytes, and the most is {REQUEST_BYTES:,}")
    try:
        with _connect(base() / run, COMMAND_ANSWER_S) as connection:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as file:
                answer = file.readline()
    except OSError as error:
        raise PliantError(f"run {run} does not answer: {error.strerror or error}") from None
    try:
        return msgspec.json.decode(answer, type=ControlAnswer)
    except msgspec.DecodeError:
        raise PliantError(f"run {run} does not answer: it closed the connection") from None

"""How other commands of the same user find a running controller and talk to it.

Every controller has a directory of its own below one that only its user can enter; in it, a Unix socket
takes one line of JSON and answers with one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from pliant.launch import processes, shm
from pliant.launch.agent import CONTROL
from pliant.model.errors import PliantError

ANSWER_S = 10.0
ROOT_CHARACTERS = 60
"""The kernel allows 107 characters for a socket's path; ours add up to 40 to the directory's."""
STARTING_S = 10.0
"""A directory so young may belong to a controller that does not listen yet."""


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """``verb`` is resize or queue; ``job`` a number or a name; size 0 hands the job back to the policy."""

    verb: str
    job: str = ""
    size: int = 0
    leave: str = ""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """``error`` says why nothing was done, else ``text`` what was."""

    text: str = ""
    error: str = ""
    jobs: list[dict[str, object]] = []


def base() -> Path:
    """The directory of this user's controllers, made if need be; PliantError if it is not safe to use."""
    root = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    if len(str(root)) > ROOT_CHARACTERS:
        root = Path(tempfile.gettempdir())
    path = root / f"pliant-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
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


def new_runtime() -> tuple[str, Path]:
    """A new run's id and directory; what runs that were killed have left behind is removed on the way."""
    runs()
    run = secrets.token_hex(4)
    path = base() / run
    path.mkdir(mode=0o700)
    return run, path


async def listen(runtime: Path, answer: Callable[[Request], Answer]) -> asyncio.Server:
    """Answer requests on the run's control socket until the server is closed."""
    decoder = msgspec.json.Decoder(Request)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError, ValueError):
            line = await asyncio.wait_for(reader.readline(), ANSWER_S)
            try:
                result = answer(decoder.decode(line))
            except (msgspec.DecodeError, PliantError) as error:
                result = Answer(error=str(error))
            writer.write(msgspec.json.encode(result) + b"\n")
            await asyncio.wait_for(writer.drain(), ANSWER_S)
        writer.close()

    path = runtime / CONTROL
    server = await asyncio.start_unix_server(serve, path=str(path))
    path.chmod(0o600)
    return server


def runs() -> list[str]:
    """The ids of this user's controllers that answer; what dead ones left behind is removed."""
    alive = []
    for path in sorted(base().iterdir()):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(ANSWER_S)
            try:
                probe.connect(str(path / CONTROL))
                alive.append(path.name)
            except OSError:
                _sweep(path)
    return alive


def _sweep(path: Path) -> None:
    """Remove a dead controller's directory and what its dead groups have left."""
    try:
        young = time.time() - path.stat().st_mtime < STARTING_S
    except FileNotFoundError:
        return
    if not young and not processes.find(path.name):
        shm.sweep(path, path.name)
        shutil.rmtree(path, ignore_errors=True)


def ask(run: str, request: Request) -> Answer:
    """Send one request to the controller ``run``; PliantError if it cannot be reached."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(str(base() / run / CONTROL))
            connection.sendall(msgspec.json.encode(request) + b"\n")
            with connection.makefile("rb") as file:
                return msgspec.json.decode(file.readline(), type=Answer)
        except (OSError, msgspec.DecodeError) as error:
            raise PliantError(f"run {run} does not answer: {error}") from None

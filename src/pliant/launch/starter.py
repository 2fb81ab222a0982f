"""Starting the ranks of a group by fork and exec. Another way, for programs of Python, is `launch/warming.py`."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol

from pliant.launch import processes


class StartError(Exception):
    """A command that cannot be started; ``code`` is a shell's exit code for it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Streams(NamedTuple):
    """Paths: what its output is appended to, its errors too unless they have one of their own, and what it reads."""

    output: str
    errors: str = ""
    stdin: str = ""


class Starter(Protocol):
    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        streams: Streams,
        pmi: socket.socket | None,
    ) -> int:
        """Start one rank with ``pmi`` as its PMI connection, if it has one; its pid. StartError, or OSError if it
        cannot even be tried."""


class ExecStarter:
    """Forks and executes. The rank gets a session of its own, so that a terminal's Ctrl-C is not its own,
    and dies with the agent."""

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        streams: Streams,
        pmi: socket.socket | None,
    ) -> int:
        told, tell = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                _leave(parent)
                _become(argv, env, cwd, streams, pmi)
            except Exception as error:  # noqa: BLE001 - this process is about to end; its parent tells
                os.write(tell, _problem(error, argv[0], (cwd, *streams)).encode(errors="replace"))
            finally:
                os._exit(127)
        os.close(tell)
        with open(told, "rb") as pipe:  # noqa: PTH123 - a file descriptor has no path
            problem = pipe.read().decode(errors="replace")
        if problem:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
            code, _, text = problem.partition(" ")
            raise StartError(text, int(code))
        return pid


def _leave(parent: int) -> None:
    """Have nothing of the agent any more but that this process dies with it."""
    os.setsid()
    processes.die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _become(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, streams: Streams, pmi: socket.socket | None
) -> NoReturn:
    out = os.open(streams.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    errors = os.open(streams.errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if streams.errors else out
    if cwd:
        os.chdir(cwd)
    os.dup2(_opened(streams.stdin or os.devnull), 0)
    os.dup2(out, 1)
    os.dup2(errors, 2)
    if pmi is not None:
        os.set_inheritable(pmi.fileno(), True)
        env = {**env, "PMI_FD": str(pmi.fileno())}
    os.execvpe(argv[0], list(argv), env)  # noqa: S606


def _opened(path: str) -> int:
    """What a rank reads. Of a named pipe it reads what writers have left that have gone: to open that in the usual way
    would wait for others."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def _problem(error: Exception, program: str, places: tuple[str, ...]) -> str:
    """A shell's exit code for what has gone wrong, and what that was: with the program, or with one of these paths."""
    if not isinstance(error, OSError):
        return f"126 {program!r}: {error}"
    what = f"the file or directory {error.filename!r}" if error.filename in places else f"{program!r}"
    return f"{127 if isinstance(error, FileNotFoundError) else 126} {what}: {error.strerror}"


def place_problem(error: OSError, path: Path | str) -> str:
    """The error with a file or directory of Pliant's own below ``path``, and its remedy."""
    why = error.strerror or error
    return f"{error.filename2 or error.filename or path}: {why}{_REMEDIES.get(error.errno, '')}"


_ROOM = "; make room there, or set TMPDIR on the node to another directory"
_REMEDIES = {errno.ENOSPC: _ROOM, errno.EDQUOT: _ROOM, None: "; set TMPDIR on the node to a shorter one"}
"""A socket's path that is too long has no number."""


def write_secret(path: Path, secret: str) -> None:
    """Write a file that only its owner can read, or none; FileExistsError if there is one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w") as file:  # noqa: PTH123 - a file descriptor has no path
            file.write(secret)
    except OSError:
        path.unlink(missing_ok=True)
        raise

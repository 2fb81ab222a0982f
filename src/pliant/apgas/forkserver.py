"""The process that places of one machine are forked from: it has imported, once, what each of them needs.

Place 0 starts it and tells it over a socket which places to start. A place is a child that runs the program's script
from its start, as the interpreter would. The server tells place 0 how each child has ended, and ends with place 0.
"""

from __future__ import annotations

import contextlib
import gc
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NamedTuple

import msgspec

from pliant.model.python_program import PythonProgram

LARGEST = 1 << 16
"""Of a message, in bytes."""
NUMBER = "PLIANT_PLACE"
"""The variable that tells a script which place it is run by; none at place 0."""


class StartPlace(msgspec.Struct, tag=True, frozen=True):
    """To the server: fork this place. The message carries a pipe, which is the place's standard error until ``run``."""

    place: int
    contact: str


class KillPlace(msgspec.Struct, tag=True, frozen=True):
    place: int


class PlaceEnded(msgspec.Struct, tag=True, frozen=True):
    """From the server: this place has ended. ``code`` is negative for a signal. ``why``: why the server could not start
    it; empty if it did."""

    place: int
    code: int
    why: str = ""


class Child(NamedTuple):
    """A place that the server has forked. ``errors`` is the program's standard error: until its script comes to
    ``run``, the place writes to a pipe instead."""

    place: int
    contact: str
    errors: int


child: Child | None = None
"""This process, if it is one."""


class _Server:
    """Forks places until place 0 closes ``control``."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._places: dict[int, int] = {}
        """By process id."""
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._signals = {
            signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),  # it ends with place 0
            signal.SIGCHLD: signal.signal(signal.SIGCHLD, lambda *_: None),
        }
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def serve(self) -> tuple[StartPlace, int] | None:
        """Returns None in the server, when it is over; in each child the place that it is, and its pipe."""
        gc.freeze()
        while True:
            ready, _, _ = select.select([self._control.fileno(), self._woken], [], [])
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, LARGEST)
                self._reap()
            if self._control.fileno() not in ready:
                continue
            data, pipes, _, _ = socket.recv_fds(self._control, LARGEST, 1)
            if not data:
                return None
            match msgspec.json.decode(data, type=StartPlace | KillPlace):
                case StartPlace() as start:
                    if self._fork(start.place):
                        return start, pipes[0]
                case KillPlace(place):
                    for process in [each for each, other in self._places.items() if other == place]:
                        os.kill(process, signal.SIGKILL)
            for pipe in pipes:
                os.close(pipe)

    def _fork(self, place: int) -> bool:
        """Whether this is the child."""
        try:
            process = os.fork()
        except OSError as error:
            self._tell(PlaceEnded(place, 1, f"could not be started: {error}"))
            return False
        if process:
            self._places[process] = place
            return False
        signal.set_wakeup_fd(-1)
        for number, handler in self._signals.items():
            signal.signal(number, handler)
        for each in (self._woken, self._wake):
            os.close(each)
        self._control.close()
        return True

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._tell(PlaceEnded(self._places.pop(ended[0]), os.waitstatus_to_exitcode(ended[1])))

    def _tell(self, ended: PlaceEnded) -> None:
        with contextlib.suppress(OSError):  # place 0 has gone
            self._control.send(msgspec.json.encode(ended))


def main() -> None:
    """The server's program: the descriptor of its socket to place 0, then the words of the program to run."""
    global child  # noqa: PLW0603 - a process is one, or none
    number, *words = sys.argv[1:]
    program = PythonProgram.read(words)
    if program is None:
        raise ValueError(f"{words} names no program")
    with socket.socket(fileno=int(number)) as control:
        given = _Server(control).serve()
    if given is None:
        return
    start, pipe = given
    child = Child(start.place, start.contact, os.dup(2))
    os.dup2(pipe, 2)
    os.close(pipe)
    os.environ[NUMBER] = str(start.place)
    sys.orig_argv = [sys.executable, *words]
    try:
        _run(program)
    except Exception as error:  # noqa: BLE001 - as the interpreter does
        trace = _of_program(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(1)


def _run(program: PythonProgram) -> None:
    """Run it in this process, as the interpreter does."""
    sys.argv = [f"-{program.way}" if program.way else program.name, *program.arguments]
    safe, path = getattr(sys.flags, "safe_path", False), Path(program.name)
    if not safe and not program.way and path.is_file():
        sys.path.insert(0, str(path.resolve().parent))
    elif not safe and program.way:
        sys.path.insert(0, "" if program.way == "c" else str(Path.cwd()))
    if program.way == "c":
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(program.name, "<string>", "exec"), vars(main))  # noqa: S102 - the user's
    elif program.way == "m":
        runpy.run_module(program.name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program.name, run_name="__main__")


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """The frames of the program: the server and runpy run it, and are no part of it."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        trace = trace.tb_next
    return trace

"""Places as processes of this machine: each runs the script of this one from its start, and is one when it comes to
``run``. What it writes to standard error before that goes through here, so that its end can be explained."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

import msgspec

from pliant.apgas import forkserver
from pliant.apgas.forkserver import LARGEST, KillPlace, PlaceEnded, StartPlace
from pliant.apgas.place.membership import named
from pliant.apgas.runtime import Runtime
from pliant.apgas.transport import forks
from pliant.apgas.transport.keys import Contact
from pliant.model.errors import PliantError
from pliant.model.python_program import PythonProgram

END_S = 10.0
"""How long places may take to end."""
LOOK_S = 0.1
"""How often it is looked whether a place has ended that has not come."""
LAST_S = 0.5
"""How long the last words of a place that has ended may take."""
LINES, LINE = 12, 1 << 16
"""How much is kept of what a place says: so many lines of at most so many bytes."""
SERVER = (
    "import sys; sys.flags.safe_path or sys.path.pop(0); "
    "{root!r} in sys.path or sys.path.append({root!r}); "
    "from pliant.apgas.forkserver import main; main()"
)


def _directory() -> str | None:
    """The current one, if it is there."""
    try:
        return str(Path.cwd())
    except OSError:
        return None


_BEGAN_IN = _directory()
"""Where the program began, unless it went elsewhere before it imported this."""


def repeated() -> tuple[list[str], str | None]:
    """The words behind the interpreter that run this program from its start, and in which directory; PliantError where
    nothing does."""
    main, words = sys.modules["__main__"], sys.orig_argv[1:]
    file, program = getattr(main, "__file__", None) or "", PythonProgram.read(words)
    if getattr(main, "__spec__", None) is not None or (program is not None and program.way == "c"):
        return words, _BEGAN_IN
    for word in filter(None, words):
        if file == word:
            return words, _BEGAN_IN
        if file.endswith(f"/{word}"):  # the program may have gone elsewhere since
            return words, file.removesuffix(f"/{word}") or "/"
    raise PliantError(
        "other places run the program's script from its start, and this one has none that they could: it was read from "
        "standard input, or typed into a notebook or a prompt; save it as a file: PLIANT_PLACES=3 python FILE.py"
    )


def begin() -> tuple[int, Contact] | None:
    """This process is a place that another one has started: its number and contact. None if it is not."""
    if (child := forkserver.child) is None:
        return None
    sys.stderr.flush()
    os.dup2(child.errors, 2)
    os.close(child.errors)
    return child.place, Contact.read(child.contact)


class _ForkServer:
    """The process that places are forked from, which is started at once."""

    def __init__(self) -> None:
        words, cwd = repeated()
        program = PythonProgram.read(words)
        options = [] if program is None else program.options
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = SERVER.format(root=str(Path(__file__).parents[2]))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *options, "-c", code, str(theirs.fileno()), *words],
                cwd=cwd, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),),
            )  # fmt: skip
        forks.tell(self)

    def forked(self) -> None:
        """A process that a task forks does not keep the server."""
        self._control.close()

    def tell(self, message: StartPlace | KillPlace, pipe: int | None = None) -> None:
        self._control.settimeout(END_S)
        with contextlib.suppress(OSError):  # that it has gone is heard
            socket.send_fds(self._control, [msgspec.json.encode(message)], [] if pipe is None else [pipe])

    def hear(self, within_s: float) -> list[PlaceEnded] | None:
        """The ends that the server reports within this time, and those behind the first; None if it has gone."""
        heard: list[PlaceEnded] = []
        try:
            while True:
                self._control.settimeout(0.0 if heard else within_s)
                if not (data := self._control.recv(LARGEST)):
                    return heard or None
                heard.append(msgspec.json.decode(data, type=PlaceEnded))
        except (TimeoutError, BlockingIOError):
            return heard
        except ConnectionError:
            return heard or None

    def end(self) -> str:
        """End the server. Returns how it has ended."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return ended(code)


def ended(code: int) -> str:
    """``ended with exit code 3``, ``was ended by signal 9``."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


class _Place:
    """A place as place 0 sees it: its last lines on standard error before ``run``, and its end."""

    def __init__(self, hearing: int) -> None:
        self.end: PlaceEnded | None = None
        self._said: deque[bytes] = deque(maxlen=LINES)
        self._thread = threading.Thread(target=self._listen, args=(hearing,), daemon=True)
        self._thread.start()

    def _listen(self, hearing: int) -> None:
        with os.fdopen(hearing, "rb") as lines:
            while line := lines.readline(LINE):
                self._said.append(line)
                with contextlib.suppress(OSError):
                    os.write(2, line)

    def how(self, end: PlaceEnded) -> str:
        """How it has ended, and what it said last."""
        if end.why:
            return end.why
        self._thread.join(LAST_S)
        said = b"".join(self._said).decode(errors="replace").rstrip()
        return f"{ended(end.code)} before it came to run()" + (f":\n{said}" if said else " and said nothing")


class LocalPlaces:
    """The places 1 and up of a program, whose place 0 is this process."""

    def __init__(self, contact: Contact, count: int) -> None:
        """Start them, ``count`` with place 0; PliantError where nothing runs the program from its start."""
        self._places: dict[int, _Place] = {}
        self._server = _ForkServer()
        atexit.register(self.end, 0.0)
        for number in range(1, count):
            self._start(number, contact.text())

    def _start(self, number: int, contact: str) -> None:
        hearing, telling = os.pipe()
        self._places[number] = _Place(hearing)
        try:
            self._server.tell(StartPlace(number, contact), telling)
        finally:
            os.close(telling)

    def gather(self, runtime: Runtime, limit_s: float) -> None:
        """Take in all; PliantError as soon as one has ended, or if they do not come in time. None is left then."""
        try:
            self._gather(runtime, limit_s)
        except BaseException:
            self.end(0.0)
            raise

    def _gather(self, runtime: Runtime, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        while missing := runtime.await_arrival(self._places, LOOK_S):
            if not self._hear(0.0):
                raise PliantError(f"the process that starts places {self._server.end()}")
            for number in sorted(missing):
                place = self._places[number]
                if place.end is not None:
                    raise PliantError(f"{named({number})} {place.how(place.end)}")
            if time.monotonic() > end:
                raise late(missing, limit_s)
        runtime.admit(self._places)

    def _hear(self, within_s: float) -> bool:
        """Note which places have ended; False if the server has gone, which alone knows."""
        heard = self._server.hear(within_s)
        for each in heard or ():
            self._places[each.place].end = each
        return heard is not None

    def end(self, within_s: float = END_S) -> None:
        """Wait for all to end, and kill those that do not."""
        atexit.unregister(self.end)
        if self._await_ends(within_s):
            for number, place in self._places.items():
                if place.end is None:
                    self._server.tell(KillPlace(number))
            self._await_ends(END_S)
        self._places.clear()
        self._server.end()

    def _await_ends(self, within_s: float) -> bool:
        """Whether some places have not ended within this time; False if the server has gone."""
        end = time.monotonic() + within_s
        while any(place.end is None for place in self._places.values()):
            left_s = end - time.monotonic()
            if not self._hear(max(0.0, left_s)):
                return False
            if left_s <= 0:
                return any(place.end is None for place in self._places.values())
        return False


def late(missing: set[int], limit_s: float) -> PliantError:
    return PliantError(f"{named(missing)} did not come within {limit_s:.0f} s (PLIANT_DEADLINE)")

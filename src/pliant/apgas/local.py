"""Places as processes of this machine: each runs the script of this one from its start, and is one when it comes to
``run``. What it writes to standard error before that goes through here, so that its end can be explained."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

from pliant.apgas.place.membership import named
from pliant.apgas.runtime import Runtime
from pliant.apgas.transport.keys import Contact
from pliant.model.errors import PliantError

NUMBER, CONTACT, ERRORS = "PLIANT_PLACE", "PLIANT_PLACE_FD", "PLIANT_PLACE_STDERR"
"""What a place is told: its number, and the descriptors of what it reads its contact from and of standard error."""
END_S = 10.0
"""How long places may take to end."""
LOOK_S = 0.1
"""How often it is looked whether a place has ended that has not come."""
LAST_S = 0.5
"""How long the last words of a place that has ended may take."""
LINES, LINE = 12, 1 << 16
"""How much is kept of what a place says: so many lines of at most so many bytes."""


def _directory() -> str | None:
    """The current one, if it is there."""
    try:
        return str(Path.cwd())
    except OSError:
        return None


_BEGAN_IN = _directory()
"""Where the program began, unless it went elsewhere before it imported this."""


def repeated() -> tuple[list[str], str | None]:
    """What runs this program from its start, and in which directory; PliantError where nothing does."""
    main, words = sys.modules["__main__"], sys.orig_argv[1:]
    command, file = [sys.executable, *words], getattr(main, "__file__", None) or ""
    if getattr(main, "__spec__", None) is not None:
        return command, _BEGAN_IN
    for word in filter(None, words):
        if file == word:
            return command, _BEGAN_IN
        if file.endswith(f"/{word}"):  # the program may have gone elsewhere since
            return command, file.removesuffix(f"/{word}") or "/"
    if any(re.fullmatch("-[A-Za-z]*c", word) for word in words):
        return command, _BEGAN_IN
    raise PliantError(
        "other places run the program's script from its start, and this one has none that they could: it was read from "
        "standard input, or typed into a notebook or a prompt; save it as a file: PLIANT_PLACES=3 python FILE.py"
    )


def begin() -> tuple[int, Contact] | None:
    """This process is a place that another one has started: its number and contact. None if it is not."""
    if NUMBER not in os.environ:
        return None
    with os.fdopen(int(os.environ[CONTACT]), "r", encoding="ascii") as given:
        contact = Contact.read(given.read())
    if ERRORS in os.environ:
        sys.stderr.flush()
        errors = int(os.environ[ERRORS])
        os.dup2(errors, 2)
        os.close(errors)
    return int(os.environ[NUMBER]), contact


class _Place:
    """A process, and what it has said last on standard error before it was a place."""

    def __init__(self, command: list[str], cwd: str | None, environ: dict[str, str], contact: str) -> None:
        reading, giving = os.pipe()
        hearing, telling = os.pipe()
        errors = os.dup(2)
        environ = {**environ, CONTACT: str(reading), ERRORS: str(errors)}
        try:
            self.process = subprocess.Popen(
                command, env=environ, cwd=cwd, stdin=subprocess.DEVNULL, stderr=telling,
                pass_fds=(reading, errors),
            )  # fmt: skip
        except BaseException:
            os.close(hearing)
            raise
        finally:
            for each in (reading, telling, errors):
                os.close(each)
            with os.fdopen(giving, "w", encoding="ascii") as given:
                given.write(contact)
        self._said: deque[bytes] = deque(maxlen=LINES)
        self._thread = threading.Thread(target=self._listen, args=(hearing,), daemon=True)
        self._thread.start()

    def _listen(self, hearing: int) -> None:
        with os.fdopen(hearing, "rb") as lines:
            while line := lines.readline(LINE):
                self._said.append(line)
                with contextlib.suppress(OSError):
                    os.write(2, line)

    @property
    def how(self) -> str:
        """How it has ended, and what it said last."""
        self._thread.join(LAST_S)
        code = self.process.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        said = b"".join(self._said).decode(errors="replace").rstrip()
        return f"{how} before it came to run()" + (f":\n{said}" if said else " and said nothing")


class LocalPlaces:
    """The places 1 and up of a program, whose place 0 is this process."""

    def __init__(self, contact: Contact) -> None:
        self._contact = contact
        self._places: dict[int, _Place] = {}
        atexit.register(self.end, 0.0)

    def start(self, number: int) -> None:
        """PliantError where that cannot be."""
        command, cwd = repeated()
        environ = {**os.environ, NUMBER: str(number)}
        self._places[number] = _Place(command, cwd, environ, self._contact.text())

    def gather(self, runtime: Runtime, limit_s: float) -> None:
        """Take in all; PliantError as soon as one has ended, or if they do not come in time."""
        end = time.monotonic() + limit_s
        while missing := runtime.await_arrival(self._places, LOOK_S):
            for number in sorted(missing):
                if self._places[number].process.poll() is not None:
                    raise PliantError(f"{named({number})} {self._places[number].how}")
            if time.monotonic() > end:
                raise late(missing, limit_s)
        runtime.admit(self._places)

    def end(self, within_s: float = END_S) -> None:
        """Wait for all to end, and kill those that do not."""
        for place in self._places.values():
            try:
                place.process.wait(within_s)
            except subprocess.TimeoutExpired:
                place.process.kill()
                place.process.wait()
        self._places.clear()
        atexit.unregister(self.end)


def late(missing: set[int], limit_s: float) -> PliantError:
    return PliantError(f"{named(missing)} did not come within {limit_s:.0f} s (PLIANT_DEADLINE)")

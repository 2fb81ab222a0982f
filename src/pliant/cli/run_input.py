"""Standard input of ``pliant run -- COMMAND``: its one job reads it by itself, where that can be."""

from __future__ import annotations

import array
import fcntl
import os
import stat
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pliant.model.python_program import reads_its_script


class RunInput(NamedTuple):
    """At ``path`` the job opens our standard input; without one it has none, and ``why`` says why not."""

    path: str = ""
    why: str = ""

    def tell_unread(self) -> RunInput:
        """Warn once, on standard error, of input that no job reads."""
        if not self.why or not _has_data():
            return self
        sys.stderr.write(f"pliant: the job cannot read standard input: {self.why}\n")
        return RunInput()


def of_command(*, elsewhere: bool, once: bool) -> RunInput:
    """The input of a command's one job. ``elsewhere``: its nodes are other machines, with the same files. ``once``: it
    runs once. The job never reads a terminal: it would take input meant for the shell, or be stopped."""
    mode = os.fstat(0).st_mode
    if stat.S_ISREG(mode):
        return _file(elsewhere=elsewhere)
    if stat.S_ISFIFO(mode):
        if elsewhere:
            return RunInput(why="on other machines it can read a file, as by -- COMMAND < FILE, and no pipe")
        if not once:
            return RunInput(
                why="a pipe is read once, and the job runs twice: give it a file, as by -- COMMAND < FILE"
            )
        return _opened()
    return RunInput(why="" if stat.S_ISCHR(mode) else "it is neither a file nor a pipe")


def script_is_input(command: list[str]) -> bool:
    """Whether this is a Python that takes its script from standard input."""
    return Path(command[0]).name.startswith("python") and reads_its_script(command[1:])


def _file(*, elsewhere: bool) -> RunInput:
    """Open the file once more, at its beginning."""
    if os.lseek(0, 0, os.SEEK_CUR):
        return RunInput(
            why="somebody has read the first part of that file, and the job would read it from its beginning"
        )
    if not elsewhere:
        return _opened()
    path = Path("/proc/self/fd/0").readlink()
    with suppress(OSError):
        if os.path.samestat(path.stat(), os.fstat(0)):
            return RunInput(str(path))
    return RunInput(why=f"the file {path} cannot be found by its name any more")


def _opened() -> RunInput:
    path = f"/proc/{os.getpid()}/fd/0"
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        return RunInput(why=f"it cannot be opened: {error.strerror}")
    return RunInput(path)


def _has_data() -> bool:
    with suppress(OSError):
        if stat.S_ISREG((status := os.fstat(0)).st_mode):
            return status.st_size > os.lseek(0, 0, os.SEEK_CUR)
        waiting = array.array("i", [0])
        fcntl.ioctl(0, termios.FIONREAD, waiting)
        return waiting[0] > 0
    return False

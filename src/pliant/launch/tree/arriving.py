"""The first program on a node that ssh reaches. It travels as text: the node may have no other code yet. It becomes an
agent, of the Pliant that is there, or of code that comes by standard input.

It needs no more than Python 3.7, so that it can say which Python is needed.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

HERE = b"\1pliant: here\1\n"
"""It says this at once on standard output: ssh has done its part."""
NEEDED = b"\1pliant: send code\1\n"
"""It says this where it does not find the packages."""
ARCHIVE = "pliant-agent.zip"
"""Beside the packages, where they came by standard input (`shipping.py`)."""
PACKAGES = ("pliant", "msgspec")
"""The packages of an agent."""
COMES_S = 60
"""How long the code may take to come."""
LENGTH = 12
"""Digits of the length of what is sent."""


def main(places: list[str], magic: str, folder: str) -> None:
    """Be an agent. ``places``: where the packages are, if they are there. ``magic``: for which Python and machine they
    are compiled, as :func:`magic_here` has it. ``folder``: where code goes that is sent, below that of the user's
    launches; empty if none is."""
    signal.alarm(COMES_S)
    os.write(1, HERE)
    if magic_here() != magic:
        why = f"{sys.executable} is {magic_here()}, and this launch is of {magic}"
        _end(f"{why}: name such a Python by --remote-python")
    if not all(os.path.isdir(os.path.join(place, name)) for place, name in zip(places, PACKAGES)):
        if not folder:
            _end(
                f"there is no Pliant in {places[0]}: a job needs it there; pliant launch sends what it needs"
            )
        places = [_unpacked(folder)] * 2
    signal.alarm(0)
    sys.path += places
    import_module("pliant.launch.tree.__main__").main()  # of these places, not of where this text comes from


def magic_here() -> str:
    return f"{sys.implementation.cache_tag}-{os.uname()[4]}"


def _end(why: str) -> None:
    sys.exit(f"pliant: {why}")


def _read(count: int) -> bytes:
    data = os.read(0, count)
    if not data:
        _end("the code that was to come by standard input has not come whole")
    return data


def _unpacked(folder: str) -> str:
    """The place of the packages, which were asked for and have come. The line that was to be read before stands in
    standard input again."""
    line = b""
    while not line.endswith(b"\n"):
        line += _read(65536)
    os.write(1, NEEDED)
    size, data = b"", []
    while len(size) < LENGTH:
        size += _read(LENGTH - len(size))
    left = int(size)
    while left:
        data.append(_read(left))
        left -= len(data[-1])
    given = os.memfd_create("posting")
    os.write(given, line)
    os.lseek(given, 0, 0)
    os.dup2(given, 0)
    return _kept(b"".join(data), folder)


def _kept(data: bytes, folder: str) -> str:
    named = os.environ.get("TMPDIR", "")
    top = named if os.access(named, os.W_OK | os.X_OK) else "/tmp"
    upper = os.path.join(os.path.abspath(top), f"pliant-{os.getuid()}-{os.path.dirname(folder)}")
    where = os.path.join(upper, os.path.basename(folder))
    try:
        os.makedirs(upper, 0o700, exist_ok=True)
        if os.lstat(upper).st_uid != os.getuid():
            _end(f"{upper} is another user's")
        os.mkdir(where, 0o700)
        import io
        import zipfile

        zipfile.ZipFile(io.BytesIO(data)).extractall(where)
        with open(os.path.join(where, ARCHIVE), "wb") as file:
            file.write(data)
    except OSError as error:
        import shutil

        shutil.rmtree(where, ignore_errors=True)
        if os.path.isdir(upper) and not os.listdir(upper):
            os.rmdir(upper)
        why = error.strerror or error
        _end(f"{where}: no place for the code that came: {why}; make room there, or set TMPDIR on the node")
    return where


if __name__ == "__main__":
    main(sys.argv[2:4], sys.argv[4], sys.argv[5])

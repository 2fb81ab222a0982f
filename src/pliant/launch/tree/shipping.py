"""The code of an agent, for nodes on which Pliant is not installed: it goes over the standard input of ssh, as compiled
modules, and lies in a folder of the launch for as long as the agent runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER

from pliant.launch.tree.arriving import ARCHIVE, LENGTH, PACKAGES

TEXT = "pliant/launch/tree/arriving.py"
"""A program by its text, which those below are told."""
_PARTS = {
    "pliant": (
        "", "launch", "launch/pmix", "launch/tree", "live", "live/fleet", "live/node", "live/tree", "model", "plan",
        "protocol",
    ),
    "msgspec": ("",),
}  # fmt: skip
"""The folders of each package whose modules agents load."""


def message() -> bytes:
    """The answer to a node that has asked for code: a length, then an archive."""
    code = archive()
    return b"%*d" % (LENGTH, len(code)) + code


@cache
def archive() -> bytes:
    """A zip of all modules that an agent may load. An agent that was sent passes on its own archive."""
    places = {package: os.path.dirname(sys.modules[package].__path__[0]) for package in PACKAGES}  # noqa: PTH120 - pathlib is slow to load
    try:
        with open(os.path.join(places["pliant"], ARCHIVE), "rb") as file:  # noqa: PTH118, PTH123 - as above
            return file.read()
    except FileNotFoundError:
        return _made(places)


def _made(places: dict[str, str]) -> bytes:
    from io import BytesIO
    from zipfile import ZIP_DEFLATED, ZipFile

    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as packed:
        for package, place in places.items():
            for name in _files(place, package):
                path = os.path.join(place, name)  # noqa: PTH118
                if name.endswith(".py") and name != TEXT:
                    packed.writestr(f"{name}c", _compiled(name, path))
                else:
                    packed.write(path, name)
    return out.getvalue()


def _files(place: str, package: str) -> Iterator[str]:
    """Modules of Python, and compiled ones, of a package."""
    for part in _PARTS[package]:
        folder = os.path.join(package, part)  # noqa: PTH118
        for name in sorted(os.listdir(os.path.join(place, folder))):  # noqa: PTH118, PTH208
            if name.endswith((".py", ".so")):
                yield os.path.normpath(os.path.join(folder, name))  # noqa: PTH118


def _compiled(name: str, path: str) -> bytes:
    """A module as Python keeps it: it is not looked whether its source has changed."""
    from marshal import dumps

    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return MAGIC_NUMBER + bytes(12) + dumps(SourceFileLoader(module, path).get_code(module))

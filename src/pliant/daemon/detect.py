"""Which MPI a program will load, found out before it is started.

An interpreter of Python is asked in a process of its own, with the program's environment; of an executable the
libraries are listed. Both take a tenth of a second or two, so what was found is kept in a file, and believed as long
as the files that it was learnt from are what they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from pliant.files.partial import save
from pliant.model.flavours import Mpi, identify

LIMIT_S = 20.0
"""How long a program may take to say which MPI it loads; else it is not known."""
MOST_KEPT = 200
ASK = """
import json, os, sys
sys.path[:] = [path for path in sys.path if path]
from mpi4py import MPI
maps = open("/proc/self/maps").read().split("\\n")
loaded = {line.split(None, 5)[5] for line in maps if line.count("/") and "mpi" in line.rpartition("/")[2].lower()}
print(json.dumps([MPI.Get_library_version(), sorted(loaded)]))
"""
CALL = """
import ctypes, json, sys
text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL).MPI_Get_library_version(text, ctypes.byref(length))
print(json.dumps([text.value.decode(errors="replace"), [sys.argv[1]]]))
"""
LIBRARY = re.compile(r"libmpi(?:ch)?\.so[.\d]*")
PYTHON = re.compile(r"python[\d.]*t?|pypy[\d.]*")
NOT_ITS_OWN = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_")
MATTERS = re.compile(r"PATH|LD_.*|MPI4PY_.*|PYTHON.*|VIRTUAL_ENV|OPAL_PREFIX|I_MPI_ROOT")
"""Variables that say which libraries are loaded."""


class DetectedMpi(NamedTuple):
    """The MPI that a program loads, and from which file."""

    mpi: Mpi
    library: str


def mpi_of(command: Sequence[str], environ: Mapping[str, str], cwd: str) -> DetectedMpi | None:
    """Which MPI this command loads, started there with this environment; None if that cannot be told: as of a shell's
    script, which may start anything, and of what loads none."""
    words, env = _without_env(list(command), dict(environ))
    program = _which(words[0], env, cwd) if words else None
    if program is None:
        return None
    asked = _how_to_ask(program, env, cwd)
    if asked is None:
        return None
    said = _kept(program, asked, env, cwd)
    if said is None:
        return None
    text, loaded = said
    return DetectedMpi(
        identify(text), next((path for path in loaded if LIBRARY.fullmatch(Path(path).name)), "")
    )


def installed(environ: Mapping[str, str]) -> list[DetectedMpi]:
    """All that are found here: of this interpreter and of that on the PATH, where the environment names an MPI, and
    where the loader looks."""
    asked = (mpi_of((program,), environ, "") for program in (sys.executable, "python3"))
    found = [each for each in asked if each is not None]
    found += [each for path in _libraries(environ) if (each := of_library(path, environ)) is not None]
    once = {(each.mpi, Path(each.library).resolve().parent): each for each in reversed(found)}
    return list(reversed(once.values()))


def of_library(path: Path, environ: Mapping[str, str]) -> DetectedMpi | None:
    """Which MPI this file is, None if it is none."""
    beside = {**environ, "LD_LIBRARY_PATH": str(path.parent)}
    said = _ask((sys.executable, "-S", "-c", CALL, str(path)), beside, "")
    return DetectedMpi(identify(said[0]), str(path)) if said else None


def _libraries(environ: Mapping[str, str]) -> list[Path]:
    """Files of MPI libraries, each once."""
    folders = [f"{sys.prefix}/lib", *environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)]
    for name in ("I_MPI_ROOT", "MPI_HOME", "MPI_ROOT"):
        folders += [f"{environ[name]}/lib/release", f"{environ[name]}/lib"] if environ.get(name) else []
    paths = [path for folder in folders if folder for path in sorted(Path(folder).glob("libmpi*.so*"))]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        known = subprocess.run(
            ("ldconfig", "-p"), capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        paths += [Path(line.rpartition(" => ")[2]) for line in known.stdout.splitlines() if " => " in line]
    return list(
        dict.fromkeys(path.resolve() for path in paths if LIBRARY.fullmatch(path.name) and path.is_file())
    )


def _without_env(words: list[str], env: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """A command behind ``env NAME=VALUE ...``, and the environment that it gets."""
    if words and Path(words[0]).name == "env":
        words = words[1:]
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            name, _, value = words.pop(0).partition("=")
            env[name] = value
    return words, env


def _which(word: str, env: Mapping[str, str], cwd: str) -> Path | None:
    place = Path(cwd)
    search = os.pathsep.join(str(place / each) for each in env.get("PATH", os.defpath).split(os.pathsep))
    found = shutil.which(str(place / word) if "/" in word else word, path=search)
    # Not resolved: the link of a virtual environment says more than where it leads.
    with contextlib.suppress(OSError):  # the current directory is gone: nothing there can be found
        return Path(found).absolute() if found else None
    return None


def _how_to_ask(program: Path, env: Mapping[str, str], cwd: str) -> tuple[str, ...] | None:
    """The command that says which MPI this program loads, if one can."""
    if PYTHON.fullmatch(program.name):
        return str(program), "-c", ASK
    try:
        with program.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return None
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n")[0].decode(errors="replace").split()
        words, _ = _without_env(words, {})
        interpreter = _which(words[0], env, cwd) if words else None
        is_python = interpreter is not None and PYTHON.fullmatch(interpreter.name)
        return (str(interpreter), "-c", ASK) if is_python else None
    path = _linked(program, env, cwd) if head.startswith(b"\x7fELF") else None
    return (sys.executable, "-S", "-c", CALL, path) if path else None


def _linked(program: Path, env: Mapping[str, str], cwd: str) -> str | None:
    """The file of the MPI library that an executable is linked with."""
    try:
        listed = subprocess.run(
            ("ldd", str(program)), env=dict(env), cwd=cwd or None, capture_output=True, text=True, errors="replace",
            timeout=LIMIT_S, check=False,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rf"^\s*{LIBRARY.pattern} => (/.*) \(0x", listed, re.MULTILINE)
    return found[1] if found else None


def _ask(asked: tuple[str, ...], env: Mapping[str, str], cwd: str) -> tuple[str, list[str]] | None:
    """What the library calls itself, and the files that were loaded."""
    own = {name: value for name, value in env.items() if not name.startswith(NOT_ITS_OWN)}
    try:
        ran = subprocess.run(
            asked, env={**own, "MPI4PY_RC_INITIALIZE": "0"}, cwd=cwd or None, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=True,
        )  # fmt: skip
        text, loaded = json.loads(ran.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return text, loaded


# ---- what was found before -------------------------------------------------------------------------


class KeptDetection(msgspec.Struct):
    """What a library called itself, the files that were loaded, and of each that it was learnt from its size and when
    it was last changed."""

    said: str
    loaded: list[str]
    files: dict[str, tuple[int, int]]


def kept_in() -> Path:
    """The file in which it is."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pliant" / "mpi.json"


def _kept(
    program: Path, asked: tuple[str, ...], env: Mapping[str, str], cwd: str
) -> tuple[str, list[str]] | None:
    """As :func:`_ask`, or what it said last time, if all files are still what they were then."""
    key = _key(asked, env, cwd)
    kept = _read()
    if (entry := kept.get(key)) and entry.files == _stamps(entry.files):
        return entry.said, entry.loaded
    said = _ask(asked, env, cwd)
    if said is not None and (files := _stamps((str(program), *said[1]))):
        kept.pop(key, None)
        newest = list(kept.items())[1 - MOST_KEPT :]
        _write({**dict(newest), key: KeptDetection(*said, files)})
    return said


def _key(asked: tuple[str, ...], env: Mapping[str, str], cwd: str) -> str:
    """The same for whatever loads the same."""
    matters = {name: value for name, value in env.items() if MATTERS.fullmatch(name)}
    anywhere = all(each.startswith("/") for value in matters.values() for each in value.split(os.pathsep))
    return hashlib.sha256(
        json.dumps([asked, sorted(matters.items()), "" if anywhere else cwd]).encode()
    ).hexdigest()


def _stamps(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Nothing if one of them is not there."""
    try:
        return {
            path: (status.st_size, status.st_mtime_ns) for path in paths for status in (Path(path).stat(),)
        }
    except OSError:
        return {}


def _read() -> dict[str, KeptDetection]:
    try:
        return msgspec.json.decode(kept_in().read_bytes(), type=dict[str, KeptDetection])
    except (OSError, RuntimeError, msgspec.MsgspecError):
        return {}


def _write(kept: Mapping[str, KeptDetection]) -> None:
    """Without it, all is asked again the next time."""
    with contextlib.suppress(OSError, RuntimeError):
        kept_in().parent.mkdir(parents=True, exist_ok=True)
        save({kept_in(): msgspec.json.encode(kept)})

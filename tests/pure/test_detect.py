"""Which MPI a command loads: it is asked, and believed as long as its files are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pliant.daemon import detect
from pliant.daemon.detect import DetectedMpi, mpi_of
from pliant.model.flavours import MPICH

PLAIN_C = Path(__file__).parents[1] / "live" / "programs" / "plain_mpi.c"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pliant" / "mpi.json"


def ask(*command: str, cwd: str = "", **environ: str) -> DetectedMpi | None:
    return mpi_of(command, {**os.environ, **environ}, cwd)


def script(path: Path, first: str) -> str:
    path.write_text(f"{first}\nprint()\n")
    path.chmod(0o755)
    return str(path)


def test_programs_of_python_are_asked(tmp_path: Path) -> None:
    bin_ = str(Path(sys.executable).parent)
    (tmp_path / "mpi4py.py").write_text("raise SystemExit('it is not for this file to say')\n")
    asked = [
        ask(sys.executable, "-m", "anything"),
        ask("python", "x.py", PATH=f"{bin_}:{os.environ['PATH']}"),
        ask("env", f"PATH={bin_}", "A=b", "python", "x.py"),
        ask(script(tmp_path / "with", f"#!{sys.executable} -u")),
        ask("./by", cwd=str(tmp_path), PATH=bin_)
        if script(tmp_path / "by", "#!/usr/bin/env python")
        else None,
    ]
    assert all(found is not None and found.mpi.flavour == MPICH for found in asked), asked
    [library] = {found.library for found in asked if found}
    assert Path(library).name.startswith("libmpi")


def test_an_executable_is_asked_by_its_library(tmp_path: Path) -> None:
    program = str(tmp_path / "plain")
    compiled = [str(Path(sys.executable).parent / "mpicc"), str(PLAIN_C), "-o", program]
    subprocess.run(compiled, check=True, capture_output=True, timeout=60)
    found = ask(program)
    assert found is not None
    assert found.mpi.flavour == MPICH
    other = ask(sys.executable)
    assert other is not None
    assert Path(found.library).resolve() == Path(other.library).resolve()


@pytest.mark.parametrize("how", ["sh", "true", "nothing", "script", "directory"])
def test_of_others_nothing_is_known(how: str, tmp_path: Path) -> None:
    commands = {
        "sh": ("sh", "-c", f"{sys.executable} x.py"),
        "true": ("true",),
        "nothing": ("no-such-program",),
        "script": (script(tmp_path / "x", "#!/bin/sh"),),
        "directory": (str(tmp_path),),
    }
    assert ask(*commands[how]) is None


def test_an_interpreter_without_mpi_is_none(tmp_path: Path, cache: Path) -> None:
    assert ask(sys.executable, "x.py", PYTHONHOME=str(tmp_path)) is None
    assert not cache.exists()


def test_it_is_asked_once_for_each_environment(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ask(sys.executable, "x.py")
    assert cache.is_file()
    monkeypatch.setattr(detect, "_ask", lambda *_: None)
    assert ask(sys.executable, "y.py", "more") == first
    assert ask(sys.executable, "x.py", LD_LIBRARY_PATH="/elsewhere") is None


def test_what_was_learnt_of_files_that_have_changed_is_asked_anew(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ask(sys.executable, "x.py")
    kept = json.loads(cache.read_text())
    [entry] = kept.values()
    assert found is not None
    assert {sys.executable, found.library} <= set(entry["files"])
    entry["files"][found.library][1] -= 1
    cache.write_text(json.dumps(kept))
    monkeypatch.setattr(detect, "_ask", lambda *_: None)
    assert ask(sys.executable, "x.py") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": {"said": 1}}', b"\xff\xfe"])
def test_a_broken_file_is_as_none(content: bytes, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_bytes(content)
    assert ask(sys.executable, "x.py") is not None
    assert cache.read_bytes() != content


def test_where_nothing_can_be_kept_it_is_asked_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert ask(sys.executable, "x.py") is not None


def test_what_is_installed_is_found_once(tmp_path: Path) -> None:
    own = ask(sys.executable)
    assert own is not None
    lib, other = Path(own.library).parent, tmp_path / "lib"
    other.mkdir()
    (other / "libmpi.so.12").symlink_to(own.library)
    (other / "libmpi.so.40").write_bytes(b"no library")
    found = detect.installed(
        {**os.environ, "LD_LIBRARY_PATH": f"{other}:{lib}:/none", "MPI_HOME": str(lib.parent)}
    )
    assert [Path(each.library).resolve() for each in found if each.mpi == own.mpi].count(
        Path(own.library).resolve()
    ) == 1
    assert not [each for each in found if each.library.endswith(".40") and str(other) in each.library]

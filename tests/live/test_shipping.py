"""Launches on nodes that have never seen Pliant: a program stands in for ssh, and the agents' code is sent through it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import pytest

from pliant.daemon.launcher import Launcher, LaunchOutcome, Plan
from pliant.launch.tree import arriving, shipping
from pliant.launch.tree.posting import Starting
from pliant.protocol import launching as t

PATIENCE_S = 60.0
SSH = """#!/bin/sh
echo "Welcome to this machine"   # as login shells may
for last; do :; done
exec sh -c "$last"
"""
NOWHERE = ("/nowhere/pliant", "/nowhere/msgspec")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where agents put their files: names of sockets are short."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH)
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with TemporaryDirectory(prefix="plt") as temporary:
        monkeypatch.setenv("TMPDIR", temporary)
        yield Path(temporary)


def launch(starting: Starting, *argv: str, nodes: int = 1) -> tuple[LaunchOutcome, list[tuple[str, bytes]]]:
    """Over a chain of agents; what it comes to, and what was written, by node."""
    written: list[tuple[str, bytes]] = []
    names = tuple(f"n{number}" for number in range(nodes))
    env = {"PATH": os.environ["PATH"]}
    plan = Plan(
        nodes=names, launch=t.Launch(argv, env, "/", (1,) * nodes), listen="127.0.0.1", starting=starting,
        spawning="1", routing="1", patience_s=PATIENCE_S / 2,
    )  # fmt: skip

    async def live() -> LaunchOutcome:
        async with asyncio.timeout(PATIENCE_S):
            launcher = Launcher(
                plan, lambda node, said: written.append((node, said.data)), lambda _text: None
            )
            return await launcher.run()

    return asyncio.run(live()), sorted(written)


def test_agents_come_over_ssh_where_there_are_none_and_pass_themselves_on(temporary: Path) -> None:
    outcome, written = launch(
        Starting("ssh", places=NOWHERE, ships=True), "sh", "-c", "echo $PLIANT_NODE", nodes=3
    )
    assert (outcome.code, outcome.why) == (0, "")
    assert written == [(node, f"{node}\n".encode()) for node in ("n0", "n1", "n2")]
    assert not list(temporary.iterdir()), "nothing is left of them"


NO_ROOM = (
    "import test_shipping as it; "
    "print(it.launch(it.Starting('ssh', places=it.NOWHERE, ships=True), 'true')[0].why)"
)


@pytest.mark.parametrize("room", ["size=64k", "nr_inodes=100", "nr_inodes=2"])
def test_a_node_without_room_for_code_is_told_and_nothing_is_left_there(temporary: Path, room: str) -> None:
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*apart, "true"], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    script = f'mount -t tmpfs -o {room} own {temporary} && {sys.executable} -c "{NO_ROOM}"; find {temporary}'
    done = subprocess.run(
        [*apart, "sh", "-c", script], cwd=Path(__file__).parent, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=PATIENCE_S, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    told, *left = done.stdout.splitlines()
    assert re.fullmatch(
        rf"n0: ssh ended with code 1: pliant: {temporary}/pliant-\d+-\w+/n0\.code: no place for the code that came: "
        r"No space left on device; make room there, or set TMPDIR on the node",
        told,
    ), done.stderr
    assert left == [str(temporary)]


def test_an_agent_that_is_there_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "message", lambda: pytest.fail("code was sent"))
    outcome, written = launch(Starting("ssh", ships=True), "echo", "here")
    assert (outcome.code, written) == (0, [("n0", b"here\n")])


def test_a_job_needs_pliant_on_the_node_and_names_the_place() -> None:
    outcome, _ = launch(Starting("ssh", places=NOWHERE), "true")
    assert outcome.code == 1
    assert "there is no Pliant in /nowhere/pliant: a job needs it there" in outcome.why


def test_a_python_that_is_not_there_is_named() -> None:
    outcome, _ = launch(Starting("ssh", python="python9.9", chosen=True, ships=True), "true")
    assert outcome.code == 1
    assert "n0: ssh ended with code 127: pliant: no Python under these names: python9.9" in outcome.why


def test_another_name_is_tried_where_the_path_is_not_there() -> None:
    outcome, written = launch(
        Starting("ssh", python="/nowhere/python", places=NOWHERE, ships=True), "echo", "here"
    )
    assert (outcome.why, written) == ("", [("n0", b"here\n")])


def test_another_version_of_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "magic_here", lambda: "cpython-38-m68k")
    outcome, _ = launch(Starting("ssh", places=NOWHERE, ships=True), "true")
    assert outcome.code == 1
    assert f"{sys.executable} is {sys.implementation.cache_tag}-" in outcome.why
    assert "this launch is of cpython-38-m68k: name such a Python by --remote-python" in outcome.why


def test_what_is_sent_is_all_that_an_agent_may_load(tmp_path: Path) -> None:
    """Every module of the shell, also those that are loaded only when they are needed."""
    ZipFile(BytesIO(shipping.archive())).extractall(tmp_path / "code")
    code = (
        "import sys, pkgutil, importlib\n"
        "sys.path.append(sys.argv[1])\n"
        "import pliant.launch\n"
        "assert pliant.launch.__file__.startswith(sys.argv[1])\n"
        "for each in pkgutil.walk_packages(pliant.launch.__path__, 'pliant.launch.'):\n"
        "    if not each.name.endswith('__main__'): importlib.import_module(each.name)\n"
    )
    words = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "code")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr

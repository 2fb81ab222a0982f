"""A command that no agent could start is refused at submission, with the limit named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import command
from hypothesis import given
from hypothesis import strategies as st

from pliant.model.errors import BatchError
from pliant.model.limits import LIVE_NODES, LIVE_SLOTS
from pliant.model.world import MpiWorld
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.protocol.starting import ARGUMENT_BYTES, room_beside, size_of, size_of_env, start_problem

ROOM = 3 << 20
"""Above what fits in a message."""


def problem(argv: list[str], env: dict[str, str] | None = None, room: int = ROOM, **paths: str) -> str:
    return start_problem(argv, env or {}, paths.get("cwd", "/"), paths.get("output", "/o"), room) or ""


def test_what_any_program_takes_is_no_problem() -> None:
    assert problem(["echo", "é", ""], {"A": "1", "EMPTY": ""}) == ""


@pytest.mark.parametrize(
    ("argv", "env", "said"),
    [
        (["a", "x" * 2_000_000], {}, "command: 'xxx"),
        (["a", "x" * 2_000_000], {}, "has 2,000,000 bytes, and the kernel takes 131,071 at most"),
        (["a"], {"BIG": "é" * 65_534}, "env.BIG: 'BIG=é"),
        (["a"], {"BIG": "é" * 65_534}, "has 131,072 bytes, and the kernel takes 131,071 at most"),
        (["a", *["x" * 1000] * 1100], {}, "as a message, and the most is 1,048,576"),
        (["a", *["\x01" * 100_000] * 2], {}, "as a message, and the most is 1,048,576"),
        (["a", *["x" * 100_000] * 40], {}, "and the kernel leaves 3,145,728 for them"),
        (["caf\udce9"], {}, r"command: 'caf\udce9' is no text in UTF-8"),
        (["a"], {"A": "\udce9"}, r"env.A: 'A=\udce9' is no text in UTF-8"),
        (["a\0b"], {}, r"command: 'a\x00b' has a zero byte"),
    ],
)
def test_what_cannot_be_started_is_named_with_the_limit(
    argv: list[str], env: dict[str, str], said: str
) -> None:
    text = problem(argv, env)
    assert said in text
    assert len(text) < 300


def test_paths_that_cannot_travel_are_named() -> None:
    assert r"cwd: '/\udce9' is no text" in problem(["a"], cwd="/\udce9")
    assert r"the file of its output: '/\udce9/a.log' is no text" in problem(["a"], output="/\udce9/a.log")


def test_the_longest_argument_that_is_let_through_is_the_longest_that_the_kernel_takes() -> None:
    longest = "x" * (ARGUMENT_BYTES - 1)
    assert problem(["true", longest]) == ""
    assert subprocess.run(["true", longest], check=False).returncode == 0
    assert problem(["true", longest + "x"])
    if os.sysconf("SC_PAGESIZE") == 4096:
        with pytest.raises(OSError, match="Argument list too long"):
            subprocess.run(["true", longest + "x"], check=False)


def test_what_is_let_through_fits_beside_the_environment() -> None:
    """All that the room allows, executed for real: the kernel agrees."""
    env = {"PATH": os.environ["PATH"], "OTHER": "x" * 50_000}
    room = room_beside(env, os.sysconf("SC_ARG_MAX"))
    each = "x" * 100_000
    count = (room - size_of(["true"])) // size_of([each])
    assert count > 1
    assert "the kernel leaves" in problem(["true", *[each] * (count + 1)], room=room)
    assert subprocess.run(["true", *[each] * count], env=env, check=False).returncode == 0


@given(
    st.lists(st.text(max_size=20), min_size=1),
    st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="="), min_size=1, max_size=5), st.text(max_size=20)),
)  # fmt: skip
def test_what_is_let_through_fits_in_a_line(argv: list[str], env: dict[str, str]) -> None:
    said = problem(argv * 1000, env)
    order = m.StartGroup(
        2**31,
        2**31,
        MpiWorld(2**31, (LIVE_SLOTS,) * LIVE_NODES, LIVE_NODES - 1),
        tuple(argv * 1000),
        env,
        "/",
        "/o",
        "t" * 64,
    )
    line = codec.encode(order)
    if not said:
        assert len(line) < codec.MAX_LINE + codec.WRAPPING
        assert list(codec.Lines(codec.MAX_LINE + codec.WRAPPING).feed(line)) == [line.rstrip(b"\n")]
        assert size_of(argv * 1000) + size_of_env(env) <= ROOM


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"command": ["true", "x" * 2_000_000]}, "job 'big': command: "),
        ({"command": "true", "env": {"BIG": "x" * 2_000_000}}, "job 'big': env.BIG: "),
        ({"command": "true", "verify": ["true", "x" * 2_000_000]}, "job 'big': verify: command: "),
        ({"command": "true", "cwd": "/a\0b"}, "job 'big': cwd: "),
    ],
)
@pytest.mark.parametrize("options", [(), ("--rigid",), ("--compare",)])
def test_a_batch_is_refused_before_anything_starts(
    tmp_path: Path, keys: dict[str, Any], said: str, options: tuple[str, ...]
) -> None:
    file, out = tmp_path / "b.toml", tmp_path / "out"
    lines = [f"{key} = {_toml(value)}" for key, value in keys.items()]
    file.write_text("[[jobs]]\nname = 'big'\n" + "\n".join(lines) + "\n")
    with pytest.raises(BatchError) as caught:
        command("run", str(file), "--output", str(out), *options)
    assert f"{file}: {said}" in str(caught.value)
    assert not out.exists()


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return '"' + str(value).replace("\0", "\\u0000") + '"'


def test_a_command_line_is_refused_before_anything_starts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(BatchError, match="the most is 1,048,576"):
        command("run", "--output", str(out), "--", sys.executable, *["x" * 1000] * 1100)
    with pytest.raises(BatchError, match=r"'caf\\udce9' is no text in UTF-8"):
        command("run", "--output", str(out), "--", "echo", "caf\udce9")
    assert not out.exists()

"""What the one job of ``pliant run -- COMMAND`` reads: a pipe, a file, or nothing."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import PATIENCE_S, PLIANT, until

UNREAD = "pliant: the job cannot read standard input: "


def start(place: Path, *words: str, stdin: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PLIANT, "run", "--output", str(place), *words],
        stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def end(process: subprocess.Popen[str]) -> str:
    """What it has said on standard error; it has ended well."""
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    return said


def test_rank_0_reads_a_pipe_as_it_is_written_and_the_others_nothing(tmp_path: Path) -> None:
    process = start(
        tmp_path, "-N", "2", "--kind", "tasks", "--", "sh", "-c", "cat; echo over", stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    log = tmp_path / "sh.log"
    process.stdin.write("first\n")
    process.stdin.flush()
    until(lambda: log.exists() and "first" in log.read_text(), "the first line")
    until(lambda: log.read_text().count("over") == 1, "the end of the other")
    process.stdin.write("second\n")
    assert end(process) == ""
    assert [line for line in log.read_text().split() if line != "over"] == ["first", "second"]


def test_what_is_left_in_a_named_pipe_is_read_though_its_writer_has_gone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    (tmp_path / "pipe").write_text("left\n")
    process = start(tmp_path / "out", "--", "cat", stdin=reader)
    os.close(reader)
    assert end(process) == ""
    assert (tmp_path / "out" / "cat.log").read_text() == "left\n"


@pytest.mark.long
def test_a_file_is_read_from_its_beginning_also_by_both_runs_of_a_comparison(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("all of it\n")
    with (tmp_path / "given").open() as file:
        assert end(start(tmp_path / "out", "--compare", "--", "cat", stdin=file)) == ""
    logs = sorted((tmp_path / "out").glob("*/cat.log"))
    assert [log.read_text() for log in logs] == ["all of it\n"] * 2


@pytest.mark.long
def test_a_terminal_is_left_alone(tmp_path: Path) -> None:
    """It may be that of a shell in whose background this runs."""
    ours, theirs = pty.openpty()
    os.write(ours, b"for the shell\n")
    assert end(start(tmp_path, "--", "cat", stdin=theirs)) == ""
    assert (tmp_path / "cat.log").read_text() == ""
    assert os.read(theirs, 100) == b"for the shell\n"
    os.close(ours)
    os.close(theirs)


@pytest.mark.long
def test_what_nobody_reads_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("first\nsecond\n")
    with (tmp_path / "given").open("rb", buffering=0) as file:
        file.read(6)
        said = end(start(tmp_path / "out", "--", "cat", stdin=file))
    assert said.startswith(f"{UNREAD}somebody has read the first part")
    assert said.count(UNREAD) == 1
    twice = start(tmp_path / "twice", "--compare", "--", "cat", stdin=subprocess.PIPE)
    out, said = twice.communicate("once\n", timeout=PATIENCE_S)
    assert twice.returncode == 0, out
    assert said.count(f"{UNREAD}a pipe is read once") == 1

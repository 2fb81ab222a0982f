"""The file of a recording: its lines are added to, it is its user's alone, and nothing ends where it cannot be written."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from pliant.recorder import RECORD, Recorder, directory


def test_lines_are_added_and_nobody_else_reads_them(tmp_path: Path) -> None:
    for line in (b"1\n", b"2\n"):
        recorder = Recorder(tmp_path / "new" / "here", "agent-n0")
        assert recorder.on
        recorder.write(line)
    path = tmp_path / "new" / "here" / "agent-n0.ndjson"
    assert path.read_bytes() == b"1\n2\n"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_without_a_directory_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RECORD, raising=False)
    recorder = Recorder(directory(), "agent-n0")
    recorder.write(b"1\n")
    assert not recorder.on
    monkeypatch.setenv(RECORD, str(tmp_path))
    assert directory() == tmp_path


def test_where_it_cannot_be_made_that_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    recorder = Recorder(tmp_path / "file", "agent-n0")
    recorder.write(b"1\n")
    assert not recorder.on
    assert capsys.readouterr().err.startswith("pliant: the recording agent-n0 cannot be written: ")


def test_a_recording_that_can_be_written_no_longer_is_closed_and_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    recorder = Recorder(tmp_path, "agent-n0")
    resource.setrlimit(resource.RLIMIT_FSIZE, (2, limits[1]))
    try:
        for _ in range(3):
            recorder.write(b"1\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert capsys.readouterr().err.count("the recording agent-n0 cannot be written: ") == 1
    assert (tmp_path / "agent-n0.ndjson").read_bytes() == b"1\n"
    assert not recorder.on
    assert len(os.listdir("/proc/self/fd")) == open_before  # noqa: PTH208

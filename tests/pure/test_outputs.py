"""A report that cannot be written is noticed before anything starts, and where it cannot be, costs no result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import command
from typer.testing import CliRunner

from pliant.cli import made
from pliant.files.partial import save
from pliant.model.errors import PliantError

OTHERS_ONLY = pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
JOB = "[[jobs]]\nname = 'anna'\ncommand = 'true'\nmodel = { work_s = 1 }\n"


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    path = tmp_path / "batch.toml"
    path.write_text(JOB)
    return path


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ("", " is a directory; name a file"),
        ("folder.html", "folder.html is a directory"),
        ("data.html", "data.json is a directory"),
        ("no/such/r.html", "there is no directory"),
        ("batch.toml", "is an input"),
        ("r.json", "name the HTML file"),
        ("x" * 300 + ".html", "File name too long"),
        ("/proc/r.html", "cannot be written"),
        pytest.param("closed/r.html", "cannot be written: Permission denied", marks=OTHERS_ONLY),
        pytest.param("mine.html", "cannot be written: Permission denied", marks=OTHERS_ONLY),
    ],
)
def test_a_report_that_cannot_be_is_refused_before_anything_starts(
    batch: Path, report: str, said: str
) -> None:
    place = batch.parent
    for name in ("folder.html", "data.json", "closed"):
        (place / name).mkdir()
    (place / "closed").chmod(0o555)
    (place / "mine.html").touch(0o444)
    with pytest.raises(PliantError) as caught:
        command("run", str(batch), "--report", str(place / report), "--output", str(place / "out"))
    assert said in str(caught.value)
    assert batch.read_text() == JOB
    assert not (place / "out").exists()


def test_looking_changes_nothing(batch: Path) -> None:
    (batch.parent / "old.html").write_text("old")
    for report in ("old.html", "new.html"):
        with pytest.raises(PliantError, match="100,000 nodes are too many"):
            command("run", str(batch), "--report", str(batch.parent / report), "--nodes", "100000")
    assert sorted(path.name for path in batch.parent.iterdir()) == ["batch.toml", "old.html"]
    assert (batch.parent / "old.html").read_text() == "old"


def test_a_full_disk_at_the_end_costs_the_report_alone(batch: Path) -> None:
    report = batch.parent / "report.html"
    report.symlink_to("/dev/full")
    done = CliRunner().invoke(made(), ["run", str(batch), "--dry-run", "--report", str(report)])
    assert done.exit_code == 2
    assert "COMPLETED" in done.stdout
    assert f"{report} was not written: No space left on device" in done.stderr
    assert "data: " in done.stdout
    assert "anna" in report.with_suffix(".json").read_text()


def test_what_was_there_is_left_when_the_disk_is_full(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    old = tmp_path / "report.html"
    old.write_text("old")
    program = (
        "import resource, sys; from pathlib import Path; from pliant.files.partial import save\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "save({Path(sys.argv[1]): b'small', Path(sys.argv[2]): b'x' * 2000})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "report.json"), str(old)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert old.read_text() == "old"


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "report.html"
    link.symlink_to(tmp_path / "there" / "page.html")
    save({link: b"page"})
    assert link.is_symlink()
    assert (tmp_path / "there" / "page.html").read_bytes() == b"page"

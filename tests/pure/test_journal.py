"""What an earlier run has left in the directory of a new one is kept."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest
from commands import command

from pliant.core import records as r
from pliant.core.journal import Header, header_line
from pliant.daemon.journal import open_journal
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.policy.view import Reason

pytestmark = pytest.mark.long


def job(name: str) -> JobSpec:
    return JobSpec(name=name, nodes=Bounds.exactly(1), command=("true",), env={"SECRET": "x"})


def run(output: Path, began: str, *names: str) -> None:
    """A run as it is kept: a journal, and a log for each job that says when it was written."""
    jobs = [job(name) for name in names]
    with open_journal(output, jobs) as journal:
        journal.write(header_line(Header(began=began, policy="easy")))
        journal.write(r.to_line(r.NodesGranted(0.0, NodeSet.first(1))))
        for number, spec in enumerate(jobs, 1):
            (output / f"{spec.name}.log").write_text(began)
            node = NodeSet.first(1)
            journal.write(r.to_line(r.JobSubmitted(0.0, number, spec)))
            journal.write(r.to_line(r.JobStarted(0.0, number, node, Reason("fits"))))
            journal.write(r.to_line(r.JobEnded(1.0, number, JobState.COMPLETED, 0, node)))


def tree(output: Path) -> list[str]:
    return sorted(str(path.relative_to(output)) for path in output.rglob("*") if not path.is_dir())


FIRST, SECOND = "2026-11-21T13:02:11.123+00:00", "2026-11-21T15:00:00.000+01:00"


def test_the_journal_and_the_logs_of_earlier_runs_are_kept_by_when_they_began(tmp_path: Path) -> None:
    (tmp_path / "mine.log").write_text("a file of the user's")
    run(tmp_path, FIRST, "ocean", "ice")
    run(tmp_path, SECOND, "ocean")
    run(tmp_path, SECOND, "ocean")  # within a second
    assert tree(tmp_path) == [
        "earlier/2026-11-21T13-02-11Z/ice.log",
        "earlier/2026-11-21T13-02-11Z/ocean.log",
        "earlier/2026-11-21T13-02-11Z/records.ndjson",
        "earlier/2026-11-21T14-00-00Z/ocean.log",
        "earlier/2026-11-21T14-00-00Z/records.ndjson",
        "mine.log",
        "ocean.log",
        "records.ndjson",
    ]
    run(tmp_path, SECOND, "ocean")
    assert (tmp_path / "earlier/2026-11-21T14-00-00Z-2/records.ndjson").is_file()
    first = tmp_path / "earlier/2026-11-21T13-02-11Z"
    assert (first / "ocean.log").read_text() == FIRST
    assert "mean wait" in command("simulate", "--from-records", str(first / "records.ndjson"))
    assert "mean wait" in command("simulate", "--from-records", str(tmp_path / "records.ndjson"))
    # pliant calibrate pliant-runs/*/records.ndjson: the latest of each, not those put aside.
    assert not list(tmp_path.glob("*/records.ndjson"))


def test_a_journal_is_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = tmp_path / "records.ndjson"
        path.touch(0o644)
        for _ in range(2):
            run(tmp_path, FIRST, "ocean")
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        run(tmp_path, FIRST, "ocean")
    finally:
        os.umask(old)
    kept = list(tmp_path.glob("earlier/*/records.ndjson"))
    assert [stat.S_IMODE(each.stat().st_mode) for each in kept] == [0o600] * 2


@pytest.mark.parametrize(
    "left",
    [b"no journal\n", b"\xff\n", b'{"began":"yesterday","names":[],"policy":"easy"}\n', b"x" * 9_000_000],
)
def test_what_is_no_journal_is_kept_too_with_the_logs_in_the_way(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "records.ndjson").write_bytes(left)
    (tmp_path / "ocean.log").write_text("before")
    os.utime(tmp_path / "ocean.log", (0, 0))
    (tmp_path / "other.log").touch()
    run(tmp_path, FIRST, "ocean")
    [place] = (tmp_path / "earlier").iterdir()
    assert (place / "records.ndjson").read_bytes() == left
    assert (place / "ocean.log").read_text() == "before"
    assert (tmp_path / "other.log").exists()


def test_logs_without_a_journal_are_kept(tmp_path: Path) -> None:
    for text in ("one", "two"):
        (tmp_path / "ocean.log").write_text(text)
        os.utime(tmp_path / "ocean.log", (0, 0))
        open_journal(tmp_path, [job("ocean")]).close()
        assert not (tmp_path / "ocean.log").exists()
    assert tree(tmp_path / "earlier") == [
        "1970-01-01T00-00-00Z-2/ocean.log",
        "1970-01-01T00-00-00Z/ocean.log",
    ]


def test_a_journal_moves_nothing_outside_its_directory(tmp_path: Path) -> None:
    outside = tmp_path / "outside.log"
    outside.touch()
    run(tmp_path / "out", FIRST, "ocean")
    with (tmp_path / "out" / "records.ndjson").open("ab") as journal:
        journal.write(r.to_line(r.JobSubmitted(0.0, 2, job("../outside"))))
    run(tmp_path / "out", SECOND, "ocean")
    assert outside.exists()


def test_two_runs_do_not_write_to_one_directory(tmp_path: Path) -> None:
    with open_journal(tmp_path, []), pytest.raises(PliantError, match="another run is writing there"):
        open_journal(tmp_path, [])


def _begin(output: Path, times: int) -> list[str]:
    """Begin and end many runs; what was said of those that were refused."""
    said = []
    for number in range(times):
        try:
            run(output, f"2026-01-01T00:00:{number % 60:02d}+00:00", "ocean")
        except PliantError as error:
            said.append(str(error))
    return said


def test_runs_that_begin_at_once_lose_nothing(tmp_path: Path) -> None:
    times, workers = 50, 3
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        refused = [each for said in pool.starmap(_begin, [(tmp_path, times)] * workers) for each in said]
    assert all("another run is writing there" in each for each in refused)
    journals = [*tmp_path.glob("earlier/*/records.ndjson"), tmp_path / "records.ndjson"]
    assert len(journals) == times * workers - len(refused)
    assert all(path.read_bytes().count(b"\n") == 5 for path in journals)


def test_a_directory_that_cannot_take_a_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PliantError, match=r"file/records\.ndjson: cannot be written: .*; choose another"):
        open_journal(tmp_path / "file", [])
    run(tmp_path, FIRST, "ocean")
    (tmp_path / "earlier").touch()
    with pytest.raises(PliantError, match=r"cannot be written: Not a directory \(.*earlier/"):
        open_journal(tmp_path, [])
    assert (tmp_path / "ocean.log").read_text() == FIRST

"""A controller that is killed and started again, with real processes: its job goes on, and is resized."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import PATIENCE_S, PROGRAMS, is_right, until
from restarted import SERVICE, Batch

from pliant.core import records as r
from pliant.launch import processes, shm
from pliant.model.jobs import JobState


class Service:
    """The program ``service.py``, which may be started more than once."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.run = secrets.token_hex(4)
        self.flag = place / "flag"
        for name in ("run", "out"):
            (place / name).mkdir(mode=0o700)
        self.starts: list[subprocess.Popen[bytes]] = []

    def start(self, program: str = "until.py", *words: str) -> subprocess.Popen[bytes]:
        command = (sys.executable, str(PROGRAMS / program), str(self.flag), *words)
        with (self.place / f"said{len(self.starts)}").open("wb") as said:
            self.starts.append(
                subprocess.Popen(
                    [sys.executable, str(PROGRAMS / "service.py"), str(self.place), self.run, *command],
                    stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                )
            )  # fmt: skip
        return self.starts[-1]

    def records(self, kind: type[r.Record]) -> list[Any]:
        try:
            lines = (self.place / "out" / "records.ndjson").read_bytes().split(b"\n")[1:-1]
        except FileNotFoundError:
            return []
        return [each for each in map(r.from_line, lines) if isinstance(each, kind)]

    def processes(self) -> list[int]:
        """Agents and ranks."""
        cookies = {
            int(each.name): processes.cookie_of(int(each.name))
            for each in Path("/proc").iterdir()
            if each.name.isdigit()
        }
        return sorted(
            pid for pid, cookie in cookies.items() if cookie and cookie.get("PLIANT_RUN") == self.run
        )

    def story(self) -> str:
        return "\n".join(
            path.read_text(errors="replace")[-3000:] for path in sorted(self.place.glob("said*"))
        )


@pytest.fixture
def service() -> Iterator[Service]:
    place = Path(tempfile.mkdtemp(prefix="plt"))
    service = Service(place)
    yield service
    for process in service.starts:
        process.kill()
        process.wait()
    for pid in service.processes():
        processes.kill(pid)
    shm.sweep(place / "run", service.run)
    shutil.rmtree(place)


def test_a_job_goes_on_when_its_controller_is_killed_and_started_again(service: Service) -> None:
    first = service.start()
    until(lambda: bool(service.records(r.JobMalleable)), f"the loop of the job: {service.story()}")
    ranks = processes.find(service.run, job=1)
    assert len(ranks) == 2
    first.kill()
    first.wait()
    secret = service.place / "run" / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert (service.place / "run" / "agents.sock").stat().st_mode & 0o777 == 0o600
    second = service.start()
    (service.place / "order").write_text("3")

    def is_resized() -> bool:
        # It may have come while the agents were not all back, when nothing is begun.
        if not service.records(r.ResizeOffered) and not (service.place / "order").exists():
            (service.place / "order").write_text("3")
        return bool(service.records(r.ResizeDone))

    until(is_resized, f"the resize: {service.story()}")
    assert set(ranks) < set(processes.find(service.run, job=1))
    service.flag.touch()
    assert second.wait(PATIENCE_S) == 0, service.story()
    [end] = service.records(r.JobEnded)
    assert end.state is JobState.COMPLETED, (end, service.story())
    assert is_right(end.result)
    [done] = service.records(r.ResizeDone)
    assert len(done.gained) == 1
    assert len(service.records(r.JobStarted)) == 1
    assert not service.records(r.NodesLost)
    assert not service.processes()
    assert not list((service.place / "run").iterdir())
    assert not list(shm.SHM.glob(f"pliant-{service.run}-*"))
    assert "Error" not in service.story()


@pytest.mark.long
@pytest.mark.parametrize("size", [3, 1], ids=["growth", "shrink"])
def test_a_resize_whose_controller_is_killed_behind_the_last_word_is_done(
    service: Service, size: int
) -> None:
    """The root stands still between its last word and Done while the controller is killed."""
    plan = service.place / "plan"
    plan.write_text("root settle stop")
    first = service.start("killed.py", str(plan))
    until(lambda: bool(service.records(r.JobMalleable)), f"the loop of the job: {service.story()}")
    reached = service.place / "plan.0.0"

    def stands() -> bool:
        if not service.records(r.ResizeOffered) and not (service.place / "order").exists():
            (service.place / "order").write_text(str(size))
        if not reached.read_text().startswith("settle"):
            return False
        stats = (Path(f"/proc/{pid}/stat").read_text() for pid in processes.find(service.run, job=1))
        return any(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    until(stands, f"the root's last word: {service.story()}")
    first.kill()
    first.wait()
    assert not service.records(r.ResizeDone)
    plan.write_text("none start 0")
    for pid in processes.find(service.run, job=1):
        os.kill(pid, signal.SIGCONT)
    second = service.start("killed.py", str(plan))
    until(lambda: bool(service.records(r.ResizeDone)), f"the resize: {service.story()}")
    service.flag.touch()
    assert second.wait(PATIENCE_S) == 0, service.story()
    [end] = service.records(r.JobEnded)
    assert end.state is JobState.COMPLETED, (end, service.story())
    assert is_right(end.result)
    [done] = service.records(r.ResizeDone)
    assert (len(done.gained), len(done.released)) == ((1, 0) if size == 3 else (0, 1))
    assert not service.records(r.ResizeFailed)
    assert not service.records(r.NodesLost)
    assert not service.processes()


def parent(pid: int) -> int:
    """0 if the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.mark.long
def test_a_malleable_batch_goes_on_when_its_controller_is_killed_though_nodes_were_added(
    service: Service,
) -> None:
    """The fixture's directories are not those of the batch: it has its own place in there."""
    place = service.place / "batch"
    place.mkdir(mode=0o700)

    def start(*words: str) -> subprocess.Popen[bytes]:
        with (service.place / f"said{len(service.starts)}").open("wb") as said:
            service.starts.append(
                subprocess.Popen(
                    [sys.executable, str(SERVICE), *words], stdin=subprocess.DEVNULL, stdout=said, stderr=said
                )
            )
        return service.starts[-1]

    def agents() -> set[int]:
        cookies = {pid: processes.cookie_of(pid) or {} for pid in service.processes()}
        found = {pid for pid, cookie in cookies.items() if "PLIANT_JOB" not in cookie}
        return {pid for pid in found if parent(pid) not in found}  # what an agent has just forked is none

    batch = Batch(place, service.run, start)
    try:
        batch.play(agents)
    except AssertionError:
        sys.stderr.write(service.story())
        raise
    assert not service.processes()
    assert not list((place / "run").iterdir())
    assert "Error" not in service.story()

"""A malleable batch over eight nodes of which two were added, whose controller is killed and started again: what both
tests of that have in common, that of virtual nodes and that over ssh."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from pliant.apps.heat import solve_serial
from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.journal import read
from pliant.model.jobs import JobState

SERVICE = Path(__file__).with_name("programs") / "batch_service.py"
UNTIL = Path(__file__).with_name("programs") / "until.py"
PATIENCE_S = 60.0
JOBS = ("a", "b")


class Running(Protocol):
    """As much of a process as is used."""

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Batch:
    """Two malleable jobs on six nodes, which go on until they are told; ``start`` is called with the arguments of
    ``batch_service.py`` for its controller, the first or another one."""

    def __init__(self, place: Path, run: str, start: Callable[..., Running]) -> None:
        self.place = place
        self.run = run
        self._start = start
        for name in ("run", "out"):
            (place / name).mkdir(mode=0o700)
        self.flag = place / "flag"
        command = f"{sys.executable} {UNTIL} {self.flag}"
        jobs = "".join(
            f"[[jobs]]\nname = '{name}'\nclass = 'malleable'\ncommand = '{command}'\n"
            "nodes = { min = 1, max = 4, preferred = 2 }\n"
            for name in JOBS
        )
        (place / "batch.toml").write_text(f"[cluster]\nnodes = 6\n{jobs}")

    def start(self, *hosts: str) -> Running:
        return self._start(str(self.place), self.run, str(self.place / "batch.toml"), *hosts)

    @property
    def lines(self) -> list[bytes]:
        try:
            lines = (self.place / "out" / "records.ndjson").read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return [line for line in lines if line.endswith(b"\n")]

    def records(self, kind: type[r.Record]) -> list[Any]:
        return [each for each in map(r.from_line, self.lines[1:]) if isinstance(each, kind)]

    def until(self, true: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + patience_s
        while not true():
            assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}: {self.lines[-12:]}"
            time.sleep(0.05)

    def has_grown(self) -> bool:
        """Whether the jobs have all eight nodes between them, and no agent starts anything any more: what one has just
        forked would pass for an agent."""
        state = replay(read(self.lines).records)
        sized = sum(job.size for _, _, job in state.running)
        return sized == state.nodes.total == 8 and not state.resizing and len(state.running) == len(JOBS)

    def play(self, agents: Callable[[], set[int]], *hosts: str) -> None:
        first = self.start(*hosts)
        self.until(lambda: len(self.records(r.JobMalleable)) == len(JOBS), "both jobs are in their loops")
        (self.place / "more").write_text("2")
        self.until(self.has_grown, "the jobs grow onto the nodes that were added")
        before = agents()
        first.kill()
        first.wait(PATIENCE_S)
        second = self.start(*hosts)
        self.until(lambda: bool(self.records(r.ControllerResumed)), "the next controller goes on")
        self.until(lambda: agents() == before, "it has taken all of them back")
        self.flag.touch()
        assert second.wait(PATIENCE_S) == 0
        ends = self.records(r.JobEnded)
        assert len(ends) == len(JOBS)
        for end in ends:
            assert end.state is JobState.COMPLETED, end
            steps, found = end.result.split()
            assert solve_serial(64, 64, int(steps)) == found
        assert len(self.records(r.JobStarted)) == len(JOBS), "nothing was started twice"
        assert not self.records(r.NodesLost)

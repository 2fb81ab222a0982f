"""What the controller knows of a running job beyond the core: its groups, sessions and output."""

from __future__ import annotations

import os
from pathlib import Path

from pliant.model.jobs import JobSpec
from pliant.protocol.scheduler_side import Board, SchedulerSide

TAIL_LINES = 12
TAIL_BYTES = 1 << 16


def log_file(output: Path, spec: JobSpec) -> Path:
    """Where a job's output goes, in the directory ``output``."""
    return output / f"{spec.name}.log"


class LiveGroup:
    """The ranks of a job on one node. A group that was started for a resize is a newcomer until it is done."""

    def __init__(self, number: int, node: int, ranks: int, resize: int, token: str) -> None:
        self.number = number
        self.node = node
        self.resize = resize
        self.token = token
        self.alive = set(range(ranks))
        self.joined = resize == 0
        self.released = False


class LiveJob:
    """One job between its start and its end."""

    def __init__(self, number: int, spec: JobSpec, output: Path) -> None:
        self.number = number
        self.spec = spec
        self.output = output
        self.groups: dict[int, LiveGroup] = {}
        self.planned: dict[int, int] = {}  # node -> group, of the resize on offer
        self.side: SchedulerSide | None = None
        self.board = Board()
        self.result: str | None = None
        self.exit_code = 0
        self.errors: list[str] = []
        self.ended = False
        self._last_group = -1

    def next_group(self) -> int:
        self._last_group += 1
        return self._last_group

    def alive(self) -> list[LiveGroup]:
        return [group for group in self.groups.values() if group.alive]

    def together(self, group: LiveGroup) -> tuple[int, ...]:
        """The groups that were started with this one, in order."""
        return tuple(g.number for g in self.groups.values() if g.resize == group.resize)

    def fail(self, code: int, error: str) -> None:
        """Book a failure; the first exit code stands."""
        if self.exit_code == 0:
            self.exit_code = code
        self.errors.append(error)

    def tail(self) -> str:
        """The last lines of the job's output."""
        try:
            with self.output.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-TAIL_LINES:]).rstrip()

"""What the controller knows of a running job beyond the core: its groups, sessions and output."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds, JobSpec
from pliant.model.limits import LOG
from pliant.model.world import World
from pliant.protocol.fence import Fence
from pliant.protocol.scheduler_side import Board, SchedulerSide

TAIL_LINES = 12
TAIL_BYTES = 1 << 16
WHY_CHARACTERS = 500


def log_file(output: Path, spec: JobSpec) -> Path:
    """Where a job's output goes, in the directory ``output``."""
    return output / (spec.name + LOG)


class LiveGroup:
    """The ranks of a job on one node. A group that was started for a resize is a newcomer until it is done.

    ``session`` is the agent's number of the group's session, 0 while there is none.
    """

    def __init__(self, number: int, node: int, resize: int, world: World) -> None:
        self.number = number
        self.node = node
        self.resize = resize
        self.world = world
        self.token = secrets.token_hex(16)
        self.alive = set(world.ranks)
        self.started = False
        self.session = 0
        self.joined = resize == 0
        self.released = False
        self.said = ""

    def complain(self, text: str) -> None:
        """The group's session says what went wrong there; the first time tells."""
        self.said = self.said or last_line(text)

    def why(self, how: str) -> str:
        """Why the group is gone: what it said itself, and ``how`` it went."""
        return "; ".join(part for part in (self.said, how) if part)


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
        self.fence: Fence | None = None
        self.result: str | None = None
        self.exit_code = 0
        self.said = ""
        self.cause = ""
        self.ended = False
        self._last_group = -1

    def next_group(self) -> int:
        self._last_group += 1
        return self._last_group

    def add_groups(self, nodes: Sequence[int], slots: int, resize: int) -> list[LiveGroup]:
        """New groups, one a node, at the job's start or for a resize, in their worlds."""
        numbers = [self.planned.get(node, -1) if resize else self.next_group() for node in nodes]
        groups = []
        for part, (number, node) in enumerate(zip(numbers, nodes, strict=True)):
            if self.spec.one_world:
                world = World(numbers[0], (slots,) * len(nodes), part)
            else:
                world = World(number, (slots,))
            groups.append(LiveGroup(number, node, resize, world))
            self.groups[number] = groups[-1]
        if self.spec.one_world and len(nodes) > 1:
            self.fence = Fence(tuple(numbers))
        return groups

    def alive(self) -> list[LiveGroup]:
        return [group for group in self.groups.values() if group.alive]

    def together(self, group: LiveGroup) -> tuple[int, ...]:
        """The groups that were started with this one, in order."""
        return tuple(g.number for g in self.groups.values() if g.resize == group.resize)

    def agreed(self, program: Bounds | None) -> Bounds | None:
        """The sizes this job may come to, by its submission and by what the ``program`` allows."""
        bounds = self.spec.nodes
        if self.spec.one_world:
            bounds = Bounds.exactly(len(self.groups))  # it keeps the size that it was started with
        return bounds if program is None else bounds.intersect(program)

    @property
    def session(self) -> SchedulerSide:
        """Our end of the job's sessions; PliantError before it has been started."""
        if self.side is None:
            raise PliantError(f"job {self.number} has not been started")
        return self.side

    def fail(self, code: int, cause: str) -> None:
        """Book a failure; the first one stands, as others follow from it."""
        self.exit_code = self.exit_code or code
        self.cause = self.cause or cause

    def complain(self, text: str) -> None:
        """A session of the job says what went wrong; the first time tells."""
        self.said = self.said or last_line(text)

    def story(self) -> str:
        """Why the job failed, in a line, and below it the last lines of its output."""
        output = self._output_end()
        reason = "; ".join(part for part in (self.said or exception_in(output), self.cause) if part)
        return "\n".join([reason, *output.splitlines()[-TAIL_LINES:]]).rstrip()

    def log(self, text: str) -> None:
        """Add a line of ours to the job's output."""
        with suppress(OSError), self.output.open("a") as file:
            file.write(f"pliant: {text}\n")

    def _output_end(self) -> str:
        try:
            with self.output.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                return file.read().decode(errors="replace").rstrip()
        except OSError:
            return ""


def last_line(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    return lines[-1][:WHY_CHARACTERS]


def exception_in(output: str) -> str:
    """The exception of the last Python traceback in a program's output, else nothing: the lines behind it are the
    MPI library's, which has been told to end the others."""
    _, found, rest = output.rpartition("Traceback (most recent call last):\n")
    if not found:
        return ""
    return next((line[:WHY_CHARACTERS] for line in rest.splitlines() if line and not line[0].isspace()), "")

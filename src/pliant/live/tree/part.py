"""An agent's part of a program that is launched over a tree: the processes that it starts, and their output, cut into
lines. Without I/O or clock."""

from __future__ import annotations

from collections.abc import Iterator

from pliant.model.world import MpiWorld
from pliant.protocol import launching as t
from pliant.protocol import messages as m

JOB = 1
"""The number of the launched program as a job: there is no other."""


def part_of(launch: t.Launch, number: int) -> MpiWorld:
    """The world of the processes at the agent of this number, from 0; of one that has any."""
    used = [each for each, size in enumerate(launch.sizes) if size]
    return MpiWorld(0, tuple(launch.sizes[each] for each in used), used.index(number))


def start_of(launch: t.Launch, number: int, output: str, token: str) -> m.StartGroup | None:
    """The start of the group of this agent, numbered from 0; None if it has no process, as one that was added later."""
    if number >= len(launch.sizes) or not launch.sizes[number]:
        return None
    return m.StartGroup(
        JOB, number, part_of(launch, number), launch.argv, launch.env, launch.cwd, output, token, launch.dialect,
        streams=True,
    )  # fmt: skip


class LineCutter:
    """Whole lines of what a process writes, in pieces of at most ``limit`` bytes: only a longer line is cut."""

    def __init__(self, limit: int = 1 << 16) -> None:
        self._rest = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._rest += data
        end = self._rest.rfind(b"\n") + 1
        if not end and len(self._rest) >= self._limit:
            end = len(self._rest)
        if end:
            whole = bytes(self._rest[:end])
            del self._rest[:end]
            at = 0
            while at < end:
                to = min(at + self._limit, end)
                yield whole[at : (to := whole.rfind(b"\n", at, to) + 1 or to)]
                at = to

    def rest(self) -> bytes:
        """What is left at the end, a line without its end."""
        rest, self._rest = bytes(self._rest), bytearray()
        return rest

"""What is known of the groups of a live job."""

from __future__ import annotations

import re
from typing import NamedTuple

from pliant.model.groups import Group
from pliant.model.world import MpiWorld

WHY_CHARACTERS = 500
TAIL_LINES = 12
EXCEPTION = re.compile(r"[\w.]+(?:: |:?$)")


class GroupPlace(NamedTuple):
    """Where a job lives: the names of the nodes, the file of its output, the directory and environment it starts in,
    and the run's secret, from which the tokens of its groups follow."""

    names: dict[int, str]
    output: str
    cwd: str
    env: dict[str, str]
    secret: bytes


class LiveGroup:
    """The ranks of a job on one node. A group that was started for a resize is a newcomer until that is done.

    ``session`` is the agent's number of the group's session, 0 while there is none; ``ready`` a newcomer that has
    come to where it can be joined.
    """

    def __init__(self, group: Group, resize: int, world: MpiWorld, token: str) -> None:
        self.number = group.id
        self.node = group.node
        self.slots = group.slots
        self.resize = resize
        self.world = world
        self.token = token
        self.alive = set(world.ranks)
        self.started = False
        self.ready = False
        self.killed = False
        self.session = 0
        self.words: set[str] = set()
        """Which of Hello and Bye its program has said to this controller."""
        self.words_missed = False
        """Whether it may have said one to the controller before."""
        self.early = False
        """Whether it has ended with exit code 0 where it should not have."""
        self.joined = resize == 0
        self.released = False
        self.said = ""
        self.broken = ""
        """Why its agent ends it."""
        self.resumed = False
        """Whether it was there before this controller, and it is not known yet what has become of it."""
        self.end = 0, ""
        """How it has ended: an exit code, and what there is to say of it; until then, how the first rank to fail
        has."""

    @property
    def is_over(self) -> bool:
        """Whether it was a part of the job and has ended well: it cannot be lost any more."""
        return self.joined and not self.alive and not self.end[0]

    def complain(self, text: str) -> None:
        """The group's session says what went wrong there; the first time tells."""
        self.said = self.said or last_line(text)

    def why(self, how: str) -> str:
        """Why the group is gone: what it said itself, and ``how`` it went."""
        return "; ".join(part for part in (self.said or self.broken, how) if part)


def last_line(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    return lines[-1][:WHY_CHARACTERS]


def exception_in(output: str) -> str:
    """The exception of the last Python traceback in a program's output, else nothing: the lines behind it are the
    MPI library's, which has been told to end the others. That others have failed is what a rank says whose MPI goes on
    without them; it is no reason. Several write at once, so that not every line is whole."""
    found = ""
    for rest in output.split("Traceback (most recent call last):\n")[1:]:
        line = next((line for line in rest.splitlines() if line and not line[0].isspace()), "")
        if EXCEPTION.match(line) and "MPI_ERR_PROC_FAILED" not in line:
            found = line[:WHY_CHARACTERS]
    return found


def story_of(output: str, said: str, cause: str) -> str:
    """Why a job failed, in a line, and below it the last lines of its output."""
    reason = "; ".join(part for part in (said or exception_in(output), cause) if part)
    return "\n".join([reason, *output.splitlines()[-TAIL_LINES:]]).rstrip()

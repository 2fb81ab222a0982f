"""What ``pliant launch`` says to its agents beside what every controller does. Times are seconds since the epoch."""

from __future__ import annotations

from pliant.protocol.messages import Fenced, Message, Signal, StartGroup

# ---- for all agents ---------------------------------------------------------------------------------


class Launch(Message, frozen=True):
    """Start the program on every agent: so many processes at each as ``sizes`` has, in the order of the agents' ranks.
    In another ``dialect`` than launch they are one MPI world. Process ``stdin`` reads what is sent as Input, the others
    nothing; -1 is none. ``spill``: of the output that waits on a node, so many bytes may be in a file."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    sizes: tuple[int, ...]
    dialect: str = "launch"
    stdin: int = 0
    spill: int = 1 << 30

    @property
    def is_world(self) -> bool:
        return self.dialect != "launch"


class Tally(Message, frozen=True):
    """Say what this launch was like at your end: answered by Counted."""


ForAll = Launch | Tally | Fenced | Signal
"""Fenced is of job 1, and whatever group is there. A signal is for all, so that it reaches those too that are there
only later."""

# ---- in either direction ----------------------------------------------------------------------------


class Taken(Message, frozen=True):
    """An answer to what goes through the tree under numbers: all up to ``number`` has come, and ``total`` bytes of
    output in it have been written where they belong. It has no number itself."""

    number: int
    total: int


# ---- for the agent of one node ----------------------------------------------------------------------


class Input(Message, frozen=True):
    """For the standard input of the process that reads it; nothing is its end."""

    data: bytes = b""


class Start(Message, frozen=True):
    """Start these processes of a world that was spawned. Its rank 0 is process ``first`` of the launch. Where their
    output goes, and which token they have, is up to the agent."""

    start: StartGroup
    first: int


# ---- to the controller ------------------------------------------------------------------------------


class Output(Message, frozen=True):
    """Whole lines of a process, on its standard output, or ``error``; the last may have no end."""

    rank: int
    data: bytes
    error: bool = False


class Counted(Message, frozen=True):
    """When this agent ``began``, when its ``phases`` were over, by number, and the most connections it had at a time,
    to other agents and its parent."""

    began: float
    phases: dict[int, float]
    connections: int


class Read(Message, frozen=True):
    """``total`` bytes of input have been passed on to the process that reads it."""

    total: int


FromTree = Output | Counted | Read

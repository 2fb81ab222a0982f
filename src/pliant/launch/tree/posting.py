"""What an agent of a launch tree is told by whoever starts it, and how that is done."""

from __future__ import annotations

import os
import select
import shlex
import sys
import time

import msgspec

from pliant.launch.tree import LEAVING
from pliant.live.tree.messages import Seat
from pliant.model.deadlines import AGENT_START_S
from pliant.model.errors import PliantError

_ENTER = "import sys; sys.path += sys.argv[2:4]; from pliant.launch.tree.__main__ import main; main()"
"""An agent as a program, without what Python does for others: looking through all that is installed, for one thing."""
_NAME = "pliant.launch.tree"
"""For those who look at processes."""
SSH_SHARE = 2 / 3
"""ssh may take this share of the patience for an agent to connect, unless its options say otherwise. So it says what is
wrong before it is killed, and ends also where nobody waits for it any more."""
LONGEST = 65536
"""A posting fits into a pipe."""


def _place(package: str) -> str:
    """The directory that it is found in."""
    return os.path.dirname(sys.modules[package].__path__[0])  # noqa: PTH120 - pathlib is slow to load


class Starting(msgspec.Struct, frozen=True):
    """How agents are started: by ``fork`` on this machine, by ``ssh`` or by ``srun``, with these ``options``, and which
    ``python`` runs them. Its path, and ``places``, where it finds Pliant and msgspec, are the same on all nodes."""

    by: str = "fork"
    options: tuple[str, ...] = ()
    python: str = sys.executable
    places: tuple[str, str] = (_place("pliant"), _place("msgspec"))

    def command(self, node: str, within_s: float = AGENT_START_S) -> list[str]:
        """What starts an agent on ``node``, and hands it its standard input. It has to call within ``within_s`` s."""
        agent = [self.python, "-S", "-P", "-c", _ENTER, _NAME, *self.places]
        match self.by:
            case "ssh":
                timeout = f"ConnectTimeout={max(1, round(within_s * SSH_SHARE))}"
                # The user's options come first: ssh takes the first of two.
                options = ["-T", "-o", "BatchMode=yes", *self.options, "-o", timeout]
                return ["ssh", *options, "--", node, f"exec {shlex.join([*agent, LEAVING])}"]
            case "srun":
                where = ["--nodes=1", "--ntasks=1", f"--nodelist={node}", "--overlap", "--quiet"]
                return ["srun", *where, *self.options, "--", *agent]
            case _:
                return agent

    @property
    def leaves(self) -> bool:
        """Whether what has started an agent ends when that has called: ssh does, while srun ends its agent with it."""
        return self.by == "ssh"


class Posting(msgspec.Struct, frozen=True):
    """An agent's place: its ``seat``, its ``node`` with ``slots``, and how its ``parent`` is reached. ``secret`` is
    that of the launch, which every link begins with; it comes by standard input alone. ``listen``: the address, or
    network such as 10.0.0.0/16, at which others reach it, by default the one by which it reaches its parent. ``warm``:
    programs of Python may be started from a warm process there. ``relays``: what the node's agent and the controller
    say to each other is passed on as it is."""

    seat: Seat
    node: str
    run: str
    secret: str
    parent: str
    starting: Starting
    slots: int = 1
    listen: str = ""
    warm: bool = False
    relays: bool = False


def read(within_s: float = AGENT_START_S) -> Posting:
    """From standard input, one line; PliantError if there is none in time."""
    until = time.monotonic() + within_s
    line = bytearray()
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([0], [], [], max(0.0, until - time.monotonic()))
        data = os.read(0, LONGEST) if ready else b""
        if not data:
            raise PliantError(
                "an agent is started by pliant launch, which says on its standard input where it belongs"
            )
        line += data
    try:
        return msgspec.json.decode(line, type=Posting)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PliantError(f"this is no posting of this version of pliant: {error}") from error


def line(posting: Posting) -> bytes:
    return msgspec.json.encode(posting) + b"\n"

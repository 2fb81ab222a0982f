"""What an agent of a launch tree is told by whoever starts it, and how that is done."""

from __future__ import annotations

import os
import select
import shlex
import sys
import time

import msgspec

from pliant.launch.tree import LEAVING, arriving
from pliant.live.tree.messages import Seat
from pliant.model.deadlines import AGENT_START_S
from pliant.model.errors import PliantError
from pliant.model.hosts import address

_ENTER = "import sys; sys.path += sys.argv[2:4]; from pliant.launch.tree.__main__ import main; main()"
"""An agent as a program, without what Python does for others: looking through all that is installed, for one thing."""
_PYTHONS = (f"python{sys.version_info[0]}.{sys.version_info[1]}", "python3")
"""Names that are tried where the path of this Python is not there."""
_FIND = (
    'for each in {names}; do if command -v "$each" >/dev/null 2>&1; then exec "$each" "$@"; fi; done; '
    "echo 'pliant: no Python under these names:' {names}'; name one with --remote-python' >&2; exit 127"
)
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
    ``python`` runs them. Its path, and ``places``, where it finds Pliant and msgspec, are the same on all nodes; by ssh
    other names are tried for the Python unless one was ``chosen``. ``ships``: where the places are not there, agents
    come over ssh too. ``shell``: the words of a command in the place of ssh, ``shell [options] host command``."""

    by: str = "fork"
    options: tuple[str, ...] = ()
    python: str = sys.executable
    places: tuple[str, str] = (_place("pliant"), _place("msgspec"))
    chosen: bool = False
    ships: bool = False
    shell: tuple[str, ...] = ()

    def command(self, node: str, within_s: float = AGENT_START_S, run: str = "") -> list[str]:
        """What starts an agent of ``run`` on ``node``, and hands it its standard input. It has to call within
        ``within_s`` s."""
        agent = [self.python, "-S", "-P", "-c", _ENTER, _NAME, *self.places]
        match self.by:
            case "ssh":
                at, options = self.login(node)
                command = f"exec {shlex.join(self._found(node, run))}"
                if self.shell:
                    return [*self.shell, *options, at, command]
                timeout = f"ConnectTimeout={max(1, round(within_s * SSH_SHARE))}"
                # The user's options come first: ssh takes the first of two.
                return ["ssh", "-T", "-o", "BatchMode=yes", *options, "-o", timeout, "--", at, command]
            case "srun":
                where = ["--nodes=1", "--ntasks=1", f"--nodelist={node}", "--overlap", "--quiet"]
                return ["srun", *where, *self.options, "--", *agent]
            case _:
                return agent

    def _found(self, node: str, run: str) -> list[str]:
        """The words that run an agent on a node of which neither Python nor Pliant is known."""
        names = (self.python,) if self.chosen else (self.python, *_PYTHONS)
        with open(arriving.__file__.removesuffix("c"), encoding="utf-8") as file:  # noqa: PTH123 - pathlib is slow to load
            enter = file.read()
        where = [*self.places, arriving.magic_here(), code_folder(run, node) * self.ships]
        agent = ["-I", "-S", "-c", enter, _NAME, *where, LEAVING]
        return ["sh", "-c", _FIND.format(names=shlex.join(names)), "sh", *agent]

    def login(self, node: str) -> tuple[str, list[str]]:
        """A node for ssh: its destination, and options, of which ssh takes the first of two."""
        at = address(node)
        return at.login, [*(["-p", str(at.port)] if at.port else []), *self.options]

    @property
    def leaves(self) -> bool:
        """Whether what has started an agent ends when that has called: ssh does, while srun ends its agent with it."""
        return self.by == "ssh"


def code_folder(run: str, node: str) -> str:
    """Where code that was sent lies, below the folder of the user's launches."""
    return f"{run}/{node}.code"


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
        if not ready:
            raise PliantError(f"nothing came on standard input within {within_s:g} s")
        if not (data := os.read(0, LONGEST)):
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

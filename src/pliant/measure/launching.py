"""How long it takes until an empty command has run on every node, by our launcher and by others, over ssh: the figures
of ``pliant bench launch``."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from pliant.measure.programs import Figures
from pliant.model.errors import PliantError
from pliant.model.nodes import hostlist

EMPTY = ("true",)
TOOLS = Path(sys.executable).parent
FLAT = "flat ssh loop"
"""What the others are held against: as many ssh at a time as the window allows, all from one node."""
_LOOP = 'window=$1; shift; printf "%s\\n" "$@" | xargs -P "$window" -I NODE ssh NODE '
TAIL = 300
"""Characters of a contender's last words that are kept."""


class Machines(Protocol):
    """Nodes that a head reaches by ssh, such as a virtual cluster."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def run(self, argv: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run a command on the head; PliantError if it takes longer."""
        ...


class Contender(NamedTuple):
    """``argv`` makes the command of the names of the nodes; ``tells``: it prints what it is made of, as JSON."""

    name: str
    argv: Callable[[Sequence[str]], list[str]]
    tells: bool = False
    degree: int = 0


class Effort(NamedTuple):
    """``window``: starts that one node has under way at a time. ``ssh_delay_s``: what each ssh takes longer, known here
    to give everybody time enough."""

    nodes: tuple[int, ...]
    degrees: tuple[int, ...]
    window: int
    ssh_delay_s: float
    repetitions: int

    def limit_s(self, nodes: int) -> float:
        """What one launch may take: as if each node were started alone, on a machine that is busy."""
        return 60.0 + nodes * (1.0 + self.ssh_delay_s)


def ours(degree: int, window: int) -> Contender:
    options = ["--degree", str(degree), "--window", str(window), "--json", "--", *EMPTY]
    return Contender(
        f"pliant launch, degree {degree}",
        lambda names: [str(TOOLS / "pliant"), "launch", "--hosts", hostlist(names), *options],
        tells=True,
        degree=degree,
    )


def flat(window: int) -> Contender:
    return Contender(FLAT, lambda names: ["sh", "-c", _LOOP + EMPTY[0], "sh", str(window), *names])


def contenders(effort: Effort) -> tuple[list[Contender], dict[str, str]]:
    """Those that are there, and why the others are left out."""
    window = str(effort.window)
    hydra = Contender(
        "hydra",
        lambda names: [
            str(TOOLS / "mpiexec"), "-launcher", "ssh", "-hosts", ",".join(names),
            "-n", str(len(names)), "-ppn", "1", *EMPTY,
        ],
    )  # fmt: skip
    pdsh = Contender(
        "pdsh", lambda names: ["pdsh", "-S", "-R", "ssh", "-f", window, "-w", hostlist(names), *EMPTY]
    )
    clush = Contender("clush", lambda names: ["clush", "-S", "-f", window, "-w", hostlist(names), *EMPTY])
    there, left_out = [flat(effort.window)], {}
    no_launch = _no_launch()
    for contender, why_not in (
        *((ours(degree, effort.window), no_launch) for degree in effort.degrees),
        (hydra, "" if (TOOLS / "mpiexec").exists() else "no mpiexec beside this Python: pip install mpich"),
        (pdsh, "" if shutil.which("pdsh") else "not installed: apt-get install pdsh"),
        (clush, "" if shutil.which("clush") else "not installed: apt-get install clustershell"),
    ):
        if why_not:
            left_out[contender.name] = why_not
        else:
            there.append(contender)
    return there, left_out


def _no_launch() -> str:
    words = [str(TOOLS / "pliant"), "launch", "--help"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return "this version has no pliant launch" if done.returncode else ""


class Launches:
    """What a contender has shown on so many nodes, run by run."""

    def __init__(self, contender: Contender, nodes: int) -> None:
        self.contender = contender
        self.nodes = nodes
        self.runs_s: list[float] = []
        self.told: list[Figures] = []
        self.failed = ""
        """Its last words if it has failed: it is not asked again."""

    def launch(self, machines: Machines, limit_s: float) -> None:
        argv = self.contender.argv(machines.names[: self.nodes])
        began = time.perf_counter()
        try:
            done = machines.run(argv, timeout_s=limit_s)
            took_s = time.perf_counter() - began
            if done.returncode:
                said = (done.stderr or done.stdout).strip()[-TAIL:]
                self.failed = (
                    f"exit code {done.returncode}: {said}" if said else f"exit code {done.returncode}"
                )
                return
            told = _told(done.stdout) if self.contender.tells else {}
        except PliantError as error:
            self.failed = str(error)[-TAIL:]
            return
        self.runs_s.append(took_s)
        self.told.append(told)

    def row(self, base: Launches) -> Figures:
        """``base``: the flat loop. ``of_flat``: the time it takes, of the flat loop's of the same round; the median of
        the rounds that both have."""
        pairs = list(zip(self.runs_s, base.runs_s, strict=False))
        return {
            "nodes": self.nodes,
            "contender": self.contender.name,
            "degree": self.contender.degree,
            "seconds": round(statistics.median(self.runs_s), 4) if self.runs_s else None,
            "of_flat": round(statistics.median(a / b for a, b in pairs), 4) if pairs else None,
            "runs_s": [round(seconds, 4) for seconds in self.runs_s],
            "failed": self.failed,
            **(_middle(self.told) if self.contender.tells and self.told else {}),
        }


def _told(text: str) -> Figures:
    """What our launcher says of a launch; PliantError if that is not what it should be."""
    try:
        figures = json.loads(text)
        return {
            "phases": {str(name): float(seconds) for name, seconds in figures["phases"].items()},
            "connections_max": int(figures["connections_max"]),
            "depth": int(figures["depth"]),
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PliantError(f"its JSON is not as expected ({error!r}): {text.strip()[-TAIL:]}") from None


def _middle(told: Sequence[Figures]) -> Figures:
    """The median of each phase, and the most of what is counted."""
    phases = dict.fromkeys(name for each in told for name in each["phases"])
    return {
        "phases": {
            name: round(statistics.median(each["phases"].get(name, 0.0) for each in told), 4)
            for name in phases
        },
        "connections_max": max(each["connections_max"] for each in told),
        "depth": max(each["depth"] for each in told),
    }


def steps(effort: Effort, there: Sequence[Contender]) -> int:
    """How often ``measure`` tells that it has come a step further."""
    return len(effort.nodes) * effort.repetitions * len(there)


def measure(
    machines: Machines, effort: Effort, there: Sequence[Contender], advance: Callable[[], object]
) -> list[Figures]:
    """A row for each number of nodes and contender, that of the flat loop first. All contenders run once in each round,
    each round begins with another of them, and before the first every node is reached once. PliantError if not."""
    everyone = machines.names[: max(effort.nodes)]
    limit_s = effort.limit_s(len(everyone))
    done = machines.run(there[0].argv(everyone), timeout_s=limit_s)
    if done.returncode:
        raise PliantError(f"not every node is reached by ssh: {done.stderr.strip()[-TAIL:]}")
    rows = []
    for nodes in effort.nodes:
        shown = [Launches(contender, nodes) for contender in there]
        for number in range(effort.repetitions):
            first = number % len(shown)
            for launches in (*shown[first:], *shown[:first]):
                if not launches.failed:
                    launches.launch(machines, effort.limit_s(nodes))
                advance()
        rows += [launches.row(shown[0]) for launches in shown]
    return rows

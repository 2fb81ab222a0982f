"""How long it takes until an empty command, or an empty MPI program, has run on every node, by our launcher and by
others, over ssh: the figures of ``pliant bench launch``."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from pliant.model.errors import PliantError
from pliant.model.nodes import hostlist
from pliant_lab.measure.programs import Figures
from pliant_lab.measure.quiet import Quiet

EMPTY = ("true",)
TOOLS = Path(sys.executable).parent
FLAT = "flat ssh loop"
"""What the others are held against: as many ssh at a time as the window allows, all from one node."""
_LOOP = 'window=$1; shift; printf "%s\\n" "$@" | xargs -P "$window" -I NODE ssh NODE '
MPI = TOOLS.parent / "lib" / "libmpi.so.12"
"""That of MPICH's wheel."""
MPI_RANKS = 8
"""For each processor: ranks wait by trying again and again."""
MPI_OVER = ("env", "MPIR_CVAR_CH4_NETMOD=ofi")
"""UCX takes nodes of one machine for one host."""
TAIL = 300
"""Characters of a contender's last words that are kept."""


class Machines(Protocol):
    """Nodes that a head reaches by ssh, such as a virtual cluster."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def slow_ssh(self, delay_s: float) -> None:
        """Make each ssh from now on so much longer."""
        ...

    def run(self, argv: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run a command on the head; PliantError if it takes longer."""
        ...


class Contender(NamedTuple):
    """``argv`` makes the command of the names of the nodes; ``tells``: it prints what it is made of, as JSON. ``mpi``:
    it starts an MPI program, and no more than ``ranks_most()`` of it."""

    name: str
    argv: Callable[[Sequence[str]], list[str]]
    tells: bool = False
    degree: int = 0
    mpi: bool = False


class Effort(NamedTuple):
    """``window``: starts that one node has under way at a time. ``ssh_delays_s``: what each ssh takes longer, one after
    another."""

    nodes: tuple[int, ...]
    degrees: tuple[int, ...]
    window: int
    ssh_delays_s: tuple[float, ...]
    repetitions: int

    def limit_s(self, nodes: int) -> float:
        """What one launch may take: as if each node were started alone, on a machine that is busy."""
        return 60.0 + nodes * (1.0 + max(self.ssh_delays_s))

    def sizes_of(self, contender: Contender) -> tuple[int, ...]:
        """The numbers of nodes on which it is measured."""
        return tuple(each for each in self.nodes if not contender.mpi or each <= ranks_most())


def ranks_most() -> int:
    """Of an MPI program, on this machine."""
    return MPI_RANKS * len(os.sched_getaffinity(0))


def _empty_mpi() -> tuple[str, ...]:
    """MPI_Init and MPI_Finalize, by the library itself: what is around it is next to nothing."""
    calls = f"import ctypes; mpi = ctypes.CDLL({str(MPI)!r}); mpi.MPI_Init(None, None); mpi.MPI_Finalize()"
    return (sys.executable, "-I", "-S", "-c", calls)


def ours(degree: int, window: int, *, mpi: bool = False) -> Contender:
    options = ["--degree", str(degree), "--window", str(window), "--json"]
    before, what = (MPI_OVER, ("--mpi", "--", *_empty_mpi())) if mpi else ((), ("--", *EMPTY))
    return Contender(
        f"pliant launch{' --mpi' if mpi else ''}, degree {degree}",
        lambda names: [*before, str(TOOLS / "pliant"), "launch", "--hosts", hostlist(names), *options, *what],
        tells=True,
        degree=degree,
        mpi=mpi,
    )


def hydra(*, mpi: bool = False) -> Contender:
    before, what = (MPI_OVER, _empty_mpi()) if mpi else ((), EMPTY)
    return Contender(
        "hydra, MPI" if mpi else "hydra",
        lambda names: [
            *before, str(TOOLS / "mpiexec"), "-launcher", "ssh", "-hosts", ",".join(names),
            "-n", str(len(names)), "-ppn", "1", *what,
        ],
        mpi=mpi,
    )  # fmt: skip


def flat(window: int) -> Contender:
    return Contender(FLAT, lambda names: ["sh", "-c", _LOOP + EMPTY[0], "sh", str(window), *names])


def contenders(effort: Effort, *, mpi: bool = False) -> tuple[list[Contender], dict[str, str]]:
    """Those that are there, and why the others are left out. ``mpi``: those with an MPI program as well."""
    window = str(effort.window)
    pdsh = Contender(
        "pdsh", lambda names: ["pdsh", "-S", "-R", "ssh", "-f", window, "-w", hostlist(names), *EMPTY]
    )
    clush = Contender("clush", lambda names: ["clush", "-S", "-f", window, "-w", hostlist(names), *EMPTY])
    there, left_out = [flat(effort.window)], {}
    no_launch = _no_launch()
    no_hydra = "" if (TOOLS / "mpiexec").exists() else "no mpiexec beside this Python: pip install mpich"
    no_mpi = "" if MPI.exists() else f"no {MPI}: pip install mpich"
    if not no_mpi and min(effort.nodes) > ranks_most():
        no_mpi = f"at most {ranks_most()} ranks of MPI are measured here"
    programs = [(hydra(mpi=True), no_hydra or no_mpi)]
    programs += [(ours(degree, effort.window, mpi=True), no_launch or no_mpi) for degree in effort.degrees]
    for contender, why_not in (
        *((ours(degree, effort.window), no_launch) for degree in effort.degrees),
        (hydra(), no_hydra),
        (pdsh, "" if shutil.which("pdsh") else "not installed: apt-get install pdsh"),
        (clush, "" if shutil.which("clush") else "not installed: apt-get install clustershell"),
        *(programs if mpi else ()),
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
    """What a contender has shown on so many nodes with an ssh that is so much longer, run by run."""

    def __init__(self, contender: Contender, nodes: int, ssh_delay_s: float = 0.0) -> None:
        self.contender = contender
        self.nodes = nodes
        self.ssh_delay_s = ssh_delay_s
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
        """``base``: the flat loop, if it is there. ``of_flat``: the time it takes, of the flat loop's of the same
        round; the median of the rounds that both have."""
        compared = base.contender.name == FLAT and not self.contender.mpi
        pairs = list(zip(self.runs_s, base.runs_s, strict=False)) if compared else []
        return {
            "nodes": self.nodes,
            "contender": self.contender.name,
            "degree": self.contender.degree,
            "mpi": self.contender.mpi,
            "ssh_delay_s": self.ssh_delay_s,
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
    sizes = sum(len(effort.sizes_of(contender)) for contender in there)
    return sizes * len(effort.ssh_delays_s) * effort.repetitions


def measure(
    machines: Machines,
    effort: Effort,
    there: Sequence[Contender],
    quiet: Quiet,
    advance: Callable[[], object],
) -> list[Figures]:
    """A row for each delay, number of nodes and contender. All of them run once in each round, so that what changes on
    the machine meanwhile changes all alike; of each number of nodes each round begins with another contender. Before
    the first every node is reached once. PliantError if not."""
    everyone = machines.names[: max(effort.nodes)]
    machines.slow_ssh(0.0)
    done = machines.run(flat(effort.window).argv(everyone), timeout_s=effort.limit_s(len(everyone)))
    if done.returncode:
        raise PliantError(f"not every node is reached by ssh: {done.stderr.strip()[-TAIL:]}")
    shown = [
        [Launches(each, nodes, delay_s) for each in there if nodes in effort.sizes_of(each)]
        for delay_s in effort.ssh_delays_s
        for nodes in effort.nodes
    ]
    for number in range(effort.repetitions):
        for several in shown:
            first = number % max(1, len(several))
            for launches in (*several[first:], *several[:first]):
                if not launches.failed:
                    machines.slow_ssh(launches.ssh_delay_s)
                    quiet.wait()
                    launches.launch(machines, effort.limit_s(launches.nodes))
                advance()
    return [launches.row(several[0]) for several in shown for launches in several]

"""One resize of a program under a bare mpiexec, in a run of its own: what is asked for, and what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from pliant.model.errors import PliantError
from pliant.plan.change import grown
from pliant.plan.shrink import ShrinkMethod, ShrinkPlan, SpawnedWorld, shrink_plan, world_over
from pliant.plan.spawn import Method, SpawnPlan, Strategy, spawn_plan
from pliant_lab.measure.programs import Figures

PROGRAM = "pliant_lab.measure.resized"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
END_S = 5.0
"""What mpiexec gets to end its ranks."""


class Gift(msgspec.Struct, frozen=True):
    """So many ``slots`` of each node are given back, by ``method``."""

    slots: tuple[int, ...]
    method: ShrinkMethod = ShrinkMethod.TERMINATION
    strategy: Strategy = Strategy.DIFFUSIVE

    def plan(self, worlds: Sequence[SpawnedWorld]) -> ShrinkPlan:
        """For a job of these worlds."""
        slots = {node: slots for node, slots in enumerate(self.slots) if slots}
        return shrink_plan(worlds, slots, self.method, self.strategy)


class Trial(msgspec.Struct, frozen=True):
    """``running`` processes on the nodes called ``hosts`` expand to ``cores``, unless these are the same. Then the
    first ranks of ``leaves`` leave, the second ones of those that are left, and so on; and so it is for ``pause_s``.
    Or, in place of ``leaves``, after a Merge: ``gives``, one after the other, as they are planned.

    ``newcomers``: their command if it is not the program's own. ``beside``: they start while the sources compute.
    ``limit_s``: the deadline of each wait.
    """

    hosts: tuple[str, ...]
    running: tuple[int, ...]
    cores: tuple[int, ...]
    method: Method = Method.MERGE
    strategy: Strategy = Strategy.SINGLE
    leaves: tuple[tuple[int, ...], ...] = ()
    pause_s: float = 0.0
    limit_s: float = 30.0
    newcomers: tuple[str, ...] = ()
    beside: bool = False
    gives: tuple[Gift, ...] = ()

    @property
    def worlds(self) -> tuple[SpawnedWorld, ...]:
        """Of the job, before it gives anything."""
        initial = (world_over(0, {node: here for node, here in enumerate(self.running) if here}),)
        return grown(initial, self.plan).after if self.expands else initial

    @property
    def expands(self) -> bool:
        return self.running != self.cores

    @property
    def plan(self) -> SpawnPlan:
        return spawn_plan(self.cores, self.running, self.method, self.strategy, one=self.beside)

    @property
    def command(self) -> tuple[str, ...]:
        """By mpi4py, so that an exception in one rank ends them all."""
        return (sys.executable, "-m", "mpi4py", "-m", PROGRAM, msgspec.json.encode(self).decode())


class Surface(NamedTuple):
    """What trials run on: an MPICH netmod; ``virtual``: all nodes are this machine, and ranks speak over the network
    alone, as those of different nodes do. With ofi, one start on several virtual nodes hangs else."""

    netmod: str = "ofi"
    virtual: bool = True


class Outcome(NamedTuple):
    """``told``: what the program has printed, by kind. ``error``: why it has failed; ``hung``: it was ended."""

    told: dict[str, list[Figures]]
    error: str = ""
    hung: bool = False

    def one(self, kind: str) -> Figures:
        """The only figures of this kind; PliantError if there are not."""
        found = self.told.get(kind, [])
        if len(found) != 1:
            raise PliantError(self.error or f"the program has told of {len(found)} of {kind!r}, not of one")
        return found[0]


def run(trial: Trial, surface: Surface, limit_s: float) -> Outcome:
    """Run it. After ``limit_s`` it has hung, and is ended. PliantError if there is no mpiexec, ValueError if no plan
    can do what is asked for."""
    if trial.expands:
        _ = trial.plan
    if not MPIEXEC.exists():
        raise PliantError(f"there is no {MPIEXEC}: pip install 'pliant[mpi]'")
    sources = sum(trial.running)
    hosts = ",".join(
        f"{host}:{max(here, 1)}" for host, here in zip(trial.hosts, trial.running, strict=True) if here
    )
    launcher = ["-launcher", "fork"] if surface.virtual else []
    words = [str(MPIEXEC), *launcher, "-hosts", hosts, "-n", str(sources), *trial.command]
    env = {
        **os.environ,
        "MPIR_CVAR_CH4_NETMOD": surface.netmod,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    if surface.virtual:
        env["MPIR_CVAR_NOLOCAL"] = "1"
    process = subprocess.Popen(
        words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace",
    )  # fmt: skip
    hung = False
    try:
        said, complaints = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        hung = True
        said, complaints = _end(process)
    except BaseException:
        _end(process)
        raise
    error = ""
    if hung:
        error = f"not ended within {limit_s:g} s"
    elif process.returncode:
        error = f"exit code {process.returncode}: {_last_words(complaints)}"
    return Outcome(_told(said), error, hung)


def _end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Asked to end, mpiexec ends its ranks first."""
    process.terminate()
    try:
        return process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def _told(text: str) -> dict[str, list[Figures]]:
    told: dict[str, list[Figures]] = {}
    for line in text.splitlines():
        if line.startswith("{"):
            figures = json.loads(line)
            told.setdefault(figures.pop("kind"), []).append(figures)
    return told


def _last_words(text: str) -> str:
    """The last line of a program's own, before what mpiexec says of its end."""
    own = text.partition("=====")[0].strip().splitlines()
    return (own or text.strip().splitlines() or [""])[-1]

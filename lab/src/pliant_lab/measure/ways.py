"""The ways to resize an MPI job that ``pliant bench resize`` compares, and which of their times have a bar.

Processes start others by MPI_Comm_spawn under a bare mpiexec, or a node's agent starts them.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import NamedTuple

from pliant.model.errors import PliantError
from pliant.model.kinds import JobKind
from pliant.plan.spawn import Method, Strategy
from pliant_lab.measure import resizes
from pliant_lab.measure.cycles import PROGRAM
from pliant_lab.measure.resizes import Change
from pliant_lab.measure.resizing import Cell, Hung, Ratio, Setting, Timing, Way
from pliant_lab.measure.trials import Trial, run

TRIES = 8
"""Growths until all newcomers have been forked: a node's warm process comes up after the first group there."""


class Spawn(NamedTuple):
    """Expansion by a plan; ``beside``: asynchronous."""

    name: str
    method: Method
    strategy: Strategy
    grows: bool = True
    beside: bool = False

    def resize(self, cell: Cell, setting: Setting) -> Timing:
        nodes = max(cell)
        trial = Trial(
            setting.hosts[:nodes], setting.fill(cell.before, nodes), setting.fill(cell.after, nodes),
            self.method, self.strategy, limit_s=setting.limit_s, beside=self.beside,
        )  # fmt: skip
        return _run(trial, setting, "expansion")


class Leave(NamedTuple):
    """Ranks leave. ``grown``: the job has grown to its size node by node, so that whole worlds leave (termination);
    else it is one world, and they sleep."""

    name: str
    grown: bool
    grows: bool = False

    def resize(self, cell: Cell, setting: Setting) -> Timing:
        full, rest = setting.fill(cell.before, cell.before), setting.fill(cell.after, cell.before)
        trial = Trial(
            setting.hosts[: cell.before], setting.fill(1, cell.before) if self.grown else full, full,
            Method.MERGE, Strategy.DIFFUSIVE, (tuple(range(sum(rest), sum(full))),), limit_s=setting.limit_s,
        )  # fmt: skip
        return _run(trial, setting, "shrink")


def _run(trial: Trial, setting: Setting, kind: str) -> Timing:
    outcome = run(trial, setting.surface, setting.limit_s)
    if outcome.hung:
        raise Hung(outcome.error)
    if outcome.error:
        raise PliantError(outcome.error)
    told = outcome.one(kind)
    return Timing(told["total_s"], told["blocked_s"], told.get("freed_s"), told["phases"])


class Agent(NamedTuple):
    """Newcomers are executed, or ``warm``: forked from a process that has imported what they need."""

    name: str
    warm: bool
    grows: bool = True

    def resize(self, cell: Cell, setting: Setting) -> Timing:
        """Once, by order, in a job of its own; the growths before it until all are warm do not count."""
        if not setting.surface.virtual:
            raise ValueError("its agents are on this machine: leave out --hosts")
        if len(set(setting.slots)) > 1:
            raise ValueError("its nodes have the same number of processes each")
        with tempfile.TemporaryDirectory() as place:
            try:
                change = asyncio.run(self._resized(cell, setting, Path(place)))
            except TimeoutError:
                raise Hung(f"not ended within {setting.limit_s:g} s") from None
        total_s = change.seconds - change.clean_s
        return Timing(total_s, change.blocked_s, None if self.grows else change.seconds, change.phases)

    async def _resized(self, cell: Cell, setting: Setting, place: Path) -> Change:
        end, found, tries, executed = place / "end", list[Change](), 0, 0

        def watch(change: Change) -> bool:
            nonlocal tries, executed
            if change.grows is not self.grows:
                return True
            before, executed = executed, _executed(place)
            tries += 1
            if self.warm and executed > before and tries < TRIES:
                return True
            if executed == before or not self.warm:
                found.append(change)
            end.touch()
            return False

        env = {
            "MPIR_CVAR_CH4_NETMOD": setting.surface.netmod, "MPIR_CVAR_NOLOCAL": "1",
            "PLIANT_WARM": str(int(self.warm)),
        }  # fmt: skip
        async with (
            asyncio.timeout(setting.limit_s),
            resizes.machine(max(cell), place, setting.slots[0]) as machine,
        ):
            await machine.run(["-m", PROGRAM, str(end)], cell, JobKind.MPI, watch, env)
        if not found:
            raise PliantError(f"{self.name}: in {TRIES} growths not all newcomers were forked")
        return found[0]


def _executed(place: Path) -> int:
    """How many processes of the job say that they were executed."""
    return sum(log.read_text().splitlines().count("executed") for log in place.glob("*.log"))


WAYS: tuple[Way, ...] = (
    Spawn("merge", Method.MERGE, Strategy.SINGLE),
    Spawn("merge + hypercube", Method.MERGE, Strategy.HYPERCUBE),
    Spawn("merge + diffusive", Method.MERGE, Strategy.DIFFUSIVE),
    Spawn("baseline + hypercube", Method.BASELINE, Strategy.HYPERCUBE),
    Spawn("baseline + diffusive", Method.BASELINE, Strategy.DIFFUSIVE),
    Leave("TS", grown=True),
    Leave("ZS", grown=False),
    Spawn("SS + hypercube", Method.BASELINE, Strategy.HYPERCUBE, grows=False),
    Spawn("SS + diffusive", Method.BASELINE, Strategy.DIFFUSIVE, grows=False),
    Agent("agent, cold", warm=False),
    Agent("agent, warm", warm=True),
    Agent("TS by agent", warm=False, grows=False),
)

BESIDE = Spawn("merge + diffusive, asynchronous", Method.MERGE, Strategy.DIFFUSIVE, beside=True)
"""Not one of those that Martín-Álvarez et al. 2025 compare: what it takes in all is the application's doing too, which
computes."""

RATIOS = (
    Ratio("hypercube_over_merge", "merge + hypercube", "merge", "total_s"),
    Ratio("diffusive_over_merge", "merge + diffusive", "merge", "total_s"),
    Ratio("spawn_shrink_over_termination", "SS + diffusive", "TS", "blocked_s"),
    Ratio("agent_blocked_over_merge", "agent, warm", "merge", "blocked_s"),
    Ratio("agent_total_over_merge", "agent, warm", "merge", "total_s"),
)

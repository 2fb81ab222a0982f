"""The ledger of a world: what its faults have met, and so what a job may end by, and what a node cannot do."""

from __future__ import annotations

from collections import Counter

from pliant.core.state import State
from pliant.model.jobs import Bounds, JobSpec
from pliant.model.nodes import NodeSet
from pliant_lab.injection.audit.cells import Cells
from pliant_lab.injection.clock import Clock
from pliant_lab.injection.standins.admission import MERGING
from pliant_lab.injection.standins.fabric import Fabric
from pliant_lab.injection.standins.running import own_words


def own_bounds(spec: JobSpec) -> Bounds | None:
    """The sizes that a program states by itself, if it does."""
    for word in spec.command:
        if word.startswith("bounds="):
            low, _, high = word.removeprefix("bounds=").partition(":")
            return Bounds(int(low), int(high))
    return None


class Ledger:
    """Of all controllers of a world; ``state`` is what the present one knows."""

    state: State

    def __init__(self, clock: Clock) -> None:
        self.ended = self.ended_now = False
        """The run is ended from outside: in good order, or at once."""
        self.met: Counter[tuple[str, str]] = Counter()
        """How often each fault met a job whose resize was in this state."""
        self.cells = Cells()
        self._clock = clock
        self.specs_by_number: dict[int, JobSpec] = {}
        self.fabrics: dict[int, Fabric] = {}
        self.left_early: set[int] = set()
        """Jobs that a rank has left in MPI, with 0."""
        self._touched: dict[int, set[str]] = {}
        self._touched_nodes: dict[str, list[tuple[float, str]]] = {}
        self._held: dict[int, list[tuple[str, float]]] = {}
        self._refused: dict[str, float] = {}
        self._hung: dict[str, tuple[float, bool]] = {}

    def fabric(self, job: int) -> Fabric:
        if job not in self.fabrics:
            fabric = self.fabrics[job] = Fabric(job)
            if (spec := self.specs_by_number.get(job)) is not None and not spec.one_world:
                fabric.allowed = spec.nodes
        return self.fabrics[job]

    def holds(self, job: int, nodes: NodeSet, at: float) -> None:
        names = self.state.nodes.names
        self._held.setdefault(job, []).extend((names[node], at) for node in nodes)

    def leaves_early(self, job: int) -> None:
        """A member of the job leaves the others in MPI: it cannot complete."""
        self.touch(job, "rank killed")
        self.left_early.add(job)

    def touch(self, job: int, what: str) -> None:
        self._touched.setdefault(job, set()).add(what)

    def touch_node(self, node: str, what: str) -> None:
        self._touched_nodes.setdefault(node, []).append((self._clock.now, what))

    def touched_node(self, name: str) -> set[str]:
        return {what for _, what in self._touched_nodes.get(name, ())}

    def touched(self, job: int) -> set[str]:
        """All that the job has met: by itself, on nodes that it held or was to get, and by what it is."""
        found = set(self._touched.get(job, ()))
        for name, since in self._held.get(job, ()):
            # What met a node shortly before the job came there may still be at work, and a slow link stays slow.
            met = self._touched_nodes.get(name, ())
            found |= {
                what
                for at, what in met
                if at >= since - 300.0 or what in ("slow link", "node lost", "expired")
            }
        spec = self.specs_by_number[job]
        found |= self._by_itself(spec)
        if "newcomer killed" in found and any(
            word in line
            for word in (f"watchdog in {MERGING}", "was lost, and its data")
            for line in self.fabric(job).story
        ):
            found.add("in merge")
        state = self.state
        left = (state.nodes.all_mask & ~state.nodes.lost_mask & ~state.nodes.reclaimed_mask).bit_count()
        if spec.nodes.min > left:
            found.add("too large")
        if any(what == "expired" for met in self._touched_nodes.values() for _, what in met):
            found.add("too long")  # for the nodes that last
        return found

    def _by_itself(self, spec: JobSpec) -> set[str]:
        command = own_words(spec.command)
        what = {command[0]}
        if command[0] == "rigid" and command[2] != "0":
            what.add("fails")
        if {"exit=1", "quit=2"} & set(command) or any("skip=" in word for word in command):
            what.add("fails")
        if {"pmi=empty", "pmi=twice"} & set(command):
            what.add("fails")
        if any("hangs=" in word for word in command):
            what.add("hangs")
        if self.ended:
            what |= {"ended", "ended now"} if self.ended_now else {"ended"}
        if spec.kill:
            what.add("walltime")
        if (own := own_bounds(spec)) is not None and own != spec.nodes:
            what.add("fails")
        return what

    def exec_problem(self, node: str, job: int) -> str:
        if self.refuses(node):
            self.no_start(job)
            return "no space left on device"
        return ""

    def refuses(self, node: str) -> bool:
        """Whether the node executes nothing now."""
        return self._refused.get(node, 0.0) > self._clock.now

    def refuse(self, node: str, seconds: float) -> None:
        self._refused[node] = self._clock.now + seconds

    def hang(self, node: str, seconds: float, *, scans: bool) -> None:
        self._hung[node] = self._clock.now + seconds, scans

    def hung_s(self, node: str, *, scans: bool = False) -> float:
        """How long the kernel of this node will start nothing yet, or not show its processes."""
        until, both = self._hung.get(node, (0.0, False))
        return max(0.0, until - self._clock.now) if both or not scans else 0.0

    def no_start(self, job: int) -> None:
        """A rank of the job cannot be started."""
        live = self.state.jobs.get(job)
        first = live is not None and live.resize is None and live.epoch == 0
        self.touch(job, "exec refused" if first else "newcomer killed")

"""What the worlds of an expansion tell each other, over the communicators between a parent and its children."""

from __future__ import annotations

import msgspec

from pliant.plan.spawn import Method, SpawnPlan, Strategy, spawn_plan


class Started(msgspec.Struct, frozen=True):
    """A group as it has come up: ``host`` and ``size`` are its own words, ``step`` its parent's count."""

    group: int
    step: int
    parent_group: int
    parent_rank: int
    host: str
    size: int


class Briefing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a newcomer has to know: the plan, as what it is made of, and its own place in it."""

    cores: tuple[int, ...]
    running: tuple[int, ...]
    method: Method
    strategy: Strategy
    oversubscription: int
    one: bool
    command: tuple[str, ...]
    hosts: tuple[str, ...]
    epoch: int
    world: int
    step: int
    parent_group: int
    parent_rank: int

    def plan(self) -> SpawnPlan:
        return spawn_plan(
            self.cores, self.running, self.method, self.strategy,
            oversubscription=self.oversubscription, one=self.one,
        )  # fmt: skip


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Upside: of all that were started by the sender's world, or below it, and of the ports that they have opened."""

    error: str = ""
    started: tuple[Started, ...] = ()
    ports: dict[str, str] = {}

    def __add__(self, other: Report) -> Report:
        error = "; ".join(filter(None, (self.error, other.error)))
        return Report(error, self.started + other.started, self.ports | other.ports)


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Downside: all are there, and these are their ports; or, with an error, the newcomers go again."""

    error: str = ""
    ports: dict[str, str] = {}


class Come(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """To newcomers that are one communicator: connect to the sources; or go again, as nobody waits for you."""

    go: bool


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """To the process that starts others beside the job: do so, or end. ``port`` is the sources'. ``last``: it says
    before its end whether some of those that it has started have never come."""

    briefing: Briefing | None = None
    port: str = ""
    last: bool = False


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What has come of newcomers: they are one communicator, or there is an error."""

    error: str = ""
    trace: tuple[Started, ...] = ()
    phases: dict[str, float] = {}


class Joined(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The newcomers are one communicator; ``reorder_s``: how long their ranks were put in order."""

    reorder_s: float

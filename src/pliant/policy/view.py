"""What a policy sees and what it may answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from pliant.model.errors import PolicyError
from pliant.model.jobs import JobSpec, JobState
from pliant.plan.cost import ResizeCost
from pliant.policy.backlog import Backlog
from pliant.policy.job_view import JobView


class Reason(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why something was decided, as data: a code, the job it serves, and figures."""

    code: str
    for_job: int = 0
    figures: dict[str, float] = {}


class Start(msgspec.Struct, frozen=True, gc=False):
    """Start a pending job on ``size`` nodes."""

    job: int
    size: int
    reason: Reason


class Resize(msgspec.Struct, frozen=True, gc=False):
    """Offer a running job to go to ``size`` nodes."""

    job: int
    size: int
    reason: Reason


class Promise(msgspec.Struct, frozen=True, gc=False):
    """Tell a waiting job that it starts by ``at`` at the latest, as far as the estimates hold."""

    job: int
    at: float


class Wake(msgspec.Struct, frozen=True, gc=False):
    """Make a pass at ``at`` seconds, in the time of ``ClusterView.now``, even if nothing happens until then.

    A time that is not ahead is ignored. Of all that were asked for, in this pass or before, only the earliest counts,
    and no restart keeps it: ask again in each pass. When all jobs have ended, nobody is woken.
    """

    at: float
    job: ClassVar[int] = 0
    """It concerns none."""


class Remember(msgspec.Struct, frozen=True, gc=False):
    """Let ``ClusterView.memory`` be this from the next pass on: numbers, texts, lists and dicts of them, as
    JSON has them.

    With ``merge`` these are changes to what it is: dicts are merged with those that are there, what is None is
    forgotten, and all else takes the place of what had the same key (RFC 7396).

    It is recorded, so a policy that keeps nothing by itself decides after a restart as if there had been none.
    """

    memory: dict[str, Any]
    merge: bool = False
    job: ClassVar[int] = 0
    """It concerns none."""


class Acquire(msgspec.Struct, frozen=True, gc=False):
    """Ask for ``count`` nodes more, on a machine whose nodes come and go (``ClusterView.pool``)."""

    count: int
    reason: Reason
    job: ClassVar[int] = 0
    """It concerns none."""


class Withdraw(msgspec.Struct, frozen=True, gc=False):
    """Have ``count`` nodes no more that were asked for and have not come. Those come all the same that were on their
    way already."""

    count: int
    reason: Reason
    job: ClassVar[int] = 0
    """It concerns none."""


class Return(msgspec.Struct, frozen=True, gc=False):
    """Give ``count`` free nodes back. The core chooses which ones."""

    count: int
    reason: Reason
    job: ClassVar[int] = 0
    """It concerns none."""


Decision = Start | Resize | Promise | Wake | Remember | Acquire | Withdraw | Return


class PoolView(NamedTuple):
    """A machine whose nodes come and go: it has ``min`` to ``max`` of them, and a node-hour costs ``price``.

    ``awaited`` nodes were asked for and have not come yet. ``unused`` were free at every moment of the last
    ``idle_s`` seconds; at ``more_at`` seconds there will be more of them if nothing happens until then. Nodes come
    ``delay_s`` seconds after they were asked for, as far as that is known, and jobs can run there for ``lease_s``.
    """

    min: int
    max: int
    price: float
    idle_s: float
    awaited: int
    unused: int
    more_at: float
    delay_s: float = 0.0
    lease_s: float = math.inf


class Expiring(NamedTuple):
    """``nodes`` nodes, of which ``free`` can be given away, are taken back: jobs that run on them at ``at`` seconds are
    ended then. From ``empty_at`` on jobs that can are asked to leave them."""

    at: float
    empty_at: float
    nodes: int
    free: int


class End(msgspec.Struct, frozen=True, gc=False):
    """Job number ``job`` has ended, or was cancelled before it started, in ``state``.

    ``done`` is the share of its work that it had done, 0 to 1 (``JobView.done``); 1 if it completed.
    ``worked_s`` are the seconds at its preferred size that it computed for (``JobView.worked_s``).
    ``requeued`` is the number under which the same job was submitted again, as it lost a node or its nodes
    expired; 0 if it was not.
    """

    job: int
    spec: JobSpec
    state: JobState
    done: float
    requeued: int = 0
    worked_s: float = 0.0


class ClusterView(Protocol):
    """The cluster at one instant, read only, kept up to date by the core."""

    @property
    def now(self) -> float:
        """Seconds; the time of the pass."""

    @property
    def total(self) -> int:
        """Nodes that are not lost."""

    @property
    def free(self) -> int:
        """Nodes that can be given away at once."""

    @property
    def queue(self) -> Iterable[JobView]:
        """Pending jobs in order of submission."""

    @property
    def backlog(self) -> Backlog | None:
        """The same by what they need, where so many wait that it is worth an index."""

    @property
    def running(self) -> Sequence[tuple[float, int, JobView]]:
        """(expected end, number, job) in this order; their nodes are not yet given back. An end in the past
        stands for now."""

    @property
    def elastic(self) -> Iterable[JobView]:
        """Running jobs that the scheduler may resize now or later: those of class malleable that are inside their loop
        (they have said ``malleable(on)``). ``resizable`` says which of them it may now."""

    @property
    def cost(self) -> ResizeCost:
        """How long a resize takes, by its sizes and data."""

    @property
    def pool(self) -> PoolView | None:
        """What is known of nodes that come and go; None where the policy can ask for none."""

    @property
    def expiring(self) -> Sequence[Expiring]:
        """The nodes that expire, the soonest first; all others stay. Nodes of one end are told together. A job is not
        started on nodes that its estimate outlasts (``policy.lasting``): a start that asks for that has to wait."""

    def lasting(self, at: float, job: int = 0) -> int:
        """Nodes that last until ``at``: those that are free or on their way back, or those that the running job of this
        number holds."""

    @property
    def served(self) -> int:
        """The waiting job for which another was last asked to shrink (its reason's ``for_job``); 0 if that came to
        nothing, and once it has started or was cancelled."""

    @property
    def news(self) -> Sequence[End]:
        """The jobs that have ended since the last pass, each told exactly once: completed, failed, timed out,
        cancelled or requeued. Of a job that is requeued it tells once it is submitted again.

        A policy that is made anew, as after a restart, has no news of what was before it.
        """

    @property
    def memory(self) -> Mapping[str, Any]:
        """What the policy has asked to ``Remember``; empty at first. It does not change: there is another one then."""

    def returning(self, job: int = 0) -> int:
        """Nodes on their way back: left by a job but not proved clean, or about to leave in a shrink.

        With ``job``, only those that come from the job of this number, which may have ended.
        """

    def usage(self, user: str) -> float:
        """Node-seconds that this user's jobs have held up to now, past ones halved every ``half_life_s`` seconds.

        A fold over the records, which a restarted controller has again. It is followed only for a policy that
        states ``half_life_s``, and raises PolicyError for others.
        """

    def resizable(self, job: JobView, *, grow: bool = False) -> bool:
        """Whether an offer can be made to this job now: none outstanding, cooled down, not pinned.

        With ``grow``, whether it may be one to grow: the core passes over those to a job whose resizes keep failing.
        """


class Policy(Protocol):
    """Anything with these two members is a policy.

    One that moves nodes between running jobs although none is free and nobody waits says so by a third,
    ``rebalances = True``: else such passes are skipped. One that goes by what users have used states
    ``half_life_s``, in seconds: else ``ClusterView.usage`` has no answer. One that goes by the order of submission
    whatever the order of the queue says why by ``own_order``, a text: then it is given no other. One that asks for
    nodes itself, where these come and go, says so by ``provisions = True``: else ``policy.elastic`` does it.
    """

    @property
    def name(self) -> str:
        """Its name in tables and journals."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """All decisions of one scheduling pass."""


def rebalances(policy: Policy) -> bool:
    """Whether it wants passes in which nothing is free and nobody waits."""
    return bool(getattr(policy, "rebalances", False))


def provisions(policy: Policy) -> bool:
    """Whether it asks for nodes and gives them back itself."""
    return bool(getattr(policy, "provisions", False))


def half_life_s(policy: Policy) -> float:
    """In how many seconds the usage that it goes by halves; 0 if it goes by none. PolicyError."""
    try:
        asked = float(getattr(policy, "half_life_s", 0.0))
    except (TypeError, ValueError):
        asked = math.nan
    if not 0.0 <= asked < math.inf:
        raise PolicyError(f"policy {policy.name!r}: half_life_s must be a number of seconds, 0 or more")
    return asked


Memory = dict[str, Any]


def remembered(memory: Memory, said: Memory, *, merge: bool) -> Memory:
    """What is remembered from then on: what is ``said``, or ``memory`` with these changes."""
    return merged(memory, said) if merge else said


def merged(memory: Mapping[str, Any], changes: Mapping[str, Any]) -> Memory:
    """``memory`` with ``changes``, as RFC 7396 has it: dicts are merged, and None removes. Neither of them changes, so
    that whoever has either may keep it."""
    result = dict(memory)
    for key, change in changes.items():
        if change is None:
            result.pop(key, None)
        elif isinstance(change, dict):
            before = result.get(key)
            result[key] = merged(before if isinstance(before, dict) else {}, change)
        else:
            result[key] = change
    return result

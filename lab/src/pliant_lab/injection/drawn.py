"""What a seed makes of a world: its jobs, its policy and how patient its scheduler is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from msgspec import UNSET, structs

from pliant.core.job import ScheduledJob
from pliant.core.settings import Settings, batch_settings
from pliant.core.state import State
from pliant.live.cluster import orders as o
from pliant.live.node.warmth import SWITCH
from pliant.model.batch import ClusterSpec
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.kinds import JobKind
from pliant.model.nodes import NodeSet
from pliant.policy.registry import POLICIES, make
from pliant.policy.view import ClusterView, Decision, Policy, Reason, Remember, Resize, Start, Wake
from pliant.protocol import resizing
from pliant_lab.injection.standins import places
from pliant_lab.injection.standins.helpers import COLD
from pliant_lab.injection.standins.programs import LIES, PMI
from pliant_lab.injection.standins.running import PYTHON

ELASTIC = ("malleable", "marginal", "equipartition", "average-agreement", "min-agreement", "dmr-wide")
"""Policies that resize much, and are drawn more often for it."""
SHARES = {"malleable": 28, "rigid": 9, "silent": 2, "deaf": 2, "liar": 4, "tasks": 4, "places": 6}
"""Of the programs, in the jobs."""

PYTHONS: tuple[tuple[str, ...], ...] = (*((PYTHON,),) * 9, (), (PYTHON, "-u"), (PYTHON, *COLD))
ENVIRONMENTS: tuple[dict[str, str], ...] = (*({},) * 8, {"LANGUAGE": "eo"}, {SWITCH: "0"})
"""How programs of places are started, and in what: only like ones are forked from one process."""

STATES = (
    resizing.OFFERED, resizing.WITHDRAWN, resizing.CROSSED, resizing.ACCEPTED, resizing.RECALLED,
)  # fmt: skip
RARE, AMBUSHES = (resizing.CROSSED, resizing.RECALLED), 8
"""States in which more lies in wait, so that each of them meets each fault."""
SEEKING = ("lose-member", "cut-places", "take-away", "end-all", "kill-in-fence")
"""Faults that are tried on each job that comes to the state for which they wait, until one can meet them."""
FEW = 1
"""So many more in the others."""
WEIGHTS = {
    "break-policy": 0.4, "kill-head": 0.5, "order": 3.0, "end-all": 0.15, "lose-node": 0.5, "kill-head-twice": 0.5,
    "agent-while-down": 0.5, "node-while-down": 0.5, "rank-while-down": 0.5, "early-agent-while-down": 0.5,
}  # fmt: skip
"""How often a fault comes, where not as often as others: after some there is less to see."""
SELDOM = (
    ("break-policy", 0.1, (resizing.WITHDRAWN, resizing.CROSSED, resizing.ACCEPTED, resizing.RECALLED)),
    ("lose-member", 0.4, STATES), ("lose-member", 0.6, RARE), ("lose-member", 1.0, (resizing.RECALLED,) * 2),
    ("cut-places", 0.4, STATES), ("cut-places", 0.6, RARE), ("cut-places", 1.0, (resizing.RECALLED,) * 2),
    ("take-away", 0.2, STATES), ("take-away", 0.4, RARE),
    ("end-all", 0.03, STATES), ("end-all", 0.12, RARE), ("end-all", 0.06, (resizing.WITHDRAWN,)),
    ("kill-in-fence", 0.15, (resizing.ACCEPTED,)), ("kill-in-fence", 0.9, (resizing.RECALLED,)),
    ("lose-reserved", 0.6, (resizing.RECALLED,)),
)  # fmt: skip
"""Faults that few jobs can meet in a resize, or that come once in a world: with which chance one more lies in wait, for
each of these states."""
NO_JOB, ERRS = 1 << 30, 0.7
"""The share of broken policies that decide what cannot be, where others raise or do nothing."""
OWN_BOUNDS, ODD_CALLS = 0.06, 0.15
"""The shares of malleable programs that state bounds of their own, and of rigid ones that make odd calls."""
WAKES = 0.1
"""The share of passes in which a policy asks to be woken."""
MOST_CARDS = 6
"""Of a job on more nodes the ranks put no long values: all nodes get those of all."""


class Breakable:
    """A policy that raises, or does nothing, from a certain moment on, and now and then asks to be woken: ``alarm`` is
    when, if it does."""

    def __init__(self, policy: Policy, random: Random) -> None:
        self.name = policy.name
        self.rebalances = bool(getattr(policy, "rebalances", False))
        self.half_life_s = float(getattr(policy, "half_life_s", 0.0))
        self.broken = False
        self.alarm: float | None = None
        self.asked = 0
        self.asked_at = 0.0
        self.nonsense = ""
        """What it has decided that cannot be; nothing while that is not noticed."""
        self._random, self._idles = random, random.random() < 0.3
        self._errs = random.random() < ERRS
        self._policy = policy

    def begin_again(self) -> None:
        """As in the next controller's process: nothing is known but what is in the view."""
        self._policy = make(self.name)
        self.alarm, self.nonsense = None, ""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        self.asked += 1
        self.asked_at = view.now
        if self.alarm is not None and view.now >= self.alarm:
            self.alarm = None
        if self.broken and self._idles:
            return []
        if self.broken and self._errs and (wrong := self._wrong(view)):
            self.nonsense = str(wrong)
            return [wrong]
        if self.broken:
            raise ZeroDivisionError("the policy has a bug")
        decisions = list(self._policy.decide(view))
        if self._random.random() < WAKES:
            decisions.append(Wake(view.now + self._random.choice([0.1, 3.0, 20.0])))
        # Only the earliest counts, whoever of the two has asked for it.
        asked = [each.at for each in decisions if isinstance(each, Wake) and each.at > view.now]
        self.alarm = min([*asked, *([] if self.alarm is None else [self.alarm])], default=None)
        return decisions

    def _wrong(self, view: ClusterView) -> Decision | None:
        """Something that cannot be decided now."""
        reason, queue = Reason("wrong"), [*view.queue]
        wrong: list[Decision] = [Start(NO_JOB, 1, reason), Remember({"what JSON has not": 1j})]
        for _, number, job in view.running:
            wrong += [Start(number, job.size, reason), Resize(number, job.bounds.max + 1, reason)]
            if view.resizable(job, grow=True) and job.bounds.max > job.size + view.free:
                wrong.append(Resize(number, job.bounds.max, reason))
        for job in queue:
            wrong.append(Start(job.id, job.bounds.max + 1, reason))
            if job.bounds.max > view.free:
                wrong.append(Start(job.id, job.bounds.max, reason))
        return self._random.choice(wrong)


def draw_grace(seed: int) -> float:
    """How many seconds agents outlive their controller, in half of the worlds 0. Nothing else hangs on this draw."""
    random = Random(f"grace {seed}")  # noqa: S311 - seeded on purpose
    return random.choice([0.0, random.choice([5.0, 30.0, 120.0])])


def draw_policy(random: Random) -> Breakable:
    policy = make(random.choice([*POLICIES, *(name for name in ELASTIC for _ in range(6))]))
    return Breakable(policy, Random(random.random()))  # noqa: S311 - seeded on purpose


def draw_settings(random: Random) -> Settings:
    cooldown_s, decline_backoff_s = random.choice([0.0, 1.0]), random.choice([0.5, 5.0])
    offer_deadline_s, resize_deadline_s = random.choice([2.0, 20.0]), random.choice([5.0, 30.0])
    kill_grace_s, interval_s = random.choice([0.5, 5.0]), random.choice([0.0, 0.0, 0.0, 0.5, 2.0])
    stated = ClusterSpec(
        cooldown_s=cooldown_s, resize_deadline_s=resize_deadline_s, pass_interval_s=interval_s
    )
    return structs.replace(
        batch_settings(stated),
        decline_backoff_s=decline_backoff_s,
        offer_deadline_s=offer_deadline_s,
        kill_grace_s=kill_grace_s,
    )


def draw_jobs(random: Random, nodes: int, *, large: bool) -> tuple[JobSpec, ...]:
    count = 20 if large else random.randint(10, random.choice([14, 20, 40, 200]))
    jobs = []
    at = 1.0
    for i in range(count):
        at += random.expovariate(1.0 / random.choice([0.1, 1.0, 4.0]))
        jobs.append(_job(random, f"j{i}", nodes, at))
    return tuple(jobs)


def _job(random: Random, name: str, nodes: int, at: float) -> JobSpec:
    what = random.choices(list(SHARES), list(SHARES.values()))[0]
    elastic = what not in ("rigid", "tasks")
    most = min(nodes, random.choice([2 if elastic else 1, 2, 4, 8, 8, 64 if nodes < 500 else 256]))
    low = random.randint(1, max(1, most // random.choice([1, 2, 4, 4 if elastic else 1])))
    step_s = random.choice([0.01, 0.3, 1.0, 3.0])
    steps = random.randint(3, 60 if what == "malleable" else 40)
    words: tuple[object, ...]
    if what == "malleable":
        words = _malleable(random, steps, step_s, most)
    elif what == "rigid":
        words = (what, steps * step_s, random.choice([0] * 9 + [1]))
        if random.random() < 0.2:
            words += (f"skip={random.randrange(2)}",)
        if random.random() < 0.1 and low <= MOST_CARDS:
            words += ("cards=20",)
        if random.random() < ODD_CALLS:
            words += (f"pmi={random.choice(PMI)}",)
    elif what == "liar":
        words = (what, steps, step_s, f"lie={random.choice(LIES)}")
    elif what == "places":
        words = (*random.choice(PYTHONS), what, steps, step_s, *places.words(random))
    elif what == "tasks":
        words = (what, steps, step_s)
    else:
        words = (what, min(30.0, steps * step_s))
    words += (f"late={random.choice([0.05, 0.2, 3.0])}",)
    if random.random() < 0.15:
        words += (f"tidy={random.choice([0.3, 2.0, 60.0])}",)
    evolves = "wants=3" in words and steps % 2  # of what was drawn: a draw more would change all that follow
    return JobSpec(
        name=name,
        nodes=Bounds(low, most, random.choice([1, 1, 2])) if elastic else Bounds.exactly(low),
        job_class=(JobClass.EVOLVING if evolves else JobClass.MALLEABLE) if elastic else JobClass.RIGID,
        kind=JobKind(what) if what in set(JobKind) else JobKind.MPI,
        submit_s=at,
        command=tuple(map(str, words)),
        walltime_s=max(1.0, 2 * steps * step_s),
        # A program that breaks the protocol, or never speaks, may hang by its own fault: only that ends it.
        kill=what in ("liar", "silent", "deaf") or random.random() < 0.05,
        env=random.choice(ENVIRONMENTS) if what == "places" else {},
        requeue=True if steps % 3 == 0 else UNSET,  # without a draw, too
    )


def _malleable(random: Random, steps: int, step_s: float, most: int) -> tuple[object, ...]:
    words: tuple[object, ...] = ("malleable", steps, step_s, *_words(random, most))
    # All without a draw, so that each seed keeps its world.
    if steps % 2:
        words += ("ahead=0.5",)
    if "wants=3" in words and steps % 3 == 0:
        words += ("once=1",)
    if steps % 5 == 0:
        words += (f"rows={1 + steps % most}",)
    return words


def _words(random: Random, most: int) -> tuple[str, ...]:
    """What makes one malleable program different from another."""
    often: tuple[str, ...] = ("migrates=1",) if random.random() < 0.6 else ()
    choices = {
        "never": 0.3,
        "odd": 0.3,
        "wants": 3,
        "move": 2.0,
        "sync": 1,
        "lag": 1,
        "exit": 1,
        "deaf": 1,
    }
    more = {"hangs": 0.5, "leave": 3, "quit": 2, "stay": 1000}
    if random.random() < OWN_BOUNDS:
        low = random.randint(1, most)
        often += (f"bounds={low}:{random.randint(low, 2 * most)}",)
    return (
        *often,
        *(f"{name}={value}" for name, value in choices.items() if random.random() < 0.08),
        *(f"{name}={value}" for name, value in more.items() if random.random() < 0.04),
    )


def draw_faults(
    random: Random, names: Sequence[str], last_s: float
) -> tuple[list[tuple[float, str, int]], dict[str, list[str]]]:
    """At least five, most of them while much is going on: those with a time of their own, with how often they are
    tried again, and those that wait for a job to come to a state of a resize."""
    timed: list[tuple[float, str, int]] = []
    ambushes: dict[str, list[str]] = {state: [] for state in STATES}
    weights = [WEIGHTS.get(name, 1.0) for name in names]
    for _ in range(random.randint(5, 18) if names else 0):
        name = random.choices(names, weights)[0]
        if random.random() < 0.4:
            timed.append((random.uniform(1.0, last_s), name, 20))
        else:
            ambushes[random.choice(STATES)].append(name)
    if "order" in names:
        timed += [(random.uniform(1.0, last_s), "order", 5) for _ in range(random.randint(0, 8))]
    _lie_in_wait(random, names, ambushes)
    return timed, ambushes


def _lie_in_wait(random: Random, names: Sequence[str], ambushes: dict[str, list[str]]) -> None:
    """Add those that few jobs would meet else."""
    if often := [name for name in names if name != "lose-reserved" and name not in SEEKING]:
        for stage in STATES:
            ambushes[stage] += random.choices(often, k=AMBUSHES if stage in RARE else FEW)
    for name, chance, states in SELDOM:
        for stage in states if name in names else ():
            if chance == 1.0 or random.random() < chance:
                ambushes[stage].append(name)
    if "lose-reserved" in names:
        # Without these a resize is hardly ever taken back.
        for stage in (resizing.OFFERED, resizing.ACCEPTED):
            ambushes[stage] += ["lose-reserved"] * random.randint(0, 1 + (stage == resizing.ACCEPTED))


def draw_slots(random: Random, state: State, job: ScheduledJob) -> o.Resize:
    """An order for how many ranks are to be awake on some nodes: mostly of the job, and mostly as many as can be."""
    nodes = list(dict.fromkeys(state.groups(job).values()))
    chosen = random.sample(nodes, random.randint(1, min(3, len(nodes))))
    if random.random() < 0.1:
        chosen.append(random.choice(list(NodeSet(state.nodes.all_mask))))
    low, high = (0, 1) if random.random() < 0.1 else (1, 0)
    slots = {node: random.randint(low, state.nodes.slots.get(node, 1) + high) for node in chosen}
    return o.Resize(job.id, 0, slots={state.nodes.names[node]: count for node, count in slots.items()})

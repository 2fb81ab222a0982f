"""What a seed makes of a world: its jobs, its policy and how patient its scheduler is."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.kinds import JobKind
from pliant.policy.registry import POLICIES, make
from pliant.policy.view import ClusterView, Decision, Policy
from pliant.testing.programs import LIES

ELASTIC = ("malleable", "marginal", "equipartition", "average-agreement", "min-agreement", "dmr-wide")
"""Policies that resize much, and are drawn more often for it."""
SHARES = {"malleable": 12, "rigid": 5, "silent": 1, "deaf": 1, "liar": 2, "tasks": 2, "places": 3}
"""Of the programs, in the jobs."""


class Breakable:
    """A policy that raises from a certain moment on."""

    def __init__(self, policy: Policy) -> None:
        self.name = policy.name
        self.rebalances = bool(getattr(policy, "rebalances", False))
        self.half_life_s = float(getattr(policy, "half_life_s", 0.0))
        self.broken = False
        self._policy = policy

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        if self.broken:
            raise ZeroDivisionError("the policy has a bug")
        return self._policy.decide(view)


def draw_grace(seed: int) -> float:
    """How many seconds agents outlive their controller, in half of the worlds 0. Nothing else of a world hangs on it."""
    random = Random(f"grace {seed}")  # noqa: S311 - seeded on purpose
    return random.choice([0.0, random.choice([5.0, 30.0, 120.0])])


def draw_policy(random: Random) -> Breakable:
    return Breakable(make(random.choice([*POLICIES, *(name for name in ELASTIC for _ in range(4))])))


def draw_settings(random: Random) -> Settings:
    return Settings(
        cooldown_s=random.choice([0.0, 1.0]),
        decline_backoff_s=random.choice([0.5, 5.0]),
        offer_deadline_s=random.choice([2.0, 20.0]),
        resize_deadline_s=random.choice([5.0, 30.0]),
        kill_grace_s=random.choice([0.5, 5.0]),
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
    most = min(nodes, random.choice([1, 2, 4, 8, 8, 64 if nodes < 500 else 256]))
    low = random.randint(1, max(1, most // random.choice([1, 2, 4])))
    what = random.choices(list(SHARES), list(SHARES.values()))[0]
    step_s = random.choice([0.01, 0.3, 1.0, 3.0])
    steps = random.randint(3, 40)
    words: tuple[object, ...]
    if what == "malleable":
        words = (what, steps, step_s, *_words(random))
    elif what == "rigid":
        words = (what, steps * step_s, random.choice([0] * 9 + [1]))
    elif what == "liar":
        words = (what, steps, step_s, f"lie={random.choice(LIES)}")
    elif what in ("tasks", "places"):
        words = (what, steps, step_s)
    else:
        words = (what, min(30.0, steps * step_s))
    words += (f"late={random.choice([0.05, 0.2, 3.0])}",)
    elastic = what not in ("rigid", "tasks")
    return JobSpec(
        name=name,
        nodes=Bounds(low, most, random.choice([1, 1, 2])) if elastic else Bounds.exactly(low),
        job_class=JobClass.MALLEABLE if elastic else JobClass.RIGID,
        kind=JobKind(what) if what in set(JobKind) else JobKind.MPI,
        submit_s=at,
        command=tuple(map(str, words)),
        walltime_s=max(1.0, 2 * steps * step_s),
        # A program that breaks the protocol, or never speaks, may hang by its own fault: only that ends it.
        kill=what in ("liar", "silent", "deaf") or random.random() < 0.05,
    )


def _words(random: Random) -> tuple[str, ...]:
    """What makes one malleable program different from another."""
    choices = {
        "never": 0.3,
        "odd": 0.3,
        "wants": 5,
        "move": 2.0,
        "sync": 1,
        "lag": 1,
        "exit": 1,
        "deaf": 1,
    }
    more = {"leave": 3, "quit": 2, "stay": 1000}
    return (
        *(f"{name}={value}" for name, value in choices.items() if random.random() < 0.08),
        *(f"{name}={value}" for name, value in more.items() if random.random() < 0.04),
    )

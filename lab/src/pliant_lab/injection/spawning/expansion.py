"""One expansion by MPI_Comm_spawn, drawn from a seed with what goes wrong in it, and what must hold at its end."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

from pliant.job.errors import FEW_DESCRIPTORS
from pliant.job.spawning import messages as m
from pliant.job.spawning import sources, starter
from pliant.job.spawning.spawn_tree import patience
from pliant.plan.spawn import SOURCES, Method, SpawnPlan, Strategy, spawn_plan
from pliant.protocol.phases import Phase
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.spawning.fabric import Fabric
from pliant_lab.injection.spawning.faults import SOUND, Ill, Ills, draw, draw_own
from pliant_lab.injection.spawning.processes import Handle, Link, Proc, State, handle
from pliant_lab.injection.spawning.programs import Job

LIMIT_S = 12.0
LONGEST_S = 40 * LIMIT_S
MOST = 200_000
STEP_S = (0.0, 0.0, 0.0, 2.5 * LIMIT_S)
SLACK_S = 1.0
SHARE = 4
"""Expansions of each world of `injection/world.py`."""
LAST = (1, 3, 20, 400)
"""Steps that a job computes at most while newcomers start beside it."""


class Drawn(NamedTuple):
    plan: SpawnPlan
    beside: bool


def draw_plan(random: Random) -> Drawn:
    """Up to 16 processes on up to 7 nodes."""
    strategy = random.choice(
        (Strategy.SINGLE, Strategy.SEQUENTIAL, Strategy.HYPERCUBE, *2 * (Strategy.DIFFUSIVE,))
    )
    method = random.choice((Method.MERGE, Method.MERGE, Method.BASELINE))
    beside = random.random() < 0.3
    nodes = random.randint(2, 7)
    size = random.randint(1, 2)
    cores = [size] * nodes
    if strategy is not Strategy.HYPERCUBE and random.random() < 0.6:
        cores = [random.choice((1, 1, 2, 3)) for _ in range(nodes)]
    before = random.randint(1, max(1, nodes // 2))
    running = [count if node < before else 0 for node, count in enumerate(cores)]
    if random.random() < 0.3 and strategy is not Strategy.HYPERCUBE:
        running[before - 1] = 1
    one = beside or random.random() < 0.3
    return Drawn(spawn_plan(cores, running, method, strategy, one=one), beside)


class Verdict(NamedTuple):
    """``how``: expanded, stayed, ended, or stands, as a rank of the job does. ``broken``: the kind of violation, empty
    if none."""

    seed: int
    how: str
    faults: tuple[str, ...]
    broken: str
    what: str
    story: list[str]


def expansions(seed: int, story: list[str] | None = None, *, disturbed: bool = True) -> Counter[str]:
    """Some of a world with this seed: how many have expanded their job, left it as it was, or ended it. Violation for
    the first that breaks, whose story is added to ``story``."""
    how: Counter[str] = Counter()
    for number in range(SHARE * seed, SHARE * (seed + 1)):
        verdict = expansion(number, disturbed=disturbed, telling=story is not None)
        if verdict.broken:
            if story is not None:
                story += verdict.story
            raise Violation(verdict.broken, f"expansion {number} by spawning: {verdict.what}")
        how[verdict.how] += 1
    return how


def expansion(seed: int, *, disturbed: bool = True, telling: bool = False) -> Verdict:
    random = Random(f"spawning {seed}")  # noqa: S311 - to be repeated
    drawn, ills = draw_plan(random), SOUND
    if disturbed:
        ills = draw(random, tuple(call.size for call in drawn.plan.calls), LIMIT_S)
        others = Random(f"spawning {seed}, own ranks")  # noqa: S311
        own = draw_own(others, drawn.plan.sources, beside=drawn.beside, limit_s=LIMIT_S)
        ills = ills._replace(marked=ills.marked | own)
    return judged(seed, random, drawn, ills, telling=telling)


def judged(seed: int, random: Random, drawn: Drawn, ills: Ills, *, telling: bool = False) -> Verdict:
    """This expansion with these faults; ``random`` draws how long all takes, and ``seed`` names it."""
    world = Expansion(random, drawn, ills, telling=telling)
    broken, what = "", ""
    try:
        world.run()
    except Violation as found:
        broken, what = found.kind, f"{found}"
    faults = tuple(_named(ill, proc) for ill, proc, _ in world.fabric.hits)
    return Verdict(seed, world.how, faults, broken, what, world.story)


def _named(ill: Ill, proc: Proc | None) -> str:
    if proc is None or not proc.was_there:
        return ill.kind
    return f"{ill.kind} {'starter' if proc.is_starter else 'source'}"


class Expansion:
    """``how`` it has gone is known when it has run."""

    def __init__(self, random: Random, drawn: Drawn, ills: Ills, *, telling: bool) -> None:
        (self.plan, self.beside), self.ills = drawn, ills
        self.story: list[str] = []
        self.how = ""
        story = self.story.append if telling else lambda _: None
        self.fabric = Fabric(random, LIMIT_S, self.ills, story)
        hosts = tuple(f"n{node}" for node in range(len(self.plan.cores)))
        briefing = sources.brief(self.plan, ("program",), hosts, 1)
        early = random.random() < 0.4
        last, step_s = random.choice(LAST), random.choice(STEP_S)
        self.job = Job(self.plan, briefing, lambda: self.fabric.clock.now, last, early, step_s)
        self.fabric.newcomer = self.job.newcomer  # type: ignore[assignment]
        story(f"{self.plan} beside={self.beside} {self.ills}")

    def run(self) -> None:
        fabric, plan = self.fabric, self.plan
        hosts = [f"n{node}" for node, count in enumerate(plan.running) for _ in range(count)]
        self.sources = fabric.world(hosts, SOURCES)
        own = Link((self.sources,))
        if self.beside:
            self._starter()
        for proc in self.sources:
            fabric.begin(proc, self.job.source(proc, handle(own, proc)))  # type: ignore[arg-type]
        while fabric.ended is None and fabric.clock.step(LONGEST_S + self.job.computes_s):
            if fabric.clock.happened > MOST:
                raise Violation("stuck", f"not over after {MOST} things that happened: {self._waits()}")
        self._judge()

    def _starter(self) -> None:
        root = self.sources[0]
        proc = Proc(SOURCES, 0, root.host, is_starter=True)
        proc.own = Link(((proc,),))
        self.fabric.procs.append(proc)
        between = proc.parent = Link(((root,), (proc,)))
        self.job.starter = handle(between, root)
        self.fabric.begin(proc, starter.serve(handle(between, proc), self.job.now))

    # ---- what must hold -----------------------------------------------------------------------------

    def _judge(self) -> None:
        ended = self.fabric.ended
        if ended is not None and ended.failed:
            self.how = "ended"
            self._excused(ended.text)
            self._ended_in_time()
            return
        if ended is None and any(proc.state is State.STANDS for proc in self.sources):
            self.how = "stands"
            self._stands()
            return
        if ended is None:
            if waits := [proc for proc in self.sources if proc.state is not State.GONE]:
                raise Violation("stuck", f"{waits[0]} has not ended: {self._waits()}")
            if rest := [
                proc for proc in self.fabric.procs if proc.state is not State.GONE and not proc.unheard
            ]:
                raise Violation("leaked", f"the job has ended, and {rest[0]} is there still: {self._waits()}")
        self._of_one_mind()
        kept = [port.owner for port in self.fabric.open_ports()]
        if kept := [owner for owner in kept if self.how == "expanded" or owner.world == SOURCES]:
            raise Violation("leaked", f"{kept[0]} leaves a port open")
        if (
            self.job.late
            and {ill.kind for ill, _, _ in self.fabric.hits} == {"refused"}
            and not self.ills.late_words_s
        ):
            raise Violation(
                "leaked", "some of those who were called off have not gone, and nobody stands still"
            )

    def _waits(self) -> str:
        return "; ".join(
            f"{proc} {proc.state}, for {proc.waiting.what if proc.waiting else 'nothing'}"
            for proc in self.fabric.procs
            if proc.state is not State.GONE
        )

    def _stands(self) -> None:
        """A rank of the job stands still, and who waits for it in the resize has not ended the job: it is alone, or the
        resize is over for all others. Who is called off may wait until the job ends, and so may newcomers beside a job
        that has not stopped for them yet."""
        patient_for = ["those below to go", "leaving"]
        if self.beside and not any(Phase.SYNCHRONISE in proc.at for proc in self.sources):
            patient_for.append("the sources to come")
        for proc in self.fabric.procs:
            if proc.state is not State.RUNS or proc.phase is None or proc.waiting is None:
                continue
            patient = proc.waiting.what in patient_for or len(self.sources) == 1
            if not patient or proc.waiting.timer is not None:
                raise Violation("stuck", f"{proc} waits in phase {proc.phase} for ever: {self._waits()}")

    def _ended_in_time(self) -> None:
        """Where a process that was there stands still the others notice it, one after the other at worst."""
        for ill, proc, _ in self.fabric.hits:
            if proc is None or not proc.was_there or ill.kind != "stand":
                continue
            waited, longest = (
                self.fabric.clock.now - proc.struck,
                (patience(self.plan) + 2) * LIMIT_S + SLACK_S,
            )
            if waited > longest:
                raise Violation(
                    "stuck", f"the job has ended {waited:.1f} s after {proc}, {longest:g} s at most"
                )

    def _excused(self, text: str) -> None:
        """The job has ended: where docs/resizing.md says so, and nowhere else."""
        if sum(ill.seconds for ill, proc, _ in self.fabric.hits if self._delays(ill, proc)) > 0.9 * LIMIT_S:
            return
        for ill, proc, there in self.fabric.hits:
            if ill.kind in ("die", "silent"):
                return
            if proc is not None and proc.was_there and self._costs_the_job(ill, proc):
                return
            if ill.kind in ("stand", "raise", "slow") and there:
                return
            if ill.kind == "raise" and proc is not None and proc.in_loop:
                return
        raise Violation("lost", f"the job has ended: {text}")

    @staticmethod
    def _delays(ill: Ill, proc: Proc | None) -> bool:
        """What is slow in a call that blocks in MPI, where one wait may meet a slow source and a slow start. The
        process that starts others is waited for in none before it has begun to say that all are there."""
        if ill.kind == "slow start":
            return True
        return (
            ill.kind == "slow" and proc is not None and proc.was_there and (proc.there or not proc.is_starter)
        )

    @staticmethod
    def _costs_the_job(ill: Ill, proc: Proc) -> bool:
        """What ends a rank of the job, or has it stand still, or the process that starts others beside it."""
        if ill.kind == "slow":
            return False
        return ill.kind == "raise" or proc.there or not proc.is_starter

    def _of_one_mind(self) -> None:
        results = [self.job.results.get(proc) for proc in self.sources]
        grown = [each for each in results if isinstance(each, sources.Expanded)]
        if grown and len(grown) < len(results):
            raise Violation("wrong", f"{len(grown)} of {len(results)} sources have expanded")
        if grown:
            self.how = "expanded"
            self._as_planned(grown)
            return
        self.how = "stayed"
        if self.fabric.failures:
            raise Violation(
                "wrong", f"the job stays as it is, and a newcomer does not just go: {self.fabric.failures}"
            )
        if joined := [proc for proc, each in self.job.results.items() if isinstance(each, sources.Expanded)]:
            raise Violation("wrong", f"the job stays as it is, and {joined[0]} has joined it")
        said = {str(each) for each in results}
        if len(said) > 1:
            raise Violation("wrong", f"the sources say differently why they stay: {said}")
        if said == {"None"} and not (self.beside and self.job.ends_early):
            raise Violation("wrong", "nothing has come of the expansion, and nothing is said of it")
        if said != {"None"}:
            self._why(said.pop())
            self._in_time()

    def _in_time(self) -> None:
        """It goes on after half of the deadline, where it does not wait for what other sources start."""
        at = self.sources[0].at
        if any(proc is not None and proc.was_there for _, proc, _ in self.fabric.hits):
            return
        if self.beside or Phase.SYNCHRONISE not in at or not (self.plan.one or len(self.sources) == 1):
            return
        if (waited := at[None] - at[Phase.SYNCHRONISE]) > LIMIT_S / 2 + SLACK_S:
            raise Violation(
                "stuck", f"the job goes on after {waited:.1f} s, and half its deadline is {LIMIT_S / 2:g} s"
            )

    def _why(self, text: str) -> None:
        """There was something, and it is what is said."""
        ills = self.ills
        kinds = {ill.kind for ill, _, _ in self.fabric.hits}
        if not ills.program:
            right = "there is no program 'program'" in text
        elif not ills.descriptors:
            right = FEW_DESCRIPTORS in text
        elif "says nothing" in text:
            right = any(proc is not None and proc.is_starter for _, proc, _ in self.fabric.hits)
        elif "refused" in kinds:
            right = "no descriptor is free" in text or "not all of the groups" in text
        else:
            right = bool(kinds or ills.late_words_s) and "not all of the groups" in text
        if not right:
            raise Violation("wrong", f"the job has met {kinds or 'nothing'}, and says: {text}")
        if "not all of" in text and "in the phase synchronise of a resize" not in text:
            raise Violation("wrong", f"it failed in {Phase.SYNCHRONISE}, and says: {text}")

    def _as_planned(self, grown: list[sources.Expanded]) -> None:
        """As tests/live/test_spawning.py asks of what has really come up."""
        plan, fabric = self.plan, self.fabric
        planned = [(f"n{g.node}", rank) for g in plan.groups for rank in range(g.size)]
        if plan.strategy is Strategy.SINGLE:
            planned = [(host, rank) for rank, (host, _) in enumerate(planned)]
        targets: list[Proc] = []
        if plan.method is Method.MERGE:
            planned = [(proc.host, proc.rank) for proc in self.sources] + planned
            targets += self.sources
        targets += [proc for proc in fabric.procs if proc.world >= 0]
        links: list[Link] = []
        for proc in targets:
            expanded = self.job.results.get(proc)
            if not isinstance(expanded, sources.Expanded) or not isinstance(expanded.comm, Handle):
                raise Violation("wrong", f"{proc} has not joined the job: {expanded}")
            links.append(expanded.comm.link)
        if any(link is not links[0] for link in links):
            raise Violation("wrong", "those who have joined are in different communicators")
        if (order := [(proc.host, proc.rank) for proc in links[0].procs]) != planned:
            raise Violation("wrong", f"the ranks are {order}, and {planned} was planned")
        trace = tuple(
            m.Started(g.id, g.step, g.parent_group, g.parent_rank, f"n{g.node}", g.size) for g in plan.groups
        )
        if self.job.results[self.sources[0]].trace != trace:  # type: ignore[union-attr]
            raise Violation("wrong", f"the trace is {grown[0].trace}, and {trace} was planned")
        self._phases()

    def _phases(self) -> None:
        """The root has come to all of them, in their order."""
        reached = [phase for phase in self.sources[0].reached if phase is not None]
        order = [Phase.PREPARE, Phase.START, Phase.SYNCHRONISE, Phase.CONNECT, Phase.MERGE]
        if not self.plan.by_port:
            order.remove(Phase.CONNECT)
        if self.beside:
            order.remove(Phase.START)
        if Phase.MERGE in reached:
            reached = reached[: reached.index(Phase.MERGE) + 1]
        once = [
            phase for number, phase in enumerate(reached) if not number or phase is not reached[number - 1]
        ]
        if once != order:
            raise Violation("wrong", f"the root has come to {once}, and {order} are the phases")

"""The helpers of an agent of the world: what ``launch/warming.py`` and ``launch/warm.py`` do, with all that can go
wrong there. And a second opinion on what the agent makes of them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Protocol

from pliant.live.node import messages as n
from pliant.live.node.warmth import IDLE_S, READY_S, TRIES, WARM
from pliant.protocol import messages as m
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.standins.process import SIGKILL, AgentView, Proc
from pliant_lab.injection.standins.running import PYTHON

IMPORTS_S = (0.1, 2.0)
"""How long it takes until a helper is ready: at least, and at most."""
ANSWER_S = 3.0
"""So long an agent waits for a fork; then it kills the helper and executes the rank."""
REFUSED = 0.1
"""The share of orders that a sound helper refuses: what is ordered is too long, say."""
LATE_S = 0.1
OURS = "PLIANT_"
SOUND = "sound"
ILLS = (SOUND,) * 12 + ("none", "killed", "never ready", "ready too late", "dies at an order", "answers late")
"""What is wrong with a helper: it cannot be started, it is killed at some time, it is never ready or much too late, it
dies when it is asked for a rank, or it answers when nobody waits for it any more."""
COLD = ("-i",)
"""An option of Python with which nothing is forked."""


class Spawning(Protocol):
    def __call__(self, order: n.Spawn, *, warm: bool) -> None: ...


class Likeness(NamedTuple):
    """What a helper and a rank have in common where the one may be forked from the other."""

    interpreter: tuple[str, ...]
    modules: tuple[str, ...]
    without: tuple[str, ...]
    cwd: str
    env: frozenset[tuple[str, str]]


def likeness(order: n.Spawn | n.StartHelper) -> Likeness:
    words = order.argv if isinstance(order, n.Spawn) else order.interpreter
    count = next((i for i, word in enumerate(words[1:], 1) if not word.startswith("-")), len(words))
    env = frozenset(each for each in order.env.items() if not each[0].startswith((OURS, *order.without)))
    return Likeness(words[:count], order.modules, order.without, order.cwd, env)


class Helper:
    """A warm process, from its order on."""

    def __init__(self, order: n.StartHelper, ill: str) -> None:
        self.like = likeness(order)
        self.ill = ill
        self.proc: Proc | None = None
        self.ready = False
        self.due = 0.0
        """By then it is ready, or ended."""

    @property
    def lives(self) -> bool:
        return self.proc is not None and self.proc.alive and not self.proc.dying


class Helpers:
    """A part of an agent's shell. ``current`` is the warm process as the agent has to see it."""

    def __init__(self, agent: AgentView, *, warm: bool) -> None:
        self.current: Helper | None = None
        self.forked = 0
        self._agent = agent
        self._warm = warm
        self._own: Proc | None = None
        self._last: tuple[int, int, Likeness] | None = None
        """The group that was started last of those that could have been forked, until it has said hello."""
        self._failed = Counter[Likeness]()
        """How often one was not even ready, in a row."""
        self._ended: set[Likeness] = set()
        """Of these one has ended by itself."""

    def begin(self) -> None:
        """A helper of another kind is there from the start."""
        self._own = self._new()
        self._agent.tell(n.HelperStarted(self._own.pid, "another helper"))

    def _new(self) -> Proc:
        proc = self._agent.node.new_process(0, 0, -1)
        proc.helps = True
        return proc

    # ---- what the agent orders -----------------------------------------------------------------------

    def start(self, order: n.StartHelper) -> None:
        agent, clock, random = self._agent, self._agent.node.clock, self._agent.node.random
        if not self._warm or (self.current is not None and self.current.lives):
            raise Violation("wrong", f"{agent.node.name} starts a warm process, and has one, or must not")
        ledger = agent.node.outside.ledger
        refused = ledger.hung_s(agent.node.name) or ledger.refuses(agent.node.name)
        self.current = helper = Helper(order, "none" if refused else random.choice(ILLS))
        if self._failed[helper.like] >= TRIES:
            raise Violation("stuck", f"{agent.node.name} starts a warm process that has never been ready")
        helper.due = clock.now + READY_S
        if helper.ill == "none":
            self._fail(helper)
            agent.tell(n.HelperFailed(WARM))
            return
        helper.proc = proc = self._new()
        agent.tell(n.HelperStarted(proc.pid, WARM))
        if helper.ill == "killed":
            proc.later(random.uniform(0.0, random.choice([5.0, 100.0])), lambda: proc.end(-SIGKILL))
        if helper.ill != "never ready":
            late_s = READY_S if helper.ill == "ready too late" else 0.0
            clock.later(late_s + random.uniform(*IMPORTS_S), lambda: self._imported(helper, proc))

    def _imported(self, helper: Helper, proc: Proc) -> None:
        """It says so; that may be read when it has been killed."""
        if not self._agent.lives or not proc.alive:
            return
        if helper is self.current:
            helper.ready = True
            helper.due = self._agent.node.clock.now + IDLE_S
            self._failed[helper.like] = 0
        self._agent.tell(n.HelperReady(proc.pid))

    def ordered(self, order: n.Spawn) -> None:
        """A rank is to be started: by the warm process if, and only if, there is one like it."""
        helper, name = self.current, self._agent.node.name
        like = likeness(order)
        python = self._warm and order.modules and like.interpreter[0] == PYTHON
        python = python and not set(COLD) & set(like.interpreter)
        fits = helper is not None and helper.ready and python and helper.like == like
        pid = helper.proc.pid if fits and helper is not None and helper.proc is not None else 0
        if order.env.get("PLIANT_WARM") == "0":
            pid = 0
        elif python:
            self._last = order.job, order.group, like
        if order.helper != pid:
            what = f"rank {order.rank} of group {order.group} of job {order.job}"
            raise Violation("wrong", f"{name} has {what} forked by {order.helper}, and {pid} is like it")
        if pid and helper is not None:
            helper.due = self._agent.node.clock.now + IDLE_S

    def fork(self, order: n.Spawn, spawn: Spawning) -> None:
        """Start a rank; what cannot be forked is executed, once."""
        helper, agent, random = self.current, self._agent, self._agent.node.random
        proc = helper.proc if helper is not None and helper.lives else None
        if helper is None or proc is None or proc.pid != order.helper:
            spawn(order, warm=False)
            return
        match helper.ill:
            case "dies at an order":
                proc.end(-SIGKILL)
                spawn(order, warm=False)
            case "answers late":
                # It is killed when nobody waits any more, and what it was about to fork with it.
                proc.kill()
                agent.node.clock.later(random.uniform(0.0, ANSWER_S), lambda: spawn(order, warm=False))
            case _:
                warm = random.random() >= REFUSED
                self.forked += warm
                spawn(order, warm=warm)

    def killed(self, pids: tuple[int, ...]) -> None:
        """The agent kills these: its warm process only when it wants none like it any more."""
        helper = self.current
        if helper is None or helper.proc is None or helper.proc.pid not in pids:
            return
        if WARM in self._agent.timers:
            raise Violation("lost", f"{self._agent.node.name} kills the warm process that it counts on")
        self.current = None

    # ---- what the agent is told, and tells -----------------------------------------------------------

    def reaped(self, pid: int) -> None:
        helper = self.current
        if helper is not None and helper.proc is not None and helper.proc.pid == pid:
            self._fail(helper)

    def fired(self, key: str) -> None:
        """It is not ready in time, or has not been wanted for long: the agent kills it."""
        if key == WARM and (helper := self.current) is not None:
            if not helper.ready:
                self._fail(helper)
            helper.ready = False

    def _fail(self, helper: Helper) -> None:
        """It has ended by itself, or is of no use."""
        self._ended.add(helper.like)
        self._failed[helper.like] += not helper.ready
        helper.ready = False
        if not helper.lives:
            self.current = None

    def told(self, message: m.AgentMessage) -> None:
        """A group has come up cold that could have been forked: from then on there is a process like it."""
        if (
            self._last is None
            or not isinstance(message, m.Relay)
            or b'"hello"' not in bytes(message.message)[:20]
        ):
            return
        job, group, like = self._last
        if (message.job, message.group) != (job, group):
            return
        self._last = None
        self._agent.node.clock.later(0.0, lambda: self._is_there(like))

    def _is_there(self, like: Likeness) -> None:
        agent, helper = self._agent, self.current
        if not agent.lives or agent.is_ending or like in self._ended or self._last is not None:
            return
        if helper is None or helper.like != like:
            raise Violation(
                "lost", f"{agent.node.name} starts no warm process like the group that has come up"
            )

    def look(self) -> None:
        """None outlives its use."""
        helper, agent = self.current, self._agent
        if helper is not None and helper.lives and agent.node.clock.now > helper.due + LATE_S:
            raise Violation("stuck", f"{agent.node.name} has a warm process that nobody wants")

    def idle(self) -> None:
        self.look()
        if self._own is not None and not self._own.alive:
            raise Violation(
                "lost", f"the helper of {self._agent.node.name} is gone, and nothing has ended it"
            )

"""When a node's next Python program may be forked from a process that has imported already what it needs.

There is one such warm process a node. It is the agent's child and no part of any job: it is started when a group has
come up cold whose command it could have started, serves the groups that are ordered with the same interpreter,
environment, directory and modules, and ends when another one is wanted, when nobody has wanted it for long, or with the
agent. Nobody waits for it, and whatever goes wrong with it, the next group is started cold.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from pliant.live.node import messages as n
from pliant.live.node.pmix import SEGMENTS
from pliant.live.node.register import HELPER, NODE, RUN, Register
from pliant.protocol import messages as m

WARM = "warm"
"""The helper's name, and its timer's."""
SWITCH = "PLIANT_WARM"
"""The variable that turns it off: 0, in the agent's environment or in the job's."""
READY_S = 60.0
"""How long the imports may take."""
IDLE_S = 300.0
TRIES = 2
"""How often a process with one key may end by itself before there is none any more."""
KEYS = 32
"""How many keys are remembered as hopeless."""
PYTHON = re.compile(r"(.*/)?python(3(\.\d+)?)?")
OPTIONS = frozenset({"-u", "-B", "-O", "-OO", "-s", "-P", "-E", "-I", "-q"})
"""Of an interpreter that is started with the same ones. With any other it is started cold."""
OURS = "PLIANT_"
"""What begins so differs from group to group, and nothing reads it while it is imported."""


class Key(NamedTuple):
    """What a warm process and a program have to have in common. ``env`` is what goes over the agent's own environment,
    without what belongs to one rank."""

    interpreter: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    defaults: tuple[tuple[str, str], ...]
    without: tuple[str, ...]
    cwd: str
    modules: tuple[str, ...]


def interpreter_of(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command's Python with its options, () if it is none or cannot be forked."""
    if not PYTHON.fullmatch(argv[0]):
        return ()
    for number, word in enumerate(argv[1:], 1):
        if word in OPTIONS:
            continue
        has_more = len(argv) > number + 1
        return argv[:number] if not word.startswith("-") or (word in {"-m", "-c"} and has_more) else ()
    return ()


def key_of(spawn: n.Spawn) -> Key | None:
    """What a process has to be like that can start this; None if it is to be started cold."""
    interpreter = interpreter_of(spawn.argv)
    if not spawn.modules or not interpreter or spawn.env.get(SWITCH) == "0":
        return None
    own = (OURS, *spawn.without, SEGMENTS)
    env = tuple(sorted(each for each in spawn.env.items() if not each[0].startswith(own)))
    return Key(interpreter, env, tuple(spawn.defaults.items()), spawn.without, spawn.cwd, spawn.modules)


class Warmth:
    """The life of a node's warm process."""

    def __init__(self, home: n.Home, register: Register, do: Callable[[n.AnyOutput], None]) -> None:
        self._home = home
        self._register = register
        self._do = do
        self._key: Key | None = None
        """Of the process that is there or was ordered."""
        self._pid = 0
        self._ready = False
        self._last: tuple[int, int, Key] | None = None
        """The last group that could have been started warm, until it has come up."""
        self._failures: dict[Key, int] = {}
        self._is_over = False

    def warmed(self, spawn: n.Spawn) -> n.Spawn:
        """The order to start a rank, by the warm process where there is a fitting one."""
        key = key_of(spawn) if self._home.warm else None
        if key is None:
            return spawn
        self._look()
        self._last = (spawn.job, spawn.group, key)
        if not self._ready or key != self._key:
            return spawn
        self._do(n.SetTimer(WARM, IDLE_S))
        return msgspec.structs.replace(spawn, helper=self._pid)

    def came_up(self, said: m.AgentMessage) -> None:
        """A group's session has begun, and its hello is passed on: from now on the processor is free for imports."""
        if self._is_over or not isinstance(said, m.Relay) or self._last is None:
            return
        job, group, key = self._last
        if (said.job, said.group) != (job, group):
            return
        self._last = None
        self._look()
        if key == self._key or self._failures.get(key, 0) >= TRIES:
            return
        self._drop()
        self._key = key
        env = {**dict(key.env), RUN: self._home.run, NODE: self._home.node, HELPER: WARM}
        self._do(
            n.StartHelper(WARM, key.interpreter, key.modules, env, dict(key.defaults), key.without, key.cwd)
        )
        self._do(n.SetTimer(WARM, READY_S))

    def heard(self, said: n.HelperStarted | n.HelperReady | n.HelperFailed) -> None:
        """News of a helper: of ours, or of another."""
        match said:
            case n.HelperStarted():
                self._register.helpers[said.pid] = said.name
                is_ours = said.name == WARM
                is_wanted = self._key is not None and not self._pid
                if self._is_over or (is_ours and not is_wanted):
                    self._do(n.Kill((said.pid,)))
                elif is_ours:
                    self._pid = said.pid
            case n.HelperReady() if said.pid == self._pid:
                self._ready = True
                self._do(n.SetTimer(WARM, IDLE_S))
            case n.HelperFailed() if said.name == WARM and not self._pid:
                self._failed()
            case _:
                pass

    def due(self) -> None:
        """It has had its time: to become ready, or to be wanted."""
        if not self._ready:
            self._count()
        self._drop()

    def end(self) -> None:
        """The agent is about to leave: so do its helpers."""
        self._is_over = True
        self._last = None
        self._drop(and_kill=False)
        if self._register.helpers:
            self._do(n.Kill(tuple(sorted(self._register.helpers))))

    def _look(self) -> None:
        """Whether it still lives: the register knows."""
        if self._pid and self._pid not in self._register.helpers:
            self._failed()

    def _failed(self) -> None:
        self._count()
        self._drop(and_kill=False)

    def _count(self) -> None:
        if self._key is not None:
            self._failures[self._key] = self._failures.pop(self._key, 0) + 1
            if len(self._failures) > KEYS:
                del self._failures[next(iter(self._failures))]

    def _drop(self, *, and_kill: bool = True) -> None:
        if self._key is None:
            return
        self._do(n.CancelTimer(WARM))
        if self._pid and and_kill:
            self._do(n.Kill((self._pid,)))
        self._key, self._pid, self._ready = None, 0, False

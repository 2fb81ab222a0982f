"""Drives the machine of a node's agent alone: a shell whose processes are numbers."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pliant.live.node import messages as n
from pliant.live.node.life import NodeLife
from pliant.model.world import MpiWorld
from pliant.protocol import codec
from pliant.protocol import messages as m

HOME = n.Home("n0", 4, "r1", 77, 1000, "/run/p", "/run/p/n0.sock", "/dev/shm/pliant-r1-n0")
Output = TypeVar("Output")


def start_order(
    job: int = 1,
    group: int = 0,
    sizes: tuple[int, ...] = (2,),
    part: int = 0,
    token: str = "s",
    dialect: str = "pmi1",
) -> m.StartGroup:
    world = MpiWorld(0, sizes, part)
    return m.StartGroup(job, group, world, ("prog", "x"), {"A": "b"}, "/", "/out", token, dialect)


def hello(job: int = 1, group: int = 0, token: str = "s") -> bytes:
    return codec.encode(m.Hello(job, group, 0, token, 2))


class Driver:
    """Does what the machine asks: writes tokens, starts ranks (with pids from 100 on), keeps timers and processes."""

    def __init__(self, *, starts: bool = True, orphan_grace: float = 0.0) -> None:
        self.acknowledges = not orphan_grace
        """Without a grace nothing of the channel is to be seen."""
        self._acknowledged = 0
        self.life = NodeLife(msgspec.structs.replace(HOME, orphan_grace=orphan_grace))
        self.now = 0.0
        self.out: list[n.AnyOutput] = []
        self.starts = starts
        self.next_pid = 100
        self.processes: set[int] = set()
        """Pids that a scan would find."""
        self.timers: dict[str, float] = {}
        self.put(n.Began())

    def put(self, *inputs: n.AnyInput) -> list[n.AnyOutput]:
        """Tell the machine; all that it asked because of it, answers to starts included."""
        asked: list[n.AnyOutput] = []
        queue = [list(inputs)]
        while queue:
            for output in self.life.handle(queue.pop(0), self.now):
                asked.append(output)
                queue += [[each] for each in self._carry_out(output)]
            if not queue and self.acknowledges and (acks := self._acks(asked)):
                queue.append(acks)
        if self.acknowledges:
            asked = [each for each in map(_bare, asked) if each is not None]
        self.out += asked
        return asked

    def _acks(self, asked: list[n.AnyOutput]) -> list[n.AnyInput]:
        """What has come of late is recorded at once."""
        last = max((each.number for each in asked if isinstance(each, n.Tell)), default=0)
        if last <= self._acknowledged:
            return []
        self._acknowledged = last
        return [n.LinkSaid(codec.encode(m.To(("n0",), codec.raw(m.Ack(last, last)))))]

    def _carry_out(self, output: n.AnyOutput) -> list[n.AnyInput]:
        match output:
            case n.SetTimer():
                self.timers[output.key] = self.now + output.seconds
            case n.CancelTimer():
                self.timers.pop(output.key, None)
            case n.WriteToken() if self.starts:
                return [n.TokenWritten(output.job, output.group)]
            case n.Spawn() if self.starts:
                self.next_pid += 1
                self.processes.add(self.next_pid)
                return [n.Spawned(output.job, output.group, output.rank, self.next_pid)]
        return []

    def order(self, *messages: m.ControllerMessage) -> list[n.AnyOutput]:
        lines = b"".join(codec.encode(m.To(("n0",), codec.raw(each))) for each in messages)
        return self.put(n.LinkSaid(lines))

    def pass_time(self, seconds: float) -> list[n.AnyOutput]:
        """The timers that are due by then fire in order."""
        until, asked = self.now + seconds, []
        while due := sorted((at, key) for key, at in self.timers.items() if at <= until):
            self.now, key = due[0]
            del self.timers[key]
            asked += self.put(n.TimerFired(key))
        self.now = until
        return asked

    def exit(self, pid: int, code: int = 0) -> list[n.AnyOutput]:
        self.processes.discard(pid)
        return self.put(n.Exited(pid, code, 0.5))

    def say(self, text: str, rank: int = 0, job: int = 1, group: int = 0) -> list[n.AnyOutput]:
        return self.put(n.RankSaid(job, group, rank, text.encode() + b"\n"))

    def find(self, asked: list[n.AnyOutput]) -> list[n.AnyOutput]:
        """Answer the scan that was asked for by what is there."""
        [scan] = outputs_of_kind(asked, n.Scan)
        return self.put(n.Found(scan.key, tuple(sorted(self.processes - set(scan.known)))))


def _bare(output: n.AnyOutput) -> n.AnyOutput | None:
    match output:
        case n.Tell(m.Heard()) | n.SetTimer("again") | n.CancelTimer("again"):
            return None
        case n.Tell():
            return n.Tell(output.message)
        case _:
            return output


def outputs_of_kind(outputs: list[n.AnyOutput], kind: type[Output]) -> list[Output]:
    return [each for each in outputs if isinstance(each, kind)]


def agent_messages(outputs: list[n.AnyOutput]) -> list[m.AgentMessage]:
    return [each.message for each in outputs_of_kind(outputs, n.Tell)]

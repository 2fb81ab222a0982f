"""A live cluster whose nodes and processes are imagined: the real machine of the controller and stand-ins for the
processes, on links that are slow by chance and keep their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random

import msgspec

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import Cluster, RunContext
from pliant.live.node.pmi import Asking, AtFence, PmiError, PmiGroup, Remark, Reply
from pliant.model.errors import ProtocolError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.policy.fcfs import Fcfs
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.protocol.fence import pieces
from pliant_lab.injection.standins.programs import Fabric, Process

SLOW_S = 0.05
NEVER_S = 600.0


def job(name: str, command: str, nodes: str = "1", kind: JobClass = JobClass.MALLEABLE) -> JobSpec:
    low, _, high = nodes.partition(":")
    bounds = Bounds(int(low), int(high or low))
    return JobSpec(name=name, nodes=bounds, job_class=kind, command=tuple(command.split()))


class Proc:
    """A process, and the Host that it sees."""

    def __init__(self, world: World, node: Node, order: m.StartGroup, rank: int) -> None:
        self.world, self.node, self.group, self.rank = world, node, order.group, rank
        self.job, self.token, self.argv = order.job, order.token, order.argv
        self.env = {
            **order.env,
            "PLIANT_JOB": str(order.job),
            "PLIANT_GROUP": str(order.group),
            "PLIANT_NODE": node.name,
            "PMI_RANK": str(rank),
            "PMI_SIZE": str(order.world.size),
        }
        self.alive, self.session, self.lines = True, 0, codec.Lines()
        self.process = Process(self, world.fabrics.setdefault(order.job, Fabric(order.job)))

    @property
    def now(self) -> float:
        return self.world.now

    @property
    def random(self) -> Random:
        return self.world.random

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.world.at(delay_s, lambda: call() if self.alive else None)

    def connect(self) -> None:
        self.node.sessions += 1
        self.session, self.lines = self.node.sessions, codec.Lines()

    def say(self, data: bytes) -> None:
        self.world.send(self, "said", data, self.node.said)

    def ask(self, data: bytes) -> None:
        self.world.send(self, "asked", data, self.node.asked)

    def exit(self, code: int) -> None:
        self.node.exited(self, code)

    def abort(self, code: int) -> None:
        self.node.asked(self, f"cmd=abort exitcode={code}\n".encode())
        self.exit(code)

    def hear(self, data: bytes) -> None:
        if self.alive:
            self.process.on_session(data)

    def answer(self, data: bytes) -> None:
        if self.alive:
            self.process.on_launch(data)


class Node:
    """What a node's agent does, in short."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.sessions = 0
        self.procs: list[Proc] = []
        self.pmi: dict[tuple[int, int], PmiGroup] = {}
        self.broken: dict[tuple[int, int], int] = {}
        self.orders, self.said_by_job = codec.from_controller(), codec.from_job()

    def tell(self, message: m.AgentMessage) -> None:
        world, raw = self.world, codec.raw(message)
        world.deliver(("up", self.name), lambda: world.tell(o.Said(self.name, raw)))

    def of(self, job: int, group: int | None = None) -> list[Proc]:
        return [p for p in self.procs if p.alive and p.job == job and group in (None, p.group)]

    def obey(self, line: bytes) -> None:
        match self.orders.decode(line):
            case m.StartGroup() as order:
                kvsname = f"kvs-{order.job}-{order.world.number}"
                self.pmi[order.job, order.group] = PmiGroup(order.world, kvsname)
                procs = [Proc(self.world, self, order, rank) for rank in order.world.ranks]
                self.procs += procs
                self.tell(m.Started(order.job, order.group, tuple(order.world.ranks)))
                for each in procs:
                    each.later(0.001, each.process.begin)
            case m.Signal(job=job, number=number, group=group):
                for each in self.of(job, group):
                    if number == o.SIGKILL:
                        self.exited(each, -number)
                    else:
                        each.process.signalled(number)
            case m.Prove() as order:
                self.prove(order, self.world.now + order.patience_s)
            case m.Deliver() as order:
                for each in self.of(order.job, order.group):
                    if each.session == order.session:
                        self.world.send(each, "heard", bytes(order.message) + b"\n", Proc.hear)
            case m.Fenced(job=job, group=group, round=number, entries=entries, more=more):
                self.reply(job, group, self.pmi[job, group].fenced(number, entries, more=more))

    def prove(self, order: m.Prove, until: float) -> None:
        left = [each for each in self.of(order.job) if each.group not in order.keep]
        if not left:
            self.tell(m.Proof(order.job, clean=True))
            return
        if self.world.now >= until:
            for each in left:
                self.exited(each, -o.SIGKILL)
        self.world.at(0.1, lambda: self.prove(order, until))

    def said(self, proc: Proc, data: bytes) -> None:
        """Bytes of a session: a bad line closes it."""
        if not proc.session:
            return
        try:
            for line in proc.lines.feed(data):
                self.said_by_job.decode(line)
                self.tell(m.Relay(proc.job, proc.group, proc.session, msgspec.Raw(line)))
        except ProtocolError as error:
            proc.session = 0
            proc.hear(codec.encode(m.Error(str(error))))
            if proc.alive:
                proc.process.on_session_closed()

    def asked(self, proc: Proc, data: bytes) -> None:
        key = proc.job, proc.group
        if key in self.broken:
            return
        try:
            for line in data.decode().splitlines():
                self.reply(*key, self.pmi[key].receive(proc.rank, line))
        except PmiError as error:
            self.end(proc, error)

    def end(self, proc: Proc, error: PmiError) -> None:
        """The group cannot go on."""
        self.broken[proc.job, proc.group] = error.code
        self.tell(m.Relay(proc.job, proc.group, 0, codec.raw(m.Error(str(error)))))
        for each in self.of(proc.job, proc.group):
            self.world.at(0.0, lambda each=each: self.exited(each, -o.SIGKILL))  # type: ignore[misc]

    def reply(self, job: int, group: int, answers: Sequence[Reply | AtFence | Remark | Asking]) -> None:
        for answer in answers:
            if isinstance(answer, Remark | Asking):
                continue
            if isinstance(answer, AtFence):
                for piece, more in pieces(answer.entries):
                    self.tell(m.Fence(job, group, answer.round, piece, more))
                continue
            for each in self.of(job, group):
                if each.rank == answer.rank:
                    self.world.send(each, "answered", answer.line, Proc.answer)

    def exited(self, proc: Proc, code: int) -> None:
        if not proc.alive:
            return
        proc.alive = False
        proc.process.ended()
        key = proc.job, proc.group
        if code == -o.SIGKILL:
            code = self.broken.get(key, code)
        self.tell(m.Exited(proc.job, proc.group, proc.rank, code))
        if code:
            for each in self.of(*key):
                self.exited(each, -o.SIGKILL)
            return
        try:
            self.pmi[key].left(proc.rank)
        except PmiError as error:
            self.end(proc, error)


class World:
    """``look`` sees the world after each event."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        jobs: Sequence[JobSpec],
        *,
        slots: int = 1,
        settings: Settings | None = None,
    ) -> None:
        self.now, self.random, self.events = 0.0, Random(seed), 0
        self.records: list[r.Record] = []
        self.fabrics: dict[int, Fabric] = {}
        self.cluster = Cluster(Fcfs(), settings or Settings(), RunContext("/out", "/", {}, b"secret"))
        self.nodes = {f"n{i}": Node(self, f"n{i}") for i in range(nodes)}
        self.look: list[Callable[[], None]] = [self.check]
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._links: dict[object, float] = {}
        self._timers: dict[o.Key, float] = {}
        self.tell(o.Granted(tuple(self.nodes), (slots,) * nodes))
        self.tell(o.Batch(tuple(jobs)))

    # ---- time and messages ---------------------------------------------------------------------------

    def at(self, delay_s: float, call: Callable[[], None]) -> None:
        self.events += 1
        heappush(self._heap, (self.now + delay_s, self.events, call))

    def deliver(self, link: object, call: Callable[[], None]) -> None:
        """Later, but never before what was sent before on the same link."""
        due = max(self._links.get(link, 0.0), self.now + self.random.uniform(0, SLOW_S))
        self._links[link] = due
        self.at(due - self.now, call)

    def send(self, proc: Proc, way: str, data: bytes, take: Callable[[Proc, bytes], None]) -> None:
        """Bytes to or from a process; those of a session are cut anywhere. What a process has written to one of its
        sockets is there before what it writes to the other later."""
        cut, link = (
            (self.random.randrange(len(data)) if way in ("said", "heard") else 0),
            way in ("said", "asked"),
        )
        for part in (data[:cut], data[cut:]):
            if part:
                self.deliver((link, proc), lambda part=part: take(proc, part))  # type: ignore[misc]

    def tell(self, *given: o.AnyInput) -> None:
        records, outputs = self.cluster.handle(given, self.now)
        self.records += records
        for output in outputs:
            match output:
                case o.Send(nodes=nodes, message=message):
                    for name in nodes:
                        node, line = self.nodes[name], codec.encode(message)
                        self.deliver(("down", name), lambda node=node, line=line: node.obey(line))  # type: ignore[misc]
                case o.SetTimer(key=key, at=at):
                    self._timers[key] = at
                    self.at(max(0.0, at - self.now), lambda key=key, at=at: self.fire(key, at))  # type: ignore[misc]
                case o.ReadTail(job=job):
                    self.at(0.0, lambda job=job: self.tell(o.Tail(job, "")))  # type: ignore[misc]
        if self.cluster.pending:
            self.tell()

    def fire(self, key: o.Key, at: float) -> None:
        if self._timers.get(key) == at:
            del self._timers[key]
            self.tell(o.Fired(key))

    # ---- running -------------------------------------------------------------------------------------

    def run(self, until: Callable[[], bool] = lambda: False) -> World:
        """Until ``until()``, or until all jobs have ended and all nodes are clean."""
        while not until() and not self.cluster.idle:
            assert self._heap, f"at {self.now} nothing is left to happen, and jobs have not ended"
            self.now, _, call = heappop(self._heap)
            assert self.now < NEVER_S, f"this never ends: {[p.process.waiting for p in self.alive()]}"
            call()
            for look in self.look:
                look()
        return self

    def check(self) -> None:
        """Every wait has a deadline that is not over yet, or says why it has none."""
        if self.events % 7 == 0:
            for proc in self.alive():
                wait = proc.process.waiting
                assert (
                    wait is None or wait.excuse or (wait.until is not None and wait.until >= self.now - 1e-6)
                ), wait

    def alive(self, job: int | None = None) -> list[Proc]:
        procs = [p for node in self.nodes.values() for p in node.procs if p.alive]
        return [p for p in procs if job in (None, p.job)]

    def waits(self, job: int, what: str) -> list[Proc]:
        """The processes that wait for something like this."""
        return [p for p in self.alive(job) if (wait := p.process.waiting) is not None and what in wait.what]

    def kill(self, proc: Proc) -> None:
        proc.node.exited(proc, -o.SIGKILL)

    def of(self, kind: type[r.Record]) -> list[r.Record]:
        return [record for record in self.records if isinstance(record, kind)]

    def ends(self) -> dict[int, r.JobEnded]:
        return {record.job: record for record in self.records if isinstance(record, r.JobEnded)}

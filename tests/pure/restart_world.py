"""A cluster and its agents, all of them the shipped machines, with jobs that are scripts: so that the controller can be
killed between any two steps, and begin again from the bytes of its journal."""

from __future__ import annotations

from collections import deque
from random import Random

import msgspec

from pliant.core import records as r
from pliant.core.journal import Header, header_line, read
from pliant.core.settings import Settings
from pliant.live import node_messages as n
from pliant.live import orders as o
from pliant.live.cluster import Cluster, Home
from pliant.live.node import NodeLife
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.policy.fcfs import Fcfs
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.protocol.job_side import JobSide

GRACE = 60.0
SETTINGS = Settings(cooldown_s=0.0, decline_backoff_s=0.0)
HOME = Home("/out", "/", {}, b"secret")
WHY = "the controller was killed"


class Node:
    """An agent's machine, with processes that are numbers."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        home = n.Home(name, 1, "r1", 7, 1000, "/run/p", f"/run/p/{name}.sock", f"/dev/shm/{name}", GRACE)
        self.life = NodeLife(home)
        self.timers: dict[str, float] = {}
        self.ranks: dict[int, tuple[int, int]] = {}
        self.sessions: dict[int, Script] = {}
        self.next = 100
        self.up: deque[m.From] = deque()
        self.down: deque[bytes] = deque()
        self.wants_link = False
        self.left = False
        self.put(n.Began())

    def put(self, *inputs: n.AnyInput) -> None:
        queue = deque([inputs])
        while queue:
            for output in self.life.handle(queue.popleft(), self.world.now):
                queue += [(each,) for each in self.carry_out(output)]

    def carry_out(self, output: n.AnyOutput) -> list[n.AnyInput]:
        match output:
            case n.Tell():
                self.up.append(m.From(self.name, codec.raw(output.message), output.number, output.obeyed))
            case n.Connect():
                self.wants_link = True
            case n.SetTimer():
                self.timers[output.key] = self.world.now + output.seconds
            case n.CancelTimer():
                self.timers.pop(output.key, None)
            case n.WriteToken():
                return [n.TokenWritten(output.job, output.group)]
            case n.Spawn():
                self.next += 1
                self.ranks[self.next] = output.job, output.group
                self.world.spawned(self, output)
                return [n.Spawned(output.job, output.group, output.rank, self.next)]
            case n.Kill():
                return [n.Exited(pid, -9) for pid in output.pids if self.ranks.pop(pid, None)]
            case n.SignalGroup():
                if self.ranks.pop(output.pid, None):
                    return [n.Exited(output.pid, -output.number)]
            case n.Scan():
                found = [
                    pid
                    for pid, key in self.ranks.items()
                    if key not in output.keep and pid not in output.known
                ]
                return [n.Found(output.key, tuple(found))]
            case n.SayToSession():
                for line in output.data.splitlines():
                    self.world.news.append((self.sessions[output.session], line))
            case n.Leave():
                self.left = True
        return []

    def exit(self, key: tuple[int, int], code: int = 0) -> None:
        for pid in [pid for pid, group in self.ranks.items() if group == key]:
            del self.ranks[pid]
            self.put(n.Exited(pid, code))


class Script:
    """One group of a job that may be resized: it accepts or declines, and says what follows."""

    def __init__(self, job: Job, node: Node, number: int, env: dict[str, str]) -> None:
        self.job, self.node, self.number = job, node, number
        self.side = JobSide()
        self.ready = False
        self.resize = int(env["PLIANT_RESIZE"])
        self.epoch = int(env["PLIANT_EPOCH"])
        self.session = len(job.world.scripts) + 1
        job.world.scripts.append(self)
        node.sessions[self.session] = self

    def open(self, token: str) -> None:
        self.node.put(n.SessionOpened(self.session, 1000))
        job = self.job
        self.say(m.Hello(job.number, self.number, self.epoch, token, 1, Bounds(1, 4)))

    def say(self, message: m.JobMessage) -> None:
        if (self.node.name, self.session) not in self.job.world.closed:
            self.node.put(n.SessionSaid(self.session, self.side.send(message)))

    def hear(self, line: bytes) -> None:
        message = codec.from_scheduler().decode(line)
        self.job.world.heard.append((self.number, message))
        assert not isinstance(message, m.Error), message
        self.side.receive(message)  # raises where it is out of place, as an offer that comes twice
        match message:
            case m.Welcome() if self.resize:
                self.ready = True
                self.say(m.Ready(self.resize, self.number))
                self.job.think()
            case m.Welcome() if self.number == 0:
                self.say(m.Malleable(0, on=True))
            case m.Offer() | m.Drain():
                self.job.answer_due = message
            case m.Withdraw() if self.side.state == "withdrawn":
                self.job.answer_due = None
                self.say(m.Decline(self.job.epoch, message.resize, "withdrawn"))
            case m.Withdraw() | m.GroupLost() if self.job.open is not None:
                self.job.failed()
            case _:
                pass


class Job:
    """A malleable job: all its groups, which know of each other by other means than ours."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self.groups: dict[int, Script] = {}
        self.root = 0
        self.epoch = 0
        self.open: m.Offer | m.Drain | None = None
        self.answer_due: m.Offer | m.Drain | None = None
        self.over = False

    def members(self) -> list[Script]:
        return [each for each in self.groups.values() if not each.resize]

    def think(self) -> None:
        """Answer what is to be answered, and finish what can be finished."""
        root = self.groups.get(self.root)
        if root is None or self.over:
            return
        if (offer := self.answer_due) is not None:
            self.answer_due = None
            if isinstance(offer, m.Offer) and self.world.random.random() < self.world.declines:
                root.say(m.Decline(self.epoch, offer.resize, "no"))
                return
            root.say(m.Accept(self.epoch, offer.resize))
            self.open = offer
            if self.world.random.random() < 0.3:
                return  # it is in a long step
        if (offer := self.open) is None:
            return
        arriving = [self.groups.get(new.id) for new in (offer.arriving if isinstance(offer, m.Offer) else ())]
        if not all(each is not None and each.ready for each in arriving):
            return
        members = [each.number for each in self.members()]
        many = len(members) + len(arriving) - offer.size
        left = tuple(sorted(members, key=lambda number: number not in offer.leaving)[:many])
        stay = [number for number in members if number not in left] + [
            each.number for each in arriving if each
        ]
        new_root = self.root if self.root in stay else stay[0]
        if new_root != self.root:
            self.groups[new_root].side.state = "ready"
        root.say(m.Done(self.epoch, offer.resize, new_root, left))
        self.open, self.root, self.epoch = None, new_root, self.epoch + 1
        self.world.done.append(offer.resize)
        for each in arriving:
            if each is not None:
                each.resize = 0
        for number in left:
            script = self.groups.pop(number)
            script.node.exit((self.number, number))

    def failed(self) -> None:
        if self.open is not None:
            resize, self.open = self.open.resize, None
            self.groups[self.root].say(m.Failed(self.epoch, resize, "taken back"))

    def end(self) -> None:
        """The loop is over: the root says so with its result, and all ranks end."""
        root = self.groups[self.root]
        if self.over or root.side.state != "ready":
            return
        self.over = True
        root.say(m.Malleable(self.epoch, on=False))
        root.say(m.Bye(self.epoch, "42"))
        for number, script in list(self.groups.items()):
            script.node.exit((self.number, number))


class World:
    """All of it. ``step`` does one thing; ``kill`` and ``begin_again`` are the controller's fate."""

    def __init__(self, seed: int, nodes: int = 4) -> None:
        self.random = Random(seed)
        self.declines = 0.2
        self.hears = self.thinks = True
        """Whether jobs read what they are told, and answer it."""
        self.now = 0.0
        self.began = 0.0
        self.lines: list[bytes] = [
            header_line(Header(began="2026-01-01T00:00:00Z", policy="fcfs", settings=SETTINGS))
        ]
        self.news: deque[tuple[Script, bytes]] = deque()
        self.heard: list[tuple[int, m.SchedulerMessage]] = []
        self.closed: set[tuple[str, int]] = set()
        self.jobs: dict[int, Job] = {}
        self.scripts: list[Script] = []
        self.done: list[int] = []
        self.timers: dict[o.Key, float] = {}
        self.nodes = {f"n{i}": Node(self, f"n{i}") for i in range(nodes)}
        self.cluster: Cluster | None = Cluster(Fcfs(), SETTINGS, HOME, GRACE)
        self.tell(o.Granted(tuple(self.nodes), (1,) * nodes))

    # ---- the controller ------------------------------------------------------------------------------

    def tell(self, *inputs: o.AnyInput, cut: int | None = None) -> None:
        """Tell the cluster. With ``cut`` it is killed when it has written so many of the records that follow."""
        assert self.cluster is not None
        records, outputs = self.cluster.handle(inputs, self.now - self.began)
        self.lines += [r.to_line(record) for record in records[:cut]]
        if cut is not None:
            self.kill()
            return
        for output in outputs:
            match output:
                case o.Send():
                    for name in output.nodes:
                        self.nodes[name].down.append(
                            codec.encode(m.To((name,), codec.raw(output.message), output.id))
                        )
                case o.SetTimer():
                    self.timers[output.key] = self.began + output.at
                case o.ReadTail():
                    self.tell(o.Tail(output.job, ""))
                case o.Log():
                    pass
        if self.cluster is not None and self.cluster.pending:
            self.tell()

    def kill(self) -> None:
        """What has been sent may have arrived or not; agents go on without."""
        self.cluster = None
        self.timers.clear()
        for node in self.nodes.values():
            while node.down and self.random.random() < 0.5:
                node.put(n.LinkSaid(node.down.popleft()))
            node.down.clear()
            node.up.clear()
            node.put(n.LinkLost())

    def cut_link(self, name: str) -> None:
        """The link of one agent breaks, while the controller goes on."""
        node = self.nodes[name]
        while node.down and self.random.random() < 0.5:
            node.put(n.LinkSaid(node.down.popleft()))
        node.down.clear()
        while node.up and self.random.random() < 0.5:
            self._take(node)
        node.up.clear()
        node.put(n.LinkLost())
        self.tell(o.Unlinked(name))

    def mend_link(self, name: str) -> None:
        self.nodes[name].wants_link = False
        self.nodes[name].put(n.LinkMade())

    def _take(self, node: Node, cut: int | None = None) -> None:
        said = node.up.popleft()
        self.tell(o.Said(node.name, msgspec.Raw(said.message), said.number, said.obeyed), cut=cut)

    def begin_again(self, without: tuple[str, ...] = ()) -> None:
        journal = read(self.lines)
        self.cluster = Cluster.resume(Fcfs(), HOME, journal.header.settings, journal.records, GRACE)
        self.began = self.now - self.cluster.now
        self.tell(o.Resumed(WHY))
        for name in self.random.sample(sorted(self.nodes), len(self.nodes)):
            if name not in without and self.nodes[name].wants_link:
                self.mend_link(name)

    def stage(self) -> str:
        """Where the open resize of the first job is, by the journal."""
        assert self.cluster is not None
        for job in self.cluster.core.state.jobs.values():
            if job.resize is not None:
                return job.resize.stage
        return "none"

    def submit(self, nodes: int = 2) -> None:
        spec = JobSpec(
            name="a",
            command=("prog",),
            job_class=JobClass.MALLEABLE,
            nodes=Bounds(1, 4, preferred=nodes),
            walltime_s=600.0,
        )
        self.tell(o.Batch((spec,)))

    def records(self, kind: type[r.Record]) -> list[r.Record]:
        return [each for each in read(self.lines).records if isinstance(each, kind)]

    # ---- what goes on --------------------------------------------------------------------------------

    def spawned(self, node: Node, output: n.Spawn) -> None:
        job = self.jobs.setdefault(output.job, Job(self, output.job))
        script = job.groups[output.group] = Script(job, node, output.group, output.env)
        self.news.append((script, b""))

    def _hear(self) -> None:
        script, line = self.news.popleft()
        if (script.job.number, script.number) not in script.node.ranks.values():
            return  # it is dead
        if line:
            script.hear(line)
        else:
            group = script.node.life._register.groups[script.job.number, script.number]
            script.open(group.token)

    def step(self, cut: int | None = None) -> bool:
        """One thing, whichever it is; False if there is nothing but time."""
        able: list[object] = [node for node in self.nodes.values() if node.down or (node.up and self.cluster)]
        if self.news and self.hears:
            able.append("news")
        thinking = [job for job in self.jobs.values() if self.thinks and (job.answer_due or job.open)]
        if thinking and self.random.random() < 0.5:
            able.append("think")
        if not able:
            for job in thinking:
                job.think()
            return bool(thinking) and any(node.up or node.down for node in self.nodes.values())
        match self.random.choice(able):
            case "news":
                self._hear()
            case "think":
                thinking[0].think()
            case Node() as node:
                if node.up and self.cluster and (not node.down or self.random.random() < 0.5):
                    self._take(node, cut)
                else:
                    node.put(n.LinkSaid(node.down.popleft()))
        return True

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while True:
            while self.step():
                pass
            due: list[tuple[float, str, str, object]] = [
                (at, name, key, key) for name, node in self.nodes.items() for key, at in node.timers.items()
            ]
            due += [(at, "", str(key), key) for key, at in self.timers.items()]
            at, name, _, key = min(due, key=lambda each: each[:3], default=(until + 1, "", "", ""))
            if at > until:
                break
            self.now = max(self.now, at)
            if name:
                del self.nodes[name].timers[str(key)]
                self.nodes[name].put(n.TimerFired(str(key)))
            else:
                del self.timers[key]  # type: ignore[arg-type]
                self.tell(o.Fired(key))  # type: ignore[arg-type]
        self.now = until

    def end(self) -> None:
        for job in self.jobs.values():
            if job.root in job.groups:
                job.end()

    def finish(self) -> dict[int, tuple[JobState, str | None]]:
        """Let all jobs end; how they ended. Nothing is left then."""
        for _ in range(40):
            self.pass_time(5.0)
            self.end()
            assert self.cluster is not None
            if self.cluster.idle:
                break
        assert self.cluster is not None
        assert self.cluster.idle, self.cluster.core.state.snapshot()
        assert not any(node.ranks for node in self.nodes.values())
        assert self.cluster.core.state.free == self.cluster.core.state.total
        for node in self.nodes.values():
            assert not list(node.life._outbox), list(node.life._outbox)
        ends = [each for each in read(self.lines).records if isinstance(each, r.JobEnded)]
        assert len({end.job for end in ends}) == len(ends)
        return {end.job: (end.state, end.result) for end in ends}

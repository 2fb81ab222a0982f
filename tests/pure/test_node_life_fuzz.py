"""Whatever happens on a node in whatever order: nothing is started twice, every order is answered once, every wait
ends by itself, and nobody is left alive who was not killed."""

from __future__ import annotations

import msgspec
from drawing import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from node_driver import HOME, hello, start_order

from pliant.live.node import messages as n
from pliant.live.node.life import NodeLife
from pliant.protocol import codec
from pliant.protocol import messages as m

JOBS = st.integers(1, 3)
GROUPS = st.integers(0, 2)
KEPT = {1: (), 2: (), 3: (0,)}
"""What a proof of each job leaves alone."""
LINES = st.sampled_from(
    [
        b"cmd=init\n", b"cmd=put key=a value=b\n", b"cmd=barrier_in\n", b"cmd=barrier_in\n", b"cmd=finalize\n",
        b"cmd=abort exitcode=3\n", b"\xff\x00\n", b"cmd=put\n", b"cm", b"x" * 70000,
    ]
)  # fmt: skip
SAID = st.sampled_from(
    [
        hello(token="0"), hello(2, 1, "0"), hello(token="wrong"), codec.encode(m.Bye(0)), b"garbage\n", b'{"type":', b"\n\n",
        b"y" * (codec.MAX_LINE + 1),
    ]
)  # fmt: skip
GARBAGE = st.sampled_from(
    [
        b"garbage\n",
        b"{}\n",
        b'{"type":"to","nodes":["n7"],"message":1}\n',
        b'{"type":"to","nodes":["n0"],"message":{}}\n',
    ]
)


class Node(RuleBasedStateMachine):
    """A node whose processes start, end and are killed when it pleases them."""

    def __init__(self) -> None:
        super().__init__()
        self.life = NodeLife(HOME)
        self.now = 0.0
        self.timers: dict[str, float] = {}
        self.writes: list[n.WriteToken] = []
        self.spawns: list[n.Spawn] = []
        self.helpers: list[n.StartHelper] = []
        self.warm: set[int] = set()
        self.scans: list[n.Scan] = []
        self.next_pid = 100
        self.alive: dict[int, tuple[int, int] | None] = {}
        self.killed: set[int] = set()
        self.late: set[int] = set()
        self.spawned: set[tuple[str, int]] = set()
        self.times: dict[tuple[int, int], int] = {}
        """How often a group has been there and was proved to be gone."""
        self.ordered: set[tuple[int, int]] = set()
        self.starts: set[tuple[int, int]] = set()
        """Orders without answer."""
        self.proofs: dict[int, tuple[set[int], set[tuple[int, int]]]] = {}
        """Jobs whose proof is under way, with the processes and the groups that it is about."""
        self.sessions: set[int] = set()
        self.last_session = 0
        self.last_told = 0
        self.is_alone = False
        self.ending = False
        self.has_left = False
        self.put(n.Began())

    # ---- what it asks --------------------------------------------------------------------------------

    def put(self, *inputs: n.AnyInput) -> None:
        for output in self.life.handle(inputs, self.now):
            assert not self.has_left
            match output:
                case n.SetTimer():
                    assert 0 <= output.seconds <= 3600
                    self.timers[output.key] = self.now + output.seconds
                case n.CancelTimer():
                    self.timers.pop(output.key, None)
                case n.WriteToken():
                    self.writes.append(output)
                case n.Spawn():
                    once = (output.env["PLIANT_TOKEN_FILE"] + output.env["TOKEN"], output.rank)
                    assert once not in self.spawned
                    self.spawned.add(once)
                    self.spawns.append(output)
                    assert not output.helper or output.helper in self.warm - self.killed
                case n.StartHelper():
                    assert not self.ending
                    self.helpers.append(output)
                case n.Scan():
                    self.scans.append(output)
                case n.Kill():
                    self.killed.update(output.pids)
                case n.CloseSession():
                    assert output.session in self.sessions
                    self.sessions.discard(output.session)
                case n.SayToSession():
                    assert output.session in self.sessions
                case n.Tell() if not 0 < output.number <= self.last_told:
                    self.last_told = max(self.last_told, output.number)
                    self.told(output.message)
                case n.Leave():
                    self.has_left = True
                    assert not set(self.alive) - self.killed
                    assert not self.proofs
                    assert not self.sessions
                    assert not self.timers

    def told(self, message: m.AgentMessage) -> None:
        match message:
            case m.Proof():
                about, groups = self.proofs.pop(message.job)
                if message.clean:
                    for key in groups:
                        self.times[key] = self.times.get(key, 0) + 1
                    self.ordered -= groups
                    assert not (about & set(self.alive)) - self.late
            case m.Started() | m.StartFailed():
                self.starts.remove((message.job, message.group))
            case m.Relay() | m.Fence():
                assert message.job in KEPT

    def order(self, message: m.ControllerMessage) -> None:
        self.put(n.LinkSaid(codec.encode(m.To(("n0",), codec.raw(message)))))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while due := sorted((at, key) for key, at in self.timers.items() if at <= until and key != "beat"):
            self.now, key = due[0]
            del self.timers[key]
            self.put(n.TimerFired(key))
        self.now = until

    # ---- what happens --------------------------------------------------------------------------------

    @rule(
        job=JOBS, group=GROUPS, sizes=st.sampled_from([(1,), (2,), (1, 2)]),
        dialect=st.sampled_from(["pmi1", "pmi1", "none", "pmix"]),
    )  # fmt: skip
    def start(self, job: int, group: int, sizes: tuple[int, ...], dialect: str) -> None:
        """For the first time, or again, or anew after the job has been proved to be gone."""
        if not (self.has_left or self.is_alone):
            self.starts.add((job, group))
        token = str(self.times.get((job, group), 0))
        if dialect != "pmix":  # else it is refused
            self.ordered.add((job, group))
        order = start_order(job, group, sizes, len(sizes) - 1, token, dialect)
        argv, modules = ("python", "x.py"), ("numpy",) if dialect == "none" else ()
        self.order(msgspec.structs.replace(order, argv=argv, env={"TOKEN": token}, modules=modules))

    @precondition(lambda self: self.writes and not self.has_left)
    @rule(works=st.sampled_from([True, True, False]))
    def write(self, *, works: bool) -> None:
        order = self.writes.pop(0)
        key = order.job, order.group
        self.put(n.TokenWritten(*key) if works else n.NotSpawned(*key, "disk full", 126))

    @precondition(lambda self: self.spawns and not self.has_left)
    @rule(works=st.sampled_from([True, True, True, False]))
    def spawn(self, *, works: bool) -> None:
        order = self.spawns.pop(0)
        if not works:
            self.put(n.NotSpawned(order.job, order.group, "no such file", 127))
            return
        self.next_pid += 1
        self.alive[self.next_pid] = order.job, order.group
        before = self.next_pid in self.killed
        self.put(n.Spawned(order.job, order.group, order.rank, self.next_pid))
        if self.next_pid in self.killed and not before:
            self.late.add(self.next_pid)

    @precondition(lambda self: not self.has_left)
    @rule(kind=st.sampled_from(["helper", "stray"]))
    def appear(self, kind: str) -> None:
        self.next_pid += 1
        self.alive[self.next_pid] = None
        if kind == "helper":
            self.put(n.HelperStarted(self.next_pid, kind))
        else:
            self.late.add(self.next_pid)
            self.killed.add(self.next_pid)  # nobody has to know of it

    @precondition(lambda self: not self.has_left)
    @rule(job=JOBS, group=GROUPS)
    def come_up(self, job: int, group: int) -> None:
        """A place, and all that is being started."""
        self.start(job, group, (1,), "none")
        while self.writes and not self.has_left:
            self.write(works=True)
        while self.spawns and not self.has_left:
            self.spawn(works=True)
        if not self.has_left:
            self.open(HOME.uid)
            self.put(
                n.SessionSaid(self.last_session, hello(job, group, str(self.times.get((job, group), 0))))
            )

    @precondition(lambda self: self.helpers and not self.has_left)
    @rule(works=st.sampled_from([True, True, True, False]))
    def help(self, *, works: bool) -> None:
        name = self.helpers.pop(0).name
        if works:
            self.next_pid += 1
            self.alive[self.next_pid] = None
            self.put(n.HelperStarted(self.next_pid, name))
            self.warm.add(self.next_pid)
            self.put(n.HelperReady(self.next_pid))
        else:
            self.put(n.HelperFailed(name))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1, -9]))
    def exit(self, data: st.DataObject, code: int) -> None:
        pid = data.draw(st.sampled_from(sorted(self.alive)))
        self.warm.discard(pid)
        del self.alive[pid]
        self.put(n.Exited(pid, code))

    @rule()
    def killed_end(self) -> None:
        gone = sorted(set(self.alive) & self.killed)
        for pid in gone:
            del self.alive[pid]
        self.put(*(n.Exited(pid, -9) for pid in gone))

    @precondition(lambda self: self.scans)
    @rule()
    def find(self) -> None:
        scan = self.scans.pop(0)
        pids = [
            pid for pid, group in self.alive.items()
            if pid not in scan.known and (group is None or group not in scan.keep)
        ]  # fmt: skip
        self.put(n.Found(scan.key, tuple(pids)))

    @rule(job=JOBS, group=GROUPS, rank=st.integers(0, 3), data=LINES)
    def rank_says(self, job: int, group: int, rank: int, data: bytes) -> None:
        self.put(n.RankSaid(job, group, rank, data))

    @rule(job=JOBS, group=GROUPS, rank=st.integers(0, 3))
    def rank_closes(self, job: int, group: int, rank: int) -> None:
        self.put(n.RankClosed(job, group, rank))

    @precondition(lambda self: not self.has_left)
    @rule(uid=st.sampled_from([1000, 1000, 0]))
    def open(self, uid: int) -> None:
        self.last_session += 1
        self.sessions.add(self.last_session)
        self.put(n.SessionOpened(self.last_session, uid))

    @precondition(lambda self: self.last_session)
    @rule(data=st.data(), said=SAID)
    def session_says(self, data: st.DataObject, said: bytes) -> None:
        self.put(n.SessionSaid(data.draw(st.integers(1, self.last_session)), said))

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.sessions)))
        self.sessions.discard(number)
        self.put(n.SessionClosed(number))

    @rule(job=JOBS, patience=st.sampled_from([0.0, 5.0, 1e9]))
    def prove(self, job: int, patience: float) -> None:
        if not (self.has_left or self.is_alone) and job not in self.proofs:
            groups = {key for key in self.ordered if key[0] == job and key[1] not in KEPT[job]}
            self.proofs[job] = {pid for pid, group in self.alive.items() if group in groups}, groups
        self.order(m.Prove(job, KEPT[job], patience))

    @rule(job=JOBS, group=st.none() | GROUPS, number=st.sampled_from([9, 15, 999]))
    def signal(self, job: int, group: int | None, number: int) -> None:
        self.order(m.Signal(job, number, group))

    @rule(job=JOBS, group=GROUPS, number=st.integers(0, 2), more=st.booleans())
    def fenced(self, job: int, group: int, number: int, *, more: bool) -> None:
        self.order(m.Fenced(job, group, number, {"k": "v"}, more))

    @rule(job=JOBS, group=GROUPS, session=st.integers(0, 3))
    def deliver(self, job: int, group: int, session: int) -> None:
        if session in self.sessions or session == 0 or self.has_left:
            self.order(m.Deliver(job, group, session, codec.raw(m.Stay())))

    @rule(data=GARBAGE)
    def garbage(self, data: bytes) -> None:
        self.put(n.LinkSaid(data))

    @rule(seconds=st.sampled_from([0.01, 0.05, 1.0, 4.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.wait(seconds)

    @precondition(lambda self: not self.ending)
    @rule(how=st.integers(0, 20))
    def end(self, how: int) -> None:
        inputs: dict[int, n.AnyInput] = {0: n.LinkLost(), 1: n.StopAsked("defect"), 2: n.StopAsked()}
        if how == 3:
            self.ending = True
            self.order(m.Shutdown())
        elif how in inputs:
            self.ending = True
            if how == 0:  # nobody hears any more what it would say
                self.is_alone = True
                self.proofs.clear()
                self.starts.clear()
            self.put(inputs[how])

    @invariant()
    def every_wait_has_a_timer(self) -> None:
        if not self.has_left:
            assert "beat" in self.timers
            assert not self.ending or {"end", "sessions"} & set(self.timers)
        for job in self.proofs:
            assert self.ending or any(key.split()[:2] == ["proof", str(job)] for key in self.timers)
        for job, group in self.starts:
            assert f"start {job} {group}" in self.timers

    def teardown(self) -> None:
        """Nothing answers any more: time alone ends all there is."""
        self.wait(4000)
        assert self.ending or not self.proofs
        assert not self.starts
        if not self.ending:
            self.order(m.Shutdown())
        self.wait(100)
        assert self.has_left


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=examples(60), stateful_step_count=50)

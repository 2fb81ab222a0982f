"""Carries out what coroutines of `job/spawning/` yield, for all processes of a job, in virtual time: MPI as it was
measured to behave, with faults that a seed has drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any, cast

import msgspec

from pliant.job.errors import Stalled
from pliant.job.spawning import messages as m
from pliant.job.spawning import operations as o
from pliant.job.spawning.newcomer import CalledOff
from pliant.model.errors import PliantError
from pliant.protocol.phases import Phase
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.clock import Clock
from pliant_lab.injection.spawning.faults import Ill, Ills
from pliant_lab.injection.spawning.processes import (
    CPU_S,
    PHASES,
    Compute,
    Doing,
    EndAll,
    Ended,
    Gather,
    Handle,
    Link,
    Port,
    Probe,
    Proc,
    Request,
    Round,
    State,
    Waiting,
    handle,
    has_none_to_hear,
    told,
)  # fmt: skip

NOT_YET = object()
SOON_S = (1e-4, 1e-3, 1e-3, 0.02)
START_S = (0.03, 0.4)


class Fabric:
    """``newcomer`` makes the program of what is started, of the process and who has started it."""

    def __init__(self, random: Random, limit_s: float, ills: Ills, story: Callable[[str], None]) -> None:
        self.clock = Clock()
        self.random, self.limit_s, self.ills = random, limit_s, ills
        self.procs: list[Proc] = []
        self.ended: Ended | None = None
        self.hits: list[tuple[Ill, Proc | None, bool]] = []
        self.said: list[str] = []
        self.failures: list[str] = []
        """Of newcomers, by an error that is none of the faults."""
        self.newcomer: Callable[[Proc, Handle], o.Steps[None]]
        self._story = story
        self._ports: dict[str, Port] = {}
        self._worlds = 0

    # ---- processes ----------------------------------------------------------------------------------

    def world(self, hosts: Iterable[str], number: int) -> tuple[Proc, ...]:
        procs = tuple(Proc(number, rank, host) for rank, host in enumerate(hosts))
        own = Link((procs,))
        for proc in procs:
            proc.own = own
        self.procs += procs
        return procs

    def begin(self, proc: Proc, steps: o.Steps[None]) -> None:
        proc.steps = steps
        self._go(proc)

    def tell(self, text: str) -> None:
        self._story(f"{self.clock.now:9.4f} {text}")

    def end(self, by: Proc, text: str, *, failed: bool = True) -> None:
        """Mpiexec ends all."""
        if self.ended is None:
            self.tell(f"{by} ends the job in phase {by.phase}: {text}")
            self.ended = Ended(by, by.phase, text, failed)

    def _go(self, proc: Proc, outcome: object = None, error: PliantError | None = None) -> None:
        if self.ended is not None or proc.state is not State.RUNS:
            return
        assert proc.steps is not None  # noqa: S101 - it has begun
        try:
            doing = proc.steps.throw(error) if error is not None else proc.steps.send(outcome)
        except StopIteration:
            self._over(proc, State.GONE)
        except CalledOff:
            left = proc.parent is None or proc in proc.parent.left
            self._over(proc, State.GONE if left else State.LINGERS)
        except PliantError as failed:
            self._failed(proc, failed)
        else:
            self._comes(proc, doing)

    def _over(self, proc: Proc, state: State) -> None:
        self.tell(f"{proc} {state}")
        proc.state = state

    def _failed(self, proc: Proc, error: PliantError) -> None:
        if proc.was_there or proc.in_loop:
            self.end(proc, str(error))
        else:
            self.tell(f"{proc} fails: {error}")
            self.failures.append(f"{proc} fails: {error}")
            proc.state = State.FAILED

    # ---- faults -------------------------------------------------------------------------------------

    def _comes(self, proc: Proc, doing: Doing) -> None:
        # Before and behind a resize these do as their program does, which may stand still.
        counts = not proc.was_there or proc.is_starter or proc.phase is not None
        proc.done += counts
        kind = getattr(doing, "kind", None)
        if proc.world >= 0 and (kind is m.Verdict or has_none_to_hear(proc, doing)):
            proc.there = True
        self.tell(f"{proc} {told(doing)}")
        self._in_phase(proc, doing)
        ill = self.ills.of(*proc.place, proc.done) if counts and not proc.joined else None
        if ill is None:
            self._do(proc, doing)
            return
        self.hits.append((ill, proc, proc.there))
        proc.struck = self.clock.now
        self.tell(f"FAULT {ill.kind} {ill.seconds:.3g}: {proc}")
        match ill.kind:
            case "stand":
                proc.state = State.STANDS
            case "raise" if not (proc.was_there or proc.in_loop):
                proc.state = State.FAILED
            case "die" | "raise":
                self.end(proc, "killed")
            case _:
                self.clock.later(ill.seconds, partial(self._do, proc, doing))

    @staticmethod
    def _in_phase(proc: Proc, doing: Doing) -> None:
        kind = getattr(doing, "kind", None) if isinstance(doing, o.Receive) else type(doing)
        phases = PHASES.get(kind) if kind is not None else None
        if phases is not None and proc.phase not in phases and not proc.is_starter:
            raise Violation("wrong", f"{proc} is in phase {proc.phase} when it does {told(doing)}")

    # ---- operations ---------------------------------------------------------------------------------

    def _soon(self) -> float:
        return self.random.choice(SOON_S)

    def _done(self, proc: Proc, outcome: object = None, seconds: float | None = None) -> None:
        self.clock.later(self._soon() if seconds is None else seconds, partial(self._go, proc, outcome))

    def _do(self, proc: Proc, doing: Doing) -> None:  # noqa: C901 - a line or two each
        if self.ended is not None:
            return
        match doing:
            case o.Reach(phase):
                proc.phase = phase
                proc.reached.append(phase)
                proc.at[phase] = self.clock.now
                self._done(proc)
            case o.Say(text):
                self.said.append(text)
                self._done(proc)
            case o.Alone():
                self._done(proc, handle(Link(((proc,),)), proc))
            case Compute(seconds):
                self._done(proc, None, seconds + self.random.uniform(*CPU_S))
            case Probe(comm):
                self._done(proc, self._waits(proc, self._use(proc, comm)))
            case EndAll():
                self.end(proc, "late", failed=False)
            case o.OpenPort():
                name = f"port{len(self._ports)}"
                self._ports[name] = Port(proc)
                self._done(proc, name)
            case o.ClosePort(port):
                self._close(proc, port)
            case o.Send(comm, target, message):
                self._send(proc, self._use(proc, comm), target, message)
            case o.Part(comm):
                link = self._use(proc, comm).link
                proc.goes = proc.goes or link is proc.parent
                begun = self._begin(proc, link, "part")
                self._done(proc, (Request(partial(link.complete, begun)),))
            case _:
                self._together(proc, doing)

    def _together(self, proc: Proc, doing: Doing) -> None:
        """What waits for others: with a deadline where it is tested, with a watchdog where it blocks."""
        match doing:
            case o.Receive(peers, _, what, limited, share):
                heard = [(self._use(proc, comm), rank) for comm, rank in peers]
                links = tuple(each.link for each, _ in heard)
                poll = partial(self._heard, proc, heard, doing.kind)
                self._wait(proc, what, poll, links, limited=limited, share=share)
            case o.Nap(comm):
                mine = self._use(proc, comm)
                poll = partial(self._napped, proc, mine)
                self._wait(proc, "an order", poll, (mine.link,), limited=False, always=False)
            case o.Await(pending, what, limited):
                poll = partial(_complete, pending)
                self._wait(proc, what, poll, (), limited=limited)
            case o.Tell(comm, message, kind, what, limited, share):
                mine = self._use(proc, comm)
                data = None if message is None else msgspec.json.encode(message)
                begun = self._begin(proc, mine.link, "tell", data)
                poll = partial(_heard_of_root, mine, begun, kind)
                self._wait(proc, what, poll, (mine.link,), limited=limited, share=share)
            case o.Hosts(comm, what):
                self._gather(proc, self._use(proc, comm), proc.host, what, limited=True)
            case Gather(comm, value, share):
                self._gather(proc, self._use(proc, comm), value, "all to come", limited=False, share=share)
            case o.Look(comm, _, what):
                self._gather(proc, self._use(proc, comm), None, what, limited=True, look=True)
            case o.Duplicate(what):
                own = cast("Link", proc.own)
                begun = self._begin(proc, own, "duplicate")
                poll = partial(self._made, proc, own, begun, lambda: Link(own.sides))
                self._wait(proc, what, poll, (own,))
            case _:
                self._blocks(proc, doing)

    def _blocks(self, proc: Proc, doing: Doing) -> None:
        match doing:
            case o.Spawn():
                self._spawn(proc, doing)
            case o.Accept(comm, port, what):
                self._meet(proc, self._use(proc, comm), port, what, accepts=True)
            case o.Connect(comm, port):
                self._meet(proc, self._use(proc, comm), port, "connecting", accepts=False)
            case o.Unite(comm, between, high):
                own, both = self._use(proc, comm), self._use(proc, between)
                begun = self._begin(proc, both.link, "unite", high)
                poll = partial(self._united, proc, own, both, begun)
                self._wait(proc, "merging two groups", poll, (both.link,), dog=True)
            case o.Split(comm, key, what):
                own = self._use(proc, comm)
                begun = self._begin(proc, own.link, "split", key)
                poll = partial(self._ordered, proc, own, begun)
                self._wait(proc, what, poll, (own.link,), dog=True)
            case o.Leave(comms, what):
                links = tuple(self._use(proc, comm).link for comm in comms)
                poll = partial(self._leaves, proc, links)
                self._wait(
                    proc, what or "leaving", poll, links, dog=bool(what), limited=bool(what), always=False
                )
            case _:
                raise AssertionError(doing)

    def _use(self, proc: Proc, comm: o.Comm) -> Handle:
        mine = cast("Handle", comm)
        if proc in mine.link.left:
            raise Violation("wrong", f"{proc} uses a communicator that it has left")
        return mine

    def _begin(self, proc: Proc, link: Link, kind: str, data: Any = None) -> Round:
        begun = link.begin(proc, kind, data)
        self._changed(*link.procs)
        return begun

    # ---- waiting ------------------------------------------------------------------------------------

    def _wait(  # noqa: PLR0913 - what is awaited, and how long
        self, proc: Proc, what: str, poll: Callable[[], Any], links: tuple[Link, ...] = (), *, dog: bool = False,
        limited: bool = True, share: float = 1.0, always: bool = True,
    ) -> None:  # fmt: skip
        waiting = proc.waiting = Waiting(what, poll, links=links)
        if limited or (always and proc.phase not in (None, Phase.SYNCHRONISE)):
            late = partial(self._late, proc, waiting, share, dog=dog)
            waiting.timer = self.clock.later(self.limit_s * share, late)
        self._poll(proc)

    def _poll(self, proc: Proc) -> None:
        waiting = proc.waiting
        if waiting is None or proc.state is not State.RUNS:
            return
        if (outcome := waiting.poll()) is NOT_YET:
            return
        proc.waiting = None
        if waiting.timer is not None:
            waiting.timer.cancel()
        self._done(proc, outcome)

    def _changed(self, *procs: Proc) -> None:
        """Something has happened to what these have in common."""
        for proc in procs:
            if proc.waiting is not None:
                self.clock.later(self._soon(), partial(self._poll, proc))

    def _late(self, proc: Proc, waiting: Waiting, share: float, *, dog: bool) -> None:
        if proc.waiting is not waiting or proc.state is not State.RUNS or self.ended is not None:
            return
        error = Stalled(waiting.what, self.limit_s * share, share, phase=proc.phase)
        if dog:
            self.end(proc, str(error))
            return
        proc.waiting = None
        for link in waiting.links:
            link.abandoned.append(proc)
        self._go(proc, error=error)

    # ---- words --------------------------------------------------------------------------------------

    def _send(self, proc: Proc, mine: Handle, target: int, message: msgspec.Struct) -> None:
        link, other, data = mine.link, mine.others[target], msgspec.json.encode(message)
        proc.there |= isinstance(message, (m.Outcome, m.Verdict))
        delay = self._soon() + self.ills.late_word(self.random)
        at = max(self.clock.now + delay, link.arrives.get((proc, other), 0.0))
        link.arrives[proc, other] = at
        self.clock.at(at, partial(self._arrives, link, proc, other, data))
        self._done(proc, (Request(lambda: True),))

    def _arrives(self, link: Link, source: Proc, target: Proc, data: bytes) -> None:
        link.box(source, target).append(data)
        self._poll(target)

    @staticmethod
    def _waits(proc: Proc, mine: Handle) -> bool:
        return bool(mine.link.box(mine.others[0], proc))

    def _napped(self, proc: Proc, mine: Handle) -> object:
        return None if self._waits(proc, mine) else NOT_YET

    @staticmethod
    def _heard(proc: Proc, heard: list[tuple[Handle, int]], kind: type[msgspec.Struct]) -> object:
        boxes = [mine.link.box(mine.others[rank], proc) for mine, rank in heard]
        if not all(boxes):
            return NOT_YET
        found = [box.popleft() for box in boxes]
        try:
            return [msgspec.json.decode(data, type=kind) for data in found]
        except msgspec.MsgspecError as error:
            raise Violation("wrong", f"{proc} expects a {kind.__name__} and hears {found}") from error

    def _gather(  # noqa: PLR0913 - what is gathered
        self, proc: Proc, mine: Handle, value: object, what: str, *, limited: bool, look: bool = False,
        share: float = 1.0,
    ) -> None:  # fmt: skip
        begun = self._begin(proc, mine.link, "look" if look else "gather", value)

        def poll() -> object:
            if not mine.link.complete(begun):
                return NOT_YET
            if look:
                return self.ills.program, self.ills.descriptors
            return [begun.came[each] for each in mine.link.procs]

        self._wait(proc, what, poll, (mine.link,), limited=limited, share=share)

    # ---- communicators ------------------------------------------------------------------------------

    def _made(self, proc: Proc, link: Link, begun: Round, make: Callable[[], Link]) -> object:
        if not link.complete(begun):
            return NOT_YET
        if begun.made is None:
            begun.made = make()
            self._changed(*link.procs)
        return handle(begun.made, proc)

    def _united(self, proc: Proc, own: Handle, both: Handle, begun: Round) -> object:
        def make() -> Link:
            sides = both.link.sides
            high = [{begun.came[each] for each in side} for side in sides]
            if high not in ([{False}, {True}], [{True}, {False}]):
                raise Violation("wrong", f"{proc} merges sides that do not say which is higher: {high}")
            low = high.index({False})
            return Link(((*sides[low], *sides[1 - low]),))

        outcome = self._made(proc, both.link, begun, make)
        if outcome is not NOT_YET:
            own.link.left.append(proc)
            both.link.left.append(proc)
        return outcome

    def _ordered(self, proc: Proc, own: Handle, begun: Round) -> object:
        def make() -> Link:
            return Link((tuple(sorted(own.link.procs, key=lambda each: begun.came[each])),))

        outcome = self._made(proc, own.link, begun, make)
        if outcome is not NOT_YET:
            own.link.left.append(proc)
        return outcome

    def _leaves(self, proc: Proc, links: tuple[Link, ...]) -> object:
        """Disconnect waits for what has been received in part, or not at all."""
        if any(proc in link.abandoned for link in links):
            return NOT_YET
        for link in links:
            link.left.append(proc)
        return None

    # ---- ports --------------------------------------------------------------------------------------

    def open_ports(self) -> list[Port]:
        return [port for port in self._ports.values() if port.is_open]

    def _close(self, proc: Proc, name: str) -> None:
        port = self._ports[name]
        if port.owner is not proc or not port.is_open:
            raise Violation("wrong", f"{proc} closes {name}, which is not its own or not open")
        port.is_open = False
        self._done(proc)

    def _meet(self, proc: Proc, mine: Handle, port: str, what: str, *, accepts: bool) -> None:
        link = mine.link
        begun = self._begin(proc, link, "accept" if accepts else "connect", port)
        if link.complete(begun):
            root = link.sides[0][0]
            found = self._ports.get(begun.came[root])
            if found is None or not found.is_open or (accepts and found.owner is not root):
                raise Violation(
                    "wrong", f"{root} {'accepts' if accepts else 'connects'} at {begun.came[root]!r}"
                )
            (found.accepting if accepts else found.connecting).append((link, begun))
            while found.accepting and found.connecting:
                (low, one), (high, other) = found.accepting.popleft(), found.connecting.popleft()
                one.made = other.made = Link((low.sides[0], high.sides[0]))
                self._changed(*low.procs, *high.procs)

        def poll() -> object:
            return NOT_YET if begun.made is None else handle(begun.made, proc)

        self._wait(proc, what, poll, (link,), dog=True)

    # ---- starts -------------------------------------------------------------------------------------

    def _spawn(self, proc: Proc, asked: o.Spawn) -> None:
        by = Link(((proc,),)) if asked.by is None else self._use(proc, asked.by).link
        begun = self._begin(proc, by, "spawn", asked)
        if by.complete(begun):
            number = self._worlds
            self._worlds += 1
            if self.ills.refused == number:
                self.hits.append((Ill("refused"), None, False))
                for each in by.procs:
                    self._refused(each)
                if proc.waiting is None:
                    failed = o.Failed("no descriptor is free")
                    self.clock.later(self._soon(), partial(self._go, proc, None, failed))
                return
            self._start(by, begun, number)

        def poll() -> object:
            return NOT_YET if begun.made is None else handle(begun.made, proc)

        self._wait(proc, asked.what, poll, (by,), dog=True)

    def _refused(self, proc: Proc) -> None:
        if (waiting := proc.waiting) is not None:
            if waiting.timer is not None:
                waiting.timer.cancel()
            proc.waiting = None
            self.clock.later(self._soon(), partial(self._go, proc, None, o.Failed("no descriptor is free")))

    def _start(self, by: Link, begun: Round, number: int) -> None:
        asked = begun.came[by.procs[0]]
        words = [word.rsplit(":", 1) for word in asked.hosts.split(",")]
        hosts = [name for name, count in words for _ in range(int(count))]
        if len(hosts) != asked.size:
            raise Violation("wrong", f"{asked.size} processes are started on {asked.hosts}")
        procs = self.world(hosts, number)
        between = Link((by.procs, procs))
        slow = self.ills.slow_start_s if self.ills.slow_start == number else 0.0
        if slow:
            self.hits.append((Ill("slow start", slow), procs[0], False))
            self.tell(f"FAULT slow start {slow:.3g}: world {number}")
        if self.ills.silent == number:
            self.hits.append((Ill("silent"), procs[0], False))
            self.tell(f"FAULT silent: world {number}")
            for proc in procs:
                proc.state = State.STANDS
            return
        last = max(self.random.uniform(*START_S) for _ in procs) + slow
        self.clock.later(last, partial(self._begun, between, begun, by))

    def _begun(self, between: Link, begun: Round, by: Link) -> None:
        """All of them have initialised MPI."""
        if self.ended is not None:
            return
        begun.made = between
        for proc in between.sides[1]:
            proc.parent = between
            self.clock.later(
                self._soon(), partial(self.begin, proc, self.newcomer(proc, handle(between, proc)))
            )
        self._changed(*by.procs)


def _complete(pending: Iterable[Request]) -> object:
    return None if all(request.done() for request in pending) else NOT_YET


def _heard_of_root(mine: Handle, begun: Round, kind: type[msgspec.Struct]) -> object:
    root = mine.link.procs[0]
    if root not in begun.came:
        return NOT_YET
    return msgspec.json.decode(begun.came[root], type=kind)

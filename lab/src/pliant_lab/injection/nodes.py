"""Nodes that come and go in a fleet over a driver without processes: what it tells of them is consistent, every wait
has a deadline, and what a controller and an agent say to each other comes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

from pliant.drivers import carry_out
from pliant.drivers.fake import FakeAgent, FakeNodes
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import KEY, Fleet, Site
from pliant.live.fleet.stages import Happens, NodeStage
from pliant.model.need import Need
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant_lab.injection.audit.violation import Violation

GRACE_S = 40.0


_PROOFS: codec.Decoder[m.Proof] = codec.Decoder(m.Proof)
MOST = 6
"""Nodes at a time."""
GPU, WIDE = Need(labels=("gpu",)), Need(2)
NEEDS = (None, None, GPU, Need(1, ("gpu",)), WIDE)
"""What is asked for: no node is wide."""
LABELS: dict[str, tuple[str, ...]] = {f"n{number}": ("gpu",) for number in range(1, MOST + 2, 2)}
BEGINS_BADLY = 0.1
"""The share of lives in which the nodes that it begins with do not all come."""
WAITS = {NodeStage.COMING: "start", NodeStage.UNLINKED: "grace", NodeStage.LEAVING: "leave"}
"""What a node waits for that is in this stage, by its timer."""


def _hold(is_so: bool, what: str) -> None:  # noqa: FBT001 - what has to hold
    if not is_so:
        raise Violation("wrong", f"a fleet: {what}")


class Shell:
    """What a controller does for a fleet; what it tells goes to ``users``, by node: here, away, lost or gone."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.driver = FakeNodes(site)
        self.fleet = Fleet(site)
        self.now = 0.0
        self.timers: dict[tuple[str | int, ...], float] = {}
        self.state: dict[str, str] = {}
        self.granted = self.refused = 0
        self.asked: Counter[Need | None] = Counter()
        """What was asked for, and has neither come nor been refused."""
        self.leaving: set[str] = set()
        self.heard: dict[str, list[int]] = {}
        self.fresh: set[str] = set()
        """Nodes of which this controller, which is not the first, has heard nothing."""
        self.told: dict[str, int] = {}
        self.ordered: dict[str, list[int]] = {}
        self.unclean: set[str] = set()
        """Nodes on which something could not be ended: none of them is used again by the same controller."""
        self.problems: list[str] = []
        self.before: Counter[tuple[NodeStage, Happens]] = Counter()
        self.events: list[o.Input] = []
        self.driver.begin(self.take)

    def begin(self, count: int) -> None:
        """Begin with so many nodes."""
        self.asked[None] += count
        self.take(o.Begin(count))

    def ask(self, count: int, need: Need | None = None) -> None:
        """Ask for so many nodes more."""
        self.asked[need] += count
        self.fleet.request(count, need)
        self.go_on()

    @property
    def moves(self) -> Counter[tuple[NodeStage, Happens]]:
        """How often nodes have gone each way of the table, under all controllers."""
        return self.before + self.fleet.moves

    def take(self, given: o.Input) -> None:
        self.fleet.now = self.now
        self.fleet.take(given)  # type: ignore[arg-type]
        self.go_on()

    def go_on(self) -> None:
        fleet = self.fleet
        fleet.now = self.now
        fleet.acknowledge(written=True)
        outputs, fleet.outputs = fleet.outputs, []
        for output in outputs:
            self._do(output)
        events, fleet.events = fleet.events, []
        for event in events:
            self.events.append(event)
            self._told(event)

    def _do(self, output: o.Output) -> None:
        if carry_out(self.driver, output):
            return
        match output:
            case o.SetTimer():
                self.timers[output.key] = output.at
            case o.CannotBegin():
                self.problems.append(output.why)

    def _told(self, event: o.Input) -> None:  # noqa: C901 - a table: a case for each event
        match event:
            case o.Granted():
                for name in event.names:
                    self._is_usable(name)
                    self._move(name, "here", "gone")
                    self.granted += 1
                    self._anew(name)
                labels = event.labels or ((),) * len(event.names)
                _hold(
                    labels == tuple(self.site.labels.get(name, ()) for name in event.names)
                    and all(event.need is None or event.need.met(1, each) for each in labels),
                    f"{event.names} have the labels {labels}, and answer {event.need}",
                )
                self._answered(event.need, len(event.names))
            case o.Refused():
                self.refused += event.count
                self._answered(event.need, event.count)
            case o.Unlinked():
                self._move(event.node, "away", "here")
            case o.Greeted():
                self._move(event.node, "here", "away")
            case o.Lost():
                self._move(event.node, "gone" if event.final else "lost", "here", "away", "lost")
                if event.final:
                    self.leaving.discard(event.node)
                self._anew(event.node)
            case o.Back():
                self._is_usable(event.node)
                self._move(event.node, "here", "lost")
            case o.Returned():
                (name,) = event.names
                _hold(name in self.leaving, f"nobody has given {name} back")
                self.leaving.discard(name)
                self._move(name, "gone", "here", "away", "lost")
                self._anew(name)
            case o.Said():
                said = _PROOFS.decode(event.message)
                if event.node in self.fresh:
                    # What the last controller heard and did not acknowledge comes again.
                    self.fresh.discard(event.node)
                    del self.heard[event.node][said.job - 1 :]
                self.heard[event.node].append(said.job)
            case _:
                pass

    def _is_usable(self, name: str) -> None:
        _hold(name not in self.unclean, f"{name} is used, where something could not be ended")

    def _answered(self, need: Need | None, count: int) -> None:
        self.asked[need] -= count
        _hold(self.asked[need] >= 0, f"{-self.asked[need]} more with {need} are answered than were asked for")

    def _move(self, name: str, to: str, *before: str) -> None:
        at = self.state.get(name, "gone")
        _hold(at in before, f"{name} is {at}, and is told to be {to}")
        self.state[name] = to

    def _anew(self, name: str) -> None:
        """What an agent has told that is gone, nobody waits for."""
        self.heard[name], self.told[name], self.ordered[name] = [], 0, []
        self.fresh.discard(name)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [(at, key) for key, at in self.timers.items() if at <= until]:
            at, key = min(due, key=lambda each: (each[0], str(each[1])))
            self.now = max(self.now, at)
            del self.timers[key]
            self.take(o.Fired(key))
        self.now = until
        for agent in self.driver.agents.values():
            if agent.repeats:
                agent.again()

    def settle(self) -> None:
        """Everything comes that can."""
        for _ in range(50_000):
            driver = self.driver
            if driver.clearing:
                driver.cleared()
            elif driver.starting:
                driver.come(min(driver.starting))
            elif not driver.carry():
                linked = (driver.agents[name] for name in driver.linked)
                if not self.timers and not any(agent.repeats for agent in linked):
                    return
                self.pass_time(max(0.0, min(self.timers.values(), default=0.0) - self.now) + 1e-6)
        raise Violation("stuck", f"it never settles: {self.timers}, {driver.clearing}, {driver.starting}")


class Life:
    """Nodes that are asked for, given back and withdrawn, over links that break, agents that end, messages that are
    lost or doubled, and controllers that begin anew: so many ``steps``, drawn by a seed."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = Random(seed)  # noqa: S311 - seeded on purpose
        hosts = tuple(f"n{number}" for number in range(MOST + 2)) if seed % 2 else ()
        self.shell = Shell(
            Site(hosts=hosts, most=MOST, grace_s=GRACE_S, restarts=1, labels=LABELS, source="fake")
        )
        self.shell.begin(2)
        if self.random.random() < BEGINS_BADLY:
            self.begin_badly()
            return
        self.shell.settle()
        acts = (
            [self.talk] * 10 + [self.come] * 6 + [self.time_passes] * 4 + [self.ask] * 2 + [self.link] * 3
            + [self.withdraw, self.cross, self.give_back, self.expire, self.cut, self.cut, self.end, self.fail]
            + [self.begin_again]
        )  # fmt: skip
        for _ in range(steps):
            self.random.choice(acts)()
            self.look()
        self.end_well()

    def begin_badly(self) -> None:
        """An agent comes and ends before the other one is there."""
        shell = self.shell
        shell.driver.come("n0")
        while shell.driver.carry():
            pass
        shell.driver.end("n0")
        shell.settle()
        _hold(len(shell.problems) == 1 and not shell.granted, f"it begins without n0: {shell.problems}")

    def one(self, names: Iterable[str]) -> str:
        """One of these, or nothing if there is none."""
        return self.random.choice(sorted(names) or [""])

    def here(self) -> str:
        return self.one(name for name, state in self.shell.state.items() if state == "here")

    # ---- what happens --------------------------------------------------------------------------------

    def ask(self) -> None:
        self.shell.ask(self.random.randint(1, 3), self.random.choice(NEEDS))

    def withdraw(self) -> None:
        self.shell.fleet.withdraw(self.random.randint(1, 2))
        self.shell.go_on()

    def cross(self) -> None:
        """Nodes are withdrawn as the first words of an agent are on their way."""
        driver = self.shell.driver
        if name := self.one(driver.starting):
            driver.come(name)
            self.shell.fleet.withdraw(MOST)
            self.shell.go_on()
            for _ in range(len(driver.up)):
                driver.carry()

    def give_back(self) -> None:
        if name := self.here():
            if self.random.random() < 0.5:
                self.shell.fleet.expire([name])
            self.shell.leaving.add(name)
            self.shell.fleet.give_back([name])
            self.shell.go_on()

    def expire(self) -> None:
        self.shell.fleet.expire([self.one(self.shell.state)])

    def talk(self) -> None:
        """Both ends of a link tell something, of which some is lost or doubled."""
        shell = self.shell
        name = self.one(name for name, state in shell.state.items() if state in ("here", "away"))
        for word in self.random.choices(["order", "tell", "carry", "lose", "double"], [2, 2, 6, 1, 1], k=8):
            agent = shell.driver.agents.get(name)
            if word == "order" and name:
                shell.ordered[name].append(len(shell.ordered[name]) + 1)
                shell.fleet.send([name], m.Prove(len(shell.ordered[name])))
                shell.go_on()
            elif word == "tell" and agent is not None:
                shell.told[name] += 1
                agent.tell(m.Proof(shell.told[name], clean=True))
            else:
                shell.driver.carry(lose=word == "lose", double=word == "double")

    def cut(self) -> None:
        if name := self.one(self.shell.driver.linked):
            self.shell.driver.cut(name)

    def link(self) -> None:
        if name := self.one(self.shell.driver.agents.keys() - self.shell.driver.linked):
            self.shell.driver.link(name)

    def end(self) -> None:
        if name := self.one(self.shell.driver.agents):
            self.shell.driver.end(name)

    def come(self) -> None:
        """What the driver was told to do, it has done."""
        if self.shell.driver.clearing:
            clean = self.random.random() < 0.9
            if not clean:
                self.shell.unclean.add(self.shell.driver.clearing[0])
            self.shell.driver.cleared(clean=clean)
        elif name := self.one(self.shell.driver.starting):
            self.shell.driver.come(name)

    def fail(self) -> None:
        if name := self.one(self.shell.driver.starting):
            self.shell.driver.fail(name)

    def time_passes(self) -> None:
        self.shell.pass_time(self.random.choice([0.5, 1.0, 1.0, 30.0, GRACE_S + 1.0]))

    def begin_again(self) -> None:
        """The controller is killed: the next one knows which nodes it had."""
        shell = self.shell
        shell.before += shell.fleet.moves
        shell.fleet, shell.timers = Fleet(shell.site), {}
        shell.unclean.clear()
        shell.asked.clear()
        for agent in shell.driver.agents.values():
            agent.cut()
        shell.driver.begin(shell.take)
        there = [name for name, state in shell.state.items() if state in ("here", "away")]
        lost = [name for name, state in shell.state.items() if state == "lost"]
        shell.state |= dict.fromkeys(there, "away")
        shell.fresh = set(there)
        for name in there:
            shell.ordered[name] = []  # what is lost with a controller, the next one orders again
            if name in shell.driver.agents:
                shell.driver.agents[name].obeyed.clear()
        shell.fleet.now = shell.now
        shell.fleet.resume(there, lost)
        leaving, shell.leaving = shell.leaving, set()
        for name in sorted(leaving & {*there, *lost}):
            shell.leaving.add(name)
            shell.fleet.give_back([name])
        shell.go_on()

    # ---- what has to hold ----------------------------------------------------------------------------

    def look(self) -> None:
        shell = self.shell
        _hold(len(shell.fleet.nodes) <= MOST, f"there are {len(shell.fleet.nodes)} nodes")
        coming = sum(not node.is_known for node in shell.fleet.nodes.values())
        waits = sum(shell.asked.values())
        _hold(coming <= waits, f"{coming} nodes are to come, and {waits} are waited for")
        for name, node in shell.fleet.nodes.items():
            if node.is_clearing:
                _hold(name in shell.driver.clearing, f"nobody is to clear {name}")
            elif node.stage in WAITS:
                _hold(
                    (KEY, WAITS[node.stage], name) in shell.timers,
                    f"{name} is {node.stage} without a deadline",
                )
            else:
                _hold(
                    node.stage in (NodeStage.GRANTED, NodeStage.EXPIRING),
                    f"{name} is {node.stage}, and waits for nobody",
                )
        for name, heard in shell.heard.items():
            _hold(
                heard == [*range(1, len(heard) + 1)],
                f"{name} has told {len(heard)}, and heard is {heard[-5:]}",
            )
        for name, agent in shell.driver.agents.items():
            obeyed = proofs(agent)
            _hold(obeyed == [*range(1, len(obeyed) + 1)], f"{name} obeys {obeyed[-5:]} as its last orders")

    def end_well(self) -> None:
        """When all links stand and nothing is lost any more, all that was said has come."""
        shell = self.shell
        shell.settle()
        for name in sorted(shell.driver.agents.keys() - shell.driver.linked):
            shell.driver.link(name)
        shell.settle()
        self.look()
        here = {name for name, state in shell.state.items() if state == "here"}
        left = {name for name, state in shell.state.items() if state != "gone"}
        _hold(not shell.leaving, f"{shell.leaving} were given back, and stay")
        _hold(not +shell.asked, f"nobody answers what was asked for: {+shell.asked}")
        _hold(here == left == shell.fleet.nodes.keys(), f"{here} are here, and known are {left}")
        for name in here:
            told, heard = shell.told[name], len(shell.heard[name])
            _hold(told == heard, f"{name} has told {told}, and {heard} have come")
            ordered, obeyed = len(shell.ordered[name]), len(proofs(shell.driver.agents[name]))
            _hold(ordered == obeyed, f"{name} had {ordered} orders, and has obeyed {obeyed}")


def proofs(agent: FakeAgent) -> list[int]:
    """The orders that it has had."""
    return [each.job for each in agent.obeyed if isinstance(each, m.Prove)]

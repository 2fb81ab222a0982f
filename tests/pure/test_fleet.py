"""The fleet over a driver without processes: what it tells of nodes is consistent, and what is said comes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.drivers.fake import FakeAgent, FakeNodes
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import KEY, Fleet, Site
from pliant.live.fleet.stages import TABLE, Happens, Stage, moved
from pliant.model.errors import ProtocolError
from pliant.protocol import codec
from pliant.protocol import messages as m

GRACE_S = 40.0


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
        self.leaving: set[str] = set()
        self.heard: dict[str, list[int]] = {}
        self.fresh: set[str] = set()
        """Nodes of which this controller, which is not the first, has heard nothing."""
        self.told: dict[str, int] = {}
        self.ordered: dict[str, list[int]] = {}
        self.unclean: set[str] = set()
        """Nodes on which something could not be ended: none of them is used again by the same controller."""
        self.problems: list[str] = []
        self.before: Counter[tuple[Stage, Happens]] = Counter()
        self.events: list[o.Input] = []
        self.driver.begin(self.take)

    @property
    def moves(self) -> Counter[tuple[Stage, Happens]]:
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
        match output:
            case o.Send():
                for node in output.nodes:
                    raw = codec.raw(output.message)
                    self.driver.send(node, m.To((node,), raw, output.id, output.after))
            case o.StartAgents():
                self.driver.start(output.nodes)
            case o.Clear():
                self.driver.clear(output.node)
            case o.SetTimer():
                self.timers[output.key] = output.at
            case o.CannotBegin():
                self.problems.append(output.why)

    def _told(self, event: o.Input) -> None:
        match event:
            case o.Granted():
                for name in event.names:
                    assert self.state.get(name, "gone") == "gone", "a node that is not there"
                    self.state[name] = "here"
                    self.granted += 1
                    self._anew(name)
            case o.Refused():
                self.refused += event.count
            case o.Unlinked():
                assert self.state[event.node] == "here"
                self.state[event.node] = "away"
            case o.Greeted():
                assert self.state[event.node] == "away"
                self.state[event.node] = "here"
            case o.Lost():
                assert self.state[event.node] != "gone"
                self.state[event.node] = "gone" if event.final else "lost"
                if event.final:
                    self.leaving.discard(event.node)
                self._anew(event.node)
            case o.Back():
                assert self.state[event.node] == "lost"
                assert event.node not in self.unclean
                self.state[event.node] = "here"
            case o.Returned():
                (name,) = event.names
                assert name in self.leaving
                self.leaving.discard(name)
                self.state[name] = "gone"
                self._anew(name)
            case o.Said():
                said = codec.from_agent().decode(event.message)
                assert isinstance(said, m.Proof)
                if (
                    event.node in self.fresh
                ):  # what the last controller heard and did not acknowledge comes again
                    self.fresh.discard(event.node)
                    del self.heard[event.node][said.job - 1 :]
                self.heard[event.node].append(said.job)
            case _:
                pass

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
        raise AssertionError(f"not settled: {self.timers}, {driver.clearing}, {driver.starting}")


class Life:
    """Nodes that are asked for, given back and withdrawn, over links that break, agents that end, messages that are lost
    or doubled, and controllers that begin anew: so many ``steps``, drawn by a seed."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = Random(seed)
        self.shell = Shell(Site(most=6, grace_s=GRACE_S, restarts=1))
        self.shell.take(o.Begin(2))
        self.shell.settle()
        acts = (
            [self.talk] * 10 + [self.come] * 6 + [self.time_passes] * 4 + [self.ask] * 2 + [self.link] * 3
            + [self.withdraw, self.give_back, self.expire, self.cut, self.cut, self.end, self.fail, self.begin_again]
        )  # fmt: skip
        for _ in range(steps):
            self.random.choice(acts)()
            self.look()
        self.end_well()

    def one(self, names: Iterable[str]) -> str:
        """One of these, or nothing if there is none."""
        return self.random.choice(sorted(names) or [""])

    def here(self) -> str:
        return self.one(name for name, state in self.shell.state.items() if state == "here")

    # ---- what happens --------------------------------------------------------------------------------

    def ask(self) -> None:
        self.shell.fleet.request(self.random.randint(1, 3))
        self.shell.go_on()

    def withdraw(self) -> None:
        self.shell.fleet.withdraw(self.random.randint(1, 2))
        self.shell.go_on()

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
        shell, name = self.shell, self.here()
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
        waits = {Stage.COMING: "start", Stage.UNLINKED: "grace", Stage.LEAVING: "leave"}
        assert len(shell.fleet.nodes) <= 6
        for name, node in shell.fleet.nodes.items():
            if node.is_clearing:
                assert name in shell.driver.clearing, "somebody is to clear it"
            elif node.stage in waits:
                assert (KEY, waits[node.stage], name) in shell.timers, "every wait has a deadline"
            else:
                assert node.stage in (Stage.GRANTED, Stage.EXPIRING), node.stage
        for name, heard in shell.heard.items():
            assert heard == list(range(1, len(heard) + 1)), f"of {name} each comes once, and in order"
        for name, agent in shell.driver.agents.items():
            assert proofs(agent) == list(range(1, len(proofs(agent)) + 1)), f"{name} obeys once, and in order"

    def end_well(self) -> None:
        """When all links stand and nothing is lost any more, all that was said has come."""
        shell = self.shell
        shell.settle()
        for name in sorted(shell.driver.agents.keys() - shell.driver.linked):
            shell.driver.link(name)
        shell.settle()
        self.look()
        here = {name for name, state in shell.state.items() if state == "here"}
        assert not shell.leaving
        assert (
            here
            == {name for name, state in shell.state.items() if state != "gone"}
            == shell.fleet.nodes.keys()
        )
        for name in here:
            assert len(shell.heard[name]) == shell.told[name], "all that was told has come"
            assert len(proofs(shell.driver.agents[name])) == len(shell.ordered[name]), (
                "and all that was ordered"
            )


def proofs(agent: FakeAgent) -> list[int]:
    """The orders that it has had."""
    return [each.job for each in agent.obeyed if isinstance(each, m.Prove)]


@given(st.integers(0, 1 << 32))
def test_nodes_come_and_go_and_what_is_said_comes_once(seed: int) -> None:
    Life(seed, 120)


def test_nodes_go_every_way_of_the_table() -> None:
    moves: Counter[tuple[Stage, Happens]] = Counter()
    for seed in range(60):
        moves += Life(seed, 120).shell.moves
    shell = begun(Site(), 2)
    shell.driver.come("n0")
    while shell.driver.carry():
        pass
    shell.driver.end("n0")
    moves += shell.moves
    assert moves.keys() == TABLE.keys(), TABLE.keys() - moves.keys()


def begun(site: Site, count: int) -> Shell:
    shell = Shell(site)
    shell.take(o.Begin(count))
    return shell


def test_a_run_begins_with_all_nodes_or_with_none() -> None:
    shell = begun(Site(hint="try fewer"), 3)
    shell.driver.come("n0")
    shell.driver.fail("n1")
    while shell.driver.carry():
        pass
    shell.driver.cleared()
    assert not shell.problems, "n2 may come"
    shell.pass_time(21.0)
    shell.driver.cleared()
    why = "2 of 3 nodes cannot be had: n1: no disk; n2: no word from its agent within 20 s; try fewer"
    assert shell.problems == [why]
    assert not shell.granted


def test_hosts_that_were_used_come_again_behind_the_others_and_lost_ones_never() -> None:
    shell = begun(Site(hosts=("a", "b", "c"), restarts=0), 2)
    shell.settle()
    shell.leaving.add("a")
    shell.fleet.give_back(["a"])
    shell.go_on()
    shell.settle()
    shell.fleet.request(1)
    shell.go_on()
    shell.settle()
    assert shell.events[-1] == o.Granted(("c",), (1,))
    shell.driver.end("b")
    shell.settle()
    shell.fleet.request(2)
    shell.go_on()
    shell.settle()
    assert o.Refused(1, "of 3 hosts 1 is there to be added") in shell.events
    assert shell.state == {"a": "here", "b": "gone", "c": "here"}


def test_what_is_withdrawn_is_told_as_refused_and_what_had_come_stays() -> None:
    shell = begun(Site(), 1)
    shell.settle()
    shell.fleet.request(3)
    shell.go_on()
    shell.driver.come("n1")
    while shell.driver.carry():
        pass
    shell.fleet.withdraw(5)
    shell.go_on()
    shell.settle()
    assert (shell.granted, shell.refused) == (2, 2)
    assert o.Refused(1, "n3: it was withdrawn") in shell.events
    assert sorted(shell.fleet.nodes) == ["n0", "n1"]


def test_a_stop_of_the_controller_is_no_deadline() -> None:
    shell = begun(Site(grace_s=GRACE_S), 1)
    shell.settle()
    shell.driver.cut("n0")
    (key,) = (key for key in shell.timers if key[1] == "grace")
    shell.now += 1000.0
    shell.take(o.Fired(key))
    assert not shell.driver.clearing
    shell.driver.link("n0")
    shell.settle()
    assert shell.state == {"n0": "here"}


def test_another_agent_is_not_taken_before_what_the_one_before_it_left_is_ended() -> None:
    shell = begun(Site(grace_s=GRACE_S), 1)
    shell.settle()
    shell.take(o.Heard("n0", codec.raw(m.AgentHello("n0", 1, 99))))
    assert shell.driver.clearing == ["n0"]
    shell.settle()
    kinds = Counter(type(event).__name__ for event in shell.events)
    assert (kinds["Lost"], kinds["Back"]) == (1, 1)


def test_an_agent_that_nobody_has_asked_for_is_ended() -> None:
    shell = begun(Site(), 1)
    shell.settle()
    shell.take(o.Heard("n7", codec.raw(m.AgentHello("n7", 1, 99))))
    assert shell.driver.clearing == ["n7"]


def test_what_cannot_happen_is_named() -> None:
    with pytest.raises(ProtocolError, match="a node that is lost cannot meet grant"):
        moved(Stage.LOST, Happens.GRANT)
    assert {stage for stage, _ in TABLE} == set(Stage) - {Stage.GONE}
    assert set(TABLE.values()) == set(Stage)

"""The fleet over a driver without processes: what it tells of nodes is consistent, and what is said comes once."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Fleet, Site
from pliant.live.fleet.stages import TABLE, Happens, NodeStage, moved
from pliant.model.errors import ProtocolError
from pliant.model.need import Need
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant_lab.injection.nodes import GRACE_S, Life, Shell, proofs

GPU, BIG = Need(labels=("gpu",)), Need(labels=("big", "gpu"))


@given(st.integers(0, 1 << 32))
def test_nodes_come_and_go_and_what_is_said_comes_once(seed: int) -> None:
    Life(seed, 120)


def test_nodes_go_every_way_of_the_table() -> None:
    moves: Counter[tuple[NodeStage, Happens]] = Counter()
    for seed in range(60):
        moves += Life(seed, 120).shell.moves
    assert moves.keys() == TABLE.keys(), TABLE.keys() - moves.keys()


def begun_shell(site: Site, count: int) -> Shell:
    shell = Shell(site)
    shell.begin(count)
    return shell


def test_a_run_begins_with_all_nodes_or_with_none() -> None:
    shell = begun_shell(Site(hint="try fewer"), 3)
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
    shell = begun_shell(Site(hosts=("a", "b", "c"), restarts=0), 2)
    shell.settle()
    shell.leaving.add("a")
    shell.fleet.give_back(["a"])
    shell.go_on()
    shell.settle()
    shell.ask(1)
    shell.settle()
    assert shell.events[-1] == o.Granted(("c",), (1,))
    shell.driver.end("b")
    shell.settle()
    shell.ask(2)
    shell.settle()
    assert o.Refused(1, "of 3 hosts 1 is there to be added") in shell.events
    assert shell.state == {"a": "here", "b": "gone", "c": "here"}


@pytest.mark.parametrize(
    ("hosts", "need", "why"),
    [
        (("a", "b", "c"), Need(3), "nodes have 2 slots here, and 3 are asked for"),
        (("a", "b", "c"), BIG, "no node here is labelled big and gpu; the labels are: big, gpu"),
        (("a", "b", "c"), GPU, "of 1 host labelled gpu 0 are there to be added"),
        ((), Need(3), "nodes have 2 slots here, and 3 are asked for"),
        ((), Need(1, ("cpu",)), "no node here is labelled cpu; the labels are: big, gpu"),
    ],
)
def test_what_no_node_can_ever_fulfil_is_refused_at_once(
    hosts: tuple[str, ...], need: Need, why: str
) -> None:
    site = Site(hosts=hosts, slots=2, labels={"a": ("gpu",), "b": ("big",)})
    shell = begun_shell(site, 2)
    shell.settle()
    shell.ask(2, need)
    assert shell.events[-1] == o.Refused(2, why, need)


@pytest.mark.parametrize("hosts", [("n0", "n1", "n2"), ()])
def test_a_request_gets_nodes_with_its_labels_and_waits_for_one_that_is_leaving(
    hosts: tuple[str, ...],
) -> None:
    site = Site(hosts=hosts, labels={"n0": ("gpu",), "n2": ("big", "gpu")}, source="ssh")
    shell = begun_shell(site, 1)
    shell.settle()
    assert shell.events == [o.Granted(("n0",), (1,), None, (("gpu",),), "ssh")]
    shell.leaving.add("n0")
    shell.fleet.give_back(["n0"])
    shell.ask(3, GPU)
    why = f"of 2 {'hosts' if hosts else 'nodes'} labelled gpu 1 is there to be added"
    assert shell.events[1:] == [o.Refused(1, why, GPU)], "of the others one comes, and one waits"
    shell.settle()
    assert shell.events[2:] == [
        o.Granted(("n2",), (1,), None, (("big", "gpu"),), "ssh", GPU),
        o.Returned(("n0",)),
        o.Granted(("n0",), (1,), None, (("gpu",),), "ssh", GPU),
    ]


@pytest.mark.parametrize("first", ["cpu", "gpu"])
def test_a_node_that_leaves_is_kept_for_the_request_that_no_other_one_fits(first: str) -> None:
    shell = begun_shell(Site(hosts=("cpu", "gpu"), labels={"gpu": ("gpu",)}), 2)
    shell.settle()
    shell.leaving |= {"cpu", "gpu"}
    shell.fleet.give_back([first])
    shell.fleet.give_back(["gpu" if first == "cpu" else "cpu"])
    shell.ask(1)
    shell.ask(1, GPU)
    shell.settle()
    assert not shell.refused
    assert shell.granted == 4
    assert sorted(shell.fleet.nodes) == ["cpu", "gpu"]


def test_what_waits_is_withdrawn_first_and_refused_where_nothing_can_come_any_more() -> None:
    shell = begun_shell(Site(hosts=("a",)), 1)
    shell.settle()
    shell.leaving.add("a")
    shell.fleet.give_back(["a"])
    shell.ask(1)
    shell.fleet.withdraw(1)
    shell.go_on()
    assert shell.events[-1] == o.Refused(1, "it was withdrawn")
    shell.ask(1)
    shell.pass_time(10.0)
    shell.leaving.clear()
    shell.driver.cleared(clean=False)
    assert o.Refused(1, "of 1 host 0 are there to be added") in shell.events


def test_what_is_withdrawn_is_told_as_refused_and_what_had_come_stays() -> None:
    shell = begun_shell(Site(), 1)
    shell.settle()
    shell.ask(3)
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
    shell = begun_shell(Site(grace_s=GRACE_S), 1)
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
    shell = begun_shell(Site(grace_s=GRACE_S), 1)
    shell.settle()
    shell.take(o.Heard("n0", codec.raw(m.AgentHello("n0", 1, 99))))
    assert shell.driver.clearing == ["n0"]
    shell.settle()
    kinds = Counter(type(event).__name__ for event in shell.events)
    assert (kinds["Lost"], kinds["Back"]) == (1, 1)


def test_an_agent_that_nobody_has_asked_for_is_ended() -> None:
    shell = begun_shell(Site(), 1)
    shell.settle()
    shell.take(o.Heard("n7", codec.raw(m.AgentHello("n7", 1, 99))))
    assert shell.driver.clearing == ["n7"]


def test_what_cannot_happen_is_named() -> None:
    with pytest.raises(ProtocolError, match="a node that is lost cannot meet grant"):
        moved(NodeStage.LOST, Happens.GRANT)
    assert {stage for stage, _ in TABLE} == set(NodeStage) - {NodeStage.GONE}
    assert set(TABLE.values()) == set(NodeStage)


def test_a_node_whose_unknown_agent_is_being_cleared_is_cleared_once_and_starts_behind_that() -> None:
    fleet = Fleet(Site())
    hello = o.Heard("n0", codec.raw(m.AgentHello("n0", 1, 7, (), ())))
    fleet.take(hello)
    fleet.take(hello)
    assert fleet.outputs == [o.Clear("n0")]
    fleet.outputs.clear()
    fleet.request(1)
    assert not fleet.outputs, "its agent would be ended with the unknown one"
    fleet.take(o.Cleared("n0"))
    assert o.StartAgents(("n0",)) in fleet.outputs
    fleet.nodes.clear()
    fleet.take(hello)
    assert fleet.outputs[-1] == o.Clear("n0"), "another one has come later"


def test_people_are_told_that_a_node_is_not_used_again_where_an_unknown_agent_has_left_something() -> None:
    fleet = Fleet(Site())
    fleet.take(o.Heard("n0", codec.raw(m.AgentHello("n0", 1, 7))))
    fleet.take(o.Cleared("n0", "process 7 cannot be ended"))
    assert fleet.outputs[1:] == [o.Notice("n0 is not used again: process 7 cannot be ended")]
    fleet.request(1)
    assert fleet.outputs[-1] == o.StartAgents(("n1",))


def test_an_order_that_waited_for_a_link_and_is_lost_on_it_comes_again() -> None:
    shell = begun_shell(Site(grace_s=GRACE_S), 1)
    shell.settle()
    shell.driver.cut("n0")
    shell.fleet.send(["n0"], m.Prove(1))
    shell.go_on()
    shell.driver.link("n0")
    assert shell.driver.carry()  # the agent's greeting
    while shell.driver.carry(lose=True):
        pass
    shell.settle()
    assert proofs(shell.driver.agents["n0"]) == [1]

"""The machine of a live cluster: nodes that come and go, and its recording played again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.daemon.answering import answer
from pliant.daemon.control import ControlRequest
from pliant.daemon.controller import Controller
from pliant.drivers.fake import FakeNodes
from pliant.live import recording
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import Cluster, RunContext
from pliant.live.control import Control
from pliant.live.fleet.fleet import Site
from pliant.model.errors import ProtocolError
from pliant.model.jobs import Bounds, JobSpec, JobState
from pliant.model.kinds import JobKind
from pliant.model.need import Need
from pliant.model.nodes import NodeSet
from pliant.policy.registry import make
from pliant.policy.view import ClusterView, Decision
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant_lab.injection.audit.memory import weigh

HOME = RunContext("/out", "/home", {"A": "b"}, bytes(range(16)))


class Driven:
    """A cluster that is told one thing after another, a second apart."""

    def __init__(self, nodes: int) -> None:
        self.cluster = Cluster(make("easy"), Settings(), HOME)
        self.records: list[r.Record] = []
        self.now = -1.0
        self.put(o.Granted(tuple(f"n{i}" for i in range(nodes)), (1,) * nodes))

    def again(self) -> list[o.Output]:
        """Another controller begins with the records of this one."""
        self.cluster = Cluster(make("easy"), Settings(), HOME, self.records)
        return self.put(o.Resumed("killed"))

    def back(self, node: str) -> list[o.Output]:
        """Its agent is back, and has nothing."""
        return self.put(o.Greeted(node, m.AgentHello(node, 1, 7)), o.Repeated(node))

    def put(self, *inputs: o.OfCluster) -> list[o.Output]:
        self.now += 1.0
        records, outputs = self.cluster.handle(inputs, self.now)
        self.records += records
        return [*outputs, *self.put()] if self.cluster.pending else outputs

    def say(self, node: str, message: m.AgentMessage) -> list[o.Output]:
        return self.put(o.Said(node, codec.raw(message)))

    def made(self, kind: type[r.Record]) -> list[r.Record]:
        return [record for record in self.records if isinstance(record, kind)]


def job(name: str, nodes: int) -> JobSpec:
    return JobSpec(name=name, nodes=Bounds(nodes, nodes), command=("true",))


def three_for_two() -> Driven:
    """A job on one of two nodes, and one that waits for three."""
    it = Driven(2)
    it.put(o.Batch((job("small", 1), job("large", 3))))
    assert [record.job for record in it.made(r.JobStarted) if isinstance(record, r.JobStarted)] == [1]
    return it


class Counting:
    """A policy that says how many nodes it saw in each pass, and asks for nothing."""

    name = "counting"
    rebalances = True

    def __init__(self) -> None:
        self.seen: list[int] = []

    def decide(self, view: ClusterView) -> list[Decision]:
        self.seen.append(view.total)
        return []


def test_a_policy_is_not_asked_before_there_are_nodes() -> None:
    policy = Counting()
    cluster = Cluster(policy, Settings(), HOME)
    cluster.handle((), 0.0)
    assert not policy.seen
    cluster.handle((o.Granted(("n0", "n1"), (1, 1)),), 0.0)
    assert policy.seen == [2]


def test_a_job_that_waits_starts_on_nodes_that_were_added() -> None:
    it = three_for_two()
    assert it.put(o.Ask(3)) == [o.Acquire(3)]
    it.put(o.Refused(1, "no room"))
    outputs = it.put(o.Granted(("extra", "more"), (1, 2)))
    assert {node for each in outputs if isinstance(each, o.Send) for node in each.nodes} == {
        "n1", "extra", "more",
    }  # fmt: skip
    assert it.cluster.core.state.nodes.names == {0: "n0", 1: "n1", 2: "extra", 3: "more"}


def test_nodes_that_are_asked_back_go_when_they_are_clean_and_may_come_again() -> None:
    it = Driven(3)
    it.put(o.Batch((job("small", 1),)))
    assert it.put(o.Reclaim(("n0", "n2", "n9"))) == [o.GiveBack(("n2",))]
    it.put(o.Returned(("n2",)))
    assert it.made(r.NodesReturned) == [r.NodesReturned(it.now, NodeSet.of([2]))]
    it.put(o.Lost("n9"), o.Lost("n2"), o.Back("n2"), o.Returned(("n2",)))
    assert not it.made(r.NodesLost)
    outputs = it.put(o.Cancel(1, "enough"))
    assert not any(isinstance(each, o.GiveBack) for each in outputs)
    it.put(o.EndNow())
    assert o.GiveBack(("n0",)) in it.say("n0", m.Proof(1, clean=True))
    it.put(o.Returned(("n0",)), o.Granted(("n2",), (4,)))
    assert it.cluster.core.state.nodes.all_mask == 0b110
    assert it.cluster.core.state.nodes.slots[2] == 4


def test_a_job_hears_of_a_node_that_is_taken_away_unasked() -> None:
    it = Driven(2)
    spec = JobSpec(name="t", nodes=Bounds(2, 2), command=("true",), kind=JobKind.TASKS)
    it.put(o.Batch((spec,)))
    it.say("n0", m.Started(1, 0, (7,)))
    it.put(o.Returned(("n1",)))
    assert len(it.made(r.GroupsLost)) == 1
    it.say("n0", m.Exited(1, 0, 0, 0))
    it.put(o.Tail(1, ""))
    (ended,) = it.made(r.JobEnded)
    assert isinstance(ended, r.JobEnded)
    assert ended.state is JobState.NODE_FAIL
    assert not it.made(r.NodesReturned)


def test_a_group_that_is_lost_while_its_start_waits_for_the_disk_is_not_started() -> None:
    driven = Driven(2)
    spec = JobSpec(name="t", nodes=Bounds.exactly(2), kind=JobKind.TASKS, command=("true",))
    records, _ = driven.cluster.handle((o.Batch((spec,)),), driven.now)
    assert any(isinstance(record, r.JobStarted) for record in records)
    driven.put(o.Hold("journal", "the disk is full"))
    assert not driven.put(o.Lost("n0"), o.Back("n0"))
    [order] = [each for each in driven.put(o.Release("journal")) if isinstance(each, o.Send)]
    assert isinstance(order.message, m.StartGroup)
    assert (order.nodes, order.message.group) == (("n1",), 1)
    driven.say("n1", m.Started(1, 1, (7,)))
    driven.say("n1", m.Exited(1, 1, 0, 0))
    [end] = driven.made(r.JobEnded)
    assert isinstance(end, r.JobEnded)
    assert (end.state, end.error) == (JobState.NODE_FAIL, "lost group 0 on n0: lost node n0")


def test_a_node_that_comes_back_while_the_disk_is_full_is_given_back_once() -> None:
    it = three_for_two()
    it.put(o.Granted(("n2",), (1,)))
    it.put(o.Hold("journal", "the disk is full"))
    it.put(o.Reclaim(("n2",)))
    assert not it.put(o.Lost("n2"), o.Back("n2"))
    outputs = it.put(o.Release("journal"))
    assert [each for each in outputs if isinstance(each, o.GiveBack)] == [o.GiveBack(("n2",))]


def test_a_job_for_which_too_few_nodes_are_left_is_told_so_unless_more_were_asked_for() -> None:
    it = Driven(3)
    it.put(o.Batch((job("small", 1), job("large", 3))))
    it.put(o.Ask(1))
    it.put(o.Reclaim(("n2",)))
    assert not it.made(r.JobEnded)
    it.put(o.Refused(1, "none"))
    (ended,) = it.made(r.JobEnded)
    assert isinstance(ended, r.JobEnded)
    assert (ended.job, ended.state) == (2, JobState.CANCELLED)
    assert ended.error == "it needs 3 nodes, and 2 are left (n2 was asked back)"


def test_a_job_for_which_too_few_nodes_are_left_is_told_which_are_gone_and_since_when() -> None:
    it = Driven(4)
    it.put(o.Batch((job("long", 1), job("wide", 4))))
    it.now = 11.0
    it.put(o.Reclaim(("n1",)))
    (ended,) = it.made(r.JobEnded)
    assert isinstance(ended, r.JobEnded)
    assert ended.error == "it needs 4 nodes, and 3 are left (n1 was asked back)"
    it.now = 19.0
    it.put(o.Returned(("n1",)))
    it.now = 29.0
    it.put(o.Lost("n2"))
    it.now = 39.0
    it.put(o.Lost("n2", final=True), o.Lost("n3", final=True))
    it.put(o.Batch((job("wider", 3),)))
    (_, ended) = it.made(r.JobEnded)
    assert isinstance(ended, r.JobEnded)
    assert ended.error == (
        "it needs 3 nodes, and 1 is left (n1 was given back at 20.0 s; n2 was lost at 30.0 s; n3 was lost at 40.0 s)"
    )


def test_every_job_that_is_cancelled_has_a_reason() -> None:
    it = Driven(1)
    it.put(o.Batch((job("a", 1), job("b", 1), job("c", 1), job("d", 1))))
    it.put(o.Cancel(2, "cancelled by its user"), o.Cancel(3, ""))
    it.put(o.EndNow("the run was ended by SIGINT"))
    ends = [each for each in it.made(r.JobEnded) if isinstance(each, r.JobEnded)]
    assert sorted((each.job, each.state, each.error) for each in ends) == [
        (1, JobState.FAILED, "the run was ended by SIGINT"),
        (2, JobState.CANCELLED, "cancelled by its user"),
        (3, JobState.CANCELLED, "cancelled"),
        (4, JobState.CANCELLED, "the run was ended by SIGINT"),
    ]


def test_ranks_that_end_with_their_agent_are_the_loss_of_their_node() -> None:
    it = Driven(2)
    it.put(o.Batch((job("a", 2),)))
    it.say("n1", m.Leaving("its agent was ended by SIGTERM"))
    it.say("n1", m.Exited(1, 1, 0, -9, 1.5))
    assert not it.made(r.JobEnding)
    it.put(o.Lost("n1", why="its agent is gone"))
    (ending,) = it.made(r.JobEnding)
    assert isinstance(ending, r.JobEnding)
    assert (ending.state, ending.error) == (
        JobState.NODE_FAIL,
        "lost node n1: its agent was ended by SIGTERM",
    )


def test_what_has_been_told_is_kept_no_longer_though_nothing_happens_any_more() -> None:
    driven = Driven(1)
    idle = weigh(driven.cluster)
    driven.put(o.Hold("journal", "the disk is full"), o.Batch(tuple(job(f"j{i}", 1) for i in range(200))))
    driven.put(o.Lost("n0", final=True))
    assert len(driven.made(r.JobEnded)) == 200
    assert weigh(driven.cluster) - weigh(driven.cluster.core.state.over) < idle + 20


def test_a_run_whose_nodes_are_on_their_way_is_not_stuck() -> None:
    it = Driven(1)
    it.put(o.Ask(1), o.Batch((job("a", 2),)))
    assert not it.made(r.PolicyFailed)
    it.put(o.Granted(("n1",), (1,)))
    assert it.made(r.JobStarted)


def wants(outputs: list[o.Output]) -> list[o.Output]:
    """What is wanted of whoever has the nodes."""
    return [each for each in outputs if isinstance(each, o.Acquire | o.GiveBack)]


def nodes_asked_for_and_back() -> Driven:
    """Two of three nodes that were asked for are on their way, one of three is on its way back and one was returned."""
    it = Driven(4)
    assert wants(it.put(o.Ask(3))) == [o.Acquire(3)]
    it.put(o.Refused(1, "none"))
    assert wants(it.put(o.Reclaim(("n2", "n3")))) == [o.GiveBack(("n2", "n3"))]
    it.put(o.Returned(("n3",)))
    return it


def test_a_controller_that_begins_again_asks_again_for_nodes_and_gives_back_what_it_gave_back() -> None:
    it = nodes_asked_for_and_back()
    assert not wants(it.again())
    assert wants(it.put(*map(o.Lost, ("n0", "n1", "n2")))) == [o.Acquire(2)]
    # The node that was to go is lost with all others: it goes when its agent is there.
    assert not wants(it.put(o.Back("n0"), o.Back("n3"), o.Lost("n3")))
    assert wants(it.put(o.Back("n1"), o.Back("n2"))) == [o.GiveBack(("n2",))]
    it.put(o.Returned(("n2",)), o.Granted(("n4", "n5"), (1, 1)))
    # They have the numbers of those that were returned.
    state = it.cluster.core.state
    assert (state.nodes.awaited, state.nodes.free_mask, state.nodes.all_mask) == (0, 0b1111, 0b1111)


def test_one_that_finds_its_agents_again_does_so_when_all_are_there() -> None:
    it = nodes_asked_for_and_back()
    assert not wants(it.again())
    it.put(o.Unlinked("n3"), o.Unlinked("n9"), o.Back("n3"), o.Lost("n3", final=True))
    for node in ("n0", "n1"):
        assert not wants(it.back(node))
    assert sorted(map(repr, wants(it.back("n2")))) == [repr(o.Acquire(2)), repr(o.GiveBack(("n2",)))]
    it.put(o.Returned(("n2",)), o.Refused(2, "none"), o.Unlinked("n2"))
    assert it.cluster.core.state.nodes.free_mask == it.cluster.core.state.nodes.all_mask == 0b11
    assert not it.made(r.NodesLost)


def test_a_request_that_waits_for_a_node_that_leaves_still_does_so_after_a_restart() -> None:
    it = Recorded(Site(grace_s=60.0, hosts=("n0", "n1")))
    it.put(o.Reclaim(("n1",)))
    it.put(o.Ask(1))
    it.again()
    it.put(it.hello("n0"), it.hello("n1"))
    it.put(o.Ended("n1", "it has left"))
    it.put(o.Cleared("n1"))
    it.put(o.Cleared("n1"))  # of what the controller before may have started there
    it.put(it.hello("n1", 8))
    made = [type(record) for record in it.records if isinstance(record, r.NodesRefused | r.NodesGranted)]
    assert made == [r.NodesGranted, r.NodesRefused, r.NodesGranted], (
        "the first request is for more than there are"
    )


class Recorded:
    """A controller that is told one thing after another, a second apart, and recorded."""

    def __init__(self, site: Site | None = None) -> None:
        self.site = site or Site(grace_s=60.0)
        self.control = Control.of(make("easy"), Settings(), HOME, self.site)
        self.records: list[r.Record] = []
        self.now = 0.0
        self.lines = [recording.head(self._head)]
        self.put(o.Begin(2), self.hello("n0"), self.hello("n1"))
        self.put(o.Batch((job("small", 1), job("large", 3))))
        self.put(o.Ask(3))

    _head = recording.RecordingHead(HOME, Settings(), "easy", "2026-01-01T00:00:00Z", Site(grace_s=60.0))

    def hello(self, node: str, pid: int = 7) -> o.Heard:
        return o.Heard(node, codec.raw(m.AgentHello(node, 1, pid)))

    def put(self, *inputs: o.AnyInput) -> None:
        self.now += 1.0
        records, outputs = self.control.handle(inputs, self.now)
        self.records += records
        self.lines.append(recording.line(inputs, self.now, records, outputs))
        if self.control.pending:
            self.put()

    def again(self) -> None:
        self.control = Control.of(make("easy"), Settings(), HOME, self.site, self.records)
        self.lines.append(recording.head(self._head, self.records))
        self.put(o.Resumed("killed"))


def test_nodes_list_tells_those_that_leave_and_what_is_still_wanted(tmp_path: Path) -> None:
    site = Site(labels={"n7": ("gpu",), "n8": ("gpu",)})
    controller = Controller(make("easy"), Settings(), FakeNodes(site), output=tmp_path)
    it = Recorded()
    it.control = controller._control
    it.put(o.Begin(3), it.hello("n0"), it.hello("n1"), it.hello("n2"))
    it.put(o.Ask(2, Need(labels=("gpu",))), o.Ask(1), o.Lost("n1"), o.Reclaim(("n2",)), o.AskLess(2))
    listed = answer(controller, ControlRequest("list"))
    assert [each["use"] for each in listed.there] == ["free", "lost", "leaving"]
    assert listed.awaited == [{"count": 1, "slots": 0, "labels": ("gpu",)}]


def differing_lines(lines: list[bytes]) -> list[int]:
    return [each.line for each in recording.replay(lines, lambda head: make(head.policy))]


def test_a_recording_played_again_gives_the_same_and_tells_where_it_does_not() -> None:
    it = Recorded()
    it.put(it.hello("n2"), o.Ended("n3", "no"), o.Cleared("n3"), o.Tail(1, "é\n"), o.Resize(1, 2, ("n0",)))
    it.put(o.Heard("n0", codec.raw(m.Exited(1, 0, 0, 0)), 1))
    it.again()
    it.put(it.hello("n0"), it.hello("n1"), o.Cut("n1", "cut"))
    it.put(o.EndAll("over"))
    assert len(it.lines) > 10
    assert differing_lines(it.lines) == []
    assert (
        differing_lines([*it.lines, *it.lines, b'{"type":"Ba']) == []
    )  # two runs of one process; then it was killed
    asked = next(number for number, line in enumerate(it.lines) if b'"count":3' in line)
    other = it.lines[asked].replace(b'"count":3', b'"count":2', 1)
    assert differing_lines([*it.lines[:asked], other, *it.lines[asked + 1 :]])[0] == asked + 1


def test_behind_a_pass_that_was_abandoned_nothing_is_played() -> None:
    it = Recorded()
    abandoned = recording.line([o.Ask(3)], it.now, [], [], cut=True)
    after = recording.line([o.Ask(3)], it.now, [], [])
    assert differing_lines([*it.lines, abandoned, after]) == []
    assert differing_lines([*it.lines, after]) == [len(it.lines) + 1]


def test_what_is_no_recording_is_named() -> None:
    it = Recorded()
    with pytest.raises(ProtocolError, match=r"line 2 of the recording: .*malformed"):
        differing_lines([it.lines[0], b"garbage\n"])
    with pytest.raises(ProtocolError, match="line 1 of the recording: it does not say"):
        differing_lines(it.lines[1:])

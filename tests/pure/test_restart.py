"""A controller that begins again with the bytes of its journal: what it says to agents that are back, word for word.

Any other order of things is tried in worlds of faults (``pliant bench world``), half of which have an orphan grace.
"""

from __future__ import annotations

import pytest

from pliant.core import records as r
from pliant.core.journal import Header, header_line, read
from pliant.core.settings import Settings
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import Cluster, RunContext
from pliant.live.control import Control
from pliant.live.fleet.fleet import Site
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.policy.fcfs import Fcfs
from pliant.protocol import codec, resizing
from pliant.protocol import messages as m

GRACE = 60.0
SETTINGS = Settings(cooldown_s=0.0, decline_backoff_s=0.0)
HOME = RunContext("/out", "/", {}, b"secret")
WHY = "the controller was killed"
NODES = ("n0", "n1", "n2")
SESSION = 5


class Agents:
    """A cluster, with agents that are what it is told of them."""

    def __init__(self, grace: float = GRACE) -> None:
        self.acked: list[str] = []
        self.reads = True
        """The end of a job's output is read at once."""
        self.now = 0.0
        self.grace = grace
        self.lines = [header_line(Header(began="2026-01-01T00:00:00Z", policy="fcfs", settings=SETTINGS))]
        self.orders: list[tuple[str, m.ControllerMessage]] = []
        self.numbers = dict.fromkeys(NODES, 0)
        self.tokens: dict[int, str] = {}
        self.control = Control.of(Fcfs(), SETTINGS, HOME, Site(grace_s=grace))
        self.tell(o.Begin(3))
        for group in range(3):
            self.hello(group)

    def tell(self, *inputs: o.AnyInput) -> list[tuple[str, m.ControllerMessage]]:
        """The orders that follow, but for acknowledgements, which are in ``acked``."""
        self.now += 0.1
        records, outputs = self.control.handle(inputs, self.now)
        while self.control.pending:
            more, others = self.control.handle((), self.now)
            records, outputs = [*records, *more], [*outputs, *others]
        self.lines += [r.to_line(record) for record in records]
        self.cleared = [each.node for each in outputs if isinstance(each, o.Clear)]
        sent = [(each.nodes[0], each.message) for each in outputs if isinstance(each, o.Send)]
        self.tokens |= {each.group: each.token for _, each in sent if isinstance(each, m.StartGroup)}
        for each in outputs:
            if isinstance(each, o.ReadTail) and self.reads:
                sent += self.tell(o.Tail(each.job, ""))
        self.acked += [node for node, each in sent if isinstance(each, m.Ack) and each.number]
        return [(node, each) for node, each in sent if not isinstance(each, m.Ack)]

    def say(self, group: int, message: m.AgentMessage) -> list[tuple[str, m.ControllerMessage]]:
        """The agent where group 0, 1 or 2 is tells this."""
        name = NODES[group]
        self.numbers[name] += 1
        return self.tell(o.Heard(name, codec.raw(message), self.numbers[name]))

    def says(self, group: int, message: m.JobMessage) -> list[tuple[str, m.ControllerMessage]]:
        return self.say(group, m.Relay(1, group, SESSION, codec.raw(message)))

    def begin(self, group: int) -> None:
        """A group is started, and opens its session."""
        self.say(group, m.Started(1, group, (100,)))
        self.says(group, m.Hello(1, group, 0, self.tokens[group], 1, Bounds(1, 3)))

    def hello(
        self, group: int, *held: m.Held, repeats: int = 0, used: dict[int, float] | None = None
    ) -> list[tuple[str, m.ControllerMessage]]:
        """The agent is back, with these groups."""
        hello = m.AgentHello(NODES[group], 1, 70 + group, held, (), 0, repeats, 0, used or {})
        return self.tell(o.Heard(NODES[group], codec.raw(hello)))

    def away(self, group: int) -> list[tuple[str, m.ControllerMessage]]:
        """The agent does not come back in time, and what it has left is ended."""
        orders = []
        while self.cleared != [NODES[group]]:  # a timer that is late counts anew
            self.now = max(self.now, self.control.fleet.nodes[NODES[group]].due)
            orders += self.tell(o.Fired(("fleet", "grace", NODES[group])))
        return orders + self.tell(o.Cleared(NODES[group]))

    @property
    def cluster(self) -> Cluster:
        return self.control.cluster

    def again(self, *more: r.Record) -> list[tuple[str, m.ControllerMessage]]:
        """Another controller begins with the journal, and with what is added to it."""
        self.lines += [r.to_line(record) for record in more]
        journal = read(self.lines)
        site = Site(grace_s=self.grace)
        self.control = Control.of(Fcfs(), journal.header.settings, HOME, site, journal.records)
        return self.tell(o.Resumed(WHY))

    def made(self, kind: type[r.Record]) -> list[r.Record]:
        return [each for each in read(self.lines).records if isinstance(each, kind)]

    @property
    def stage(self) -> str:
        resize = self.cluster.core.state.jobs[1].resize
        return resize.stage if resize is not None else resizing.NONE


def held_group(group: int) -> m.Held:
    return m.Held(1, group, (0,), session=SESSION)


def running() -> Agents:
    """Job 1 in its loop on n0 and n1."""
    agents = Agents()
    bounds = Bounds(1, 3, preferred=2)
    spec = JobSpec(name="a", command=("prog",), job_class=JobClass.MALLEABLE, nodes=bounds, walltime_s=9999.0)
    agents.tell(o.Batch((spec,)))
    agents.begin(0)
    agents.begin(1)
    agents.says(0, m.Malleable(0, on=True))
    assert len(agents.made(r.JobMalleable)) == 1
    return agents


def opened(stage: str) -> Agents:
    """The job has been offered n2, and its resize has come to this stage."""
    agents = running()
    agents.tell(o.Resize(1, 3))
    if stage in (resizing.WITHDRAWN, resizing.CROSSED):
        agents.now += 1000.0
        agents.tell(o.Fired(("wake",)))
    if stage in (resizing.CROSSED, resizing.ACCEPTED, resizing.RECALLED):
        agents.says(0, m.Accept(0, 1))
    if stage == resizing.RECALLED:
        agents.now += 1000.0
        agents.tell(o.Fired(("wake",)))
    assert agents.stage == stage
    return agents


def message_kinds(orders: list[tuple[str, m.ControllerMessage]]) -> list[tuple[str, str]]:
    """Of each order the node and its kind, or that of what is to be delivered."""
    return [
        (
            node,
            type(codec.from_scheduler().decode(bytes(each.message))).__name__
            if isinstance(each, m.Deliver)
            else type(each).__name__,
        )
        for node, each in orders
    ]


SAID_AGAIN = {
    resizing.OFFERED: [("n0", "Offer"), ("n0", "Withdraw")],
    resizing.WITHDRAWN: [("n0", "Offer"), ("n0", "Withdraw")],
    resizing.CROSSED: [("n0", "Withdraw")],
    resizing.ACCEPTED: [("n0", "Withdraw")],
    resizing.RECALLED: [("n0", "Withdraw")],
}


@pytest.mark.parametrize("stage", resizing.OUTSTANDING)
def test_a_resize_that_was_open_is_taken_back_when_all_agents_are_there(stage: str) -> None:
    agents = opened(stage)
    newcomer = [held_group(2)] if stage in resizing.STARTED else []
    assert agents.again() == []
    assert agents.hello(2, *newcomer) == []
    assert agents.hello(1, held_group(1)) == []
    assert message_kinds(agents.hello(0, held_group(0))) == SAID_AGAIN[stage]
    [withdrawn] = agents.made(r.ResizeWithdrawn)
    assert isinstance(withdrawn, r.ResizeWithdrawn)
    assert (withdrawn.reason == WHY) == (stage in (resizing.OFFERED, resizing.ACCEPTED))
    answer = (
        m.Decline(0, 1, "no") if stage in (resizing.OFFERED, resizing.WITHDRAWN) else m.Failed(0, 1, "no")
    )
    orders = message_kinds(agents.says(0, answer))
    assert orders == ([("n2", "Signal"), ("n2", "Prove")] if newcomer else [])
    assert agents.stage == resizing.NONE
    assert not agents.made(r.ResizeDone)


@pytest.mark.parametrize("stage", [resizing.CROSSED, resizing.RECALLED])
def test_a_job_has_its_time_anew_where_nobody_could_hear_its_answer(stage: str) -> None:
    agents = opened(stage)
    agents.now += 10_000.0
    agents.again()
    agents.hello(2, *([held_group(2)] if stage in resizing.STARTED else []))
    agents.hello(1, held_group(1))
    agents.hello(0, held_group(0))
    assert len(agents.made(r.ControllerResumed)) == 1
    assert not agents.made(r.JobEnding)
    agents.says(0, m.Failed(0, 1, "no"))
    assert agents.stage == resizing.NONE


@pytest.mark.parametrize(
    ("stage", "cut"), [(resizing.CROSSED, 0), (resizing.RECALLED, 0), (resizing.RECALLED, 2)]
)
def test_no_job_is_stuck_in_a_resize_that_nobody_could_hear(stage: str, cut: int) -> None:
    """Over its own agent, or over its newcomer's."""
    agents = opened(stage)
    agents.tell(o.Cut(NODES[cut], "cut"))
    agents.now += 10_000.0
    agents.tell(o.Fired(("wake",)))
    agents.hello(cut, held_group(cut))
    agents.now += SETTINGS.resize_deadline_s - 1.0
    agents.tell(o.Fired(("wake",)))
    assert not agents.made(r.JobEnding)
    agents.now += 100_000.0
    agents.tell(o.Fired(("wake",)))
    [end] = agents.made(r.JobEnding)
    assert isinstance(end, r.JobEnding)
    assert "passed its deadline" in end.error


def test_a_done_that_was_sent_and_not_recorded_wins_against_the_rollback() -> None:
    agents = opened(resizing.ACCEPTED)
    agents.begin(2)
    agents.again()
    agents.hello(1, held_group(1))
    agents.hello(2, held_group(2))
    assert message_kinds(agents.hello(0, held_group(0), repeats=agents.numbers["n0"] + 1)) == []
    agents.says(0, m.Done(0, 1, 0))
    assert len(agents.made(r.ResizeDone)) == 1
    assert not agents.made(r.ResizeWithdrawn)
    assert agents.stage == resizing.NONE


def test_a_node_whose_agent_does_not_come_back_is_lost_and_nothing_begins_before() -> None:
    agents = running()
    agents.again()
    agents.hello(0, held_group(0))
    agents.hello(1, held_group(1))
    agents.tell(o.Resize(1, 3))
    assert not agents.made(r.ResizeOffered)
    agents.away(2)
    assert len(agents.made(r.NodesLost)) == 1
    assert agents.cluster.core.state.jobs[1].ending is None
    agents.again()
    agents.hello(0, held_group(0))
    agents.away(1)
    agents.say(0, m.Exited(1, 0, 0, -9))
    [end] = agents.made(r.JobEnded)
    assert isinstance(end, r.JobEnded)
    assert (end.state, end.error.splitlines()[0]) == (
        JobState.NODE_FAIL,
        "lost node n1: its agent was away for 60 s",
    )


def test_groups_of_no_job_that_runs_are_ended_before_anything_begins() -> None:
    agents = Agents()
    spec = JobSpec(name="a", command=("prog",), nodes=Bounds(3, 3))
    agents.tell(o.Batch((spec,)))
    agents.lines = [line for line in agents.lines if b"JobStarted" not in line]
    agents.again()
    agents.hello(0)
    agents.hello(1)
    assert message_kinds(agents.hello(2, m.Held(9, 4, (0,)))) == [("n2", "Signal"), ("n2", "Prove")]
    assert not agents.made(r.JobStarted)
    agents.say(2, m.Proof(9, clean=True))
    assert len(agents.made(r.JobStarted)) == 1


def test_a_start_that_did_not_arrive_is_ordered_again_by_the_same_token() -> None:
    agents = running()
    agents.again()
    agents.hello(0, held_group(0))
    agents.hello(2)
    [(node, order)] = agents.hello(1)
    assert isinstance(order, m.StartGroup)
    assert (node, order.group, order.token) == ("n1", 1, agents.tokens[1])


def test_a_start_that_did_not_arrive_waits_for_no_agent_that_the_job_has_nothing_to_do_with() -> None:
    agents = running()
    agents.again()
    agents.hello(0, held_group(0))
    assert message_kinds(agents.hello(1)) == [("n1", "StartGroup")]
    assert not agents.made(r.ControllerResumed)
    agents.say(1, m.Started(1, 1, (100,)))
    assert agents.hello(2) == []
    assert len(agents.made(r.ControllerResumed)) == 1


def test_a_group_that_has_said_hello_is_not_started_again_if_its_agent_does_not_know_it() -> None:
    """Another agent has come to its node, while nobody was there to see that the one before it was gone."""
    agents = running()
    agents.again()
    agents.hello(1, held_group(1))
    agents.hello(2)
    assert ("n0", "StartGroup") not in message_kinds(agents.hello(0))
    agents.say(1, m.Exited(1, 1, 0, -9))
    [end] = agents.made(r.JobEnded)
    assert isinstance(end, r.JobEnded)
    assert end.state is not JobState.COMPLETED


def test_what_is_told_is_not_taken_for_good_before_all_agents_are_heard() -> None:
    """An end is recorded only then; a controller that is killed before must hear of it again."""
    agents = running()
    agents.again()
    agents.acked.clear()
    agents.hello(0, held_group(0))
    agents.say(0, m.Exited(1, 0, 0, 0))
    assert not agents.acked
    agents.hello(1, held_group(1))
    agents.hello(2)
    assert agents.made(r.ControllerResumed)
    assert "n0" in agents.acked


def test_what_was_on_a_node_that_is_lost_is_not_started_again() -> None:
    agents = running()
    agents.tell(o.Ended("n1", "gone"))
    agents.tell(o.Cleared("n1"))
    assert agents.again() == []
    assert message_kinds(agents.hello(0, held_group(0))) == [("n0", "Signal")]
    assert agents.hello(2) == []
    assert agents.say(0, m.Exited(1, 0, 0, -9))
    assert len(agents.made(r.JobEnded)) == 1


def test_no_limit_is_over_while_the_agent_that_would_keep_it_cannot_be_reached() -> None:
    agents = Agents()
    agents.tell(o.Cut("n1", "cut"))
    spec = JobSpec(name="a", command=("prog",), nodes=Bounds(2, 2))
    assert [node for node, _ in agents.tell(o.Batch((spec,)))] == ["n0"]
    agents.now += 60.0
    agents.tell(o.Fired(("start", 1, 1)))
    assert not agents.made(r.JobEnded)
    assert [node for node, each in agents.hello(1) if isinstance(each, m.StartGroup)] == ["n1"]
    agents.now += 60.0
    assert ("n0", "Signal") in message_kinds(agents.tell(o.Fired(("start", 1, 1))))


def test_a_fence_goes_on_with_the_round_that_comes_next() -> None:
    agents = Agents()
    agents.tell(o.Batch((JobSpec(name="a", command=("prog",), nodes=Bounds(2, 2)),)))
    for group in (0, 1):
        agents.say(group, m.Started(1, group, (100,)))
        passed = agents.say(group, m.Fence(1, group, 0, {}))
    assert message_kinds(passed) == [("n0", "Fenced"), ("n1", "Fenced")]
    agents.again()
    agents.hello(0, held_group(0))
    agents.hello(1, held_group(1))
    agents.hello(2)
    assert agents.say(0, m.Fence(1, 0, 1, {})) == []
    assert message_kinds(agents.say(1, m.Fence(1, 1, 1, {}))) == [("n0", "Fenced"), ("n1", "Fenced")]
    assert not agents.made(r.JobEnded)


def test_several_wishes_that_come_before_an_answer_get_one() -> None:
    agents = running()
    want = codec.raw(m.Want(1, Bounds(1, 1)))
    agents.tell(o.Resize(1, 1, ("n0",)))
    agents.says(0, m.Accept(0, 1))
    # The next root is heard before the last one has said that it is done.
    agents.say(1, m.Relay(1, 1, SESSION, want))
    agents.say(1, m.Relay(1, 1, SESSION, want))
    orders = message_kinds(agents.says(0, m.Done(0, 1, 1, (0,))))
    assert orders.count(("n1", "Stay")) == 1


def test_what_ranks_used_that_ended_before_the_restart_is_the_jobs() -> None:
    """Group 1 was released and proved clean, group 2 released alone: its agent says its end again."""
    agents = opened(resizing.ACCEPTED)
    agents.say(2, m.Started(1, 2, (100,)))
    agents.says(0, m.Done(0, 1, 0))
    agents.tell(o.Resize(1, 1, ("n1", "n2")))
    agents.says(0, m.Accept(1, 2))
    agents.says(0, m.Done(1, 2, 0, (1, 2)))
    agents.say(1, m.Exited(1, 1, 0, 0, 3.0))
    agents.say(1, m.Proof(1, clean=True))
    agents.again()
    agents.hello(0, held_group(0))
    agents.hello(1, used={1: 3.0, 7: 100.0})
    agents.hello(2, m.Held(1, 2), repeats=agents.numbers["n2"] + 1)
    agents.say(2, m.Exited(1, 2, 0, 0, 0.5))
    agents.hello(1, used={1: 3.0})  # the link to an agent that is known is made anew
    agents.say(0, m.Exited(1, 0, 0, 0, 0.25))
    [end] = agents.made(r.JobEnded)
    assert isinstance(end, r.JobEnded)
    assert end.cpu_s == 3.75


def released() -> Agents:
    """Group 1 was released, has used 3 s of its processor and is proved clean."""
    agents = running()
    agents.tell(o.Resize(1, 1, ("n1",)))
    agents.says(0, m.Accept(0, 1))
    agents.says(0, m.Done(0, 1, 0, (1,)))
    agents.say(1, m.Exited(1, 1, 0, 0, 3.0))
    agents.say(1, m.Proof(1, clean=True))
    return agents


def test_what_a_rank_used_is_counted_once_though_its_agent_comes_back_to_the_same_controller() -> None:
    agents = released()
    agents.tell(o.Cut("n1", "cut"))
    agents.hello(1, used={1: 3.0})
    agents.say(0, m.Exited(1, 0, 0, 0, 0.25))
    [end] = agents.made(r.JobEnded)
    assert isinstance(end, r.JobEnded)
    assert end.cpu_s == 3.25


def ended_before_all_are_heard() -> Agents:
    """Group 1 was released and proved clean, and group 0 has ended; the agent of group 1 has yet to come back."""
    agents = released()
    agents.again()
    agents.hello(0, held_group(0), repeats=agents.numbers["n0"] + 2)
    agents.says(0, m.Bye(1, "42"))
    agents.say(0, m.Exited(1, 0, 0, 0, 0.25))
    return agents


def test_the_end_of_a_job_is_told_when_all_agents_have_said_what_it_used() -> None:
    agents = ended_before_all_are_heard()
    agents.hello(2)
    assert not agents.made(r.JobEnded)
    agents.now += 100_000.0
    assert message_kinds(agents.hello(1, used={1: 3.0})) == [("n0", "Prove")]
    [end] = agents.made(r.JobEnded)
    assert isinstance(end, r.JobEnded)
    assert (end.state, end.result, end.cpu_s) == (JobState.COMPLETED, "42", 3.25)


@pytest.mark.parametrize("restart", [False, True])
def test_a_node_that_is_lost_when_all_ranks_have_ended_changes_nothing(*, restart: bool) -> None:
    """Its end is not told yet: the last agent has to be heard, or the end of its output to be read."""
    agents = running()
    if restart:
        agents.again()
        agents.hello(0, held_group(0), repeats=agents.numbers["n0"] + 1)
        agents.hello(1, held_group(1), repeats=agents.numbers["n1"] + 1)
    else:
        agents.reads = False
    agents.say(0, m.Exited(1, 0, 0, 3))
    agents.say(1, m.Exited(1, 1, 0, -9))
    agents.tell(o.Ended("n0", "gone"))
    agents.tell(o.Cleared("n0"))
    assert not agents.made(r.JobEnded)
    if restart:
        agents.hello(2)
    else:
        agents.tell(o.Tail(1, "last words"))
    [end] = agents.made(r.JobEnded)
    assert isinstance(end, r.JobEnded)
    assert (end.state, end.exit_code) == (JobState.FAILED, 3)
    assert not agents.made(r.JobEnding)


@pytest.mark.parametrize("order", [o.Cancel(1, "no"), o.EndAll("no"), o.EndNow()])
def test_what_has_ended_before_all_agents_are_heard_is_not_cancelled(order: o.AnyInput) -> None:
    agents = ended_before_all_are_heard()
    agents.tell(order)
    [end] = agents.made(r.JobEnded)
    assert isinstance(end, r.JobEnded)
    assert (end.state, end.result) == (JobState.COMPLETED, "42")


def test_without_a_grace_the_jobs_that_ran_end_once_with_that_reason() -> None:
    agents = running()
    agents.grace = 0.0
    assert agents.again() == []
    for group in range(3):
        assert agents.away(group) == []
    [end] = agents.made(r.JobEnded)
    assert isinstance(end, r.JobEnded)
    assert (end.job, end.state) == (1, JobState.NODE_FAIL)
    assert end.error == "lost node n0: it ended with its controller"
    for group in range(3):
        assert agents.hello(group) == []
    assert agents.cluster.core.state.nodes.free == 3
    agents.again()
    assert len(agents.made(r.JobEnded)) == 1


@pytest.mark.parametrize("restart", [False, True])
def test_a_root_that_leaves_while_an_offer_is_open_harms_nobody(restart: bool) -> None:  # noqa: FBT001
    agents = opened(resizing.OFFERED)
    agents.says(0, m.Bye(0, "42"))
    if restart:
        agents.again()
        agents.hello(1, held_group(1))
        agents.hello(2)
        agents.hello(0, held_group(0), repeats=agents.numbers["n0"] + 1)
        agents.says(0, m.Bye(0, "42"))
    agents.say(0, m.Exited(1, 0, 0, 0))
    agents.says(1, m.Bye(0))
    agents.say(1, m.Exited(1, 1, 0, 0))
    [end] = agents.made(r.JobEnded)
    assert isinstance(end, r.JobEnded)
    assert (end.state, end.result) == (JobState.COMPLETED, "42")

"""Nodes that expire, are asked back by a time, or are not wanted any more: by hand, and in each phase of a resize."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import job_says
import msgspec
import pytest
from audits import audit
from commands import command
from driving import Driven

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import SchedulerCore, replay
from pliant.core.settings import Settings, end_of, leaving_s
from pliant.core.term import Term
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import Cluster, RunContext
from pliant.model.batch import read_batch
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.limits import REQUEUES
from pliant.model.nodes import NodeSet
from pliant.policy.registry import make
from pliant.protocol import messages as m

SETTINGS = Settings(cooldown_s=0.0)
UNTIL = 1000.0
END = end_of(UNTIL, SETTINGS)
LEAVES = END - leaving_s(SETTINGS)


def node_set(*nodes: int) -> NodeSet:
    return NodeSet.of(nodes)


def rigid(nodes: int, walltime_s: float, **more: object) -> JobSpec:
    return msgspec.structs.replace(
        JobSpec(name="a", nodes=Bounds.exactly(nodes), walltime_s=walltime_s), **more
    )


def malleable(least: int, most: int, walltime_s: float = 5000.0) -> JobSpec:
    bounds = Bounds(least, most, 1, most)
    return JobSpec(name="m", nodes=bounds, job_class=JobClass.MALLEABLE, walltime_s=walltime_s)


class Told:
    """A core with nodes 0 and 1 that stay and 2 and 3 that expire at ``UNTIL``, unless something else is said."""

    def __init__(self, policy: str = "easy", stay: int = 2, expire: int = 2, until: float = UNTIL) -> None:
        self.records: list[r.Record] = []
        self.core = Driven(make(policy), SETTINGS, self.records.append)
        if stay:
            self.tell(0.0, e.Granted(NodeSet.first(stay)))
        if expire:
            self.tell(0.0, e.Granted(NodeSet.of(range(stay, stay + expire)), until=until))

    def tell(self, now: float, *events: e.Event) -> list[c.Command]:
        return self.core.tell(events, now)

    def submit(self, now: float, *specs: JobSpec) -> dict[int, NodeSet]:
        """The jobs that start, with their nodes."""
        first = self.core.state.last_job + 1
        self.tell(now, *[e.Submitted(number, spec) for number, spec in enumerate(specs, first)])
        return self.started()

    def started(self) -> dict[int, NodeSet]:
        return {each.job: each.nodes for each in self.records if isinstance(each, r.JobStarted)}

    def in_loop(self, now: float, job: int = 1) -> list[c.Command]:
        return self.tell(now, e.Hello(job), job_says.malleable(job, on=True))

    def kinds(self) -> list[tuple[str, NodeSet]]:
        offers = [each for each in self.records if isinstance(each, r.ResizeOffered)]
        return [(each.kind, each.nodes) for each in offers]

    def ended(self, job: int = 1) -> JobState:
        [state] = [each.state for each in self.records if isinstance(each, r.JobEnding) and each.job == job]
        return state

    def whole(self) -> None:
        audit(self.records)
        lines = [r.from_line(r.to_line(record)) for record in self.records]
        assert replay(lines, SETTINGS).snapshot() == self.core.state.snapshot()


def test_a_job_gets_the_nodes_that_expire_soonest_but_late_enough() -> None:
    it = Told(stay=1, expire=1)
    it.tell(0.0, e.Granted(node_set(2), until=500.0))
    assert it.submit(0.0, rigid(1, 600.0), rigid(1, 300.0), rigid(1, 5000.0)) == {
        1: node_set(1),
        2: node_set(2),
        3: node_set(0),
    }
    it.whole()


@pytest.mark.parametrize(
    "policy", ["fcfs", "firstfit", "easy", "conservative", "malleable", "marginal", "entitled"]
)
def test_no_job_starts_on_nodes_that_its_estimate_outlasts(policy: str) -> None:
    it = Told(policy)
    assert it.submit(0.0, rigid(1, 5000.0), rigid(2, 5000.0)) == {1: node_set(0)}
    assert it.submit(1.0, rigid(2, END - 1.0)) in ({1: node_set(0), 3: node_set(2, 3)}, {1: node_set(0)})
    it.tell(2.0, e.Launched(1))
    it.tell(50.0, e.Ended(1, 0), e.Clean(1, node_set(0)))
    assert it.started()[2] == node_set(0, 1)
    it.whole()


@pytest.mark.parametrize("policy", ["fcfs", "firstfit", "easy", "conservative", "malleable"])
def test_who_may_outlast_its_nodes_starts_on_those_that_last_longest(policy: str) -> None:
    unstated = read_batch({"jobs": [{"name": "j", "command": "true", "nodes": 3}]}, "b").jobs[0]
    said = {"name": "j", "command": "true", "nodes": 1, "walltime": 9000, "outlast": True}
    it = Told(policy)
    assert it.submit(0.0, unstated) == {1: node_set(0, 1, 2)}
    assert it.submit(0.0, read_batch({"jobs": [said]}, "b").jobs[0])[2] == node_set(3)


def test_easy_promises_nothing_on_nodes_that_will_be_gone() -> None:
    it = Told(until=500.0)
    it.submit(0.0, rigid(2, 300.0), rigid(2, 400.0), rigid(2, 1000.0))
    assert it.started() == {1: node_set(2, 3), 2: node_set(0, 1)}
    [promise] = [each.start_by for each in it.records if isinstance(each, r.JobPromised)]
    assert promise == 400.0, "at 300 s two nodes are free, and gone at 500 s"


def test_a_malleable_job_leaves_in_time_and_the_node_is_given_back_before_its_end() -> None:
    it = Told("fcfs", stay=2, expire=1)
    assert it.submit(0.0, malleable(2, 3)) == {1: node_set(0, 1, 2)}
    it.in_loop(1.0)
    assert it.core._woken == LEAVES
    it.tell(LEAVES, e.Tick())
    assert it.kinds() == [("shrink", NodeSet())]
    it.tell(LEAVES + 1.0, job_says.accepted(1, 1))
    it.tell(LEAVES + 2.0, it.core.resized(1, 1, 2), e.Clean(1, node_set(2)))
    commands = it.tell(END, e.Tick())
    assert c.GiveBack(node_set(2)) in commands
    it.tell(END + 1.0, e.Returned(node_set(2)))
    assert it.core.state.jobs[1].nodes == 0b11
    it.whole()


def test_a_job_moves_to_nodes_that_last_longer_and_not_to_those_that_do_not() -> None:
    it = Told("fcfs", stay=0, expire=2)
    assert it.submit(0.0, malleable(1, 1, 100.0)) == {1: node_set(0)}
    it.in_loop(0.0)
    it.tell(500.0, e.Granted(node_set(2)))
    it.tell(LEAVES, e.Tick())
    assert it.kinds() == [("migrate", node_set(2))]


@pytest.mark.parametrize("spec", [rigid(2, 900.0, kill=False), malleable(2, 2, 900.0)])
def test_who_can_neither_move_nor_shrink_is_ended_in_time(spec: JobSpec) -> None:
    it = Told(stay=0)
    it.submit(0.0, spec)
    it.in_loop(1.0)
    it.tell(LEAVES, e.Tick())
    assert not it.kinds()
    assert c.Kill(1, SETTINGS.kill_grace_s) in it.tell(END, e.Tick())
    assert it.ended() is JobState.TIMEOUT
    commands = it.tell(END + 1.0, e.Ended(1, 143), e.Clean(1, node_set(0, 1)))
    assert c.GiveBack(node_set(0, 1)) in commands
    it.whole()


def test_a_job_that_expects_to_end_in_time_stays_until_it_has_outrun_its_estimate() -> None:
    it = Told("fcfs", stay=1, expire=1)
    assert it.submit(0.0, rigid(1, 5000.0), malleable(1, 1, LEAVES + 20.0))[2] == node_set(1)
    it.tell(0.0, e.Launched(1))
    it.in_loop(1.0, 2)
    it.tell(500.0, e.Ended(1, 0), e.Clean(1, node_set(0)))
    it.tell(LEAVES, e.Tick())
    assert not it.kinds()
    it.tell(LEAVES + 21.0, e.Tick())
    assert it.kinds() == [("migrate", node_set(0))]


def test_it_does_not_grow_onto_nodes_that_it_would_have_to_leave_at_once() -> None:
    it = Told("malleable", stay=1, expire=1)
    spec = malleable(1, 2)
    it.submit(0.0, msgspec.structs.replace(spec, nodes=Bounds(1, 2, 1, 1)))
    it.tell(LEAVES - 1.0, e.Hello(1), job_says.malleable(1, on=True))
    assert not it.kinds()
    assert it.core.state.free == 1


@pytest.mark.parametrize(
    "asked",
    [
        e.ResizeOrdered(1, 2),
        e.ResizeOrdered(1, 0, node_set(0)),
        e.RootSaid(1, m.Want(0, Bounds.exactly(2))),
    ],
    ids=["order to grow", "order to move", "request"],
)
def test_a_free_node_that_is_at_its_end_is_nobodys(asked: e.Event) -> None:
    it = Told("easy", stay=1, expire=1)
    it.submit(0.0, msgspec.structs.replace(malleable(1, 2), nodes=Bounds(1, 2, 1, 1)))
    it.in_loop(1.0)
    assert it.core.state.free == 1
    it.tell(END, asked)
    assert not it.kinds()
    it.whole()


def test_a_job_waits_in_vain_only_if_no_nodes_last_long_enough_for_it() -> None:
    it = Told(until=500.0)
    it.submit(0.0, rigid(3, 490.0), rigid(2, 5000.0))
    [vain] = [each for each in it.records if isinstance(each, r.JobEnded)]
    assert (vain.job, vain.state) == (1, JobState.CANCELLED)
    assert "it needs 490 s by its estimate, and jobs can run on these nodes for 485 s" in vain.error
    assert it.started() == {2: node_set(0, 1)}


def test_an_expired_node_is_never_given_to_a_job_not_even_if_it_was_lost_meanwhile() -> None:
    it = Told(stay=1, expire=1)
    it.tell(5.0, e.Lost(node_set(1)))
    it.tell(UNTIL + 10.0, e.Tick())
    assert c.GiveBack(node_set(1)) in it.tell(
        UNTIL + 20.0, e.Back(node_set(1)), e.Submitted(1, rigid(2, 1.0))
    )
    assert not it.started()
    it.tell(UNTIL + 30.0, e.Returned(node_set(1)), e.Granted(node_set(1)))
    assert it.started() == {1: node_set(0, 1)}, "granted anew, it is another one"
    it.whole()


def test_a_grant_without_names_moves_the_end_of_all_and_one_of_nodes_that_are_there_theirs() -> None:
    it = Told(until=500.0)
    assert [each.nodes for each in it.core.state.expiring] == [2]
    it.tell(1.0, e.Granted(NodeSet(), until=800.0))
    assert it.core.state.nodes.until == 800.0
    it.tell(2.0, e.Granted(node_set(3), until=900.0))
    assert it.core.state.nodes.expiry == {800.0: 0b0111, 900.0: 0b1000}
    it.tell(3.0, e.Reclaim(node_set(0), 400.0), e.Granted(NodeSet(), until=2000.0))
    assert it.core.state.nodes.expiry == {400.0: 0b0001, 2000.0: 0b1110}, "what is asked back stays so"
    it.whole()


# ---- asked back by a time, amid a resize --------------------------------------------------------------


def offered(it: Told) -> None:
    """Job 1 on nodes 0 and 1 is to grow onto 2."""
    it.tell(10.0, e.ResizeOrdered(1, 3), e.ResizeOrdered(1, 0))


def accepted(it: Told) -> None:
    offered(it)
    it.tell(11.0, job_says.accepted(1, 1))


def withdrawn(it: Told) -> None:
    offered(it)
    it.tell(11.0, e.TakenBack(1, "no"))


def recalled(it: Told) -> None:
    accepted(it)
    it.tell(12.0, e.TakenBack(1, "no"))


def crossed(it: Told) -> None:
    withdrawn(it)
    it.tell(12.0, job_says.accepted(1, 1))


def resting(it: Told) -> None:
    """Nothing is under way."""


PHASES: list[Callable[[Told], None]] = [resting, offered, accepted, withdrawn, recalled, crossed]


@pytest.mark.parametrize("node", [0, 1, 2])
@pytest.mark.parametrize("by", [20.0, 30.0, 2000.0])
@pytest.mark.parametrize("phase", PHASES)
def test_a_node_goes_back_by_the_time_in_whatever_phase_a_resize_is(
    phase: Callable[[Told], None], by: float, node: int
) -> None:
    """The job answers all that it is asked after a second; it is ended if there is no time for that."""
    it = Told("fcfs", stay=3, expire=0)
    it.submit(0.0, msgspec.structs.replace(malleable(1, 3), nodes=Bounds(1, 3, 1, 2)))
    it.in_loop(1.0)
    phase(it)
    core, state, now = it.core, it.core.state, 20.0
    commands = it.tell(now, e.Reclaim(node_set(node), by))
    while node in NodeSet(state.nodes.all_mask) and now < 2100.0:
        now += 1.0
        events: list[e.Event] = [e.Clean(number, NodeSet(mask)) for number, mask in state.nodes.dirty.items()]
        events += [e.Returned(each.nodes) for each in commands if isinstance(each, c.GiveBack)]
        job = state.jobs.get(1)
        if job is not None and job.ending is not None:
            events.append(e.Ended(1, 143))
        elif job is not None and (resize := job.resize) is not None:
            match resize.stage:
                case "offered":
                    events.append(job_says.accepted(1, resize.id))
                case "withdrawn":
                    events.append(job_says.declined(1, resize.id, "withdrawn"))
                case "recalled" | "crossed":
                    events.append(job_says.failed(1, resize.id, "withdrawn"))
                case _:
                    leave = [state.groups(job)[group] for group in resize.leaving]
                    events.append(core.resized(1, resize.id, *leave))
        commands = it.tell(now, *events)
    assert node not in NodeSet(state.nodes.all_mask)
    assert now <= max(by, 21.0 + SETTINGS.kill_grace_s) or by <= end_of(by, SETTINGS)
    if by == 2000.0:
        assert 1 in state.jobs, "there was time enough to leave"
        assert now < 100.0
    it.whole()


# ---- not wanted any more ------------------------------------------------------------------------------


def test_nodes_that_are_withdrawn_are_awaited_until_they_are_refused() -> None:
    it = Told(expire=0)
    it.tell(1.0, e.NodesOrdered(3))
    assert it.tell(2.0, e.NodesWithdrawn(5)) == [c.WithdrawNodes(3)]
    assert it.tell(2.0, e.NodesWithdrawn(1)) == []
    again = SchedulerCore.resume(make("fcfs"), SETTINGS, it.records)
    assert again.unanswered() == [c.Acquire(3), c.WithdrawNodes(3)]
    it.tell(3.0, e.Refused(2, "withdrawn"))
    assert (it.core.state.nodes.awaited, it.core.state.nodes.unwanted) == (1, 1)
    it.tell(4.0, e.Granted(node_set(2)))
    assert (it.core.state.nodes.awaited, it.core.state.nodes.unwanted) == (0, 0), "they have crossed"
    it.tell(5.0, e.Refused(1, "withdrawn"))
    assert it.core.state.free == 3
    it.whole()


def test_the_live_machine_says_what_is_withdrawn_and_takes_names_and_times() -> None:
    cluster = Cluster(make("easy"), SETTINGS, RunContext("/out", "/", {}, b"s"))
    said: list[o.Output] = []
    records: list[r.Record] = []

    def put(now: float, *inputs: o.AnyInput) -> None:
        made, outputs = cluster.handle(inputs, now)
        records.extend(made)
        said.extend(outputs)
        if cluster.pending:
            put(now)

    put(0.0, o.Granted(("n0",), (1,)), o.Granted(("n1",), (1,), 900.0))
    assert [each.text[:35] for each in said if isinstance(each, o.Notice)] == [
        "n1 is there for 15 min 00 s: what r"
    ]
    put(1.0, o.Ask(2), o.AskLess(1))
    assert [each for each in said if isinstance(each, o.Acquire | o.Withdraw)] == [
        o.Acquire(2),
        o.Withdraw(1),
    ]
    put(2.0, o.Refused(1, "withdrawn"), o.Reclaim(("n0",), 60.0))
    assert o.GiveBack(("n0",)) in said
    assert cluster.core.state.nodes.expiry == {900.0: 0b10, 62.0: 0b01}
    assert cluster.core.state.nodes.awaited == 1
    audit(records)


def test_a_controller_that_begins_again_ends_what_expires_without_being_granted_anything_anew() -> None:
    it = Told("fcfs", stay=1, expire=1)
    it.submit(0.0, rigid(2, 900.0))
    again = SchedulerCore.resume(make("fcfs"), SETTINGS, it.records)
    _, commands = again.handle([e.Resumed()], 10.0)
    assert [each.at for each in commands if isinstance(each, c.WakeAt)] == [END]
    records, _ = again.handle([e.Tick()], END)
    assert [each.state for each in records if isinstance(each, r.JobEnding)] == [JobState.TIMEOUT]


# ---- queued again ------------------------------------------------------------------------------------

AGAIN = rigid(2, 900.0, outlast=True, requeue=True)


def ended_by_its_nodes(spec: JobSpec = AGAIN, awaited: int = 1) -> Told:
    """A job on a node that stays and one that has just expired; so many nodes are to come."""
    it = Told("fcfs", stay=1, expire=1)
    it.tell(0.0, e.NodesOrdered(awaited))
    assert it.submit(0.0, spec) == {1: node_set(0, 1)}
    it.tell(END, e.Tick())
    return it


def test_a_job_that_the_end_of_its_nodes_ends_is_submitted_again_if_it_says_so_and_there_may_be_nodes() -> (
    None
):
    it = ended_by_its_nodes()
    assert it.ended() is JobState.TIMEOUT
    it.tell(END + 1.0, e.Ended(1, 137))
    [end] = [each for each in it.records if isinstance(each, r.JobEnded)]
    assert (end.state, end.requeued) == (JobState.TIMEOUT, True)
    it.whole()
    it.tell(END + 1.0, e.Clean(1, node_set(0, 1)), e.Submitted(2, AGAIN, 1), e.Granted(node_set(2)))
    assert it.started()[2] == node_set(0, 2)
    assert (it.core.state.jobs[2].times, it.core.state.requeued) == (1, {})
    it.whole()


@pytest.mark.parametrize(("spec", "awaited"), [(AGAIN, 0), (rigid(2, 900.0, outlast=True), 1)])
def test_no_other_job_is_submitted_again(spec: JobSpec, awaited: int) -> None:
    it = ended_by_its_nodes(spec, awaited)
    it.tell(END + 1.0, e.Ended(1, 137))
    assert [each.requeued for each in it.records if isinstance(each, r.JobEnded)] == [False]
    it.whole()


def test_a_node_that_is_awaited_and_not_wanted_any_more_is_none_that_a_job_could_get() -> None:
    it = Told("fcfs", stay=1, expire=1)
    it.tell(0.0, e.NodesOrdered(1))
    it.submit(0.0, AGAIN)
    it.tell(1.0, e.NodesWithdrawn(1))
    it.tell(END, e.Tick())
    assert not it.core.state.jobs[1].requeues
    it = Told(stay=0, expire=2)
    it.tell(0.0, e.NodesOrdered(1), e.Submitted(1, rigid(1, 5000.0)))
    assert it.core.state.jobs, "one will come that lasts"
    it.tell(1.0, e.NodesWithdrawn(1))
    assert not it.core.state.jobs


def test_a_job_is_not_submitted_again_for_ever() -> None:
    it = ended_by_its_nodes()
    it.core.state.jobs[1].times = REQUEUES
    assert not Term(it.core.state).may_come_again(it.core.state.jobs[1])


def test_a_job_that_is_cancelled_as_its_nodes_end_it_does_not_come_again() -> None:
    it = ended_by_its_nodes()
    it.tell(END + 1.0, e.Cancelled(1, "by its user"), e.Cancelled(1, "once more"), e.Ended(1, 137))
    [end] = [each for each in it.records if isinstance(each, r.JobEnded)]
    assert (end.state, end.error, end.requeued) == (JobState.CANCELLED, "by its user", False)
    it.whole()


def test_the_next_controller_submits_again_what_nobody_had_come_to() -> None:
    it = ended_by_its_nodes()
    it.tell(END + 1.0, e.Ended(1, 137))
    named = [
        msgspec.structs.replace(each, names=tuple(f"n{node}" for node in each.nodes))
        if isinstance(each, r.NodesGranted) else each
        for each in it.records
    ]  # fmt: skip
    cluster = Cluster(make("fcfs"), SETTINGS, RunContext("/out", "/", {}, b"s"), named)
    assert not cluster.core.state.jobs
    records, _ = cluster.handle([o.Resumed("again")], END + 2.0)
    assert [each for each in records if isinstance(each, r.JobSubmitted)] == [
        r.JobSubmitted(END + 2.0, 2, AGAIN, 1)
    ]
    records, _ = cluster.handle([o.EndAll("the run ends")], END + 3.0)
    assert not cluster.core.state.jobs


TWICE = """
[cluster]
nodes = 1
[[jobs]]
name = "long"
command = "x"
nodes = 1
walltime = 9000
model = { work_s = 3000 }
outlast = true
requeue = true
"""


@pytest.mark.parametrize(
    ("checkpoints", "requeued"), [([], REQUEUES), (["--checkpoint", "interval=5min,cost=1s"], 1)]
)
def test_a_simulated_job_goes_on_with_the_next_nodes_from_its_checkpoint(
    checkpoints: list[str], requeued: int, tmp_path: Path
) -> None:
    (tmp_path / "b.toml").write_text(TWICE)
    options = ["--elastic", "max=1,lease=30min,delay=30s", "--policy", "fcfs", *checkpoints]
    [run] = json.loads(command("simulate", str(tmp_path / "b.toml"), *options, "--json"))["runs"]
    assert (run["requeued"], run["failed"]) == (requeued, not checkpoints)

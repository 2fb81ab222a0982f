"""Numbers of returned nodes that are given to others: state, audit, words and report take the name of the time."""

from __future__ import annotations

from collections.abc import Iterable

from audits import audit
from drawing import examples
from driving import Driven
from hypothesis import given, settings
from hypothesis import strategies as st
from test_core_fuzz import KINDS, Step, check, finish, gone_through

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.journal import by_name
from pliant.core.settings import Settings
from pliant.history.metrics import RunMetrics, measure
from pliant.model.jobs import Bounds, JobSpec
from pliant.model.kinds import JobKind
from pliant.model.nodes import NodeSet
from pliant.policy.registry import POLICIES, make
from pliant.report.runs import Run
from pliant.terminal.events import EventTexts

COMING = {**KINDS, "granted": 6, "reclaim": 6, "returned": 8, "clean": 8, "ended": 5}
steps_ = st.lists(
    st.tuples(
        st.sampled_from([kind for kind, weight in COMING.items() for _ in range(weight)]),
        st.integers(0, 50),
        st.integers(0, 50),
        st.integers(0, 4095),
    ),
    min_size=60,
    max_size=160,
)
OPTIONS = Settings(cooldown_s=1.0, decline_backoff_s=1.0, offer_deadline_s=4.0, kill_grace_s=2.0)


class Named(Driven):
    """A core whose nodes have names. Of the nodes that come every third is one that was there before."""

    def __init__(self, policy: str) -> None:
        self.records: list[r.Record] = []
        self.called: dict[int, str] = {}
        self._gone: list[str] = []
        self._given = 0
        super().__init__(make(policy), OPTIONS, self._took)

    def _took(self, record: r.Record) -> None:
        self.records.append(record)
        if isinstance(record, r.NodesReturned):
            self._gone += [self.called.pop(node) for node in record.nodes]
        elif isinstance(record, r.NodesGranted):
            self.called |= zip(record.nodes, record.names, strict=True)  # returned meanwhile, perhaps
            self._gone = [name for name in self._gone if name not in record.names]

    def tell(self, events: Iterable[e.Event], now: float) -> list[c.Command]:
        return super().tell(
            [self._name(each) if isinstance(each, e.Granted) else each for each in events], now
        )

    def _name(self, event: e.Granted) -> e.Granted:
        for node in event.nodes:
            if node not in self.called:
                self._given += 1
                old = self._gone and not self._given % 3
                self.called[node] = self._gone.pop(0) if old else f"n{self._given}"
        names = tuple(self.called[node] for node in event.nodes)
        labels = tuple((name, f"of {len(name)}") for name in names)
        return e.Granted(event.nodes, names, tuple(1 + node % 4 for node in event.nodes), labels=labels)


def named(names: dict[int, str] | tuple[str, ...], record: r.Record) -> list[object]:
    """What the record says, with the nodes' names in place of their numbers."""
    told: list[object] = [type(record)]
    for field in record.__struct_fields__:
        value = getattr(record, field)
        if field in ("names", "slots"):
            continue
        if isinstance(record, r.NodesGranted) and field == "labels":
            value = {names[node]: each for node, each in zip(record.nodes, value, strict=True)}
        if isinstance(value, NodeSet):
            value = {names[node] for node in value}
        if field == "arriving":
            value = [(group.id, names[group.node], group.slots) for group in value]
        told.append(value)
    return told


def sentences(records: Iterable[r.Record]) -> list[str]:
    """But for those of moves, which go by the order of a job's nodes."""
    told = EventTexts(())
    said = [told.tell(record) for record in records]
    return [each.text for each in said if each is not None and "mov" not in each.text]


def figures(records: Iterable[r.Record]) -> RunMetrics:
    """Without which nodes a resize was about."""
    found = measure(records)
    for job in found.jobs:
        for resize in job.resizes:
            resize.nodes = resize.moved_to = NodeSet()
    return found


@settings(max_examples=examples(80))
@given(steps_, st.sampled_from([*POLICIES, "malleable"]), st.integers(1, 4))
def test_whatever_comes_and_goes_each_node_has_its_own_name(
    steps: list[Step], policy: str, together: int
) -> None:
    core = Named(policy)
    state, records = core.state, core.records
    for _ in gone_through(core, steps, together):
        check(state)
        assert {node: state.nodes.names[node] for node in NodeSet(state.nodes.all_mask)} == {
            node: core.called[node] for node in NodeSet(state.nodes.all_mask)
        }
        assert len(set(state.nodes.names.values())) == len(state.nodes.names)
    finish(core, state.now)
    audit(records)
    again = [r.from_line(r.to_line(record)) for record in records]
    assert replay(again, OPTIONS).snapshot() == state.snapshot()

    names, told = by_name(records)
    now: dict[int, str] = {}
    for record, other in zip(records, told, strict=True):
        if isinstance(record, r.NodesGranted):
            now |= zip(record.nodes, record.names, strict=True)
            assert isinstance(other, r.NodesGranted)
            assert other.names == tuple(names[node] for node in other.nodes)
            assert dict(zip(other.names, other.slots, strict=True)) == dict(
                zip(record.names, record.slots, strict=True)
            )
        assert named(now, record) == named(names, other)
    assert len(set(names)) == len(names)
    assert figures(told) == figures(records)
    assert Run("", policy, names, told).chart.there == Run("", policy, names, records).chart.there
    assert sentences(records) == sentences(told)
    if not any(isinstance(record, r.NodesReturned) for record in records):
        assert told == records


def test_a_number_that_was_given_back_is_another_nodes() -> None:
    core = Named("fcfs")
    story: list[list[e.Event]] = [
        [
            e.Granted(NodeSet.first(2)),
            e.Submitted(1, JobSpec(name="a", nodes=Bounds.exactly(2), command=("x",))),
        ],
        [e.Ended(1, 0), e.Clean(1, NodeSet.first(2)), e.Reclaim(NodeSet.of([0]))],
        [e.Returned(NodeSet.of([0]))],
        [e.Submitted(2, JobSpec(name="b", nodes=Bounds.exactly(2), command=("x",)))],
        [e.Granted(NodeSet.of([0]))],  # the third node to come has been there: n1
        [e.Ended(2, 0), e.Clean(2, NodeSet.first(2)), e.Reclaim(NodeSet.of([0, 1]))],
        [e.Returned(NodeSet.of([0, 1]))],
        [e.Submitted(3, JobSpec(name="c", nodes=Bounds.exactly(2), command=("x",)))],
        [e.Granted(NodeSet.first(2))],  # n4 and n5
        [e.Ended(3, 0)],
    ]
    for at, events in enumerate(story):
        core.tell(events, float(at))
    names, told = by_name(core.records)
    assert names == ("n1", "n2", "n4", "n5")
    run = Run("live", "fcfs", names, told)
    held = [(run.job_name(each.job), run.hosts(each.nodes)) for each in run.chart.segments]
    assert held == [("a", "n[1-2]"), ("b", "n[1-2]"), ("c", "n[4-5]")]
    assert core.state.nodes.names == {0: "n4", 1: "n5"}


def test_a_job_that_has_lost_a_node_ends_with_the_name_that_this_had() -> None:
    core = Named("fcfs")
    spec = JobSpec(name="a", nodes=Bounds(1, 2, 1, 2), command=("x",), kind=JobKind.TASKS)
    core.tell([e.Granted(NodeSet.first(2)), e.Submitted(1, spec)], 0.0)
    core.tell([e.Lost(NodeSet.of([1]))], 1.0)
    core.tell([e.Reclaim(NodeSet.of([1])), e.Returned(NodeSet.of([1]))], 2.0)
    core.tell([e.Granted(NodeSet.of([2]))], 3.0)
    core.tell([e.Granted(NodeSet.of([1]))], 4.0)
    assert core.state.nodes.names == {0: "n1", 1: "n4", 2: "n2"}
    core.tell([e.Ended(1, 0)], 9.0)
    assert [each.error.partition(":")[0] for each in core.records if isinstance(each, r.JobEnded)] == [
        "lost group 1 on n2"
    ]

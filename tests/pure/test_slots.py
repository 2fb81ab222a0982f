"""Slots of nodes in resizes: ``pliant resize JOB --slots``, what the core makes of it, and what goes over the wire."""

from __future__ import annotations

import job_says
import pytest
from audits import audit
from commands import command
from driving import Driven
from hypothesis import given
from hypothesis import strategies as st

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import SchedulerCore, replay
from pliant.core.settings import Settings
from pliant.history.metrics import measure
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import Cluster, RunContext
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.kinds import JobKind
from pliant.model.nodes import NodeSet, parse_counts
from pliant.policy.fcfs import Fcfs
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.protocol.phases import Phase
from pliant.terminal.events import EventTexts
from pliant.terminal.glyphs import UNICODE

SETTINGS = Settings(cooldown_s=0.0, decline_backoff_s=0.0)
SLOTS = (2, 4, 2, 2)


def running(kind: JobKind = JobKind.MPI, **keys: object) -> tuple[Driven, list[r.Record]]:
    """A core with job 1 on n0 and n1, of 2 and 4 slots; n2 and n3 are free."""
    records: list[r.Record] = []
    core = Driven(Fcfs(), SETTINGS, records.append)
    spec = JobSpec(name="a", nodes=Bounds(1, 4, 1, 2), job_class=JobClass.MALLEABLE, kind=kind)
    core.tell([e.Granted(NodeSet.first(4), ("n0", "n1", "n2", "n3"), SLOTS)], 0.0)
    core.tell([e.Submitted(1, spec)], 0.0)
    core.tell([e.Hello(1)], 0.0)
    if keys.get("on", True):
        core.tell([job_says.malleable(1, on=True)], 0.0)
    return core, records


def folds(core: SchedulerCore, records: list[r.Record]) -> None:
    """The journal's lines give the same state."""
    audit(records)
    lines = [r.from_line(r.to_line(record)) for record in records]
    assert replay(lines, SETTINGS).snapshot() == core.state.snapshot()
    assert SchedulerCore.resume(Fcfs(), SETTINGS, lines).state.snapshot() == core.state.snapshot()


def test_slots_of_a_node_are_offered_and_the_node_stays_the_jobs() -> None:
    core, records = running()
    free, size = core.state.free, core.state.jobs[1].size
    (offer,) = [
        each for each in core.tell([e.ResizeOrdered(1, 0, slots={1: 1})], 1.0) if isinstance(each, c.Offer)
    ]
    assert (offer.kind, offer.slots, offer.size, offer.arriving, offer.leaving) == (
        "slots",
        {1: 1},
        2,
        (),
        (),
    )
    assert core.state.jobs[1].awake == {}
    core.tell([job_says.accepted(1, 1)], 1.1)
    core.tell([job_says.resized(1, 1)], 1.2)
    assert dict(core.state.jobs[1].awake) == {1: 1}
    assert (core.state.free, core.state.jobs[1].size, core.state.jobs[1].epoch) == (free, size, 1)
    assert not core.state.jobs[1].pinned
    folds(core, records)
    (resize,) = measure(records).jobs[0].resizes
    assert (resize.kind, resize.outcome, resize.slots) == ("slots", "done", {1: 1})
    core.tell([e.ResizeOrdered(1, 0, slots={0: 1, 1: 4})], 2.0)
    core.tell([job_says.accepted(1, 2)], 2.1)
    core.tell([job_says.resized(1, 2)], 2.2)
    assert dict(core.state.jobs[1].awake) == {0: 1}, "all of group 1 are awake again"
    folds(core, records)


def test_what_is_not_done_changes_nothing() -> None:
    declined = job_says.declined(1, 1, "no")
    for answer in (declined, job_says.failed(1, 1, "broken"), e.Ended(1, 0)):
        core, records = running()
        core.tell([e.ResizeOrdered(1, 0, slots={1: 1})], 1.0)
        if answer is not declined:
            core.tell([job_says.accepted(1, 1)], 1.0)
        core.tell([answer], 2.0)
        assert 1 not in core.state.jobs or not core.state.jobs[1].awake
        folds(core, records)
    core, records = running()
    core.tell([e.ResizeOrdered(1, 0, slots={1: 1})], 1.0)
    core.tell([job_says.accepted(1, 1)], 1.0)
    core.tell([e.TakenBack(1, "why not")], 1.5)
    core.tell([job_says.failed(1, 1, "withdrawn")], 2.0)
    assert not core.state.jobs[1].awake
    folds(core, records)


def test_an_order_of_slots_has_its_phases_and_keeps_no_policy_from_growing_the_job() -> None:
    core, records = running()
    job = core.state.jobs[1]
    before = job.grow_from, job.failures, core.state.wary
    core.tell([e.ResizeOrdered(1, 0, slots={1: 1})], 1.0)
    core.tell([job_says.accepted(1, 1)], 2.0)
    for at, phase in ((3.0, Phase.REDISTRIBUTE), (4.0, Phase.CONNECT), (5.0, Phase.REDISTRIBUTE)):
        core.tell([job_says.reached(1, 1, phase)], at)
    core.tell([job_says.failed(1, 1, "no rank can be put to sleep")], 6.0)
    (failed,) = [record for record in records if isinstance(record, r.ResizeFailed)]
    assert failed.phase is Phase.REDISTRIBUTE
    assert (job.grow_from, job.failures, core.state.wary) == before
    core.tell([e.ResizeOrdered(1, 0, slots={1: 1})], 10.0)
    core.tell([job_says.accepted(1, 2)], 11.0)
    core.tell([job_says.resized(1, 2, phases={"redistribute": 0.25})], 13.0)
    (done,) = [record for record in records if isinstance(record, r.ResizeDone)]
    assert done.phases == {"prepare": 1.0, "synchronise": 1.75, "redistribute": 0.25}
    folds(core, records)


def test_a_group_that_leaves_takes_its_sleepers_with_it() -> None:
    core, records = running()
    core.tell([e.ResizeOrdered(1, 0, slots={1: 1, 0: 1})], 1.0)
    core.tell([job_says.accepted(1, 1)], 1.0)
    core.tell([job_says.resized(1, 1)], 1.0)
    core.tell([e.ResizeOrdered(1, 1, NodeSet.of([1]))], 2.0)
    core.tell([job_says.accepted(1, 2)], 2.0)
    core.tell([core.resized(1, 2, 1)], 2.0)
    assert dict(core.state.jobs[1].awake) == {0: 1}
    folds(core, records)


REFUSED = {
    "none of the nodes of job 1, which holds n[0-1]": {2: 1},
    "give the node back with --leave n1": {1: 0},
    "n0=3: job 1 was started with 2 there; give a number from 1 to 2": {0: 3},
    "job 1 has so many ranks awake on n[0-1] already; nothing would change": {0: 2, 1: 4},
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_ordered_is_refused(why: str) -> None:
    core, _ = running()
    assert why in str(core.resizes.refusal(1, 0, NodeSet(), REFUSED[why]))
    assert not core.tell([e.ResizeOrdered(1, 0, slots=REFUSED[why])], 1.0)


def test_who_cannot_let_ranks_sleep_is_refused() -> None:
    for kind in (JobKind.PLACES, JobKind.TASKS):
        core, _ = running(kind)
        assert f"is of kind {kind}, which has no ranks that can sleep" in str(
            core.resizes.refusal(1, 0, NodeSet(), {1: 1})
        )
    core, _ = running(on=False)
    assert "is not inside its loop" in str(core.resizes.refusal(1, 0, NodeSet(), {1: 1}))
    core, _ = running()
    core.tell([e.ResizeOrdered(1, 3)], 1.0)
    assert "resize 1 of job 1 is still under way" in str(core.resizes.refusal(1, 0, NodeSet(), {1: 1}))
    core, _ = running()
    core.tell([e.Submitted(2, JobSpec(name="b", nodes=Bounds.exactly(1)))], 1.0)
    core.tell([e.Hello(2), job_says.malleable(2, on=True)], 1.0)
    assert "is rigid and keeps all its ranks" in str(core.resizes.refusal(2, 0, NodeSet(), {2: 1}))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["a"], "say what the job is to have"),
        (["a", "3", "--slots", "n3=1"], "--slots leaves the job on its nodes"),
        (["a", "--leave", "n2", "--slots", "n3=1"], "--slots leaves the job on its nodes"),
    ],
)
def test_the_command_says_what_it_cannot_order(words: list[str], why: str) -> None:
    with pytest.raises(PliantError, match=why):
        command("resize", *words)


def test_numbers_of_nodes_are_read() -> None:
    assert parse_counts("n1=2,n[3-4]=1") == {"n1": 2, "n3": 1, "n4": 1}
    for text in ("n1", "n1=x", "=1", "n1=-1", "n1=1,n1=2", "n[1=1", "", ","):
        with pytest.raises(ValueError, match=r"n3=1|twice|no hostlist|number or range"):
            parse_counts(text)


def test_the_offer_goes_over_the_wire_with_its_slots_and_a_resumed_controller_repeats_it() -> None:
    context = RunContext("/out", "/", {}, b"secret")
    cluster = Cluster(Fcfs(), SETTINGS, context)
    lines: list[bytes] = []
    sent: list[m.ControllerMessage] = []

    def tell(*inputs: o.AnyInput, now: float) -> None:
        for each in (inputs, ()):
            records, outputs = cluster.handle(each, now)
            lines.extend(map(r.to_line, records))
            sent.extend(each.message for each in outputs if isinstance(each, o.Send))

    def say(message: m.JobMessage, now: float) -> None:
        tell(o.Said("n0", codec.raw(m.Relay(1, 0, 5, codec.raw(message)))), now=now)

    spec = JobSpec(name="a", nodes=Bounds(1, 2), job_class=JobClass.MALLEABLE, command=("x",))
    tell(o.Granted(("n0", "n1"), (2, 2)), o.Batch((spec,)), now=0.0)
    token = next(each.token for each in sent if isinstance(each, m.StartGroup))
    say(m.Hello(1, 0, 0, token, 2), 0.1)
    say(m.Malleable(0, on=True), 0.2)
    tell(o.Resize(1, 0, slots={"n0": 1}), now=0.3)
    offers = [each.message for each in sent if isinstance(each, m.Deliver) and each.once == "offer 1"]
    (offer,) = [codec.from_scheduler().decode(each) for each in offers]
    assert isinstance(offer, m.Offer)
    assert (offer.size, offer.slots, offer.arriving, offer.leaving) == (1, {0: 1}, (), ())
    say(m.Accept(0, 1), 0.4)
    say(m.Done(0, 1, 0), 0.5)
    cluster = Cluster(Fcfs(), SETTINGS, context, map(r.from_line, lines))
    assert dict(cluster.core.state.jobs[1].awake) == {0: 1}


def test_what_happens_is_told_in_words() -> None:
    core, records = running()
    core.tell([e.ResizeOrdered(1, 0, slots={0: 1, 1: 2})], 1.0)
    core.tell([job_says.accepted(1, 1)], 1.0)
    core.tell([job_says.resized(1, 1, blocked_s=0.5)], 2.0)
    core.tell([e.ResizeOrdered(1, 0, slots={1: 4})], 3.0)
    core.tell([job_says.declined(1, 2, "no")], 3.0)
    told = EventTexts(["n0", "n1", "n2", "n3"])
    said = [(each.text, each.sign(UNICODE)) for record in records if (each := told.tell(record)) is not None]
    texts = [text for text, _ in said]
    assert any(
        text.startswith("a is asked to go to 1 rank of group 0, 2 ranks of group 1 awake") for text in texts
    )
    assert any(
        "a went to 1 rank of group 0, 2 ranks of group 1 awake (stood still for" in text for text in texts
    )
    assert "a: going to 4 ranks of group 1 awake was declined: no" in texts
    assert "◐" in {sign for _, sign in said}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.sampled_from("addfx")), max_size=30))
def test_any_orders_fold_to_the_same_state(orders: list[tuple[int, int, str]]) -> None:
    core, records = running()
    awake = {0: 2, 1: 4}
    for at, (node, count, what) in enumerate(orders, 1):
        slots = {node % 3: count}
        may = core.resizes.refusal(1, 0, NodeSet(), slots) is None
        assert may == (node % 3 in awake and 1 <= count <= SLOTS[node % 3] and awake[node % 3] != count)
        core.tell([e.ResizeOrdered(1, 0, slots=slots)], at)
        if not may:
            continue
        number = core.state.last_resize
        if what == "x":
            core.tell([job_says.declined(1, number, "no")], at)
            continue
        core.tell([job_says.accepted(1, number)], at)
        core.tell([job_says.failed(1, number, "broken") if what == "f" else job_says.resized(1, number)], at)
        awake |= {} if what == "f" else slots
        assert {0: 2, 1: 4, **core.state.jobs[1].awake} == awake
    folds(core, records)

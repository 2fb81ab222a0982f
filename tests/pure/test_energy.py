"""What the nodes of a simulation draw, by hand and by a second opinion: ``--energy``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import command, run_of
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_node_failures import drawn_
from test_simulation import policies_
from workloads import rigid, workload_request

import pliant
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.core.state import State
from pliant.history.energy import Energy, Power
from pliant.history.metrics import measure
from pliant.history.timeline import told
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.registry import make
from pliant.policy.view import ClusterView, Decision, Reason, Resize, Start
from pliant.sim.simulator import Conditions, SimEnd, simulate
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.failures import Down, DrawnFailures, Failures
from pliant.workloads.job import SimJob
from pliant.workloads.machine import Checkpoints, read_power
from pliant.workloads.sources import read_workload

POWER = Power(100.0, 200.0, 10.0, 60.0, 30.0)
FREE = Settings(cost=INSTANT)
KWH = 3.6e6


def run(
    jobs: list[SimJob], nodes: int, conditions: Conditions, start: str | None = None
) -> tuple[SimEnd, list[r.Record]]:
    records: list[r.Record] = []
    return simulate(jobs, nodes, make("easy", start), conditions, records.append), records


# ---- by hand ----


def test_two_jobs_and_the_nodes_between_them() -> None:
    """2 nodes are busy until 100 s. Two are idle until 60 s, the others until 160 s, and all are off until 200 s, when
    the second job gets the four of them. They are up at 230 s, and it ends at 280 s."""
    jobs = [rigid("a", 2, 100.0), rigid("b", 4, 50.0, at=200.0)]
    end, records = run(jobs, 4, Conditions(FREE, power=POWER))
    busy, idle, off = 2 * 100 + 4 * 80, 2 * 60 + 2 * 60, 2 * 140 + 2 * 40
    assert end.at == 280.0
    assert end.energy_kwh == pytest.approx((200 * busy + 100 * idle + 10 * off) / KWH)
    assert end.off_node_h == pytest.approx(off / 3600)
    assert end.boots == 4
    assert [(each.job, each.at) for each in records if isinstance(each, r.JobStarted)] == [
        (1, 0.0),
        (2, 200.0),
    ]
    assert [(each.job, each.at) for each in records if isinstance(each, r.JobRunning)] == [
        (1, 0.0),
        (2, 230.0),
    ]


def test_nodes_that_are_never_switched_off() -> None:
    jobs = [rigid("a", 2, 100.0), rigid("b", 4, 50.0, at=200.0)]
    end, _ = run(jobs, 4, Conditions(FREE, power=Power(100.0, 200.0)))
    assert end.at == 250.0
    assert end.energy_kwh == pytest.approx((200 * 400 + 100 * 600) / KWH)
    assert (end.off_node_h, end.boots) == (None, None)
    at_once, _ = run(jobs, 4, Conditions(FREE, power=Power(100.0, 200.0, 0.0, 0.0)))
    assert at_once[:3] == end[:3]
    assert at_once.energy_kwh == pytest.approx(200 * 400 / KWH)
    assert at_once.off_node_h == pytest.approx(600 / 3600)
    assert at_once.boots == 4


def test_what_lies_before_the_first_job_and_after_the_last_does_not_count() -> None:
    jobs = [rigid("a", 1, 10.0, at=1000.0)]
    end, _ = run(jobs, 2, Conditions(Settings(cost=ResizeCost(leave_s=500.0)), power=POWER))
    assert end.energy_kwh == pytest.approx((200 * 10 + 100 * 10) / KWH)
    assert (end.off_node_h, end.boots) == (0.0, 0)


class Late:
    """Starts jobs on their minimum, and lets them grow from 100 s on."""

    name = "late"

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        free = view.free
        for job in view.queue:
            free -= job.bounds.min
            yield Start(job.id, job.bounds.min, Reason("first"))
        for job in view.elastic:
            if (
                view.now >= 100
                and view.resizable(job, grow=True)
                and job.bounds.floor(job.size + free) > job.size
            ):
                yield Resize(job.id, job.size + free, Reason("late"))


def test_a_growth_waits_for_nodes_that_are_off() -> None:
    """Two nodes are off from 60 s to 100 s, when b ends and a may have all: it has them when they are up, and until
    then that of b is idle too."""
    spec = JobSpec(name="a", nodes=Bounds(1, 4), job_class=JobClass.MALLEABLE, walltime_s=400.0)
    jobs = [SimJob(spec, 400.0), rigid("b", 1, 100.0)]
    records: list[r.Record] = []
    end = simulate(jobs, 4, Late(), Conditions(FREE, power=POWER._replace(boot_s=20.0)), records.append)
    assert [(each.at, each.before, each.after) for each in records if isinstance(each, r.ResizeOffered)] == [
        (100.0, 1, 4)
    ]
    assert [each.at for each in records if isinstance(each, r.ResizeDone)] == [120.0]
    assert end.at == 120.0 + (400 - 120) / 4
    busy, idle, off = 120 + 4 * 70 + 100, 2 * 60 + 3 * 20, 2 * 40
    assert end.energy_kwh == pytest.approx((200 * busy + 100 * idle + 10 * off) / KWH)
    assert end.off_node_h == pytest.approx(off / 3600)
    assert end.boots == 2


def test_a_growth_that_waits_for_nodes_has_the_time() -> None:
    power = "idle=100,busy=200,after=0s,boot=2min"
    assert read_workload(workload_request("lublin:9", energy=power)).settings.resize_deadline_s == 240.0
    assert (
        read_workload(
            workload_request("lublin:9", energy=power, resize_deadline_s=9)
        ).settings.resize_deadline_s
        == 9.0
    )
    assert read_workload(workload_request("lublin:9")).settings.resize_deadline_s == 30.0


def test_an_offer_that_is_declined_at_once_switches_nodes_on() -> None:
    """They are off again after another minute, and the time before counts once."""
    spec = JobSpec(name="a", nodes=Bounds(1, 2), job_class=JobClass.MALLEABLE)
    node, other = NodeSet.of([0]), NodeSet.of([1])
    records = [
        r.NodesGranted(0.0, node | other),
        r.JobSubmitted(0.0, 1, spec),
        r.JobStarted(0.0, 1, node, Reason("first")),
        r.ResizeOffered(100.0, 1, 1, 1, 2, other, Reason("idle_nodes")),
        r.ResizeDeclined(100.0, 1, 1, "no"),
        r.JobEnded(200.0, 1, JobState.COMPLETED, 0, node),
    ]
    told(records, energy := Energy(POWER))
    assert energy.use().energy_kwh == pytest.approx((200 * 200 + 100 * 120 + 10 * 80) / KWH)
    assert energy.use().off_node_h == pytest.approx(80 / 3600)
    assert energy.use().boots == 1


def test_a_node_that_is_given_up_after_a_loss_is_idle_from_then_on() -> None:
    """Of four nodes one is lost at 30 s, and the job begins anew on two, for 200 s; the fourth is off from 90 s on."""
    nodes = Bounds(1, 4, factor=2, preferred=4)
    job = SimJob(JobSpec(name="a", nodes=nodes, job_class=JobClass.MALLEABLE, walltime_s=100.0), 100.0)
    failures = Failures(listed=(Down(3, 30.0, 1000.0),))
    conditions = Conditions(FREE, failures=failures, checkpoints=Checkpoints(500.0, 1.0), power=POWER)
    end, _ = run([job], 4, conditions, start="preferred")
    assert end.at == 230.0
    assert end.energy_kwh == pytest.approx((200 * (4 * 30 + 2 * 200) + 100 * 60 + 10 * 140) / KWH)
    assert end.off_node_h == pytest.approx(140 / 3600)


# ---- a second opinion ----


def switched(records: list[r.Record], power: Power) -> tuple[float, int]:
    """Node-seconds off and boots, by the state after each record: a node that is free there is not in use."""
    state = State()
    first, last = math.inf, 0.0
    left = 0
    free: dict[int, float] = {}
    gone: list[tuple[float, float, bool]] = []
    for record in records:
        before = state.nodes.free_mask
        state.apply(record)
        if isinstance(record, r.JobSubmitted) and first == math.inf:
            first = record.at
            free, gone = dict.fromkeys(free, first), []
        left += isinstance(record, r.JobSubmitted) - isinstance(record, r.JobEnded)
        if left or isinstance(record, r.JobEnded):
            last = record.at
        lost = isinstance(record, r.NodesLost)
        gone += [(free.pop(node), record.at, not lost) for node in NodeSet(before & ~state.nodes.free_mask)]
        free.update(dict.fromkeys(NodeSet(state.nodes.free_mask & ~before), record.at))
    gone += [(since, last, False) for since in free.values()]
    offs = [(max(0.0, min(to, last) - since - power.after_s), boots) for since, to, boots in gone]
    return sum(off for off, _ in offs), sum(boots for off, boots in offs if off > 0)


@given(
    elastic_jobs, policies_, settings_, st.none() | drawn_, st.booleans(),
    st.sampled_from([0.0, 5.0, 60.0]), st.sampled_from([0.0, 7.0]), st.floats(0, 1),
    st.none() | st.just(Checkpoints(10.0, 1.0)),
)  # fmt: skip
@settings(max_examples=examples(60))
def test_nodes_are_off_when_nobody_has_used_them_for_so_long(
    jobs: list[SimJob],
    policy: tuple[str, str | None],
    options: Settings,
    drawn: DrawnFailures | None,
    starting: bool,  # noqa: FBT001 - Hypothesis passes it
    after_s: float,
    boot_s: float,
    share: float,
    checkpoints: Checkpoints | None,
) -> None:
    power = Power(100.0, 200.0, 10.0, after_s, boot_s)
    failures = Failures(drawn) if drawn is not None else None
    records: list[r.Record] = []
    conditions = Conditions(options, starting, failures=failures, checkpoints=checkpoints, power=power)
    end = simulate(jobs, NODES, make(*policy), conditions, records.append)
    off, boots = switched(records, power)
    assert end.off_node_h == pytest.approx(off / 3600)
    assert end.boots == boots
    figures = measure(records)
    busy = figures.utilisation * figures.capacity_node_s
    joules = 200 * busy + 10 * off + 100 * (figures.capacity_node_s - busy - off)
    assert end.energy_kwh == pytest.approx(joules / KWH)
    energy = Energy(power)
    told(records, energy)
    assert (*energy.use(),) == end[-3:]
    energy.add(r.NodesLost(end.at + 100.0, NodeSet.first(3)))  # nobody asks for them any more
    energy.add(r.NodesBack(end.at + 200.0, NodeSet.first(2)))
    assert energy.use().energy_kwh == pytest.approx(joules / KWH)
    some = records[: int(share * len(records))]
    told(some, energy := Energy(power))
    off, boots = switched(some, power)
    assert energy.use().off_node_h == pytest.approx(off / 3600)
    assert energy.use().boots == boots
    if not boot_s:
        plain: list[r.Record] = []
        simulate(jobs, NODES, make(*policy), conditions._replace(power=None), plain.append)
        assert plain == records


# ---- as a user asks for it ----


def test_as_users_write_it() -> None:
    assert read_power("idle=100,busy=200") == Power(100.0, 200.0)
    assert read_power("idle=100, busy=200.5, off=5, after=10min, boot=2min") == (
        100.0,
        200.5,
        5.0,
        600.0,
        120.0,
    )
    assert read_power("busy=1,idle=0,after=0s") == (0.0, 1.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("idle=100", "busy is missing; write idle=100,busy=200[,off=5,after=10min,boot=2min]"),
        ("idle=100,busy=200,of=5", "there is no 'of'; did you mean 'off'?"),
        ("idle=100,busy=200,busy=3", "busy is there twice"),
        ("idle=100,busy=many", "busy: 'many' is no number of watts"),
        ("idle=-1,busy=1", "idle: '-1' is no number of watts"),
        ("idle=nan,busy=1", "idle: 'nan' is no number of watts"),
        (
            "idle=100,busy=99",
            "off 0 W, idle 100 W, busy 99 W: each must be as much as the one before, or more",
        ),
        ("idle=5,busy=9,off=6,after=1s", "off 6 W, idle 5 W"),
        ("idle=5,busy=9,off=1", "off changes nothing where nodes are never switched off; give after"),
        ("idle=5,busy=9,boot=1s", "boot changes nothing"),
        ("idle=5,busy=9,after=60", "after: '60' is no time of 0 or more with a unit"),
    ],
)
def test_what_is_no_power(text: str, message: str) -> None:
    with pytest.raises(BatchError) as caught:
        pliant.simulate("lublin:5", energy=text)
    assert str(caught.value).startswith(f"energy: {text}: ")
    assert message in str(caught.value)


def test_command_report_and_function(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text("; MaxProcs: 4\n1 0 -1 100 2\n2 200 -1 50 4\n")
    energy = "idle=100,busy=200,off=10,after=60s,boot=30s"
    words = ("simulate", str(tmp_path / "x.swf"), "--energy", energy)
    figures = run_of(command(*words, "--json", "--report", str(tmp_path / "x.html")))
    known = {"energy_kwh": pytest.approx(131_600 / KWH), "off_node_h": pytest.approx(0.1), "boots": 4}
    assert {key: figures[key] for key in known} == known
    assert "10 W when it is off, 60.0 s after its last use" in (tmp_path / "x.html").read_text(
        encoding="utf-8"
    )
    shown = command(*words)
    assert "0.04 kWh" in shown
    assert "switched on again" in shown
    metrics = pliant.simulate(tmp_path / "x.swf", energy=energy).metrics
    assert {key: metrics[key] for key in known} == known
    plain = run_of(command(*words[:2], "--json"))
    assert {plain[key] for key in known} == {None}
    [row] = json.loads(command(*words, "--malleable", "0", "--json"))["rows"]
    assert row["energy_kwh"]["mean"] == known["energy_kwh"]
    assert "energy" in command(*words, "--malleable", "0,100")
    assert "energy" not in command(*words[:2], "--malleable", "0,100")


def test_of_a_window_it_is_what_is_used_between_its_submissions() -> None:
    """From 200 to 300 s: four nodes busy for 50 s, and idle for 50 s; with after=10s they are off for 40 s."""
    jobs = {"submit_s": [0, 200, 300, 400], "run_s": [100, 50, 10, 5], "nodes": [2, 4, 1, 4]}

    def used(energy: str) -> dict[str, float | None]:
        return pliant.simulate(jobs, "easy", 4, energy=energy, window="200s..301s", warm_up="all").metrics

    found = used("idle=100,busy=200")
    assert found["energy_kwh"] == pytest.approx((200 * 200 + 200 * 100) / KWH)
    off = used("idle=100,busy=200,after=10s")
    assert off["energy_kwh"] == pytest.approx((200 * 200 + 40 * 100) / KWH)
    assert off["off_node_h"] == pytest.approx(4 * 40 / 3600)
    assert off["boots"] == 4
    with pytest.raises(BatchError, match="--energy: it is not known of --partitions"):
        pliant.simulate(jobs, "easy", energy="idle=1,busy=2", partitions=[{"name": "a", "nodes": 4}])


def test_of_a_window_it_is_by_the_order_in_which_jobs_come(tmp_path: Path) -> None:
    """The second job follows the first, and comes at 1,007 s: from 20 s on, the first has a node for 980 s, and three
    others have one for 20 s each."""
    lines = [f"{i} {i * 10 - 10} -1 20 1" + " -1" * 13 for i in (3, 4, 5)]
    first = "1 0 -1 1000 1" + " -1" * 13
    second = "2 10 -1 20 1" + " -1" * 11 + " 1 7"
    (tmp_path / "x.swf").write_text("\n".join(["; MaxProcs: 4", first, second, *lines, ""]))
    found = pliant.simulate(
        tmp_path / "x.swf",
        "easy",
        dependencies=True,
        energy="idle=100,busy=200",
        window="10s..35s",
        warm_up="all",
    ).metrics
    assert found["capacity_node_s"] == 4 * (1007 - 20)
    assert found["energy_kwh"] == pytest.approx((200 * 1040 + 100 * (4 * 987 - 1040)) / KWH)


def test_of_a_window_of_one_instant_it_is_up_to_its_last_end() -> None:
    """From 200 to 280 s: two nodes are busy for 50 and 80 s, of which one is off again after 60 s; two are never on."""
    jobs = {"submit_s": [0, 200, 200, 400], "run_s": [100, 50, 80, 5], "nodes": [2, 1, 1, 4]}
    found = pliant.simulate(
        jobs, "easy", 4, energy="idle=100,busy=200,after=10s", window="200s..201s", warm_up="all"
    ).metrics
    assert found["capacity_node_s"] == 4 * 80
    assert found["energy_kwh"] == pytest.approx((200 * 130 + 100 * 10) / KWH)
    assert found["off_node_h"] == pytest.approx((2 * 80 + 20) / 3600)
    assert found["boots"] == 2

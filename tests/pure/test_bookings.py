"""Advance reservations: while one goes on no job runs on its nodes, and no job is started that would be in its way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from audits import audit
from commands import command, simulated
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from workloads import NODES, rigid, starts_of, upper_bound_jobs

import pliant
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.files.policy import PolicySpec
from pliant.model.bookings import Booking, in_order
from pliant.model.errors import BatchError, PolicyError
from pliant.model.jobs import JobSpec
from pliant.plan.cost import INSTANT
from pliant.policy.booked import BOOKED, Calendar
from pliant.policy.conservative import Conservative
from pliant.policy.order import ORDERS, ordered
from pliant.policy.registry import POLICIES, START_RULES
from pliant.policy.view import ClusterView, Decision, Policy
from pliant.sim.beside import PartSimulation, SimulatorsBeside
from pliant.sim.instant import Instant
from pliant.sim.simulator import Conditions, SimEnd, simulate
from pliant.workloads.bookings import read_bookings
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import make_malleable

FREE = Settings(cost=INSTANT)


def run(
    jobs: Sequence[SimJob], policy: Policy, bookings: Sequence[Booking], instant: Instant = Instant.TOGETHER
) -> tuple[list[r.Record], SimEnd]:
    records: list[r.Record] = []
    conditions = Conditions(FREE, instant=instant, bookings=bookings)
    end = simulate(jobs, NODES, policy, conditions, records.append)
    return records, end


def keeping(
    name: str, bookings: Sequence[Booking], start: str | None = None, order: str | None = None
) -> Policy:
    return PolicySpec(name, start, order).make(Calendar(NODES, in_order(bookings)))


# ---- what policies do ----------------------------------------------------------------------------------

TWO = Booking("upgrade", 10.0, 20.0, 6)
"""Of the eight nodes two are left from 10 to 20."""
WORKLOAD = [
    rigid("first", 4, 8.0),
    rigid("long", 4, 12.0),
    rigid("narrow", 2, 30.0, at=1.0),
    rigid("short", 2, 5.0, at=2.0),
    rigid("wide", 8, 1.0, at=3.0),
]
"""By hand. Whoever takes four nodes for 12 s would be on six nodes that are to be free at 10. Behind first, which runs
from 0 to 8, that is long: it waits for 20, under each policy."""


@pytest.mark.parametrize(
    ("policy", "starts"),
    [
        # Nobody passes long; then narrow and short fit beside it, and wide waits for all of them.
        ("fcfs", {"first": 0, "long": 20, "narrow": 20, "short": 20, "wide": 50}),
        # Narrow has the two nodes that are left, and short two of the six until 7.
        ("firstfit", {"first": 0, "narrow": 1, "short": 2, "long": 20, "wide": 32}),
        # The same: long is promised 20, and narrow, on 2 of the 8, leaves it its four.
        ("easy", {"first": 0, "narrow": 1, "short": 2, "long": 20, "wide": 32}),
        ("conservative", {"first": 0, "narrow": 1, "short": 2, "long": 20, "wide": 32}),
    ],
)
@pytest.mark.parametrize("instant", Instant)
def test_by_hand(policy: str, starts: dict[str, float], instant: Instant) -> None:
    records, end = run(WORKLOAD, keeping(policy, [TWO]), [TWO], instant)
    assert starts_of(records) == starts
    away = [(record.at, len(record.nodes)) for record in records if isinstance(record, r.NodesReturned)]
    assert away == [(10.0, 6)]
    assert (end.reserved_node_s, end.reserved_late_node_s) == (60.0, 0.0)


def test_the_head_of_the_queue_is_promised_the_end_of_what_is_in_its_way() -> None:
    records, _ = run(WORKLOAD, keeping("easy", [TWO]), [TWO])
    (promised,) = {
        record.start_by for record in records if isinstance(record, r.JobPromised) and record.job == 2
    }
    assert promised == 20.0


# ---- properties ----------------------------------------------------------------------------------------


@st.composite
def some_bookings(draw: st.DrawFn) -> tuple[Booking, ...]:
    """At most two at once, which the machine has nodes for; times that those of jobs often coincide with."""
    found: list[Booking] = []
    at = [0.0, 0.0]
    for number in range(draw(st.integers(1, 4))):
        row = draw(st.integers(0, 1))
        start = at[row] + draw(st.integers(0, 20))
        at[row] = end = start + draw(st.integers(1, 20))
        found.append(Booking(f"r{number}", start, end, draw(st.integers(1, NODES // 2))))
    return tuple(found)


@st.composite
def some_jobs(draw: st.DrawFn) -> list[SimJob]:
    jobs = draw(upper_bound_jobs(moldable=draw(st.booleans())))
    if all(job.spec.nodes.min == job.spec.nodes.max for job in jobs):
        jobs = make_malleable(jobs, draw(st.sampled_from([0, 100])), NODES, 7)
    return jobs


@limits(deadline=None)
@given(
    jobs=some_jobs(),
    bookings=some_bookings(),
    name=st.sampled_from(sorted(BOOKED)),
    start=st.sampled_from(START_RULES),
    order=st.sampled_from(sorted(ORDERS)),
    instant=st.sampled_from(Instant),
)
def test_no_job_runs_on_reserved_nodes_nor_starts_in_their_way(
    jobs: list[SimJob],
    bookings: tuple[Booking, ...],
    name: str,
    start: str,
    order: str,
    instant: Instant,
) -> None:
    """Estimates are upper bounds: so each has all of its nodes from its first moment to its last, and every job runs."""
    records, end = run(jobs, keeping(name, bookings, start, order), bookings, instant)
    assert end.jobs == len(jobs)
    assert end.reserved_late_node_s == 0.0
    audit(records)
    free = set(range(NODES))
    running: dict[int, tuple[set[int], float]] = {}
    specs: dict[int, JobSpec] = {}
    for record in records:
        match record:
            case r.NodesReturned(at=at, nodes=nodes):
                assert set(nodes) <= free
                free -= set(nodes)
                assert any(each.start_s == at for each in bookings)
            case r.NodesGranted(at=at, nodes=nodes) if at or set(nodes) != free:
                assert not free & set(nodes)
                free |= set(nodes)
                assert any(each.end_s == at for each in bookings)
            case r.JobSubmitted(job=job, spec=spec):
                specs[job] = spec
            case r.JobStarted(at=at, job=job, nodes=nodes):
                assert set(nodes) <= free
                free -= set(nodes)
                running[job] = set(nodes), at + specs[job].estimate(len(nodes))
                for booking in bookings:
                    if booking.start_s > at:
                        there = sum(
                            each.nodes for each in bookings if each.start_s <= booking.start_s < each.end_s
                        )
                        then = sum(
                            len(nodes) for nodes, until in running.values() if until > booking.start_s + 1e-9
                        )
                        assert then + there <= NODES
            case r.JobEnded(job=job):
                free |= running.pop(job)[0]
            case _:
                pass
    for at in sorted({record.at for record in records if record.at < end.at}):
        booked = sum(each.nodes for each in bookings if each.start_s <= at < each.end_s)
        assert away_at(records, at) == booked


def away_at(records: Sequence[r.Record], at: float) -> int:
    """How many nodes are away when all is done that happens then."""
    away = 0
    first = True
    for record in records:
        if record.at > at:
            break
        if isinstance(record, r.NodesReturned):
            away += len(record.nodes)
        elif isinstance(record, r.NodesGranted):
            away -= 0 if first else len(record.nodes)
            first = False
    return away


class Anew(Conservative):
    def decide(self, view: ClusterView) -> list[Decision]:
        self._kept = None
        return super().decide(view)


def usual_policy(name: str, start: str, order: str) -> Policy:
    if name == "conservative":
        return ordered(Anew(start), order)
    return PolicySpec(name, start, order).make()


@limits(deadline=None)
@given(
    jobs=some_jobs(),
    name=st.sampled_from(sorted(BOOKED)),
    start=st.sampled_from(START_RULES),
    order=st.sampled_from(sorted(ORDERS)),
    instant=st.sampled_from(Instant),
)
def test_with_nothing_reserved_policies_are_what_they_are(
    jobs: list[SimJob], name: str, start: str, order: str, instant: Instant
) -> None:
    """To the last bit; of conservative backfilling, what it is if it looks at all places in each pass."""
    usual, _ = run(jobs, usual_policy(name, start, order), (), instant)
    records, _ = run(jobs, keeping(name, (), start, order), (), instant)
    assert [*map(r.to_line, records)] == [*map(r.to_line, usual)]


@limits(deadline=None)
@given(
    jobs=upper_bound_jobs(moldable=False),
    bookings=some_bookings(),
    name=st.sampled_from(["easy", "conservative"]),
)
def test_what_is_promised_beside_reservations_is_kept(
    jobs: list[SimJob], bookings: tuple[Booking, ...], name: str
) -> None:
    records, _ = run(jobs, keeping(name, bookings), bookings)
    first: dict[int, float] = {}
    for record in records:
        if isinstance(record, r.JobPromised):
            first.setdefault(record.job, record.start_by)
        elif isinstance(record, r.JobStarted):
            assert record.at <= first.get(record.job, record.at) + 1e-6


def test_reservations_that_begin_together_have_nodes_of_their_own() -> None:
    both = [Booking("a", 5.0, 9.0, 3), Booking("b", 5.0, 7.0, 2)]
    records, end = run(
        [rigid("x", 4, 6.0), rigid("y", 3, 1.0), rigid("z", 8, 1.0)], keeping("easy", both), both
    )
    assert starts_of(records) == {"y": 0, "z": 1, "x": 7}
    away = [(record.at, str(record.nodes)) for record in records if isinstance(record, r.NodesReturned)]
    back = [(record.at, str(record.nodes)) for record in records if isinstance(record, r.NodesGranted)]
    assert away == [(5.0, "0-4")]
    assert back == [(0.0, "0-7"), (7.0, "0-1"), (9.0, "2-4")]
    assert end.reserved_node_s == 3 * 4 + 2 * 2


def test_jobs_that_take_longer_than_they_said_make_a_reservation_late() -> None:
    """Two of its six nodes come at 14; those that are free at 12 are not given to waiting, which would fit on them."""
    long = msgspec.structs.replace(rigid("late", 4, 9.0), runtime_s=14.0)
    waits = rigid("waits", 2, 3.0, at=12.0)
    records, end = run([long, waits, rigid("other", 2, 4.0, at=8.0)], keeping("easy", [TWO]), [TWO])
    assert starts_of(records) == {"late": 0, "other": 8, "waits": 14}
    away = [(record.at, len(record.nodes)) for record in records if isinstance(record, r.NodesReturned)]
    assert away == [(10.0, 2), (12.0, 2), (14.0, 2)]
    assert end.reserved_late_node_s == 4 * 2 + 2 * 2
    assert end.reserved_node_s == 2 * 2 + 4 * 2 + 6 * 3  # the last job ends at 17


def test_a_partition_keeps_what_is_reserved_of_it() -> None:
    one, other = Booking("a", 5.0, 9.0, 2, "p1"), Booking("b", 1.0, 3.0, 1)
    records: list[r.Record] = []
    parts = [
        PartSimulation(
            "p0",
            [rigid("x", 2, 2.0, at=0.5)],
            2,
            PolicySpec("easy").make(Calendar(2, (other,))),
            records.append,
        ),
        PartSimulation(
            "p1", [rigid("y", 2, 6.0)], 2, PolicySpec("easy").make(Calendar(2, (one,))), records.append
        ),
    ]
    end = SimulatorsBeside(parts, Conditions(FREE, bookings=(other, one))).run()
    assert starts_of(records) == {"x": 3.0, "y": 9.0}
    assert end.reserved_node_s == 2 * 1 + 4 * 2
    with pytest.raises(
        BatchError, match=r"reservation 'a': nodes: with those that .* 3 are reserved at 5 s, and par"
    ):
        SimulatorsBeside(parts, Conditions(FREE, bookings=(one._replace(nodes=3),)))


# ---- the file, and what is refused ---------------------------------------------------------------------

FILE = """
[[reservation]]
name = "upgrade"
start = 10
end = 20
nodes = 3
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there are no reservations; add at least one"),
        ("[[reservations]]\nstart = 1", "unknown key 'reservations'; did you mean 'reservation'?"),
        (FILE + "node = 3", "reservation 'upgrade': unknown key 'node'; did you mean 'nodes'?"),
        (FILE.replace("end = 20", ""), "reservation 'upgrade': end: missing"),
        (FILE.replace("20", "10"), "reservation 'upgrade': end: 10 s is no later than its start, 10 s"),
        (
            FILE.replace("20", "1e299"),
            "reservation 'upgrade': end: 1e+299 s is too late; the latest is 1e+12 s",
        ),
        (FILE.replace("10", "'soon'"), "reservation 'upgrade': start: 'soon' is no time of 0 or more"),
        (FILE.replace("= 3", "= 0"), "reservation 'upgrade': nodes: expected a whole number of 1 or more"),
        (FILE.replace('"upgrade"', "7"), "reservation 1: name: expected a text"),
        ("[[reservation", "is no TOML"),
    ],
)
def test_mistakes_in_the_file_are_named(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(BatchError, match=r"reservations: .*r\.toml: ") as error:
        read_bookings(path)
    assert told in str(error.value)


TRACE = """; MaxProcs: 4
1 0 -1 8 2 -1 -1 2 8 -1 1 1 -1 -1 -1 -1 -1 -1
2 1 -1 12 2 -1 -1 2 12 -1 1 1 -1 -1 -1 -1 -1 -1
"""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.swf").write_text(TRACE)
    Path("r.toml").write_text(FILE)


@pytest.mark.usefixtures("there")
def test_a_trace_with_a_reservation() -> None:
    words = ("--reservations", "r.toml", "--policy", "easy", "--jobs-csv", "j.csv", "--report", "r.html")
    said = [" ".join(line.split()) for line in command("simulate", "t.swf", *words).splitlines()]
    assert "│ reserved in advance │ 30 node s │" in said
    assert [line.split(",")[6] for line in Path("j.csv").read_text().splitlines()[1:]] == ["0.0", "20.0"]
    assert "reservation upgrade: 3 nodes from 10 to 20 s" in Path("r.html").read_text()
    figures = simulated("t.swf", "--reservations", "r.toml")
    assert (figures["reserved_node_s"], figures["reserved_late_node_s"]) == (30.0, 0.0)
    assert figures["capacity_node_s"] == 4 * 32.0 - 30.0
    assert simulated("t.swf")["reserved_node_s"] == 0
    rows = json.loads(
        command("simulate", "t.swf", *words[:2], "--policy", "easy,fcfs", "--workers", "1", "--json")
    )
    assert [row["wait_mean_s"]["mean"] for row in rows["rows"]] == [9.5, 9.5]


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("name", sorted({*POLICIES} - {*BOOKED}))
def test_policies_that_cannot_keep_them_are_refused(name: str) -> None:
    with pytest.raises(
        PolicyError, match=f"policy '{name}' keeps no reservations.* fcfs, firstfit, easy, conservat"
    ):
        command("simulate", "t.swf", "--reservations", "r.toml", "--policy", name)


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--failures", "mtbf=1h,repair=1min"), "--reservations and --failures: a policy cannot tell"),
        (
            ("--nodes", "2"),
            "reservation 'upgrade': nodes: with those that go on then 3 are reserved at 10 s, and there",
        ),
        (("--malleable", "100"), "policy 'malleable' keeps no reservations"),
        (("--policy", "exec:true"), "policy 'exec:true' keeps no reservations"),
        (("--policy", "mine.py"), "policy 'mine.py' keeps no reservations"),
        (("--policy", "easy:begin=max"), "policy 'easy' has no parameter 'begin'"),
    ],
)
def test_what_does_not_go_with_reservations(words: Sequence[str], told: str) -> None:
    Path("mine.py").write_text(
        "class Mine:\n    name = 'mine'\n    def decide(self, view):\n        return []\n"
    )
    with pytest.raises((BatchError, PolicyError), match=told):
        command("simulate", "t.swf", "--reservations", "r.toml", *words)


@pytest.mark.usefixtures("there")
def test_a_reservation_of_no_partition_that_there_is() -> None:
    Path("r.toml").write_text(FILE + 'partition = "fast"\n')
    with pytest.raises(BatchError, match="reservation 'upgrade': partition: there is no 'fast'"):
        command("simulate", "t.swf", "--reservations", "r.toml")
    Path("p.toml").write_text('[[partition]]\nname = "fats"\nnodes = 4')
    with pytest.raises(BatchError, match="there is no 'fast'; did you mean 'fats'"):
        command("simulate", "t.swf", "--reservations", "r.toml", "--partitions", "p.toml")
    Path("p.toml").write_text('[[partition]]\nname = "fast"\nnodes = 2')
    with pytest.raises(BatchError, match="3 are reserved at 10 s, and partition 'fast' has 2"):
        command("simulate", "t.swf", "--reservations", "r.toml", "--partitions", "p.toml")


def test_reservations_from_a_program() -> None:
    jobs = [pliant.Job(0.0, 8.0, 2), pliant.Job(1.0, 12.0, 2)]
    tables = [{"start": 10, "end": 20, "nodes": 3}]
    result = pliant.simulate(jobs, "conservative:start=max", 4, reservations=tables)
    assert result.jobs["start_s"] == [0.0, 20.0]
    assert result.metrics["reserved_node_s"] == 30.0
    with pytest.raises(PolicyError, match="policy 'Conservative' keeps no reservations"):
        pliant.simulate(jobs, Conservative, 4, reservations=tables)
    evolving = pliant.Job(0.0, 9.0, 1, nodes_max=2, job_class="evolving")
    with pytest.raises(
        BatchError, match="job '1': it asks for nodes itself, and would grow into those that are reserved"
    ):
        pliant.simulate([evolving], "easy", 4, reservations=tables)

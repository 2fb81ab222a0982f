"""The parts of ``pliant.mpi`` that need no MPI: what the root answers, the timetable, the agreed value."""

# ruff: noqa: E402 - MPI must not be initialised by the first import

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

mpi4py = pytest.importorskip("mpi4py")
mpi4py.rc.initialize = mpi4py.rc.finalize = False

from pliant.model.jobs import Bounds
from pliant.model.speedup import Amdahl
from pliant.mpi.checks import MAX_LAG, Action, Decision, better_lag
from pliant.mpi.negotiation import Negotiation, Situation, leaving
from pliant.mpi.pace import Pace
from pliant.mpi.team import Member
from pliant.protocol.codec import from_job
from pliant.protocol.job_side import JobSide
from pliant.protocol.messages import (
    Drain,
    GroupLost,
    Hello,
    JobMessage,
    Offer,
    SchedulerMessage,
    Withdraw,
)

MEMBERS = tuple(Member(group, f"n{group}", 2) for group in range(4))
GROW = Offer(1, 0, "expand", 6, ("n4", "n5"), 30.0, groups=(4, 5))
SHRINK = Offer(2, 0, "shrink", 2, (), 30.0)
DRAIN = Drain(3, 0, 3, ("n0",), 30.0)


class FakeSession:
    """The state machine of a session, without a socket."""

    def __init__(self) -> None:
        self.side = JobSide()
        self.sent: list[JobMessage] = []
        self.inbox: deque[SchedulerMessage] = deque()
        self.values: dict[tuple[int, str], str] = {}
        self.send(Hello(1, 0, 0, "t", 2))
        self.sent.clear()

    def send(self, message: JobMessage) -> None:
        self.sent.append(from_job().decode(self.side.send(message).strip()))

    def poll(self) -> None:
        pass

    def take(self) -> SchedulerMessage | None:
        if not self.inbox:
            return None
        self.side.receive(self.inbox[0])
        return self.inbox.popleft()

    def words(self) -> list[str]:
        """What was sent since the last call: names, and the reason where there is one; (late) where it says so."""
        sent, self.sent = self.sent, []
        return [
            " ".join([type(m).__name__, getattr(m, "reason", getattr(m, "error", ""))]).strip()
            + " (late)" * getattr(m, "late", False)
            for m in sent
        ]


@pytest.fixture
def table() -> tuple[FakeSession, Negotiation]:
    session = FakeSession()
    return session, Negotiation(session, Bounds(1, 8))  # type: ignore[arg-type]


def now(left: int = 100, lag: int = 2, most: int = 99) -> Situation:
    return Situation(0, MEMBERS, left, lag, most, "arrays")


def hear(
    table: tuple[FakeSession, Negotiation], *messages: SchedulerMessage, at: Situation | None = None
) -> list[str]:
    session, negotiation = table
    session.inbox.extend(messages)
    negotiation.answer(at or now())
    return session.words()


def test_an_expansion_waits_for_the_newcomers(table: tuple[FakeSession, Negotiation]) -> None:
    session, negotiation = table
    assert hear(table, GROW) == ["Accept", "Get"]
    assert negotiation.decide(now()) == Decision()
    session.values[1, "r1/joined"] = "arrays"
    assert negotiation.decide(now()) == Decision(Action.EXPAND, resize=1)
    assert negotiation.decide(now()) == Decision()
    assert negotiation.confirm(1, now())
    assert session.words() == []


def test_newcomers_with_other_arrays_are_not_joined(table: tuple[FakeSession, Negotiation]) -> None:
    session, negotiation = table
    hear(table, GROW)
    session.values[1, "r1/joined"] = "nothing"
    assert negotiation.decide(now()).action is Action.NONE
    assert session.words() == ["Failed the newcomers registered nothing, the job has arrays"]


def test_a_shrink_is_decided_at_once(table: tuple[FakeSession, Negotiation]) -> None:
    assert hear(table, SHRINK) == ["Accept"]
    assert table[1].decide(now()) == Decision(Action.SHRINK, resize=2)
    assert table[1].leaving(MEMBERS) == (2, 3)


@pytest.mark.parametrize(
    ("offer", "at", "reason"),
    [
        (GROW, now(left=3), "only 3 steps are left (late)"),
        (GROW, now(most=5), "the program's arrays have rows for 5 nodes, not for 6"),
        (Offer(1, 7, "shrink", 1, (), 1.0), now(), "the offer is for epoch 7, the job is in epoch 0"),
        (
            Offer(1, 0, "expand", 9, ("x",), 1.0, (9,)),
            now(),
            "9 nodes are none of the sizes the program allows (1:8)",
        ),
        (Offer(1, 0, "shrink", 2, ("n9",), 1.0), now(), "the job has no node n9"),
        (Offer(1, 0, "turn", 2, (), 1.0), now(), "the offer's kind 'turn' is unknown"),
    ],
)
def test_what_cannot_be_is_declined(
    table: tuple[FakeSession, Negotiation], offer: Offer, at: Situation, reason: str
) -> None:
    assert hear(table, offer, at=at) == [f"Decline {reason}"]
    assert table[0].side.state == "ready"


def test_a_withdrawn_resize_fails_while_it_can(table: tuple[FakeSession, Negotiation]) -> None:
    assert hear(table, GROW, Withdraw(1)) == ["Accept", "Get", "Failed withdrawn"]
    assert hear(table, SHRINK) == ["Accept"]
    assert table[1].decide(now()).action is Action.SHRINK
    assert hear(table, Withdraw(2)) == []  # decided: the last word comes when all have stopped
    assert not table[1].confirm(2, now())
    assert table[0].words() == ["Failed withdrawn"]
    assert hear(table, Withdraw(2)) == []


def test_the_last_word_may_be_an_objection(table: tuple[FakeSession, Negotiation]) -> None:
    session, negotiation = table
    hear(table, GROW)
    session.values[1, "r1/joined"] = "arrays"
    assert negotiation.decide(now()).action is Action.EXPAND
    assert not negotiation.confirm(1, now(), "no room")
    assert session.words() == ["Failed no room"]
    assert not negotiation.confirm(1, now(), "no room")
    assert session.words() == []
    assert hear(table, SHRINK) == ["Accept"]


def test_a_lost_newcomer_costs_only_the_resize(table: tuple[FakeSession, Negotiation]) -> None:
    assert hear(table, GROW, GroupLost(5)) == [
        "Accept",
        "Get",
        "Failed group 5 was lost before it was joined",
    ]
    assert hear(table, GROW) == ["Accept", "Get"]


def test_the_job_repeats_why_the_first_newcomer_was_lost(table: tuple[FakeSession, Negotiation]) -> None:
    session, negotiation = table
    hear(table, GROW)
    session.inbox.extend([GroupLost(5, "KeyError: 'newcomer'; exit code 1"), GroupLost(4, "signal 9")])
    negotiation.answer(now())
    assert session.words() == ["Failed KeyError: 'newcomer'; exit code 1"]


def test_a_drain_is_accepted_or_outlived(table: tuple[FakeSession, Negotiation]) -> None:
    assert hear(table, DRAIN, at=now(left=2)) == []
    table[1].end(0)
    assert table[0].words() == ["Malleable"]
    assert table[0].side.state == "draining"


def test_a_drain_names_who_leaves(table: tuple[FakeSession, Negotiation]) -> None:
    assert hear(table, DRAIN) == ["Accept"]
    assert table[1].leaving(MEMBERS) == (0,)


def test_the_end_of_the_loop_fails_what_is_open(table: tuple[FakeSession, Negotiation]) -> None:
    hear(table, GROW)
    table[1].end(0)
    assert table[0].words() == ["Failed the loop has ended (late)", "Malleable"]
    table[0].inbox.append(SHRINK)
    table[1].end(0)
    assert table[0].words() == ["Decline the loop has ended (late)", "Malleable"]


@given(st.integers(2, 9), st.data())
def test_the_named_leave_first(nodes: int, data: st.DataObject) -> None:
    members = [Member(group, f"n{group}", 1) for group in range(nodes)]
    size = data.draw(st.integers(1, nodes - 1))
    named = data.draw(st.lists(st.sampled_from(range(nodes)), max_size=nodes - size, unique=True))
    gone = leaving(members, size, [f"n{group}" for group in named])
    assert len(gone) == nodes - size
    assert set(named) <= set(gone)
    others = [group for group in gone if group not in named]
    assert all(group in gone for group in range(min(others, default=nodes), nodes))
    with pytest.raises(ValueError, match="cannot become"):
        leaving(members, nodes, [])


@given(st.sampled_from(Action), st.integers(1, MAX_LAG), st.integers(0, 2**32 - 1))
def test_the_agreed_value_survives_its_8_bytes(action: Action, lag: int, resize: int) -> None:
    decision = Decision(action, lag, resize)
    assert len(decision.pack()) == 8
    assert Decision.unpack(decision.pack()) == decision


@given(st.floats(1e-7, 1e-2), st.floats(1e-7, 10.0))
def test_checking_stays_cheap(cost_s: float, step_s: float) -> None:
    lag = better_lag(cost_s, step_s)
    assert lag in {1, MAX_LAG} or cost_s <= 0.005 * lag * step_s * (1 + 1e-9)
    assert lag in {1, MAX_LAG} or cost_s >= 0.005 * (lag - 1) * step_s * (1 - 1e-9)


def test_a_timetable_follows_the_model_and_forgets_blocked_time() -> None:
    pace = Pace(Amdahl(100.0), 100)
    pace.begin(0, 1, 1000.0)
    assert pace.start_of(10) == 1010.0
    pace.end(10, 1011.0)
    assert pace.sums(10, 1011.0) == (10.0, 11.0)
    pace.begin(10, 4, 1016.0)  # 5 s for a resize
    assert pace.start_of(14) == 1017.0
    assert pace.sums(14, 1017.0) == (11.0, 12.0)


def test_without_a_model_nothing_is_paced() -> None:
    pace = Pace(None, 10)
    pace.begin(0, 3, 5.0)
    assert pace.start_of(7) == 5.0
    assert pace.sums(7, 9.0) == (0.0, 0.0)

"""What a job's root answers: its session and its negotiation, driven by the scheduler's bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.job.decisions import Action, Decision
from pliant.job.errors import AgentLost
from pliant.job.negotiation import Situation, leaving
from pliant.job.recording import JobDifference, Tape, TapedNegotiation, TapedSession, replay
from pliant.model.errors import ProtocolError
from pliant.model.jobs import Bounds
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.protocol.scheduler_side import SEND, SchedulerSide

MEMBERS = (0, 1, 2, 3)
NEW = (m.NewGroup(4, "n4", 2), m.NewGroup(5, "n5", 2))
GROW = m.Offer(1, 0, 6, 30.0, NEW)
SHRINK = m.Offer(2, 0, 2, 30.0)
DRAIN = m.Drain(3, 0, 3, 30.0, (0,))
JOINED = m.Value(1, "r1/joined", "arrays")
MIGRATION = (
    "groups 4 arrive while others leave, and this program's runtime cannot do both in one resize: "
    "offer an expansion and a shrink, one after the other"
)
TOLD = "groups 3 that are to arrive some are there already"


def situation(left: int = 100, lag: int = 2, most: int = 99, epoch: int = 0) -> Situation:
    return Situation(epoch, MEMBERS, left, lag, most, "arrays")


class Root:
    """A root's session and negotiation; what it sends is decoded as the scheduler does. All is taken down, and played
    again to new ones with the same outcome."""

    def __init__(self, *, migrates: bool = False, sleeps: bool = False) -> None:
        self.sent: list[m.JobMessage] = []
        self.said: list[str] = []
        self.lines: list[bytes] = []
        tape = Tape(self.lines.append)
        self.session = TapedSession(tape, lambda line: self.sent.append(codec.from_job().decode(line)))
        self.session.send(m.Hello(1, 0, 0, "t", 2))
        self.sent.clear()
        self.negotiation = TapedNegotiation(
            self.session, Bounds(1, 8), self.said.append, migrates=migrates, sleeps=sleeps
        )

    def hear(self, *messages: m.SchedulerMessage, at: Situation | None = None) -> list[str]:
        self.session.receive(b"".join(map(codec.encode, messages)))
        self.negotiation.answer(at or situation())
        return self.words()

    def words(self) -> list[str]:
        """What was sent since the last call: names, and the reason where there is one; (late) where it says so."""
        assert not list(replay(self.lines))
        sent, self.sent = self.sent, []
        return [
            " ".join([type(m).__name__, getattr(m, "reason", getattr(m, "error", ""))]).strip()
            + " (late)" * getattr(m, "late", False)
            for m in sent
        ]


@pytest.fixture
def root() -> Root:
    return Root()


def test_an_expansion_waits_for_the_newcomers(root: Root) -> None:
    assert root.hear(GROW) == ["Accept", "Get"]
    assert root.negotiation.newcomers == (4, 5)
    assert root.negotiation.decide(situation()) == Decision()
    assert root.hear(JOINED) == []
    assert root.negotiation.decide(situation()) == Decision(Action.EXPAND, resize=1)
    assert root.negotiation.decide(situation()) == Decision()
    assert root.negotiation.confirm(1, situation())
    assert root.negotiation.leaving(MEMBERS) == ()
    root.negotiation.done(m.Done(0, 1, 0))
    assert root.words() == ["Done"]
    assert root.session.side.state == "ready"


def begin_expansion(root: Root) -> None:
    """Its expansion goes on beside the steps."""
    root.hear(GROW, JOINED)
    assert root.negotiation.decide(situation()).action is Action.EXPAND
    assert root.negotiation.confirm(1, situation())
    root.negotiation.go_ahead()
    root.words()


def test_an_expansion_that_goes_on_beside_the_steps_ends_when_all_is_there(root: Root) -> None:
    begin_expansion(root)
    assert root.negotiation.decide(situation()) == Decision()
    assert root.negotiation.finish(situation(), there=False) == Decision()
    assert root.negotiation.finish(situation(), there=True) == Decision(Action.FINISH, resize=1)
    assert root.negotiation.confirm(1, situation())
    root.negotiation.done(m.Done(0, 1, 0))
    assert root.words() == ["Done"]
    assert root.negotiation.finish(situation(), there=True) == Decision()


@pytest.mark.parametrize("message", [m.GroupLost(4, "it was killed"), m.Withdraw(1)])
def test_an_expansion_beside_the_steps_stops_for_what_has_become_of_it(
    root: Root, message: m.SchedulerMessage
) -> None:
    """All ranks have to stop before any goes back."""
    begin_expansion(root)
    assert root.hear(message) == []
    assert root.negotiation.finish(situation(), there=False) == Decision(Action.FINISH, resize=1)
    assert not root.negotiation.confirm(1, situation())
    why = "it was killed" if isinstance(message, m.GroupLost) else "withdrawn"
    assert root.words() == [f"Failed {why}"]


def test_an_expansion_beside_the_steps_is_done_while_there_are_steps_for_it(root: Root) -> None:
    begin_expansion(root)
    assert root.negotiation.finish(situation(left=6), there=False) == Decision()
    assert root.negotiation.finish(situation(left=5), there=False) == Decision(Action.FINISH, resize=1)
    assert root.negotiation.finish(situation(left=2), there=True) == Decision()
    root.negotiation.end(0)
    assert root.words() == ["Failed the loop has ended (late)", "Malleable"]


def test_newcomers_with_other_arrays_are_not_joined(root: Root) -> None:
    root.hear(GROW, m.Value(1, "r1/joined", "nothing"))
    assert root.negotiation.decide(situation()).action is Action.NO_ACTION
    assert root.words() == ["Failed the newcomers registered nothing, the job has arrays"]


def test_a_shrink_is_decided_at_once(root: Root) -> None:
    assert root.hear(SHRINK) == ["Accept"]
    assert root.negotiation.decide(situation()) == Decision(Action.SHRINK, resize=2)
    assert root.negotiation.leaving(MEMBERS) == (2, 3)


def test_a_runtime_that_can_migrates() -> None:
    root = Root(migrates=True)
    assert root.hear(m.Offer(1, 0, 4, 30.0, NEW, (0,)), JOINED) == ["Accept", "Get"]
    assert root.negotiation.decide(situation()) == Decision(Action.MIGRATE, resize=1)
    assert root.negotiation.leaving(MEMBERS) == (0, 3)
    assert root.negotiation.newcomers == (4, 5)


def test_a_migration_that_cannot_be_is_declined_by_a_runtime_that_can() -> None:
    assert Root(migrates=True).hear(m.Offer(1, 0, 4, 1.0, NEW, (9,))) == ["Decline the job has no group 9"]


def test_a_runtime_that_can_lets_ranks_sleep_and_changes_no_nodes() -> None:
    root = Root(sleeps=True)
    assert root.hear(m.Offer(1, 0, 4, 30.0, slots={2: 1})) == ["Accept"]
    assert root.negotiation.decide(situation()) == Decision(Action.SLOTS, resize=1)
    assert (root.negotiation.slots, root.negotiation.newcomers) == ({2: 1}, ())
    assert root.negotiation.leaving(MEMBERS) == ()
    assert root.negotiation.confirm(1, situation())
    root.negotiation.done(m.Done(0, 1, 0))
    assert root.negotiation.slots == {}


@pytest.mark.parametrize(
    ("offer", "reason"),
    [
        (m.Offer(1, 0, 4, 1.0, slots={9: 1}), "the job has no group 9"),
        (m.Offer(1, 0, 4, 1.0, slots={2: 0}), "at least one rank of group 2 has to stay awake"),
        (m.Offer(1, 0, 3, 1.0, slots={2: 1}), "an offer that says how many ranks are awake changes no nodes"),
        (
            m.Offer(1, 0, 6, 1.0, NEW, slots={2: 1}),
            "an offer that says how many ranks are awake changes no nodes",
        ),
    ],
)
def test_slots_that_cannot_be_are_declined(offer: m.Offer, reason: str) -> None:
    assert Root(sleeps=True).hear(offer)[0].startswith(f"Decline {reason}")


def test_a_runtime_that_cannot_declines_slots() -> None:
    no = "this program's runtime cannot put ranks to sleep: offer another number of nodes"
    assert Root(migrates=True).hear(m.Offer(1, 0, 4, 1.0, slots={2: 1})) == [f"Decline {no}"]


@pytest.mark.parametrize(
    ("offer", "at", "reason"),
    [
        (GROW, situation(left=3), "only 3 steps are left (late)"),
        (GROW, situation(left=1), "only 1 step is left (late)"),
        (GROW, situation(most=5), "the program's arrays have rows for 5 nodes, not for 6"),
        (m.Offer(1, 7, 1, 1.0), situation(), "the offer is for epoch 7, the job is in epoch 0"),
        (m.Offer(1, 0, 9, 1.0, NEW), situation(), "9 nodes are none of the sizes the program allows (1:8)"),
        (m.Offer(1, 0, 7, 1.0, NEW), situation(), "4 nodes and 2 new groups do not make 7"),
        (m.Offer(1, 0, 2, 1.0, (), (9,)), situation(), "the job has no group 9"),
        (m.Offer(1, 0, 4, 1.0), situation(), "4 groups cannot become 4 by giving back any"),
        (m.Offer(1, 0, 3, 1.0, (), (1, 2)), situation(), "4 groups cannot become 3 by giving back 1, 2"),
        (m.Offer(1, 0, 5, 1.0, (m.NewGroup(3, "n3", 2),)), situation(), f"of the {TOLD}"),
        (m.Offer(1, 0, 4, 1.0, NEW[:1], (0,)), situation(), MIGRATION),
        (m.Offer(1, 0, 5, 1.0, NEW), situation(), MIGRATION.replace("4 arrive", "4, 5 arrive")),
    ],
)
def test_what_cannot_be_is_declined(root: Root, offer: m.Offer, at: Situation, reason: str) -> None:
    assert root.hear(offer, at=at) == [f"Decline {reason}"]
    assert root.session.side.state == "ready"


def test_a_withdrawn_offer_is_declined_and_a_withdrawn_resize_fails_while_it_can(root: Root) -> None:
    assert root.hear(GROW, m.Withdraw(1)) == ["Accept", "Get", "Failed withdrawn"]
    assert root.hear(DRAIN, m.Withdraw(3)) == ["Decline withdrawn"]
    assert root.hear(SHRINK) == ["Accept"]
    assert root.negotiation.decide(situation()).action is Action.SHRINK
    assert root.hear(m.Withdraw(2)) == []  # decided: the last word comes when all have stopped
    assert not root.negotiation.confirm(2, situation())
    assert root.words() == ["Failed withdrawn"]
    assert root.hear(m.Withdraw(2)) == []


def test_the_last_word_may_be_an_objection(root: Root) -> None:
    root.hear(GROW, JOINED)
    assert root.negotiation.decide(situation()).action is Action.EXPAND
    assert not root.negotiation.confirm(1, situation(), "no room")
    assert root.words() == ["Failed no room"]
    assert not root.negotiation.confirm(1, situation(), "no room")
    assert root.words() == []
    assert root.hear(SHRINK) == ["Accept"]


def test_a_lost_newcomer_costs_only_the_resize_and_the_first_loss_is_repeated(root: Root) -> None:
    lost = "group 5 was lost before it was joined"
    assert root.hear(GROW, m.GroupLost(5)) == ["Accept", "Get", f"Failed {lost}"]
    losses = [m.GroupLost(5, "KeyError: 'newcomer'; exit code 1"), m.GroupLost(4, "signal 9")]
    assert root.hear(GROW, *losses) == ["Accept", "Get", "Failed KeyError: 'newcomer'; exit code 1"]
    assert root.hear(GROW, m.GroupLost(3), m.GroupLost(9)) == ["Accept", "Get"]


def test_a_drain_is_accepted_or_outlived(root: Root) -> None:
    assert root.hear(DRAIN, at=situation(left=2)) == []
    root.negotiation.end(0)
    assert root.words() == ["Malleable"]
    assert root.session.side.state == "draining"
    root.session.receive(codec.encode(m.Withdraw(3)))
    root.negotiation.end(0)
    assert root.words() == ["Decline the loop has ended (late)", "Malleable"]


def test_a_drain_names_who_leaves_as_far_as_they_are_still_there(root: Root) -> None:
    assert root.hear(DRAIN) == ["Accept"]
    assert root.negotiation.leaving(MEMBERS) == (0,)
    assert root.negotiation.leaving((1, 2, 3, 4)) == (4,)


@pytest.mark.parametrize(
    ("drain", "reason"),
    [
        (m.Drain(3, 0, 4, 1.0), "4 groups cannot become 4 by giving back any"),
        (m.Drain(3, 0, 0, 1.0, MEMBERS), "4 groups cannot become 0 by giving back 0, 1, 2, 3"),
        (m.Drain(3, 1, 2, 1.0), "the drain is for epoch 1, the job is in epoch 0"),
    ],
)
def test_a_drain_that_cannot_be_followed_is_accepted_and_fails(
    root: Root, drain: m.Drain, reason: str
) -> None:
    assert root.hear(drain) == ["Accept", f"Failed {reason}"]
    assert root.hear(SHRINK) == ["Accept"]


def test_the_end_of_the_loop_fails_what_is_open(root: Root) -> None:
    root.hear(GROW)
    root.negotiation.end(0)
    assert root.words() == ["Failed the loop has ended (late)", "Malleable"]
    root.session.receive(codec.encode(SHRINK))
    root.negotiation.end(0)
    assert root.words() == ["Decline the loop has ended (late)", "Malleable"]


def test_what_the_scheduler_complains_about_is_said(root: Root) -> None:
    assert root.hear(m.Error("no such thing"), m.Stay()) == []
    assert root.said == ["no such thing"]


@given(st.integers(2, 9), st.data())
def test_the_named_leave_first(nodes: int, data: st.DataObject) -> None:
    members = range(nodes)
    size = data.draw(st.integers(1, nodes - 1))
    named = data.draw(st.lists(st.sampled_from(range(nodes)), max_size=nodes - size, unique=True))
    gone = leaving(members, size, named)
    assert len(gone) == nodes - size
    assert set(named) <= set(gone)
    others = [group for group in gone if group not in named]
    assert all(group in gone for group in range(min(others, default=nodes), nodes))
    with pytest.raises(ValueError, match="cannot become"):
        leaving(members, nodes, [])


# ---- any interleaving ---------------------------------------------------------------------------------

groups_ = st.integers(-1, 7)
arriving_ = st.one_of(
    st.just(()), st.lists(st.builds(m.NewGroup, groups_, st.just("n"), st.just(1)), max_size=3).map(tuple)
)
leaving_ = st.lists(groups_, max_size=3).map(tuple)
sizes_ = st.integers(-1, 9)
left_ = st.sampled_from([0, 2, 3, 4, 100])


def cut(draw: st.DataObject, data: bytes) -> list[bytes]:
    """``data`` in pieces, cut anywhere."""
    at = sorted({0, len(data), *draw.draw(st.lists(st.integers(0, len(data)), max_size=6))})
    return [data[a:b] for a, b in pairwise(at)]


class Talk:
    """A root and the scheduler's own machine, over a link of bytes each way; nothing arrives by itself."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.root = Root(migrates=data.draw(st.booleans()))
        self.side = SchedulerSide(0)
        self.side.receive(0, m.Hello(1, 0, 0, "t", 2))
        self.offers: list[int] = []
        self.heard: list[m.JobMessage] = []
        self.down = b""
        self.epoch = 0
        self.members: tuple[int, ...] = MEMBERS

    def now(self) -> Situation:
        return Situation(self.epoch, self.members, self.data.draw(left_), 2, 99, "arrays")

    def scheduler(self) -> None:
        """Send something that may be sent, an offer for this epoch or another among it."""
        draw, number = self.data.draw, len(self.offers) + 1
        epoch, size = self.side.epoch + draw(st.sampled_from([0, 0, 0, 1])), draw(sizes_)
        choices: list[m.SchedulerMessage] = [
            m.Offer(number, epoch, size, 1.0, draw(arriving_), draw(leaving_)),
            m.Offer(number, epoch, len(self.members) + 1, 1.0, (m.NewGroup(50 + number, "n", 1),)),
            m.Drain(number, epoch, size, 1.0, draw(leaving_)),
            m.Withdraw(len(self.offers)),
            m.GroupLost(draw(st.sampled_from([4, 5, 50 + len(self.offers)])), "why"),
            m.Value(self.side.epoch + 1, f"r{len(self.offers)}/joined", "arrays"),
            m.Error("x"),
        ]
        message = draw(st.sampled_from(choices))
        name = type(message).__name__
        if isinstance(message, m.Offer | m.Drain | m.Withdraw) and (self.side.state, name) not in SEND:
            return
        if isinstance(message, m.Offer | m.Drain):
            self.offers.append(number)
        self.down += codec.encode(self.side.send(message))

    def deliver(self, count: int) -> None:
        for piece in cut(self.data, self.down[:count]):
            self.root.session.receive(piece)
        self.down = self.down[count:]

    def reply(self) -> None:
        """What the root has sent reaches the scheduler."""
        sent, self.root.sent = self.root.sent, []
        for message in sent:
            self.heard += [message] if self.side.receive(0, message) else []

    def decide(self) -> None:
        """A step: answer, decide, and carry a decision out."""
        negotiation, now = self.root.negotiation, self.now()
        negotiation.answer(now)
        beside = negotiation.finish(now, there=self.data.draw(st.booleans()))
        decision = negotiation.decide(now) if beside.action is Action.NO_ACTION else beside
        if decision.action is Action.NO_ACTION:
            return
        self.deliver(self.data.draw(st.integers(0, len(self.down))))
        if not negotiation.confirm(decision.resize, self.now(), self.data.draw(st.sampled_from(["", "no"]))):
            return
        if decision.action is Action.EXPAND and self.data.draw(st.booleans()):
            negotiation.go_ahead()
            return
        gone, new = negotiation.leaving(self.members), negotiation.newcomers
        members = (*(g for g in self.members if g not in gone), *new)
        assert len(members) == negotiation.offer.size or isinstance(negotiation.offer, m.Drain)
        self.members = members
        negotiation.done(m.Done(self.epoch, decision.resize, 0, gone))
        self.epoch += 1

    def finish(self) -> None:
        self.deliver(len(self.down))
        self.root.negotiation.end(self.epoch)
        self.root.session.send(m.Bye(self.epoch))
        self.reply()


@given(st.data())
def test_every_offer_is_answered_once_and_every_accepted_one_ends_once(data: st.DataObject) -> None:
    talk = Talk(data)
    steps = {
        "scheduler": talk.scheduler,
        "deliver": lambda: talk.deliver(data.draw(st.integers(0, len(talk.down)))),
        "decide": talk.decide,
        "reply": talk.reply,
    }
    for step in data.draw(st.lists(st.sampled_from(sorted(steps)), max_size=40)):
        steps[step]()
    talk.finish()
    # Both ends ran the shipped machines: what is out of place would have been an exception or an Error.
    assert not any(isinstance(message, m.Error) for message in talk.heard)
    assert talk.side.state == "closed"
    answers = [x.resize for x in talk.heard if isinstance(x, m.Accept | m.Decline)]
    accepted = [x.resize for x in talk.heard if isinstance(x, m.Accept)]
    ended = [x.resize for x in talk.heard if isinstance(x, m.Done | m.Failed)]
    assert sorted(ended) == sorted(accepted)
    # A drain for which too little was left is answered by the end.
    assert answers in (talk.offers, talk.offers[:-1])


garbage_ = st.sampled_from(
    [b"{}", b"no json", b"\xff\xfe", b'{"type":"unheard-of"}', b'{"type":"offer"}', b'{"type":"accept"}', b"[" * 9000]
)  # fmt: skip
any_ = st.one_of(
    st.builds(m.Offer, st.just(0), st.integers(0, 1), sizes_, st.just(1.0), arriving_, leaving_),
    st.builds(m.Drain, st.just(0), st.integers(0, 1), sizes_, st.just(1.0), leaving_),
    st.builds(m.Withdraw, st.integers(0, 4)),
    st.builds(m.GroupLost, groups_),
    st.builds(m.Value, st.just(1), st.sampled_from(["r1/joined", "r2/joined"]), st.just("arrays")),
    st.just(m.Welcome(1, "x", (0,))),
    st.just(m.Stay()),
    st.just(m.Error("x")),
)


@given(st.lists(st.one_of(any_, garbage_), max_size=12), st.data())
def test_nothing_that_comes_is_an_exception_and_no_offer_stays_without_an_answer(
    script: list[m.SchedulerMessage | bytes], data: st.DataObject
) -> None:
    root, lines, offers = Root(migrates=True), b"", 0
    for number, item in enumerate(script):
        if isinstance(item, m.Offer | m.Drain):
            offers += 1
            kind = type(item)
            item = kind(number, *(getattr(item, name) for name in item.__struct_fields__[1:]))  # noqa: PLW2901
        lines += item + b"\n" if isinstance(item, bytes) else codec.encode(item)
    for piece in cut(data, lines):
        root.session.receive(piece)
        where = situation(data.draw(left_))
        root.negotiation.answer(where)
        if (
            decision := root.negotiation.decide(where)
        ).action is not Action.NO_ACTION and root.negotiation.confirm(
            decision.resize, situation(data.draw(left_))
        ):
            root.negotiation.leaving(MEMBERS)
            root.negotiation.done(m.Done(0, decision.resize, 0))
    root.negotiation.end(0)
    answers = sum(isinstance(x, m.Accept | m.Decline) for x in root.sent)
    refused = sum(
        isinstance(x, m.Error) and x.text.endswith(("expect Offer", "expect Drain")) for x in root.sent
    )
    waits = root.session.side.state == "draining"
    assert answers + refused + waits == offers
    accepted = [x.resize for x in root.sent if isinstance(x, m.Accept)]
    assert [x.resize for x in root.sent if isinstance(x, m.Done | m.Failed)] == accepted


@given(st.data())
def test_where_the_bytes_are_cut_makes_no_difference(data: st.DataObject) -> None:
    garbage = b"{}\n\xff\n\n"
    script = b"".join(map(codec.encode, (m.Error("x"), GROW, JOINED))) + garbage + codec.encode(m.Withdraw(1))
    root = Root()
    for piece in cut(data, script):
        root.session.receive(piece)
    root.negotiation.answer(situation())
    assert root.words() == ["Error", "Error", "Accept", "Get", "Failed withdrawn"]
    assert root.said == ["x"]


def test_a_recording_that_differs_is_told_and_one_that_is_none_is_an_error() -> None:
    root = Root()
    assert root.hear(GROW) == ["Accept", "Get"]
    *begin, answer = root.lines
    other = answer.replace(b"arrays", b"other arrays").replace(b"[[0,[0,1,2,3],100,", b"[[0,[0,1,2,3],1,")
    (found,) = replay([*begin, other, b'["decide",'])
    assert found == JobDifference(len(begin) + 1, other, found.now)
    assert b"only 1 step is left" in found.now
    for line in (
        b"garbage\n",
        b'["explode",[],[],null]\n',
        b'["begin",[],[],null]\n',
        b'["end",["x"],[],null]\n',
    ):
        with pytest.raises(ProtocolError, match="line 1 of the recording"):
            list(replay([line]))


@pytest.mark.parametrize("how", ["it reads", "it writes"])
def test_a_recording_ends_with_the_loss_of_the_agent_whatever_the_owner_makes_of_it(how: str) -> None:
    lines: list[bytes] = []

    def stop(why: str) -> None:
        raise AgentLost(0, "n0", why)

    def write(_: bytes) -> None:
        if broken:
            session.lose("broken pipe")

    broken: list[str] = []
    session = TapedSession(Tape(lines.append), write, on_lost=stop)
    session.send(m.Hello(1, 0, 0, "t", 2))
    broken.append("now")
    with pytest.raises(AgentLost, match="broken pipe"):
        session.lose("broken pipe") if how == "it reads" else session.send(m.Progress(0, 0.5))
    session.send(m.Progress(0, 0.6))
    assert len(lines) == (3 if how == "it reads" else 4)
    assert not list(replay(lines))


def test_a_wish_is_sent_once_and_not_while_a_resize_is_open() -> None:
    root = Root()
    assert root.negotiation.want(0, Bounds(5, 8))
    assert root.sent == [m.Want(0, Bounds(5, 8))]
    root.sent.clear()
    root.hear(GROW)
    assert not root.negotiation.want(0, Bounds(5, 8))
    assert not root.sent
    root.hear(m.Withdraw(1))
    assert root.negotiation.want(0, Bounds(1, 3))
    assert root.sent == [m.Want(0, Bounds(1, 3))]


def test_an_inhibited_job_declines_an_offer_and_follows_a_drain(root: Root) -> None:
    held = situation()._replace(inhibited="not now")
    assert root.hear(SHRINK, at=held) == ["Decline not now (late)"]
    assert root.hear(DRAIN, at=held) == ["Accept"]

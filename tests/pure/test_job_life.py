"""The life of one job, told what its agents say, without a cluster around it."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import pytest

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.live.cluster.orders import Key
from pliant.live.job.groups import GroupPlace
from pliant.live.job.life import JobLife
from pliant.model.groups import Group
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.kinds import JobKind
from pliant.model.nodes import NodeSet
from pliant.protocol import codec, pmix
from pliant.protocol import messages as m

M = TypeVar("M")
NAMES = {0: "n0", 1: "n1", 2: "n2"}


class Heard:
    """What a life brings about."""

    def __init__(self) -> None:
        self.events: list[e.Event] = []
        self.sent: list[tuple[int, m.ControllerMessage]] = []
        self.logged: list[str] = []
        self.timers: list[Key] = []

    def happened(self, event: e.Event) -> None:
        self.events.append(event)

    def of_root(self, kind: type[M]) -> list[M]:
        """What the core has been told that the root says."""
        told = (event.message for event in self.events if isinstance(event, e.RootSaid))
        return [message for message in told if isinstance(message, kind)]

    def send(self, node: int, message: m.ControllerMessage) -> None:
        self.sent.append((node, message))

    def later(self, key: Key, delay_s: float) -> None:  # noqa: ARG002 - an Effects
        self.timers.append(key)

    def read_tail(self, job: int, path: str) -> None: ...

    def log(self, path: str, text: str) -> None:  # noqa: ARG002 - an Effects
        self.logged.append(text)


def relay(life: JobLife, group: int, message: m.JobMessage) -> None:
    life.heard(group, m.Relay(1, group, 1, msgspec.Raw(codec.encode(message))))


def growing() -> tuple[JobLife, Heard]:
    """A job on node 0 that has accepted to grow by nodes 1 and 2, where its newcomers have been started."""
    heard = Heard()
    spec = JobSpec(name="j", nodes=Bounds(1, 3), job_class=JobClass.MALLEABLE, command=("x",))
    life = JobLife(1, spec, GroupPlace(NAMES, "j.log", "/", {}, b"s"), heard, one_world=False)
    life.start([Group(0, 0)], 0)
    life.heard(0, m.Started(1, 0, (7,)))
    relay(life, 0, m.Hello(1, 0, 0, "token", 1))
    relay(life, 0, m.Malleable(0, on=True))
    new = (Group(1, 1), Group(2, 2))
    life.offer(c.Offer(1, 5, 1, 3, NodeSet.of([1, 2]), NodeSet(), 9.0, new))
    relay(life, 0, m.Accept(0, 5))
    life.start(new, 5)
    for group in (1, 2):
        life.heard(group, m.Started(1, group, (8,)))
    return life, heard


def test_how_far_a_program_can_grow_is_told() -> None:
    life, heard = growing()
    relay(life, 0, m.Malleable(0, on=True, most=3))
    assert heard.of_root(m.Malleable) == [m.Malleable(0, on=True), m.Malleable(0, on=True, most=3)]


def test_a_resize_that_is_taken_back_says_whose_newcomers_were_not_there_yet() -> None:
    life, heard = growing()
    relay(life, 1, m.Hello(1, 1, 1, "token", 1))
    relay(life, 1, m.Ready(5, 1))
    life.withdraw(5)
    assert heard.logged == ["resize 5: n2 had not come to the loop"]


def test_what_its_ranks_took_of_the_processors_is_added_up() -> None:
    life, heard = growing()
    life.heard(1, m.Exited(1, 1, 0, -9, 0.5))
    relay(life, 0, m.Bye(0, "42"))
    life.heard(0, m.Exited(1, 0, 0, 0, 2.0))
    life.heard(2, m.Exited(1, 2, 0, -9, 0.25))
    ended = [event for event in heard.events if isinstance(event, e.Ended)]
    assert ended == [e.Ended(1, 0, "42", "", cpu_s=2.75)]


def test_a_newcomer_that_is_gone_when_its_resize_is_done_takes_its_job_with_it() -> None:
    """Its node is lost, and back, before the root's word that it had joined the job arrives."""
    life, heard = growing()
    life.lost(2)
    done = m.Done(0, 5, 0, (), {}, 0.1)
    relay(life, 0, done)
    life.committed(r.ResizeDone(1.0, 1, 5, NodeSet.of([1, 2]), NodeSet()))
    assert killed(heard) == {0, 1}


def test_newcomers_that_were_quicker_than_the_word_of_their_joining_are_no_loss() -> None:
    life, heard = growing()
    for group in (1, 2):
        life.heard(group, m.Exited(1, group, 0, 0))
    relay(life, 0, m.Done(0, 5, 0, (), {}, 0.1))
    life.committed(r.ResizeDone(1.0, 1, 5, NodeSet.of([1, 2]), NodeSet()))
    assert not [order for _, order in heard.sent if isinstance(order, m.Signal)]
    relay(life, 0, m.Bye(1, "42"))
    life.heard(0, m.Exited(1, 0, 0, 0))
    assert [event.exit_code for event in heard.events if isinstance(event, e.Ended)] == [0]


def three(kind: JobKind) -> tuple[JobLife, Heard]:
    """A job of this kind on nodes 0 to 2, whose groups have been started: two ranks each."""
    heard = Heard()
    spec = JobSpec(name="j", nodes=Bounds.exactly(3), job_class=JobClass.MALLEABLE, command=("x",), kind=kind)
    life = JobLife(1, spec, GroupPlace(NAMES, "j.log", "/", {}, b"s"), heard, one_world=False)
    life.start([Group(each, each, 2) for each in range(3)], 0)
    for group in range(3):
        life.heard(group, m.Started(1, group, (7, 8)))
    return life, heard


def end_ranks(life: JobLife, *groups: int, code: int = 0) -> None:
    for group in groups:
        for rank in (0, 1):
            life.heard(group, m.Exited(1, group, rank, code))


def killed(heard: Heard) -> set[int]:
    return {node for node, order in heard.sent if isinstance(order, m.Signal) and order.number == 9}


def events_of_kind(heard: Heard, kind: type[e.Event]) -> list[e.Event]:
    return [event for event in heard.events if isinstance(event, kind)]


def test_only_mpi_gets_the_environment_of_mpi() -> None:
    for kind, dialect in ((JobKind.MPI, "pmi1"), (JobKind.TASKS, "none"), (JobKind.PLACES, "none")):
        _, heard = three(kind)
        assert {order.dialect for _, order in heard.sent if isinstance(order, m.StartGroup)} == {dialect}


def test_what_a_lost_group_means_is_a_property_of_the_kind_of_job() -> None:
    """MPI ends at once. Tasks go on, and have failed at their end; places go on, and end as those say that are left."""
    for kind, signals, code in (
        (JobKind.MPI, {0, 2}, 137),
        (JobKind.TASKS, set(), 137),
        (JobKind.PLACES, set(), 0),
    ):
        life, heard = three(kind)
        life.lost(1)
        assert killed(heard) == signals
        lost = [e.GroupsLost(1, (1,), "node n1 was lost")]
        assert events_of_kind(heard, e.GroupsLost) == ([] if kind is JobKind.MPI else lost)
        end_ranks(life, 0, 2)
        life.tail("")
        assert [event.exit_code for event in heard.events if isinstance(event, e.Ended)] == [code]


def test_a_killed_rank_is_named_though_others_had_complained_before_it_was_heard() -> None:
    """An MPI may tell rank 1 that rank 0 is gone, which then aborts, before the agent of rank 0 does."""
    for code, first in ((-9, "rank 0 of group 0 on n0 was ended by signal 9; "), (2, "")):
        life, heard = three(JobKind.MPI)
        abort = m.Error("rank 1 called MPI_Abort")
        life.heard(1, m.Relay(1, 1, 0, msgspec.Raw(codec.encode(abort))))
        life.heard(0, m.Exited(1, 0, 0, code))
        end_ranks(life, 1, 2, code=-9)
        life.heard(0, m.Exited(1, 0, 1, -9))
        life.tail("")
        assert [event.error for event in heard.events if isinstance(event, e.Ended)] == [
            f"{first}rank 1 called MPI_Abort"
        ]
    life, heard = three(JobKind.MPI)  # and what follows from an abort is no cause of it
    life.heard(1, m.Relay(1, 1, 0, msgspec.Raw(codec.encode(m.Error("rank 1 called MPI_Abort")))))
    end_ranks(life, 1, 0, 2, code=-9)
    life.tail("")
    assert [event.error for event in heard.events if isinstance(event, e.Ended)] == [
        "rank 1 called MPI_Abort"
    ]


def test_a_rank_that_ends_with_0_before_mpi_finalize_is_named_though_others_had_complained() -> None:
    life, heard = three(JobKind.MPI)
    life.heard(1, m.Relay(1, 1, 0, msgspec.Raw(codec.encode(m.Error("rank 0 called MPI_Abort")))))
    life.heard(0, m.Exited(1, 0, 1, 0, early=True))
    assert killed(heard) == {0, 2}, "it does not take the rest of its group with it"
    end_ranks(life, 0, 1, 2, code=-9)
    life.tail("")
    [end] = events_of_kind(heard, e.Ended)
    assert isinstance(end, e.Ended)
    assert end.exit_code == 1
    assert end.error == (
        "rank 1 of group 0 on n0 ended with exit code 0 before MPI_Finalize; rank 0 called MPI_Abort"
    )


def test_a_program_that_ends_with_0_in_its_block_has_failed() -> None:
    for kind, byes, code in (
        (JobKind.MPI, (0, 1), 1),
        (JobKind.MPI, (0, 1, 2), 0),
        (JobKind.TASKS, (0, 1), 0),
    ):
        life, heard = three(kind)
        for group in range(3):
            relay(life, group, m.Hello(1, group, 0, "token", 2))
        for group in byes:
            relay(life, group, m.Bye(0))
        end_ranks(life, 2)
        assert killed(heard) == ({0, 1} if code else set())
        end_ranks(life, 0, 1, code=-9 if code else 0)
        life.tail("")
        [end] = events_of_kind(heard, e.Ended)
        assert isinstance(end, e.Ended)
        assert end.exit_code == code
        assert ("group 2 on n2 ended with exit code 0 before the end of its block" in end.error) == (
            code == 1
        )


def test_a_place_that_ends_before_it_has_come_is_lost_whether_its_root_has_come_or_not() -> None:
    for first in (True, False):
        life, heard = three(JobKind.PLACES)
        hello = m.Hello(1, 0, 0, "token", 1)
        if first:
            relay(life, 0, hello)
        life.heard(1, m.Exited(1, 1, 0, 0))
        if not first:
            relay(life, 0, hello)
        why = "group 1 on n1 ended with exit code 0 before it came to run()"
        assert losses_sent_to(heard, 0) == [m.GroupLost(1, why)]
        assert events_of_kind(heard, e.GroupsLost) == [e.GroupsLost(1, (1,), why)]


@pytest.mark.parametrize("first", [True, False])
def test_a_root_that_ends_without_a_word_fails_the_places_that_wait_for_it(first: bool) -> None:  # noqa: FBT001
    life, heard = three(JobKind.PLACES)
    hello = m.Hello(1, 1, 0, "token", 1)
    if first:
        relay(life, 1, hello)
    life.heard(0, m.Exited(1, 0, 0, 0))
    assert killed(heard) == ({1, 2} if first else set())
    if not first:
        relay(life, 1, hello)
    assert killed(heard) == {1, 2}
    for group in (1, 2):
        life.heard(group, m.Exited(1, group, 0, -9))
    life.tail("")
    [end] = events_of_kind(heard, e.Ended)
    assert isinstance(end, e.Ended)
    assert (end.exit_code, end.error) == (1, "group 0 on n0 ended with exit code 0 before it came to run()")


def test_groups_of_which_none_says_a_word_end_as_they_like() -> None:
    life, heard = three(JobKind.PLACES)
    for group in range(3):
        life.heard(group, m.Exited(1, group, 0, 0))
    life.tail("")
    assert [event.exit_code for event in heard.events if isinstance(event, e.Ended)] == [0]


def test_tasks_of_one_node_do_not_need_each_other_and_a_place_is_one_process() -> None:
    life, heard = three(JobKind.TASKS)
    life.heard(1, m.Exited(1, 1, 0, 3))
    assert not killed(heard)
    assert not events_of_kind(heard, e.GroupsLost)
    life.heard(1, m.Exited(1, 1, 1, 0))
    assert events_of_kind(heard, e.GroupsLost) == [
        e.GroupsLost(1, (1,), "rank 0 of group 1 on n1 exited with 3")
    ]
    life, heard = three(JobKind.PLACES)
    assert life.groups[1].world.size == 1
    life.heard(1, m.Exited(1, 1, 0, 3))
    assert events_of_kind(heard, e.GroupsLost) == [
        e.GroupsLost(1, (1,), "rank 0 of group 1 on n1 exited with 3")
    ]


def test_tasks_that_have_done_their_work_are_not_lost_with_their_node_and_wait_for_nobody() -> None:
    life, heard = three(JobKind.TASKS)
    end_ranks(life, 1)
    assert life.groups[1].is_over
    life.lost(1)
    end_ranks(life, 0, 2)
    assert [event.exit_code for event in heard.events if isinstance(event, e.Ended)] == [0]
    assert not events_of_kind(heard, e.GroupsLost)


def test_places_are_told_of_each_loss_and_end_with_their_root() -> None:
    """A group is lost before the root has said hello, another after it, and then the root."""
    life, heard = three(JobKind.PLACES)
    life.lost(1)
    assert not losses_sent_to(heard, 0)
    relay(life, 0, m.Hello(1, 0, 0, "token", 1))
    assert [each.group for each in losses_sent_to(heard, 0)] == [1]
    life.lost(2)
    assert [(each.group, each.why) for each in losses_sent_to(heard, 0)] == [
        (1, "node n1 was lost"),
        (2, "node n2 was lost"),
    ]
    end_ranks(life, 0, code=4)
    life.tail("")
    [ended] = events_of_kind(heard, e.Ended)
    assert isinstance(ended, e.Ended)
    assert (ended.exit_code, ended.error) == (4, "rank 0 of group 0 on n0 exited with 4")
    assert [event.groups for event in heard.events if isinstance(event, e.GroupsLost)] == [(1,), (2,)]


def test_a_new_root_is_told_what_the_one_before_may_not_have_heard() -> None:
    life, heard = three(JobKind.PLACES)
    for group in (0, 1, 2):
        relay(life, group, m.Hello(1, group, 0, "token", 1))
    relay(life, 0, m.Malleable(0, on=True))
    life.offer(c.Offer(1, 5, 3, 2, NodeSet(), NodeSet.of([0]), 9.0, (), (0,)))
    relay(life, 0, m.Accept(0, 5))
    life.lost(2)
    relay(life, 0, m.Done(0, 5, 1, (0, 2)))
    assert [each.group for each in losses_sent_to(heard, 1)] == [2]
    [done] = heard.of_root(m.Done)
    assert done.released == (0, 2)


def test_tasks_whose_root_is_lost_in_a_resize_give_that_up_and_go_on() -> None:
    life, heard = three(JobKind.TASKS)
    relay(life, 0, m.Hello(1, 0, 0, "token", 1))
    relay(life, 0, m.Malleable(0, on=True))
    life.offer(c.Offer(1, 5, 3, 2, NodeSet(), NodeSet(), 9.0))
    relay(life, 0, m.Accept(0, 5))
    life.lost(0)
    off, failed, lost, _ = heard.events[-4:]
    assert off == e.RootSaid(1, m.Malleable(0, on=False))
    assert failed == e.RootSaid(1, m.Failed(0, 5, "the job has left its loop", late=True))
    assert isinstance(lost, e.GroupsLost)
    life.withdraw(5)  # as the core does for the loss, which it knows by now
    assert killed(heard) == set()
    end_ranks(life, 1, 2)
    life.tail("")
    assert [event.exit_code for event in heard.events if isinstance(event, e.Ended)] == [137]


def test_a_job_has_been_launched_when_all_groups_have_that_are_left() -> None:
    heard = Heard()
    spec = JobSpec(name="j", nodes=Bounds.exactly(2), command=("x",), kind=JobKind.TASKS)
    life = JobLife(1, spec, GroupPlace(NAMES, "j.log", "/", {}, b"s"), heard, one_world=False)
    life.start([Group(0, 0), Group(1, 1)], 0)
    life.heard(0, m.Started(1, 0, (7,)))
    assert not events_of_kind(heard, e.Launched)
    life.lost(1)
    assert events_of_kind(heard, e.Launched)


def test_a_group_that_had_ended_before_its_job_opened_a_session_is_waited_for_no_longer_than_any() -> None:
    """As it may be told to a controller that begins again: by one agent before the other."""
    heard = Heard()
    spec = JobSpec(name="j", nodes=Bounds(1, 2), job_class=JobClass.MALLEABLE, command=("x",))
    life = JobLife(1, spec, GroupPlace(NAMES, "j.log", "/", {}, b"s"), heard, one_world=False)
    life.start([Group(0, 0), Group(1, 1)], 0)
    end_ranks(life, 1)
    assert ("linger", 1, 1) not in heard.timers
    for _ in range(2):
        relay(life, 0, m.Hello(1, 0, 0, "token", 1))
    assert heard.timers.count(("linger", 1, 1)) == 1
    life.fired("linger", 1)
    end_ranks(life, 0, code=-9)
    life.tail("")
    [end] = events_of_kind(heard, e.Ended)
    assert isinstance(end, e.Ended)
    assert "did not follow" in end.error


def losses_sent_to(heard: Heard, node: int) -> list[m.GroupLost]:
    """The losses that the group on ``node`` was told of."""
    sent = [order for to, order in heard.sent if to == node and isinstance(order, m.Deliver)]
    messages = [codec.from_scheduler().decode(bytes(order.message)) for order in sent]
    return [message for message in messages if isinstance(message, m.GroupLost)]


def ask_launcher(life: JobLife, group: int, number: int, ask: m.Message) -> None:
    life.heard(group, m.Asked(1, group, number, codec.raw(ask)))


def answers(heard: Heard) -> list[tuple[int, int, pmix.Done]]:
    """The group, number and answer of each that was given."""
    return [
        (message.group, message.number, codec.Decoder[pmix.Done](pmix.Done).decode(message.answer))
        for _, message in heard.sent
        if isinstance(message, m.Answered) and bytes(message.answer) != b"null"
    ]


PORT = pmix.Lookup(("port",), wait=True)


def test_who_looks_a_newcomer_up_is_told_when_that_is_lost_or_was() -> None:
    life, heard = growing()
    ask_launcher(life, 0, 1, PORT)
    life.heard(2, m.Exited(1, 2, 0, -9))
    ask_launcher(life, 0, 2, PORT)
    lost = pmix.UNREACHABLE
    assert answers(heard) == [(0, 1, pmix.Done(1, lost)), (0, 2, pmix.Done(2, lost))]


def test_asks_wait_for_ever_but_in_a_resize() -> None:
    life, heard = growing()
    ask_launcher(life, 0, 1, PORT)
    assert heard.timers[-1] == ("asked", 1, 0, 1)
    life.fired("asked", 0, 1)
    assert answers(heard) == [(0, 1, pmix.Done(1, pmix.TIMEOUT))]
    relay(life, 0, m.Failed(0, 5, "no"))
    ask_launcher(life, 0, 2, PORT)
    life.fired("asked", 0, 2)
    assert len(answers(heard)) == 1


def test_an_ask_that_cannot_be_understood_is_answered() -> None:
    life, heard = growing()
    life.heard(0, m.Asked(1, 0, 1, msgspec.Raw(b'{"type":"lookup","keys":7}')))
    assert answers(heard) == [(0, 1, pmix.Done(1, pmix.BAD_PARAM))]


def test_an_answer_that_does_not_fit_into_a_line_is_none() -> None:
    life, heard = growing()
    for number, group in enumerate((0, 1, 2)):
        item = pmix.Item(f"port{number}", group, 0, 3, "x" * 500_000)
        ask_launcher(life, group, 1, pmix.Publish((item,)))
    ask_launcher(life, 0, 2, pmix.Lookup(("port0", "port1", "port2")))
    assert answers(heard)[-1] == (0, 2, pmix.Done(2, pmix.TOO_MUCH))
    ask_launcher(life, 0, 3, pmix.Lookup(("port0", "port1")))
    assert len(answers(heard)[-1][2].items) == 2

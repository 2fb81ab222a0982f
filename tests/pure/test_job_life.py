"""The life of one job, told what its agents say, without a cluster around it."""

from __future__ import annotations

import msgspec

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.live.groups import Loss, Place
from pliant.live.job import JobLife
from pliant.live.orders import Key
from pliant.model.groups import Group
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.nodes import NodeSet
from pliant.protocol import codec
from pliant.protocol import messages as m

NAMES = {0: "n0", 1: "n1", 2: "n2"}


class Heard:
    """What a life brings about."""

    def __init__(self) -> None:
        self.events: list[e.Event] = []
        self.sent: list[tuple[int, m.ControllerMessage]] = []
        self.logged: list[str] = []

    def happened(self, event: e.Event) -> None:
        self.events.append(event)

    def send(self, node: int, message: m.ControllerMessage) -> None:
        self.sent.append((node, message))

    def later(self, key: Key, delay_s: float) -> None: ...

    def read_tail(self, job: int, path: str) -> None: ...

    def log(self, path: str, text: str) -> None:  # noqa: ARG002 - an Effects
        self.logged.append(text)


def said(life: JobLife, group: int, message: m.JobMessage) -> None:
    life.heard(group, m.Relay(1, group, 1, msgspec.Raw(codec.encode(message))))


def growing() -> tuple[JobLife, Heard]:
    """A job on node 0 that has accepted to grow by nodes 1 and 2, where its newcomers have been started."""
    heard = Heard()
    spec = JobSpec(name="j", nodes=Bounds(1, 3), job_class=JobClass.MALLEABLE, command=("x",))
    life = JobLife(1, spec, Place(NAMES, "j.log", "/", {}, b"s"), heard, one_world=False, loss=Loss.ENDS_JOB)
    life.start([Group(0, 0)], 0)
    life.heard(0, m.Started(1, 0, (7,)))
    said(life, 0, m.Hello(1, 0, 0, "token", 1))
    said(life, 0, m.Malleable(0, on=True))
    new = (Group(1, 1), Group(2, 2))
    life.offer(c.Offer(1, 5, 1, 3, NodeSet.of([1, 2]), NodeSet(), 9.0, new))
    said(life, 0, m.Accept(0, 5))
    life.start(new, 5)
    for group in (1, 2):
        life.heard(group, m.Started(1, group, (8,)))
    return life, heard


def test_a_resize_that_is_taken_back_says_whose_newcomers_were_not_there_yet() -> None:
    life, heard = growing()
    said(life, 1, m.Hello(1, 1, 1, "token", 1))
    said(life, 1, m.Ready(5, 1))
    life.withdraw(5)
    assert heard.logged == ["resize 5: n2 had not come to the loop"]


def test_what_its_ranks_took_of_the_processors_is_added_up() -> None:
    life, heard = growing()
    life.heard(1, m.Exited(1, 1, 0, -9, 0.5))
    said(life, 0, m.Bye(0, "42"))
    life.heard(0, m.Exited(1, 0, 0, 0, 2.0))
    life.heard(2, m.Exited(1, 2, 0, -9, 0.25))
    ended = [event for event in heard.events if isinstance(event, e.Ended)]
    assert ended == [e.Ended(1, 0, "42", "", cpu_s=2.75)]


def test_a_newcomer_that_is_gone_when_its_resize_is_done_takes_its_job_with_it() -> None:
    """Its node is lost, and back, before the root's word that it had joined the job arrives."""
    life, heard = growing()
    life.lost(2)
    done = m.Done(0, 5, 0, (), {}, 0.1)
    said(life, 0, done)
    life.committed(r.ResizeDone(1.0, 1, 5, NodeSet.of([1, 2]), NodeSet()))
    killed = {node for node, order in heard.sent if isinstance(order, m.Signal) and order.number == 9}
    assert killed == {0, 1}


def test_newcomers_that_were_quicker_than_the_word_of_their_joining_are_no_loss() -> None:
    life, heard = growing()
    for group in (1, 2):
        life.heard(group, m.Exited(1, group, 0, 0))
    said(life, 0, m.Done(0, 5, 0, (), {}, 0.1))
    life.committed(r.ResizeDone(1.0, 1, 5, NodeSet.of([1, 2]), NodeSet()))
    assert not [order for _, order in heard.sent if isinstance(order, m.Signal)]
    said(life, 0, m.Bye(1, "42"))
    life.heard(0, m.Exited(1, 0, 0, 0))
    assert [event.exit_code for event in heard.events if isinstance(event, e.Ended)] == [0]


def test_where_groups_do_not_need_each_other_the_loss_of_one_ends_it_alone() -> None:
    for loss, ended in ((Loss.ENDS_JOB, True), (Loss.ENDS_GROUP, False)):
        heard = Heard()
        spec = JobSpec(name="j", nodes=Bounds.exactly(2), job_class=JobClass.MALLEABLE, command=("x",))
        life = JobLife(1, spec, Place(NAMES, "j.log", "/", {}, b"s"), heard, one_world=False, loss=loss)
        life.start([Group(0, 0), Group(1, 1)], 0)
        for group in (0, 1):
            life.heard(group, m.Started(1, group, (7,)))
        life.lost(1)
        assert any(isinstance(order, m.Signal) for _, order in heard.sent) is ended
        life.heard(0, m.Exited(1, 0, 0, 0))
        life.tail("")
        assert [event.exit_code for event in heard.events if isinstance(event, e.Ended)] == [137]

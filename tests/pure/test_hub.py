"""What groups find of each other through the controller: in any order, over controllers that begin anew, and when some
are lost."""

from __future__ import annotations

import base64
from collections.abc import Callable
from itertools import pairwise
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.launch.pmix.others import spans
from pliant.live.job.rendezvous import Asker, Letter, Rendezvous, refusal
from pliant.model.errors import ProtocolError
from pliant.model.world import MpiWorld
from pliant.protocol import codec, pmix
from pliant.protocol.messages import Message


class Group:
    """As the hub sees one."""

    def __init__(self, number: int, world: MpiWorld) -> None:
        self.number = number
        self.world = world
        self.alive = set(world.ranks)


class Job:
    """Groups, the hub between them, and what their agents keep for the next one."""

    def __init__(self, *worlds: MpiWorld) -> None:
        self.groups = {number: Group(number, world) for number, world in enumerate(worlds)}
        self.hub = Rendezvous(self.groups)
        self.kept: dict[Asker, msgspec.Raw] = {}
        self.answers: dict[Asker, list[Message]] = {}
        self.told: dict[int, list[Message]] = {number: [] for number in self.groups}
        self._last = dict.fromkeys(self.groups, 0)

    def ask(self, group: int, ask: Message) -> Asker:
        self._last[group] += 1
        asker = Asker(group, self._last[group])
        self.kept[asker] = codec.raw(ask)
        self.answers[asker] = []
        self._deliver(list(self.hub.ask(asker, self.kept[asker])))
        return asker

    def _deliver(self, letters: list[Letter]) -> None:
        for (group, number), message, over in letters:
            if over:
                self.kept.pop(Asker(group, number), None)
            if isinstance(message, pmix.Done):
                assert message.id == number
                self.answers[Asker(group, number)].append(message)
            elif message is not None:
                self.told[group].append(message)

    def begin_anew(self) -> None:
        """The controller was killed, and the next one is told what agents have kept."""
        self.hub = Rendezvous(self.groups)
        for asker, ask in list(self.kept.items()):
            self._deliver(list(self.hub.ask(asker, ask)))

    def lose(self, group: int) -> None:
        self.groups[group].alive.clear()
        self.kept = {asker: ask for asker, ask in self.kept.items() if asker.group != group}
        self._deliver(list(self.hub.ended(group, lost=True)))

    def late(self, asker: Asker) -> None:
        self._deliver(list(self.hub.give_up(asker, pmix.TIMEOUT)))

    def answer(self, asker: Asker) -> pmix.Done | None:
        """The first counts: the server has forgotten its ask by then."""
        first = next(iter(self.answers[asker]), None)
        assert first is None or isinstance(first, pmix.Done)
        return first

    def status(self, asker: Asker) -> int | None:
        done = self.answer(asker)
        return None if done is None else done.status


def item(key: str, world: int, *, once: bool = True) -> pmix.Item:
    return pmix.Item(key, world, 0, 3, base64.b64encode(key.encode()).decode(), once)


def worlds(*sizes: int) -> list[MpiWorld]:
    return [MpiWorld(number, (size,)) for number, size in enumerate(sizes)]


def everybody(job: Job) -> tuple[pmix.Span, ...]:
    return tuple(pmix.Span(number, 0, group.world.size) for number, group in job.groups.items())


def joining(job: Job, group: int, other: int) -> list[Callable[[], Asker]]:
    """What a group asks for to be joined with another, one after the other: the next when the last is answered."""
    both = tuple(pmix.Span(number, 0, job.groups[number].world.size) for number in sorted((group, other)))
    return [
        lambda: job.ask(group, pmix.Publish((item(f"port {group}", group),))),
        lambda: job.ask(group, pmix.Lookup((f"port {other}",), wait=True)),
        lambda: job.ask(group, pmix.Meet("connect", both)),
        lambda: job.ask(group, pmix.Meet("fence", both, base64.b64encode(b"%d" % group).decode())),
    ]


@given(st.integers(0, 2**32), st.booleans())
def test_two_groups_join_whatever_the_order_and_however_often_the_controller_begins_anew(
    seed: int,
    killed: bool,  # noqa: FBT001
) -> None:
    random, job = Random(seed), Job(*worlds(2, 3))
    left = {0: joining(job, 0, 1), 1: joining(job, 1, 0)}
    asked: dict[int, list[Asker]] = {0: [], 1: []}
    for _ in range(200):
        ready = [g for g in left if left[g] and (not asked[g] or job.answer(asked[g][-1]))]
        if killed and random.random() < 0.3:
            job.begin_anew()
        elif ready:
            group = random.choice(ready)
            asked[group].append(left[group].pop(0)())
    for group, other in ((0, 1), (1, 0)):
        published, found, met, fenced = [job.answer(each) for each in asked[group]]
        assert published is not None
        assert found is not None
        assert [each.key for each in found.items] == [f"port {other}"]
        assert met is not None
        assert met.spaces == (pmix.Space(0, (2,)), pmix.Space(1, (3,)))
        assert fenced is not None
        assert [base64.b64decode(each) for each in fenced.blobs] == [b"0", b"1"]
    assert not job.kept  # what was read is not said again


@given(st.integers(0, 2**32))
def test_nobody_waits_for_who_is_lost(seed: int) -> None:
    random, job = Random(seed), Job(*worlds(2, 1))
    left = {0: joining(job, 0, 1), 1: joining(job, 1, 0)}
    meet = left[0][2]
    asked: dict[int, list[Asker]] = {0: [], 1: []}
    for _ in range(random.randrange(12)):
        ready = [g for g in left if left[g] and (not asked[g] or job.answer(asked[g][-1]))]
        if ready:
            group = random.choice(ready)
            asked[group].append(left[group].pop(0)())
    met = any(job.status(each) == 0 for each in asked[0][2:])
    job.lose(1)
    assert all(job.answer(each) is not None for each in asked[0])
    if met:
        assert job.told[0] == [pmix.Gone(1)]
    assert job.status(meet()) == pmix.UNREACHABLE  # nor begins to


def test_who_has_a_part_of_a_world_meets_for_it() -> None:
    job = Job(MpiWorld(0, (2, 2), 0), MpiWorld(0, (2, 2), 1), MpiWorld(2, (1,)))
    of_three = (pmix.Span(0, 0, 4), pmix.Span(2, 0, 1))
    first = [job.ask(group, pmix.Meet("connect", of_three)) for group in (0, 2)]
    assert [job.status(each) for each in first] == [None, None]
    last = job.ask(1, pmix.Meet("connect", of_three))
    assert [job.status(each) for each in (*first, last)] == [0, 0, 0]
    two = (pmix.Span(0, 0, 1), pmix.Span(2, 0, 1))  # of the first node only
    asked = [job.ask(group, pmix.Meet("disconnect", two)) for group in (2, 0)]
    assert [job.status(each) for each in asked] == [0, 0]


def test_all_of_a_world_are_those_that_it_has() -> None:
    job = Job(*worlds(2, 3))
    a = job.ask(0, pmix.Meet("connect", (pmix.Span(0, 0, -1), pmix.Span(1, 0, 3))))
    b = job.ask(1, pmix.Meet("connect", (pmix.Span(0, 0, 2), pmix.Span(1, 0, -1))))
    assert [job.status(each) for each in (a, b)] == [0, 0]
    assert job.status(job.ask(0, pmix.Meet("fence", (pmix.Span(7, 0, -1),)))) == pmix.BAD_PARAM


def test_meetings_of_other_members_or_for_other_ends_are_others() -> None:
    job = Job(*worlds(1, 1, 1))
    a = job.ask(0, pmix.Meet("connect", everybody(job)[:2]))
    b = job.ask(1, pmix.Meet("disconnect", everybody(job)[:2]))
    c = job.ask(1, pmix.Meet("connect", everybody(job)))
    assert [job.status(each) for each in (a, b, c)] == [None, None, None]
    d = job.ask(1, pmix.Meet("connect", everybody(job)[:2]))
    assert [job.status(each) for each in (a, b, c, d)] == [0, None, None, 0]


@pytest.mark.parametrize(
    "members",
    [
        (pmix.Span(0, 0, 2),),  # more than there are
        (pmix.Span(1, 0, 1),),  # without who asks
        (pmix.Span(0, 0, 1), pmix.Span(7, 0, 1)),  # a world that nobody has
        (pmix.Span(0, 1, 1),),
        (),
    ],
)
def test_a_meeting_that_cannot_be_is_refused(members: tuple[pmix.Span, ...]) -> None:
    job = Job(*worlds(1, 1))
    assert job.status(job.ask(0, pmix.Meet("connect", members))) == pmix.BAD_PARAM
    assert not job.kept


def test_a_name_stays_until_it_is_taken_back_or_its_group_is_gone() -> None:
    job = Job(*worlds(1, 1, 1))
    stays = job.ask(0, pmix.Publish((item("service", 0, once=False),)))
    for _ in range(2):
        assert job.status(job.ask(1, pmix.Lookup(("service",)))) == 0
    job.ask(1, pmix.Unpublish(("service",)))  # not its own
    assert stays in job.kept
    assert job.status(job.ask(1, pmix.Lookup(("service",)))) == 0
    job.ask(0, pmix.Unpublish(("service", "never there")))
    assert not job.kept
    assert job.status(job.ask(1, pmix.Lookup(("service",)))) == pmix.NOT_FOUND
    job.ask(2, pmix.Publish((item("service", 2, once=False),)))
    job.lose(2)
    assert job.status(job.ask(1, pmix.Lookup(("service",)))) == pmix.NOT_FOUND


def test_what_was_published_twice_is_the_latest() -> None:
    job = Job(*worlds(1, 1))
    first = job.ask(0, pmix.Publish((item("a", 0), item("b", 0))))
    job.ask(0, pmix.Publish((pmix.Item("a", 0, 5, 3, "", once=True),)))
    found = job.answer(job.ask(1, pmix.Lookup(("a",), wait=True)))
    assert found is not None
    assert found.items[0].rank == 5
    assert first in job.kept  # b has not been read
    job.ask(1, pmix.Lookup(("b",), wait=True))
    assert first not in job.kept


def test_what_a_rank_has_put_is_asked_for_once_and_comes_to_all_who_want_it() -> None:
    job = Job(MpiWorld(0, (1, 2), 0), MpiWorld(0, (1, 2), 1), MpiWorld(2, (1,)))
    askers = [job.ask(0, pmix.Modex(0, 2)), job.ask(2, pmix.Modex(0, 2))]
    other = job.ask(2, pmix.Modex(0, 1))
    assert job.told[1] == [pmix.Want(2), pmix.Want(1)]
    job.begin_anew()
    assert job.told[1][2:] == [pmix.Want(2), pmix.Want(1)]
    job.ask(1, pmix.Got(2, 0, "eHg="))
    assert [job.answer(each) for each in askers] == [
        pmix.Done(askers[0].number, 0, ("eHg=",)),
        pmix.Done(askers[1].number, 0, ("eHg=",)),
    ]
    job.ask(1, pmix.Got(2, 0, "bGF0ZQ=="))  # said again
    assert job.status(other) is None
    job.lose(1)
    assert job.status(other) == pmix.UNREACHABLE
    assert job.status(job.ask(2, pmix.Modex(0, 1))) == pmix.NOT_FOUND
    assert job.status(job.ask(2, pmix.Modex(9, 0))) == pmix.NOT_FOUND


def test_who_has_waited_too_long_is_told_and_the_others_go_on_waiting() -> None:
    job = Job(*worlds(1, 1, 1))
    a, b = job.ask(0, pmix.Lookup(("x",), wait=True)), job.ask(1, pmix.Lookup(("x",), wait=True))
    job.late(a)
    job.late(a)
    assert job.answers[a] == [pmix.Done(a.number, pmix.TIMEOUT)]
    assert job.status(b) is None
    job.ask(2, pmix.Publish((item("x", 2),)))
    assert (job.status(b), len(job.answers[a])) == (0, 1)


def test_the_end_of_one_that_leaves_concerns_only_who_meets_it() -> None:
    job = Job(*worlds(1, 1, 1))
    waits = job.ask(0, pmix.Lookup(("x",), wait=True))
    meets = job.ask(2, pmix.Meet("connect", everybody(job)[1:]))
    job.groups[1].alive.clear()
    job._deliver(list(job.hub.ended(1, lost=False)))
    assert (job.status(waits), job.status(meets)) == (None, pmix.UNREACHABLE)


def test_what_cannot_be_understood_changes_nothing() -> None:
    job = Job(*worlds(1, 1))
    with pytest.raises(ProtocolError):
        list(job.hub.ask(Asker(0, 1), msgspec.Raw(b'{"type":"lookup","keys":7}')))
    assert not job.hub.waits(Asker(0, 1))
    assert refusal(Asker(0, 1)) == Letter(Asker(0, 1), pmix.Done(1, pmix.BAD_PARAM), over=True)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9))))
def test_spans_hold_each_member_once(members: list[tuple[int, int]]) -> None:
    found = spans(members)
    assert [(world, rank) for world, first, end in found for rank in range(first, end)] == sorted(
        set(members)
    )
    assert all(a[0] != b[0] or a[2] < b[1] for a, b in pairwise(found))

"""Every interleaving of one job (two groups, either may become the root) and its scheduler over FIFO links,
driven through the real state machines of both ends: nothing is ever out of place, and every state can still
come to a good end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import pytest

from pliant.model.errors import ProtocolError
from pliant.model.jobs import Bounds
from pliant.protocol import codec, job_side, resizing, scheduler_side
from pliant.protocol import messages as m

CAP = 3  # messages on a link at once, with those kept because they came early
EPOCHS = 2  # resizes done in a job's life

Link = tuple[bytes, ...]  # lines: messages with a dict in them have no hash


class World(NamedTuple):
    job: tuple[str, str]  # state of each group's session, at the job's end
    root: int
    epoch: int
    sched: str
    sched_root: int
    sched_epoch: int
    early: tuple[tuple[int, bytes], ...]
    up: tuple[Link, Link]
    down: tuple[Link, Link]


START = World(("new", "new"), 0, 0, "new", 0, 0, (), ((), ()), ((), ()))


from_job: Callable[[bytes], Any] = cache(codec.from_job().decode)
from_scheduler = cache(codec.from_scheduler().decode)


def with_link(pair: tuple[Link, Link], at: int, link: Link) -> tuple[Link, Link]:
    return (link, pair[1]) if at == 0 else (pair[0], link)


def job_messages(world: World, group: int) -> Iterator[tuple[m.JobMessage, int]]:
    """What a group may want to say, with the root that follows from it."""
    e = world.epoch
    if world.job[group] == "new":
        yield m.Hello(1, group, 0, "token", 1), world.root
        return
    if group != world.root:
        if e > 0:  # it has been released
            yield m.Bye(e), world.root
        return
    yield m.Want(e, Bounds(1, 2)), world.root
    yield m.Accept(e, 1), world.root
    yield m.Decline(e, 1, "busy"), world.root
    yield m.Failed(e, 1, "no"), world.root
    yield m.Bye(e), world.root
    if e < EPOCHS:
        for following in (0, 1):
            if world.job[following] not in ("new", "closed"):
                yield m.Done(e, 1, following), following


def steps(world: World) -> Iterator[World]:
    for group in (0, 1):
        if len(world.up[group]) + len(world.early) < CAP:
            yield from job_sends(world, group)
    scheduler = scheduler_of(world)
    down = world.down[scheduler.root]
    if len(down) < CAP:
        for message in (
            m.Offer(1, scheduler.epoch, 2, 1.0, (m.NewGroup(1, "n1", 1),)),
            m.Offer(1, scheduler.epoch, 2, 1.0, slots={1: 1}),
            m.Drain(1, scheduler.epoch, 1, 1.0, (0,)),
            m.Stay(),
            m.Withdraw(1),
        ):
            again = scheduler_of(world)
            with suppress(ProtocolError):
                again.send(message)
                yield world._replace(
                    sched=again.state, down=with_link(world.down, again.root, (*down, codec.encode(message)))
                )
    for group in (0, 1):
        if world.up[group]:
            scheduler = scheduler_of(world)
            scheduler.receive(group, from_job(world.up[group][0]))
            while (early := scheduler.next_early()) is not None:
                with suppress(ProtocolError):
                    scheduler.receive(*early)
            yield world._replace(
                sched=scheduler.state, sched_root=scheduler.root, sched_epoch=scheduler.epoch,
                early=tuple((who, codec.encode(what)) for who, what in scheduler._early), up=with_link(world.up, group, world.up[group][1:]),
            )  # fmt: skip
        if world.down[group]:
            side = side_of(world, group)
            side.receive(from_scheduler(world.down[group][0]))
            yield world._replace(
                job=with_state(world, group, side.state),
                down=with_link(world.down, group, world.down[group][1:]),
            )


def job_sends(world: World, group: int) -> Iterator[World]:
    for message, root in job_messages(world, group):
        side = side_of(world, group)
        try:
            side.send(message)
        except ProtocolError:
            continue  # the job's end itself refuses to send what is not allowed
        done = isinstance(message, m.Done)
        yield world._replace(
            job=with_state(world, group, side.state), root=root, epoch=world.epoch + done,
            up=with_link(world.up, group, (*world.up[group], codec.encode(message))),
        )  # fmt: skip


def with_state(world: World, group: int, state: str) -> tuple[str, str]:
    return (state, world.job[1]) if group == 0 else (world.job[0], state)


def side_of(world: World, group: int) -> job_side.JobSide:
    side = job_side.JobSide()
    side.state = world.job[group]
    side.offer = (
        m.Offer(1, 0, 1, 1.0) if side.state in ("offered", "withdrawn", "draining", "resizing") else None
    )
    return side


def scheduler_of(world: World) -> scheduler_side.SchedulerSide:
    side = scheduler_side.SchedulerSide(world.sched_root)
    side.state, side.epoch, side._early = (
        world.sched,
        world.sched_epoch,
        [(who, from_job(line)) for who, line in world.early],
    )
    return side


def explore() -> tuple[set[World], set[World]]:
    """All reachable worlds, and those from which a good end cannot be reached."""
    before: dict[World, list[World]] = {START: []}
    queue = deque([START])
    while queue:
        world = queue.popleft()
        for following in steps(world):
            if following not in before:
                before[following] = []
                queue.append(following)
            before[following].append(world)
    good = {w for w in before if w.sched == "closed" and w.job[w.root] == "closed" and not any(w.up + w.down)}
    queue = deque(good)
    while queue:
        for world in before[queue.popleft()]:
            if world not in good:
                good.add(world)
                queue.append(world)
    return set(before), set(before) - good


def test_every_interleaving_is_handled_and_can_end_well() -> None:
    worlds, doomed = explore()
    assert len(worlds) > 10_000
    assert not doomed, f"{len(doomed)} of {len(worlds)}, one: {next(iter(doomed))}"
    assert {world.sched for world in worlds} == {state for state, _ in scheduler_side.RECEIVE} | {"closed"}
    assert any(world.early for world in worlds)  # a new root was heard before the old one's Done


@pytest.mark.parametrize(
    "lost", [("withdrawing", "Accept"), ("offering", "Want"), ("recalling", "Done"), ("resizing", "Failed")]
)
def test_the_explorer_notices_a_missing_transition(
    lost: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {key: value for key, value in scheduler_side.RECEIVE.items() if key != lost}
    monkeypatch.setattr(scheduler_side, "RECEIVE", table)
    with pytest.raises(ProtocolError, match=lost[1]):
        explore()


def test_an_early_message_that_proves_wrong_does_not_take_done_with_it() -> None:
    side = scheduler_side.SchedulerSide(0)
    side.receive(0, m.Hello(1, 0, 0, "token", 1))
    side.send(m.Offer(1, 0, 2, 1.0, (m.NewGroup(1, "n1", 1),)))
    side.receive(0, m.Accept(0, 1))
    early = m.Decline(1, 1, "too early, and not the root")
    assert not side.receive(1, early)
    assert side.next_early() is None
    assert side.receive(0, m.Done(0, 1, 0))
    assert (side.state, side.epoch) == ("ready", 1)
    assert side.next_early() == (1, early)
    with pytest.raises(ProtocolError, match="speaks for the job"):
        side.receive(1, early)
    assert (side.state, side.epoch, side.next_early()) == ("ready", 1, None)


def test_the_states_on_the_wire_are_those_of_the_table() -> None:
    for (state, name), move in resizing.TABLE.items():
        wire = scheduler_side.PROJECTION[state]
        table = scheduler_side.SEND if name in ("Offer", "Withdraw") else scheduler_side.RECEIVE
        if name != "End":
            assert table[wire, name] == scheduler_side.PROJECTION[move.state]


def test_an_answer_to_another_resize_than_the_one_that_is_open_does_not_count() -> None:
    side = scheduler_side.SchedulerSide(0)
    side.receive(0, m.Hello(1, 0, 0, "token", 1))
    side.send(m.Offer(7, 0, 2, 1.0, (m.NewGroup(1, "n1", 1),)))
    with pytest.raises(ProtocolError, match="resize 6; 7 is open"):
        side.receive(0, m.Accept(0, 6))
    assert side.state == "offering"

"""A node's agent that has lost its controller and waits for another: what it keeps, what it says again."""

from __future__ import annotations

import pytest
from node_driver import Driver, agent_messages, hello, outputs_of_kind, start_order

from pliant.live.node import messages as n
from pliant.live.node import outbox
from pliant.live.node.dialects import mpich_segment
from pliant.live.node.outbox import Outbox
from pliant.live.node.register import token_name
from pliant.model.jobs import Bounds
from pliant.protocol import codec
from pliant.protocol import messages as m

GRACE = 60.0


def running() -> Driver:
    """A group of two ranks with an open session, all of it acknowledged."""
    driver = Driver(orphan_grace=GRACE)
    driver.order(start_order())
    driver.put(n.SessionOpened(1, 1000), n.SessionSaid(1, hello()))
    driver.order(m.Ack(2, 2))
    return driver


def numbers(outputs: list[n.AnyOutput]) -> list[tuple[int, str]]:
    return [(each.number, type(each.message).__name__) for each in outputs_of_kind(outputs, n.Tell)]


def session_said(message: m.JobMessage) -> n.SessionSaid:
    return n.SessionSaid(1, codec.encode(message))


def test_when_the_link_is_lost_it_keeps_what_it_has_and_looks_for_a_new_one() -> None:
    driver = running()
    out = driver.put(n.LinkLost())
    assert [type(each) for each in out] == [n.SetTimer, n.Connect]
    assert not outputs_of_kind(driver.pass_time(GRACE - 1), n.Tell)  # no heartbeats either
    assert driver.put(session_said(m.Progress(0, 0.5))) == []
    out = driver.put(n.LinkMade())
    first = agent_messages(out)[0]
    assert first == m.AgentHello("n0", 4, 77, (m.Held(1, 0, (0, 1), session=1),), (), 0, 3)
    # What no record tells of is said again until the group is gone, acknowledged or not.
    assert numbers(out)[1:] == [(1, "Started"), (3, "Relay")]
    assert not outputs_of_kind(driver.pass_time(10 * GRACE), n.Kill)


def test_told_that_the_controller_is_gone_it_waits_for_the_word_that_there_is_one() -> None:
    """Over the same link, of which nothing is lost; others look for the controller."""
    driver = running()
    away, back, signal = (
        codec.encode(m.To(("n0",), codec.raw(order)))
        for order in (m.Adrift(True), m.Adrift(False), m.Signal(1, 15))
    )
    out = driver.put(n.LinkSaid(away + back[:9]))
    assert [type(each) for each in out] == [n.SetTimer]
    assert not agent_messages(driver.pass_time(GRACE - 1))
    out = driver.put(n.LinkSaid(back[9:] + signal))
    assert agent_messages(out)[0] == m.AgentHello("n0", 4, 77, (m.Held(1, 0, (0, 1), session=1),), (), 0, 1)
    assert len(outputs_of_kind(out, n.SignalGroup)) == 2
    driver.put(n.LinkSaid(away))
    assert outputs_of_kind(driver.pass_time(GRACE), n.Kill)[0].pids == (101, 102)


def test_without_a_grace_the_word_that_the_controller_is_gone_ends_all() -> None:
    driver = Driver()
    driver.order(start_order())
    assert outputs_of_kind(driver.order(m.Adrift(True)), n.Kill)[0].pids == (101, 102)


def test_when_nobody_comes_in_time_it_ends_everything_and_leaves() -> None:
    driver = running()
    driver.put(n.LinkLost())
    out = driver.pass_time(GRACE)
    assert outputs_of_kind(out, n.Kill)[0].pids == (101, 102)
    assert "no controller for 60 s" in outputs_of_kind(out, n.Say)[0].text
    driver.exit(101, -9)
    driver.exit(102, -9)
    driver.find(out)
    out = driver.put(n.SessionClosed(1))
    assert outputs_of_kind(out, n.Leave) == [n.Leave(orphaned=True)]
    assert not driver.put(n.LinkMade())


def test_an_order_that_comes_again_is_not_obeyed_again() -> None:
    driver = running()
    signal = codec.encode(m.To(("n0",), codec.raw(m.Signal(1, 15)), 7))
    assert len(outputs_of_kind(driver.put(n.LinkSaid(signal)), n.SignalGroup)) == 2
    driver.put(n.LinkLost())
    hello_again = agent_messages(driver.put(n.LinkMade()))[0]
    assert isinstance(hello_again, m.AgentHello)
    assert hello_again.obeyed == 7
    assert agent_messages(driver.put(n.LinkSaid(signal))) == [m.Heard()]
    # One without an id is none of a numbered kind.
    assert len(outputs_of_kind(driver.order(m.Signal(1, 15)), n.SignalGroup)) == 2


def test_a_session_is_not_told_twice_what_it_is_told_once() -> None:
    driver = running()
    offer = m.Deliver(1, 0, 1, codec.raw(m.Offer(5, 0, 3, 9.0)), "offer 5")
    assert len(outputs_of_kind(driver.order(offer, offer), n.SayToSession)) == 1
    driver.put(n.LinkLost(), n.LinkMade())
    assert not driver.order(offer)
    stay = m.Deliver(1, 0, 1, codec.raw(m.Stay()))
    assert len(outputs_of_kind(driver.order(stay, stay), n.SayToSession)) == 2


def test_a_line_that_the_old_link_has_begun_is_not_ended_by_the_new_one() -> None:
    driver = running()
    line = codec.encode(m.To(("n0",), codec.raw(m.Signal(1, 15)), 7))
    driver.put(n.LinkSaid(line[:20]), n.LinkLost(), n.LinkMade())
    assert len(outputs_of_kind(driver.put(n.LinkSaid(line)), n.SignalGroup)) == 2


def test_exits_and_a_bye_are_kept_until_the_proof_that_their_group_is_gone_is_acknowledged() -> None:
    """Who has asked for the proof may not have been able to write that the job has ended."""
    driver = running()
    driver.put(n.LinkLost())
    driver.put(session_said(m.Done(0, 1, 0)), session_said(m.Bye(0, "42")))
    driver.exit(101)
    driver.exit(102)
    driver.put(n.SessionClosed(1))
    kept = [(1, "Started"), (3, "Relay"), (4, "Relay"), (5, "Exited"), (6, "Exited")]
    assert numbers(driver.put(n.LinkMade()))[1:] == kept
    driver.order(m.Ack(6, 6))
    out = driver.put(n.LinkLost(), n.LinkMade())
    assert numbers(out)[1:] == [each for each in kept if each[0] != 3]  # the resize has been recorded
    assert agent_messages(driver.find(driver.order(m.Prove(1)))) == [m.Proof(1, clean=True)]
    out = driver.put(n.LinkLost(), n.LinkMade())
    assert numbers(out)[1:] == [*(each for each in kept if each[0] != 3), (7, "Proof")]
    driver.order(m.Ack(7, 7))
    assert numbers(driver.put(n.LinkLost(), n.LinkMade())) == [(0, "AgentHello")]


def test_what_ranks_used_is_told_for_ever_once_their_ends_are_not_repeated() -> None:
    """Half a second each: while an end is said again it says so itself, and then the inventory does."""
    driver = running()
    driver.put(n.SessionClosed(1))
    driver.exit(101)
    driver.exit(102)
    driver.order(m.Ack(4, 4))
    assert used(driver.put(n.LinkLost(), n.LinkMade())) == {}
    driver.find(driver.order(m.Prove(1)))
    assert used(driver.put(n.LinkLost(), n.LinkMade())) == {}
    driver.order(m.Ack(5, 5))  # the proof: from now on nobody needs the ends again
    assert used(driver.put(n.LinkLost(), n.LinkMade())) == {1: 1.0}
    driver.order(start_order(group=1))
    driver.exit(103)
    driver.exit(104)
    driver.find(driver.order(m.Prove(1)))
    out = driver.put(n.LinkLost(), n.LinkMade())  # nobody has acknowledged any of that
    assert numbers(out)[1:4] == [(6, "Started"), (7, "Exited"), (8, "Exited")]
    assert used(out) == {1: 1.0}
    driver.order(m.Ack(9, 9))
    assert used(driver.put(n.LinkLost(), n.LinkMade())) == {1: 2.0}


def used(outputs: list[n.AnyOutput]) -> dict[int, float]:
    """By job, as an inventory has it on the wire."""
    [hello] = [each for each in agent_messages(outputs) if isinstance(each, m.AgentHello)]
    read = codec.from_agent().decode(codec.encode(hello))
    assert isinstance(read, m.AgentHello)
    return read.used


def test_an_exit_that_is_kept_back_when_the_link_is_lost_counts_as_not_told() -> None:
    """What the last rank said last may be read behind its end: until then it is in the inventory as if it lived."""
    driver = running()
    driver.exit(101)
    driver.exit(102)
    driver.order(m.Ack(4, 4))
    out = driver.put(n.LinkLost(), n.LinkMade())
    assert agent_messages(out)[0] == m.AgentHello("n0", 4, 77, (m.Held(1, 0, (1,), session=1),), (), 0, 3)
    assert numbers(out)[1:] == [(1, "Started"), (3, "Exited")]
    driver.put(n.LinkLost())
    assert not outputs_of_kind(driver.put(session_said(m.Bye(0, "42")), n.SessionClosed(1)), n.Tell)
    out = driver.put(n.LinkMade())
    assert agent_messages(out)[0] == m.AgentHello("n0", 4, 77, (m.Held(1, 0, ()),), (), 0, 5)
    assert numbers(out)[1:] == [(1, "Started"), (3, "Exited"), (4, "Relay"), (5, "Exited")]


def test_an_exit_that_is_kept_back_until_its_group_is_proved_gone_is_not_kept_for_ever() -> None:
    driver = running()
    driver.exit(101)
    driver.exit(102)
    out = driver.order(m.Prove(1))
    assert numbers(driver.find(out)) == [(4, "Exited"), (5, "Proof")]
    driver.order(m.Ack(5, 5))
    assert numbers(driver.put(n.LinkLost(), n.LinkMade())) == [(0, "AgentHello")]


TOKEN = f"/run/p/{token_name('n0', 1, 0, 0, 0)}"
SEGMENT = mpich_segment("r1", 1, 0, 0)


def cleared(outputs: list[n.AnyOutput]) -> list[str]:
    return [path for each in outputs_of_kind(outputs, n.ClearFiles) for path in each.paths]


def test_a_token_stays_until_it_is_recorded_that_its_group_is_gone() -> None:
    """The next agent on the node, should this one be killed, is asked by a controller that knows of no end."""
    driver = running()
    driver.exit(101, -9)
    driver.exit(102, -9)
    driver.put(n.SessionClosed(1))
    out = driver.find(driver.order(m.Prove(1)))
    assert numbers(out) == [(5, "Proof")]
    assert cleared(out) == [SEGMENT]
    assert not cleared(driver.order(m.Ack(4, 4)))
    assert cleared(driver.order(m.Ack(5, 5))) == [TOKEN]
    assert not cleared(driver.order(m.Ack(5, 5)))


def test_an_agent_that_leaves_removes_no_token_of_what_is_not_recorded() -> None:
    driver = running()
    out = driver.put(n.StopAsked(""))
    driver.exit(101, -9)
    driver.exit(102, -9)
    driver.order(m.Prove(1))
    out = [*driver.find(out), *driver.put(n.SessionClosed(1))]
    assert m.Proof(1, clean=True) in agent_messages(out)
    assert outputs_of_kind(out, n.Leave)
    assert cleared(out) == [SEGMENT]


@pytest.mark.parametrize("acknowledged_first", [False, True])
def test_a_token_that_is_written_late_goes_when_the_end_of_its_group_is_recorded(
    *, acknowledged_first: bool
) -> None:
    driver = Driver(starts=False, orphan_grace=GRACE)
    driver.order(start_order())
    driver.order(m.Signal(1, 9, 0), m.Prove(1))
    out = driver.find(driver.pass_time(5.0))
    assert [kind for _, kind in numbers(out)] == ["Proof"]
    if acknowledged_first:
        assert not cleared(driver.order(m.Ack(2, 2)))
        assert TOKEN in cleared(driver.put(n.TokenWritten(1, 0)))
    else:
        assert TOKEN not in cleared(driver.put(n.TokenWritten(1, 0)))
        assert cleared(driver.order(m.Ack(2, 2))) == [TOKEN]


def test_a_token_that_another_agent_has_left_stays_when_all_is_recorded() -> None:
    driver = Driver(starts=False, orphan_grace=GRACE)
    driver.order(start_order())
    driver.put(n.NotSpawned(1, 0, "it was started already", 126))
    driver.find(driver.order(m.Prove(1)))
    driver.order(m.Ack(2, 2))
    assert cleared(driver.out) == [SEGMENT]


def test_a_start_that_was_refused_is_said_again_until_the_proof_of_its_job_is_acknowledged() -> None:
    driver = running()
    driver.order(start_order(group=1, dialect="pmix"))
    driver.order(m.Ack(3, 3))
    assert numbers(driver.put(n.LinkLost(), n.LinkMade()))[1:] == [(1, "Started"), (3, "StartFailed")]
    # What goes on, and what its controller takes for something that does, is not meant by a proof.
    driver.find(driver.order(m.Prove(1, (0, 1))))
    driver.order(m.Ack(4, 4))
    assert numbers(driver.put(n.LinkLost(), n.LinkMade()))[1:] == [(1, "Started"), (3, "StartFailed")]
    driver.find(driver.order(m.Prove(1, (0,))))
    assert (3, "StartFailed") in numbers(driver.put(n.LinkLost(), n.LinkMade()))
    driver.order(m.Ack(5, 5))
    assert numbers(driver.put(n.LinkLost(), n.LinkMade()))[1:] == [(1, "Started")]


def test_a_proof_under_way_is_in_the_inventory_and_a_fence_is_said_again_until_it_is_passed() -> None:
    driver = Driver(orphan_grace=GRACE)
    driver.order(start_order(sizes=(1, 1)))
    out = driver.say("cmd=barrier_in")
    assert numbers(out) == [(2, "Fence")]
    driver.order(m.Ack(2, 2), m.Prove(1, patience_s=500.0))
    out = driver.put(n.LinkLost(), n.LinkMade())
    assert numbers(out)[1:] == [(1, "Started"), (2, "Fence")]
    greeting = agent_messages(out)[0]
    assert isinstance(greeting, m.AgentHello)
    assert greeting.proofs == (1,)
    # Whoever has passed one waits for nobody, but the others may wait for it there still.
    driver.order(m.Fenced(1, 0, 0, {}))
    assert numbers(driver.put(n.LinkLost(), n.LinkMade()))[1:] == [(1, "Started"), (2, "Fence")]
    driver.say("cmd=barrier_in")
    driver.order(m.Ack(3, 3), m.Fenced(1, 0, 1, {}))
    assert numbers(driver.put(n.LinkLost(), n.LinkMade()))[1:] == [(1, "Started"), (3, "Fence")]


def test_what_was_put_on_the_board_is_said_again_until_its_group_is_two_epochs_on() -> None:
    driver = running()
    driver.put(session_said(m.Put(0, "port", "here")), session_said(m.Get(0, "other")))
    driver.order(m.Ack(4, 4))
    assert [number for number, _ in numbers(driver.put(n.LinkLost(), n.LinkMade()))[1:]] == [1, 3, 4]
    # It may ask for something of the next epoch while others wait for what it has put in this one.
    driver.put(session_said(m.Get(1, "port")))
    assert [number for number, _ in numbers(driver.put(n.LinkLost(), n.LinkMade()))[1:]] == [1, 3, 4, 5]
    driver.put(session_said(m.Get(2, "port")))
    assert [number for number, _ in numbers(driver.put(n.LinkLost(), n.LinkMade()))[1:]] == [1, 5, 6]


def test_of_progress_only_the_last_is_kept_and_too_much_else_ends_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "MOST", 20)
    driver = running()
    driver.put(n.LinkLost())
    for step in range(100):
        driver.put(session_said(m.Progress(0, step / 100)))
    [kept] = [each for each in agent_messages(driver.put(n.LinkMade())) if isinstance(each, m.Relay)]
    assert b"0.99" in bytes(kept.message)
    driver.put(n.LinkLost())
    ends = [outputs_of_kind(driver.put(session_said(m.Want(0, Bounds(1, 2)))), n.Kill) for _ in range(20)]
    assert not any(ends[:17])
    assert any(ends)


def test_without_a_grace_the_end_comes_at_once() -> None:
    driver = Driver()
    driver.order(start_order())
    driver.put(n.SessionOpened(1, 1000), n.SessionSaid(1, hello()))
    out = driver.put(n.LinkLost())
    assert not outputs_of_kind(out, n.Connect)
    assert outputs_of_kind(out, n.Kill)[0].pids == (101, 102)


def test_what_was_acknowledged_ahead_of_time_is_kept_all_the_same() -> None:
    box = Outbox()
    box.taken(5)
    assert box.add(m.Proof(1, clean=True)).number == 1
    assert [told.number for told in box] == [1]

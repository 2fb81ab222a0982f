"""A job's session below its negotiation: the machine, and the socket that carries it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.job.connection import Connection
from pliant.job.environment import Environment, read
from pliant.job.errors import AgentLost, Stalled
from pliant.job.exchange import port_of
from pliant.job.session import Session
from pliant.model.errors import PliantError, ProtocolError
from pliant.model.jobs import Bounds
from pliant.plan.join import star
from pliant.protocol import codec
from pliant.protocol import messages as m

HELLO = m.Hello(1, 0, 0, "secret", 2)
WELCOME = m.Welcome(1, "ocean", (0,))


class Open:
    """A session after its hello, with what its owner was told."""

    def __init__(self) -> None:
        self.written: list[m.JobMessage] = []
        self.seen: list[m.SchedulerMessage] = []
        self.lost: list[str] = []
        self.session = Session(
            lambda line: self.written.append(codec.from_job().decode(line)),
            self.seen.append,
            self.lost.append,
        )
        self.session.send(HELLO)
        self.written.clear()

    def hear(self, *messages: m.SchedulerMessage) -> None:
        self.session.receive(b"".join(map(codec.encode, messages)))


def test_values_and_messages_are_sorted_byte_by_byte() -> None:
    it = Open()
    value = m.Value(1, "key", "a value")
    for byte in codec.encode(WELCOME) + codec.encode(value) + codec.encode(m.GroupLost(3, "why")):
        it.session.receive(bytes([byte]))
    assert it.seen == [WELCOME, m.GroupLost(3, "why")]
    assert it.session.values == {(1, "key"): "a value"}
    assert it.session.welcome() == WELCOME
    assert it.session.take() == m.GroupLost(3, "why")
    assert it.session.take() is None


def test_what_is_unknown_or_out_of_place_is_answered_and_changes_nothing() -> None:
    it = Open()
    deep = b'{"type":"stay","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    it.session.receive(b'{"type":"from-the-future"}\n' + deep + b"\n\xff\n")
    it.hear(m.Offer(1, 0, 1, 1.0), m.Offer(2, 0, 1, 1.0), m.Withdraw(7))
    assert it.session.take() == m.Offer(1, 0, 1, 1.0)
    assert it.session.take() is None
    said = [message.text for message in it.written if isinstance(message, m.Error)]
    assert ["not a message" in text for text in said] == [True] * 3 + [False] * 2
    assert "does not expect Offer" in said[3]
    assert said[4].endswith("does not expect Withdraw of resize 7: 1 is open")
    assert (it.session.side.state, it.lost) == ("offered", [])
    with pytest.raises(ProtocolError, match="must not send Accept of resize 2: 1 is open"):
        it.session.send(m.Accept(0, 2))


def test_who_listens_late_hears_what_has_come_with_the_welcome() -> None:
    open_ = Open()
    lost = m.GroupLost(2, "gone")
    open_.session.receive(codec.encode(WELCOME) + codec.encode(lost))
    open_.session.welcome()
    heard: list[m.SchedulerMessage] = []
    open_.session.listen(heard.append)
    open_.session.receive(codec.encode(m.Withdraw(3)))
    assert heard == [lost, m.Withdraw(3)]


def test_before_hello_nothing_is_answered() -> None:
    written: list[bytes] = []
    lost: list[str] = []
    session = Session(written.append, on_lost=lost.append)
    session.receive(b"no message\n" + codec.encode(m.Stay()))
    assert session.take() is None
    assert (written, lost) == ([], [])


def test_a_refusal_names_the_reason_and_another_version_both() -> None:
    for answer, text in (
        (m.Error("no such group here, or a wrong token"), "refused this session: no such group here"),
        (m.Stay(), r"it answered Stay\(\)"),
        (m.Welcome(1, "ocean", (0,), version=2), "the scheduler speaks version 2 of the protocol, this program 1"),
    ):  # fmt: skip
        it = Open()
        it.hear(answer)
        with pytest.raises(PliantError, match=text):
            it.session.welcome()


def test_the_owner_hears_once_that_the_agent_is_gone_and_goes_on_as_it_likes() -> None:
    it = Open()
    it.hear(WELCOME, m.Error("this node goes down"))
    it.session.receive(b"x" * (codec.MAX_LINE + 1))
    it.session.lose("it closed the connection")
    it.hear(m.Stay())
    assert it.lost == [f"a line of more than {codec.MAX_LINE} bytes; this node goes down"]
    assert it.session.take() == WELCOME
    it.session.send(m.Progress(0, 0.5))
    assert it.written == []


def test_after_bye_nothing_matters() -> None:
    it = Open()
    it.session.send(m.Bye(0))
    it.hear(m.Offer(1, 0, 1, 1.0), m.Withdraw(1), m.Stay())
    it.session.receive(b"no message\n")
    it.session.lose("it closed the connection")
    assert it.session.take() is None
    assert (it.written, it.lost) == ([m.Bye(0)], [])


# ---- the socket ---------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Connection, socket.socket]]:
    """A connection, and the agent's end of it."""
    (tmp_path / "token").write_text("secret\n")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "s"))
    place = Environment(1, 0, "n0", 0, 0, str(tmp_path / "s"), str(tmp_path / "token"))
    with pytest.raises(PliantError, match="no agent answers at"):
        Connection.open(place, 20.0)
    server.listen()
    connection = Connection.open(place, 20.0)
    agent, _ = server.accept()
    server.close()
    yield connection, agent
    connection.close()
    agent.close()


def test_a_connection_greets_fetches_and_waits(pair: tuple[Connection, socket.socket]) -> None:
    connection, agent = pair
    agent.sendall(codec.encode(WELCOME))
    assert connection.greet(2, Bounds(1, 4)) == WELCOME
    hello = codec.from_job().decode(agent.recv(65536))
    assert hello == m.Hello(1, 0, 0, "secret", 2, Bounds(1, 4))
    agent.sendall(codec.encode(m.Value(0, "b", "2")) + codec.encode(m.Value(0, "a", "1")))
    assert connection.fetch(0, ["a", "b"], "two values") == ["1", "2"]
    agent.sendall(codec.encode(m.Stay()))
    connection.wait(lambda: bool(connection.session.inbox), "an answer")
    assert connection.session.take() == m.Stay()


def test_waits_are_idle_in_the_owners_way_and_end_at_the_limit_or_with_the_agent(
    pair: tuple[Connection, socket.socket],
) -> None:
    connection, agent = pair
    calls: list[int] = []
    hasty = Connection(connection.place, socket.socket(fileno=agent.detach()), 0.05, lambda: calls.append(1))
    with pytest.raises(Stalled, match=r"waited 0\.05 s for nothing"):
        hasty.wait(lambda: False, "nothing")
    assert calls
    hasty.close()
    with pytest.raises(AgentLost, match="group 0 on n0 lost its agent: it closed the connection"):
        connection.wait(lambda: False, "nothing", limited=False)
    with pytest.raises(AgentLost):
        connection.wait(lambda: False, "nothing", limited=False)


def test_a_group_waits_for_its_turn_as_long_as_all_those_before_it_may_take(
    pair: tuple[Connection, socket.socket],
) -> None:
    connection, agent = pair
    hasty = Connection(connection.place, socket.socket(fileno=agent.detach()), 0.02)
    hasty.send(HELLO)
    for step in star(range(4), 0).steps:
        limit = ("", "2 times ", "3 times ")[step.turn - 1] + "PLIANT_DEADLINE"
        text = rf"waited {0.02 * step.turn:g} s for the port at {step.key}; .*the limit is {limit}"
        with pytest.raises(Stalled, match=text):
            port_of(hasty, step, 0)
    hasty.close()


def test_an_owner_that_bears_the_loss_still_ends_its_wait(pair: tuple[Connection, socket.socket]) -> None:
    first, agent = pair
    told: list[str] = []
    connection = Connection(first.place, first._link.dup(), 20.0, on_lost=told.append)
    connection.send(HELLO)
    agent.close()
    connection.poll()
    connection.send(m.Progress(0, 0.5))
    with pytest.raises(AgentLost):
        connection.fetch(0, ["key"], "a value")
    assert len(told) == 1
    connection.close()


def test_a_rank_without_mpi_learns_its_number_from_the_environment() -> None:
    told = {
        "PLIANT_JOB": "3", "PLIANT_GROUP": "1", "PLIANT_NODE": "n4", "PLIANT_EPOCH": "0", "PLIANT_RESIZE": "0",
        "PLIANT_SOCKET": "/run/s", "PLIANT_TOKEN_FILE": "/run/t",
    }  # fmt: skip
    assert read({}) is None
    assert read(told) == Environment(3, 1, "n4", 0, 0, "/run/s", "/run/t", None)
    assert read({**told, "PLIANT_RANK": "2"}) == Environment(3, 1, "n4", 0, 0, "/run/s", "/run/t", 2)
    with pytest.raises(PliantError, match="missing or wrong"):
        read({**told, "PLIANT_RANK": "two"})

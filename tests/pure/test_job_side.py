from __future__ import annotations

import pytest

from pliant.model.errors import ProtocolError
from pliant.protocol import job_side
from pliant.protocol.job_side import JobSide
from pliant.protocol.messages import (
    Accept,
    Bye,
    Decline,
    Done,
    Drain,
    Failed,
    Hello,
    JobMessage,
    Offer,
    Progress,
    SchedulerMessage,
    Withdraw,
)

HELLO = Hello(1, 0, 0, "t", 1)
OFFER = Offer(3, 0, 1, 10.0)
DRAIN = Drain(4, 0, 1, 10.0, (0,))
ACCEPT, DECLINE = Accept(0, 3), Decline(0, 3, "no")
DONE, FAILED, BYE = Done(0, 3, 0), Failed(0, 3, "x"), Bye(0)
WITHDRAW = Withdraw(3)


def walk(*messages: JobMessage | SchedulerMessage) -> JobSide:
    side = JobSide()
    for message in messages:
        step(side, message)
    return side


def step(side: JobSide, message: JobMessage | SchedulerMessage) -> None:
    if isinstance(message, Offer | Drain | Withdraw):
        side.receive(message)
    else:
        side.send(message)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("messages", "state"),
    [
        ([], "new"),
        ([HELLO], "ready"),
        ([HELLO, OFFER], "offered"),
        ([HELLO, OFFER, DECLINE], "ready"),
        ([HELLO, OFFER, ACCEPT], "resizing"),
        ([HELLO, OFFER, ACCEPT, DONE], "ready"),
        ([HELLO, OFFER, ACCEPT, WITHDRAW, FAILED], "ready"),
        ([HELLO, OFFER, ACCEPT, WITHDRAW, DONE], "ready"),
        ([HELLO, OFFER, WITHDRAW], "withdrawn"),
        ([HELLO, OFFER, WITHDRAW, DECLINE], "ready"),
        ([HELLO, OFFER, DECLINE, WITHDRAW], "ready"),
        ([HELLO, DRAIN], "draining"),
        ([HELLO, DRAIN, Accept(0, 4), Done(0, 4, 0)], "ready"),
        ([HELLO, DRAIN, BYE], "closed"),
        ([HELLO, OFFER, BYE, WITHDRAW], "closed"),
        ([HELLO, BYE, OFFER], "closed"),
    ],
)
def test_paths(messages: list[JobMessage | SchedulerMessage], state: str) -> None:
    assert walk(*messages).state == state


@pytest.mark.parametrize(
    "messages",
    [
        [ACCEPT],
        [HELLO, HELLO],
        [HELLO, ACCEPT],
        [HELLO, OFFER, ACCEPT, ACCEPT],
        [HELLO, OFFER, WITHDRAW, ACCEPT],
        [HELLO, DRAIN, Decline(0, 4, "no")],
        [HELLO, DRAIN, ACCEPT],
        [HELLO, DRAIN, WITHDRAW],
        [HELLO, OFFER, ACCEPT, Done(0, 4, 0)],
        [HELLO, OFFER, OFFER],
        [HELLO, BYE, BYE],
        [Progress(0, 0.5)],
        [HELLO, BYE, Progress(0, 0.5)],
        [OFFER],
    ],
)
def test_what_is_out_of_place_is_refused(messages: list[JobMessage | SchedulerMessage]) -> None:
    side = walk(*messages[:-1])
    before = side.state
    with pytest.raises(ProtocolError, match="a job in state"):
        step(side, messages[-1])
    assert side.state == before


def test_every_state_can_end() -> None:
    tables = {**job_side.SEND, **job_side.RECEIVE}
    states = {state for state, _ in tables} | set(tables.values())
    for state in states - {"new", "closed"}:
        assert job_side.SEND[state, "Bye"] == "closed"


def test_send_writes_a_line() -> None:
    assert JobSide().send(HELLO).endswith(b"\n")

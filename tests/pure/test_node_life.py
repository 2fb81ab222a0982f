"""The life of a node's agent, without processes: what it is told, what it asks for."""

from __future__ import annotations

import json

import msgspec
import pytest
from node_driver import HOME, Driver, agent_messages, hello, outputs_of_kind, start_order

from pliant.live.node import messages as n
from pliant.live.node import recording
from pliant.live.node.dialects import LAUNCHERS, mpich_segment
from pliant.live.node.register import token_name
from pliant.live.node.sessions import HELLO_S
from pliant.model.deadlines import (
    AGENT_HEARTBEAT_S,
    AGENT_KILL_S,
    AGENT_TRACKERS_S,
    CHANNEL_AGAIN_S,
    GROUP_LAST_S,
    RANK_START_S,
)
from pliant.protocol import codec
from pliant.protocol import messages as m

SEGMENT, TOKEN = mpich_segment("r1", 1, 0, 0), f"/run/p/{token_name('n0', 1, 0, 0, 0)}"


def started(**keys: int | str) -> Driver:
    driver = Driver()
    driver.order(start_order(**keys))  # type: ignore[arg-type]
    return driver


# ---- the link ---------------------------------------------------------------------------------------


def test_it_says_hello_and_that_it_lives() -> None:
    driver = Driver()
    assert agent_messages(driver.out) == [m.AgentHello("n0", 4, 77)]
    driver.order(m.Ack(0, 0))
    assert agent_messages(driver.pass_time(3 * AGENT_HEARTBEAT_S)) == [m.Heartbeat()] * 3


def test_it_says_hello_until_it_is_heard() -> None:
    driver = Driver()
    assert agent_messages(driver.pass_time(CHANNEL_AGAIN_S)) == [m.AgentHello("n0", 4, 77)]
    driver.order(m.Ack(0, 0))
    assert agent_messages(driver.pass_time(CHANNEL_AGAIN_S)) == [m.Heartbeat()]


def test_orders_come_in_bytes_cut_anywhere() -> None:
    line = codec.encode(m.To(("n0",), codec.raw(start_order())))
    driver = Driver()
    outputs = [driver.put(n.LinkSaid(line[i : i + 1])) for i in range(len(line))]
    assert not any(outputs[:-1])
    assert agent_messages(outputs[-1]) == [m.Started(1, 0, (101, 102))]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"garbage\n", "not a message"),
        (b'{"type":"to","nodes":["n0"],"message":{"type":"dance"}}\n', "dance"),
        (b'{"type":"to","nodes":["n0"],"message":{"type":"prove","job":"x"}}\n', "job"),
        (b'{"type":"to","nodes":["n5"],"message":{"type":"shutdown"}}\n', "no way from n0 to n5"),
        (b'{"type":"shutdown"}\n', "not a message"),
    ],
)
def test_what_it_cannot_read_is_answered_and_harms_nothing_else(line: bytes, says: str) -> None:
    driver = started()
    [answer] = agent_messages(driver.put(n.LinkSaid(line)))
    assert isinstance(answer, m.Error)
    assert says in answer.text
    assert agent_messages(driver.exit(101))
    assert not outputs_of_kind(driver.out, n.Leave)


def test_unknown_fields_of_an_order_are_ignored() -> None:
    order = {**json.loads(codec.encode(start_order())), "colour": "red"}
    line = json.dumps({"type": "to", "nodes": ["n0"], "message": order, "hops": 3}).encode() + b"\n"
    assert isinstance(agent_messages(Driver().put(n.LinkSaid(line)))[0], m.Started)


def test_a_line_without_end_ends_the_agent_with_a_word() -> None:
    driver = started()
    out = driver.put(n.LinkSaid(b"x" * (2 << 20)))
    assert "a line of more than" in outputs_of_kind(out, n.Say)[0].text
    assert outputs_of_kind(out, n.Kill)[0].pids == (101, 102)


# ---- starting ---------------------------------------------------------------------------------------


def test_a_group_is_started_rank_by_rank() -> None:
    driver = started(sizes=(1, 2), part=1, group=3)  # type: ignore[arg-type]
    token = f"/run/p/{token_name('n0', 1, 3, 0, 1)}"
    assert outputs_of_kind(driver.out, n.WriteToken) == [n.WriteToken(1, 3, token, "s")]
    first, second = outputs_of_kind(driver.out, n.Spawn)
    assert (first.rank, second.rank) == (1, 2)
    assert first.argv == ("prog", "x")
    assert first.connect
    assert first.without == LAUNCHERS
    assert first.defaults == {
        "MPIR_CVAR_CH4_NETMOD": "ucx", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    assert first.env == {
        "UCX_POSIX_DIR": HOME.shm, "A": "b", "PLIANT_RUN": "r1", "PLIANT_JOB": "1", "PLIANT_GROUP": "3",
        "PLIANT_NODE": "n0", "PLIANT_SOCKET": HOME.socket, "PLIANT_TOKEN_FILE": token,
        "PMI_SIZE": "3", "PMI_RANK": "1", "PMI_ID": "1",
    }  # fmt: skip
    assert "start 1 3" not in driver.timers


def test_the_users_environment_goes_before_the_dialects_defaults_but_not_before_the_cookie() -> None:
    order = msgspec.structs.replace(
        start_order(), env={"MPIR_CVAR_CH4_NETMOD": "ofi", "PLIANT_JOB": "9", "PMI_RANK": "9"}
    )
    driver = Driver()
    driver.order(order)
    env = outputs_of_kind(driver.out, n.Spawn)[0].env
    assert (env["MPIR_CVAR_CH4_NETMOD"], env["PLIANT_JOB"], env["PMI_RANK"]) == ("ofi", "1", "0")


def test_a_task_without_mpi_finds_none_of_it() -> None:
    driver = started(dialect="none")
    spawn = outputs_of_kind(driver.out, n.Spawn)[0]
    assert not spawn.connect
    assert not [name for name in spawn.env if name.startswith(("PMI", "MPI", "UCX"))]
    assert "PLIANT_RANK" in spawn.without  # that of a job in which we were started
    ranks = [(spawn.rank, spawn.env["PLIANT_RANK"]) for spawn in outputs_of_kind(driver.out, n.Spawn)]
    assert ranks == [(0, "0"), (1, "1")]
    assert not driver.say("cmd=abort")
    # One that fails does not take the others with it, and what the dead leave is the token alone.
    assert agent_messages(driver.exit(101, 3)) == [m.Exited(1, 0, 0, 3, 0.5)]
    assert not outputs_of_kind(driver.out, n.Kill)
    driver.exit(102)
    driver.find(driver.order(m.Prove(1)))
    assert outputs_of_kind(driver.out, n.ClearFiles) == [n.ClearFiles((TOKEN,))]


@pytest.mark.parametrize(
    ("order", "says"),
    [
        (
            start_order(dialect="pmix"),
            "'pmix' is not known here; known are intel, intel-rigid, launch, none, openmpi, pmi1, pmi1-ofi",
        ),
        (start_order(sizes=(1,), part=1), "no part 1"),
        (start_order(sizes=(), part=0), "no part 0"),
        (start_order(sizes=(0,)), "with ranks in it"),
        (msgspec.structs.replace(start_order(), argv=()), "no command"),
    ],
)
def test_what_no_node_can_start_is_refused(order: m.StartGroup, says: str) -> None:
    driver = Driver()
    [answer] = agent_messages(driver.order(order))
    assert isinstance(answer, m.StartFailed)
    assert answer.code == 126
    assert says in answer.error
    assert not outputs_of_kind(driver.out, n.WriteToken)


def test_a_rank_that_cannot_be_started_ends_the_others() -> None:
    driver = Driver(starts=False)
    driver.order(start_order())
    driver.put(n.TokenWritten(1, 0))
    driver.put(n.Spawned(1, 0, 0, 101))
    out = driver.put(n.NotSpawned(1, 0, "'prog': no such file", 127))
    assert outputs_of_kind(out, n.Kill) == [n.Kill((101,))]
    failed = m.StartFailed(1, 0, "'prog': no such file", 127)
    assert agent_messages(out) == [failed]
    assert not outputs_of_kind(out, n.ClearFiles)  # a rank lives
    assert agent_messages(driver.order(start_order())) == [failed]
    assert agent_messages(driver.exit(101, -9)) == [m.Exited(1, 0, 0, -9, 0.5)]
    driver.find(driver.order(m.Prove(1)))
    assert outputs_of_kind(driver.out, n.ClearFiles) == [n.ClearFiles((SEGMENT,)), n.ClearFiles((TOKEN,))]
    assert agent_messages(driver.out)[-1] == m.Proof(1, clean=True)


def test_a_start_that_is_never_answered_fails_in_time_and_a_late_rank_is_killed() -> None:
    driver = Driver(starts=False)
    driver.order(start_order())
    driver.put(n.TokenWritten(1, 0))
    [answer] = [
        each for each in agent_messages(driver.pass_time(RANK_START_S)) if not isinstance(each, m.Heartbeat)
    ]
    assert isinstance(answer, m.StartFailed)
    assert "not within 30 s" in answer.error
    assert outputs_of_kind(driver.out, n.ClearFiles)
    assert driver.put(n.Spawned(1, 0, 0, 101)) == [n.Kill((101,))]


def test_a_token_that_cannot_be_written_starts_nothing() -> None:
    driver = Driver(starts=False)
    driver.order(start_order())
    assert agent_messages(driver.put(n.NotSpawned(1, 0, "disk full", 126))) == [
        m.StartFailed(1, 0, "disk full", 126)
    ]
    assert not outputs_of_kind(driver.put(n.TokenWritten(1, 0)), n.Spawn)


def test_a_token_that_is_written_when_its_group_is_forgotten_is_removed() -> None:
    driver = Driver(starts=False)
    driver.order(start_order())
    driver.order(m.Signal(1, 9, 0), m.Prove(1))
    assert m.Proof(1, clean=True) in agent_messages(driver.find(driver.pass_time(5.0)))
    assert outputs_of_kind(driver.put(n.TokenWritten(1, 0)), n.ClearFiles) == [n.ClearFiles((SEGMENT, TOKEN))]
    assert driver.put(n.TokenWritten(1, 0)) == []


def test_the_token_that_another_agent_has_left_is_never_removed() -> None:
    """It says that the group was started here: this agent may be killed as well, and the next one asked again."""
    driver = Driver(starts=False)
    driver.order(start_order())
    driver.put(n.NotSpawned(1, 0, "it was started here before", 126))
    driver.find(driver.order(m.Prove(1)))
    assert agent_messages(driver.out)[-1] == m.Proof(1, clean=True)
    assert outputs_of_kind(driver.out, n.ClearFiles) == [n.ClearFiles((SEGMENT,))]


def test_a_start_is_told_before_the_end_of_any_of_its_ranks() -> None:
    driver = Driver(starts=False)
    driver.order(start_order())
    driver.put(n.TokenWritten(1, 0))
    driver.put(n.Spawned(1, 0, 0, 101))
    assert not agent_messages(driver.exit(101, 3))
    out = driver.put(n.Spawned(1, 0, 1, 102))
    assert agent_messages(out) == [m.Started(1, 0, (101, 102)), m.Exited(1, 0, 0, 3, 0.5)]
    assert outputs_of_kind(out, n.Kill) == [n.Kill((102,))]


@pytest.mark.parametrize("number", [9, 15])
def test_a_group_that_is_ended_while_it_starts_does_not_live(number: int) -> None:
    driver = Driver(starts=False)
    driver.order(start_order())
    driver.put(n.TokenWritten(1, 0))
    driver.put(n.Spawned(1, 0, 0, 101))
    assert outputs_of_kind(driver.order(m.Signal(1, number)), n.Kill) == [n.Kill((101,))]
    assert n.Kill((102,)) in driver.put(n.Spawned(1, 0, 1, 102))


def test_a_start_that_is_ordered_again_is_answered_and_not_repeated() -> None:
    driver = Driver(starts=False)
    driver.order(start_order(sizes=(1,)))
    assert not driver.order(start_order(sizes=(1,)))  # its answer is on the way
    driver.put(n.TokenWritten(1, 0))
    [started_] = agent_messages(driver.put(n.Spawned(1, 0, 0, 101)))
    assert driver.order(start_order(sizes=(1,))) == [n.Tell(started_)]
    [other] = agent_messages(driver.order(start_order(sizes=(1,), token="other")))
    assert isinstance(other, m.StartFailed)
    assert "still there from before" in other.error
    driver.exit(101)
    assert agent_messages(driver.order(start_order(sizes=(1,)))) == [started_]
    driver.find(driver.order(m.Prove(1)))
    [again] = agent_messages(driver.order(start_order(sizes=(1,))))
    assert isinstance(again, m.StartFailed)
    assert "has been here" in again.error
    assert len(outputs_of_kind(driver.out, n.Spawn)) == 1
    # The number may come again with a job that is started anew.
    driver.order(start_order(sizes=(1,), token="new"))
    assert outputs_of_kind(driver.out, n.WriteToken)[-1].token == "new"


# ---- PMI --------------------------------------------------------------------------------------------


def test_mpi_init_is_answered_and_its_barrier_opens_when_all_are_there() -> None:
    driver = started()
    [reply] = outputs_of_kind(driver.say("cmd=init pmi_version=1"), n.SayToRank)
    assert (reply.job, reply.group, reply.rank) == (1, 0, 0)
    assert reply.data.startswith(b"cmd=response_to_init rc=0")
    [name] = outputs_of_kind(driver.say("cmd=get_my_kvsname"), n.SayToRank)
    assert b"kvsname=pliant_r1_1_0\n" in name.data
    driver.say("cmd=put key=k value=v", rank=1)
    assert not driver.say("cmd=barrier_in")
    opened = outputs_of_kind(driver.say("cmd=barrier_in", rank=1), n.SayToRank)
    assert [(each.rank, each.data) for each in opened] == [
        (rank, b"cmd=barrier_out rc=0\n") for rank in (0, 1)
    ]
    assert b"value=v" in outputs_of_kind(driver.say("cmd=get key=k"), n.SayToRank)[0].data


def test_a_fence_over_nodes_opens_once_the_controller_has_sent_all_of_it() -> None:
    driver = started(sizes=(1, 1))  # type: ignore[arg-type]
    driver.say("cmd=put key=a value=1")
    assert not outputs_of_kind(driver.order(m.Fenced(1, 0, 0, {"early": "1"})), n.SayToRank)
    assert agent_messages(driver.say("cmd=barrier_in")) == [m.Fence(1, 0, 0, {"a": "1"})]
    assert not driver.order(m.Fenced(1, 0, 0, {"b": "2"}, more=True))
    assert len(driver.order(m.Fenced(1, 0, 0, {"c": "3"}))) == 1
    assert not driver.order(m.Fenced(1, 0, 0, {"c": "3"}))  # it came twice
    assert b"value=2" in outputs_of_kind(driver.say("cmd=get key=b"), n.SayToRank)[0].data
    assert agent_messages(driver.say("cmd=barrier_in")) == [m.Fence(1, 0, 1, {})]
    assert not driver.order(m.Fenced(8, 0, 0, {}))


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"cmd=abort exitcode=7\n", 7, "rank 0 called MPI_Abort"),
        (b"cmd=put key=a\n", 1, "put without key or value"),
        (b"x" * 70000, 1, "a line of more than 65536 bytes"),
    ],
)
def test_an_abort_ends_the_group_with_its_code_and_says_why_once(data: bytes, code: int, says: str) -> None:
    driver = started()
    out = driver.put(n.RankSaid(1, 0, 0, data))
    [relay] = agent_messages(out)
    assert isinstance(relay, m.Relay)
    assert relay.session == 0
    assert says in bytes(relay.message).decode()
    assert outputs_of_kind(out, n.Kill) == [n.Kill((101, 102))]
    assert not driver.put(n.RankSaid(1, 0, 1, data))
    assert agent_messages(driver.exit(101, -9)) == [m.Exited(1, 0, 0, code, 0.5)]
    assert agent_messages(driver.exit(102, -11)) == [m.Exited(1, 0, 1, -11, 0.5)]


def test_a_rank_that_ends_while_others_wait_for_it_ends_the_group() -> None:
    driver = started()
    driver.say("cmd=barrier_in")
    out = driver.exit(102)
    assert agent_messages(out)[0] == m.Exited(1, 0, 1, 0, 0.5)
    assert b"wait for it in MPI_Init" in bytes(agent_messages(out)[1].message)  # type: ignore[union-attr]
    assert outputs_of_kind(out, n.Kill) == [n.Kill((101,))]


@pytest.mark.parametrize(
    ("said", "early"),
    [((), False), (("init",), True), (("init", "finalize"), False), (("finalize", "init"), True)],
)
def test_a_rank_that_ends_with_0_between_mpi_init_and_mpi_finalize_ends_its_group(
    said: tuple[str, ...],
    early: bool,  # noqa: FBT001
) -> None:
    """One that says nothing uses no MPI; one that begins anew is a second program of the same script."""
    driver = started()
    for command in said:
        driver.say(f"cmd={command}", rank=0)
        driver.say(f"cmd={command}", rank=1)
    assert driver.exit(102) == [
        n.Tell(m.Exited(1, 0, 1, 0, 0.5, early)),
        *([n.Kill((101,))] if early else []),
    ]


def test_ranks_of_groups_that_intel_mpi_joins_end_without_mpi_finalize() -> None:
    driver = started(dialect="intel", sizes=(1,))  # type: ignore[arg-type]
    driver.say("cmd=init")
    assert driver.exit(101) == [n.Tell(m.Exited(1, 0, 0, 0, 0.5))]
    driver = started(dialect="intel")
    for rank in (0, 1):
        driver.say("cmd=init", rank=rank)
    driver.put(n.SessionOpened(5, 1000), n.SessionSaid(5, hello()))
    assert outputs_of_kind(driver.exit(102), n.Tell) == [n.Tell(m.Exited(1, 0, 1, 0, 0.5, early=True))]


def test_a_connection_that_is_closed_is_told_nothing_more() -> None:
    driver = started()
    driver.put(n.RankClosed(1, 0, 0))
    assert not driver.say("cmd=init")
    assert driver.say("cmd=init", rank=1)


# ---- ends and signals -------------------------------------------------------------------------------


def test_a_rank_that_fails_takes_its_group_with_it_and_one_that_ends_well_does_not() -> None:
    driver = started(sizes=(3,))  # type: ignore[arg-type]
    assert driver.exit(101) == [n.Tell(m.Exited(1, 0, 0, 0, 0.5))]
    assert driver.exit(102, 5) == [n.Tell(m.Exited(1, 0, 1, 5, 0.5)), n.Kill((103,))]
    assert not driver.exit(4711, 1)  # an orphan


def test_signals_reach_what_they_are_for() -> None:
    driver = started()
    driver.order(start_order(group=1, sizes=(1,), token="t"))
    assert driver.order(m.Signal(1, 15)) == [n.SignalGroup(pid, 15) for pid in (101, 102, 103)]
    assert driver.order(m.Signal(1, 9, 0)) == [n.Kill((101, 102))]
    assert not driver.order(m.Signal(1, 15, 7), m.Signal(2, 9))


# ---- sessions ---------------------------------------------------------------------------------------


def test_a_session_with_its_token_is_passed_on_as_it_came() -> None:
    driver = started()
    driver.put(n.SessionOpened(5, 1000))
    line = hello().rstrip()[:-1] + b', "colour" : 1e15}'
    assert not driver.put(n.SessionSaid(5, line[:9]))
    [relay] = agent_messages(driver.put(n.SessionSaid(5, line[9:] + b"\n")))
    assert isinstance(relay, m.Relay)
    assert (relay.job, relay.group, relay.session, bytes(relay.message)) == (1, 0, 5, line)
    assert "hello 5" not in driver.timers
    answer = m.Deliver(1, 0, 5, codec.raw(m.Stay()))
    assert driver.order(answer) == [n.SayToSession(5, b'{"type":"stay"}\n')]
    driver.put(n.SessionClosed(5))
    assert not driver.order(answer)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (hello(token="wrong"), "wrong token"),
        (hello(token="é"), "wrong token"),
        (hello(job=2), "no such group"),
        (b"garbage\n", "not a message"),
        (b'{"type":"dance"}\n', "not a message"),
        (codec.encode(m.Stay()), "not a message"),
        (codec.encode(m.Bye(0)), "begins with hello"),
        (b'{"type":"bye","epoch":0,"x":' + b"[" * 100000 + b"]" * 100000 + b"}\n", "not a message"),
        (b"x" * (codec.MAX_LINE + 1), "a line of more than"),
    ],
)
@pytest.mark.parametrize("admitted", [False, True])
def test_a_bad_line_closes_its_own_session_alone(data: bytes, says: str, *, admitted: bool) -> None:
    driver = started()
    for session in (1, 2):
        driver.put(n.SessionOpened(session, 1000))
        driver.put(n.SessionSaid(session, hello() if admitted or session == 2 else b""))
    out = driver.put(n.SessionSaid(1, data))
    if not admitted or says in {"not a message", "a line of more than"}:
        said, closed = [each for each in out if not isinstance(each, n.CancelTimer)]
        assert isinstance(said, n.SayToSession)
        assert says in json.loads(said.data)["text"]
        assert closed == n.CloseSession(1)
        assert not driver.put(n.SessionSaid(1, hello()))
    assert agent_messages(driver.put(n.SessionSaid(2, codec.encode(m.Bye(0)))))


def test_sessions_of_other_users_and_silent_ones_are_closed() -> None:
    driver = started()
    assert b"another user" in outputs_of_kind(driver.put(n.SessionOpened(1, 0)), n.SayToSession)[0].data
    driver.put(n.SessionOpened(2, 1000))
    out = driver.pass_time(HELLO_S)
    assert b"no hello within 60 s" in outputs_of_kind(out, n.SayToSession)[0].data
    assert outputs_of_kind(out, n.CloseSession) == [n.CloseSession(2)]


# ---- the proof --------------------------------------------------------------------------------------


def test_a_node_is_proved_clean_when_its_groups_have_left() -> None:
    driver = started()
    driver.put(n.SessionOpened(1, 1000), n.SessionSaid(1, hello()))
    assert driver.order(m.Prove(1, patience_s=5)) == [n.SetTimer("proof 1", 5)]
    driver.exit(101)
    out = driver.exit(102)
    assert outputs_of_kind(out, n.Scan) == [n.Scan("proof 1", 1)]
    assert driver.find(out) == [
        n.CancelTimer("proof 1"), n.CancelTimer("last 1 0"), n.Tell(m.Exited(1, 0, 1, 0, 0.5)),
        n.ClearFiles((SEGMENT,)), n.CloseSession(1), n.Tell(m.Proof(1, clean=True)), n.ClearFiles((TOKEN,)),
    ]  # fmt: skip
    assert set(driver.timers) == {"beat"}


def test_the_end_of_a_group_is_told_behind_what_it_said_last() -> None:
    """The kernel tells of a process's end by a signal, and of its last words by a socket: in any order."""
    driver = started()
    driver.put(n.SessionOpened(1, 1000), n.SessionSaid(1, hello()))
    assert outputs_of_kind(driver.exit(101), n.Tell)
    assert not outputs_of_kind(driver.exit(102), n.Tell)
    said = driver.put(n.SessionSaid(1, codec.encode(m.Bye(0, "42"))), n.SessionClosed(1))
    assert [type(tell.message) for tell in outputs_of_kind(said, n.Tell)] == [m.Relay, m.Exited]
    assert "last 1 0" not in driver.timers


def test_the_end_of_a_group_whose_session_stays_open_is_told_after_a_second() -> None:
    driver = started()
    driver.put(n.SessionOpened(1, 1000), n.SessionSaid(1, hello()))
    driver.exit(101)
    assert not outputs_of_kind(driver.exit(102), n.Tell)  # a child of it, say, has the socket still
    assert [type(tell.message) for tell in outputs_of_kind(driver.pass_time(GROUP_LAST_S), n.Tell)] == [
        m.Exited
    ]


def test_a_proof_of_what_was_never_here_is_given_at_once() -> None:
    driver = Driver()
    assert agent_messages(driver.find(driver.order(m.Prove(9)))) == [m.Proof(9, clean=True)]


def test_what_does_not_leave_is_killed_and_so_are_strays() -> None:
    driver = started()
    driver.processes.add(900)
    driver.order(m.Prove(1, patience_s=5))
    out = driver.find(driver.pass_time(5))
    assert outputs_of_kind(out, n.Kill) == [n.Kill((101, 102, 900), patient=True)]
    driver.processes.clear()
    out = driver.put(*(n.Exited(pid, -9) for pid in (101, 102)))
    assert not outputs_of_kind(out, n.Scan)  # one is due anyhow
    assert agent_messages(driver.find(driver.pass_time(0.02))) == [m.Proof(1, clean=True)]


def test_a_rank_whose_end_was_not_seen_is_there_whatever_a_scan_finds() -> None:
    driver = started(sizes=(1,))  # type: ignore[arg-type]
    driver.processes.clear()
    out = driver.find(driver.order(m.Prove(1, patience_s=0)) + driver.pass_time(0))
    assert outputs_of_kind(out, n.Kill) == [n.Kill((101,), patient=True)]
    assert agent_messages(driver.exit(101, -9)) == [m.Exited(1, 0, 0, -9, 0.5)]
    assert agent_messages(driver.find(driver.pass_time(0.02))) == [m.Proof(1, clean=True)]


def test_what_never_dies_is_named_and_trackers_get_a_second() -> None:
    driver = started(sizes=(1,))  # type: ignore[arg-type]
    out = driver.order(m.Prove(1, patience_s=0)) + driver.pass_time(0)
    kills = []
    while outputs_of_kind(out, n.Scan):
        out = driver.find(out)
        kills += [(driver.now, kill.patient) for kill in outputs_of_kind(out, n.Kill)]
        out += driver.pass_time(0.05)
    assert all(patient == (at < AGENT_TRACKERS_S) for at, patient in kills)
    assert AGENT_KILL_S - 0.1 < kills[-1][0] <= AGENT_KILL_S
    assert m.Proof(1, clean=False, pids=(101,)) in agent_messages(out)
    assert not outputs_of_kind(driver.out, n.ClearFiles)


def test_a_scan_that_is_never_answered_does_not_count_as_clean() -> None:
    driver = Driver()
    driver.order(m.Prove(1))
    out = driver.pass_time(3 * AGENT_KILL_S)
    assert [each for each in agent_messages(out) if isinstance(each, m.Proof)] == [m.Proof(1, clean=False)]


def test_groups_that_stay_and_helpers_and_other_jobs_are_none_of_a_proofs() -> None:
    driver = started()
    driver.put(n.HelperStarted(50, "warm process"))
    driver.order(start_order(group=1, sizes=(1,), token="t"), start_order(job=2, sizes=(1,), token="u"))
    driver.order(m.Prove(1, keep=(1, 6), patience_s=0))
    [scan] = outputs_of_kind(driver.pass_time(0), n.Scan)
    assert scan == n.Scan("proof 1 1 6", 1, ((1, 1), (1, 6), (2, 0)), (50, 103, 104))
    driver.exit(101)
    driver.exit(102)
    assert agent_messages(driver.put(n.Found(scan.key))) == [m.Proof(1, clean=True)]
    assert agent_messages(driver.order(start_order(group=1, sizes=(1,), token="t"))) == [
        m.Started(1, 1, (103,))
    ]
    driver.put(n.Exited(50, 0))
    [scan] = outputs_of_kind(driver.order(m.Prove(3)), n.Scan)
    assert scan.known == (103, 104)


def test_a_proof_that_is_ordered_again_meanwhile_is_given_once() -> None:
    driver = started(sizes=(1,))  # type: ignore[arg-type]
    driver.order(m.Prove(1))
    assert not driver.order(m.Prove(1))
    out = driver.exit(101)
    assert not driver.order(m.Prove(1))
    assert agent_messages(driver.find(out)) == [m.Proof(1, clean=True)]
    assert agent_messages(driver.find(driver.order(m.Prove(1)))) == [m.Proof(1, clean=True)]


def test_a_group_that_is_started_during_a_proof_is_not_its_concern() -> None:
    driver = started(sizes=(1,))  # type: ignore[arg-type]
    driver.order(m.Prove(1, patience_s=1))
    driver.order(start_order(group=1, sizes=(1,), token="t"))
    [scan] = outputs_of_kind(driver.exit(101), n.Scan)
    assert (scan.keep, scan.known) == (((1, 1),), (102,))


@pytest.mark.parametrize("patience", [-1.0, 1e308])
def test_no_patience_is_beyond_measure(patience: float) -> None:
    driver = started()
    [timer] = outputs_of_kind(driver.order(m.Prove(1, patience_s=patience)), n.SetTimer)
    assert 0 <= timer.seconds <= 3600


# ---- the end ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", ["shutdown", "lost", "asked"])
def test_at_the_end_everything_ends_and_all_is_answered(cause: str) -> None:
    driver = started()
    driver.put(n.HelperStarted(50, "warm process"))
    driver.processes.add(50)
    driver.put(n.SessionOpened(1, 1000), n.SessionSaid(1, hello()))
    driver.order(m.Prove(1))
    if cause == "shutdown":
        out = driver.order(m.Shutdown())
    else:
        out = driver.put(n.LinkLost() if cause == "lost" else n.StopAsked("it broke"))
    assert outputs_of_kind(out, n.Say) == ([n.Say("it broke")] if cause == "asked" else [])
    assert outputs_of_kind(out, n.Kill) == [n.Kill((101, 102)), n.Kill((50,))]
    assert outputs_of_kind(out, n.Scan) == [n.Scan("end")]
    if cause != "lost":
        driver.order(m.Prove(2))
        refused = agent_messages(driver.order(start_order(job=3)))
        assert isinstance(refused[0], m.StartFailed)
    assert outputs_of_kind(driver.put(n.SessionOpened(2, 1000)), n.CloseSession) == [n.CloseSession(2)]
    assert outputs_of_kind(driver.find(out), n.Kill) == [n.Kill((50, 101, 102), patient=True)]
    driver.exit(50, -9)
    driver.exit(101, -9)
    driver.exit(102, -9)
    out = driver.find(driver.pass_time(0.02))
    assert outputs_of_kind(out, n.ClearFiles) == [n.ClearFiles((SEGMENT,)), n.ClearFiles((TOKEN,))]
    if cause != "lost":
        assert agent_messages(out) == [m.Proof(1, clean=True), m.Proof(2, clean=True)]
        assert agent_messages(driver.order(m.Prove(4))) == [m.Proof(4, clean=True)]
        driver.put(n.LinkLost())  # it was to leave anyhow
    assert not outputs_of_kind(driver.out, n.Leave)
    assert outputs_of_kind(driver.put(n.SessionClosed(1)), n.Leave) == [n.Leave(orphaned=cause == "lost")]
    assert not driver.timers
    assert not driver.order(m.Prove(5))


def test_what_neither_dies_nor_closes_does_not_keep_the_agent() -> None:
    driver = started()
    driver.put(n.SessionOpened(1, 1000), n.SessionSaid(1, hello()))
    out = driver.order(m.Prove(1, keep=(7,)), m.Shutdown())
    while outputs_of_kind(out, n.Scan):
        out = driver.find(out)
        out += driver.pass_time(0.1)
    assert m.Proof(1, clean=False, pids=(101, 102)) in agent_messages(out)
    out = driver.pass_time(AGENT_KILL_S)
    assert outputs_of_kind(out, n.CloseSession) == [n.CloseSession(1)]
    assert outputs_of_kind(out, n.Leave) == [n.Leave()]
    assert driver.now < 3 * AGENT_KILL_S


def test_a_start_that_goes_on_is_answered_at_the_end() -> None:
    driver = Driver(starts=False)
    driver.order(start_order())
    assert isinstance(agent_messages(driver.order(m.Shutdown()))[0], m.StartFailed)


# ---- recordings -------------------------------------------------------------------------------------


def test_a_recording_played_again_asks_for_the_same_and_tells_where_it_does_not() -> None:
    driver = Driver(starts=False)
    life_lines = [recording.head(HOME)]
    life = type(driver.life)(HOME)
    batches: list[list[n.AnyInput]] = [
        [n.Began()],
        [n.LinkSaid(codec.encode(m.To(("n0",), codec.raw(start_order(sizes=(1,))))))],
        [n.TokenWritten(1, 0)],
        [n.Spawned(1, 0, 0, 101)],
        [n.RankSaid(1, 0, 0, b"cmd=init\n\xff"), n.SessionOpened(1, 1000), n.SessionSaid(1, hello())],
        [n.Exited(101, 0, 0.125)],
        [n.LinkSaid(codec.encode(m.To(("n0",), codec.raw(m.Prove(1)))))],
    ]
    for number, inputs in enumerate(batches):
        outputs = life.handle(inputs, number / 3)
        life_lines.append(recording.line(inputs, number / 3, outputs))
        decoded = msgspec.json.decode(msgspec.json.encode(outputs), type=list[n.AnyOutput])
        assert msgspec.json.encode(decoded) == msgspec.json.encode(outputs)
    assert not list(recording.replay(life_lines))
    assert not list(recording.replay([*life_lines, b'{"now":3,"inp']))  # the agent was killed
    life_lines[3] = life_lines[3].replace(b"prog", b"prig")
    assert [each.line for each in recording.replay(life_lines)] == [4]

"""What ranks ask of their agent by PMI-1 beside MPI_Init."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_driver import Driver, agent_messages, outputs_of_kind, start_order

from pliant.live.job.rendezvous import Asker, Rendezvous
from pliant.live.job.rendezvous import answer as answer_to
from pliant.live.node import messages as n
from pliant.live.node.pmi import Asking, PmiGroup, Reply
from pliant.live.node.spawning import POOL, SpawnCall
from pliant.model.world import MpiWorld
from pliant.protocol import codec, pmix
from pliant.protocol import messages as m

TEXT = st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=20).filter(
    lambda text: text != "endcmd"
)
PROGRAM = st.tuples(TEXT, st.integers(1, 1000), st.lists(TEXT, max_size=4))


def started() -> Driver:
    driver = Driver()
    driver.order(start_order())
    return driver


def block(program: str, ranks: int, args: list[str], so_far: int = 1, of: int = 1) -> list[str]:
    """As MPICH says it."""
    return [
        "mcmd=spawn", f"nprocs={ranks}", f"execname={program}", f"totspawns={of}", f"spawnssofar={so_far}",
        *(f"arg{i}={arg}" for i, arg in enumerate(args, 1)), f"argcnt={len(args)}", "preput_num=1",
        "preput_key_0=PARENT_ROOT_PORT_NAME", "preput_val_0=tag#0$connentry#00$", "info_num=2",
        "info_key_0=host", "info_val_0=n0", "info_key_1=wdir", "info_val_1=/a b", "endcmd",
    ]  # fmt: skip


@given(st.lists(PROGRAM, min_size=1, max_size=4))
def test_a_spawn_is_whole_with_its_last_line(programs: list[tuple[str, int, list[str]]]) -> None:
    lines = [line for i, each in enumerate(programs, 1) for line in block(*each, i, len(programs))]
    call = SpawnCall()
    *early, found = [call.take(line) for line in lines]
    assert not any(early)
    wanted = tuple(pmix.Program((program, *args), ranks, "/a b") for program, ranks, args in programs)
    assert found == pmix.Spawn(wanted, {"PARENT_ROOT_PORT_NAME": "tag#0$connentry#00$"})


def asked_by(driver: Driver, lines: list[str]) -> list[m.Asked]:
    """What the agent asks because of a rank's whole call."""
    *early, last = lines
    for line in early:
        assert not driver.say(line)
    return [each for each in agent_messages(driver.say(last)) if isinstance(each, m.Asked)]


def answer_spawn(driver: Driver, number: int, status: int) -> list[n.AnyOutput]:
    return driver.order(m.Answered(1, 0, number, codec.raw(pmix.Done(number, status)), over=True))


def test_a_spawn_is_asked_for_once_it_is_whole() -> None:
    driver = started()
    [asked] = asked_by(driver, [*block("python", 2, ["a b", "c"], 1, 2), *block("other", 1, [], 2, 2)])
    assert b"maxes" in outputs_of_kind(driver.say("cmd=get_maxes", rank=1), n.SayToRank)[0].data
    [reply] = outputs_of_kind(answer_spawn(driver, asked.number, 0), n.SayToRank)
    assert (reply.rank, reply.data) == (0, b"cmd=spawn_result rc=0 errcodes=0,0,0\n")
    assert not answer_spawn(driver, asked.number, 0)


@pytest.mark.parametrize(("status", "told"), [(pmix.NOT_SUPPORTED, 1), (pmix.FAILED, 0), (pmix.BAD_PARAM, 0)])
def test_a_spawn_is_refused_and_the_ranks_go_on(status: int, told: int) -> None:
    driver = started()
    [asked] = asked_by(driver, [*block("python", 2, ["a b", "c"], 1, 2), *block("other", 1, [], 2, 2)])
    out = answer_spawn(driver, asked.number, status)
    [reply] = outputs_of_kind(out, n.SayToRank)
    assert (reply.rank, reply.data) == (0, b"cmd=spawn_result rc=-1 msg=not_spawned\n")
    errors = [each for each in agent_messages(out) if isinstance(each, m.Error)]
    assert len(errors) == told
    assert all(
        "rank 0 called MPI_Comm_spawn of python on 2 ranks, other on 1 ranks" in each.text for each in errors
    )
    assert not outputs_of_kind(out, n.Kill)
    assert b"maxes" in outputs_of_kind(driver.say("cmd=get_maxes"), n.SayToRank)[0].data


def test_a_line_break_in_an_argument_is_refused_not_cut_off() -> None:
    driver = started()
    *early, last = block("python", 1, ["-c", "import this\nx = 1"])
    for line in "\n".join(early).split("\n"):
        assert not driver.say(line)
    out = driver.say(last)
    [reply] = outputs_of_kind(out, n.SayToRank)
    assert reply.data.startswith(b"cmd=spawn_result rc=-1")
    [told] = agent_messages(out)
    assert isinstance(told, m.Error)
    assert "line break" in told.text


def test_a_pool_that_is_refused_ends_the_group_as_it_waits_for_its_workers() -> None:
    driver = started()
    [asked] = asked_by(driver, block("python", 2, ["-m", POOL]))
    out = answer_spawn(driver, asked.number, pmix.NOT_SUPPORTED)
    assert outputs_of_kind(out, n.Kill) == [n.Kill((101, 102))]
    assert b"a pool of mpi4py.futures uses them with" in bytes(agent_messages(out)[0].message)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["mcmd=spawn", "nprocs=2", "endcmd"], "without execname or nprocs"),
        (["mcmd=spawn", "execname=a", "nprocs=many", "endcmd"], "without execname or nprocs"),
        (["mcmd=spawn", "execname=a", "nprocs=1", "totspawns=x", "endcmd"], "without execname or nprocs"),
        (["mcmd=spawn", *[f"arg{i}={'x' * 60_000}" for i in range(3)]], "more than 131072 characters"),
    ],
)
def test_a_spawn_that_cannot_be_read_ends_the_group(lines: list[str], why: str) -> None:
    driver = started()
    out = [each for line in lines for each in driver.say(line)]
    assert outputs_of_kind(out, n.Kill) == [n.Kill((101, 102))]
    [told] = agent_messages(out)
    assert isinstance(told, m.Relay)
    assert why in bytes(told.message).decode()


def test_a_spawned_group_finds_what_its_parents_have_put() -> None:
    driver = Driver()
    order = msgspec.structs.replace(
        start_order(sizes=(1, 1)), values={"PARENT_ROOT_PORT_NAME": "p"}, appnum=3
    )
    driver.order(order)
    [value] = outputs_of_kind(driver.say("cmd=get key=PARENT_ROOT_PORT_NAME"), n.SayToRank)
    assert value.data == b"cmd=get_result rc=0 msg=success value=p\n"
    [appnum] = outputs_of_kind(driver.say("cmd=get_appnum"), n.SayToRank)
    assert appnum.data == b"cmd=appnum rc=0 appnum=3\n"


# ---- names ------------------------------------------------------------------------------------------

NAME = st.sampled_from(["here", "a b", "x=y port=1", "\\", "ü", ""])
PORT = st.sampled_from(["tag#0$connentry#2$", "p=1", "q"])


class Party:
    def __init__(self, number: int, world: MpiWorld) -> None:
        self.number, self.world, self.alive = number, world, set(world.ranks)


class Nodes:
    """The servers of one world's nodes, and what is between them."""

    def __init__(self, *sizes: int) -> None:
        worlds = [MpiWorld(0, sizes, part) for part in range(len(sizes))]
        self._groups = [PmiGroup(world, "kvs") for world in worlds]
        self._of = {rank: part for part, world in enumerate(worlds) for rank in world.ranks}
        self.rendezvous = Rendezvous({part: Party(part, world) for part, world in enumerate(worlds)})

    def say(self, rank: int, line: str) -> str:
        """The one line that answers this."""
        part = self._of[rank]
        [asking] = self._groups[part].receive(rank, line)
        assert isinstance(asking, Asking)
        answers = []
        for letter in self.rendezvous.ask(Asker(part, asking.number), asking.ask):
            group = self._groups[letter.to.group]
            answers += [each for _ in range(2) for each in group.answered(answer_to(1, letter).answer)]
        [reply] = answers  # also if it came twice
        assert isinstance(reply, Reply)
        assert reply.rank == rank
        return reply.line.decode().rstrip("\n")


@given(
    st.lists(st.tuples(st.sampled_from(["publish", "lookup", "unpublish"]), st.integers(0, 3), NAME, PORT))
)
def test_names_are_the_same_on_all_nodes(asked: list[tuple[str, int, str, str]]) -> None:
    nodes, there = Nodes(1, 2, 1), dict[str, str]()
    for what, rank, name, port in asked:
        suffix = f" port={port}" if what == "publish" else ""
        told = nodes.say(rank, f"cmd={what}_name service={name}{suffix}")
        if what == "publish":
            assert told.startswith(f"cmd=publish_result rc={-1 if name in there else 0}")
            there.setdefault(name, port)
        elif name not in there:
            assert told == f"cmd={what}_result rc=-1 msg=no_service"
        else:
            assert told == f"cmd={what}_result rc=0" + (f" port={there[name]}" if what == "lookup" else "")
            if what == "unpublish":
                del there[name]


def test_a_name_goes_with_its_node() -> None:
    nodes = Nodes(1, 1)
    nodes.say(0, "cmd=publish_name service=here port=p")
    assert list(nodes.rendezvous.ended(0, lost=False))
    assert nodes.say(1, "cmd=lookup_name service=here") == "cmd=lookup_result rc=-1 msg=no_service"


def test_a_node_asks_once_and_its_rank_waits_for_the_answer() -> None:
    driver = Driver(orphan_grace=9)
    driver.order(start_order(sizes=(2, 1)))
    out = driver.say("cmd=lookup_name service=here", rank=1)
    assert not outputs_of_kind(out, n.SayToRank)
    [asked] = [each for each in agent_messages(out) if isinstance(each, m.Asked)]
    assert codec.Decoder(pmix.HubAsk).decode(asked.ask) == pmix.Lookup(("here",))
    answered = m.Answered(1, 0, asked.number, codec.raw(pmix.Done(asked.number, pmix.NOT_FOUND)), over=True)
    [reply] = outputs_of_kind(driver.order(answered), n.SayToRank)
    assert (reply.rank, reply.data) == (1, b"cmd=lookup_result rc=-1 msg=no_service\n")
    assert not outputs_of_kind(driver.order(answered), n.SayToRank)

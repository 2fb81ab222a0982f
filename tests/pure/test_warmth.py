"""When a node's machine has a warm process, and whom that starts."""

from __future__ import annotations

import msgspec
import pytest
from node_driver import HOME, Driver, agent_messages, hello, outputs_of_kind, start_order

from pliant.live.node import messages as n
from pliant.live.node.life import NodeLife
from pliant.live.node.warmth import IDLE_S, READY_S, TRIES, interpreter_of
from pliant.protocol import codec
from pliant.protocol import messages as m

PROGRAM = ("python", "program.py")
MODULES = ("numpy",)


class Node(Driver):
    """A node with places on it."""

    groups = 0
    helpers = 500

    def order_place(
        self, argv: tuple[str, ...] = PROGRAM, cwd: str = "/", modules: tuple[str, ...] = MODULES, **env: str
    ) -> n.Spawn:
        """How the next group is started."""
        self.groups += 1
        order = start_order(group=self.groups, sizes=(1,), dialect="none")
        order = msgspec.structs.replace(order, argv=argv, env=env, cwd=cwd, modules=modules)
        [spawn] = outputs_of_kind(self.order(order), n.Spawn)
        return spawn

    def say_hello(self) -> list[n.AnyOutput]:
        """The last group has come up; what is asked for because of that, and is no message or timer."""
        asked = self.put(
            n.SessionOpened(self.groups, HOME.uid), n.SessionSaid(self.groups, hello(group=self.groups))
        )
        return [each for each in asked if isinstance(each, n.StartHelper | n.Kill)]

    def start_helper(self, asked: list[n.AnyOutput], *, ready: bool = True) -> int:
        """Do what is asked for; its pid."""
        [order] = outputs_of_kind(asked, n.StartHelper)
        self.helpers += 1
        self.put(n.HelperStarted(self.helpers, order.name))
        if ready:
            self.put(n.HelperReady(self.helpers))
        return self.helpers

    def place(self, *, ready: bool = True, **env: str) -> tuple[int, list[n.AnyOutput]]:
        """A group starts and comes up, and what is asked for then is done: by which helper it was started."""
        spawn = self.order_place(PROGRAM, "/", MODULES, **env)
        asked = self.say_hello()
        if outputs_of_kind(asked, n.StartHelper):
            self.start_helper(asked, ready=ready)
        return spawn.helper, asked


def test_the_first_place_is_executed_and_those_after_it_are_forked() -> None:
    node = Node()
    spawn = node.order_place(A="b", PLIANT_EPOCH="1")
    assert spawn.helper == 0
    asked = node.say_hello()  # nothing is imported before that: it would take the processor from the place
    [order] = outputs_of_kind(asked, n.StartHelper)
    assert (order.interpreter, order.modules, order.cwd) == (("python",), MODULES, "/")
    assert order.env == {"A": "b", "PLIANT_RUN": "r1", "PLIANT_NODE": "n0", "PLIANT_HELPER": "warm"}
    assert order.defaults == {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    assert node.timers["warm"] == READY_S
    helper = node.start_helper(asked, ready=False)
    assert node.order_place(A="b").helper == 0  # it is still at work
    node.put(n.HelperReady(helper))
    for epoch in "23":
        node.pass_time(IDLE_S - 1.0)
        assert node.order_place(("python", "another.py", "x"), A="b", PLIANT_EPOCH=epoch).helper == helper
        assert node.say_hello() == []
    [*_, idle] = outputs_of_kind(node.pass_time(IDLE_S), n.Kill)
    assert idle.pids == (helper,)
    node.put(n.Exited(helper, -9))
    assert node.order_place(A="b").helper == 0
    assert outputs_of_kind(node.say_hello(), n.StartHelper)


@pytest.mark.parametrize(
    "other",
    [
        {"argv": ("python3", "program.py")},
        {"argv": ("python", "-u", "program.py")},
        {"cwd": "/tmp"},
        {"modules": ("numpy", "numba")},
        {"OMP_NUM_THREADS": "4"},
        {"PYTHONPATH": "/here"},
        {"ANY": "thing"},
    ],
)
def test_who_differs_is_executed_and_the_next_like_it_is_forked(other: dict[str, object]) -> None:
    node = Node()
    node.place()
    old = node.helpers
    assert node.order_place(**other).helper == 0  # type: ignore[arg-type]
    asked = node.say_hello()
    assert outputs_of_kind(asked, n.Kill) == [n.Kill((old,))]
    new = node.start_helper(asked)
    assert node.order_place().helper == 0  # as the first one was
    assert node.order_place(**other).helper == new  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (("python", "a.py"), ("python",)),
        (("/opt/venv/bin/python3.11", "-u", "-OO", "a.py", "-c"), ("/opt/venv/bin/python3.11", "-u", "-OO")),
        (("./python3", "-m", "a.b"), ("./python3",)),
        (("python", "-c", "pass", "x"), ("python",)),
        (("python",), ()),
        (("python", "-u"), ()),
        (("python", "-m"), ()),
        (("python", "-X", "dev", "a.py"), ()),
        (("python", "-W", "error", "a.py"), ()),
        (("python", "-i", "a.py"), ()),
        (("python", "-uB", "a.py"), ()),
        (("python", "-"), ()),
        (("python", "--version"), ()),
        (("python2", "a.py"), ()),
        (("pythonic", "a.py"), ()),
        (("bash", "python", "a.py"), ()),
        (("env", "python", "a.py"), ()),
    ],
)
def test_what_can_be_forked_can_be_told_from_the_command(
    argv: tuple[str, ...], found: tuple[str, ...]
) -> None:
    assert interpreter_of(argv) == found


@pytest.mark.parametrize(
    "how",
    [{"modules": ()}, {"argv": ("./program",)}, {"argv": ("python", "-i", "x.py")}, {"PLIANT_WARM": "0"}],
)
def test_other_programs_are_executed_and_make_nothing_warm(how: dict[str, object]) -> None:
    node = Node()
    for _ in range(2):
        assert node.order_place(**how).helper == 0  # type: ignore[arg-type]
        assert node.say_hello() == []


def test_it_can_be_turned_off_for_the_agent() -> None:
    node = Node()
    node.life = NodeLife(msgspec.structs.replace(HOME, warm=False))
    assert node.place() == (0, [])


def test_a_process_that_never_becomes_ready_is_tried_twice_and_no_more() -> None:
    node = Node()
    for _ in range(TRIES):
        _, asked = node.place(ready=False)
        assert outputs_of_kind(asked, n.StartHelper)
        [*_, kill] = outputs_of_kind(node.pass_time(READY_S), n.Kill)
        assert kill.pids == (node.helpers,)
        node.put(n.HelperReady(node.helpers))  # too late
        node.put(n.Exited(node.helpers, -9))
    assert node.place() == (0, [])
    assert outputs_of_kind(node.place(A="other")[1], n.StartHelper)


def test_a_process_that_ends_or_cannot_be_started_is_tried_twice_and_no_more() -> None:
    node = Node()
    assert outputs_of_kind(node.place(ready=False)[1], n.StartHelper)
    node.put(n.Exited(node.helpers, 1))
    node.order_place()
    assert outputs_of_kind(node.say_hello(), n.StartHelper)
    node.put(n.HelperFailed("warm"))
    assert node.place() == (0, [])


def test_a_process_that_is_killed_is_not_asked_any_more_and_another_is_started() -> None:
    node = Node()
    node.place()
    node.put(n.Exited(node.helpers, -9))
    helper, asked = node.place()
    assert helper == 0
    assert outputs_of_kind(asked, n.StartHelper)
    assert node.order_place().helper == node.helpers


def test_the_end_of_the_agent_ends_it_whatever_it_does() -> None:
    node = Node()
    node.place()
    asked = node.order(m.Shutdown())
    assert (node.helpers,) in {kill.pids for kill in outputs_of_kind(asked, n.Kill)}
    assert "warm" not in node.timers

    late = Node()
    late.order_place()
    late.say_hello()
    late.order(m.Shutdown())
    assert outputs_of_kind(late.put(n.HelperStarted(600, "warm")), n.Kill) == [n.Kill((600,))]

    none = Node()
    none.order_place()
    none.order(m.Shutdown())
    assert none.say_hello() == []


def test_it_is_no_part_of_any_job_and_survives_proofs() -> None:
    node = Node()
    node.place()
    [pid] = node.processes
    asked = node.order(m.Prove(1, patience_s=1.0))
    asked = node.exit(pid)
    [scan] = outputs_of_kind(asked, n.Scan)
    assert node.helpers in scan.known
    assert agent_messages(node.put(n.Found(scan.key)))[-1] == m.Proof(1, clean=True)
    assert node.order_place().helper == node.helpers


def test_helpers_that_nobody_asked_for_are_left_alone_unless_they_say_that_they_are_warm() -> None:
    node = Node()
    assert not outputs_of_kind(node.put(n.HelperStarted(300, "a prober"), n.HelperReady(300)), n.Kill)
    assert outputs_of_kind(node.put(n.HelperStarted(301, "warm")), n.Kill) == [n.Kill((301,))]
    assert node.order_place().helper == 0


def test_the_order_says_nothing_new_to_who_does_not_know_of_modules() -> None:
    assert b"modules" not in codec.encode(start_order())
    assert (
        codec.encode(msgspec.structs.replace(start_order(), modules=MODULES)).count(b'"modules":["numpy"]')
        == 1
    )

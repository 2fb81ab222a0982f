"""The stand-ins for processes, under the real machine of the controller."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from drawing import examples
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from small_world import Proc, World, job

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.live.cluster import orders as o
from pliant.model.jobs import JobClass, JobState
from pliant_lab.injection.standins.programs import LIES, Fabric, Process, Result, Span, read_result

SEEDS = st.integers(0, 1 << 32)
PROMPT = Settings(cooldown_s=0.1, decline_backoff_s=0.1)
STEPS = 40


def malleable(words: str = "", nodes: str = "1:4", steps: int = STEPS) -> World:
    return World(1, 4, [job("a", f"malleable {steps} 0.2 {words}", nodes)], settings=PROMPT)


def completed(world: World, number: int = 1, steps: int = STEPS) -> None:
    """The job has completed, each step was done once, and its own account is the fabric's."""
    end, fabric = world.ends()[number], world.fabrics[number]
    assert end.state is JobState.COMPLETED, (end.error, *fabric.story)
    assert not fabric.problems
    assert end.result is not None
    assert read_result(end.result) == fabric.result()
    assert fabric.result().steps == steps


def size(world: World, number: int = 1) -> int:
    found = world.cluster.core.state.jobs.get(number)
    return found.size if found is not None else 0


def resized_to(world: World, nodes: int, *leave: str) -> World:
    """Order job 1 to a size when all free nodes are clean, and wait until it has that."""
    world.run(lambda: not world.cluster.core.state.nodes.dirty)
    done = len(world.of(r.ResizeDone))
    world.tell(o.Resize(1, nodes, leave))
    world.run(lambda: len(world.of(r.ResizeDone)) > done)
    assert size(world) == nodes
    return world


def running(world: World) -> World:
    return world.run(lambda: bool(world.of(r.JobMalleable)))


# ---- each kind ----------------------------------------------------------------------------------------


def test_ranks_of_one_world_meet_over_all_nodes() -> None:
    world = World(1, 3, [job("a", "rigid 2 late=3", "3", JobClass.RIGID)], slots=4).run()
    assert world.ends()[1].state is JobState.COMPLETED
    assert not world.fabrics[1].problems
    assert len([p for node in world.nodes.values() for p in node.procs]) == 12


def test_a_program_that_fails_says_with_which_code() -> None:
    world = World(1, 2, [job("a", "rigid 1 7", "2", JobClass.RIGID)]).run()
    assert (world.ends()[1].state, world.ends()[1].exit_code) == (JobState.FAILED, 7)


@pytest.mark.parametrize(("kind", "at_least"), [("rigid", 0.0), ("deaf", 5.0)])
def test_a_deaf_program_ends_by_force_alone(kind: str, at_least: float) -> None:
    world = World(1, 2, [job("a", f"{kind} 500 late=0", "2", JobClass.RIGID)])
    world.run(lambda: bool(world.of(r.JobLaunched)))
    began = world.now
    world.tell(o.Cancel(1, "enough"))
    world.run()
    assert at_least <= world.now - began < at_least + 1


def test_tasks_and_programs_without_a_session_need_no_launcher() -> None:
    jobs = [job("a", "tasks 5 0.1", "2", JobClass.RIGID), job("b", "silent 2", "1:2")]
    world = World(1, 3, jobs, slots=2).run()
    assert {end.state for end in world.ends().values()} == {JobState.COMPLETED}
    assert world.fabrics[1].tasks == 5 * 2 * 2


def test_an_unknown_program_is_refused() -> None:
    with pytest.raises(ValueError, match="no program 'nonsense'"):
        World(1, 1, [job("a", "nonsense")]).run()


# ---- resizes ------------------------------------------------------------------------------------------


def test_a_job_grows_and_shrinks_and_its_root_leaves() -> None:
    world = running(malleable("late=3", steps=100))
    resized_to(world, 3)
    resized_to(world, 2)
    resized_to(world, 1, "n0")
    assert [record.root for record in world.records if isinstance(record, r.ResizeDone)][-1] != 0
    resized_to(world, 4)
    world.run()
    completed(world, steps=100)
    assert {span.groups for span in world.fabrics[1].result().spans} == {1, 2, 3, 4}
    assert [span.epoch for span in world.fabrics[1].result().spans] == [0, 1, 2, 3, 4]


def test_groups_of_several_ranks_join_as_well() -> None:
    world = World(3, 4, [job("a", "malleable 40 0.2", "2:4")], slots=3, settings=PROMPT)
    resized_to(running(world), 4)
    resized_to(world, 2, "n0", "n1").run()
    completed(world)


def test_a_malleable_program_of_one_size_has_one_world() -> None:
    world = World(3, 2, [job("a", "malleable 10 0.1", "2", JobClass.RIGID)], slots=2).run()
    completed(world, steps=10)


def test_a_wish_is_answered_and_does_not_keep_the_job() -> None:
    world = malleable("wants=3").run()
    completed(world)


@pytest.mark.parametrize("moment", ["its own start", "its own imports", "welcome", "the job"])
def test_a_newcomer_that_dies_before_it_connects_costs_nothing(moment: str) -> None:
    world = running(malleable("late=2"))
    world.tell(o.Resize(1, 2))

    def newcomer() -> list[Proc]:
        return [proc for proc in world.waits(1, moment) if proc.group]

    world.run(lambda: bool(newcomer()))
    if moment == "the job":
        # The sources have been told that it waits, or will be.
        assert not world.waits(1, "accepting")
    world.kill(newcomer()[0])
    world.run(lambda: bool(world.of(r.ResizeFailed)))
    world.run()
    completed(world)


@pytest.mark.parametrize(
    ("moment", "slots"),
    [
        ("connecting to the job", 1),
        ("connecting to the job", 2),
        ("all newcomers to be connected", 2),
        ("redistribution", 1),
        ("redistribution", 2),
    ],
)
def test_a_newcomer_that_dies_on_its_way_in_is_given_up(moment: str, slots: int) -> None:
    """Accept has a time, and the sources can go back to what they were until all have what they need."""
    patient = Settings(cooldown_s=0.1, resize_deadline_s=500.0)
    jobs = [job("a", "malleable 200 0.2 move=2", "1:4")]
    world = running(World(1, 4, jobs, slots=slots, settings=patient))
    world.tell(o.Resize(1, 2))

    def newcomers() -> list[Proc]:
        return [proc for proc in world.waits(1, moment) if proc.group]

    world.run(lambda: bool(newcomers()))
    world.kill(newcomers()[-1])
    killed = world.now
    world.run(lambda: bool(world.of(r.ResizeFailed)))
    assert world.now - killed < 8
    resized_to(world, 3).run()
    completed(world, steps=200)


def test_a_newcomer_that_dies_in_merge_blocks_the_sources_until_their_watchdog() -> None:
    patient = Settings(cooldown_s=0.1, resize_deadline_s=500.0)
    world = running(World(1, 4, [job("a", "malleable 40 0.2", "1:4")], slots=2, settings=patient))
    world.tell(o.Resize(1, 2))
    world.run(lambda: bool(world.waits(1, "merging")))
    world.kill(next(proc for proc in world.alive(1) if proc.group and proc not in world.waits(1, "merging")))
    began = world.now
    world.run()
    assert 59 < world.now - began < 65
    assert (world.ends()[1].state, world.ends()[1].exit_code) == (JobState.FAILED, 1)


def test_a_newcomer_that_dies_when_it_has_joined_ends_the_job_at_once() -> None:
    patient = Settings(cooldown_s=0.1, resize_deadline_s=500.0)
    world = running(World(1, 4, [job("a", "malleable 40 0.2", "1:4")], slots=2, settings=patient))
    world.tell(o.Resize(1, 2))
    world.run(lambda: bool(world.waits(1, "the sources to have the root's last word")))
    world.run(lambda: not world.waits(1, "the root's word"))
    began = world.now
    world.kill(next(proc for proc in world.alive(1) if proc.group))
    world.run()
    assert world.now - began < 1
    assert world.ends()[1].state is JobState.FAILED


def test_the_death_of_a_joined_rank_ends_the_job() -> None:
    world = resized_to(running(malleable()), 3)
    world.kill(world.alive(1)[-1])
    world.run()
    assert world.ends()[1].state is JobState.FAILED


def test_newcomers_that_never_come_or_differ_are_given_up() -> None:
    for words in ("never=1", "odd=1"):
        world = running(malleable(words, steps=300))
        world.tell(o.Resize(1, 2))
        world.run(lambda: bool(world.of(r.ResizeFailed)))  # noqa: B023 - run at once
        world.tell(o.Resize(1, 0))
        world.run()
        completed(world, steps=300)


class Idle:
    """A process that does nothing but wait, and counts how often it was woken."""

    def __init__(self) -> None:
        self.over = False
        self.woken = 0
        self.due: list[Callable[[], None]] = []

    def wake(self) -> None:
        self.woken += 1

    def soon(self, low_s: float, high_s: float, call: Callable[[], None]) -> None:  # noqa: ARG002 - a Peer
        self.due.append(call)


@pytest.mark.parametrize("dies", [None, 0, 1, 2])
def test_accept_and_connect_take_all_who_are_in_them_to_live(dies: int | None) -> None:
    fabric, peers = Fabric(1), [Idle(), Idle(), Idle()]
    sources, newcomer = [fabric.world("a", 2, rank) for rank in (0, 1)], fabric.world("b", 1, 0)
    sides = [
        fabric.meet(sources[0], peers[0], "p", accepts=True),
        fabric.meet(newcomer, peers[2], "p", accepts=False),
    ]
    assert not any(peer.due for peer in peers)
    fabric.meet(sources[1], peers[1], "", accepts=True)
    if dies is not None:
        peers[dies].over = True
    for call in peers[1].due:
        call()
    assert [peer.woken for peer in peers] == ([1, 1, 1] if dies is None else [0, 0, 0])
    assert {side.joint.size if side.joint else 0 for side in sides} == {3 if dies is None else 0}
    assert not fabric.problems


def test_a_step_that_is_done_twice_or_in_two_epochs_is_a_problem() -> None:
    fabric = Fabric(1)
    seats = [fabric.world("a", 2, rank) for rank in (0, 1)]
    fabric.stepped(seats[0], 0, 0, 2)
    assert fabric.result() == Result(0)
    fabric.stepped(seats[1], 0, 0, 2)
    assert fabric.result() == Result(1, (Span(0, 2, 1),))
    assert not fabric.problems
    fabric.stepped(seats[0], 0, 0, 2)
    fabric.stepped(seats[0], 0, 1, 2)
    assert len(fabric.problems) == 2
    assert fabric.result().steps == 1


# ---- any order ----------------------------------------------------------------------------------------


@hypothesis_settings(max_examples=examples(60))
@given(SEEDS, st.lists(st.tuples(st.floats(0, 4), st.integers(0, 4), st.integers(0, 3)), max_size=6))
def test_orders_at_any_moment_lose_no_step(seed: int, orders: list[tuple[float, int, int]]) -> None:
    """Resizes and drains that cross, and offers withdrawn unanswered and in each phase after."""
    brief = Settings(
        cooldown_s=0.0, decline_backoff_s=0.1, offer_deadline_s=0.3, resize_deadline_s=2.0, kill_grace_s=60
    )
    jobs = [
        job("a", f"malleable {STEPS} 0.2 late=1 move=0.5", "1:4"),
        job("b", "malleable 20 0.01 wants=2", "1:2"),
    ]
    world = World(seed, 4, jobs, settings=brief)
    for at, nodes, leave in orders:
        world.at(at, lambda n=nodes, i=leave: world.tell(o.Resize(1, n, (f"n{i}",) if n else ())))  # type: ignore[misc]
    world.run()
    completed(world)
    completed(world, 2, 20)


@hypothesis_settings(max_examples=examples(60))
@given(
    SEEDS,
    st.floats(0.5, 8),
    st.integers(0, 8),
    st.floats(0.5, 8),
    st.sampled_from(["", "never=0.3", "odd=0.3"]),
)
def test_a_kill_at_any_moment_ends_in_good_time(
    seed: int, at: float, which: int, then: float, words: str
) -> None:
    jobs = [job("a", f"malleable 30 0.2 late=1 {words}", "2:4"), job("b", "rigid 3", "1", JobClass.RIGID)]
    world = World(seed, 5, jobs, slots=2, settings=PROMPT)

    def kill() -> None:
        alive = world.alive(1)
        if alive:
            world.kill(alive[which % len(alive)])

    world.at(1.0, lambda: world.tell(o.Resize(1, 4)))
    world.at(at, kill)
    world.at(then, lambda: world.tell(o.Resize(1, 2)))
    world.at(60.0, lambda: world.tell(o.Cancel(1, "enough")))
    world.run()
    assert world.ends()[2].state is JobState.COMPLETED
    assert not world.fabrics[1].problems
    if world.ends()[1].state is JobState.COMPLETED:
        completed(world, 1, 30)


@hypothesis_settings(max_examples=examples(60))
@given(SEEDS, st.sampled_from(LIES))
def test_a_liar_harms_nobody_else(seed: int, lie: str) -> None:
    jobs = [job("a", f"liar 30 0.2 lie={lie}", "1:3"), job("b", "malleable 30 0.2", "1:2")]
    world = World(seed, 4, jobs, settings=PROMPT)
    for at, number, nodes in [(2, 1, 3), (3, 2, 2), (4, 1, 1)]:
        world.at(at, lambda j=number, n=nodes: world.tell(o.Resize(j, n)))  # type: ignore[misc]
    world.at(90, lambda: world.tell(o.Cancel(1, "enough")))
    world.run()
    completed(world, 2, 30)
    assert not world.fabrics[1].problems
    # A line that cannot be read closes the session.
    assert (world.ends()[1].state is JobState.FAILED) or lie not in ("garbage", "unknown")


def test_a_bye_while_an_offer_is_open_answers_it() -> None:
    """Whenever the offer comes: the scheduler has nothing more to tell such a job, and goes on with the others."""
    for tenth in range(5, 25):
        jobs = [job("a", "liar 20 0.2 lie=bye", "1:2"), job("b", "rigid 3", "1", JobClass.RIGID)]
        world = World(1, 3, jobs, settings=PROMPT)
        world.at(tenth / 10, lambda: world.tell(o.Resize(1, 2)))  # noqa: B023 - run at once
        assert {end.state for end in world.run().ends().values()} == {JobState.COMPLETED}


@given(SEEDS)
@hypothesis_settings(max_examples=examples(10))
def test_a_seed_repeats_itself(seed: int) -> None:
    def records() -> list[r.Record]:
        world = World(seed, 4, [job("a", "malleable 20 0.1 late=1", "1:4")], settings=PROMPT)
        world.at(1.0, lambda: world.tell(o.Resize(1, 3)))
        return world.run().records

    assert records() == records()


def test_a_process_says_what_it_waits_for() -> None:
    world = running(malleable())
    process: Process = world.alive(1)[0].process
    assert process.waiting is not None
    assert process.waiting.what

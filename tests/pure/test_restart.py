"""A controller that is killed at any point and begins again, with the agents and their jobs still there: the jobs do not
notice, and what was half done is done once or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from restart_world import GRACE, HOME, SETTINGS, WHY, World

from pliant.core import records as r
from pliant.core.journal import read
from pliant.live import node_messages as n
from pliant.live import orders as o
from pliant.live.cluster import Cluster
from pliant.model.jobs import JobState
from pliant.model.world import World as ModelWorld
from pliant.policy.fcfs import Fcfs
from pliant.protocol import codec, resizing
from pliant.protocol import messages as m

RIGHT = {1: (JobState.COMPLETED, "42")}


def busy(seed: int, size: int = 0) -> World:
    """A job that runs on two nodes, and has just been ordered to another size."""
    world = World(seed)
    world.submit()
    world.pass_time(1.0)
    world.tell(o.Resize(1, size or world.random.choice([1, 3, 4])))
    return world


def check_resized_once_more_and_right(world: World) -> None:
    """Nothing is open any more, and the job takes another resize and ends as it should."""
    world.hears = world.thinks = True
    world.pass_time(60.0)
    assert world.stage() == resizing.NONE
    assert world.cluster is not None
    job = world.cluster.core.state.jobs[1]
    script = world.jobs[1]
    assert (job.size, job.epoch, job.root) == (len(script.members()), script.epoch, script.root)
    assert sorted(world.cluster.core.state.groups(job)) == sorted(each.number for each in script.members())
    before = script.epoch
    for _ in range(20):  # it may decline
        world.tell(o.Resize(1, 3 if job.size != 3 else 2))
        world.pass_time(10.0)
        if script.epoch > before:
            break
    assert script.epoch == before + 1
    assert world.finish() == RIGHT
    done = [each.resize for each in world.records(r.ResizeDone) if isinstance(each, r.ResizeDone)]
    assert done == world.done


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1 << 20),
    steps=st.integers(0, 60),
    cut=st.none() | st.integers(0, 3),
    again=st.integers(0, 12),
)
def test_killed_after_any_step_or_between_two_records_and_once_more_meanwhile(
    seed: int, steps: int, cut: int | None, again: int
) -> None:
    world = busy(seed)
    for _ in range(steps):
        world.step()
    if cut is not None:
        while world.cluster is not None and world.step(cut):
            pass
    if world.cluster is not None:
        world.kill()
    world.begin_again()
    if again:
        for _ in range(again):
            world.step()
        world.kill()
        world.begin_again()
    check_resized_once_more_and_right(world)


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 20), steps=st.integers(0, 40), away=st.integers(0, 20))
def test_a_link_that_breaks_while_the_controller_goes_on(seed: int, steps: int, away: int) -> None:
    world = busy(seed)
    for _ in range(steps):
        world.step()
    name = world.random.choice(sorted(world.nodes))
    world.cut_link(name)
    for _ in range(away):
        world.step()
    world.mend_link(name)
    check_resized_once_more_and_right(world)


@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 20), steps=st.integers(0, 30))
def test_killed_while_the_job_ends(seed: int, steps: int) -> None:
    world = World(seed)
    world.submit()
    world.pass_time(1.0)
    world.end()
    for _ in range(steps):
        world.step()
    world.kill()
    world.begin_again()
    assert world.finish() == RIGHT


@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 20), steps=st.integers(0, 30))
def test_killed_while_the_job_starts(seed: int, steps: int) -> None:
    world = World(seed)
    world.submit()
    for _ in range(steps):
        world.step()
    world.kill()
    world.begin_again()
    assert world.finish() == RIGHT
    assert len([script for script in world.scripts if not script.resize]) == 2


def opened(stage: str, seed: int) -> World:
    """A world whose job has a resize open in this state."""
    world = busy(seed, 4)
    world.declines = 0.0
    if stage in (resizing.WITHDRAWN, resizing.CROSSED):
        world.hears = world.thinks = stage == resizing.CROSSED
        if world.hears:
            while world.jobs[1].answer_due is None:
                assert world.step()
            world.hears = world.thinks = False
        world.pass_time(25.0)
        if stage == resizing.CROSSED:
            root = world.jobs[1].groups[0]
            offer, world.jobs[1].answer_due = world.jobs[1].answer_due, None
            assert offer is not None
            world.jobs[1].open = offer
            root.say(m.Accept(0, offer.resize))
            while world.stage() != stage:
                assert world.step()
    elif stage in (resizing.ACCEPTED, resizing.RECALLED):
        while world.stage() != resizing.ACCEPTED:
            assert world.step()
        world.hears = world.thinks = False
        if stage == resizing.RECALLED:
            while world.stage() != stage and world.now < 300.0:
                world.pass_time(1.0)
    assert world.stage() == stage
    return world


@pytest.mark.parametrize("stage", resizing.OUTSTANDING)
@pytest.mark.parametrize("seed", range(6))
def test_a_resize_that_was_open_is_taken_back_and_its_newcomers_end(stage: str, seed: int) -> None:
    world = opened(stage, seed)
    world.hears = world.thinks = False
    world.declines = 0.2
    world.kill()
    world.begin_again()
    while world.step():
        pass
    # Nobody has answered, so that it is on its way back, and there is no offer that was not.
    assert world.stage() in (resizing.WITHDRAWN, resizing.CROSSED, resizing.RECALLED)
    withdrawn = [each for each in world.records(r.ResizeWithdrawn) if isinstance(each, r.ResizeWithdrawn)]
    assert len(withdrawn) == 1
    assert (withdrawn[0].reason == WHY) == (stage in (resizing.OFFERED, resizing.ACCEPTED))
    world.hears = world.thinks = True
    while world.step():
        pass
    world.pass_time(0.1)
    assert world.stage() == resizing.NONE
    assert sorted(world.jobs[1].groups)[:2] == [0, 1]
    assert not world.records(r.ResizeDone)
    alive = {key for node in world.nodes.values() for key in node.ranks.values()}
    assert alive == {(1, 0), (1, 1)}
    for number in set(world.jobs[1].groups) - {0, 1}:
        del world.jobs[1].groups[number]
    check_resized_once_more_and_right(world)


def test_a_done_that_was_not_recorded_wins_against_the_rollback() -> None:
    for seed in range(200):
        world = busy(seed, 4)
        while not world.done and world.step():
            pass
        if world.done and world.stage() == resizing.ACCEPTED:
            break
    world.kill()
    world.begin_again()
    world.pass_time(0.1)
    assert not world.records(r.ResizeWithdrawn)
    assert len(world.records(r.ResizeDone)) == 1
    check_resized_once_more_and_right(world)


def test_a_node_whose_agent_does_not_come_back_is_lost_and_nothing_begins_before() -> None:
    world = busy(1, 1)
    world.pass_time(5.0)
    [script] = world.jobs[1].members()
    name = script.node.name
    other = next(each for each in world.nodes if each != name)
    world.kill()
    world.begin_again(without=(other,))
    world.tell(o.Resize(1, 2))
    world.pass_time(GRACE - 1)
    assert not world.records(r.NodesLost)
    assert len(world.records(r.ResizeOffered)) == 1
    world.pass_time(2)
    assert [str(each.nodes) for each in world.records(r.NodesLost) if isinstance(each, r.NodesLost)] == [
        other[1:]
    ]
    # The agent has given up by then as well. Its node had nothing of the job, which takes no harm.
    assert world.nodes[other].left
    assert world.cluster is not None
    assert world.cluster.core.state.jobs[1].ending is None
    world.kill()
    world.begin_again(without=(name,))
    world.pass_time(GRACE + 1)
    [end] = [each for each in world.records(r.JobEnded) if isinstance(each, r.JobEnded)]
    assert (end.state, end.error.splitlines()[0]) == (JobState.NODE_FAIL, f"lost node {name[1:]}")


def test_groups_of_no_job_that_runs_are_ended_before_anything_begins() -> None:
    world = World(3)
    world.pass_time(1.0)
    node = world.nodes["n2"]
    stray = m.StartGroup(
        9, 4, ModelWorld(4, (1,)), ("prog",), {"PLIANT_EPOCH": "0", "PLIANT_RESIZE": "0"}, "/", "/o", "t"
    )
    node.put(n.LinkSaid(codec.encode(m.To(("n2",), codec.raw(stray)))))
    assert set(node.ranks.values()) == {(9, 4)}
    world.kill()
    world.hears = False
    world.begin_again()
    world.submit(4)
    assert not world.records(r.JobStarted)
    while world.step():
        pass
    assert not node.life._register.groups.get((9, 4))
    assert (9, 4) not in node.ranks.values()
    assert len(world.records(r.JobStarted)) == 1
    del world.jobs[9]
    world.news = type(world.news)(each for each in world.news if each[0].job.number == 1)
    world.hears = True
    assert world.finish() == RIGHT


def test_what_agents_repeat_is_not_taken_for_wrong_and_every_session_is_welcomed_once() -> None:
    for seed in range(30):
        world = busy(seed)
        for _ in range(seed):
            world.step()
        for _ in range(3):
            world.kill()
            world.begin_again()
            world.pass_time(0.1)
        world.finish()
        groups = [number for number, said in world.heard if isinstance(said, m.Welcome)]
        assert len(groups) == len(set(groups))
        assert not [said for _, said in world.heard if isinstance(said, m.Error)]


def test_without_a_grace_the_jobs_that_ran_end_once_with_that_reason() -> None:
    world = busy(5)
    for _ in range(10):
        world.step()
    journal = read(world.lines)
    again = Cluster.resume(Fcfs(), HOME, SETTINGS, journal.records)
    records, outputs = again.handle([o.Resumed(WHY)], again.now)
    ends = [each for each in records if isinstance(each, r.JobEnded)]
    assert [(end.job, end.state, end.error) for end in ends] == [(1, JobState.FAILED, WHY)]
    assert {type(each.message) for each in outputs if isinstance(each, o.Send)} <= {m.Prove}
    assert again.idle
    records, _ = again.handle([o.Back(name) for name in world.nodes], again.now)
    assert {type(each) for each in records} == {r.NodesBack}
    assert again.core.state.free == 4
    # Killed once more, nothing ends a second time.
    twice = Cluster.resume(Fcfs(), HOME, SETTINGS, [*journal.records, *ends])
    assert not [each for each in twice.handle([o.Resumed(WHY)], twice.now)[0] if isinstance(each, r.JobEnded)]


@pytest.mark.parametrize("restart", [False, True])
def test_a_root_that_leaves_while_an_offer_is_open_harms_nobody(restart: bool) -> None:  # noqa: FBT001
    world = busy(4, 4)
    world.hears = False
    while world.stage() != resizing.OFFERED or any(node.down for node in world.nodes.values()):
        assert world.step()
    job = world.jobs[1]
    job.groups[0].say(m.Bye(0, "42"))
    if restart:
        world.kill()
        world.begin_again()
    while world.step():
        pass
    for script in list(job.groups.values()):
        script.node.exit((1, script.number))
    assert world.finish() == RIGHT

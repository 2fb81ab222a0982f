"""A malleable program without MPI: groups that speak for themselves by ``pliant.job`` alone, and count together.

Group 0 of the members is the root. With every resize it leaves the state of the new epoch for the others and for the
newcomers, who take their place in the job from it. Groups that are lost are left out. Its result is the count and the
sizes that it came through.
"""

import json
import pathlib
import sys
import time
from typing import NamedTuple

from pliant.job import environment
from pliant.job.connection import Connection
from pliant.job.decisions import Action
from pliant.job.exchange import gather
from pliant.job.negotiation import Negotiation, Situation
from pliant.model.jobs import Bounds
from pliant.plan.join import joined_key, source_key, star
from pliant.protocol.messages import Bye, Done, GroupLost, Progress, Put, Ready

BOUNDS = Bounds(1, 3)


class State(NamedTuple):
    """What all groups share. Nobody is a member when the job is over."""

    epoch: int
    members: list[int]
    counted: int
    sizes: list[int]


def main(flag: pathlib.Path) -> None:
    place = environment.read()
    assert place is not None, "start this with pliant run"
    connection = Connection.open(place, environment.deadline_s())
    welcome = connection.greet(1, BOUNDS)
    negotiation = Negotiation(connection.session, BOUNDS, print)
    lost: set[int] = set()
    connection.session.listen(lambda said: lost.add(said.group) if isinstance(said, GroupLost) else None)
    if place.resize:
        state = arrive(connection, place, welcome.groups)
    else:
        state = State(0, list(welcome.groups), 0, [len(welcome.groups)])
        if place.group == state.members[0]:
            negotiation.begin(0)
    while place.group in state.members:
        if place.group == state.members[0]:
            state = lead(connection, negotiation, state, lost, flag)
        else:
            connection.send(Put(state.epoch, f"here/{place.group}", ""))
            state = follow(connection, state.epoch)
    result = f"{state.counted >= len(state.sizes)} {state.sizes}" if not state.members else None
    connection.send(Bye(state.epoch - 1, result))
    connection.close()


def arrive(connection: Connection, place: environment.Environment, groups: tuple[int, ...]) -> State:
    """The newcomers meet, the first of them says so, and each waits to be told what it has come to."""
    connection.send(Ready(place.resize, place.group))
    gather(connection, star(groups, place.resize), place.group, place.epoch)
    if place.group == groups[0]:
        connection.send(Put(place.epoch, joined_key(place.resize), f"at {place.epoch}"))
    (told,) = connection.fetch(place.epoch, [source_key(place.resize)], "the job", limited=False)
    assert told == "welcome"
    return follow(connection, place.epoch - 1)


def follow(connection: Connection, epoch: int) -> State:
    """The state of the epoch after ``epoch``, when the root has left it."""
    (text,) = connection.fetch(epoch + 1, ["state"], "the next epoch", limited=False)
    return State(*json.loads(text))


def lead(
    connection: Connection, negotiation: Negotiation, state: State, lost: set[int], flag: pathlib.Path
) -> State:
    """Count until the job is resized or over."""
    begun = state.counted
    while not flag.exists():
        time.sleep(0.01)  # a step of work
        state = state._replace(counted=state.counted + 1)
        connection.poll()
        if left := lost & set(state.members):
            members = [each for each in state.members if each not in left]
            state = state._replace(members=members, sizes=[*state.sizes, len(members)])
        now = Situation(state.epoch, tuple(state.members), 100, 1, 8, f"at {state.epoch + 1}")
        negotiation.answer(now)
        decision = negotiation.decide(now)
        if decision.action is not Action.NO_ACTION and negotiation.confirm(decision.resize, now):
            # The others have come to this epoch: none can miss what is left for the next.
            connection.fetch(state.epoch, [f"here/{each}" for each in state.members[1:]], "the others")
            gone = negotiation.leaving(state.members)
            members = [*(each for each in state.members if each not in gone), *negotiation.newcomers]
            if negotiation.newcomers:
                connection.send(Put(state.epoch + 1, source_key(decision.resize), "welcome"))
            following = State(state.epoch + 1, members, state.counted, [*state.sizes, len(members)])
            connection.send(Put(following.epoch, "state", json.dumps(following)))
            negotiation.done(Done(state.epoch, decision.resize, members[0], gone, {"count": 0.0}))
            return following
    assert state.counted > begun
    connection.send(Progress(state.epoch, 1.0))
    negotiation.end(state.epoch)
    over = State(state.epoch + 1, [], state.counted, state.sizes)
    connection.send(Put(over.epoch, "state", json.dumps(over)))
    return over


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
    assert not {"mpi4py", "numpy", "pliant.mpi"} & set(sys.modules)
    print("without MPI")

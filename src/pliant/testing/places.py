"""The stand-in for a rank of a job of places: groups without MPI, which speak for themselves and go on without those that
are lost, as long as the first of them is there.

    places STEPS STEP_S [name=value ...]

The first member is the root: it counts the steps, and leaves the state of each epoch for the others and for newcomers.
Words: ``late`` (seconds within which it starts, at random), ``bounds`` (MIN:MAX).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from pliant.job.decisions import Action
from pliant.job.negotiation import Negotiation, Situation
from pliant.job.session import Session
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.plan.join import joined_key, source_key, star
from pliant.protocol import messages as m
from pliant.testing.fabric import Fabric, Result
from pliant.testing.running import PEERS, SCHEDULER, Host, Running, Script

MOST_NODES = 1 << 16
REPORT_S = 1.0
AGAIN_S = 10.0
"""A group that waits for the next epoch asks again after this time: its scheduler may have been another."""
SIGNATURE = "places"


class State(NamedTuple):
    """What all groups share. Nobody is a member when the job is over."""

    epoch: int
    members: tuple[int, ...]
    counted: int


class Places(Running):
    """One rank; the first of its group speaks, and the others wait for that."""

    def __init__(self, host: Host, fabric: Fabric) -> None:
        super().__init__(host, fabric)
        env = host.env
        self.group, self.own_epoch, self.resize = (
            int(env[f"PLIANT_{name}"]) for name in ("GROUP", "EPOCH", "RESIZE")
        )
        self.total = int(self.program.number(0, 10))
        low, _, high = self.program.words.get("bounds", f"1:{MOST_NODES}").partition(":")
        self.bounds = Bounds(int(low), int(high or low))
        self.lost: set[int] = set()
        self._reported = 0.0

    @property
    def epoch(self) -> int:
        """That of the rank that speaks for the group."""
        speaker = self.fabric.speakers.get(self.group, self)
        return speaker.own_epoch if isinstance(speaker, Places) else self.own_epoch

    def script(self) -> Script[int]:
        yield from self.sleep(self.host.random.uniform(0, self.program.word("late", 0.2)), "its own start")
        speaker = self.fabric.speakers.setdefault(self.group, self)
        while speaker is not self:
            if speaker.over:
                return 0
            yield from self.sleep(1.0, "the first rank of its group")
        try:
            yield from self._take_part()
        except PliantError as error:
            self.abort(f"group {self.group}: {error}")
        return 0

    def _take_part(self) -> Script[None]:
        session = self.open(self.write)
        session.on_message = self._watch
        job = int(self.host.env["PLIANT_JOB"])
        session.send(m.Hello(job, self.group, self.own_epoch, self.host.token, 1, self.bounds))
        yield from self.wait(lambda: bool(session.inbox), "the scheduler's welcome")
        groups = session.welcome().groups
        negotiation = Negotiation(session, self.bounds, self.fabric.tell)
        if self.resize:
            state = yield from self._arrive(session, groups)
        else:
            state = State(0, groups, 0)
            if self.group == groups[0]:
                negotiation.begin(0)
        while self.group in state.members:
            if self.group == state.members[0]:
                state = yield from self._lead(session, negotiation, state)
            else:
                session.send(m.Put(state.epoch, f"here/{self.group}", ""))
                state = yield from self._follow(session, state.epoch)
            self.own_epoch = state.epoch
        result = None if state.members else Result(state.counted).text()
        session.send(m.Bye(state.epoch - 1, result))

    def _watch(self, message: m.SchedulerMessage) -> None:
        if isinstance(message, m.GroupLost):
            self.lost.add(message.group)

    def _fetch(
        self, session: Session, epoch: int, keys: Iterable[str], what: str, excuse: str = ""
    ) -> Script[None]:
        """Wait for these values, or for the losses of the groups that would leave them."""
        wanted = [(epoch, key) for key in keys]
        for _, key in wanted:
            session.send(m.Get(epoch, key))
        yield from self.wait(
            lambda: all(each in session.values or self._gone(each[1]) for each in wanted), what, excuse=excuse
        )

    def _gone(self, key: str) -> bool:
        return key.startswith("here/") and int(key[5:]) in self.lost

    def _arrive(self, session: Session, groups: tuple[int, ...]) -> Script[State]:
        """The newcomers meet, the first of them says so, and each waits to be told what it has come to."""
        session.send(m.Ready(self.resize, self.group))
        plan = star(groups, self.resize)
        if self.group != plan.leader:
            session.send(m.Put(self.own_epoch, plan.up[self.group], "up"))
        else:
            yield from self._fetch(session, self.own_epoch, plan.up.values(), "the other newcomers")
            session.send(m.Put(self.own_epoch, joined_key(self.resize), SIGNATURE))
        yield from self._fetch(session, self.own_epoch, [source_key(self.resize)], "the job", SCHEDULER)
        return (yield from self._follow(session, self.own_epoch - 1))

    def _follow(self, session: Session, epoch: int) -> Script[State]:
        """The state of the epoch after ``epoch``, when the root has left it."""
        key = epoch + 1, "state"
        while key not in session.values:
            session.send(m.Get(*key))
            again = self.host.now + AGAIN_S
            self.host.later(AGAIN_S, self.wake)
            yield from self.wait(
                lambda: key in session.values or self.host.now >= again,  # noqa: B023 - waited for at once
                "the next epoch",
                excuse=PEERS,
            )
        epoch, members, counted = json.loads(session.values[key])
        return State(epoch, tuple(members), counted)

    def _lead(self, session: Session, negotiation: Negotiation, state: State) -> Script[State]:
        """Count until the job is resized or over."""
        while state.counted < self.total:
            step_s = self.program.number(1, 0.1) * self.host.random.uniform(0.5, 1.5)
            yield from self.sleep(step_s, f"step {state.counted}")
            state = state._replace(counted=state.counted + 1)
            self.fabric.tasks += 1
            self.poll()
            if self.host.now - self._reported >= REPORT_S:
                self._reported = self.host.now
                session.send(m.Progress(state.epoch, state.counted / self.total))
            now = self._situation(state)
            negotiation.answer(now)
            decision = negotiation.decide(now)
            if decision.action is not Action.NONE:
                following = yield from self._resize(session, negotiation, state, decision.resize)
                if following is not None:
                    return following
        session.send(m.Progress(state.epoch, 1.0))
        negotiation.end(state.epoch)
        return self._begin(session, State(state.epoch + 1, (), state.counted))

    def _situation(self, state: State) -> Situation:
        members = tuple(group for group in state.members if group not in self.lost)
        return Situation(state.epoch, members, self.total - state.counted + 1, 1, MOST_NODES, SIGNATURE)

    def _resize(
        self, session: Session, negotiation: Negotiation, state: State, resize: int
    ) -> Script[State | None]:
        """The next epoch, when all others have come to this one; None where it does not come to it."""
        others = [f"here/{each}" for each in state.members[1:]]
        yield from self._fetch(session, state.epoch, others, "the others")
        now, objection = self._situation(state), ""
        try:
            negotiation.leaving(now.members)
        except (RuntimeError, ValueError) as error:
            objection = str(error)
        if not negotiation.confirm(resize, now, objection):
            return None
        gone, newcomers = negotiation.leaving(now.members), negotiation.newcomers
        members = (*(each for each in now.members if each not in gone), *newcomers)
        if newcomers:
            session.send(m.Put(state.epoch + 1, source_key(resize), "welcome"))
        following = self._begin(session, State(state.epoch + 1, members, state.counted))
        negotiation.done(m.Done(state.epoch, resize, members[0], gone))
        return following

    def _begin(self, session: Session, following: State) -> State:
        session.send(m.Put(following.epoch, "state", json.dumps(following)))
        return following

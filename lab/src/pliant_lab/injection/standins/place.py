"""One place in the world: the machine that is shipped, connections that take their time, and tasks that take
world time.

What places say to each other arrives in order, or not at all: of what a dead place has said last some is lost, and
those that had a connection with it notice at different times. A task computes for a while, spawns others at other
places, and tells place 0 that it is done, all within the finish that waits for it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from functools import partial
from typing import NamedTuple

from pliant.apgas.errors import BadPlaceException, DeadPlaceException
from pliant.apgas.place.machine import PlaceMachine, Ready
from pliant.apgas.place.messages import Codec, FinishId, Payload
from pliant_lab.injection.standins.fabric import Fabric
from pliant_lab.injection.standins.running import Host, Running

BROKE = "the connection broke"
DELAYS_S = (2e-5, 1e-4, 1e-3, 5e-3, 0.05)
SILENCE_S = 35.0
"""So long after a place is gone that ends without a word, others give up waiting for its heartbeats."""
UNSAID_S = (0.0, 1e-3, 0.05)
"""Of what a place has said so shortly before its death nothing arrives."""
_CODEC = Codec()


class Work(NamedTuple):
    """A task: its number in its step, and how many tasks below it are still to be spawned."""

    step: int
    number: int
    below: int

    def text(self) -> bytes:
        return json.dumps(self).encode()


class Place(Running):
    """``machine`` decides; this carries out what it has decided, as ``apgas/runtime.py`` does."""

    def __init__(self, host: Host, fabric: Fabric) -> None:
        super().__init__(host, fabric)
        self.group = int(host.env["PLIANT_GROUP"])
        self.machine = PlaceMachine(self.group)
        self.workers = int(host.env.get("PLIANT_WORKERS", "1"))
        self._running = 0
        self._known: set[int] = set()
        self.links: dict[int, Place] = {}
        """To those that something was sent to, of those that are known."""
        self.heard: dict[int, float] = {}
        """By place when the last that it has said arrives here."""
        self.closed = False
        """It ends by itself, and all that it has said goes out before."""
        self._silent_since: float | None = None
        """Of what it has said since then nothing arrives any more."""
        self.noticed: set[int] = set()
        """The places whose loss this one has noticed."""

    @abstractmethod
    def changed(self) -> None:
        """The machine has been told something, and all has been carried out."""

    @abstractmethod
    def note(self, work: Work) -> None:
        """At place 0: a task is done."""

    def find(self, place: int) -> Place | None:
        found = self.fabric.speakers.get(place)
        return found if isinstance(found, Place) else None

    # ---- connections -------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Carry out what the machine has decided."""
        machine = self.machine
        reached = machine.members.others | machine.arrived.keys()
        out, machine.out = machine.out, []
        self._known |= reached
        for number, message, payload in out:
            if number in self._known:
                self._send(number, _CODEC.encode(message), [bytes(part) for part in payload])
        for number in self._known - reached - machine.parting:
            self._known.discard(number)
            self.links.pop(number, None)
        while machine.urgent:
            self._end(machine.urgent.popleft())
        while machine.ready and self._running < self.workers and not machine.stopped:
            self._begin(machine.ready.popleft())
        if machine.out:
            self.flush()
        elif machine.stopped is not None:
            self.stopped(machine.stopped)
        else:
            self.changed()

    @abstractmethod
    def stopped(self, why: str) -> None:
        """This place is to end."""

    def _send(self, number: int, data: bytes, payload: Payload) -> None:
        place = self.links.get(number) or self.find(number)
        if place is None or place.over or number in self.noticed:
            return  # a connection that cannot be made is no news: place 0 has one with everybody
        self.links[number] = place
        now, here = self.host.now, self.group
        moment = max(place.heard.get(here, 0.0), now + self.host.random.choice(DELAYS_S))
        place.heard[here] = moment

        def arrive() -> None:
            lost = self._silent_since is not None and now >= self._silent_since
            if not (lost or here in place.noticed):
                place.machine.receive(here, _CODEC.decode(data), payload)
                place.flush()

        place.host.later(moment - now, arrive)

    def notice(self, number: int, why: str) -> None:
        """The connection with a place has broken."""
        if number in self.links and number not in self.noticed:
            self.noticed.add(number)
            del self.links[number]
            self.machine.lost(number, why)
            self.flush()

    def cut(self, other: Place) -> bool:
        """The connection with another place breaks, and both notice; False if there is none."""
        if other.group not in self.links and self.group not in other.links:
            return False
        for one, two in ((self, other), (other, self)):
            number = two.group
            one.soon(0.0, 0.1, partial(one.notice, number, BROKE))
        return True

    def ended(self) -> None:
        """Killed, or over by itself: those that are connected notice."""
        now, random = self.host.now, self.host.random
        if not self.over:
            self._silent_since = None if self.closed else now - random.choice(UNSAID_S)
            for peer in self.fabric.speakers.values():
                if isinstance(peer, Place) and peer is not self and self.group in peer.links:
                    wait_s = max(peer.heard.get(self.group, 0.0) - now, 0.0) + random.choice(DELAYS_S)
                    wait_s += SILENCE_S if random.random() < 0.1 and not self.closed else 0.0
                    peer.host.later(wait_s, partial(peer.notice, self.group, BROKE))
        super().ended()

    # ---- tasks -------------------------------------------------------------------------------------------

    def spawn(self, where: int, finish: FinishId, work: Work) -> None:
        """A task at another place, or here if that has gone."""
        if where != self.group:
            try:
                self.machine.send(where, "work", finish, [work.text()])
            except (BadPlaceException, DeadPlaceException):
                where = self.group
        if where == self.group:
            self.machine.begin(task := Ready("work", finish, [work.text()], self.group))
            self.machine.ready.append(task)

    def _begin(self, task: Ready) -> None:
        """Compute for a while."""
        self._running += 1
        random, program = self.host.random, self.program
        seconds = program.number(1, 0.1) * random.uniform(0.1, 0.5)
        if random.random() < program.word("busy", 0):
            seconds += 100.0
        self.host.later(0.0 if task.call else seconds, lambda: self._over(task))

    def _over(self, task: Ready) -> None:
        self._running -= 1
        self._end(task)
        self.flush()

    def _end(self, task: Ready) -> None:
        machine, finish = self.machine, task.finish
        assert not callable(task.work)  # noqa: S101 - all tasks of the world are data
        if task.call or finish is None:
            machine.ended(task, [b"here"] if task.call else ())
            return
        work = Work(*json.loads(bytes(task.work[0])))
        if task.name == "note":
            self.note(work)
        else:
            self._spawn_below(finish, work)
            if self.group:
                machine.send(0, "note", finish, [work.text()], urgent=True)
            else:
                self.note(work)
        machine.ended(task)

    def _spawn_below(self, finish: FinishId, work: Work) -> None:
        """Half of those below it go to one place, half to another."""
        random, there = self.host.random, self.machine.members.places()
        number, below = work.number + 1, work.below
        for share in (below // 2, below - below // 2):
            if share:
                self.spawn(random.choice(there or (0,)), finish, Work(work.step, number, share - 1))
                number += share

"""One place, as a machine without I/O, clock or threads: what other places say and what its tasks do come in,
messages and tasks that can run come out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from pliant.apgas.place.finishes import Home, Part
from pliant.apgas.place.membership import Membership
from pliant.apgas.place.messages import (
    Answer,
    AnyMessage,
    Dead,
    Farewell,
    FinishId,
    Hello,
    Joined,
    LastTask,
    Leaving,
    Lost,
    Over,
    Parted,
    Payload,
    Probe,
    Staying,
    Stop,
    Tally,
    Task,
    World,
)

Thunk = Callable[[], object]
GIVEN_UP = "it was given up"
"""Why a place ends that others go on without."""


class Ready(NamedTuple):
    """A task that can run: ``work`` is a call to be made here, or the payload that another place has sent."""

    name: str
    finish: FinishId | None
    work: Thunk | Payload
    sender: int
    call: int = 0


class Call:
    """A value that another place was asked for."""

    def __init__(self, place: int, finish: FinishId | None) -> None:
        self.place = place
        self.finish = finish
        self.done = False
        self.raised = False
        self.payload: Payload = ()
        self.died = ""


class PlaceMachine:
    """``out`` has (place, message, payload) to be sent, in order; ``ready`` and ``urgent`` the tasks to be run, each of
    which ends with ``ended``. Its owner empties them after each call."""

    def __init__(self, here: int) -> None:
        self.here = here
        self.members = Membership(here)
        self.out: list[tuple[int, AnyMessage, Payload]] = []
        self.ready: deque[Ready] = deque()
        self.urgent: deque[Ready] = deque()
        self.stopped: str | None = None
        """Why this place is to end, once it is."""
        self.calls: dict[int, Call] = {}
        self.answered: list[int] = []
        """Those of them that have been done since its owner looked."""
        self.tasks = 0
        """Tasks that are here, ready or running."""
        self.arrived: dict[int, str] = {}
        """At place 0: new places that have said hello, and where they are reached."""
        self._homes: dict[FinishId, Home] = {}
        self._parts: dict[FinishId, Part] = {}
        self._numbers = 0
        self._early: dict[int, list[tuple[AnyMessage, Payload]]] = {}
        """What places said that this one does not know yet."""
        self._attempt = 0
        """The last in which this place was to leave; at place 0 the last of all."""
        self._last_tasks: dict[int, int] = {}
        """By place the attempt to leave in which it sends no more tasks here."""
        self._said_farewell = False
        self._parted: dict[int, set[int]] = {}
        """At place 0: by leaving place who has heard its farewell."""
        self._recalled: set[int] = set()
        """At place 0: leaving places that were asked to stay and have not answered."""
        self._quit: set[int] = set()
        """At place 0: leaving places whose farewell all have heard. They end together, so that they all leave in
        good order or are given up all, where others of them stay."""
        self._kept = False
        """Whether others of them stay."""
        self._react: dict[type[Any], Callable[[int, Any, Payload], None]] = {
            Task: self._task,
            Answer: self._answer,
            Tally: self._tally,
            Probe: self._probe,
            Over: self._over,
            World: self._world,
            Joined: self._joined,
            Leaving: self._leaving,
            Staying: self._staying,
            LastTask: self._last_task,
            Farewell: self._farewell,
            Parted: self._has_parted,
            Lost: self._lost,
            Dead: self._dead,
            Stop: self._stop,
        }

    # ---- tasks ---------------------------------------------------------------------------------------

    def open_finish(self) -> Home:
        """A new finish of this place; its body counts as a task of it, and ends with ``ended``."""
        home = Home(FinishId(self.here, self._number()))
        self._homes[home.finish] = home
        home.part.begin()
        return home

    def hold(self, finish: FinishId) -> bool:
        """Begin a task of this place's ``finish`` from outside, unless it is over."""
        home = self._homes.get(finish)
        if home is None or home.over:
            return False
        home.part.begin()
        return True

    def spawn(self, name: str, finish: FinishId | None, work: Thunk, *, urgent: bool = False) -> None:
        """A task of this place."""
        task = Ready(name, finish, work, self.here)
        if not self._is_nobodys(task):
            self.begin(task)
            (self.urgent if urgent else self.ready).append(task)

    def begin(self, task: Ready) -> None:
        """A task of this place is there, and ends with ``ended``."""
        if task.finish is not None:
            self._part(task.finish).begin()
        self.tasks += 1

    def send(  # noqa: PLR0913 -- a task is what it is, where it counts and how it runs
        self,
        place: int,
        name: str,
        finish: FinishId | None,
        payload: Payload,
        *,
        urgent: bool = False,
        wanted: bool = False,
    ) -> int:
        """Send a task to another place, and return its call's number if its value is ``wanted``, else 0.
        BadPlaceException or DeadPlaceException if it cannot go there; nothing is counted then."""
        self.members.check(place)
        if not wanted and self._is_dead(finish):
            return 0
        call = self._number() if wanted else 0
        if wanted:
            self.calls[call] = Call(place, finish)
        if finish is not None:
            self._part(finish).send(place)
        self._say(place, Task(name, finish, call, urgent), payload)
        return call

    def ended(self, task: Ready, payload: Payload = (), *, raised: bool = False) -> None:
        """A task is over. ``payload`` is what it raised, pickled, or the value that was asked for."""
        self.tasks -= 1
        if task.finish is not None:
            error = bytes(payload[0]) if raised and not task.call else None
            self.finish_ended(task.finish, error)
        if task.call and task.sender in self.members.addresses:
            # Last: who has the answer, and has the finish too, loses nothing if this place dies now.
            self._say(task.sender, Answer(task.call, raised), payload)
        self._leave_if_quiet()

    def finish_ended(self, finish: FinishId, raised: bytes | None = None) -> None:
        """A task of ``finish``, or its body, is over."""
        self._part(finish).end(raised)
        self._look(finish)

    def close_finish(self, home: Home) -> None:
        """Whoever waited for it has what it wanted: forget it, here and elsewhere."""
        for place in sorted(home.members & self.members.others):
            self._say(place, Over(home.finish))
        self._homes.pop(home.finish, None)
        self._leave_if_quiet()

    def settle(self) -> None:
        """Something that kept this place from leaving may be over."""
        self._leave_if_quiet()

    # ---- places that come and go -----------------------------------------------------------------------

    def admit(self, places: Collection[int]) -> None:
        """At place 0: those of ``arrived`` that are ``places`` belong to the program from now on."""
        new = {place: self.arrived.pop(place) for place in places}
        old = self.members.others
        self.members.join(new)
        addresses = dict(self.members.addresses)
        for place in sorted(new):
            self._say(place, World({k: v for k, v in addresses.items() if k != place}, self.members.deaths))
        for place in sorted(old):
            self._say(place, Joined(new))

    def release(self, places: Collection[int]) -> None:
        """At place 0: let ``places`` leave, each when all its tasks are over; ``here_no_more`` says if they have.
        Who is dead has left."""
        places = [place for place in places if place in self.members.addresses]
        for place in places:
            self._parted[place] = set()
        self._attempt += 1
        self.members.leaving.update(places)
        message = Leaving(sorted(places), self._attempt)
        for place in sorted(self.members.others):
            self._say(place, message)
        for place in sorted(places):
            self._say(place, LastTask(self._attempt))

    def recall(self, places: Iterable[int]) -> None:
        """At place 0: ``places`` that have not said farewell yet are to stay after all; ``undecided`` until they say
        so. Their farewell may be under way, so nothing is sent to them before."""
        for place in sorted(self.members.leaving.intersection(places)):
            self._recalled.add(place)
            self._say(place, Staying(place))

    def undecided(self, places: Iterable[int]) -> bool:
        """At place 0: whether it is open if some of ``places`` stay."""
        return not self._recalled.isdisjoint(places)

    def here_no_more(self, places: Iterable[int]) -> bool:
        """At place 0: whether all of ``places`` have left, or died."""
        return not self.parting.intersection(places)

    def lost(self, place: int, why: str) -> None:
        """The connection with ``place`` has failed, or it is known to have died."""
        if place == 0:
            self.stopped = self.stopped or f"place(0) is gone: {why}"
        elif self.here != 0:
            if place in self.members.addresses:
                self._say(0, Lost(place, why))
        elif place in self.members.addresses:
            self._bury(place, why)
        elif place in self.parting:
            self.out.append((place, Stop(f"{GIVEN_UP}: {why}"), ()))
            self._parted.pop(place, None)
            self._quit.discard(place)
            self._dismiss()
        elif place not in self.members.left:
            self.turn_away([place], why)

    def turn_away(self, places: Iterable[int], why: str) -> None:
        """At place 0: ``places`` that have not been taken in never will be."""
        for place in places:
            if self.arrived.pop(place, None) is not None:
                self.out.append((place, Stop(why), ()))
            self.members.dead.setdefault(place, why)

    @property
    def unfinished(self) -> list[object]:
        """What is not over: finishes and calls of this place, tasks here, and at place 0 places that come or go."""
        return [*self._homes, *self.calls, *self.ready, *self.urgent, *self.arrived, *self.parting]

    @property
    def parting(self) -> set[int]:
        """At place 0: places that have yet to be told that they may end."""
        return self._parted.keys() | self._quit

    def receive(self, sender: int, message: AnyMessage, payload: Payload) -> None:
        """Something has come from another place."""
        members = self.members
        if isinstance(message, Hello):
            known = sender in members.addresses or sender in members.left or sender in members.dead
            if self.here == 0 and not known:
                self.arrived[sender] = message.address
        elif (isinstance(message, Stop | World) and sender == 0) or sender in members.addresses:
            self._react[type(message)](sender, message, payload)
        elif sender not in members.left and sender not in members.dead:
            self._early.setdefault(sender, []).append((message, payload))

    # ---- what comes in -----------------------------------------------------------------------------------

    def _task(self, sender: int, message: Task, payload: Payload) -> None:
        finish = FinishId(*message.finish) if message.finish is not None else None
        task = Ready(message.name, finish, payload, sender, message.call)
        if self._is_nobodys(task):
            return
        if finish is not None:
            self._part(finish).begin(sender)
        self.tasks += 1
        (self.urgent if message.urgent else self.ready).append(task)

    def _answer(self, _sender: int, message: Answer, payload: Payload) -> None:
        call = self.calls.get(message.call)
        if call is not None:
            call.done, call.raised, call.payload = True, message.raised, payload
            self.answered.append(message.call)

    def _tally(self, sender: int, message: Tally, payload: Payload) -> None:
        finish = FinishId(*message.finish)
        home = self._homes.get(finish)
        if home is not None:
            home.take(sender, message)
            home.raised += [bytes(each) for each in payload]
            self._look(finish)

    def _probe(self, _sender: int, message: Probe, _payload: Payload) -> None:
        finish = FinishId(*message.finish)
        self._part(finish).asked = True
        self._look(finish)

    def _over(self, _sender: int, message: Over, _payload: Payload) -> None:
        self._parts.pop(FinishId(*message.finish), None)

    def _world(self, _sender: int, message: World, _payload: Payload) -> None:
        self.members.deaths = max(self.members.deaths, message.deaths)
        self._meet(message.addresses)

    def _joined(self, _sender: int, message: Joined, _payload: Payload) -> None:
        self._meet(message.addresses)

    def _meet(self, addresses: dict[int, str]) -> None:
        self.members.join(addresses)
        for place in sorted(addresses):
            for early, payload in self._early.pop(place, ()):
                self.receive(place, early, payload)

    def _leaving(self, _sender: int, message: Leaving, _payload: Payload) -> None:
        self.members.leaving.update(message.places)
        for place in message.places:
            if place in self.members.addresses:
                self._say(place, LastTask(message.attempt))
        if self.here in message.places:
            self._attempt = message.attempt
        self._leave_if_quiet()

    def _staying(self, sender: int, message: Staying, _payload: Payload) -> None:
        place = message.place
        if place == self.here and self._said_farewell:
            return  # which place 0 hears instead
        self.members.leaving.discard(place)
        if place == self.here:
            self._say(0, message)
        elif sender == place:
            self._recalled.discard(place)
            self._parted.pop(place, None)
            self._kept = True
            for other in sorted(self.members.others - {place}):
                self._say(other, message)
            self._dismiss()

    def _last_task(self, sender: int, message: LastTask, _payload: Payload) -> None:
        self._last_tasks[sender] = message.attempt
        self._leave_if_quiet()

    def _leave_if_quiet(self) -> None:
        """If this place is to leave and nothing is left to do here, nor can come, say farewell to all."""
        if self.here not in self.members.leaving or self._said_farewell:
            return
        others = self.members.others
        if self.tasks or self._homes or self.calls:
            return
        if any(self._last_tasks.get(other, 0) < self._attempt for other in others):
            return
        self._said_farewell = True
        for place in sorted(others):
            self._say(place, Farewell())

    def _farewell(self, sender: int, _message: Farewell, _payload: Payload) -> None:
        self.members.part(sender)
        self._recalled.discard(sender)
        for finish in list(self._homes):  # what it was asked of one of them it says no more
            self._look(finish)
        if self.here != 0:
            self._say(0, Parted(sender))
            return
        self._note_parted(sender, 0)
        self._dismiss()  # others no longer wait for this one

    def _has_parted(self, sender: int, message: Parted, _payload: Payload) -> None:
        self._note_parted(message.place, sender)

    def _note_parted(self, place: int, by: int) -> None:
        if place in self._parted:
            self._parted[place].add(by)
            self._dismiss()

    def _dismiss(self) -> None:
        """Let the leaving places end once all others have heard their farewells."""
        others = {0, *self.members.others}
        for place in [place for place, heard in self._parted.items() if heard >= others - {place}]:
            del self._parted[place]
            self._quit.add(place)
        if self._parted:
            return
        why = f"{GIVEN_UP}: others that were to leave stay" if self._kept else "it was released"
        self.out += [(place, Stop(why), ()) for place in sorted(self._quit)]
        self._quit.clear()
        self._kept = False

    def _lost(self, _sender: int, message: Lost, _payload: Payload) -> None:
        self.lost(message.place, message.why)

    def _bury(self, place: int, why: str) -> None:
        """At place 0: ``place`` is dead. All are told, also itself if it can hear."""
        number = self.members.deaths + 1
        self._say(place, Stop(f"{GIVEN_UP}: {why}"))
        for other in sorted(self.members.others - {place}):
            self._say(other, Dead(place, number, why))
        self._mourn(place, number, why)

    def _dead(self, _sender: int, message: Dead, _payload: Payload) -> None:
        self._mourn(message.place, message.number, message.why)

    def _mourn(self, place: int, number: int, why: str) -> None:
        self.members.die(place, number, why)
        self._early.pop(place, None)
        self._last_tasks.pop(place, None)
        self._recalled.discard(place)
        for asked, call in self.calls.items():
            if call.place == place and not call.done:
                call.done, call.died = True, why or "it died"
                self.answered.append(asked)
                if call.finish is not None:  # whoever called is told: it is no loss to the finish
                    self._part(call.finish).send(place, -1)
        self._let_orphans_go(place)
        for finish in list(self._homes):
            self._look(finish)
        self._parted.pop(place, None)
        self._dismiss()
        self._leave_if_quiet()

    def _let_orphans_go(self, place: int) -> None:
        """Nobody waits for finishes of ``place``, which is dead: what runs of them goes on, the rest is dropped."""
        for waiting in (self.ready, self.urgent):
            kept = [task for task in waiting if not self._is_nobodys(task)]
            self.tasks -= len(waiting) - len(kept)
            waiting.clear()
            waiting.extend(kept)
        for finish in [each for each in self._parts if each.home == place]:
            del self._parts[finish]

    def _is_dead(self, finish: FinishId | None) -> bool:
        """Whether the place that waited for ``finish`` has died."""
        return finish is not None and finish.home in self.members.dead

    def _is_nobodys(self, task: Ready) -> bool:
        """Whether nobody waits for the task: its finish is dead, and so is who wants its value, if there is one."""
        return self._is_dead(task.finish) and not (task.call and task.sender in self.members.addresses)

    def _stop(self, _sender: int, message: Stop, _payload: Payload) -> None:
        self.stopped = self.stopped or message.why or "the program is over"

    # ---- small parts -----------------------------------------------------------------------------------

    def _look(self, finish: FinishId) -> None:
        """Tell home, or notice at home that ``finish`` is over."""
        members = self.members
        home = self._homes.get(finish)
        if home is not None:
            for place in home.look(set(members.dead), members.deaths, members.others):
                self._say(place, Probe(finish, members.deaths))
            return
        part = self._part(finish)
        if finish.home in members.addresses:
            if part.due:
                tally, raised = part.tell(finish, members.deaths)
                self._say(finish.home, tally, raised)
        elif part.active <= 0:  # nobody waits for it any more: home is dead
            self._parts.pop(finish, None)

    def _part(self, finish: FinishId) -> Part:
        home = self._homes.get(finish)
        if home is not None:
            return home.part
        return self._parts.setdefault(finish, Part())

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _say(self, place: int, message: AnyMessage, payload: Payload = ()) -> None:
        self.out.append((place, message, payload))

"""A program of places under an agent: how places find each other, and what the program says and answers to the scheduler.

A place is a group of the job, with the group's number. Place 0 speaks for the job; its session has a thread of its own,
in which the malleable handler is asked.
"""

from __future__ import annotations

import select
import sys
import threading
import traceback
from collections.abc import Collection

from pliant.apgas.keys import Contact
from pliant.apgas.malleable import Malleability, named
from pliant.apgas.runtime import Runtime
from pliant.job.connection import Connection
from pliant.job.decisions import Action, Decision
from pliant.job.environment import Environment
from pliant.job.negotiation import Situation
from pliant.job.recording import negotiation
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.plan.join import joined_key, source_key, star
from pliant.protocol.messages import Bye, Done, Error, GroupLost, Put, Ready, SchedulerMessage, Want, Welcome

SIGNATURE = "places"
CONTACT = "places/contact"
MOST_PLACES = 1 << 16
FOREVER = 1 << 30
"""Steps that are left of a program that has none: a change may come at any time."""
TRACEBACK_CHARACTERS = 1 << 16
"""The end of a traceback tells most."""
LOOK_S = 0.05
"""How often a wait for newcomers looks whether the scheduler has something to say."""


class Member:
    """Any place's end: its session, over which it learns where place 0 is."""

    def __init__(self, where: Environment, bounds: Bounds, limit_s: float) -> None:
        self.where = where
        self.limit_s = limit_s
        self.connection = Connection.open(where, limit_s)
        self.welcome: Welcome = self.connection.greet(1, bounds)

    def find(self) -> Contact:
        """Where place 0 is; a newcomer says first that it is there, and waits until it is wanted."""
        where, connection = self.where, self.connection
        if not where.resize:
            (text,) = connection.fetch(0, [CONTACT], "place 0 to come")
            return Contact.read(text)
        connection.send(Ready(where.resize, where.group))
        plan = star(self.welcome.groups, where.resize)
        if where.group != plan.leader:
            connection.send(Put(where.epoch, plan.up[where.group], "up"))
        else:
            connection.fetch(where.epoch, plan.up.values(), "the other new places")
            connection.send(Put(where.epoch, joined_key(where.resize), SIGNATURE))
        (text,) = connection.fetch(where.epoch, [source_key(where.resize)], "place 0", limited=False)
        return Contact.read(text)

    def leave(self) -> None:
        """This place ends, in good order."""
        self.connection.send(Bye(self.where.epoch))
        self.connection.close()


class Root(Member):
    """Place 0's end: it follows what the scheduler offers while the program has a malleable handler."""

    def __init__(self, where: Environment, bounds: Bounds, limit_s: float) -> None:
        super().__init__(where, bounds, limit_s)
        self._negotiation = negotiation(self.connection.session, bounds, _pass_on)
        self._epoch = 0
        self._lock = threading.Lock()
        self._closing = False
        self._lost: set[int] = set()
        self._contact = ""
        self._wish: Bounds | None = None
        self._offered = 0.0
        """When the resize that is open was offered."""

    def begin(self, runtime: Runtime, malleability: Malleability, contact: Contact) -> None:
        """Tell the places that were started with this one where it is, and listen from now on."""
        self._contact = contact.text()
        self.connection.session.on_message = self._watch
        self.connection.send(Put(0, CONTACT, self._contact))
        malleability.on_change = self._on_change
        malleability.want = self.want
        listener = threading.Thread(
            target=self._listen, args=(runtime, malleability), name="place 0 session", daemon=True
        )
        listener.start()

    def want(self, bounds: Bounds) -> None:
        """Ask the scheduler for a size within ``bounds``; during a resize, as soon as that is over. The last wish counts."""
        with self._lock:
            self._wish = bounds
            self._say_wish()

    def _say_wish(self) -> None:
        """The lock is held."""
        if self._wish is not None and not self._negotiation.resize and not self._closing:
            self.connection.send(Want(self._epoch, self._wish))
            self._wish = None

    def end(self, result: str | None, places: dict[int, dict[str, float]]) -> None:
        """The program is over; ``places`` have done this."""
        with self._lock:
            self._closing = True
            self.connection.send(Bye(self._epoch, result, places))
            self.connection.close()

    def fail(self, error: BaseException) -> None:
        """The program has failed; that this place ends with an error says the rest."""
        text = "".join(traceback.format_exception(error))
        with self._lock:
            self._closing = True
            self.connection.send(Error(text=text[-TRACEBACK_CHARACTERS:]))
            self.connection.close()

    def _on_change(self, on: bool) -> None:  # noqa: FBT001
        with self._lock:
            if on:
                self._negotiation.begin(self._epoch)
            else:
                self._negotiation.end(self._epoch)

    def _watch(self, message: SchedulerMessage) -> None:
        if isinstance(message, GroupLost):
            self._lost.add(message.group)

    def _situation(self, runtime: Runtime) -> Situation:
        with runtime.monitor:
            members = runtime.machine.members.places()
        return Situation(self._epoch, members, FOREVER, 0, MOST_PLACES, SIGNATURE)

    # ---- the thread --------------------------------------------------------------------------------------

    def _listen(self, runtime: Runtime, malleability: Malleability) -> None:
        try:
            with runtime.within(None):
                while not self._closing:
                    select.select([self.connection], [], [], 1.0)
                    self._turn(runtime, malleability)
        except (OSError, ValueError, PliantError) as error:
            if not self._closing:
                _say(f"place(0) has lost its scheduler: {error}")

    def _turn(self, runtime: Runtime, malleability: Malleability) -> None:
        with self._lock:
            if self._closing:
                return
            self.connection.poll()
            now = self._situation(runtime)
            before = self._negotiation.resize
            self._negotiation.answer(now)
            if self._negotiation.resize != before:
                self._offered = runtime.threads.now()
            decision = self._negotiation.decide(now)
            lost, self._lost = self._lost, set()
        for place in lost:
            runtime.lost(place, "its group was lost")
        if decision.action is not Action.NONE:
            self._carry_out(runtime, malleability, decision)
        with self._lock:
            self._say_wish()

    def _carry_out(self, runtime: Runtime, malleability: Malleability, decision: Decision) -> None:
        """Make the change, or tell why it is not made."""
        change = self._grow if decision.action is Action.EXPAND else self._shrink
        resize = decision.resize
        try:
            change(runtime, malleability, resize)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises: the program goes on at its size
            if not isinstance(error, PliantError):
                traceback.print_exc()
            _say(f"resize {resize} has failed: {error}")
            with self._lock:
                self._negotiation.confirm(resize, self._situation(runtime), str(error))

    def _grow(self, runtime: Runtime, malleability: Malleability, resize: int) -> None:
        newcomers = self._negotiation.newcomers
        begun = runtime.threads.now()
        with malleability.turn() as handler:
            malleability.prepare_growth(handler, len(newcomers))
            with self._lock:
                if not self._negotiation.confirm(resize, self._situation(runtime)):
                    return
                self.connection.send(Put(self._epoch + 1, source_key(resize), self._contact))
            try:
                self._await(runtime, newcomers)
            except PliantError:
                runtime.turn_away(newcomers, "they are not wanted any more")
                raise
            malleability.complete_growth(handler, newcomers)
        handler_s = malleability.asked_s
        connect_s = runtime.threads.now() - begun - handler_s
        self._done(resize, (), {"start": begun - self._offered, "connect": connect_s, "handler": handler_s})

    def _await(self, runtime: Runtime, newcomers: Collection[int]) -> None:
        """Wait until all new places have come; PliantError if one is lost, or in time."""
        waited = 0.0
        while missing := runtime.await_arrival(newcomers, LOOK_S):
            waited += LOOK_S
            with self._lock:
                self.connection.poll()
                lost = self._lost & set(missing)
                self._lost -= lost
            if lost:
                raise PliantError(f"{named(lost)} was lost before it came")
            if waited > self.limit_s:
                raise PliantError(f"{named(missing)} did not come within {self.limit_s:.0f} s")

    def _shrink(self, runtime: Runtime, malleability: Malleability, resize: int) -> None:
        now = self._situation(runtime)
        begun = runtime.threads.now()
        with self._lock:
            wanted = self._negotiation.offer.leaving
            count = len(self._negotiation.leaving(now.members))
            if not self._negotiation.confirm(resize, now):
                return
        released = malleability.shrink(
            count, self.limit_s, [group for group in wanted if group in now.members]
        )
        handler_s = malleability.asked_s
        release_s = runtime.threads.now() - begun - handler_s
        self._done(resize, tuple(released), {"handler": handler_s, "release": release_s})

    def _done(self, resize: int, released: tuple[int, ...], phases: dict[str, float]) -> None:
        """A growth has the phases ``start``, from the offer until all newcomers have said that they are there, ``connect``,
        until they are taken in, and ``handler``, all that the handler took; a shrink ``handler`` and ``release``, until the
        places had ended their tasks."""
        with self._lock:
            if self._closing or self._negotiation.resize != resize:
                return
            self._negotiation.done(Done(self._epoch, resize, 0, released, phases))
            self._epoch += 1


def _say(text: str) -> None:
    sys.stderr.write(f"pliant: {text}\n")
    sys.stderr.flush()


def _pass_on(text: str) -> None:
    _say(f"the scheduler says: {text}")

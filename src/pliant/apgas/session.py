"""A program of places under an agent: how places find each other, and what the program answers to the scheduler.

A place is a group of the job, with the group's number. Place 0 speaks for the job; its session has a thread of its own,
in which the malleable handler is asked.
"""

from __future__ import annotations

import select
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Sequence

from pliant.apgas.malleable import following as f
from pliant.apgas.malleable.handler import Malleability, MalleableHandler, NoHandlerError
from pliant.apgas.runtime import Runtime
from pliant.apgas.transport import forks
from pliant.apgas.transport.keys import Contact
from pliant.job.connection import Connection
from pliant.job.environment import Environment
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.plan.join import joined_key, source_key, star
from pliant.protocol.messages import Bye, Error, Put, Ready, Welcome

CONTACT = "places/contact"
TRACEBACK_CHARACTERS = 1 << 16
"""The end of a traceback tells most."""
IDLE_S = 1.0
LOOK_S = 0.05
"""How often a wait for places looks whether the scheduler has something to say."""


class PlaceSession:
    """Any place's end: its session, over which it learns where place 0 is."""

    def __init__(self, where: Environment, bounds: Bounds, limit_s: float) -> None:
        self.where = where
        self.limit_s = limit_s
        self.connection = Connection.open(where, limit_s)
        forks.tell(self)
        self.welcome: Welcome = self.connection.greet(1, bounds)

    def forked(self) -> None:
        """A process that a task forks has no session."""
        self.connection.close()

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
            connection.send(Put(where.epoch, joined_key(where.resize), f.SIGNATURE))
        (text,) = connection.fetch(where.epoch, [source_key(where.resize)], "place 0", limited=False)
        return Contact.read(text)

    def leave(self) -> None:
        """This place ends, in good order."""
        self.connection.send(Bye(self.where.epoch))
        self.connection.close()


class RootSession(PlaceSession):
    """Place 0's end: it follows what the scheduler offers while the program has a malleable handler. What that means is
    decided by ``following``; this has the thread in which the handler is asked."""

    def __init__(self, where: Environment, bounds: Bounds, limit_s: float) -> None:
        super().__init__(where, bounds, limit_s)
        self._following = f.Following(self.connection.session, bounds, limit_s, _pass_on, self.welcome.groups)
        self._lock = threading.Lock()
        self._closing = False

    def begin(self, runtime: Runtime, malleability: Malleability, contact: Contact) -> None:
        """Tell the places that were started with this one where it is, and listen from now on."""
        self._following.contact = contact.text()
        self.connection.send(Put(0, CONTACT, self._following.contact))
        malleability.on_change = self._on_change
        malleability.want = self.want
        listener = _Listener(self, runtime, malleability)
        threading.Thread(target=listener.run, name="place 0 session", daemon=True).start()

    def want(self, bounds: Bounds, *, keep: bool = False) -> None:
        """Ask the scheduler for a size within ``bounds``; during a resize, as soon as that is over. The last wish
        counts; with ``keep`` it stays open where it cannot be met now."""
        with self._lock:
            self._following.want(bounds, keep=keep)

    def end(self, result: str | None, places: dict[int, dict[str, float]]) -> None:
        """The program is over; ``places`` have done this."""
        with self._lock:
            self._close()
            self.connection.send(Bye(self._following.epoch, result, places))
            self.connection.close()

    def fail(self, error: BaseException) -> None:
        """The program has failed; that this place ends with an error says the rest."""
        text = "".join(traceback.format_exception(error))
        with self._lock:
            self._close()
            self.connection.send(Error(text=text[-TRACEBACK_CHARACTERS:]))
            self.connection.close()

    def _close(self) -> None:
        self._closing = True
        self._following.close()

    def _on_change(self, on: bool) -> None:  # noqa: FBT001
        with self._lock:
            if on:
                self._following.begin()
            else:
                self._following.end()

    # ---- the thread --------------------------------------------------------------------------------------

    @property
    def closing(self) -> bool:
        return self._closing

    @property
    def following(self) -> f.Following:
        """Where the session's thread alone changes what it waits for."""
        return self._following

    def look(self, now: f.View) -> list[f.Order]:
        """What is to be done now that something may have come."""
        with self._lock:
            if self._closing:
                return []
            self.connection.poll()
            return self._following.look(now)

    def asked(
        self, now: f.View, resize: int, seconds: float, problem: str, chosen: Sequence[int]
    ) -> list[f.Order]:
        """What is to be done now that the handler has been asked."""
        with self._lock:
            return self._following.asked(now, resize, seconds, problem, chosen)


class _Listener:
    """The thread of place 0's session: it does what is to be done so that the program follows."""

    def __init__(self, root: RootSession, runtime: Runtime, malleability: Malleability) -> None:
        self._root = root
        self._runtime = runtime
        self._malleability = malleability
        self._handler: MalleableHandler | None = None
        """While it is this thread's turn to ask it."""

    def run(self) -> None:
        root = self._root
        try:
            with self._runtime.within(None):
                while not root.closing:
                    while orders := root.look(self._view()):
                        self._carry_out(orders)
                    self._pause()
        except (OSError, ValueError, PliantError) as error:
            if not root.closing:
                _say(f"place(0) has lost its scheduler: {error}")
        finally:
            self._end_turn()

    def _pause(self) -> None:
        """Until something may have happened, or a while."""
        following, runtime = self._root.following, self._runtime
        if not following.waits:
            select.select([self._root.connection], [], [], IDLE_S)
            return
        with runtime.monitor:
            runtime.wait(lambda: following.stirs(self._view()), LOOK_S)

    def _view(self) -> f.View:
        runtime = self._runtime
        with runtime.monitor:
            machine = runtime.machine
            return f.View(
                runtime.threads.now(),
                machine.members.places(),
                frozenset(machine.arrived),
                frozenset(machine.parting),
            )

    def _carry_out(self, orders: Iterable[f.Order]) -> None:
        """All of them, and what follows from them."""
        waiting = deque(orders)
        while waiting:
            waiting += self._do(waiting.popleft())

    def _do(self, order: f.Order) -> list[f.Order]:
        runtime = self._runtime
        match order:
            case f.TurnAway():
                runtime.turn_away(order.places, "they are not wanted any more")
            case f.Release():
                runtime.let_leave(order.places)
            case f.Keep():
                runtime.keep(order.places)
            case f.Lose():
                runtime.lost(order.place, order.why)
            case f.Say():
                _say(order.text)
            case f.EndTurn():
                self._end_turn()
            case _:
                return self._ask(order)
        return []

    def _ask(self, question: f.Question) -> list[f.Order]:
        problem = ""
        chosen: Sequence[int] = ()
        before_s = self._malleability.asked_s if self._handler is not None else 0.0
        try:
            chosen = self._put(question)
        except NoHandlerError:
            return []  # gone a moment ago: ``_on_change`` is about to answer what is open, as late and not as failed
        except Exception as error:  # noqa: BLE001 - whatever a handler raises: the program goes on
            if not isinstance(error, PliantError):
                traceback.print_exc()
            problem = str(error)
        seconds = self._malleability.asked_s - before_s if self._handler is not None else 0.0
        return self._root.asked(self._view(), question.resize, seconds, problem, chosen)

    def _put(self, question: f.Question) -> Sequence[int]:
        """Ask the handler; the places that are to leave, where that is asked."""
        malleability = self._malleability
        handler = self._handler = self._handler or malleability.take_turn()
        match question:
            case f.PreGrow():
                malleability.prepare_growth(handler, question.count)
            case f.Join():
                malleability.complete_growth(handler, question.places)
            case f.PostGrow():
                malleability.call_off_growth(handler, question.count)
            case f.PreShrink():
                return malleability.choose(handler, question.count, question.wanted)
            case f.PostShrink():
                malleability.complete_shrink(handler, question.count, question.removed)
        return ()

    def _end_turn(self) -> None:
        if self._handler is not None:
            self._handler = None
            self._malleability.end_turn()


def _say(text: str) -> None:
    sys.stderr.write(f"pliant: {text}\n")
    sys.stderr.flush()


def _pass_on(text: str) -> None:
    _say(f"the scheduler says: {text}")

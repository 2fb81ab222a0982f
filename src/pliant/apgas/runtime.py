"""A place that runs: its machine, the threads that run its tasks, and what carries messages to other places."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from pliant.apgas.errors import BadPlaceException, DeadPlaceException, MultipleException
from pliant.apgas.place.finishes import Home
from pliant.apgas.place.machine import PlaceMachine, Ready
from pliant.apgas.place.messages import AnyMessage, FinishId, Payload, Stop
from pliant.apgas.place.payload import name_of, pack, pack_call, pack_error, told, unpack, unpack_error
from pliant.apgas.transport import forks
from pliant.apgas.transport.threads import Threads
from pliant.model.errors import PliantError

T = TypeVar("T")


class Transport(Protocol):
    """Carries messages between places; what arrives is given to the runtime's ``receive``, and a connection that fails
    to its ``lost``, in a thread of the transport's own."""

    address: str
    """Where others reach this place."""

    def connect(self, place: int, address: str) -> None:
        """``place`` is to be reached at ``address``; at once, messages wait until it is."""

    def send(self, place: int, message: AnyMessage, payload: Payload) -> None:
        """Send in order; what cannot arrive is dropped. The payload may be changed as soon as this returns."""

    def disconnect(self, place: int) -> None:
        """What was sent still goes out; nothing more comes in."""

    def close(self) -> None:
        """The same for all, within a few seconds."""

    def forked(self) -> None:
        """This process was forked: close what it has of the connections, and leave them as they are."""


class _Context(threading.local):
    """What the thread that runs is doing."""

    runtime: Runtime | None = None
    finish: FinishId | None = None
    counted = False
    """Whether it has one of the place's workers."""


context = _Context()


def current() -> Runtime:
    """The place that this thread belongs to; PliantError outside of any."""
    if context.runtime is None:
        raise PliantError(
            "there is no place here: call this within the function that apgas.run was given, or in a task of it; "
            "a process that a task has forked is none"
        )
    return context.runtime


@contextlib.contextmanager
def lent_worker() -> Iterator[None]:
    """``with``: this thread waits for what is not the runtime's. If it has a worker, others get that meanwhile."""
    runtime = context.runtime if context.counted else None
    if runtime is None:
        yield
        return
    runtime.count_busy(-1)
    try:
        yield
    finally:
        runtime.count_busy(+1)


class Finish(AbstractContextManager["Finish"]):
    """``with finish():`` ends when all tasks that were spawned in it, transitively and anywhere, have ended."""

    def __init__(self) -> None:
        self._runtime = current()
        self._open: list[tuple[Home, FinishId | None]] = []
        """The finish, and the one around it; none before and after."""

    @property
    def id(self) -> FinishId:
        """Its name; only while it is open."""
        return self._open[0][0].finish

    def __enter__(self) -> Self:
        home = self._runtime.open_finish()
        self._open.append((home, context.finish))
        context.finish = home.finish
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        home, context.finish = self._open.pop()
        raised = self._runtime.end_finish(
            home, abandon=error is not None and not isinstance(error, Exception)
        )
        if raised:
            own = [error] if isinstance(error, Exception) else []
            raise MultipleException(f"{len(raised)} of the tasks failed", [*own, *raised]) from None


class Within:
    """What the thread does counts elsewhere."""

    def __init__(self, runtime: Runtime, finish: FinishId | None) -> None:
        self._runtime, self._finish = runtime, finish
        self._before: tuple[Runtime | None, FinishId | None] = (None, None)

    def __enter__(self) -> None:
        self._before = context.runtime, context.finish
        context.runtime, context.finish = self._runtime, self._finish

    def __exit__(self, *_: object) -> None:
        context.runtime, context.finish = self._before


class Runtime:
    """``workers`` tasks run at a time; one that waits for others lends its worker to them."""

    def __init__(self, here: int, threads: Threads, workers: int) -> None:
        self.here = here
        self.workers = workers
        self.threads = threads
        self.machine = PlaceMachine(here)
        self.monitor = threads.monitor()
        self.transport: Transport | None = None
        self.uncounted_failures = 0
        """Tasks that raised and that no finish waits for."""
        self.objects: dict[Any, Any] = {}
        """What global references of this place and place-local objects stand for."""
        self._figures: dict[int, Counter[str]] = {}
        """At place 0: by place what it has done, for whoever reads of the job."""
        self._busy = 0
        self._idle = 0
        self._urgent_runs = False
        self._connected: set[int] = set()
        self.on_death: dict[str, Callable[[], object]] = {}
        """Called, with the lock held, when places have died."""
        self.on_load: dict[str, Callable[[], int]] = {}
        """Called, with the lock held, for what is to be done here that is no task yet."""
        self.on_end: dict[str, Callable[[bool], object]] = {}
        """Called at place 0 when the main function is over, with whether it has returned."""
        self._deaths = 0
        forks.tell(self)

    def forked(self) -> None:
        """This process was forked by a task, and is no place: it says and hears nothing."""
        self.monitor = self.threads.monitor()  # another thread may have had the lock
        transport, self.transport = self.transport, None
        if transport is not None:
            transport.forked()
        self.machine.stopped = f"this process was forked at place({self.here}), and is no place itself"
        context.__dict__.clear()

    # ---- the API's part --------------------------------------------------------------------------------

    def open_finish(self) -> Home:
        with self.monitor:
            return self.machine.open_finish()

    def end_finish(self, home: Home, *, abandon: bool) -> list[Exception]:
        """The body is over: wait for the tasks, and return what they raised. To ``abandon`` it is not to wait."""
        with self.monitor:
            self.machine.finish_ended(home.finish)
            self._flush()
            if not abandon:
                self._wait(lambda: home.over, home.finish)
            self.machine.close_finish(home)
            self._flush()
            dead = self.machine.members.dead
            lost: list[Exception] = [
                DeadPlaceException(place, dead.get(place, ""), "it had tasks of this finish")
                for place in sorted(home.lost)
            ]
        return lost + [unpack_error(each) for each in home.raised]

    def spawn(
        self, place: int, fn: Callable[..., object], args: tuple[object, ...], *, counted: bool, urgent: bool
    ) -> None:
        """Run ``fn(*args)`` at ``place``, in the current finish if ``counted``."""
        name, finish = name_of(fn), context.finish if counted else None
        if place == self.here:
            with self.monitor:
                self.machine.spawn(name, finish, lambda: fn(*args), urgent=urgent)
                self._flush()
            return
        payload = pack_call(fn, args, name, place)
        with self.monitor:
            self.machine.send(place, name, finish, payload, urgent=urgent)
            self._flush()

    def tell(self, place: int, what: Callable[..., object], *args: object) -> None:
        """Have ``what(*args)`` run at ``place``, in no finish and without waiting for a worker there. TypeError if it
        cannot be pickled, BadPlaceException or DeadPlaceException if there is no such place."""
        with self.within(None):
            self.spawn(place, what, args, counted=False, urgent=True)

    def tell_if_there(self, place: int, what: Callable[..., object], *args: object) -> None:
        """As :meth:`tell`; nothing if the place has gone."""
        with contextlib.suppress(BadPlaceException, DeadPlaceException):
            self.tell(place, what, *args)

    def spawn_apart(self, fn: Callable[[], object]) -> None:
        """Run ``fn()`` here in the current finish, in a thread of its own that waits for no worker."""
        task = Ready(name_of(fn), context.finish, fn, self.here)

        def run() -> None:
            context.runtime, context.counted = self, False
            with self.monitor:
                self._run(task)
                self._flush()

        with self.monitor:
            self.machine.begin(task)
            self.threads.start(run, f"place {self.here} {task.name}")

    def call(
        self, place: int, fn: Callable[..., Any], args: tuple[object, ...], *, urgent: bool = False
    ) -> Any:
        """The value of ``fn(*args)`` at ``place``; raises what it raises, or DeadPlaceException."""
        if place == self.here:
            return fn(*args)
        name = name_of(fn)
        payload = pack_call(fn, args, name, place)
        machine = self.machine
        with self.monitor:
            number = machine.send(place, name, context.finish, payload, urgent=urgent, wanted=True)
            self._flush()
            call = machine.calls[number]
            self._wait(lambda: call.done, topic=number)
            del machine.calls[number]
            machine.settle()
            self._flush()
        if call.died:
            raise DeadPlaceException(place, call.died, f"{name} was to run there")
        if call.raised:
            raise unpack_error(bytes(call.payload[0]))
        return unpack(call.payload)

    def load(self) -> tuple[int, int]:
        """What is to be done here: tasks that are ready or running, and what is none yet; and the workers."""
        with self.monitor:
            return self.machine.tasks + sum(ready() for ready in self.on_load.values()), self.workers

    def note_figures(self, place: int, figures: Mapping[str, float]) -> None:
        """At place 0: ``place`` has done this; it adds to what it had done before."""
        with self.monitor:
            self._figures.setdefault(place, Counter()).update(figures)

    def told_figures(self) -> dict[int, dict[str, float]]:
        """What places have done, those that came first if there were very many: one message takes it all."""
        with self.monitor:
            return {place: dict(self._figures[place]) for place in sorted(self._figures)[:MOST_TOLD]}

    # ---- the transport's part ----------------------------------------------------------------------------

    def receive(self, sender: int, message: AnyMessage, payload: Payload) -> None:
        with self.monitor:
            self.machine.receive(sender, message, payload)
            self._flush()

    def lost(self, place: int, why: str) -> None:
        with self.monitor:
            self.machine.lost(place, why)
            self._flush()

    # ---- the life of a place -----------------------------------------------------------------------------

    def main(self, fn: Callable[[], T]) -> T:
        """At place 0: run ``fn`` in this thread, in a finish of its own."""
        context.runtime, context.counted = self, True
        with self.monitor:
            self._busy += 1
        try:
            with Finish():
                value = fn()
                self._end(orderly=True)
                return value
        finally:
            self._end(orderly=False)
            context.runtime, context.counted = None, False
            with self.monitor:
                self._busy -= 1

    def _end(self, *, orderly: bool) -> None:
        while self.on_end:
            _, end = self.on_end.popitem()
            end(orderly)

    def count_busy(self, by: int) -> None:
        """So many more threads have a worker."""
        with self.monitor:
            self._busy += by
            self._flush()

    def wait(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Wait for ``done`` with the lock held, and lend the worker meanwhile; False when the time is over."""
        return self._wait(done, timeout_s=timeout_s)

    def within(self, finish: FinishId | None) -> Within:
        """``with``: what is spawned in this thread belongs to ``finish``, in which the caller has a task that is not
        over."""
        return Within(self, finish)

    def hold(self, finish: FinishId) -> bool:
        """At its home: a new task of ``finish``, to be ended by ``let_go``, so that it is not over before. False if it
        is."""
        with self.monitor:
            return self.machine.hold(finish)

    def let_go(self, finish: FinishId) -> None:
        with self.monitor:
            self.machine.finish_ended(finish)
            self._flush()

    def flush(self) -> None:
        """Carry out what the machine has decided."""
        with self.monitor:
            self._flush()

    def serve(self) -> str:
        """At another place: run tasks until it is to end; returns why."""
        with self.monitor:
            self.monitor.wait_for(lambda: self.machine.stopped is not None, None)
        return self.machine.stopped or ""

    def stop_all(self, why: str = "") -> None:
        """At place 0: end all other places."""
        with self.monitor:
            for place in sorted({*self.machine.members.others, *self.machine.arrived}):
                self.machine.out.append((place, Stop(why), ()))
            self.machine.stopped = self.machine.stopped or why
            self._flush()

    def await_arrival(self, places: Collection[int], timeout_s: float) -> set[int]:
        """At place 0: wait until ``places`` have said hello, or are known to be lost. Returns those that still
        may come."""
        machine = self.machine

        def missing() -> set[int]:
            return set(places) - machine.arrived.keys() - machine.members.dead.keys()

        with self.monitor:
            self.wait(lambda: not missing(), timeout_s)
            return missing()

    def admit(self, places: Collection[int]) -> None:
        """At place 0: take in ``places`` that have said hello."""
        with self.monitor:
            self.machine.admit(sorted(set(places) & self.machine.arrived.keys()))
            self._flush()

    def turn_away(self, places: Collection[int], why: str) -> None:
        """At place 0: ``places`` are not wanted any more, if they have come."""
        with self.monitor:
            self.machine.turn_away(sorted(places), why)
            self._flush()

    def let_leave(self, places: Collection[int]) -> None:
        """At place 0: let ``places`` leave when their tasks are over; the machine's ``parting`` are those that
        have not."""
        with self.monitor:
            self.machine.release(places)
            self._flush()

    def keep(self, places: Collection[int]) -> None:
        """At place 0: those of ``places`` that still have tasks stay after all, when they have said so."""
        with self.monitor:
            self.machine.recall(places)
            self._flush()

    def release(self, places: Collection[int], timeout_s: float) -> list[int]:
        """At place 0: let ``places`` leave when their tasks are over. Returns those that are still busy after
        ``timeout_s``; they stay."""
        with self.monitor:
            self.let_leave(places)
            if self._wait(lambda: self.machine.here_no_more(places), timeout_s=timeout_s):
                return []
            self.keep(places)
            self._wait(
                lambda: not self.machine.undecided(places)
            )  # one that does not answer is lost some day
            kept = sorted(set(places).intersection(self.machine.members.places()))
            self._wait(lambda: self.machine.here_no_more(set(places) - set(kept)), timeout_s=timeout_s)
        return kept

    # ---- threads that run tasks --------------------------------------------------------------------------

    def _flush(self) -> None:
        """Carry out what the machine has decided. The lock is held."""
        machine, transport = self.machine, self.transport
        if transport is not None:
            reached = {**machine.members.addresses, **machine.arrived}
            for place in sorted(reached.keys() - self._connected):
                transport.connect(place, reached[place])
                self._connected.add(place)
            for place, message, payload in machine.out:
                transport.send(place, message, payload)
            for place in self._connected - reached.keys() - machine.parting:
                transport.disconnect(place)
                self._connected.discard(place)
        machine.out.clear()
        if machine.members.deaths != self._deaths:
            self._deaths = machine.members.deaths
            for told in list(self.on_death.values()):
                told()
        if machine.urgent and not self._urgent_runs:
            self._urgent_runs = True
            self.threads.start(self._run_urgent, f"place {self.here} urgent")
        for _ in range(min(len(machine.ready), self.workers - self._busy) - self._idle):
            self._idle += 1
            self.threads.start(self._work, f"place {self.here} worker")
        self._wake()

    def _wake(self) -> None:
        """Let look again who may have waited for what has happened."""
        machine, stopped = self.machine, self.machine.stopped is not None
        for number in machine.calls if stopped else machine.answered:
            self.monitor.notify(number)
        machine.answered.clear()
        may_run = self._idle if stopped else min(len(machine.ready), self.workers - self._busy)
        if may_run > 0:
            self.monitor.notify(READY, may_run)
        self.monitor.notify_all()

    def _work(self) -> None:
        """Run tasks while there are some, in a thread of their own."""
        context.runtime, context.counted = self, True
        machine = self.machine
        with self.monitor:
            while True:
                wanted = self.monitor.wait_for(self._may_run, IDLE_S, READY)
                if not wanted or machine.stopped is not None:
                    self._idle -= 1
                    return
                self._idle -= 1
                self._busy += 1
                self._run(machine.ready.popleft())
                self._busy -= 1
                self._idle += 1
                self._flush()

    def _may_run(self) -> bool:
        return self.machine.stopped is not None or (bool(self.machine.ready) and self._busy < self.workers)

    def _run_urgent(self) -> None:
        """Run urgent tasks, one after the other, whatever else runs."""
        context.runtime, context.counted = self, False
        with self.monitor:
            while self.monitor.wait_for(lambda: bool(self.machine.urgent), IDLE_S):
                self._run(self.machine.urgent.popleft())
                self._flush()
            self._urgent_runs = False

    def _run(self, task: Ready) -> None:
        """Run one task without the lock, which is held before and after."""
        before, context.finish = context.finish, task.finish
        self.monitor.__exit__(None, None, None)
        payload: Payload = ()
        raised = False
        try:
            value = _perform(task)
            if task.call:
                payload = self._pack_value(task, value)
        except BaseException as error:  # noqa: BLE001 - a task's SystemExit ends the task, not the place
            raised, payload = True, [pack_error(error, f"place({self.here}), task {task.name}")]
            if task.finish is None and not task.call:
                self._complain(task, error)
        finally:
            self.monitor.__enter__()
            context.finish = before
        self.machine.ended(task, payload, raised=raised)

    def _pack_value(self, task: Ready, value: object) -> Payload:
        try:
            return pack(value)
        except TypeError as error:
            raise TypeError(
                f"the value of {task.name} cannot be sent to place({task.sender}): {error}"
            ) from error

    def _complain(self, task: Ready, error: BaseException) -> None:
        self.uncounted_failures += 1
        print(  # noqa: T201 - nobody waits for it, so this is the only way to hear of it
            f"pliant: place({self.here}): uncounted task {task.name} failed: {told(error)}",
            file=sys.stderr,
            flush=True,
        )

    def _wait(
        self,
        done: Callable[[], bool],
        finish: FinishId | None = None,
        timeout_s: float | None = None,
        topic: int | None = None,
    ) -> bool:
        """Wait for ``done``, of the call ``topic`` if it is one; the lock is held. Tasks of ``finish``, which must
        end anyway, are run meanwhile by this thread, others by the worker that it lends. PliantError when this place
        is to end."""
        machine, counted = self.machine, context.counted
        over = False
        while not over:
            if finish is not None and (task := self._take(finish)):
                self._run(task)
                self._flush()
                over = done()
                continue
            if counted:
                self._busy -= 1
                self._flush()
            over = self.monitor.wait_for(
                lambda: done() or machine.stopped is not None or self._has(finish), timeout_s, topic
            )
            if counted:
                self._busy += 1
            if timeout_s is not None and not over:
                return done()
            over = done()
            if machine.stopped is not None and not over:
                raise PliantError(f"place({self.here}) ends: {machine.stopped}")
        return True

    def _has(self, finish: FinishId | None) -> bool:
        return finish is not None and any(task.finish == finish for task in self.machine.ready)

    def _take(self, finish: FinishId) -> Ready | None:
        """The newest task of ``finish`` that is ready here."""
        ready = self.machine.ready
        for at in range(len(ready) - 1, -1, -1):
            if ready[at].finish == finish:
                task = ready[at]
                del ready[at]
                return task
        return None


MOST_TOLD = 2000
"""Places, at some hundred bytes each."""
READY = "ready"
"""What idle workers wait for."""
IDLE_S = 1.0
"""A worker that has had nothing to do for so long ends."""


def _perform(task: Ready) -> Any:
    if callable(task.work):
        return forks.perform(task.work)
    fn, args = unpack(task.work)
    return forks.perform(fn, *args)

"""One batch from start to end in the foreground: nodes, jobs, journal, orders from other terminals, signals."""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol

import msgspec

from pliant.core import records as r
from pliant.core.journal import Header, header_line
from pliant.core.settings import Settings
from pliant.daemon import listening
from pliant.daemon.answering import answer
from pliant.daemon.controller import Controller
from pliant.daemon.deadline import TimedPolicy
from pliant.daemon.interrupted import Interrupted
from pliant.daemon.journal import JournalWriter, open_journal
from pliant.drivers import Driver
from pliant.drivers.fork import ForkedNodes
from pliant.drivers.slurm import Allocated, AllocationOver
from pliant.drivers.tree import Hosts, TreeNodes
from pliant.live.cluster import orders as o
from pliant.model.batch import Batch, ClusterSpec
from pliant.model.deadlines import POLICY_PASS_S
from pliant.model.errors import PliantError
from pliant.model.jobs import JobSpec, JobState
from pliant.policy.view import Policy

TICK_S = 0.2
END_S = 2.0
"""How long jobs that are ended with the run have to end in good order."""


class Finished(NamedTuple):
    """All records of a run, and what ended it before its jobs had ended: an Interrupted or an error."""

    records: list[r.Record]
    stopped: PliantError | None = None


class Display(Protocol):
    """Who watches a run."""

    def begun(self, run: str, jobs: int) -> None:
        """First of all: the id by which other commands know the run, and how many jobs it has."""

    def record(self, record: r.Record) -> None:
        """Every record, in order."""

    def tick(self, now: float) -> None:
        """Five times a second, with the time in seconds."""

    def notice(self, text: str) -> None:
        """Something that people have to know and that no record tells."""


class _Nobody:
    def begun(self, run: str, jobs: int) -> None: ...

    def record(self, record: r.Record) -> None: ...

    def tick(self, now: float) -> None: ...

    def notice(self, text: str) -> None: ...


def run_batch(  # noqa: PLR0913 - all but the first two have names
    batch: Batch,
    policy: Policy,
    settings: Settings,
    *,
    output: Path,
    display: Display | None = None,
    hosts: Hosts | None = None,
) -> Finished:
    """Run a batch on virtual nodes of this machine, or on ``hosts``; nothing of it is left afterwards.

    ``output`` gets a file for each job's output and ``records.ndjson``; those of an earlier run there are put aside.
    On hosts it has to be there too: all see the same files. Of the batch's cluster only nodes, slots, labels and
    the deadline of a pass count here. A signal (SIGINT, SIGTERM, SIGHUP) and an error of the policy's end the jobs, and
    the outcome says so.
    """
    jobs, cluster = batch.jobs, batch.cluster
    output = output.absolute()  # jobs have directories of their own
    signals = _Signals()
    with open_journal(output, jobs) as file, _handled(signals.heard):
        run, runtime = listening.new_runtime()
        try:
            timed = TimedPolicy(policy, cluster.pass_deadline_s or POLICY_PASS_S)
            driver = _driver(hosts, cluster, run, runtime)
            controller = Controller(timed, settings, driver, cluster.nodes, output=output)
            display = display or _Nobody()
            display.begun(run, len(jobs))
            foreground = _Foreground(controller, timed, JournalWriter(file), display, signals)
            finished = asyncio.run(foreground.run(jobs, runtime))
        finally:
            shutil.rmtree(runtime, ignore_errors=True)
        late = Interrupted(signals.numbers[0]) if signals.numbers else None
        return finished._replace(stopped=finished.stopped or late)


def _driver(hosts: Hosts | None, cluster: ClusterSpec, run: str, runtime: Path) -> Driver:
    if hosts is None:
        return ForkedNodes(cluster.slots, run, runtime, labels=cluster.labels)
    there = TreeNodes(msgspec.structs.replace(hosts, labels=cluster.labels), cluster.slots, run, runtime)
    return Allocated(there, hosts.allocation) if hosts.allocation else there


async def _over(driver: Driver) -> AllocationOver | None:
    """Whether a signal came as the nodes are being taken back."""
    return await driver.over() if isinstance(driver, Allocated) else None


class _Signals:
    """Those that end a run: heard from before there is anything of it until nothing is left, also while a policy
    decides, when handlers of the event loop would not run."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        """Those that came and that nobody has heeded yet."""
        self.told: Callable[[], object] = lambda: None
        """What is called for each."""

    def heard(self, number: int, _frame: FrameType | None) -> None:
        self.numbers.append(number)
        self.told()


class _Foreground:
    """A controller with its journal, its display and the signals that end it."""

    def __init__(
        self,
        controller: Controller,
        policy: TimedPolicy,
        journal: JournalWriter,
        display: Display,
        signals: _Signals,
    ) -> None:
        self._controller = controller
        self._policy = policy
        self._journal = journal
        self._display = display
        self._records: list[r.Record] = []
        self._problem = ""
        self._signals = signals
        self._came = asyncio.Event()
        controller.sinks.append(self._keep)
        controller.watchers.append(display.notice)

    async def run(self, jobs: tuple[JobSpec, ...], runtime: Path) -> Finished:
        """All of it; raises what is a defect of ours, after everything has been cleaned up."""
        controller = self._controller
        began = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        settings = controller.core.state.settings
        self._journal.write(header_line(Header(began=began, policy=self._policy.name, settings=settings)))
        clock = asyncio.ensure_future(self._tick())
        stopped: PliantError | None = None
        why, state = "", JobState.CANCELLED
        with self._heeding():
            try:
                number = await self._unless_signalled(self._work(jobs, runtime))
                if number:
                    over = await _over(controller.driver)
                    stopped = interrupted = Interrupted(number, over.why if over else "")
                    why, state = interrupted.why, over.state if over else state
            except PliantError as error:
                stopped, why = error, f"the run was ended: {error}"
            finally:
                try:
                    if stopped is not None:
                        await self._unless_signalled(controller.end_jobs(why, END_S, state))
                finally:
                    clock.cancel()
                    controller.end_now(why or "the run ends")
                    await controller.stop()
        return Finished(self._records, stopped or self._unwritten())

    async def _work(self, jobs: tuple[JobSpec, ...], runtime: Path) -> None:
        server = await listening.listen(runtime, lambda request: answer(self._controller, request))
        try:
            await self._controller.start()
            await self._controller.run(jobs)
        finally:
            server.close()

    async def _tick(self) -> None:
        while True:
            self._journal.flush()
            self._heed_journal()
            self._display.tick(self._controller.now)
            await asyncio.sleep(TICK_S)

    # ---- the journal ---------------------------------------------------------------------------------

    def _keep(self, record: r.Record) -> None:
        self._records.append(record)
        self._journal.write(r.to_line(record))
        self._heed_journal()
        self._display.record(record)

    def _heed_journal(self) -> None:
        """While the journal cannot be written nothing is begun; what goes on goes on."""
        problem = self._journal.problem
        if self._journal.full:
            self._controller.fail(PliantError(f"the journal could not be written for too long: {problem}"))
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            self._controller.tell(o.Hold("journal", f"the journal cannot be written: {problem}"))
            self._display.notice(
                f"the journal cannot be written: {problem}; running jobs go on, starts and resizes wait"
            )
        else:
            self._controller.tell(o.Release("journal"))
            self._display.notice("the journal can be written again")

    def _unwritten(self) -> PliantError | None:
        self._journal.flush()
        if not self._journal.problem:
            return None
        return PliantError(f"the journal ends early, as it cannot be written: {self._journal.problem}")

    # ---- signals -------------------------------------------------------------------------------------

    @contextmanager
    def _heeding(self) -> Iterator[None]:
        loop, signals = asyncio.get_running_loop(), self._signals

        def told() -> None:
            loop.call_soon_threadsafe(self._came.set)
            self._policy.abandon()

        nobody, signals.told = signals.told, told
        if signals.numbers:
            self._came.set()
        try:
            yield
        finally:
            signals.told = nobody

    async def _unless_signalled(self, work: Coroutine[Any, Any, None]) -> int:
        """Do it, to the end or until a signal comes, whose number is returned; else 0."""
        task = asyncio.ensure_future(work)
        heard = asyncio.ensure_future(self._came.wait())
        try:
            await asyncio.wait({task, heard}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                number = self._signals.numbers.pop(0)
                if not self._signals.numbers:
                    self._came.clear()
                return number
            await task
            return 0
        finally:
            for each in (task, heard):
                each.cancel()
            await asyncio.wait({task, heard})


@contextmanager
def signals_raised() -> Iterator[None]:
    """The signals that end a run raise Interrupted, wherever it is: for what comes behind the jobs."""

    def heard(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    with _handled(heard):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals that end a run. Those that we were started to ignore stay ignored, as nohup and shells do it
    for background work."""
    before = {
        number: signal.signal(number, handler)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)

"""The controller's shell: one event loop that tells the machine of the cluster what happens, writes the records it
makes, and then carries out what it wants. It decides nothing.

With PLIANT_RECORD=DIR every input, record and output is appended to DIR/controller-PID.ndjson, which
`live/recording.py` plays again. The run's secret is in it, as jobs' tokens follow from that: only its user may
read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from pliant import recorder
from pliant.core import records as r
from pliant.core.core import SchedulerCore
from pliant.core.settings import Settings
from pliant.daemon.deadline import TimedPolicy
from pliant.drivers import Driver, carry_out
from pliant.live import recording
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import RunContext
from pliant.live.control import Control
from pliant.model.errors import PliantError
from pliant.model.jobs import JobSpec, JobState
from pliant.policy.view import Policy

TAIL_BYTES = 1 << 16


class Controller:
    """``nodes`` of a driver's nodes to begin with, and the jobs on them. ``sinks`` get every record, before anything is
    done for it. One that goes on has the ``records`` of the journal of the controller before it."""

    def __init__(  # noqa: PLR0913 - all but the first four have names
        self,
        policy: Policy,
        settings: Settings,
        driver: Driver,
        nodes: int = 0,
        *,
        output: Path,
        records: Sequence[r.Record] | None = None,
    ) -> None:
        self.driver = driver
        context = RunContext(str(output), os.getcwd(), driver.env, driver.secret or secrets.token_bytes(16))  # noqa: PTH109
        self._nodes = nodes
        self._control = Control.of(policy, settings, context, driver.site, records or ())
        self._resumed = records is not None
        self._policy = policy
        self._recorder = recorder.Recorder(recorder.directory(), f"controller-{os.getpid()}")
        began = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        begin = recording.RecordingHead(context, settings, policy.name, began, driver.site)
        self._recorder.write(recording.head(begin, records))
        self.sinks: list[Callable[[r.Record], None]] = []
        self.watchers: list[Callable[[str], None]] = []
        """They receive news for users that no record holds."""
        self._inputs: list[o.AnyInput] = []
        self._due = False
        self._timers: dict[o.Key, asyncio.TimerHandle] = {}
        self._began = 0.0
        self._up = asyncio.Event()
        """Time goes on: the nodes are there with which the run begins."""
        self._idle = asyncio.Event()
        self._crash: BaseException | None = None

    @property
    def core(self) -> SchedulerCore:
        """The scheduler, to be looked at."""
        return self._control.cluster.core

    # ---- life ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bring the nodes up; time 0 is when all of them are there. One that goes on does so from its last record."""
        loop = asyncio.get_running_loop()
        self._began = loop.time() - self.core.state.now
        if self._resumed:
            self._up.set()
            self._inputs.append(o.Resumed("the controller was started again"))  # the first that it hears
        await self.driver.open(self.tell)
        if not self._resumed:
            self.tell(o.Begin(self._nodes))
            await self._up.wait()
            if self._crash is not None:
                raise self._crash
        self._handle()

    async def run(self, jobs: tuple[JobSpec, ...]) -> None:
        """Submit the jobs at their times and return when all have ended and all nodes are clean."""
        if self._crash is None:
            self._idle.clear()  # there was nothing to do before there were jobs
        self.tell(o.Batch(jobs))
        await self._idle.wait()
        if self._crash is not None:
            raise self._crash

    async def end_jobs(self, why: str, patience_s: float, state: JobState = JobState.CANCELLED) -> None:
        """End all jobs, in good order if that takes no longer than ``patience_s``; those that run end in ``state``."""
        self._idle.clear()
        self._crash = None
        self.tell(o.EndAll(why, state))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), patience_s)

    def end_now(self, why: str) -> None:
        """Book the end of all jobs that have not ended: what is left of them ends with their agents."""
        self._inputs.append(o.EndNow(why))
        self._handle()

    def fail(self, error: Exception) -> None:
        """End ``run`` with this error."""
        if self._crash is None:
            self._crash = error
        self._idle.set()
        self._up.set()

    async def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        await self.driver.close()

    @property
    def now(self) -> float:
        """Seconds since all nodes were there; 0 before."""
        return asyncio.get_running_loop().time() - self._began if self._up.is_set() else 0.0

    # ---- the machine ---------------------------------------------------------------------------------

    def tell(self, given: o.AnyInput) -> None:
        """Note what has happened; all that is noted before the loop turns again is handled together."""
        self._inputs.append(given)
        self._handle_soon()

    def _handle_soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._handle)

    def _handle(self) -> None:
        self._due = False
        inputs, self._inputs = self._inputs, []
        now = self.now
        try:
            records, outputs = self._machine(inputs, now)
            if records and not self._up.is_set():
                self._began = asyncio.get_running_loop().time()
                self._up.set()
            for record in records:
                for sink in self.sinks:
                    sink(record)
            for output in outputs:
                self._carry_out(output)
        except Exception as error:  # noqa: BLE001 - whatever it is, run() raises it after the clean-up
            self.fail(error)
            return
        if self._inputs or self._control.pending:
            self._handle_soon()
        elif self._control.cluster.idle:
            self._idle.set()

    def _machine(self, inputs: list[o.AnyInput], now: float) -> tuple[list[r.Record], list[o.Output]]:
        """What the machine makes of it, recorded if that is wanted."""
        if not self._recorder.on:
            return self._control.handle(inputs, now)
        try:
            records, outputs = self._control.handle(inputs, now)
        except Exception:
            self._recorder.write(recording.line(inputs, now, cut=True))
            raise
        cut = isinstance(self._policy, TimedPolicy) and self._policy.cut
        self._recorder.write(recording.line(inputs, now, records, outputs, cut=cut))
        return records, outputs

    def _carry_out(self, output: o.Output) -> None:
        if carry_out(self.driver, output):
            return
        match output:
            case o.CannotBegin():
                self.fail(PliantError(output.why))
            case o.SetTimer():
                self._set_timer(output)
            case o.Notice():
                for watcher in self.watchers:
                    watcher(output.text)
            case o.ReadTail():
                self.tell(o.Tail(output.job, end_of(Path(output.path))))
            case o.Log():
                with contextlib.suppress(OSError), Path(output.path).open("a") as file:
                    file.write(f"pliant: {output.text}\n")

    def _set_timer(self, timer: o.SetTimer) -> None:
        def fire() -> None:
            if self._timers.get(timer.key) is handle:
                del self._timers[timer.key]
            self.tell(o.Fired(timer.key))

        if (earlier := self._timers.pop(timer.key, None)) is not None:
            earlier.cancel()
        handle = asyncio.get_running_loop().call_at(self._began + timer.at, fire)
        self._timers[timer.key] = handle


def end_of(path: Path) -> str:
    """The last lines of a file, as far as it can be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            return file.read().decode(errors="replace").rstrip()
    except OSError:
        return ""

"""One batch from start to end in the foreground: nodes, jobs, journal, orders from other terminals, signals."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import fcntl
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from pliant.core import events as e
from pliant.core import records as r
from pliant.core.state import Settings
from pliant.daemon import control
from pliant.daemon.controller import Controller
from pliant.daemon.jobs import log_file
from pliant.model.errors import PliantError
from pliant.model.jobs import JobSpec
from pliant.model.nodes import NodeSet, parse_hostlist
from pliant.policy.view import Policy

TICK_S = 0.2


class Interrupted(PliantError):  # noqa: N818 - no error of anybody's
    """A signal ended the run; ``number`` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}; all jobs were ended and cleaned up")
        self.number = number


def run_batch(
    jobs: tuple[JobSpec, ...],
    policy: Policy,
    settings: Settings,
    *,
    nodes: int,
    slots: int,
    output: Path,
    record: Callable[[r.Record], None] | None = None,
    tick: Callable[[float], None] | None = None,
) -> list[r.Record]:
    """Run a batch on virtual nodes of this machine and return its records.

    ``output`` gets a file for each job's output and ``records.ndjson``. ``record`` is called for each record,
    ``tick`` five times a second with the time in seconds. Raises Interrupted on SIGINT and SIGTERM, after
    everything has been cleaned up.
    """
    output = output.absolute()  # jobs have directories of their own
    journal = _open_journal(output)
    for job in jobs:
        log_file(output, job).unlink(missing_ok=True)
    run, runtime = control.new_runtime()
    try:
        return asyncio.run(
            _run(jobs, policy, settings, nodes, slots, output, journal, run, runtime, record, tick)
        )
    finally:
        shutil.rmtree(runtime, ignore_errors=True)


def _open_journal(output: Path) -> BinaryIO:
    """The empty journal of a new run in ``output``, locked; PliantError if it cannot be written."""
    path = output / "records.ndjson"
    try:
        output.mkdir(parents=True, exist_ok=True)
        journal = path.open("ab")
    except OSError as error:
        raise PliantError(f"{path}: cannot be written: {error.strerror}; choose another --output") from None
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        journal.close()
        raise PliantError(f"{path}: another run is writing there; choose another --output") from None
    journal.truncate(0)
    return journal


async def _run(
    jobs: tuple[JobSpec, ...],
    policy: Policy,
    settings: Settings,
    nodes: int,
    slots: int,
    output: Path,
    opened: BinaryIO,
    run: str,
    runtime: Path,
    record: Callable[[r.Record], None] | None,
    tick: Callable[[float], None] | None,
) -> list[r.Record]:
    kept: list[r.Record] = []
    began = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    with opened as journal:

        def sink(each: r.Record) -> None:
            kept.append(each)
            journal.write(r.to_line(each))
            journal.flush()
            if record is not None:
                record(each)

        controller = Controller(
            policy, settings, nodes=nodes, slots=slots, runtime=runtime, run=run, output=output, sinks=(sink,)
        )
        journal.write(r.to_line(r.Header(began, controller.names, policy.name)))
        stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, _stop, stopped, number)
        work = asyncio.ensure_future(_work(controller, jobs, runtime))
        clock = asyncio.ensure_future(_tick(controller, tick))
        try:
            work.add_done_callback(lambda _: _stop(stopped, 0))
            await stopped
            if not work.done():
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
                raise Interrupted(stopped.result())
            await work
        finally:
            clock.cancel()
            await controller.stop()
    return kept


def _stop(stopped: asyncio.Future[int], number: int) -> None:
    if not stopped.done():
        stopped.set_result(number)


async def _work(controller: Controller, jobs: tuple[JobSpec, ...], runtime: Path) -> None:
    server = await control.listen(runtime, lambda request: answer(controller, request))
    try:
        await controller.start()
        await controller.run(jobs)
    finally:
        server.close()


async def _tick(controller: Controller, tick: Callable[[float], None] | None) -> None:
    while tick is not None:
        tick(controller.now)
        await asyncio.sleep(TICK_S)


def answer(controller: Controller, request: control.Request) -> control.Answer:
    """Carry out another terminal's request."""
    if request.verb == "queue":
        return control.Answer(jobs=controller.describe())
    if request.verb != "resize":
        return control.Answer(error=f"unknown verb {request.verb!r}")
    state = controller.core.state
    matches = [job for job in state.jobs.values() if request.job in (str(job.id), job.spec.name)]
    if not matches:
        known = ", ".join(f"{job.id} ({job.spec.name})" for job in state.jobs.values()) or "none"
        return control.Answer(error=f"no pending or running job {request.job!r}; there are: {known}")
    job = matches[0]
    try:
        leave = NodeSet.of(controller.names.index(name) for name in parse_hostlist(request.leave))
    except ValueError:
        return control.Answer(error=f"{request.leave!r} names a node that is not of this cluster")
    if (why := controller.core.refusal(job.id, request.size, leave)) is not None:
        return control.Answer(error=why)
    controller.happened(e.Ordered(job.id, request.size, leave))
    if request.size == 0:
        return control.Answer(text=f"job {job.id} ({job.spec.name}) is the policy's again")
    return control.Answer(
        text=f"job {job.id} ({job.spec.name}): ordered from {job.size} to {request.size} nodes"
    )

"""Jobs under a real controller, one after the other on nodes of this machine, resized by order while they run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import statistics
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.daemon import listening
from pliant.daemon.controller import Controller
from pliant.daemon.journal import log_file
from pliant.drivers.fork import ForkedNodes
from pliant.live.cluster import orders as o
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.kinds import JobKind
from pliant.policy.easy import Easy
from pliant_lab.measure.programs import Figures

LIMIT_S = 600.0
"""What a job may take."""
END_S = 2.0
"""What jobs get to end when a measurement is broken off."""


class Change(NamedTuple):
    """A resize by ``nodes`` that was done. ``seconds`` from its offer on: of a growth until the controller has
    booked what the program says after post_grow; of a shrink until all nodes are proved clean, the last ``clean_s`` of
    it after it was booked; the job stood still for ``blocked_s``. ``phases`` are the program's own."""

    nodes: int
    grows: bool
    seconds: float
    clean_s: float
    blocked_s: float
    phases: dict[str, float]


Watch = Callable[[Change], bool]
"""Is told of each change; no more is ordered once it says False."""


class Job(NamedTuple):
    """What came of a job: its program's figures, what was changed while it ran, and the seconds from the order
    to start it until the scheduler knew that it can be resized."""

    figures: Figures
    changes: list[Change]
    startup_s: float


class Machine:
    """A controller with nodes n0, n1, ... and every record that it has made."""

    def __init__(self, controller: Controller, output: Path, run: str) -> None:
        self.run_id = run
        """What the cookies of its processes say."""
        self._controller = controller
        self._output = output
        self._records: list[r.Record] = []
        self._more = asyncio.Event()
        self._jobs = 0
        self._running: asyncio.Future[None] | None = None
        controller.sinks.append(self._note)

    def _note(self, record: r.Record) -> None:
        self._records.append(record)
        self._more.set()

    async def run(  # noqa: PLR0913, PLR0917 - what a job can have
        self,
        command: Sequence[str],
        sizes: Sequence[int],
        kind: JobKind = JobKind.PLACES,
        watch: Watch | None = None,
        env: Mapping[str, str] | None = None,
        mpi: str = "",
    ) -> Job:
        """Run ``python`` with the words of ``command`` as a job, which prints its figures as one line of JSON. It
        starts with ``sizes[0]`` nodes, and is ordered to the other sizes, around and around until it ends, or ``watch``
        has seen enough. ``mpi`` is the one that it loads, if not our own. PliantError if it fails, or takes longer than
        LIMIT_S; and what ended the controller, if that was ended."""
        self._jobs += 1
        number, first = self._jobs, len(self._records)
        spec = JobSpec(
            name=f"job{number}",
            nodes=Bounds(min(sizes), max(sizes), preferred=sizes[0]),
            job_class=JobClass.MALLEABLE if len(set(sizes)) > 1 else JobClass.RIGID,
            command=(sys.executable, *command),
            kind=kind,
            env=dict(env or {}),
            mpi=mpi,
        )
        log = log_file(self._output, spec)
        self._running = asyncio.ensure_future(self._controller.run((spec,)))
        self._running.add_done_callback(lambda _: self._more.set())
        try:
            async with asyncio.timeout(LIMIT_S):
                startup_s = await self._started(number, first)
                changes = await self._resize(number, first, sizes, watch) if len(set(sizes)) > 1 else []
                await self._running
        except TimeoutError:
            raise PliantError(f"{' '.join(command)} has not ended within {LIMIT_S:g} s; see {log}") from None
        finally:
            self._running.cancel()
        end = next(each for each in self._records[first:] if isinstance(each, r.JobEnded))
        said = log.read_text(encoding="utf-8", errors="replace").splitlines()
        figures = [line for line in said if line.startswith("{")]
        if end.state is not JobState.COMPLETED or not figures:
            why = end.error or " ".join(said[-1:])
            raise PliantError(f"{' '.join(command)} ended as {end.state}: {why}")
        return Job(json.loads(figures[-1]), changes, startup_s)

    async def _started(self, job: int, first: int) -> float:
        """Wait until the job can be resized, or has ended."""
        start, _ = await self._next(job, first, r.JobStarted, r.JobEnded)
        on, _ = await self._next(job, first, r.JobMalleable, r.JobEnded)
        return on.at - start.at

    async def _resize(self, job: int, begin: int, sizes: Sequence[int], watch: Watch | None) -> list[Change]:
        changes: list[Change] = []
        while not changes or watch is None or watch(changes[-1]):
            self._controller.tell(o.Resize(job, sizes[(len(changes) + 1) % len(sizes)]))
            made = await self._change(job, begin)
            if made is None:
                return changes
            change, begin = made
            changes.append(change)
        return changes

    async def _change(self, job: int, begin: int) -> tuple[Change, int] | None:
        """Wait until what was ordered has been done; None when the job has ended, or is about to and declines. And the
        number of the record after it: the job may end before its nodes are clean."""
        offer, at = await self._next(job, begin, r.ResizeOffered, r.JobEnded)
        if not isinstance(offer, r.ResizeOffered):
            return None
        done, at = await self._next(job, at, r.ResizeDone, r.ResizeDeclined, r.ResizeFailed, r.JobEnded)
        if isinstance(done, r.ResizeFailed) and not done.late:
            raise PliantError(f"a resize from {offer.before} to {offer.after} nodes has failed: {done.error}")
        if not isinstance(done, r.ResizeDone):
            return None
        last, dirty, after = done.at, done.released, at
        while dirty:
            clean, at = await self._next(job, at, r.NodesClean)
            assert isinstance(clean, r.NodesClean)  # noqa: S101 - nothing else was asked for
            last, dirty = clean.at, dirty - clean.nodes
        by = abs(offer.after - offer.before)
        grows = offer.after > offer.before
        return Change(by, grows, last - offer.at, last - done.at, done.blocked_s, done.phases), after

    async def _next(self, job: int, at: int, *kinds: type[r.Record]) -> tuple[r.Record, int]:
        """The first record of the job from the ``at``-th on that is of one of these kinds, and the number after its
        own. PliantError if there is none to come; and what ended the controller, if that was ended."""
        while True:
            for number in range(at, len(self._records)):
                record = self._records[number]
                if isinstance(record, kinds) and getattr(record, "job", 0) == job:
                    return record, number + 1
            at = len(self._records)
            if self._running is not None and self._running.done():
                self._running.result()
                names = " or ".join(kind.__name__ for kind in kinds)
                raise PliantError(f"job {job} has ended, and there was no {names} of it: was a node lost?")
            self._more.clear()
            await self._more.wait()


@contextlib.asynccontextmanager
async def machine(nodes: int, output: Path, slots: int = 1) -> AsyncIterator[Machine]:
    """Nodes of ``slots`` slots with their agents; nothing of them is left afterwards. Logs of jobs go to ``output``."""
    run, runtime = listening.new_runtime()
    controller = Controller(Easy(), Settings(), ForkedNodes(slots, run, runtime), nodes, output=output)
    try:
        await controller.start()
        yield Machine(controller, output, run)
    finally:
        try:
            await controller.end_jobs("the measurement was ended", END_S)
        finally:
            controller.end_now("the measurement is over")
            await controller.stop()
            shutil.rmtree(runtime, ignore_errors=True)


def median_s(jobs: Sequence[Job], *, grows: bool) -> float:
    """The median of all that have grown, or shrunk; PliantError if none has."""
    found = [each.seconds for job in jobs for each in job.changes if each.grows == grows]
    if not found:
        raise PliantError(f"no job has {'grown' if grows else 'shrunk'} before it ended; give it more to do")
    return statistics.median(found)

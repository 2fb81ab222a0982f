"""The nodes of a Slurm allocation. Slurm takes them back: at a time that it tells, or when the allocation is cancelled.
What follows from that for jobs must not look like a failure of theirs, so that Slurm is asked before it is told.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from pliant.drivers import Driver, Event, Tell
from pliant.live.cluster import orders as o
from pliant.model.jobs import JobState
from pliant.protocol import messages as m

JOB, END_TIME = "SLURM_JOB_ID", "SLURM_JOB_END_TIME"
ASK_S = 5.0
"""How long Slurm may take to answer."""
TRIES = 3
PAUSE_S = 1.0
"""The least time between two questions to Slurm, however many ranks fail."""
EARLY_S = (330.0, 30.0)
"""Seconds before the end at which Pliant asks Slurm for a new limit: ahead of the warning, and of the end."""
LEAST_S = 30.0
"""The least change of a limit that counts: Slurm counts in minutes."""
FOREVER_S = 365 * 86400.0
"""Seconds that stand for a lifted limit."""
ALIVE = ("RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "CONFIGURING", "PENDING")


class Status(NamedTuple):
    """An allocation's state in Slurm, the reason for it, and the seconds that are left; None without a limit."""

    state: str
    reason: str = ""
    left_s: float | None = None

    @property
    def is_over(self) -> bool:
        return self.state not in ALIVE


class AllocationOver(NamedTuple):
    """An allocation has ended: ``why``, and the state in which its jobs end."""

    why: str
    state: JobState


def question(job: str) -> list[str]:
    """The command that asks for an allocation's status. The last one of a job array has the number of the array, and
    squeue answers then with a line for each."""
    return ["squeue", "--noheader", f"--jobs={job}", "--format=%A|%T|%r|%L"]


def status_of(job: str, answer: str) -> Status | None:
    """What the line of the allocation says; None if nothing."""
    for line in answer.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) == 4 and words[0] == job and words[1]:
            _, state, reason, left = words
            return Status(state, "" if reason == "None" else reason, seconds_of(left))
    return None


def seconds_of(text: str) -> float | None:
    """Of a time as Slurm writes it, ``[days-][hours:]minutes:seconds``; none of ``UNLIMITED``."""
    if text == "INVALID":
        return 0.0  # what is past
    if not re.fullmatch(r"(\d+-)?\d+(:\d+){1,2}", text):
        return None
    days, _, clock = text.rpartition("-")
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return float(int(days or 0) * 86400 + seconds)


def how_ended(job: str, status: Status) -> AllocationOver:
    """How an allocation has ended, in words."""
    match status.state, status.reason:
        case ("TIMEOUT", _) | (_, "TimeLimit"):
            return AllocationOver(f"Slurm job {job} has come to its time limit", JobState.TIMEOUT)
        case ("COMPLETING" | "CANCELLED", ""):
            return AllocationOver(f"Slurm job {job} was cancelled", JobState.CANCELLED)
        case state, reason:
            return AllocationOver(f"Slurm has ended job {job}: {reason or state}", JobState.CANCELLED)


async def ask(job: str) -> Status | None:
    """The allocation's status now; None if Slurm does not say it. In a job script, the question is ended by the very
    signal that is asked about: then it is asked again."""
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(ASK_S):
            for _ in range(TRIES):
                code, answer, error = await _run(question(job))
                if b"Invalid job id" in error:
                    return Status("CANCELLED")  # it has been forgotten
                if code >= 0:
                    return status_of(job, answer.decode(errors="replace"))
    return None


async def _run(words: Sequence[str]) -> tuple[int, bytes, bytes]:
    """The exit code of a command, what it has written, and its errors."""
    asked = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        answer, error = await asked.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            asked.kill()
        raise
    return asked.returncode or 0, answer, error


class _Exit(msgspec.Struct):
    """Of a message of an agent, as much as tells whether a rank has failed."""

    type: str
    code: int = 0
    early: bool = False


class Allocated:
    """``nodes`` of the allocation ``job``, until it ends. Before it reports a loss, it asks Slurm whether the
    allocation has ended: then that is why jobs end, not the loss."""

    def __init__(self, nodes: Driver, job: str, environ: Mapping[str, str] = os.environ) -> None:
        self.env = nodes.env
        self.site = nodes.site
        self.secret = nodes.secret
        self._nodes = nodes
        self._job = job
        self._environ = environ
        self._tell: Tell = _nobody
        self._held: deque[Event] = deque()
        self._asking: asyncio.Task[None] | None = None
        self._until: float | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._over: AllocationOver | None = None
        self._asked_at = -PAUSE_S
        self._coming: set[str] | None = None
        """Nodes with which the run begins and whose agents have not come; none are left when the time counts."""

    async def open(self, tell: Tell) -> None:
        self._tell = tell
        await self._nodes.open(self._hear)
        status = await ask(self._job)
        left_s = status.left_s if status is not None else self._told_at_start()
        self._until = None if left_s is None else self._now() + left_s

    def start(self, nodes: Iterable[str]) -> None:
        names = tuple(nodes)
        if self._coming is None:
            self._coming = set(names)
        self._nodes.start(names)

    def send(self, node: str, envelope: m.To) -> None:
        self._nodes.send(node, envelope)

    def clear(self, node: str) -> None:
        self._nodes.clear(node)

    async def close(self) -> None:
        for task in (self._asking, self._renewing):
            if task is not None:
                task.cancel()
        await self._nodes.close()

    def _begin(self) -> None:
        """All nodes are there: say for how long, before anything is started on them, and look at that again."""
        if self._until is not None:
            self._tell(o.Granted((), (), self._until - self._now()))
        self._renewing = asyncio.ensure_future(self._renew())

    async def over(self) -> AllocationOver | None:
        """How the allocation has ended, if it has."""
        if self._over is None and (status := await ask(self._job)) is not None and status.is_over:
            self._over = how_ended(self._job, status)
        return self._over

    def _told_at_start(self) -> float | None:
        """Newer versions of Slurm say in the environment when the time is over."""
        try:
            return max(0.0, float(self._environ[END_TIME]) - time.time())
        except (KeyError, ValueError):
            return None

    async def _renew(self) -> None:
        """Somebody may have given the allocation more time, or less: that is looked at before it is over."""
        while self._until is not None:
            left_s = self._until - self._now()
            early = [each for each in EARLY_S if each < left_s]
            if not early:
                return
            await asyncio.sleep(left_s - max(early))
            status = await ask(self._job)
            if status is None or status.is_over:
                continue
            until = None if status.left_s is None else self._now() + status.left_s
            if until is None or abs(until - self._until) > LEAST_S:
                self._until = until
                self._tell(o.Granted((), (), FOREVER_S if status.left_s is None else status.left_s))

    def _hear(self, event: Event) -> None:
        self._pass_on(event)
        if self._coming and isinstance(event, o.Heard):
            self._coming.discard(event.node)
            if not self._coming:
                self._begin()

    def _pass_on(self, event: Event) -> None:
        if self._asking is None and (self._over is not None or not _may_be_its_end(event)):
            self._tell(event)
            return
        self._held.append(event)
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask())

    async def _ask(self) -> None:
        await asyncio.sleep(self._asked_at + PAUSE_S - self._now())
        self._asked_at = self._now()
        if (end := await self.over()) is not None:
            self._tell(o.EndAll(end.why, end.state))
        self._asking = None
        while self._held:
            self._tell(self._held.popleft())

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _may_be_its_end(event: Event) -> bool:
    """Whether it may have come of the allocation's end: a node is lost, or a rank has failed."""
    if isinstance(event, o.Heard):
        said = msgspec.json.decode(event.message, type=_Exit)
        return said.type == "exited" and (said.code != 0 or said.early)
    return isinstance(event, o.Cut | o.Ended)


def _nobody(_event: Event) -> None:
    """Before the start."""

"""Finding and ending the processes of a job by the cookie in their environment: /proc is the witness."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from pliant.live.node.register import GROUP, HELPER, JOB, NODE, RUN

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans(*, on: bool = True) -> None:
    """Become the parent of the orphans among this process' descendants, so that none of them gets away."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, int(on))


def cookie_of(pid: int) -> dict[str, str] | None:
    """The process' Pliant variables; None if it has none, has ended, or belongs to somebody else."""
    try:
        block = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    if f"{RUN}=".encode() not in block:
        return None
    pairs = (entry.partition(b"=") for entry in block.split(b"\0") if entry.startswith(b"PLIANT_"))
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, _, value in pairs}


def find_any() -> dict[int, dict[str, str]]:
    """Live processes, with their cookies, of any job of any run of this user, and the agents' helpers."""
    found: dict[int, dict[str, str]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            cookie = cookie_of(int(entry.name))
            if cookie is not None and not cookie.keys().isdisjoint((JOB, HELPER)):
                found[int(entry.name)] = cookie
    return found


def find(run: str, *, node: str | None = None, job: int | None = None) -> dict[int, dict[str, str]]:
    """Live processes, with their cookies, of one run, or of its part on one node or for one job."""
    return {
        pid: cookie
        for pid, cookie in find_any().items()
        if cookie.get(RUN) == run
        and (node is None or cookie.get(NODE) == node)
        and (job is None or cookie.get(JOB) == str(job))
    }


def orphans(known: set[int]) -> set[int]:
    """This process' descendants other than ``known`` and theirs; ended ones that wait to be reaped excepted."""
    found: set[int] = set()
    new = children() - known
    while new:
        found |= new
        new = {child for pid in new for child in children(pid)} - found
    return {pid for pid in found if not _is_zombie(pid)}


def scan(
    run: str, node: str, job: int | None, keep: Collection[tuple[int, int]], known: Collection[int]
) -> list[int]:
    """The processes of a job (None: of the whole run) on a node, and whatever else has come down from this process:
    it belongs to nobody, whatever its environment says now.

    Left out are the processes of the groups (job, number) in ``keep``, and ``known`` with all that comes from them.
    """
    groups = {(str(of), str(number)) for of, number in keep}
    found = find(run, node=node)
    kept = {pid for pid, cookie in found.items() if (cookie.get(JOB), cookie.get(GROUP)) in groups}
    kept |= set(known)
    wanted = {pid for pid, cookie in found.items() if job is None or cookie.get(JOB) == str(job)}
    return sorted((wanted | orphans(kept)) - kept)


def reap(known: set[int]) -> None:
    """Collect this process' ended children other than ``known``, whom somebody else waits for."""
    for pid in children() - known:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def children(pid: int = 0) -> set[int]:
    """The children of a process, of this one by default; ended ones among them until they are reaped."""
    found: set[int] = set()
    for tasks in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, tasks.read_text().split()))
    return found


def _is_zombie(pid: int) -> bool:
    try:
        # A name is cut at 15 bytes, in the middle of a letter too.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in b"ZX"
    except OSError:
        return True


def end(pids: Iterable[int], *, patient: bool) -> None:
    """Kill these. While ``patient``, Python's resource trackers are left alone: they remove the semaphores and the
    shared memory of those that were killed, and end by themselves."""
    for pid in pids:
        if not (patient and _is_tracker(pid)):
            kill(pid)


def _is_tracker(pid: int) -> bool:
    try:
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process that may have ended already."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)

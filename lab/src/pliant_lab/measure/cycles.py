"""One MPI job that grows and shrinks many times: what its processes, and those that serve it, have more each time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pliant.launch import processes, shm
from pliant.live.node.dialects import mpich_segment
from pliant.model.kinds import JobKind
from pliant_lab.measure import resizes
from pliant_lab.measure.resizes import Change

PROGRAM = "pliant.apps.sleeper"
SETTLE = 10
"""So many cycles first: buffers and caches fill, and warm processes come up."""


class Holds(NamedTuple):
    """What one process has: file descriptors, and memory of its own in KB (private pages, in use or swapped)."""

    descriptors: int
    memory_kb: int


class Sample(NamedTuple):
    """After a cycle, when all that has left is proved gone: the processes by pid, and files of the run in /dev/shm."""

    held: dict[int, Holds]
    segments: int


def holds(pid: int) -> Holds | None:
    """What a process has now; None if it is gone, or not ours to look at."""
    place = Path(f"/proc/{pid}")
    try:
        memory = 0
        for line in (place / "smaps_rollup").read_text().splitlines():
            if line.startswith(("Private_", "Swap:")):
                memory += int(line.split()[1])
        return Holds(len(os.listdir(place / "fd")), memory)  # noqa: PTH208 - counted, not opened
    except OSError:
        return None


def segments(run: str, nodes: int, groups: int) -> int:
    """How many files a run's first job has in /dev/shm, in which at most so many groups were started."""
    named = sum(Path(mpich_segment(run, 1, world, 0)).exists() for world in range(groups))
    return named + sum(len(list(shm.directory(run, f"n{node}").glob("*"))) for node in range(nodes))


def sample(run: str, nodes: int, groups: int) -> Sample:
    """Of all processes of a run: this one, which is its controller, its agents, and what has their cookies."""
    found = {pid: holds(pid) for pid in {os.getpid(), *processes.children(), *processes.find(run)}}
    return Sample(
        {pid: each for pid, each in found.items() if each is not None}, segments(run, nodes, groups)
    )


def growth(samples: list[Sample]) -> dict[str, Any]:
    """How much more there is at the end than after the first cycles, a cycle: of the process where it is most. Only
    those that were there all the time count; the number of processes is told apart."""
    first, last = samples[0], samples[-1]
    cycles = len(samples) - 1
    there = [pid for pid in first.held if pid in last.held]
    memory = [(last.held[pid].memory_kb - first.held[pid].memory_kb) / cycles for pid in there]
    descriptors = [last.held[pid].descriptors - first.held[pid].descriptors for pid in there]
    return {
        "cycles": cycles,
        "processes_followed": len(there),
        "processes_more": len(last.held) - len(first.held),
        "descriptors_more": max(descriptors),
        "memory_kb_a_cycle": round(max(memory), 1),
        "shm_files_more": last.segments - first.segments,
    }


async def measure(
    cycles: int, nodes: int, slots: int, output: Path, seen: Callable[[], None]
) -> dict[str, Any]:
    """Grow one job from 1 to ``nodes`` nodes and back, ``cycles`` times and SETTLE before; ``seen`` is called after
    each. Logs go to ``output``. PliantError if a resize fails."""
    samples: list[Sample] = []
    done = 0
    end = output / "end"

    async with resizes.machine(nodes, output, slots) as machine:

        def watch(change: Change) -> bool:
            nonlocal done
            if change.grows:
                return True
            done += 1
            seen()
            if done >= SETTLE:
                samples.append(sample(machine.run_id, nodes, 1 + done * (nodes - 1)))
            if done < SETTLE + cycles:
                return True
            end.touch()
            return False

        job = await machine.run(["-m", PROGRAM, str(end)], (1, nodes), JobKind.MPI, watch)
    changes = job.changes[2 * SETTLE :]
    found = growth(samples)
    for name, grows in (("grow", True), ("shrink", False)):
        times = sorted(change.seconds for change in changes if change.grows == grows)
        found[f"{name}_median_s"], found[f"{name}_longest_s"] = (
            round(times[len(times) // 2], 4),
            round(times[-1], 4),
        )
    return found

"""FCFS on moldable jobs as a bare loop in ElastiSim's order of events: what ``--instant elastisim`` is held against.

It shares no line with the simulator, the core or the policies. With the arithmetic of SimGrid's clock, too, it gives
ElastiSim's own result to the last job:

python tests/pure/elastisim_loop.py JOBS.json JOB_STATISTICS.csv NODES

for jobs that do nothing but wait ``nstep * (base_nodes / num_nodes)`` seconds (github.com/EPCCed/mira-cirrus-elastisim).
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple


class Moldable(NamedTuple):
    """A job; ``length`` is its run time by its nodes."""

    submit: float
    least: int
    most: int
    length: Callable[[int], float]


class Loop:
    """Jobs are numbers, in the order of submission; the lists hold when each started and ended, and on how many nodes.
    Each end, and each submission, is followed by a pass of its own."""

    def __init__(self, jobs: Sequence[Moldable], nodes: int) -> None:
        self.jobs = jobs
        self.start = [0.0] * len(jobs)
        self.end = [0.0] * len(jobs)
        self.nodes = [0] * len(jobs)
        self._free = nodes
        self._coming = 0
        self._head = 0

    def _pass(self, now: float) -> list[int]:
        """The jobs that start now: as large as they can be, and none before the one ahead of it."""
        first = self._head
        while self._head < self._coming:
            job = self.jobs[self._head]
            nodes = min(self._free, job.most)
            if nodes < job.least:
                break
            self._free -= nodes
            self.start[self._head], self.nodes[self._head] = now, nodes
            self._head += 1
        return list(range(first, self._head))

    def run(self) -> Loop:
        """In exact time: jobs that end in one instant end in the order in which they were started."""
        ends: list[tuple[float, int]] = []
        while ends or self._coming < len(self.jobs):
            due = self.jobs[self._coming].submit if self._coming < len(self.jobs) else float("inf")
            if ends and ends[0][0] <= due:
                now, job = heappop(ends)
                self._free += self.nodes[job]
                self.end[job] = now
            else:
                now = due
                self._coming += 1
            for job in self._pass(now):
                heappush(ends, (now + self.jobs[job].length(self.nodes[job]), job))
        return self

    def run_as_simgrid(self, speed: float) -> Loop:
        """With the clock of SimGrid's model ptask_L07, on nodes of ``speed`` FLOP/s: a share of each running job is left,
        1 at first, and each step takes from it rate times seconds. It ends where less than 1e-14 is left. What does
        for a while, in many steps, may so miss a step that it would have ended in, and comes after those that do not."""
        now, running = 0.0, list[int]()
        left, rate = list[float](), list[float]()
        sleep = self.jobs[0].submit
        while running or self._coming < len(self.jobs):
            step = min((share / pace for share, pace in zip(left, rate, strict=True)), default=float("inf"))
            if self._coming < len(self.jobs):
                step = min(step, max(sleep, 0.0))
            now += step
            left = [share - pace * step for share, pace in zip(left, rate, strict=True)]
            over = [job for job, share in zip(running, left, strict=True) if share < 1e-14]
            kept = [i for i, share in enumerate(left) if share >= 1e-14]
            running, left, rate = ([each[i] for i in kept] for each in (running, left, rate))  # type: ignore[assignment]
            started: list[int] = []
            for job in over:
                self._free += self.nodes[job]
                self.end[job] = now
                started += self._pass(now)
            sleep -= step
            if self._coming < len(self.jobs) and sleep < 1e-9:
                while self._coming < len(self.jobs) and self.jobs[self._coming].submit <= now + 1e-9:
                    self._coming += 1
                    started += self._pass(now)
                if self._coming < len(self.jobs):
                    sleep = self.jobs[self._coming].submit - now
            for job in started:
                running.append(job)
                left.append(1.0)
                rate.append(speed / (self.jobs[job].length(self.nodes[job]) * speed))
        return self


def waiting(entry: dict[str, object]) -> Moldable:
    """A job of the Cirrus project."""
    arguments = entry["arguments"]
    assert isinstance(arguments, dict)
    steps, base = arguments["nstep"], arguments["base_nodes"]
    sizes = [entry.get(f"num_nodes{end}", entry.get("num_nodes")) for end in ("_min", "_max")]
    least, most = (int(str(size)) for size in sizes)
    return Moldable(float(str(entry["submit_time"])), least, most, lambda nodes: steps * (base / nodes))


def main(jobs_file: str, statistics: str, nodes: str) -> None:
    """Print how many starts and ends differ from the table, which has six digits, in either arithmetic."""
    entries = json.loads(Path(jobs_file).read_text(encoding="utf-8"))["jobs"]
    jobs = sorted(map(waiting, entries), key=lambda job: job.submit)
    rows = list(csv.DictReader(Path(statistics).read_text(encoding="utf-8").splitlines()))
    for name, loop in (
        ("exact time", Loop(jobs, int(nodes)).run()),
        ("SimGrid's clock", Loop(jobs, int(nodes)).run_as_simgrid(1e11)),
    ):
        differ = [
            number
            for number, row in enumerate(rows)
            for ours, theirs in ((loop.start, row["Start Time"]), (loop.end, row["End Time"]))
            if f"{ours[number]:.6g}" != theirs and abs(ours[number] - float(theirs)) > 1e-5 * float(theirs)
        ]
        mean = sum(end - job.submit for end, job in zip(loop.end, jobs, strict=True)) / len(jobs)
        first = f", the first of them job {differ[0]}" if differ else ""
        print(
            f"{name}: {len(set(differ))} of {len(rows)} jobs differ{first}; mean turnaround {mean:.2f} s, "
            f"theirs {sum(float(row['Turnaround Time']) for row in rows) / len(rows):.2f} s"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What places and load balancing cost and give on this machine: the figures of ``pliant bench apgas``."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pliant_lab.measure import programs, resizes
from pliant_lab.measure.programs import ALONE, TWO_PLACES, TWO_WORKERS, Figures

RATIOS = ("uts", "nqueens", "pi")
UTS = "pliant.apps.uts"


class Effort(NamedTuple):
    """How often each thing is measured, and on trees of which depth."""

    quick: bool
    pairs: int
    """Of a program and its kernel."""
    rounds: int
    """Of one worker, two workers and two places."""
    depth: int
    resized: int
    """Pairs of a job that is resized all the time and one that is not."""
    resized_depth: int
    resilient: int
    """Pairs of a resilient program and one that is not."""


QUICK = Effort(quick=True, pairs=9, rounds=3, depth=13, resized=3, resized_depth=14, resilient=0)
FULL = Effort(quick=False, pairs=11, rounds=9, depth=14, resized=7, resized_depth=15, resilient=9)


def steps(effort: Effort) -> int:
    """How often ``measure`` tells that it has come a step further."""
    return 1 + 3 * effort.rounds + 2 * effort.resized + 2 * effort.resilient


def measure(effort: Effort, output: Path, advance: Callable[[], object]) -> Figures:
    """All figures, and what they depend on. Jobs leave their logs in ``output``; PliantError if a program fails."""
    around = programs.surroundings()
    words = ["--pairs", str(effort.pairs), *(["--quick"] if effort.quick else []), *RATIOS]
    ratios = programs.run("pliant_lab.measure.overhead", words)
    advance()
    depth = ["--depth", str(effort.depth)]
    speeds = programs.in_turn(UTS, depth, (ALONE, TWO_WORKERS, TWO_PLACES), effort.rounds, advance)
    resilient = [_resilience(depth, advance, resilient_first=n % 2 == 0) for n in range(effort.resilient)]
    pairs = asyncio.run(_resized(effort, output, advance))
    resized = [pair[0] for pair in pairs]
    counts = [sum(each.grows == grows for job in resized for each in job.changes) for grows in (True, False)]
    return {
        **{f"{name}_ratio_1": round(statistics.median(ratios[name]), 4) for name in RATIOS},
        "uts_scaling_2_workers": round(programs.speedup(speeds, TWO_WORKERS), 4),
        "uts_scaling_2_places": round(programs.speedup(speeds, TWO_PLACES), 4),
        **({"uts_resilient_ratio": round(statistics.median(resilient), 4)} if resilient else {}),
        "grow_s": round(resizes.median_s(resized, grows=True), 4),
        "shrink_s": round(resizes.median_s(resized, grows=False), 4),
        "work_during_resize_ratio": round(statistics.median(_rate(a) / _rate(b) for a, b in pairs), 4),
        "longest_gap_ms": round(_longest_gap_ms(resized), 3),
        "longest_gap_quiet_ms": round(_longest_gap_ms([pair[1] for pair in pairs]), 3),
        "quick": effort.quick,
        "repetitions": {
            "ratios": effort.pairs, "scaling": effort.rounds, "resized": effort.resized,
            "resilient": effort.resilient,
            "grows": counts[0], "shrinks": counts[1],
        },
        **around,
        "sha": speeds[ALONE][0]["sha"],
        "mhashes_per_cpu_s": round(statistics.median(_rate(b) for _, b in pairs) / 1e6, 2),
    }  # fmt: skip


def _resilience(depth: Sequence[str], advance: Callable[[], object], *, resilient_first: bool) -> float:
    """Of a pair at two places, work per worker CPU second of the resilient one over that of the other."""
    rates = {}
    for resilient in (resilient_first, not resilient_first):
        words = [*depth, "--json", *(["--resilient"] if resilient else [])]
        figures = programs.run(UTS, words, TWO_PLACES)
        rates[resilient] = float(figures["hashes"] / figures["cpu_s"])
        advance()
    return rates[True] / rates[False]


async def _resized(
    effort: Effort, output: Path, advance: Callable[[], object]
) -> list[tuple[resizes.Job, resizes.Job]]:
    """Jobs that go back and forth between one place and two, each with one after it that has two throughout. As long as
    the first has one place, the second is being started: the machine has as much to do in both."""
    command = ["-m", UTS, "--depth", str(effort.resized_depth), "--json"]
    pairs = []
    async with resizes.machine(2, output) as machine:
        for _ in range(effort.resized):
            pair = []
            for sizes in ((1, 2), (2,)):
                pair.append(await machine.run(command, sizes))
                advance()
            pairs.append((pair[0], pair[1]))
    return pairs


def _rate(job: resizes.Job) -> float:
    """Hashes per processor second of the workers."""
    return float(job.figures["hashes"] / job.figures["cpu_s"])


def _longest_gap_ms(jobs: Sequence[resizes.Job]) -> float:
    """Between two calls of ``process`` of a worker of place 0, which no resize concerns: the median of the
    longest of each."""
    return 1000 * statistics.median(float(job.figures["statistics"]["0"]["longest_gap_s"]) for job in jobs)

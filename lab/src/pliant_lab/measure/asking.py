"""What it costs a job to ask its scheduler, or not to: the figures of checks and steps of ``pliant bench
redistribute``."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pliant.model.kinds import JobKind
from pliant_lab.measure import resizes
from pliant_lab.measure.programs import Figures
from pliant_lab.measure.redistributing import LIMIT_S

PROGRAM = "pliant_lab.measure.asked"
RANKS = (1, 2)
HOUR_S = "3600"


class Case(NamedTuple):
    """A figure: what the program does, so many times, and what its seconds or shares are multiplied with."""

    name: str
    words: tuple[str, ...]
    env: Mapping[str, str]
    scale: float


def cases(*, quick: bool) -> list[Case]:
    """All of them. An hour of inhibition outlasts its checks."""
    checks, steps = ("300", "2880") if quick else ("2000", "12800")
    return [
        Case("check_no_action_ms", ("check", checks), {}, 1e3),
        Case("check_inhibited_us", ("check", "20000"), {"PLIANT_INHIBIT": HOUR_S}, 1e6),
        Case("steps_share", ("steps", steps), {}, 1.0),
    ]


def asked(chosen: Sequence[Case], advance: Callable[[], object]) -> Figures:
    """Of each case the worse of the medians with 1 and with 2 ranks on one node, the scheduler on the same machine;
    ``asking`` has both, and of how many."""
    with tempfile.TemporaryDirectory() as place:
        found = asyncio.run(_asked(chosen, Path(place), advance))
    figures: Figures = {each.name: max(found[each.name]["medians"]) for each in chosen}
    return {**figures, "asking": {"ranks": RANKS, **found}}


async def _asked(chosen: Sequence[Case], place: Path, advance: Callable[[], object]) -> dict[str, Figures]:
    found: dict[str, Figures] = {each.name: {"medians": [], "repetitions": 0} for each in chosen}
    for ranks in RANKS:
        logs = place / str(ranks)
        logs.mkdir()
        async with asyncio.timeout(LIMIT_S), resizes.machine(1, logs, ranks) as machine:
            for case in chosen:
                job = await machine.run(["-m", PROGRAM, *case.words], (1,), JobKind.MPI, env=case.env)
                found[case.name]["medians"].append(round(job.figures["median"] * case.scale, 5))
                found[case.name]["repetitions"] = job.figures["repetitions"]
                advance()
    return found

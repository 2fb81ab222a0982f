"""What resizing one MPI job costs with each MPI that is found here, by the same program under the same controller."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pliant.daemon.detect import DetectedMpi
from pliant.model.errors import PliantError
from pliant.model.flavours import MPICH, LaunchWay, way_of
from pliant.model.kinds import JobKind
from pliant_lab.measure import resizes
from pliant_lab.measure.cycles import PROGRAM
from pliant_lab.measure.programs import Figures
from pliant_lab.measure.resizes import Change

BEFORE = 1
"""So many cycles of a job first: newcomers are forked from warm processes, where they can be, when one has come up."""


class Cycles(NamedTuple):
    """How a job is resized: between ``sizes``, on nodes of ``slots`` slots, so many times each way in each of so many
    ``rounds``."""

    sizes: tuple[int, int]
    slots: int
    cycles: int
    rounds: int


async def measure(
    found: Sequence[DetectedMpi], asked: Cycles, output: Path, seen: Callable[[int, int], None]
) -> list[Figures]:
    """A row for each. Rounds go through all of them, so that a slow moment of the machine is none's alone. ``seen`` is
    told how many jobs have run, of how many."""
    changes: dict[DetectedMpi, list[Change]] = {each: [] for each in found}
    errors: dict[DetectedMpi, str] = {
        each: why for each in found if (why := _way(each).refused or _way(each).keeps)
    }
    for number in range(asked.rounds):
        for place, each in enumerate(found):
            seen(number * len(found) + place, asked.rounds * len(found))
            if each in errors:
                continue
            own = output / f"{number}.{place}"
            own.mkdir()
            try:
                changes[each] += await _cycles(each, asked, own)
            except PliantError as error:
                errors[each] = str(error)
    rows = [_row(each, changes[each], errors.get(each, "")) for each in found]
    compare(rows, [each.mpi.flavour == MPICH for each in found])
    return rows


def _way(found: DetectedMpi) -> LaunchWay:
    return way_of(found.mpi, os.environ)


async def _cycles(found: DetectedMpi, asked: Cycles, output: Path) -> list[Change]:
    """What a job with this MPI tells of its resizes."""
    end, told = output / "end", list[Change]()

    def watch(change: Change) -> bool:
        told.append(change)
        if len(told) < 2 * (BEFORE + asked.cycles):
            return True
        end.touch()
        return False

    way = _way(found)
    # Another MPI's libraries may have the same names, and only the one beside it knows where its own are.
    env = {
        "MPI4PY_LIBMPI": found.library, "LD_LIBRARY_PATH": str(Path(found.library).parent),
        **({way.library: found.library} if way.library else {}),
    }  # fmt: skip
    async with resizes.machine(asked.sizes[1], output, asked.slots) as machine:
        await machine.run(["-m", PROGRAM, str(end)], asked.sizes, JobKind.MPI, watch, env, found.mpi.text)
    return told[2 * BEFORE :]


def _row(found: DetectedMpi, changes: Sequence[Change], error: str) -> Figures:
    row: Figures = {
        "mpi": found.mpi.name, "library": found.library, "error": error, "resizes": len(changes),
        "blocked_over_mpich": None,
    }  # fmt: skip
    for name, grows in (("grow", True), ("shrink", False)):
        own = [each for each in changes if each.grows == grows]
        for what, times in (
            ("blocked_s", [each.blocked_s for each in own]),
            ("total_s", [each.seconds - each.clean_s for each in own]),
            ("freed_s", [each.seconds for each in own if not grows]),
        ):
            row[f"{name}_{what}"] = round(statistics.median(times), 4) if times and not error else None
    return row


def compare(rows: Sequence[Figures], is_mpich: Sequence[bool]) -> None:
    """With the first MPICH that has figures."""
    given = (row for row, ours in zip(rows, is_mpich, strict=True) if ours and row["grow_blocked_s"])
    if (mpich := next(given, None)) is None:
        return
    for row in rows:
        if row["grow_blocked_s"] is not None:
            row["blocked_over_mpich"] = round(row["grow_blocked_s"] / mpich["grow_blocked_s"], 3)

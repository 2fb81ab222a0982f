"""Two rows of a study, pair by pair: what differs, of all jobs and of groups of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pliant.study.cells import StudyCell
from pliant.study.differences import Pair, difference
from pliant.study.groups import in_order

Unit = Callable[[StudyCell], Hashable]
"""To which unit a simulation belongs: of several of one unit the mean counts once."""
Units = list[list[tuple[StudyCell, StudyCell]]]
"""Of two rows the simulations with the same seed and window, by units; what no seed changes stands beside each."""


def paired(unit: Unit, first: Sequence[StudyCell], row: Sequence[StudyCell]) -> Units:
    """None if they are not of the same jobs, as those of a generator that makes others for each percentage."""
    before = {(cell.run, cell.cut): cell for cell in first}
    after = {(cell.run, cell.cut): cell for cell in row}
    units: dict[Hashable, list[tuple[StudyCell, StudyCell]]] = {}
    for key in sorted(before.keys() | after.keys()):
        one, other = before.get(key) or before[0, key[1]], after.get(key) or after[0, key[1]]
        if one.figures["jobs"] != other.figures["jobs"]:
            return []
        units.setdefault(unit(one if key in before else other), []).append((one, other))
    return list(units.values())


def differs(units: Units) -> dict[str, Any]:
    """A row of what differs, of all jobs."""
    return _about(units) | difference([[_pair(each) for each in unit] for unit in units])


def groups(units: Units, by: str) -> list[dict[str, Any]]:
    """A row for each group of jobs, by what they are in the second of each pair: before, some may be rigid still.

    Pairs without jobs of a group count all the same in a unit that has some, so that the jobs of all groups add up.
    """
    found: dict[str, dict[tuple[int, int], list[int]]] = {}
    for i, unit in enumerate(units):
        for k, (_, after) in enumerate(unit):
            for place, name in enumerate(after.groups[by]):
                found.setdefault(name, {}).setdefault((i, k), []).append(place)
    rows: list[dict[str, Any]] = []
    for name in in_order(by, list(found)):
        there = found[name]
        theirs: list[list[Pair]] = []
        places: list[list[list[int]]] = []
        for i, unit in enumerate(units):
            of_pairs = [there.get((i, k), []) for k in range(len(unit))]
            if any(of_pairs):
                theirs.append([_pair(each) for each in unit])
                places.append(of_pairs)
        about = _about(units) | {
            "pairs": len(there),
            "units": len(theirs),
            "by": by,
            "group": name,
        }
        rows.append(about | difference(theirs, places))
    return rows


def _pair(cells: tuple[StudyCell, StudyCell]) -> Pair:
    before, after = cells
    return Pair(before.times, after.times)


def _about(units: Units) -> dict[str, Any]:
    before, after = units[0][0]
    return {
        "malleable_percent": after.percent,
        "policy": after.policy,
        "against": {"malleable_percent": before.percent, "policy": before.policy},
        "pairs": sum(map(len, units)),
        "units": len(units),
    }

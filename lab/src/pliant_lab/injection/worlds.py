"""Many seeded worlds of faults, one after the other, and what they come to: for ``pliant bench world``."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from pliant.live.fleet.stages import TABLE, Happens, NodeStage
from pliant.protocol import resizing
from pliant_lab.injection.audit.impossible import IMPOSSIBLE
from pliant_lab.injection.audit.verdict import Verdict
from pliant_lab.injection.faults import FAULTS
from pliant_lab.injection.run import WorldRun

KINDS = ("lost", "run_twice", "leaked", "stuck", "wrong")


class Found(NamedTuple):
    """A seed whose world broke, and how."""

    seed: int
    kind: str
    what: str


def run_some(seeds: list[int], names: tuple[str, ...], *, stop: bool = False) -> list[Verdict]:
    """These worlds, one after the other; with ``stop``, none after one that breaks."""
    verdicts: list[Verdict] = []
    for seed in seeds:
        verdicts.append(WorldRun(seed, names).run())
        if stop and verdicts[-1].broken:
            break
    return verdicts


def summed(verdicts: list[Verdict], seconds: float) -> tuple[dict[str, object], list[Found]]:
    """The figures of all, which took ``seconds``, and those that broke."""
    met: Counter[tuple[str, str]] = Counter()
    cells: Counter[tuple[str, str]] = Counter()
    kinds: Counter[str] = Counter()
    expansions: Counter[str] = Counter()
    found = []
    ways: Counter[tuple[NodeStage, Happens]] = Counter()
    for verdict in verdicts:
        ways.update(verdict.ways)
        expansions.update(verdict.expansions)
        met.update(verdict.faults)
        cells.update(verdict.cells)
        if verdict.broken:
            kinds[verdict.broken] += 1
            found.append(Found(verdict.seed, verdict.broken, verdict.what))
    offered = sum(verdict.offered for verdict in verdicts)
    done = sum(verdict.done for verdict in verdicts)
    by_fault: Counter[str] = Counter()
    for (name, _), count in met.items():
        by_fault[name] += count
    return {
        "seeds": len(verdicts),
        "jobs": sum(verdict.jobs for verdict in verdicts),
        "faults": sum(met.values()),
        **{kind: kinds[kind] for kind in KINDS},
        "resizes": offered,
        "resizes_done_share": round(done / max(1, offered), 4),
        "slots_resizes_done": sum(verdict.slots for verdict in verdicts),
        "cells_visited": len(cells),
        "cells": len(resizing.TABLE),
        "cells_not_visited": [" ".join(cell) for cell in resizing.TABLE if cell not in cells],
        "faults_by_phase": {
            name: {stage: met[name, stage] for stage in ("none", *resizing.OUTSTANDING)} for name in FAULTS
        },
        "faults_impossible": {" ".join(where): why for where, why in IMPOSSIBLE.items()},
        "ways_of_nodes": {f"{stage} {what}": ways[stage, what] for stage, what in TABLE},
        "expansions_by_spawning": {how: expansions[how] for how in ("expanded", "stayed", "stands", "ended")},
        "seeds_per_s": round(len(verdicts) / seconds, 2),
    }, found

"""The programs of Iserte, Mayo, Quintana-Orti, Beltran and Peña, DMR API: Improving the Cluster Productivity by
Turning Applications into Malleable (Iserte et al. 2018), Table 1, and how long they run.

``apps/`` takes its defaults from here, ``workloads/generators/paper3.py`` its jobs.
"""

from __future__ import annotations

from typing import NamedTuple

from pliant.model.speedup import Amdahl

FACTOR = 2
"""Between two sizes (section 7.5); Flexible Sleep's study goes by powers of two as well (section 7.3)."""


class Table1Row(NamedTuple):
    """A line of Table 1. Sizes are in nodes; a ``preferred`` of 0 is none. Within ``inhibit_s`` seconds of a look at
    the scheduler the program does not look again (0: it looks between any two iterations)."""

    iterations: int
    min: int
    max: int
    preferred: int
    inhibit_s: float


class Table1Times(NamedTuple):
    """Run times at a program's maximal and at its preferred size, in seconds."""

    at_max_s: float
    at_preferred_s: float


TABLE1 = {
    "flexible-sleep": Table1Row(25, 1, 20, 0, 0.0),
    "cg": Table1Row(10_000, 2, 32, 8, 15.0),
    "jacobi": Table1Row(10_000, 2, 32, 8, 15.0),
    "n-body": Table1Row(25, 1, 16, 1, 0.0),
}
TIMES = {
    "cg": Table1Times(211.0, 690.0),
    "jacobi": Table1Times(211.0, 690.0),
    "n-body": Table1Times(1180.0, 1250.0),
}
"""Calibrated by random search on the twelve figures of Table 4 for the fixed jobs (utilisation, wait and
execution under ``easy``), then, with the times at the maximum settled, on those for the flexible jobs
(``dmr-preferred``, start rule max). The mean run times give one relation between N-body and the others, the
waits, which add up all node-seconds, the second. CG and Jacobi cannot be told apart by what is published.
N-body gains next to nothing from more nodes: as its preferred size of 1 says.

Residuals: on average 2.5 % (fixed) and 2.9 % (flexible) over 50, 100, 200 and 400 jobs. Utilisation -3.8,
-1.6, -0.3, +0.5 % and -0.9, -2.5, -6.1, -6.5 %; waits +0.5, -14.4, -7.5, +0.1 % and -8.0, -3.9, +0.1, -0.6 %;
execution within 0.8 % and 2.8 %. With exact estimates in place of ``paper3.DAY_S`` flexible jobs would wait 40 %
longer than published. Table 2's actions are not met: every flexible job but the last is shrunk, and none
grows (399 and 0, published 194 and 50), since somebody waits nearly all the time."""
SLEEP_S = 100.0
"""Flexible Sleep's time on one node. It is not published, so this is ours; that it scales linearly is (section 7.4)."""


def model(program: str) -> Amdahl:
    """T(n) = fixed + work / n through the program's two ``TIMES``; Flexible Sleep's speed-up is linear."""
    if program not in TIMES:
        return Amdahl(work_s=SLEEP_S)
    row = TABLE1[program]
    at_max, at_preferred = TIMES[program]
    work = (at_preferred - at_max) / (1 / row.preferred - 1 / row.max)
    fixed = at_max - work / row.max
    return Amdahl(work_s=fixed + work, serial_fraction=fixed / (fixed + work))


def wider(slow: Amdahl, nodes: int) -> Amdahl:
    """The model of a cluster of which one node stands for so many ``nodes``: T'(n) = T(nodes * n)."""
    shared = slow.work_s * (1 - slow.serial_fraction) / nodes
    work = slow.work_s * slow.serial_fraction + shared
    return Amdahl(work, 1 - shared / work, slow.io_s)

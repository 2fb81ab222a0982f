"""Node-hours against waits: whole traces on machines whose nodes come and go, beside fixed ones, under EASY."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from pliant.core.settings import Settings
from pliant.model.need import Pool
from pliant.plan.cost import INSTANT
from pliant.policy.elastic import Elastic
from pliant.policy.registry import make
from pliant.study.workers import Task
from pliant_lab.reproduce import charts
from pliant_lab.reproduce.folder import Folder
from pliant_lab.reproduce.harm import Trace, Wanted, jobs_of
from pliant_lab.reproduce.runs import simulation_of
from pliant_lab.reproduce.traces import BASE

WANTED = Wanted(
    (
        Trace("KTH-SP2", "KTH-SP2.filtered.swf.gz", 100),
        Trace("NASA-iPSC", "NASA-iPSC-1993-3.1-cln.swf.gz", 128),
    ),
    (Trace("KTH-SP2", "KTH-SP2.filtered.swf.gz", 100, 800),),
)
DELAY_S = 90.0
IDLE_S = (60.0, 300.0, 1800.0)
LEAST = (0.0, 0.25, 0.5, 0.75)
"""Shares of the machine that are always there."""


class Case(NamedTuple):
    """``idle_s`` 0 is the fixed machine."""

    trace: Trace
    idle_s: float = 0.0
    least: float = 1.0

    @property
    def pool(self) -> Pool:
        nodes = self.trace.nodes
        return Pool(round(self.least * nodes), nodes, DELAY_S, self.idle_s)


class Held(NamedTuple):
    """Node-hours held, mean and longest wait in seconds, and promises to the head of the queue that were broken, by how
    many seconds at most."""

    node_hours: float
    wait_mean_s: float
    wait_p95_s: float
    wait_max_s: float
    broken: int
    broken_max_s: float


def cases(found: Sequence[Trace]) -> Iterator[Case]:
    for trace in found:
        yield Case(trace)
        for idle_s in IDLE_S:
            for least in LEAST:
                yield Case(trace, idle_s, least)


def tasks(found: Sequence[Trace], folder: Path | None) -> list[Task]:
    return [(one, (case, str(folder))) for case in cases(found)]


def one(case: Case, folder: str) -> Held:
    settings = msgspec.structs.replace(Settings(cost=INSTANT), pool=case.pool)
    jobs = jobs_of(case.trace, folder)
    ended = simulation_of(jobs, case.trace.nodes, Elastic(make(BASE)), settings).run().metrics
    return Held(
        ended.capacity_node_s / 3600.0,
        ended.wait_mean_s,
        ended.wait_p95_s,
        ended.wait_max_s,
        ended.promises_broken,
        ended.promise_delay_max_s,
    )


# ---- what comes of it --------------------------------------------------------------------------------------


def write(folder: Folder, found: Sequence[Trace], results: Sequence[Held]) -> str:
    """The table, the figure and this study's section of the README; ``results`` are those of ``tasks``, in order."""
    if not found:
        return ""
    by = dict(zip(cases(found), results, strict=True))
    folder.table(
        "elastic",
        ("workload", "nodes", "always_there", "idle_s", "delay_s", *Held._fields),
        [
            (case.trace.name, case.trace.nodes, case.pool.min, case.idle_s, DELAY_S, *held)
            for case, held in by.items()
        ],
    )
    _figure(folder, found, by)
    lines = [
        "## Nodes that come and go: node-hours against waits",
        "",
        (
            "Rigid EASY, decided as if all nodes were there. "
            f"Nodes come {DELAY_S:g} s after they were asked for, and go once nobody has needed them for as long as "
            "the row says. A share of the machine is always there."
        ),
        "",
    ]
    for trace in found:
        lines += _table(trace, by)
    return "\n".join([*lines, "![](elastic.png)", ""])


def _table(trace: Trace, by: dict[Case, Held]) -> Iterator[str]:
    fixed = by[Case(trace)]
    yield f"### {trace.name}, at most {trace.nodes} nodes"
    yield ""
    yield "| back after, always there | node-hours | of the fixed | mean wait, s | 95 %, s | promises broken |"
    yield "|---|---:|---:|---:|---:|---:|"
    for case, held in by.items():
        if case.trace == trace:
            what = f"{case.idle_s / 60:g} min, {case.least:.0%}" if case.idle_s else "the fixed machine"
            yield (
                f"| {what} | {held.node_hours:,.0f} | {held.node_hours / fixed.node_hours:.1%} "
                f"| {held.wait_mean_s:,.0f} | {held.wait_p95_s:,.0f} | {held.broken:,} |"
            )
    yield ""


def _figure(folder: Folder, found: Sequence[Trace], by: dict[Case, Held]) -> None:
    made, axes = charts.figure(len(found))
    for ax, trace in zip(axes, found, strict=True):
        fixed = by[Case(trace)]
        rows = [(idle_s, [by[Case(trace, idle_s, least)] for least in LEAST]) for idle_s in IDLE_S]
        series = [
            charts.Series(
                f"back after {idle_s / 60:g} min",
                [100.0 * each.node_hours / fixed.node_hours for each in row],
                [each.wait_mean_s for each in row],
                look=look,
            )
            for look, (idle_s, row) in enumerate(rows)
        ]
        series.append(charts.Series("the fixed machine", [100.0], [fixed.wait_mean_s], look=len(rows)))
        charts.lines(ax, series)
        ax.set_title(f"{trace.name}, at most {trace.nodes} nodes")
        ax.set_ylim(0.0, 1.15 * max(each.wait_mean_s for case, each in by.items() if case.trace == trace))
        ax.set_ylabel("mean wait, s")
    axes[-1].set_xlabel("node-hours held, % of the fixed machine's")
    charts.legend(made, axes[0])
    folder.figure("elastic", made)

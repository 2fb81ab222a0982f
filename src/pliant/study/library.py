"""A simulation as a function, for programs and notebooks: what ``pliant simulate`` does, and the jobs as a table.

What simulates is loaded by the first call: ``from pliant import *`` in a policy's file needs none of it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from pliant.model.errors import BatchError
from pliant.policy.view import Policy
from pliant.study.simulation_request import requested, with_options
from pliant.workloads.unmapped import refused


@dataclass(frozen=True, repr=False)
class Result:
    """What a simulation of ``workload`` under ``policy`` on ``nodes`` nodes came to.

    ``metrics`` are the numbers of a run of ``pliant simulate --json``, by the same names; ``RunMetrics`` in
    ``pliant.history.outcomes`` says what each is. Times are in seconds; None is what there was nothing to count of.
    ``classes`` has the numbers of each class of jobs, and ``partitions`` those of each partition, if the machine has
    some, as in that run. A warning tells what its ``unmapped`` lists.

    ``jobs`` is the table that ``--jobs-csv`` writes, column by column, as ``pandas.DataFrame(result.jobs)`` and
    ``polars.DataFrame(result.jobs)`` take it: a row for each job, in order of submission; None where the file has an
    empty cell. Of a window, ``metrics`` are of the jobs in it, and ``jobs`` has those around them too.
    """

    workload: str
    policy: str
    nodes: int
    metrics: dict[str, float | None]
    classes: dict[str, dict[str, float | None]]
    jobs: dict[str, list[Any]]
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        rows = self._rows()
        left, right = (max(len(row[i]) for row in rows) for i in (0, 1))
        return "\n".join([self._title(), *(f"  {label:{left}}  {text:>{right}}" for label, text in rows)])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td style="text-align: left; white-space: pre">{escape(label)}</td><td>{escape(text)}</td></tr>'
            for label, text in self._rows()
        )
        return f"<table><caption>{escape(self._title())}</caption>{rows}</table>"

    def _title(self) -> str:
        return f"{self.workload}: {self.policy} on {self.nodes:,} node{'s' if self.nodes > 1 else ''}"

    def _rows(self) -> list[tuple[str, str]]:
        """Of the command's table, all but how long it took to simulate: that is nothing of the result."""
        from pliant.study.shown import shown

        *sections, _ = shown({**self.metrics, "classes": self.classes, "partitions": self.partitions})
        return [row for section in sections for row in section]


@with_options
def simulate(
    workload: str | os.PathLike[str] | Iterable[Any],
    policy: str | os.PathLike[str] | Policy | Callable[..., Policy] = "",
    nodes: int = 0,
    **options: Any,
) -> Result:
    """Simulate ``workload`` under ``policy`` on a machine of ``nodes`` nodes (0: what the workload says).

    ``workload`` is what ``pliant simulate`` takes, a file or a generator such as ``"lublin:1000"``; or a sequence of
    ``pliant.Job`` or of mappings with the names of its fields; or a table of them: a data frame, or a dict of lists.
    For jobs that a program gives, resizes take no time unless ``cost`` says so, as for a trace.

    ``policy`` is a name with parameters, ``"marginal:payback=5"``, or ``"FILE.py"``; or a class of one's own; or what
    makes one when it is called, such as a ``functools.partial``; or one that is made: it is used as it is, and knows
    what it has kept of an earlier simulation. Without one it is the workload's own, else easy, or with ``malleable``
    the malleable one.

    The ``options`` are those of ``pliant simulate``, whose help explains them: times are in seconds, as in
    ``cooldown_s``, ``malleable`` is a percentage, ``weights`` are users' by name, and ``partitions`` and
    ``reservations`` each a file or a list of mappings with its keys.

    Raises a PliantError that says what is wrong, as the command does. Warns of jobs that are left out, as they need
    more nodes than there are, and of what else is not simulated.
    """
    from pliant.files.policy import spec_of
    from pliant.sim.job_rows import JobTable
    from pliant.study.options import queue_said, wished
    from pliant.study.simulation import NO_NUMBERS, simulation
    from pliant.workloads.inline_jobs import given_jobs

    asked = requested("simulate", {"nodes": nodes, **options})
    named = os.fspath(workload) if isinstance(workload, str | os.PathLike) else ""
    own = spec_of(policy)
    chosen = queue_said(named, asked)._replace(name=own.name, own=own.own)
    wish = wished(named or "jobs", asked, None if named else given_jobs(workload))
    if wish.window is not None and wish.window.several > 1:
        raise BatchError(
            f"--window: {asked.window} is {wish.window.several} simulations; pliant.compare makes several"
        )
    made = simulation(wish, chosen, asked.instant)
    if made.load.note:
        warnings.warn(refused(made.load.note, "strict=True"), stacklevel=2)
    table = JobTable(partitions=made.load.partitions is not None)
    ended = made.run(table)
    if doubt := ended.doubt(made.load):
        warnings.warn(doubt, stacklevel=2)
    figures = ended.figures(made.load)
    classes, of_each, _ = (figures.pop(key) for key in NO_NUMBERS)
    name = Path(wish.text).name
    return Result(name, made.policy.name, made.load.nodes, figures, classes, table.columns(), of_each)

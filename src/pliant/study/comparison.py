"""A study as a function, for programs and notebooks: several policies, percentages, seeds and windows, compared."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pliant.model.errors import BatchError
from pliant.policy.view import Policy
from pliant.study.simulation_request import requested, with_options
from pliant.workloads.unmapped import refused

if TYPE_CHECKING:
    from pliant.files.policy import PolicySpec

Chosen = str | os.PathLike[str] | Policy | Callable[..., Policy]


@dataclass(frozen=True)
class Comparison:
    """Simulations of ``workload`` on ``nodes`` nodes, as three tables: column by column, as
    ``pandas.DataFrame(comparison.rows)`` and ``polars.DataFrame(comparison.rows)`` take them.

    ``rows`` has a row for each percentage and policy: ``runs``, and the means of the figures that
    ``pliant simulate --json`` has for a study; the half width of a figure's 95 % interval is in the column with
    ``_half`` behind its name. ``differences`` has a row for each that is compared with another, ``against_policy`` at
    ``against_malleable_percent``: geometric means of ratios with their intervals, ``turnaround_mean_s_ratio``, ``_low``
    and ``_high``, and how many of the jobs ended later. ``groups`` has the same of groups of jobs: those of
    which ``by`` is ``group``. ``runs`` has each simulation by itself, with the numbers that ``pliant.simulate`` gives.
    None is what there is nothing of, as the interval of a single run.
    """

    workload: str
    nodes: int
    rows: dict[str, list[Any]]
    differences: dict[str, list[Any]]
    groups: dict[str, list[Any]]
    runs: dict[str, list[Any]]


@with_options
def compare(  # noqa: PLR0913 -- as many as a study has
    workload: str | os.PathLike[str] | Iterable[Any],
    policies: Iterable[Chosen],
    nodes: int = 0,
    *,
    malleable: Iterable[float] | float | None = None,
    seeds: int = 1,
    by: str | Iterable[str] = (),
    against: str = "",
    workers: int = 1,
    **options: Any,
) -> Comparison:
    """Simulate ``workload`` under each of the ``policies``, at each percentage of ``malleable`` jobs, with ``seeds``
    seeds and in every window, and compare them pair by pair: with the first policy at the same percentage, under one
    policy with the first percentage, or ``against`` another: ``"easy"`` at the same percentage, ``"easy@0"``, or
    ``"@0"``, each policy's own.

    ``by`` are names of groups of jobs: class, width, user. The ``options`` are those of ``pliant.simulate``, which says
    what workloads and policies may be. With ``workers`` above 1, or 0 for one a processor, simulations are done in
    processes that are started anew: a program then needs ``if __name__ == "__main__"``, and its policies must be in
    files. Raises a PliantError that says what is wrong, and warns of jobs that are left out.
    """
    from pliant.study.grid import Grid, study
    from pliant.study.groups import read_by
    from pliant.study.options import against_said, queue_said, whole_said, wished
    from pliant.study.simulation import NO_NUMBERS
    from pliant.workloads.inline_jobs import given_jobs

    asked = requested("compare", {"nodes": nodes, **options})
    seeds, workers = whole_said(seeds, "seeds", 1), whole_said(workers, "workers", 0)
    named = os.fspath(workload) if isinstance(workload, str | os.PathLike) else ""
    said = queue_said(named, asked)
    jobs = None if named else given_jobs(workload)

    shares = _each(malleable, "malleable", "percentages")
    each_asked = [requested("compare", {"nodes": nodes, **options, "malleable": share}) for share in shares]
    wish = wished(named or "jobs", (each_asked or [asked])[0], jobs)
    percents = [float(share) for share in dict.fromkeys(shares)] or None
    grid = Grid(
        wish, _chosen(policies, said, workers), percents, seeds, asked.instant, read_by(_texts(by, "by"))
    )
    if not isinstance(against, str):
        raise BatchError(f"--against: {against!r} is no text")
    grid = against_said(against, grid)
    result = study(
        grid,
        workers=workers,
        note=lambda text: warnings.warn(refused(text, "strict=True"), stacklevel=4),
        doubt=lambda text: warnings.warn(text, stacklevel=4),
    )
    runs = [{key: value for key, value in run.items() if key not in NO_NUMBERS} for run in result["runs"]]
    rows, differences, groups = (
        _columns([_flat(row) for row in result[key]]) for key in ("rows", "differences", "groups")
    )
    return Comparison(Path(wish.text).name, result["nodes"], rows, differences, groups, _columns(runs))


def _each(value: Any, name: str, what: str) -> list[Any]:
    """None, one or several: those that there are."""
    if value is None:
        return []
    if isinstance(value, Real):
        return [value]
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise BatchError(f"--{name}: {value!r} is no list of {what}")
    several = list(value)
    if any(each is None for each in several):
        raise BatchError(f"--{name}: {value!r} is no list of {what}: leave out None")
    return several


def _texts(value: Any, name: str) -> str:
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(each, str) for each in names):
        raise BatchError(f"--{name}: {value!r} is no list of names")
    return ",".join(each for each in names if each)


def _chosen(policies: Any, said: PolicySpec, workers: int) -> list[PolicySpec]:
    from pliant.files.policy import spec_of

    if isinstance(policies, str) or not isinstance(policies, Iterable) or not (policies := list(policies)):
        raise BatchError(f"policies: {policies!r} is no list of policies; write ['easy', 'marginal']")
    found: list[PolicySpec] = []
    for policy in policies:
        each = spec_of(policy)
        if each.own is not None and workers != 1:
            raise BatchError(
                f"workers: {workers}; policy {each.name!r} is in this process alone: leave it at 1, or name a FILE.py"
            )
        if hasattr(policy, "decide") and not isinstance(policy, type):
            raise BatchError(
                f"policies: {each.name!r} is made, and would remember one simulation in the next; give its class, or "
                "what makes one"
            )
        if not any(each.name == other.name and each.own is other.own for other in found):
            found.append(said._replace(name=each.name, own=each.own))
    return found


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a study with a cell for each number: mean, half width, ratio and bounds."""
    cells: dict[str, Any] = {}
    for key, value in row.items():
        if key == "against":
            cells |= {f"against_{name}": each for name, each in value.items()}
        elif not isinstance(value, Mapping):
            cells[key] = value
        elif "mean" in value:
            cells |= {key: value["mean"], f"{key}_half": value["half"]}
        else:
            cells |= {f"{key}_{name}": each for name, each in value.items()}
    return cells


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}

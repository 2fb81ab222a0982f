"""``pliant reproduce scheduling``: all studies of scheduling, in one folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pliant.model.errors import BatchError
from pliant.study.workers import run_all
from pliant_lab.reproduce import elastic, harm, paper2, paper3, traces
from pliant_lab.reproduce.folder import Folder

STUDIES = ("paper2", "paper3", "traces", "harm", "elastic")


def reproduce(  # noqa: PLR0913 -- what, where from, where to and how: each with a default
    path: Path,
    *,
    studies: tuple[str, ...] = STUDIES,
    trace_folder: Path | None = None,
    quick: bool = False,
    workers: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[str]:
    """Run ``studies`` and write their figures and tables to the folder ``path``; the result is its files.

    ``trace_folder`` has the traces; the study of traces leaves out those that it has not, and says so. ``quick``
    takes fewer and shorter workloads. ``progress`` is told how many simulations are done, and of how many. BatchError
    if the folder cannot be written; nothing is half-written.
    """
    if unknown := [name for name in studies if name not in STUDIES]:
        raise BatchError(f"there is no study {unknown[0]!r} (known: {', '.join(STUDIES)})")
    with Folder(path) as folder:
        found = traces.sources(trace_folder, quick=quick)
        whole = harm.WANTED.there(trace_folder, quick=quick)
        pooled = elastic.WANTED.there(trace_folder, quick=quick)
        tasks = {
            "paper2": paper2.tasks() if "paper2" in studies else [],
            "paper3": paper3.tasks() if "paper3" in studies else [],
            "traces": traces.tasks(found, trace_folder, quick=quick) if "traces" in studies else [],
            "harm": harm.tasks(whole, trace_folder) if "harm" in studies else [],
            "elastic": elastic.tasks(pooled, trace_folder) if "elastic" in studies else [],
        }
        count = sum(len(each) for each in tasks.values())
        results = run_all(
            [task for each in tasks.values() for task in each], workers, lambda done: progress(done, count)
        )
        parts: dict[str, list[Any]] = {}
        for name, each in tasks.items():
            parts[name], results = results[: len(each)], results[len(each) :]
        sections = [_heading(studies, quick=quick)]
        if "paper2" in studies:
            sections.append(paper2.write(folder, paper2.collect(parts["paper2"])))
        if "paper3" in studies:
            sections.append(paper3.write(folder, paper3.collect(parts["paper3"])))
        if "traces" in studies:
            sections += _left_out(traces.missing(found, quick=quick))
            sections.append(traces.write(folder, traces.collect(found, parts["traces"], quick=quick)))
        if "harm" in studies:
            sections += _left_out(harm.WANTED.missing(whole, quick=quick))
            sections.append(harm.write(folder, whole, parts["harm"]))
        if "elastic" in studies:
            sections += _left_out(elastic.WANTED.missing(pooled, quick=quick))
            sections.append(elastic.write(folder, pooled, parts["elastic"]))
        sections.append("## Files\n\n" + "\n".join(f"- [{name}]({name})" for name in folder.files) + "\n")
        folder.readme("\n".join(sections))
    return folder.files


def _left_out(missing: Sequence[traces.Source | harm.Trace]) -> list[str]:
    names = ", ".join(f"{each.name} ({each.file})" for each in missing)
    said = f"These traces were not found (--traces, or PLIANT_TRACES) and are left out: {names}.\n"
    return [said] if missing else []


def _heading(studies: tuple[str, ...], *, quick: bool) -> str:
    options = "".join(f" --only {name}" for name in studies) if studies != STUDIES else ""
    return (
        "# Scheduling of malleable jobs, reproduced\n\n"
        f"Written by `pliant reproduce scheduling{' --quick' if quick else ''}{options}`: simulations with "
        "the scheduler that runs live, every one with a fixed seed, so that another run gives the same "
        "numbers. "
        + ("**Quick**: fewer and shorter windows of traces than the whole study has. " if quick else "")
        + "\n"
    )

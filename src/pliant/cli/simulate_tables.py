"""What ``pliant simulate`` shows of one simulation, and of a study of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pliant.history.metrics import THRASH_S

_SPREAD = ("median", "p95", "p99", "max")
_SECONDS = "{:,.2f} s"
_RESIZES = (
    ("expands", "expansions", "{:,}"),
    ("expands_per_malleable_job", "  per malleable job", "{:,.2f}"),
    ("shrinks", "shrinks", "{:,}"),
    ("shrinks_per_malleable_job", "  per malleable job", "{:,.2f}"),
    ("thrash", f"  undone within {THRASH_S:g} s", "{:,}"),
    ("resizes_withdrawn", "withdrawn, not done in time", "{:,}"),
    ("resizes_declined", "declined", "{:,}"),
    ("resizes_failed", "failed", "{:,}"),
    ("blocked_mean_s", "blocked by a resize, mean", _SECONDS),
    ("resizing_node_s", "lost to joining and leaving", "{:,.0f} node s"),
    ("paused_node_s", "lost to standing still", "{:,.0f} node s"),
)
_SECTIONS: tuple[tuple[tuple[str, str, str], ...], ...] = (
    (
        ("jobs", "jobs", "{:,}"),
        ("left_out", "in the trace, but did not run", "{:,}"),
        ("too_wide", "too wide for the machine, left out", "{:,}"),
        ("failed", "of them failed", "{:,}"),
        ("node_failures", "node failures", "{:,}"),
        ("requeued", "  jobs requeued for them", "{:,}"),
        ("lost_node_s", "  work lost", "{:,.0f} node s"),
        ("makespan_s", "makespan", _SECONDS),
        ("utilisation", "utilisation", "{:.2%}"),
        ("useful_utilisation", "  less what stood still", "{:.2%}"),
        ("goodput", "goodput", "{:.2%}"),
    ),
    (
        ("wait_mean_s", "mean wait", _SECONDS),
        ("wait_spread", "  median, 95 %, 99 %, longest", "{}"),
        ("turnaround_mean_s", "mean turnaround", _SECONDS),
        ("turnaround_spread", "  median, 95 %, 99 %, longest", "{}"),
        ("bounded_slowdown_mean", "mean bounded slowdown", "{:,.4f}"),
        ("bounded_slowdown_preferred_mean", "  by run time at preferred size", "{:,.4f}"),
    ),
    (
        ("class_rigid", "rigid: mean wait, turnaround", "{}"),
        ("class_moldable", "moldable: mean wait, turnaround", "{}"),
        ("class_malleable", "malleable: mean wait, turnaround", "{}"),
        ("class_evolving", "evolving: mean wait, turnaround", "{}"),
        ("malleable_to_rigid_turnaround", "stretch, malleable over rigid", "{:,.4f}"),
        ("users", "users", "{:,}"),
        ("users_jain", "  Jain's index of their stretches", "{:.4f}"),
    ),
    (
        ("promised", "promised a start", "{:,}"),
        ("promises_broken", "  started later than that", "{:,}"),
        ("promise_delay_max_s", "  by at most", _SECONDS),
    ),
    _RESIZES,
    (
        ("cpu_s", "CPU time", "{:.2f} s"),
        ("jobs_per_cpu_s", "jobs per CPU second", "{:,.0f}"),
        ("peak_mb", "peak memory", "{:.0f} MB"),
    ),
)
"""What the table shows: key, label and form, by sections."""


_ONLY_WITH = {
    "promised": ("promised", "promises_broken"),
    "promises_broken": ("promise_delay_max_s",),
    "left_out": ("left_out",),
    "too_wide": ("too_wide",),
    "paused_node_s": ("useful_utilisation",),
    "resizes_withdrawn": ("resizes_withdrawn",),
    "resizes_declined": ("resizes_declined",),
    "resizes_failed": ("resizes_failed",),
    "node_failures": ("node_failures", "requeued", "lost_node_s"),
}
"""Where the key is 0, these say nothing."""


def simulation_table(title: str, figures: dict[str, Any]) -> Table:
    table = Table(title=Text(title, style="table.title"), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    values = _worth_showing(figures)
    for section in _SECTIONS:
        for key, label, form in section:
            if values.get(key) is not None:
                table.add_row(label, form.format(values[key]))
        table.add_section()
    return table


def _worth_showing(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures without those that say nothing here, and several that make one row together."""
    values = dict(figures)
    for what in ("wait", "turnaround"):
        spread = [figures[f"{what}_{each}_s"] for each in _SPREAD]
        digits = 0 if spread[-1] >= 1000 else 2
        values[f"{what}_spread"] = ", ".join(f"{each:,.{digits}f}" for each in spread) + " s"
    if len(figures["classes"]) > 1:
        for name, each in figures["classes"].items():
            values[f"class_{name}"] = f"{each['wait_mean_s']:,.2f}, {each['turnaround_mean_s']:,.2f} s"
    if figures["users"] < 2:
        del values["users"], values["users_jain"]
    if not figures["expands"] + figures["shrinks"]:
        resizing = {key for key, _, _ in _RESIZES} - {"expands", "shrinks"}
        values = {key: value for key, value in values.items() if key not in resizing or figures[key]}
    for key, others in _ONLY_WITH.items():
        if not figures[key]:
            for each in others:
                values.pop(each, None)
    return values


TITLES = {
    "wait_mean_s": ("wait,\ns", 1.0),
    "turnaround_mean_s": ("turn-\naround", 1.0),
    "bounded_slowdown_mean": ("bounded\nslowd.", 1.0),
    "bounded_slowdown_preferred_mean": ("by pre-\nferred", 1.0),
    "malleable_to_rigid_turnaround": ("mall./\nrigid", 1.0),
    "makespan_s": ("make-\nspan, s", 1.0),
    "utilisation": ("util.,\n%", 100.0),
    "expands": ("expan-\nsions", 1.0),
    "shrinks": ("shrinks", 1.0),
    "resizes_withdrawn": ("with-\ndrawn", 1.0),
    "resizes_declined": ("de-\nclined", 1.0),
    "resizes_failed": ("res. that\nfailed", 1.0),
    "too_wide": ("too\nwide", 1.0),
    "failed": ("failed", 1.0),
    "left_out": ("did not\nrun", 1.0),
    "node_failures": ("node\nfailures", 1.0),
    "requeued": ("re-\nqueued", 1.0),
    "lost_node_s": ("lost,\nnode-s", 1.0),
}
"""Of each figure of a study, with its unit."""
IN_JSON = ("left_out", "resizes_declined", "resizes_failed", "node_failures", "lost_node_s")
"""Not shown in the table, which has no room for more."""
OFTEN_EMPTY = ("resizes_withdrawn", "too_wide", "failed", "requeued", "malleable_to_rigid_turnaround")
"""Shown only if some row has it."""
DISPENSABLE = ("shrinks", "expands", "bounded_slowdown_mean", "malleable_to_rigid_turnaround", "makespan_s")
"""What a narrow table does without, first to last."""


def study_table(result: Mapping[str, Any], console: Console) -> Table:
    """The rows for people: means, and where there were several runs their intervals.

    Columns that ``console`` has no room for are left out, and named below: numbers cut short would mislead.
    """
    rows = result["rows"]
    keys = [key for key in TITLES if key not in IN_JSON]
    keys = [key for key in keys if key not in OFTEN_EMPTY or any(row[key]["mean"] for row in rows)]
    shown = _rows(result, keys)
    wide = console.options.update(max_width=1000)
    left_out: list[str] = []
    for key in DISPENSABLE:
        if Measurement.get(console, wide, shown).maximum <= console.width:
            break
        if key in keys:
            keys.remove(key)
            left_out.append(key)
            shown = _rows(result, keys)
    if left_out:
        shown.caption = f"No room for {', '.join(left_out)}: see --json, or widen the terminal."
        shown.caption_justify = "left"
    return shown


def _rows(result: Mapping[str, Any], keys: Sequence[str]) -> Table:
    rows = result["rows"]
    compared = len({row["policy"] for row in rows}) > 1
    policy = "" if compared else f"{result['policy']} on "
    title = f"{Path(result['workload']).name}: {policy}{result['nodes']} nodes; mean ± 95 % interval"
    heading = Text(title, style="table.title")
    shown = Table(title=heading, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    # Where policies are compared, the table is wide: what is the same everywhere gives way.
    shares = not compared or any(row["malleable_percent"] is not None for row in rows)
    counts = not compared or any(row["runs"] > 1 for row in rows)
    heads = (("mall-\neable", shares), ("policy", compared), ("runs", counts))
    for head, wanted in heads:
        if wanted:
            shown.add_column(head, justify="right" if head == "runs" else "left", no_wrap=head == "policy")
    for key in keys:
        shown.add_column(TITLES[key][0], justify="right")
    for row in rows:
        percent = row["malleable_percent"]
        first = ("as is" if percent is None else f"{percent:g} %", row["policy"], str(row["runs"]))
        cells = [cell for cell, (_, wanted) in zip(first, heads, strict=True) if wanted]
        cells += [_cell(row[key], TITLES[key][1]) for key in keys]
        shown.add_row(*cells)
    return shown


def _cell(figure: Mapping[str, float | None], unit: float) -> str:
    mean, half = figure["mean"], figure["half"]
    if mean is None:
        return "-"
    return _short(mean * unit) + (f"\n± {_short(half * unit)}" if half is not None else "")


def _short(number: float) -> str:
    """About four digits."""
    return f"{number:,.{0 if number >= 1000 else 1 if number >= 10 else 2}f}"

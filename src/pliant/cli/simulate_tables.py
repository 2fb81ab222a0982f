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

from pliant.model.words import count
from pliant.study.shown import shown


def simulation_table(title: str, figures: dict[str, Any]) -> Table:
    table = Table(title=Text(title, style="table.title"), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for section in shown(figures):
        for label, text in section:
            table.add_row(Text(label), Text(text))
        table.add_section()
    return table


TITLES = {
    "wait_mean_s": ("wait,\ns", 1.0),
    "turnaround_mean_s": ("turn-\naround", 1.0),
    "turnaround_p95_s": ("its\n95 %", 1.0),
    "turnaround_max_s": ("long-\nest", 1.0),
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
    "energy_kwh": ("energy,\nkWh", 1.0),
    "node_hours": ("node-\nhours", 1.0),
    "node_hours_price": ("their\nprice", 1.0),
    "off_node_h": ("off,\nnode-h", 1.0),
    "boots": ("boots", 1.0),
}
"""Of each figure of a study, with its unit."""
IN_JSON = (
    "left_out",
    "resizes_declined",
    "resizes_failed",
    "node_failures",
    "lost_node_s",
    "off_node_h",
    "boots",
)
"""Not shown in the table, which has no room for more."""
OFTEN_EMPTY = (
    "resizes_withdrawn",
    "too_wide",
    "failed",
    "requeued",
    "malleable_to_rigid_turnaround",
    "energy_kwh",
    "node_hours",
    "node_hours_price",
)
"""Shown only if some row has it."""
DISPENSABLE = (
    "shrinks",
    "expands",
    "bounded_slowdown_preferred_mean",
    "malleable_to_rigid_turnaround",
    "makespan_s",
    "bounded_slowdown_mean",
    "turnaround_p95_s",
    "turnaround_max_s",
)
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
        shown.caption = (
            f"No room for {', '.join(left_out)}: see --json, or widen the terminal (in a pipe: COLUMNS=160)."
        )
        shown.caption_justify = "left"
    return shown


def _rows(result: Mapping[str, Any], keys: Sequence[str]) -> Table:
    rows = result["rows"]
    compared = len({row["policy"] for row in rows}) > 1
    policy = "" if compared else f"{result['policy']} on "
    several = any(row["units"] > 1 for row in rows)
    title = f"{Path(result['workload']).name}: {policy}{count(result['nodes'], 'node')}"
    title += f"; {result['window']}" if result["window"] else ""
    title += "; mean ± 95 % interval" if several else ""
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
        shown.add_row(*map(Text, cells))
    return shown


def _cell(figure: Mapping[str, float | None], unit: float) -> str:
    mean, half = figure["mean"], figure["half"]
    if mean is None:
        return "-"
    return short(mean * unit) + (f"\n± {short(half * unit)}" if half is not None else "")


def short(number: float) -> str:
    """About four digits."""
    return f"{number:,.{0 if number >= 1000 else 1 if number >= 10 else 2}f}"

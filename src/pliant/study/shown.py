"""What people are shown of one simulation: its figures in words, without those that say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
        ("simulated", "  of so many simulated", "{:,}"),
        ("left_out", "in the trace, but did not run", "{:,}"),
        ("too_wide", "too wide for the machine, left out", "{:,}"),
        ("too_wide_there", "too wide for their partition, left out", "{:,}"),
        ("too_long", "too long for their partition, left out", "{:,}"),
        ("failed", "of them failed", "{:,}"),
        ("node_failures", "node failures", "{:,}"),
        ("requeued", "jobs requeued", "{:,}"),
        ("lost_node_s", "  work lost", "{:,.0f} node s"),
        ("energy_kwh", "energy", "{:,.2f} kWh"),
        ("off_node_h", "  nodes switched off", "{:,.1f} node h"),
        ("boots", "  switched on again", "{:,}"),
        ("reserved_node_s", "reserved in advance", "{:,.0f} node s"),
        ("reserved_late_node_s", "  late, as jobs ran on there", "{:,.0f} node s"),
        ("makespan_s", "makespan", _SECONDS),
        ("node_hours", "node-hours held", "{:,.1f}"),
        ("node_hours_price", "  their price", "{:,.2f}"),
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
"""What is shown: key, label and form, by sections."""


_ONLY_WITH = {
    "promised": ("promised", "promises_broken"),
    "promises_broken": ("promise_delay_max_s",),
    "left_out": ("left_out",),
    "too_wide": ("too_wide",),
    "too_long": ("too_long",),
    "reserved_node_s": ("reserved_node_s",),
    "reserved_late_node_s": ("reserved_late_node_s",),
    "paused_node_s": ("useful_utilisation",),
    "resizes_withdrawn": ("resizes_withdrawn",),
    "resizes_declined": ("resizes_declined",),
    "resizes_failed": ("resizes_failed",),
    "node_failures": ("node_failures",),
    "requeued": ("requeued",),
    "lost_node_s": ("lost_node_s",),
}
"""Where the key is 0, these say nothing."""


def shown(figures: Mapping[str, Any]) -> list[list[tuple[str, str]]]:
    """Labels and texts of ``Ended.figures``, by sections; the last says what it took to simulate."""
    values = _worth_showing(figures)
    sections = [
        [(label, form.format(values[key])) for key, label, form in section if values.get(key) is not None]
        for section in _SECTIONS
    ]
    if of_each := figures.get("partitions"):
        sections.insert(-1, [row for name, each in of_each.items() for row in _of_partition(name, each)])
    return sections


def _of_partition(name: str, figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    out = figures["too_wide"] + figures["too_long"]
    jobs = f"{figures['jobs']:,}" + (f" (and {out:,} left out)" if out else "")
    return [
        (f"partition {name}: jobs", jobs),
        ("  nodes, utilisation", f"{figures['nodes']:,}, {figures['utilisation']:.2%}"),
        ("  mean wait, turnaround", f"{figures['wait_mean_s']:,.2f}, {figures['turnaround_mean_s']:,.2f} s"),
    ]


def _worth_showing(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures without those that say nothing here, and several that make one row together."""
    values = dict(figures)
    for what in ("wait", "turnaround"):
        spread = [figures[f"{what}_{each}_s"] for each in _SPREAD]
        digits = 0 if spread[-1] >= 1000 else 2
        values[f"{what}_spread"] = ", ".join(f"{each:,.{digits}f}" for each in spread) + " s"
    if len(figures["classes"]) > 1:
        for name, each in figures["classes"].items():
            values[f"class_{name}"] = f"{each['wait_mean_s']:,.2f}, {each['turnaround_mean_s']:,.2f} s"
    alone = {"simulated": figures["simulated"] == figures["jobs"], "users": figures["users"] < 2}
    alone["users_jain"] = alone["users"]
    values = {key: value for key, value in values.items() if not alone.get(key)}
    if not figures["expands"] + figures["shrinks"]:
        resizing = {key for key, _, _ in _RESIZES} - {"expands", "shrinks"}
        values = {key: value for key, value in values.items() if key not in resizing or figures[key]}
    for key, others in _ONLY_WITH.items():
        if not figures.get(key):
            for each in others:
                values.pop(each, None)
    if figures.get("partitions"):
        values["too_wide_there"] = values.pop("too_wide", None)
    return values

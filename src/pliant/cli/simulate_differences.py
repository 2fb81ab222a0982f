"""What ``pliant simulate`` shows of a study's differences: ratios with their intervals, and who ends later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pliant.cli.simulate_tables import short
from pliant.study.differences import LATER_S

RATIOS = {
    "turnaround_mean_s": "turn-\naround",
    "turnaround_p95_s": "95 %",
    "turnaround_max_s": "longest",
    "wait_mean_s": "wait",
    "bounded_slowdown_mean": "bounded\nslowd.",
}
ROOM = (
    tuple(RATIOS),
    ("turnaround_mean_s", "turnaround_p95_s", "turnaround_max_s"),
    ("turnaround_mean_s", "turnaround_max_s"),
    ("turnaround_mean_s",),
)
"""What is shown, by how much room there is; of groups there are no other ratios than the second's. --json has all."""
MANY = 20
"""Of more groups only those with the most jobs are shown."""


class _About(NamedTuple):
    """What the rows of a table are compared with, and by what groups they are told apart; empty if they are not."""

    baseline: str
    by: str


def differences_tables(result: Mapping[str, Any], console: Console) -> list[Table]:
    """A table of all jobs, and one for each name by which they are told apart; none where nothing is compared."""
    differences: Sequence[Mapping[str, Any]] = result["differences"]
    if not differences:
        return []
    baseline = _baseline(result)
    tables = [_fitting(differences, ROOM, _About(baseline, ""), console)]
    tables[0].caption = _later(result)
    tables[0].caption_justify = "left"
    groups: Sequence[Mapping[str, Any]] = result["groups"]
    for by in dict.fromkeys(row["by"] for row in groups):
        rows = [row for row in groups if row["by"] == by]
        shown = _largest(rows)
        table = _fitting(shown, ROOM[1:], _About(baseline, by), console)
        if len(shown) < len(rows):
            table.caption = f"The {MANY} with the most jobs; --json has all."
            table.caption_justify = "left"
        tables.append(table)
    return tables


def _fitting(
    rows: Sequence[Mapping[str, Any]], room: Sequence[Sequence[str]], about: _About, console: Console
) -> Table:
    """The first that the console has room for: numbers cut short would mislead."""
    wide = console.options.update(max_width=1000)
    for keys in room[:-1]:
        table = _table(rows, keys, about)
        if Measurement.get(console, wide, table).maximum <= console.width:
            return table
    return _table(rows, room[-1], about)


def _largest(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    jobs: dict[str, int] = {}
    for row in rows:
        jobs[row["group"]] = max(row["jobs"], jobs.get(row["group"], 0))
    kept = sorted(jobs, key=lambda name: -jobs[name])[:MANY]
    return [row for row in rows if row["group"] in kept]


def _table(rows: Sequence[Mapping[str, Any]], keys: Sequence[str], about: _About) -> Table:
    by = about.by
    table = Table(
        title=Text(_title(rows, about), style="table.title"),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    shares = any(row["malleable_percent"] is not None for row in rows)
    several = len({row["policy"] for row in rows}) > 1
    heads = [("mall-\neable", shares), ("policy", several), (by, bool(by)), ("jobs", bool(by))]
    for head, wanted in heads:
        if wanted:
            table.add_column(head, justify="right" if head == "jobs" else "left", no_wrap=True)
    for head in (*(RATIOS[key] for key in keys), "later\nby 1 %", "by\n10 %", "at\nmost"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        percent = row["malleable_percent"]
        share = "as is" if percent is None else f"{percent:g} %"
        first = (share, row["policy"], row.get("group", "") or "-", f"{row['jobs']:,}")
        cells = [cell for cell, (_, wanted) in zip(first, heads, strict=True) if wanted]
        cells += [_ratio(row[key]) for key in keys]
        cells += [_share(row["later_1_percent"]), _share(row["later_10_percent"]), _time(row["worst_s"])]
        table.add_row(*map(Text, cells))
    return table


def _baseline(result: Mapping[str, Any]) -> str:
    """Name the baseline of the rows."""
    rows = result["differences"]
    policies = {row["against"]["policy"] for row in rows}
    at = {row["against"]["malleable_percent"] for row in rows}
    share = f" at {max(at) or 0:g} %" if len(at) == 1 and any(_moved(row) for row in rows) else ""
    rigid = " (rigid jobs)" if _is_rigid(result) else ""
    return (policies.pop() if len(policies) == 1 else "each policy's own") + share + rigid


def _is_rigid(result: Mapping[str, Any]) -> bool:
    """Whether all jobs of the baseline are rigid."""
    rows = result["differences"]
    beside = {(row["against"]["policy"], row["against"]["malleable_percent"]) for row in rows}
    runs = [run for run in result["runs"] if (run["policy"], run["malleable_percent"]) in beside]
    return all(run["classes"].keys() == {"rigid"} for run in runs)


def _later(result: Mapping[str, Any]) -> str:
    """The caption: later than under which baseline, and at which costs."""
    first = result["differences"][0]["against"]
    text = (
        f"Later than under {_baseline(result)}, in % of the jobs: a job's turnaround is longer, by more than "
        f"{LATER_S:g} s too."
    )
    if first["malleable_percent"] is not None and not _is_rigid(result):
        text += " Some jobs of the baseline are not rigid; for rigid ones: "
        text += f"--malleable 0,... --against {first['policy']}@0."
    taken = ", ".join(f"{name}={seconds:g}" for name, seconds in result["cost"].items() if seconds)
    return text + (
        f" Resizes and ends cost the same in both: {taken}." if taken else " Resizes take no time."
    )


def _title(rows: Sequence[Mapping[str, Any]], about: _About) -> str:
    """The title: which policy has ratios to which baseline."""
    policies = {row["policy"] for row in rows}
    what = f"Ratios of {policies.pop()} to " if len(policies) == 1 else "Ratios to "
    interval = ", with 95 % intervals" if any(row["pairs"] > 1 for row in rows) else ""
    return what + about.baseline + (f", by {about.by}" if about.by else "") + interval


def _moved(row: Mapping[str, Any]) -> bool:
    """Whether it is compared with another percentage."""
    return bool(row["malleable_percent"] != row["against"]["malleable_percent"])


def _ratio(figure: Mapping[str, float | None]) -> str:
    if (ratio := figure["ratio"]) is None:
        return "-"
    low, high = figure["low"], figure["high"]
    return f"{ratio:.3f}" + (f"\n{_end(low)}-{_end(high)}" if low is not None and high is not None else "")


def _end(ratio: float) -> str:
    """Of an interval; a few runs that differ much may have one of many powers of ten."""
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.1f}" if ratio < 1000 else ">999"


def _share(figure: Mapping[str, float | None]) -> str:
    mean, half = figure["mean"], figure["half"]
    return short(mean or 0.0) + (f"\n± {short(half)}" if half is not None else "")


def _time(seconds: float) -> str:
    """In few letters."""
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{short(seconds / unit)} {name}"
    return f"{short(seconds)} s"

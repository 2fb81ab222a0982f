"""Bosilca et al.'s launches: what was measured on this machine, a model that is fitted to small ones of them, and that
model drawn to 100,000 nodes, beside what the paper says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pliant.model.errors import PliantError
from pliant.plan.tree import Direct, KAry, TreeShape
from pliant_lab.measure.launch_model import SMALL, Compared, Point, Site, fit, held, worst
from pliant_lab.measure.launch_phases import LaunchCosts, LaunchPhases, predict
from pliant_lab.measure.programs import Figures
from pliant_lab.reproduce import charts
from pliant_lab.reproduce.folder import Folder, left_in

FILE = "measured.json"
"""All that was measured, to be written anew from."""
FIGURES = ("launch-measured", "launch-model")
DEGREES = (2, 4, 8, 16, 32, 64)
"""Those of the paper's Figures 2 and 4."""
SIZES = (1, 4, 16, 64, 128, 256, 512, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
FLAT_MOST = 5000
"""A flat loop is drawn so far: from there on it is a straight line."""
CLOSE = 0.2
"""The model is to tell each measured launch as close as this, relative."""
NETWORK_DELAY_S = 0.5
MPI_PHASES = ("started", "fence", "ended")
PUBLISHED_NODES, PUBLISHED_MINUTE = 900, 20_000
"""Of the paper: its largest launch, and what its regression says can be launched in less than a minute (section VI)."""


class Row(msgspec.Struct, frozen=True):
    """What one launcher took: the medians of its runs, until the whole was over and by ``phases``, in seconds."""

    nodes: int
    contender: str
    degree: int
    mpi: bool
    ssh_delay_s: float
    seconds: float
    phases: dict[str, float] = {}


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, with what it depends on. ``loud``: so many launches began while others computed. ``contact_s``: what a
    contact takes at each end of a message."""

    processors: int
    load_average: float
    python: str
    architecture: str
    window: int
    repetitions: int
    loud: int
    contact_s: float
    rows: list[Row]

    @property
    def points(self) -> list[Point]:
        """What the model is to tell: our launches of an empty command."""
        return [
            Point(row.nodes, row.degree, row.ssh_delay_s, row.phases["started"])
            for row in self.rows
            if row.degree and not row.mpi
        ]


def rows_of(rows: Sequence[Figures]) -> list[Row]:
    """Those of ``pliant bench launch`` that have not failed."""
    return msgspec.convert([row for row in rows if not row["failed"]], list[Row])


def load(folder: Path) -> Measured:
    """What an earlier ``pliant reproduce launch`` has left in ``folder``; PliantError if that cannot be read."""
    return left_in(folder, FILE, Measured, "pliant reproduce launch")


def write(folder: Folder, measured: Measured) -> None:
    """Figures, tables and what they say. PliantError if there are no launches to fit the model to."""
    points = measured.points
    small = [each for each in points if each.nodes in SMALL]
    if not small or len(small) == len(points):
        raise PliantError(
            f"there are launches of {', '.join(map(str, SMALL))} nodes to be had, and of more: not here"
        )
    folder.text(FILE, msgspec.json.format(msgspec.json.encode(measured)).decode() + "\n")
    costs, site = fit(small, Site(measured.window, measured.processors))
    costs = replace(costs, contact_s=measured.contact_s)
    told = list(held(points, costs, site))
    there = costs
    costs = replace(costs, delay_s=NETWORK_DELAY_S + site.ahead_s)
    large = _large(costs, site.window)
    folder.table(
        FIGURES[0], ("nodes", "degree", "delay_s", "measured_s", "model_s", "off"),
        [(*each.point, each.model_s, each.off) for each in told],
    )  # fmt: skip
    folder.table(
        FIGURES[1], ("tree", "nodes", "called_s", "contacts_s", "started_s"),
        [
            (name, nodes, each.called, each.contacts, each.started)
            for name, rows in large.items()
            for nodes, each in rows
        ],
    )  # fmt: skip
    _measured(folder, told)
    _model(folder, large)
    parts = [_heading(measured), _check(told, there, site), _mpi(measured), _drawn(large), _files(folder)]
    folder.readme("\n".join(filter(None, parts)))


def _large(costs: LaunchCosts, window: int) -> dict[str, list[tuple[int, LaunchPhases]]]:
    """By tree, launches over nodes that have a processor each."""
    trees: dict[str, TreeShape] = {f"degree {degree}": KAry(degree) for degree in DEGREES}
    rows = {
        name: [(nodes, predict(nodes, tree, window, costs)) for nodes in SIZES]
        for name, tree in trees.items()
    }
    flat = [(nodes, predict(nodes, Direct(), window, costs)) for nodes in SIZES if nodes <= FLAT_MOST]
    return {**rows, "all from one node": flat}


def _measured(folder: Folder, told: Sequence[Compared]) -> None:
    delays = sorted({each.point.delay_s for each in told})
    made, axes = charts.figure(len(delays))
    for delay, place in zip(delays, axes, strict=True):
        series, stars = [], {}
        for look, degree in enumerate(sorted({each.point.degree for each in told})):
            rows = sorted(
                each for each in told if each.point.degree == degree and each.point.delay_s == delay
            )
            label = f"model, degree {degree}"
            series.append(
                charts.Series(
                    label, [each.point.nodes for each in rows], [each.model_s for each in rows], look=look
                )
            )
            stars[label] = [(float(each.point.nodes), each.point.seconds) for each in rows]
        charts.lines(place, series, stars)
        place.set_title(f"each ssh {delay:g} s longer; stars: measured", fontsize=charts.FONT + 1)
        place.set_xlabel("nodes")
        place.set_ylabel("seconds until the program runs on all")
        place.set_ylim(bottom=0)
    charts.legend(made, axes[0])
    folder.figure(FIGURES[0], made)


def _model(folder: Folder, large: dict[str, list[tuple[int, LaunchPhases]]]) -> None:
    made, (left, right) = charts.figure(2)
    for place, phase in ((left, "started"), (right, "contacts")):
        series = [
            charts.Series(
                name, [nodes for nodes, _ in rows], [getattr(each, phase) for _, each in rows], look=look
            )
            for look, (name, rows) in enumerate(large.items())
        ]
        charts.lines(place, series)
        place.set_xscale("log")
        place.set_yscale("log")
        place.set_xlabel("nodes")
    left.set_ylabel("seconds until the program runs on all")
    right.set_ylabel("seconds until all know how all are reached")
    charts.legend(made, left)
    folder.figure(FIGURES[1], made)


def _heading(measured: Measured) -> str:
    return (
        "# Launching over a tree: Bosilca et al. 2011, measured and drawn on\n\n"
        f"Written by `pliant reproduce launch`: `pliant launch` of an empty command on a virtual cluster, by ssh, on "
        f"{measured.processors} processors that all nodes share, with a load of {measured.load_average} at the "
        f"start, {measured.window} starts at a time, medians of {measured.repetitions} runs; {measured.loud} launches "
        f"began while others computed. The paper's launches are of up to {PUBLISHED_NODES} nodes of a real cluster.\n"
    )


def _check(told: Sequence[Compared], costs: LaunchCosts, site: Site) -> str:
    large = [each for each in told if each.point.nodes not in SMALL]
    busy = costs.spawn_s + costs.agent_s + costs.call_s + costs.program_s
    word = "**Within**" if worst(large) <= CLOSE else "**Not within**"
    lines = [
        "## The model and what was measured",
        "",
        (
            f"Fitted to launches of {', '.join(map(str, SMALL))} nodes: a start takes {busy * 1000:.0f} ms of "
            f"processors and waits {site.ahead_s * 1000:.0f} ms beside; to make an ssh longer takes "
            f"{site.slow_s * 1000:.0f} ms of processors. Stars are measured."
        ),
        "",
        "| nodes | degree | delay s | measured s | model s | off |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {p.nodes} | {p.degree} | {p.delay_s:g} | {p.seconds:.2f} | {model_s:.2f} | {model_s / p.seconds - 1:+.0%} |"
        for p, model_s in large
    ]
    lines += [
        "",
        f"- {word} {CLOSE:.0%}: the farthest of these {len(large)} is off by {worst(large):.0%}.",
        "",
        f"![]({FIGURES[0]}.png)",
        "",
    ]
    return "\n".join(lines)


def _mpi(measured: Measured) -> str:
    """An empty MPI program: MPI_Init and MPI_Finalize, a rank a node."""
    rows = [row for row in measured.rows if row.mpi]
    if not rows:
        return ""
    lines = [
        "## An empty MPI program",
        "",
        (
            "MPI_Init and MPI_Finalize, a rank a node: seconds until the launcher has ended, and of ours until the "
            "program was started everywhere, MPI_Init was over and all had ended."
        ),
        "",
        "| nodes | delay s | launcher | seconds | started | fence | ended |",
        "|---:|---:|---|---:|---:|---:|---:|",
    ]
    for row in sorted(rows, key=lambda each: (each.ssh_delay_s, each.nodes)):
        times = [f"{row.phases[name]:.2f}" if name in row.phases else "" for name in MPI_PHASES]
        lines.append(
            f"| {row.nodes} | {row.ssh_delay_s:g} | {row.contender} | {row.seconds:.2f} | {' | '.join(times)} |"
        )
    return "\n".join([*lines, ""])


def _drawn(large: dict[str, list[tuple[int, LaunchPhases]]]) -> str:
    by = {(name, nodes): each for name, rows in large.items() for nodes, each in rows}
    lines = [
        "## Drawn on: nodes with a processor each",
        "",
        (
            f"The same costs, each ssh {NETWORK_DELAY_S:g} s longer. Seconds until the program runs on all nodes, and "
            "in brackets until every agent knows how all others are reached, which the program does not wait for."
        ),
        "",
        f"| nodes | {' | '.join(large)} |",
        "|---:|" + "---|" * len(large),
    ]
    for nodes in SIZES:
        cells = [_cell(by.get((name, nodes))) for name in large]
        lines.append(f"| {nodes:,} | {' | '.join(cells)} |")
    trees = {name: rows for name, rows in large.items() if name.startswith("degree")}
    best = min(trees, key=lambda name: by[name, 1000].started)
    minute = max(by[name, PUBLISHED_MINUTE].contacts for name in trees if name != "degree 2")
    lines += [
        "",
        f"- At 1,000 nodes {best} is the quickest; the paper took 32, as the one most consistently so.",
        (
            f"- {'**Agrees**' if minute < 60 else '**Does not agree**'}: the paper expects {PUBLISHED_MINUTE:,} nodes "
            f"in less than a minute; here they take {minute:.0f} s at the most, of degrees 4 to 64, all contacts known."
        ),
        "",
        f"![]({FIGURES[1]}.png)",
        "",
    ]
    return "\n".join(lines)


def _cell(phases: LaunchPhases | None) -> str:
    return "" if phases is None else f"{phases.started:.1f} ({phases.contacts:.1f})"


def _files(folder: Folder) -> str:
    return "## Files\n\n" + "\n".join(f"- [{name}]({name})" for name in folder.files) + "\n"

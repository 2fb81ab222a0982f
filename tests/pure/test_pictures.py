"""What every picture keeps: nothing is cut off, no text is upon other text, nothing is told by its hue alone."""

from __future__ import annotations

from typing import Any

import pytest
from pictures import faults

from pliant.charts.plans import spawn_chart
from pliant.plan.spawn import Method, Strategy, spawn_plan
from pliant_lab.reproduce import charts, paper3

ENTRIES = (
    "entitled",
    "entitled:certain=0.5",
    "entitled:certain=0.2",
    "marginal",
    "malleable",
    "conservative",
)


def lines(panels: int) -> Any:
    made, axes = charts.figure(panels)
    for each in axes:
        charts.lines(
            each, [charts.Series(name, (0, 50, 100), (i, 1, 2), look=i) for i, name in enumerate(ENTRIES)]
        )
        each.set_title("KTH-SP2")
    charts.legend(made, axes[0])
    return made


@pytest.mark.parametrize("panels", [1, 2, 4])
def test_a_legend_and_a_title_have_room(panels: int) -> None:
    made = lines(panels)
    charts.title(
        made, "Mean turnaround against rigid EASY, change in per cent (less is better), and some more words"
    )
    assert faults(made) == []


def test_legends_of_single_panels_have_room() -> None:
    made, axes = charts.figure(2, high=3.8)
    for each in axes:
        charts.bars(
            each,
            ["1 to 2", "2 to 4"],
            [charts.Series(name, (), (1, 2), look=i) for i, name in enumerate(ENTRIES)],
        )
        each.set_xlabel("nodes")
        charts.legend(made, each, within=True)
    assert faults(made) == []


def test_what_cannot_be_read_is_found() -> None:
    made = lines(1)
    made.text(0.95, 0.5, "cut off at the border")
    made.text(0.3, 0.5, "one")
    made.text(0.31, 0.5, "other")
    assert faults(made) == ["cut off: 'cut off at the border'", "upon each other: 'one', 'other'"]


def test_the_letters_of_a_figure_can_be_read_at_400_pixels() -> None:
    made = lines(3)
    pixels = 400 / made.get_size_inches()[0]
    assert pixels * charts.FONT / 72 > 7


def test_bars_are_told_apart_by_more_than_their_hue() -> None:
    _, (axes,) = charts.figure(1)
    charts.bars(axes, ["a"], [charts.Series(str(i), (), (1,), look=i) for i in range(8)])
    assert len({bar.get_hatch() for bar in axes.patches}) == 8


@pytest.mark.parametrize("version", paper3.VERSIONS)
def test_the_evolution_of_a_workload_has_one_step_an_instant(version: str) -> None:
    steps = paper3.one(paper3.DETAILED, version).steps
    assert len({step.at for step in steps}) == len(steps)


def test_each_row_of_a_plan_has_its_name_beside_it() -> None:
    plan = spawn_plan([4, 2, 8, 12], [2, 0, 0, 0], Method.MERGE, Strategy.DIFFUSIVE)
    figure = spawn_chart(plan)
    assert faults(figure) == []
    rows = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert rows == ["n0", "n0", "n1", "n2", "n3"]

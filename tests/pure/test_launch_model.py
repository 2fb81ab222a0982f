"""The model of a launch: what must hold of it, and that it is found again from launches."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pliant.model.errors import PliantError
from pliant.plan import tree
from pliant.plan.tree import Binomial, Direct, KAry
from pliant_lab.measure.launch_model import SMALL, START, Point, Site, fit, held, predicted, worst
from pliant_lab.measure.launch_phases import LaunchCosts, predict
from pliant_lab.reproduce import launch as reproduced
from pliant_lab.reproduce.folder import Folder
from pliant_lab.reproduce.launch import Measured, Row, load

MEASURED = Path(__file__).with_name("launches.csv")
"""Nodes, degree, delay of each ssh, seconds: medians of three launches each."""
NOTHING = LaunchCosts(
    spawn_s=0.0, agent_s=0.0, call_s=0.0, message_s=0.0, contact_s=0.0, program_s=0.0, delay_s=0.0, hop_s=0.0
)
shapes = st.one_of(st.integers(1, 70).map(KAry), st.just(Binomial()), st.just(Direct()))


@given(shapes, st.integers(1, 300))
def test_a_delay_is_waited_for_once_a_level(shape: tree.TreeShape, agents: int) -> None:
    """Where nothing else takes time, and everything may start at once: the depth of the tree."""
    phases = predict(agents, shape, 1000, replace(NOTHING, delay_s=1.0))
    assert phases.started == phases.called == phases.contacts == tree.depth(shape, agents)


@given(st.integers(1, 200), st.integers(1, 50))
def test_a_window_makes_rounds(agents: int, window: int) -> None:
    assert predict(agents, Direct(), window, replace(NOTHING, delay_s=1.0)).called == math.ceil(
        agents / window
    )


@given(shapes, st.integers(1, 200), st.integers(1, 8))
def test_shared_processors_do_all_the_work(shape: tree.TreeShape, agents: int, processors: int) -> None:
    costs = replace(NOTHING, agent_s=1.0)
    phases = predict(agents, shape, 1000, costs, processors=processors)
    assert phases.called > agents / processors * 0.999999
    assert predict(agents, shape, 1000, costs).called == tree.depth(shape, agents)
    if isinstance(shape, Direct):
        assert phases.called == pytest.approx(max(1.0, agents / processors))


def test_those_that_share_processors_are_ready_together() -> None:
    """Four agents of 1 s on two processors, each with four below it, and a delay before each start: nothing is computed
    while all of them wait."""
    costs = replace(NOTHING, agent_s=1.0, delay_s=5.0)
    phases = predict(20, KAry(4), 8, costs, processors=2)
    assert phases.called == pytest.approx(5 + 2 + 5 + 8)


@given(shapes, st.integers(1, 200))
def test_contacts_go_up_and_down(shape: tree.TreeShape, agents: int) -> None:
    """A level takes a call and its answer, then a hop up and a hop down."""
    phases = predict(agents, shape, 1000, replace(NOTHING, hop_s=1.0))
    deepest = tree.depth(shape, agents)
    assert phases.called == 2 * deepest
    assert phases.contacts == 4 * deepest


@settings(max_examples=examples(15), deadline=None)
@given(shapes, st.integers(1, 100), st.integers(1, 20))
def test_more_never_makes_it_shorter_for_one_node(shape: tree.TreeShape, agents: int, window: int) -> None:
    """Of costs: a processor that is slower, on nodes that have their own."""
    quick, slow = LaunchCosts(), LaunchCosts(agent_s=0.4, delay_s=0.2)
    assert predict(agents, shape, window, slow).started > predict(agents, shape, window, quick).started


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="a launch of 0 agents"):
        predict(0, Direct(), 8, START)


@pytest.mark.long
def test_a_run_that_was_measured_is_told_by_its_small_launches() -> None:
    """Of two processors, with the noise that there was."""
    with MEASURED.open(encoding="utf-8", newline="") as file:
        points = [
            Point(int(nodes), int(degree), float(delay_s), float(seconds))
            for nodes, degree, delay_s, seconds in list(csv.reader(file))[1:]
        ]
    costs, site = fit([each for each in points if each.nodes in SMALL], Site(8, 2))
    large = [each for each in points if each.nodes not in SMALL]
    assert len(large) == 24
    assert worst(list(held(large, costs, site))) < reproduced.CLOSE


def test_a_folder_that_no_run_has_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PliantError, match=r"--from .*: measured.json cannot be read: No such file"):
        load(tmp_path)
    (tmp_path / "measured.json").write_text("{}")
    with pytest.raises(PliantError, match=r"measured.json is not as it was written: .*processors"):
        load(tmp_path)


@pytest.mark.long
def test_the_costs_are_found_again(tmp_path: Path) -> None:
    """From launches of a few nodes, though the proportions of what they consist of are others."""
    truth = LaunchCosts(spawn_s=0.03, agent_s=0.12, call_s=0.001, program_s=0.005)
    site = Site(8, 2, 0.06, 0.01)
    points = [
        Point(nodes, degree, delay, predicted(Point(nodes, degree, delay, 1.0), truth, site))
        for nodes in (*SMALL, 16, 64, 128)
        for degree in (2, 8)
        for delay in (0.0, 0.5)
    ]
    costs, found = fit([each for each in points if each.nodes in SMALL], Site(8, 2))
    told = list(held(points, costs, found))
    assert worst(told) < 0.1
    assert abs(found.ahead_s - 0.06) < 0.05
    assert abs(found.slow_s - 0.01) < 0.02
    rows = [
        Row(
            each.nodes,
            "ours",
            each.degree,
            False,
            each.delay_s,
            each.seconds + 0.1,
            {"started": each.seconds},
        )
        for each in points
    ]
    mpi = [Row(16, "hydra, MPI", 0, True, 0.0, 1.5), Row(16, "ours", 8, True, 0.0, 2.5, {"fence": 2.25})]
    measured = Measured(
        processors=2, load_average=0.0, python="3", architecture="", window=8, repetitions=3, loud=0,
        contact_s=1e-6, rows=rows + mpi,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, Folder(tmp_path / "out") as folder:
        patch.setattr(reproduced, "SIZES", (1, 64, 1000, 20_000))
        reproduced.write(folder, measured)
    assert load(tmp_path / "out") == measured, "to be written anew from"
    text = (tmp_path / "out/README.md").read_text()
    assert "**Within** 20%: the farthest of these 12" in text
    assert "| 16 | 0 | ours | 2.50 |  | 2.25 |  |" in text
    assert "**Agrees**: the paper expects 20,000 nodes" in text
    assert (tmp_path / "out/launch-model.png").stat().st_size > 10_000

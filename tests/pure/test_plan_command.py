"""``pliant plan spawn``, ``pliant plan shrink`` and ``pliant plan data``: tables, JSON, pictures, and what is refused."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from commands import command

from pliant.charts.plans import MOST_LANES
from pliant.model.errors import PliantError

TABLE_2 = ("--cores", "4,2,8,12,3,3,4,4,6,3", "--running", "2")
JOB = ("--world", "n[0-1]=4", "--groups", "n[2-4]=4")


def spawn(*arguments: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(command("plan", "spawn", *arguments, "--json"))
    return told


def shrink(*arguments: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(command("plan", "shrink", *arguments, "--json"))
    return told


# ---- spawn ----------------------------------------------------------------------------------------------


def test_the_steps_of_table_2_as_json() -> None:
    told = spawn(*TABLE_2)
    assert told["steps"] == [
        {"step": 0, "processes": 2, "spawned": 0, "nodes": 1, "new_nodes": 0},
        {"step": 1, "processes": 6, "spawned": 4, "nodes": 2, "new_nodes": 1},
        {"step": 2, "processes": 40, "spawned": 34, "nodes": 8, "new_nodes": 6},
        {"step": 3, "processes": 49, "spawned": 9, "nodes": 10, "new_nodes": 2},
    ]
    assert told["groups"][4] == {
        "id": 4, "node": 4, "size": 3, "step": 2, "parent_group": 0, "parent_rank": 0, "first_rank": 26,
    }  # fmt: skip
    assert told["connections"][1] == {"round": 2, "accept_connect": [[0, 4], [1, 3]], "skips": 2}
    assert "predicted" not in told


def test_the_steps_as_a_table() -> None:
    shown = command("plan", "spawn", *TABLE_2)
    assert "merge, diffusive: 2 processes become 49" in shown
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if "│" in line]
    assert rows[0] == ["0", "2", "-", "1", "-", "-"]
    assert rows[2] == ["2", "40", "34", "8", "6", "6"]
    assert "10 worlds are connected in 4 rounds." in shown


def test_one_process_starts_what_all_would() -> None:
    parents = [
        (group["step"], group["parent_rank"])
        for group in spawn("--cores", "2x3", "--running", "2", "--one")["groups"]
    ]
    assert parents == [(1, 0), (2, 0)]
    told = spawn("--cores", "2x3", "--running", "2")
    assert [(group["step"], group["parent_rank"]) for group in told["groups"]] == [(1, 0), (1, 1)]


def test_a_number_of_processes_fills_the_nodes_in_order() -> None:
    told = spawn("--strategy", "hypercube", "--cores", "20x8", "--running", "40")
    assert told["running"] == [20, 20, 0, 0, 0, 0, 0, 0]
    assert [step["nodes"] for step in told["steps"]] == [2, 8]
    twice = spawn("--cores", "2,2", "--running", "3", "--oversubscribe", "2")
    assert (twice["running"], twice["groups"][0]["size"]) == ([3, 0], 1)
    assert spawn("--cores", "2x4", "--running", "2,0,2")["running"] == [2, 0, 2, 0]


def test_baseline_says_whether_those_that_leave_are_counted() -> None:
    cube = command("plan", "spawn", "--cores", "20x8", "--method", "baseline", "--strategy", "hypercube")
    assert "The 1 that were there leave at the end; above they are not counted." in cube
    assert "above they are counted" in command("plan", "spawn", *TABLE_2, "--method", "baseline")


def test_a_prediction_has_a_time_for_each_step_and_for_all() -> None:
    told = spawn(*TABLE_2, "--predict", "--cost", "process_s=1", "--cost", "call_s=0.5")
    assert [step["seconds"] for step in told["steps"]] == [0.0, 1.5, 1.5, 1.5]
    assert told["predicted"]["start_s"] == 4.5
    assert told["predicted"]["total_s"] > 4.5
    shared = spawn(*TABLE_2, "--predict", "--cost", "process_s=1", "--processors", "2")
    assert shared["steps"][2]["seconds"] == pytest.approx(17.008)
    shown = command("plan", "spawn", *TABLE_2, "--predict")
    assert "142 ms" in shown
    assert "Expected: 456 ms: starts 426 ms" in shown


def test_nothing_to_start_is_said() -> None:
    assert "Nothing is to be started" in command("plan", "spawn", "--cores", "2", "--running", "2")
    assert spawn("--cores", "2", "--running", "2", "--predict")["connections"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cores", "4,x"), "--cores x: '' is no number of nodes"),
        (("--cores", "4,two"), "--cores two: 'two' is no number of cores"),
        (("--cores", "4x"), "--cores 4x: '' is no number of nodes"),
        (("--cores", "4,1x65536"), "--cores 1x65536: more than 65,536 nodes"),
        (("--cores", "9999999999"), "is no number of cores, which are 0 to 1,048,576"),
        (("--cores", "4,4", "--running", "9"), "--running 9: there is room for 8"),
        (("--cores", "4,4", "--running", "0"), "no process is running"),
        (("--cores", "4,4", "--running", "2,9"), "node 1: 9 processes are running, and 4"),
        (("--cores", "4,2,8", "--strategy", "hypercube", "--running", "4"), "hypercube .* take diffusive"),
        (("--cores", "4,4", "--cost", "call_s=1"), "--cost changes nothing without --predict"),
        (("--cores", "4,4", "--predict", "--cost", "speed=1"), "there is no 'speed'; .* of call_s, "),
        (("--cores", "4,4", "--predict", "--cost", "call_s=fast"), "'fast' is no number of seconds"),
        (("--cores", "4,4", "--predict", "--cost", "call_s=inf"), "'inf' is no number of seconds"),
        (("--cores", "4,4", "--draw", "plan.pdf"), "--draw plan.pdf: name a file that ends in .svg or .png"),
        (("--cores", "4,4", "--draw", "nowhere/plan.svg"), "--draw nowhere/plan.svg: there is no directory"),
    ],
)
def test_what_is_wrong_is_named(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(PliantError, match=words):
        command("plan", "spawn", *arguments)


# ---- shrink ---------------------------------------------------------------------------------------------


def test_worlds_that_end_sleep_and_are_started_anew() -> None:
    told = shrink(*JOB, "--give-back", "n1,n3,n4=1")
    assert [world["case"] for world in told["worlds"]] == ["respawned", "kept", "terminated", "thinned"]
    assert (told["free"], told["held"]) == (["n1", "n3"], [])
    assert told["worlds"][3]["sleeps"] == [3]
    assert told["respawn"]["groups"][0]["node"] == "n0"
    assert told["after"][-1] == {"world": 4, "nodes": {"n0": 4}, "asleep": []}
    assert told["root_after"] == {"world": 1, "rank": 0}
    shown = " ".join(command("plan", "shrink", *JOB, "--give-back", "n1,n3,n4=1", "--predict").split())
    assert "Started anew, in 1 step, before anybody leaves: 4 on n0." in shown
    assert "Free afterwards: n[1,3]." in shown
    assert "The root, rank 0 of world 0, hands its records to rank 0 of world 1." in shown
    assert "Expected: the job stands still for" in shown


def test_worlds_that_hold_a_node_until_they_end() -> None:
    told = shrink(*JOB, "--give-back", "n1", "--method", "zombie")
    assert (told["free"], told["held"]) == ([], ["n1"])
    shown = command("plan", "shrink", *JOB, "--give-back", "n1", "--method", "zombie")
    assert "Free afterwards: no node." in shown
    assert "Held by ranks that sleep, until their worlds end: n1." in shown
    again = shrink("--world", "n0=4,n1=0+4", "--groups", "n2=4", "--give-back", "n0")
    assert (again["worlds"][0]["case"], again["free"]) == ("emptied", ["n0", "n1"])


def test_nodes_that_the_job_may_choose() -> None:
    told = shrink(*JOB, "--nodes", "1")
    assert (told["choice"], told["give_back"]) == ("initial stays", {"n4": 4})
    assert set(shrink(*JOB, "--nodes", "3")["free"]) == {"n0", "n1", "n4"}
    assert "a world over several nodes is cut" in command(
        "plan", "shrink", "--world", "n[0-3]=4", "--nodes", "1"
    )


def test_what_a_shrink_takes() -> None:
    predicted = shrink(*JOB, "--give-back", "n3", "--predict")["predicted"]
    assert (predicted["blocked_s"], predicted["free_s"], predicted["respawn"]) == (0.0005, 0.0225, None)
    anew = shrink(*JOB, "--give-back", "n3", "--predict", "--method", "respawn")["predicted"]
    assert anew["blocked_s"] > anew["respawn"]["total_s"] > 0.1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--give-back", "n0"), "a job has at least one world"),
        (JOB, "one of --give-back and --nodes"),
        ((*JOB, "--give-back", "n1", "--nodes", "1"), "one of --give-back and --nodes"),
        ((*JOB, "--give-back", "n7"), "the job is not on n7; it is on n\\[0-4\\]"),
        ((*JOB, "--give-back", "n1,n1"), "n1 twice"),
        ((*JOB, "--give-back", "n1=9"), "node n1: 9 slots to give back, and the job has 4"),
        ((*JOB, "--give-back", "n1=all"), "--give-back n1: 'all' is no number of slots"),
        ((*JOB, "--give-back", "n[0-4]"), "nothing be left of the job"),
        ((*JOB, "--nodes", "5"), "5 nodes to give back, and the job is at work on 5"),
        (("--world", "n0", "--nodes", "1"), "world 0: n0=: '' is no number of ranks"),
        (("--world", "n0=0", "--nodes", "1"), "world 0: n0=0: a world has ranks on each"),
        (("--world", "n0=2,n0=2", "--nodes", "1"), "world 0: n0=2: .* said once"),
        (("--world", "=2", "--nodes", "1"), "--world =2: '=2' names no node"),
        (("--world", "n[0=2", "--nodes", "1"), "--world"),
        (("--world", "n0=2+2,n1=0+2", "--groups", "n2=0+1", "--nodes", "1"), "world 1 has no rank awake"),
    ],
)
def test_what_cannot_be_given_back_is_named(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(PliantError, match=words):
        command("plan", "shrink", *arguments)


# ---- pictures -------------------------------------------------------------------------------------------


def drawn(file: Path) -> list[str]:
    return [text.text or "" for text in ET.parse(file).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 - our own


def test_the_tree_as_a_picture_has_each_group_and_step(tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"
    command("plan", "spawn", *TABLE_2, "--draw", str(file), "--predict")
    words = drawn(file)
    assert "merge, diffusive: 2 processes become 49 in 3 steps" in words
    assert "group 5: 3, by group 0 rank 1" in words
    assert "sources: 2 processes" in words
    assert {f"n{node}" for node in range(10)} <= set(words)
    assert words.count("n0") == 2, (
        "what ran on n0 and what is started there: the name of each row is at the row"
    )
    assert "step 3, 426 ms" in words
    before = file.read_bytes()
    command("plan", "spawn", *TABLE_2, "--draw", str(file), "--predict")
    assert file.read_bytes() == before


def test_a_shrink_as_a_picture(tmp_path: Path) -> None:
    file = tmp_path / "shrink.svg"
    command("plan", "shrink", *JOB, "--give-back", "n1,n3,n4=1", "--draw", str(file))
    words = drawn(file)
    assert words.count("free") == 2
    assert words.count("world 0: 4") == 2
    assert "world 4: 4" in words


def test_pictures_as_png_and_ones_that_nobody_could_read(tmp_path: Path) -> None:
    file = tmp_path / "plan.png"
    command("plan", "spawn", "--cores", "2x3", "--running", "2", "--strategy", "single", "--draw", str(file))
    assert file.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(PliantError, match="--draw: 1,000 groups are more than a picture can show"):
        command("plan", "spawn", "--cores", "2x1000", "--running", "2", "--draw", str(file))
    wide = f"n[0-{MOST_LANES}]=1"
    with pytest.raises(PliantError, match=f"--draw: {MOST_LANES + 1} nodes are more"):
        command("plan", "shrink", "--groups", wide, "--give-back", "n0", "--draw", str(file))


# ---- docs/resizing-plans.md -----------------------------------------------------------------------------


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs/resizing-plans.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    lines = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert all(line.startswith("pliant plan ") for line in lines)
    table, cube, _, predicted, given_back, chosen = (command(*shlex.split(line)[1:]) for line in lines)
    assert "10 worlds are connected in 4 rounds." in table
    assert ["2", "8,820"] in [
        [cell.strip() for cell in line.split("│")[1:3]] for line in cube.splitlines() if "│" in line
    ]
    assert "step 3" in drawn(tmp_path / "plan.svg")
    times = json.loads(predicted)
    assert times["predicted"]["total_s"] > times["steps"][1]["seconds"] > 0
    assert "Free afterwards: n3." in given_back
    assert json.loads(chosen)["free"] == ["n0", "n1", "n4"]
    assert set(drawn(tmp_path / "plan.svg")) == set(
        drawn(Path(__file__).parents[2] / "docs/spawn-plan.svg")
    ), "make the picture of the page anew, by its command"


# ---- data -----------------------------------------------------------------------------------------------


def data(*arguments: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(command("plan", "data", *arguments, "--json"))
    return told


def test_what_two_ranks_send_to_become_four() -> None:
    told = data("--rows", "1000000", "--from", "block", "--to", "block", "--sources", "2", "--targets", "4")
    assert [(m["source"], m["target"], m["cells"]) for m in told["moves"]] == [
        (0, 1, 250_000),
        (1, 2, 250_000),
        (1, 3, 250_000),
    ]
    assert told["kept"][0]["patches"] == [[{"start": 0, "width": 250_000, "step": 0, "times": 1}]]
    assert told["moved_bytes"] == told["lower_bound_bytes"] == 6_000_000


def test_who_joins_takes_the_place_of_who_leaves_as_in_a_migration() -> None:
    told = data("--rows", "4000", "--sources", "2", "--targets", "2", "--leave", "0")
    assert told["targets"] == [2, 1]
    assert [(m["source"], m["target"], m["cells"]) for m in told["moves"]] == [(0, 2, 2000)]
    assert told["moved_bytes"] == told["lower_bound_bytes"] == 16_000
    told = data("--rows", "40", "--sources", "3", "--targets", "4", "--leave", "1")
    assert told["targets"] == [0, 3, 2, 4]


def test_what_goes_between_grids() -> None:
    """Two ranks side by side become a square of four: the lower half of each goes to a newcomer, and rank 1's part
    to the one that takes its place."""
    told = data("--rows", "40x60", "--layout", "grid", "--sources", "2", "--targets", "4")
    assert told["shape"] == [40, 60]
    sent = [(m["source"], m["target"], m["cells"]) for m in told["moves"]]
    assert sent == [(0, 1, 600), (1, 2, 600), (1, 3, 600)]
    assert told["moved_bytes"] == told["lower_bound_bytes"] == 14_400
    told = data("--rows", "40x60", "--from", "block", "--to", "block@1", "--sources", "4", "--targets", "4")
    assert {m["cells"] for m in told["moves"] + told["kept"]} == {150}
    shown = command(
        "plan", "data", "--rows", "8x8x8", "--from", "grid:0x1x0", "--to", "grid:surface", "--sources", "8", "--targets", "2"
    )  # fmt: skip
    assert "cells from each rank to each" in " ".join(shown.split())
    assert ", of 512." in shown


def test_traffic_as_a_table() -> None:
    shown = command("plan", "data", "--rows", "12", "--layout", "cyclic:1", "--sources", "3", "--targets", "2", "--leave", "0")  # fmt: skip
    assert "cyclic:1 to cyclic:1: rows from each rank to each" in " ".join(shown.split())
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if "│" in line]
    assert rows == [["0", "2", "2"], ["1", "2", "2"], ["2", "2", "2"]]
    assert "Sent: 8 rows in 4 messages, 64 bytes: as few as can be." in shown
    assert "Kept where they are: 4 rows, of 12." in shown
    wide = command(
        "plan", "data", "--rows", "13", "--from", "replicated", "--sources", "1", "--targets", "13"
    )
    assert "Sent: 12 rows in 12 messages, 96 bytes: as few as can be." in wide


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rows", "x"), "--rows: 'x' is no number of rows"),
        (
            ("--rows", "9", "--layout", "diagonal"),
            "--layout: 'diagonal' is no layout; there are block, cyclic:ROWS",
        ),
        (("--rows", "9", "--from", "cyclic"), "--from: 'cyclic' is no layout"),
        (("--rows", "1" + 18 * "0"), "is no number of rows, which are 0 to 999,999,999,999,999,999"),
        (("--rows", "9", "--to", "cyclic:0"), "a block of 0 rows cannot be dealt out"),
        (("--rows", "9", "--to", "irregular:3+4"), "the counts of the layout cover 7 rows of 9"),
        (("--rows", "9", "--leave", "7"), "name ranks of 0 to 1, each once"),
        (("--rows", "9x"), "--rows: '9x' is no number of rows"),
        (("--rows", "9", "--layout", "block@1"), "--rows 9, block@1, --sources 2: there is no axis 1"),
        (("--rows", "9", "--layout", "grid"), "--rows 9, grid, --sources 2: there is no axis 1"),
        (("--rows", "9x9", "--layout", "grid:3x0"), "2 ranks cannot stand in a grid of 3 x any"),
        (("--rows", "9x9", "--layout", "grid:square"), "--layout: 'grid:square' is no layout"),
        (("--rows", "9x9", "--layout", "replicated@1"), "--layout: 'replicated@1' is no layout"),
    ],
)
def test_data_that_cannot_be_planned_are_refused(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(PliantError, match=re.escape(said)):
        command("plan", "data", "--sources", "2", "--targets", "4", *arguments)


@pytest.mark.parametrize(
    "layouts",
    [("--rows", "9", "--layout", "cyclic:1"), ("--rows", "9x9", "--from", "block", "--to", "block@1")],
)
def test_layouts_in_which_each_speaks_to_each_have_a_limit(layouts: tuple[str, ...]) -> None:
    with pytest.raises(PliantError, match="1,048,576 pairs are the most"):
        command("plan", "data", *layouts, "--sources", "9999", "--targets", "999")

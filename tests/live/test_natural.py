"""Programs as people write them, through random resizes: equal to their serial twins to the last bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import PROGRAMS, BatchRun, job, until
from test_bare import ONE, run

from pliant.core import records as r

NATURAL, LOOPS = str(PROGRAMS / "natural.py"), str(PROGRAMS / "loops.py")
STEPS, SIZES = 66, (1, 2, 3, 4)
KINDS = ("kmeans", "heat", "mandelbrot", "nbody", "wave", "sgd", "pencils")


def timetable(seed: int, resizes: int) -> str:
    """So many steps, each with another size than before."""
    draws, nodes, found = random.Random(seed), 1, []
    for step in sorted(draws.sample(range(1, STEPS - 1), resizes)):
        nodes = draws.choice([size for size in SIZES if size != nodes])
        found.append(f"{step}:{nodes}")
    return ",".join(found)


def is_right(name: str, at: str, where: Path) -> None:
    ran = run(ONE, (NATURAL, name, str(where)), {"PLIANT_RESIZE_AT": at})
    assert (ran.returncode, ran.stdout) == (0, f"{name} right\n"), f"PLIANT_RESIZE_AT={at}\n{ran.stderr}"
    for told in ("hold it in job.value", "still holds .local"):
        assert told not in ran.stderr, ran.stderr
    assert ran.stderr.count("pliant: at step") == at.count(":")


@pytest.mark.parametrize("name", ["wave", "pencils"])
def test_a_program_is_right_through_a_few_resizes(name: str, tmp_path: Path) -> None:
    is_right(name, "3:3,20:1,41:2", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_a_program_is_right_through_twenty_random_resizes(name: str, tmp_path: Path) -> None:
    is_right(name, timetable(KINDS.index(name) + 1, 20), tmp_path)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"PLIANT_RESIZE_AT": "2:2,8:3,20:1"}, "right 12 23 13 2"),
        ({"PLIANT_RESIZE_AT": "20:2", "PLIANT_RESIZE_METHOD": "baseline"}, "right 1 1 12 2"),
    ],
)
def test_who_joins_in_a_later_loop_passes_those_before(env: dict[str, str], said: str) -> None:
    ran = run(ONE, (LOOPS,), env)
    assert (ran.returncode, ran.stdout) == (0, f"{said}\n"), ran.stderr


@pytest.mark.parametrize("what", ["unguarded", "skips"])
def test_who_has_not_reached_its_loop_can_do_no_harm(what: str) -> None:
    ran = run(ONE, (LOOPS, what), {"PLIANT_RESIZE_AT": "8:2", "PLIANT_DEADLINE": "20"})
    assert ran.returncode != 0
    assert "is not available here: this rank joined in loop 2 of the block" in ran.stderr


def test_arrays_of_one_layout_may_be_swapped_where_it_has_come_by_message() -> None:
    ran = run(ONE, (LOOPS, "swaps"), {"PLIANT_RESIZE_AT": "3:2"})
    assert (ran.returncode, ran.stdout) == (0, "12.0\n"), ran.stderr


@pytest.mark.long
def test_under_the_scheduler_a_loop_without_an_end_grows_and_ends_as_its_ranks_agree(
    start: Callable[..., BatchRun], tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    run = start(
        'nodes = 2\npolicy = "easy"\ncooldown_s = 0',
        job("loops", f"python {LOOPS} {flag}", "{ min = 1, max = 2 }"),
    )
    run.wait_for(r.JobMalleable)
    until(lambda: run.order("loops", "2").returncode == 0, "the order")
    run.wait_for(r.ResizeDone)
    flag.touch()
    ended = run.finish()["loops"]
    assert ended["result"] == "right 1 12 2 2"
    assert [each["outcome"] for each in ended["resizes"]] == ["done"]


def test_who_sleeps_in_one_loop_wakes_in_another() -> None:
    world = (*ONE[:3], "-hosts", "a:2", "-n", "2")
    ran = run(world, (LOOPS,), {"PLIANT_RESIZE_AT": "3:a=1,20:a=2", "PLIANT_RESIZE_HOSTS": "a:2"})
    assert (ran.returncode, ran.stdout) == (0, "right 12 1 12 2\n"), ran.stderr

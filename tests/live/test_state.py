"""What the loop of a program changes beside its arrays and values, and newcomers do not have: it is kept, or found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from harness import PROGRAMS, BatchRun, job, pliant, until
from test_bare import ONE, run

from pliant.core import records as r
from pliant_lab.measure.trials import MPIEXEC

Start = Callable[..., BatchRun]
ROTATING, MISSES = str(PROGRAMS / "rotating.py"), str(PROGRAMS / "misses.py")
TWO = (str(MPIEXEC), "-launcher", "fork", "-hosts", "a:2", "-n", "2")
METHODS = ["merge", "baseline"]
REMEDY = "exchange the data of arrays by job.swap(a, b)"


@pytest.mark.parametrize("method", METHODS)
def test_arrays_that_are_swapped_by_the_job_are_right_after_any_resize(method: str) -> None:
    env = {"PLIANT_RESIZE_AT": "4:3,9:2", "PLIANT_RESIZE_METHOD": method, "PLIANT_VERIFY": "1"}
    ran = run(ONE, (ROTATING, "swap"), env)
    assert (ran.returncode, ran.stdout) == (0, "right\n"), ran.stderr


@pytest.mark.parametrize(("method", "who"), [("merge", "on rank 0"), ("baseline", "before the resize")])
def test_variables_that_are_other_arrays_on_newcomers_end_the_job(method: str, who: str) -> None:
    ran = run(ONE, (MISSES, "names"), {"PLIANT_RESIZE_AT": "5:2", "PLIANT_RESIZE_METHOD": method})
    assert ran.returncode != 0
    assert "names" not in ran.stdout
    assert f"after the resize a is array 'b' {who}, and array 'a' on those that joined" in ran.stderr
    assert REMEDY in ran.stderr


def test_what_is_exchanged_where_no_look_sees_it_ends_the_job_without_a_hang() -> None:
    """By the halo: each rank would wait for the other's."""
    ran = run(ONE, (ROTATING, "hidden"), {"PLIANT_RESIZE_AT": "4:2"})
    assert ran.returncode != 0
    assert not ran.stdout
    assert (
        "is in exchange_halo() of 'w' and waits for rank 1, which is in exchange_halo() of 'v'" in ran.stderr
        or (
            "is in exchange_halo() of 'v' and waits for rank 0, which is in exchange_halo() of 'w'"
            in ran.stderr
        )
    )
    assert REMEDY in ran.stderr


def test_what_is_exchanged_in_an_object_is_found_by_the_order_of_use() -> None:
    ran = run(ONE, (ROTATING, "hidden", "still"), {"PLIANT_RESIZE_AT": "4:2"})
    assert ran.returncode != 0
    assert not ran.stdout
    said = "after the resize the step used arrays 'w', 'v', 'u' in this order on rank 0, and 'v', 'u', 'w' on those"
    assert said in ran.stderr
    assert REMEDY in ran.stderr


def test_ranks_that_gather_different_arrays_are_told_so() -> None:
    ran = run(TWO, (MISSES, "calls"), {})
    assert ran.returncode != 0
    assert "rank 0 is in gather() of 'a' and waits for rank 1, which is in gather() of 'b'" in ran.stderr


def test_a_rank_that_comes_late_to_the_calls_of_all_is_taken_for_no_other() -> None:
    ran = run((str(MPIEXEC), "-launcher", "fork", "-n", "3"), (MISSES, "late"), {})
    assert (ran.returncode, ran.stdout) == (0, "late 0.0\n"), ran.stderr


MISSED = "pliant: after the resize found is 1280.0 on ranks 0 and 1, and 0.0 on those that joined: hold it in job.value"


def test_a_variable_that_the_loop_changes_is_named_once_and_what_differs_by_rank_is_not() -> None:
    ran = run(TWO, (MISSES, "total"), {"PLIANT_RESIZE_AT": "4:2,8:1,12:2", "PLIANT_RESIZE_HOSTS": "a:2,b:1"})
    assert ran.returncode == 0, ran.stderr
    named = [line for line in ran.stderr.splitlines() if "joined" in line]
    assert named == [MISSED.replace("1280", "640")]


def test_with_verify_it_is_an_error_and_without_watch_nothing_is_said() -> None:
    env = {"PLIANT_RESIZE_AT": "4:2", "PLIANT_RESIZE_HOSTS": "a:2,b:1"}
    ran = run(TWO, (MISSES, "total"), {**env, "PLIANT_VERIFY": "1"})
    assert ran.returncode != 0
    assert "PLIANT_VERIFY: after the resize found is 640.0 on ranks 0 and 1" in ran.stderr
    ran = run(TWO, (MISSES, "total"), {**env, "TEST_WATCH": "0"})
    assert (ran.returncode, "joined" in ran.stderr) == (0, False), ran.stderr


def test_ranks_that_are_stuck_in_different_calls_say_where(tmp_path: Path) -> None:
    env = {**os.environ, "PLIANT_STALL_S": "1"}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([*TWO, sys.executable, MISSES, "stuck"], env=env, stderr=log)
    try:
        until(lambda: (tmp_path / "log").read_text().count("PLIANT_STALL_S") == 2, "where both ranks are")
    finally:
        process.terminate()
        process.wait(10)
    said = (tmp_path / "log").read_text()
    assert re.search(
        r"rank 0 has been in step 3 for 1 s \(PLIANT_STALL_S\): misses\.py, line \d+, in stuck: job\.comm\.barrier",
        said,
    )
    assert re.search(r"rank 1 has been in step 3 for 1 s .*, in stuck: job\.comm\.recv\(source=0\)", said)


APPS = [
    "heat --rows 32 --cols 32",
    "jacobi --rows 32 --cols 32 --min 1 --preferred 0 --factor 1",
    "nbody --bodies 16 --min 1 --preferred 0 --factor 1",
    "cg --side 8 --min 1 --preferred 0 --factor 1",
    "phases --tolerance 1e-3",
    "steady --rows 16",
]


@pytest.mark.long
@pytest.mark.parametrize("words", APPS)
def test_the_example_programs_miss_nothing(words: str) -> None:
    env = {"PLIANT_RESIZE_AT": "2:3,4:1,5:2", "PLIANT_VERIFY": "1"}
    name, *more = words.split()
    ran = run(ONE, ("-m", f"pliant.apps.{name}", *more, "--steps", "8", "--max", "4"), env)
    assert ran.returncode == 0, ran.stderr
    assert "joined" not in ran.stderr


def is_resize(number: int, record: r.ResizeDone) -> bool:
    return record.resize == number


@pytest.mark.long
@pytest.mark.parametrize("how", ["total", "own"])
def test_under_the_scheduler_growth_and_migration_are_watched(start: Start, tmp_path: Path, how: str) -> None:
    flag, sizes = tmp_path / "flag", "{ min = 1, max = 3, preferred = 2 }"
    run = start(
        'nodes = 4\npolicy = "easy"\ncooldown_s = 0', job("a", f"python {MISSES} {how} {flag}", sizes)
    )
    run.wait_for(r.JobMalleable)
    assert not run.order("a", "3").returncode
    run.wait_for(r.ResizeDone, partial(is_resize, 1))
    until(lambda: "ordered to move" in pliant(run, "migrate", "a", "--leave", "n0"), "the order to move")
    run.wait_for(r.ResizeDone, partial(is_resize, 2))
    flag.touch()
    ended = run.finish()["a"]
    assert ended["result"].startswith(f"{how} ")
    said = "".join(path.read_text() for path in run.out.glob("*.log"))
    named, *more = [line for line in said.splitlines() if "joined" in line]
    assert not more  # also by the root of after, which has not said it
    assert named.startswith("pliant: after the resize found is ")
    assert named.endswith(" on ranks 0 and 1, and 0.0 on those that joined: hold it in job.value")
    assert ended["notes"] == [named.removeprefix("pliant: ")]


@pytest.mark.long
@pytest.mark.parametrize("how", ["names", "own_names"])
def test_under_the_scheduler_arrays_of_other_names_fail_the_job(
    start: Start, tmp_path: Path, how: str
) -> None:
    run = start(
        'nodes = 2\npolicy = "easy"\ncooldown_s = 0',
        job("a", f"python {MISSES} {how} {tmp_path / 'flag'}", "{ min = 1, max = 2 }"),
    )
    run.wait_for(r.JobMalleable)
    until(lambda: "ordered to move" in pliant(run, "migrate", "a"), "the order to move")
    assert run.finish(1)["a"]["state"] == "FAILED"
    said = "".join(path.read_text() for path in run.out.glob("*.log"))
    assert "after the resize a is array 'b' before the resize, and array 'a' on those that joined" in said


@pytest.mark.long
def test_the_looks_of_a_resize_take_less_than_a_millisecond() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pliant_lab.measure.steps"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = re.search(r"looks a resize: ([\d.]+) ms", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) < 1.0

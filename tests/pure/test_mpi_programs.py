"""Small malleable programs without a scheduler, each in processes of its own: alone or under mpiexec."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

pytest.importorskip("mpi4py")

MPIEXEC = str(Path(sys.executable).with_name("mpiexec"))


def run(program: str, ranks: int = 0) -> tuple[int, str, str]:
    """The exit code, output and errors of a Python text on ``ranks`` ranks under mpiexec, or alone."""
    words = [sys.executable, "-c", program]
    if ranks:
        words = [MPIEXEC, "-n", str(ranks), *words]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return ran.returncode, ran.stdout, ran.stderr


ONE_BLOCK = "a program has one `with mpi.malleable()` block, and this one has had it"

AFTER = """
from pliant import mpi
with mpi.malleable() as job:
    for step in job.steps(3):
        pass
mpi.malleable()
"""
LEFT_EARLY = """
from pliant import mpi
try:
    with mpi.malleable() as job:
        raise SystemExit
except SystemExit:
    pass
with job:
    pass
"""
NESTED = """
from pliant import mpi
with mpi.malleable(), mpi.malleable():
    pass
"""


@pytest.mark.parametrize(
    ("program", "ranks"),
    [(AFTER, 0), (AFTER, 2), (LEFT_EARLY, 0), (NESTED, 0)],
    ids=["alone", "mpiexec", "left early", "nested"],
)
def test_a_second_block_is_refused_on_every_rank(program: str, ranks: int) -> None:
    code, _, errors = run(program, ranks)
    assert code == 1
    assert errors.count(ONE_BLOCK) == max(1, ranks)


def test_bounds_that_were_refused_were_no_block_and_a_loop_within_a_loop_is_refused() -> None:
    program = """
from pliant import mpi
try:
    mpi.malleable(min=2, max=1)
except ValueError:
    print("refused")
with mpi.malleable() as job:
    print(list(job.steps(2)), list(job.steps(3)), job.joined)
    for what in (dict(pace=True), dict(n=-1), dict(n=2.5)):
        try:
            job.steps(**what)
        except (ValueError, TypeError) as error:
            print(error)
    for step in job.steps():
        job.steps(3)
"""
    code, out, errors = run(program)
    assert code == 1
    assert out.splitlines() == [
        "refused",
        "[0, 1] [0, 1, 2] True",
        "steps(pace=...) needs the number of steps: a step takes its part of the whole",
        "steps(-1): the number of steps must be 0 or more",
        "job.steps(n=2.5): it must be a whole number",
    ]
    assert "a steps() loop is still open: end it before the next begins, by break if need be" in errors


def test_a_loop_without_an_end_goes_on_after_any_number_of_steps() -> None:
    program = """
from pliant import mpi
with mpi.malleable() as job:
    steps = job.steps()
    made = [next(steps)]
    for far in (1 << 30, 1 << 31, 1 << 53):
        job._loop.step = far
        made.append(next(steps))
    print(*made)
    steps.close()
    print(len([*zip(job.steps(), range(3))]))
"""
    code, out, errors = run(program)
    assert (code, out) == (0, f"0 {(1 << 30) + 1} {(1 << 31) + 1} {(1 << 53) + 1}\n3\n"), errors


def test_a_value_that_cannot_be_sent_is_refused_where_it_is_given() -> None:
    program = """
from pliant import mpi

class Torn(Exception):  # pickled without its second argument, and so never unpickled
    def __init__(self, a, b):
        super().__init__(a)

with mpi.malleable() as job:
    total = job.value("total", 1)
    for bad in (lambda: 0, job.comm.Dup(), Torn(1, 2), [open("/dev/null")]):
        for give in (lambda: job.value("new", bad), lambda: setattr(total, "value", bad)):
            try:
                give()
            except TypeError as error:
                print(str(error).partition(" cannot ")[0], error.__cause__ is not None, total.value)
    job.value("new", [1.5, "free still"])
"""
    code, out, errors = run(program)
    assert code == 0, errors
    assert out.splitlines() == ["the value 'new' True 1", "the value 'total' True 1"] * 4


def test_an_old_block_that_is_kept_is_spoilt_and_one_that_is_not_is_no_alarm() -> None:
    program = """
from mpi4py import MPI
from pliant import mpi
from pliant.mpi.data.transport import redistribute
from pliant.mpi.wait import Wait

def move(array):
    redistribute([array], MPI.COMM_WORLD, [0], [0], Wait(10))
    return array.settle()

with mpi.malleable() as job:
    for kind in ("f4", "c16", "i2", "u1", "m8[s]", "?"):
        array = job.array(kind, (4, 2), kind, mpi.Block(halo=1))
        array.local[...] = array.owned[...] = 1
        array.exchange_halo()
        array.gather()
        used = move(array)
        whole, owned, row = array.local, array.owned, array.local[1]
        whole.flags.writeable = False
        kept = move(array)
        locked = not (whole.flags.writeable or owned.flags.writeable)
        print(kind, used, kept, locked, row[0], array.local.flags.writeable, array.owned.all(), move(array))
"""
    code, out, errors = run(program)
    assert code == 0, errors
    spoilt = {"f4": "nan", "c16": "(nan+0j)", "i2": "-32768", "u1": "255", "m8[s]": "NaT", "?": "True"}
    for line, (kind, value) in zip(out.splitlines(), spoilt.items(), strict=True):
        assert line == f"{kind} False True True {value} True True False"


POINTS = """
import pathlib, sys, time
from pliant import mpi
from pliant.job.decisions import NEVER, Action, Decision

class At:
    asked = []
    def following(self, step):
        return next((each for each in (0, 3, 7) if each >= step), NEVER)
    def decide(self, step):
        self.asked.append(step)
        return Decision(Action.SHRINK, resize=1)

with mpi.malleable() as job:
    job._context.resizer.source = At()
    steps = list(job.steps(10))
    sys.stdout.write(f"{At.asked} {steps == list(range(10))}\\n")
"""


@pytest.mark.parametrize("ranks", [0, 2])
def test_without_an_agent_all_ranks_come_to_the_reconfiguring_points_that_a_source_names(ranks: int) -> None:
    """It cannot be resized without a timetable: the decision is called off, at the same step everywhere."""
    code, out, errors = run(POINTS, ranks)
    assert code == 0, errors
    assert out == "[0, 3, 7] True\n" * max(1, ranks)


def test_without_an_agent_no_rank_waits_for_another_in_its_loop(tmp_path: Path) -> None:
    program = f"""
import pathlib, time
from pliant import mpi
flag = pathlib.Path({str(tmp_path / "flag")!r})
with mpi.malleable() as job:
    deadline = time.monotonic() + 30
    while job.rank == 0 and not flag.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert job.rank == 1 or flag.exists()
    for step in job.steps(10_000):
        pass
    flag.touch()
"""
    code, _, errors = run(program, 2)
    assert code == 0, errors

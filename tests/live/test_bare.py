"""Programs that nobody but mpiexec has started, and that resize themselves as their environment says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pliant.apps.heat import solve_serial
from pliant_lab.measure.trials import MPIEXEC

HEAT = ("-m", "pliant.apps.heat", "--rows", "64", "--cols", "64", "--steps", "40")
ONE = (str(MPIEXEC), "-launcher", "fork", "-n", "1")
LIMIT_S = 120.0
NODES = "a:1,b:2,c:1"


def heat(*launcher: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run(launcher, HEAT, env)


def run(
    launcher: tuple[str, ...], program: tuple[str, ...], env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run it to its end; who still runs after the limit is ended by mpiexec, which is told to."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PLIANT_")}
    every = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PLIANT_DEADLINE": "60", **env}
    process = subprocess.Popen(
        [*launcher, sys.executable, *program],
        env={**own, **every},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, err = process.communicate(timeout=10.0)
        pytest.fail(f"not ended within {LIMIT_S:g} s: {out}{err}")
    return subprocess.CompletedProcess(HEAT, process.returncode, out, err)


def resize_lines(ran: subprocess.CompletedProcess[str]) -> list[str]:
    """What it has said of its resizes, in their order; its result is right."""
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [solve_serial(64, 64, 40)]
    lines = [line for line in ran.stderr.splitlines() if line.startswith("pliant: at step")]
    return [re.sub(r" in \d+\.\d+ s", "", line).removeprefix("pliant: at ") for line in sorted(lines)]


def test_a_program_grows_in_parallel_and_shrinks_by_termination() -> None:
    assert resize_lines(heat(*ONE, PLIANT_RESIZE_AT="10:3,20:1", PLIANT_RESIZE_STRATEGY="diffusive")) == [
        "step 10 from 1 to 3 nodes, by merge and diffusive, as PLIANT_RESIZE_STRATEGY says",
        "step 20 from 3 to 1 node, by termination of 2 ranks",
    ]


def test_ranks_of_an_initial_world_over_several_nodes_sleep_and_others_come() -> None:
    mpiexec = (str(MPIEXEC), "-launcher", "fork", "-hosts", "a:1,b:1", "-n", "2")
    named = {"PLIANT_RESIZE_HOSTS": NODES, "MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1"}
    named["PLIANT_RESIZE_SHRINK"] = "zombie"
    assert resize_lines(heat(*mpiexec, PLIANT_RESIZE_AT="10:1,20:3", **named)) == [
        "step 10 from 2 to 1 node, by termination of 0 ranks, and 1 that sleep and hold their nodes",
        "step 20 from 1 to 3 nodes, by merge and diffusive, as the new groups differ",
    ]


def test_a_world_that_is_cut_ends_and_what_it_needs_is_started_anew() -> None:
    """Its node is free then; the root's records go to a newcomer."""
    mpiexec = (str(MPIEXEC), "-launcher", "fork", "-hosts", "a:1,b:1", "-n", "2")
    assert resize_lines(heat(*mpiexec, PLIANT_RESIZE_AT="10:1,20:2", PLIANT_RESIZE_HOSTS="a:1,b:1")) == [
        "step 10 from 2 to 1 node, by termination of 2 ranks, 1 started anew by hypercube, as all new groups are equal",
        "step 20 from 1 to 2 nodes, by merge and hypercube, as all new groups are equal",
    ]


SLOTS = ("-launcher", "fork", "-hosts", "a:2", "-n", "2")
TWO_EACH = "a:2,b:2"


def test_ranks_of_a_node_sleep_and_wake_up() -> None:
    """Of an initial world and of one that was started; what holds a rank awake that sleeps again is its second word."""
    at = "10:2,15:b=1,20:b=2,25:a=1+b=1,30:a=2+b=2,35:1"
    assert resize_lines(heat(str(MPIEXEC), *SLOTS, PLIANT_RESIZE_AT=at, PLIANT_RESIZE_HOSTS=TWO_EACH)) == [
        "step 10 from 1 to 2 nodes, by merge and hypercube, as all new groups are equal",
        "step 15 to a=2,b=1, by termination of 0 ranks, and 1 that sleep and hold their nodes",
        "step 20 to a=2,b=2, by 1 that wake up",
        "step 25 to a=1,b=1, by termination of 0 ranks, and 2 that sleep and hold their nodes",
        "step 30 to a=2,b=2, by 2 that wake up",
        "step 35 from 2 to 1 node, by termination of 2 ranks",
    ]


@pytest.mark.long
def test_ranks_that_sleep_end_with_their_node_or_with_the_job_and_none_wakes_that_is_not_there() -> None:
    at = "10:2,15:b=1,20:1,25:a=1,30:a=2,32:a=1"
    assert resize_lines(heat(str(MPIEXEC), *SLOTS, PLIANT_RESIZE_AT=at, PLIANT_RESIZE_HOSTS=TWO_EACH)) == [
        "step 10 from 1 to 2 nodes, by merge and hypercube, as all new groups are equal",
        "step 15 to a=2,b=1, by termination of 0 ranks, and 1 that sleep and hold their nodes",
        "step 20 from 2 to 1 node, by termination of 2 ranks",
        "step 25 to a=1, by termination of 0 ranks, and 1 that sleep and hold their nodes",
        "step 30 to a=2, by 1 that wake up",
        "step 32 to a=1, by termination of 0 ranks, and 1 that sleep and hold their nodes",
    ]
    ran = heat(str(MPIEXEC), *SLOTS, PLIANT_RESIZE_AT="10:b=1,20:2", PLIANT_RESIZE_HOSTS=TWO_EACH)
    first, second = resize_lines(ran)
    assert first.startswith("step 10: the job stays as it is, as not so many ranks sleep on b: ")
    assert second.startswith("step 20 from 1 to 2 nodes")


SLEEPS = """
import os, time
from pliant import mpi
with mpi.malleable() as job:
    rows = job.array("rows", (8,), "i8")
    began = before = time.process_time()
    for step in job.steps(120):
        now, before = time.process_time(), time.process_time()
        if step == 100:  # a rank that has slept is there first now
            said = "slept" if job.rank else "awake"
            os.write(1, f"{said} {os.getpid()} {now - began}\\n".encode())  # whole lines, as both say it at once
        began = now
        rows.owned[...] += 1
        time.sleep(0.02)
    whole = rows.gather()
    if job.rank == 0:
        print(whole.tolist())
"""


@pytest.mark.long
def test_a_rank_that_sleeps_takes_no_processor(tmp_path: Path) -> None:
    """For nearly two seconds; it has the rows of all then."""
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    env = {"PLIANT_RESIZE_AT": "10:a=1,100:a=2", "PLIANT_RESIZE_HOSTS": "a:2"}
    ran = run((str(MPIEXEC), *SLOTS), (str(tmp_path / "sleeps.py"),), env)
    assert ran.returncode == 0, ran.stderr
    *said, whole = sorted(ran.stdout.splitlines(), reverse=True)
    assert whole == str([120] * 8)
    (slept,) = [float(line.split()[2]) for line in said if line.startswith("slept")]
    assert slept < 0.5


@pytest.mark.long
def test_a_shrink_by_respawn_starts_all_that_is_left_anew() -> None:
    assert resize_lines(heat(*ONE, PLIANT_RESIZE_AT="10:3,20:2", PLIANT_RESIZE_SHRINK="respawn")) == [
        "step 10 from 1 to 3 nodes, by merge and hypercube, as all new groups are equal",
        "step 20 from 3 to 2 nodes, by termination of 3 ranks, 2 started anew by hypercube, as all new groups are equal",
    ]


COMPUTES = """
import time
from pliant import mpi
with mpi.malleable(max=4) as job:
    rows = job.array("rows", (8,), "i8")
    seen = 0
    for step in job.steps(1_000_000):
        rows.owned[...] += 1
        time.sleep(0.001)
        seen += job.nodes == 2
        if seen == 5:
            break
    whole = rows.gather()
    if job.rank == 0:
        print(step + 1, whole.tolist())
"""


def test_newcomers_start_while_the_job_computes(tmp_path: Path) -> None:
    """All ranks see the same nodes at the same step, so that all break there."""
    (tmp_path / "computes.py").write_text(COMPUTES)
    at = {"PLIANT_RESIZE_AT": "3:2", "PLIANT_RESIZE_STRATEGY": "asynchronous"}
    ran = run(ONE, (str(tmp_path / "computes.py"),), at)
    assert ran.returncode == 0, ran.stderr
    done, _, whole = ran.stdout.partition(" ")
    assert whole.strip() == str([int(done)] * 8)
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("pliant: at step")]
    assert (step := int(line.split()[3])) > 3
    assert int(done) == step + 5
    assert line.endswith("; newcomers were started beside the job at step 3")


def test_newcomers_that_are_late_are_waited_for_or_sent_away() -> None:
    """Waited for before the next resize, and where that is at once the job waits; sent away at the end."""
    ran = heat(*ONE, PLIANT_RESIZE_AT="10:2,20:1,38:2", PLIANT_RESIZE_STRATEGY="asynchronous")
    by = "by merge and hypercube, as all new groups are equal"
    step, *rest = resize_lines(ran)
    assert re.fullmatch(
        rf"step 1\d from 1 to 2 nodes, {by}; newcomers were started beside the job at step 10", step
    )
    assert rest == ["step 20 from 2 to 1 node, by termination of 1 rank"]
    assert "the newcomers that were started at step 38 have come too late and go again" in ran.stderr
    assert "Traceback" not in ran.stderr


PREPARES = """
import os, pathlib, sys, time
from pliant import mpi
with mpi.malleable(max=4) as job:
    if not job.fresh:
        here = pathlib.Path(sys.argv[1])
        (here / f"{os.getpid()}.there").touch()
        until = time.monotonic() + 30
        while len([*here.glob("*.there")]) < 3:
            if time.monotonic() > until:
                sys.exit("those that this newcomer was to start are not there")
            time.sleep(0.01)
    for step in job.steps(5):
        pass
    if job.rank == 0:
        print(job.nodes)
"""


def test_newcomers_start_others_before_they_prepare_themselves(tmp_path: Path) -> None:
    """Each waits, before its loop, until all three are there, of which one is started by another."""
    (tmp_path / "prepares.py").write_text(PREPARES)
    ran = run(ONE, (str(tmp_path / "prepares.py"), str(tmp_path)), {"PLIANT_RESIZE_AT": "2:4"})
    assert (ran.returncode, ran.stdout.strip()) == (0, "4"), ran.stderr


@pytest.mark.long
def test_one_rank_starts_newcomers_and_tells_the_rest() -> None:
    ran = heat(*ONE[:-1], "2", PLIANT_RESIZE_AT="10:3,20:2", PLIANT_RESIZE_STRATEGY="one,diffusive")
    assert resize_lines(ran) == [
        (
            "step 10 from 1 to 3 nodes, by merge and diffusive, as PLIANT_RESIZE_STRATEGY says; one rank started newcomers, "
            "and told the rest"
        ),
        "step 20 from 3 to 2 nodes, by termination of 2 ranks",
    ]


def test_all_processes_are_replaced_by_the_baseline_method() -> None:
    assert resize_lines(heat(*ONE, PLIANT_RESIZE_AT="10:2,20:1", PLIANT_RESIZE_METHOD="baseline")) == [
        "step 10 from 1 to 2 nodes, by baseline and hypercube, as all new groups are equal",
        "step 20 from 2 to 1 node, by termination of 2 ranks, 1 started anew by hypercube, as all new groups are equal",
    ]


@pytest.mark.parametrize(
    ("launcher", "env", "problem"),
    [
        (
            (str(MPIEXEC), "-launcher", "fork", "-hosts", "a:1", "-n", "1"),
            {
                "PLIANT_RESIZE_AT": "20:2",
                "PLIANT_RESIZE_HOSTS": "a:1,b:1",
                "PLIANT_RESIZE_STRATEGY": "single",
                "MPIR_CVAR_CH4_NETMOD": "ofi",
            },
            "single: one start on several nodes that are one machine hangs with MPICH's ofi: set MPIR_CVAR_NOLOCAL=1",
        ),
        ((), {"PLIANT_RESIZE_AT": "20:2"}, "start this by it too, as mpiexec -n 1 ..."),
        (
            (),
            {"PLIANT_RESIZE_AT": "20"},
            "PLIANT_RESIZE_AT: '20' is no step and number of nodes, such as 100:8",
        ),
        (ONE, {"PLIANT_RESIZE_AT": "20:9"}, "PLIANT_RESIZE_AT names 9 nodes, and the program allows 1:8"),
        (
            ONE,
            {"PLIANT_RESIZE_AT": "20:1", "PLIANT_RESIZE_HOSTS": "nowhere:1"},
            ", where the job was started: name it first",
        ),
        (
            (str(MPIEXEC), "-launcher", "fork", "-hosts", "b:1", "-n", "1"),
            {"PLIANT_RESIZE_AT": "20:2", "PLIANT_RESIZE_HOSTS": "a:1,b:1"},
            "names other nodes before those where the job was started: name these first",
        ),
    ],
)
def test_what_cannot_be_is_told_before_anything_starts(
    launcher: tuple[str, ...], env: dict[str, str], problem: str
) -> None:
    ran = heat(*launcher, **env)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert problem in ran.stderr


LATER = """
import shutil, sys
from pliant.apps import heat
from pliant.mpi.bare import spawning
expand, turns = spawning.expand, []

def refuses_once(comm, plan, command, hosts, wait, **more):
    turns.append(plan)
    return expand(comm, plan, ("/no/such/program",) if len(turns) == 1 else command, hosts, wait, **more)

spawning.expand = refuses_once
sys.argv[1:] = ["--rows", "64", "--cols", "64", "--steps", "40"]
heat.main()
"""


def test_code_of_several_lines_is_refused_which_mpiexec_cannot_pass_on() -> None:
    ran = run(ONE, ("-c", LATER), {"PLIANT_RESIZE_AT": "10:2"})
    assert ran.returncode == 1
    assert "put the program into a file" in ran.stderr


def test_a_resize_that_failed_is_not_taken_for_done_by_the_next(tmp_path: Path) -> None:
    """The timetable has a shrink from 3 nodes to 2, and the job is still on 1: it grows; then there is nothing to do."""
    (tmp_path / "later.py").write_text(LATER)
    ran = run(ONE, (str(tmp_path / "later.py"),), {"PLIANT_RESIZE_AT": "10:3,20:2,25:1,30:2"})
    assert resize_lines(ran) == [
        (
            "step 10: the job stays at 1 rank: there is no program '/no/such/program' that can be executed, at least for "
            "one of them; give its full path"
        ),
        "step 20 from 1 to 2 nodes, by merge and hypercube, as all new groups are equal",
        "step 25 from 2 to 1 node, by termination of 1 rank",
        "step 30 from 1 to 2 nodes, by merge and hypercube, as all new groups are equal",
    ]

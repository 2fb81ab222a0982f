"""Each thing that can go wrong, made to go wrong: the job ends or goes on, its nodes come back, nothing is left."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from harness import PROGRAMS, BatchRun, heat, job, until

from pliant.core import records as r
from pliant.launch import shm

Start = Callable[..., BatchRun]


KEEP = 'policy = "easy"'  # never resizes by itself: only orders do


def stuck(where: str, flag: Path) -> str:
    return f"python {PROGRAMS / 'stuck.py'} {where} {flag}"


def is_of(number: int, record: r.ResizeFailed) -> bool:
    return record.job == number


def test_a_failing_command_is_reported_with_code_and_tail_and_the_others_go_on(start: Start) -> None:
    run = start(
        "nodes = 2",
        job("missing", "no-such-command-here"),
        job("bad", "sh -c 'echo the last words; exit 3'"),
        heat("good", "1", work_s=1.0),
    )
    jobs = run.finish(code=1)
    assert (jobs["missing"]["state"], jobs["missing"]["exit_code"]) == ("FAILED", 127)
    assert "no-such-command-here" in jobs["missing"]["error"]
    assert (jobs["bad"]["state"], jobs["bad"]["exit_code"]) == ("FAILED", 3)
    assert "the last words" in jobs["bad"]["error"]
    assert (jobs["good"]["state"], jobs["good"]["verified"]) == ("COMPLETED", True)


def test_a_killed_rank_ends_its_job_and_its_nodes_serve_the_next(start: Start) -> None:
    run = start("nodes = 3", heat("victim", "3", work_s=60.0), heat("next", "3", submit=0.1, work_s=3.0))
    run.wait_for(r.JobProgressed, lambda x: x.job == 1)
    os.kill(next(iter(run.ranks(1))), signal.SIGKILL)
    jobs = run.finish(code=1)
    assert (jobs["victim"]["state"], jobs["victim"]["exit_code"]) == ("FAILED", 137)
    assert "signal 9" in jobs["victim"]["error"]
    assert (jobs["next"]["state"], jobs["next"]["verified"]) == ("COMPLETED", True)


def test_a_newcomer_that_crashes_costs_the_job_nothing(start: Start, tmp_path: Path) -> None:
    run = start(
        "nodes = 4\ncooldown_s = 60",  # and time to come: on a busy machine an interpreter takes seconds to start
        job("crash", stuck("crash", tmp_path / "flag"), "{ min = 1, max = 2 }"),
        job("raise", stuck("raise", tmp_path / "flag"), "{ min = 1, max = 2 }"),
    )
    causes = _failed_at_the_start(run, tmp_path / "flag", "crash", "raise")
    assert re.fullmatch(r"rank 0 of group 1 on n\d exited with 7", causes[1]), causes
    assert re.fullmatch(r"KeyError: 'newcomer'; rank 0 of group 1 on n\d exited with 1", causes[2]), causes


@pytest.mark.long
def test_a_newcomer_that_never_comes_costs_the_job_nothing(start: Start, tmp_path: Path) -> None:
    run = start(
        "nodes = 2\nresize_deadline_s = 2.0\ncooldown_s = 60",
        job("slow", stuck("newcomer", tmp_path / "flag"), "{ min = 1, max = 2 }"),
    )
    assert _failed_at_the_start(run, tmp_path / "flag", "slow") == {1: "withdrawn"}


def _failed_at_the_start(run: BatchRun, flag: Path, *names: str) -> dict[int, str]:
    """Why the first resizes of these jobs have failed, by number; the jobs themselves come to their right end."""
    for number, _ in enumerate(names, 1):
        run.wait_for(r.ResizeFailed, partial(is_of, number))
    flag.touch()
    jobs = run.finish()
    for name in names:
        assert (jobs[name]["state"], jobs[name]["result"]) == ("COMPLETED", "256")
        assert jobs[name]["resizes"][0]["outcome"] == "failed", run.story()
        assert jobs[name]["resizes"][0]["phase"] == "start", run.story()
    return {x.job: x.error for x in run.records() if isinstance(x, r.ResizeFailed) and not x.late}


@pytest.mark.long
def test_a_rank_stuck_in_a_resize_past_its_deadline_ends_its_job(start: Start, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = start(
        f"nodes = 3\nresize_deadline_s = 1.5\n{KEEP}",
        job("stuck", stuck("source", flag), "{ min = 1, max = 2 }"),
        heat("next", "3", submit=0.1, work_s=1.0),
    )
    run.wait_for(r.JobMalleable)
    assert run.order("stuck", "2").returncode == 0
    run.wait_for(r.ResizeAccepted)
    flag.touch()
    jobs = run.finish(code=1)
    assert jobs["stuck"]["state"] == "FAILED"
    assert (jobs["next"]["state"], jobs["next"]["verified"]) == ("COMPLETED", True)


@pytest.mark.long
def test_a_job_that_dies_while_newcomers_start_ends_and_so_do_they(start: Start) -> None:
    run = start(
        f"nodes = 4\n{KEEP}",
        heat("victim", "{ min = 1, max = 4 }", work_s=600.0),
        heat("n", "4", submit=0.1, work_s=1.0),
    )
    run.wait_for(r.JobMalleable)
    assert run.order("victim", "4").returncode == 0
    run.wait_for(r.ResizeAccepted)
    root = next(pid for pid, cookie in run.ranks(1).items() if cookie["PLIANT_GROUP"] == "0")
    os.kill(root, signal.SIGKILL)
    jobs = run.finish(code=1)
    assert jobs["victim"]["state"] == "FAILED"
    assert (jobs["n"]["state"], jobs["n"]["verified"]) == ("COMPLETED", True)


@pytest.mark.long
def test_a_killed_agent_loses_its_jobs_and_the_node_comes_back(start: Start) -> None:
    run = start(
        "nodes = 3",
        heat("hit", "2", work_s=60.0),
        heat("spared", "1", work_s=4.0),
        heat("next", "3", submit=0.5, work_s=3.0),
    )
    run.wait_for(r.JobProgressed, lambda x: x.job == 1)
    os.kill(run.agents()["n0"], signal.SIGKILL)
    jobs = run.finish(code=1)
    assert jobs["hit"]["state"] == "NODE_FAIL"
    assert [(jobs[name]["state"], jobs[name]["verified"]) for name in ("spared", "next")] == [
        ("COMPLETED", True)
    ] * 2
    kinds = [type(record) for record in run.records()]
    assert r.NodesLost in kinds
    assert r.NodesBack in kinds


def test_semaphores_and_shared_memory_of_a_killed_job_go(start: Start) -> None:
    program = f"python {PROGRAMS / 'semaphores.py'}"
    run = start("nodes = 2", job("dies", f"{program} now"), job("ended", program))
    logs = [run.out / f"{name}.log" for name in ("dies", "ended")]
    until(lambda: all(b"\n" in content(log) for log in logs), "both jobs")
    run.process.send_signal(signal.SIGINT)
    run.finish(code=128 + signal.SIGINT)
    for log in logs:
        names = log.read_text().splitlines()[0].split()
        assert len(names) >= 2
        assert not [each for each in names if (shm.SHM / each).exists()]


def test_a_daemon_that_left_everything_behind_does_not_outlive_a_killed_agent(start: Start) -> None:
    seconds = f"600.{random.randrange(10**9)}"
    run = start("nodes = 1", job("leaver", f"sh -c 'env -i setsid sleep {seconds} & sleep 600'"))

    def daemons() -> list[Path]:
        return [
            path
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if seconds.encode() in content(path).split(b"\0")
        ]

    until(lambda: bool(daemons()), "the daemon")
    os.kill(run.agents()["n0"], signal.SIGKILL)
    run.wait_for(r.NodesLost)  # which is told when all there has been ended
    assert not daemons()
    assert run.finish(code=1)["leaver"]["state"] == "NODE_FAIL"


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_an_exception_in_the_program_shows_its_traceback(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text(
        "from pliant import mpi\n"
        "with mpi.malleable(min=1, max=2) as job:\n"
        "    for step in job.steps(10):\n"
        "        raise KeyError('what went wrong')\n"
    )
    run = start("nodes = 2", job("broken", f"python {program}", "2"))
    broken = run.finish(code=1)["broken"]
    assert (broken["state"], broken["exit_code"]) == ("FAILED", 1)
    assert broken["error"].startswith("KeyError: 'what went wrong'; ")
    assert "in <module>" in broken["error"]


@pytest.mark.long
def test_a_job_that_breaks_the_protocol_harms_nobody(start: Start) -> None:
    run = start(
        "nodes = 2",
        job("liar", f"python {PROGRAMS / 'liar.py'}"),
        heat("good", "1", work_s=4.0),
    )
    jobs = run.finish()
    assert (run.out / "liar.log").read_text().strip() == "held"
    assert (jobs["good"]["state"], jobs["good"]["verified"]) == ("COMPLETED", True)


@pytest.mark.long
def test_a_job_is_ended_at_its_walltime_only_if_it_says_so(start: Start) -> None:
    run = start(
        "nodes = 2",
        job("late", "sleep 600", walltime=1.0, kill=True),
        job("longer", "sleep 1", walltime=0.1),
        heat("next", "2", work_s=1.0),
    )
    jobs = run.finish(code=1)
    assert jobs["late"]["state"] == "TIMEOUT"
    assert "walltime" in jobs["late"]["error"]
    assert (jobs["longer"]["state"], jobs["next"]["state"]) == ("COMPLETED", "COMPLETED")


@pytest.mark.long
def test_background_processes_do_not_outlive_their_job(start: Start) -> None:
    run = start(
        "nodes = 1",
        job("leaver", "sh -c 'sleep 600 & setsid sleep 601 & exit 0'"),
        heat("n", "1", work_s=1.0),
    )
    assert run.finish()["n"]["verified"] is True


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("starting", signal.SIGINT),
        ("running", signal.SIGTERM),
        ("resizing", signal.SIGKILL),
        *(
            pytest.param(moment, number, marks=pytest.mark.long)
            for moment, number in [
                ("starting", signal.SIGTERM),
                ("starting", signal.SIGKILL),
                ("running", signal.SIGINT),
                ("running", signal.SIGKILL),
                ("resizing", signal.SIGINT),
                ("resizing", signal.SIGTERM),
            ]
        ),
    ],
)
def test_a_signal_to_the_controller_leaves_nothing(start: Start, number: signal.Signals, moment: str) -> None:
    run = start(
        "nodes = 4",
        heat("a", "{ min = 1, max = 3 }", work_s=60.0),
        job("b", "sh -c 'sleep 600 & setsid sleep 601 & wait'"),
    )
    kinds: dict[str, type[r.Record]] = {
        "starting": r.JobStarted,
        "running": r.JobProgressed,
        "resizing": r.ResizeAccepted,
    }
    run.wait_for(kinds[moment])
    name = run.run
    run.process.send_signal(number)
    until(lambda: run.process.poll() is not None and not run.leftovers(name), "the end of all of it")
    expected = -signal.SIGKILL if number == signal.SIGKILL else 128 + number
    assert run.process.returncode == expected

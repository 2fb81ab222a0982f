"""The programs of Iserte et al. 2018 on real ranks: their results are those of a serial run, whatever their sizes on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import PROGRAMS, BatchRun, job

from pliant.core import records as r

MPIEXEC = str(Path(sys.executable).with_name("mpiexec"))
APPS = {
    "cg": "--side 12 --steps 30",
    "nbody": "--bodies 40 --steps 30",
    "jacobi": "--rows 30 --cols 20 --steps 30",
    "flexible_sleep": "--bytes 300001 --steps 30 --pace 0.0001",
}
RIGID = {"cg": "cg_rigid", "nbody": "nbody_rigid", "flexible_sleep": "flexible_sleep_rigid"}


def output_of(app: str, *more: str, ranks: int = 0, **env: str) -> str:
    """What the program prints; ``ranks`` 0: without mpiexec."""
    start = [MPIEXEC, "-n", str(ranks)] if ranks else []
    words = [*start, sys.executable, "-m", "mpi4py", "-m", f"pliant.apps.{app}", *more]
    ran = subprocess.run(
        words, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.long
@pytest.mark.parametrize("app", APPS)
def test_the_result_is_that_of_a_serial_run_on_any_number_of_ranks(app: str) -> None:
    options = APPS[app].split()
    serial = output_of(app, *options, "--serial")
    assert len(serial.splitlines()) == 1
    for ranks in (1, 2, 3):
        assert output_of(app, *options, ranks=ranks) == serial
    told, result = output_of(app, *options, "--check", "sync", ranks=2).splitlines()
    assert json.loads(told)["actions"]["no action"][0] == 30
    assert result == serial.strip()
    if app in RIGID:
        assert output_of(RIGID[app], *options, ranks=3) == serial


@pytest.mark.parametrize("app", APPS)
def test_the_result_is_that_of_a_serial_run_when_the_program_resizes_itself(app: str) -> None:
    options = [*APPS[app].split(), "--min", "1", "--factor", "1"]
    resized = output_of(app, *options, ranks=1, PLIANT_RESIZE_AT="5:3,10:2")
    assert resized == output_of(app, *options, "--serial")


@pytest.mark.long
def test_the_results_are_right_when_the_scheduler_has_resized_the_jobs(
    start: Callable[..., BatchRun],
) -> None:
    lines = {app: f"{options} --min 1 --factor 1" for app, options in APPS.items()}
    jobs = [
        job(
            app, f"env PLIANT_INHIBIT=0 python {PROGRAMS / 'held.py'} {app} {line}", "{ min = 1, max = 3 }", walltime=600,
            verify=f"python -m pliant.apps.{app} {line} --serial",
        )
        for app, line in lines.items()
    ]  # fmt: skip
    run = start('nodes = 12\npolicy = "easy"', *jobs)  # never resizes by itself: only orders do

    def order(app: str, size: str, seen: type[r.Record], where: Callable[[Any], bool]) -> None:
        number = list(APPS).index(app) + 1
        run.wait_for(seen, lambda x: x.job == number and where(x))
        ordered = run.order(app, size, "--run", run.run)
        assert ordered.returncode == 0, ordered.stderr

    for app in APPS:
        order(app, "3", r.JobMalleable, lambda _: True)
    for app in APPS:
        order(app, "1", r.ResizeDone, lambda x: bool(x.gained))
    found = run.finish()
    for each in found.values():
        assert each["verified"] is True, each
        assert [(x["from"], x["to"], x["outcome"]) for x in each["resizes"]] == [
            (1, 3, "done"),
            (3, 1, "done"),
        ]

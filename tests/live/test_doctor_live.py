"""What ``pliant doctor`` says of this environment, whichever MPI it has: ``make flavours`` asks it in others too."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pliant.cli.doctor_mpi import AS_ROOT

PLIANT = str(Path(sys.executable).with_name("pliant"))

pytestmark = pytest.mark.long


@cache
def doctor() -> tuple[int, dict[str, dict[str, Any]]]:
    """Its exit code, and what it has found."""
    done = subprocess.run(
        [PLIANT, "doctor", "--json"], capture_output=True, text=True, timeout=150, check=False
    )
    return done.returncode, {each["what"]: each for each in json.loads(done.stdout)}


def test_mpi_jobs_start_and_grow_whichever_mpi_is_there() -> None:
    _, found = doctor()
    for what in ("MPI packages", "MPI start", "resizes by pliant"):
        assert found[what]["ok"], found[what]
    assert "merge and agent, asynchronous, one" in found["resizes by pliant"]["found"]


def test_the_exit_code_follows_what_jobs_need() -> None:
    code, found = doctor()
    assert code == any(each["needed"] and not each["ok"] for each in found.values())
    assert not found["resizes by mpiexec"]["needed"], "jobs are resized by pliant run"


def test_how_a_bare_mpiexec_would_resize_jobs_is_told_or_in_a_line_why_it_cannot() -> None:
    _, found = doctor()
    way = found["resizes by mpiexec"]
    if way["ok"]:
        text = r"[\w ().]+, netmod \w+|Open MPI [\d.]+"
        assert re.match(
            rf"({text}): merge and hypercube or diffusive, shrinks by termination: ", way["found"]
        )
        return
    assert len(way["found"]) < 300
    assert "pliant run" in way["remedy"]
    if "Open MPI" in found["MPI packages"]["found"] and not os.getuid():
        assert way["found"] == "tried under mpiexec: it refuses to run as root"
        assert AS_ROOT in way["remedy"]

"""The tool that tries whether the world is a real test: a few of its changes, so that it stays usable."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from mutations_fixed import FIXED, HARMLESS
from mutations_sites import Mutation, drawn

pytestmark = pytest.mark.long

TESTS = Path(__file__).resolve().parent.parent
SOURCE = TESTS.parent / "src" / "pliant"


@pytest.mark.parametrize("only", ["a late accept", "reserved nodes are freed at accept"])
def test_the_world_notices_what_it_has_to(only: str) -> None:
    command = [
        sys.executable,
        str(TESTS / "mutations.py"),
        "fixed",
        "--only",
        only,
        "--worlds",
        "60",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    found = json.loads(done.stdout)
    assert (done.returncode, found["mutants"], found["violation"]) == (0, 1, 1), done.stderr


def test_every_change_can_be_made_to_the_source_of_today() -> None:
    for mutation in (*FIXED, *drawn(SOURCE, 1, 40)):
        ast.parse(mutation.apply(SOURCE))
    assert HARMLESS.keys() <= {mutation.name for mutation in FIXED}


def test_a_change_whose_place_is_not_there_once_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 times, not once"):
        Mutation("gone", "live/job/life.py", "no such text", "pass").apply(SOURCE)

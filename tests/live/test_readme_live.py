"""README.md: its commands that start processes are run from the top of a clone, as they stand there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from harness import ROOT

sys.path.append(str(ROOT / "tests/pure"))

from readme import clone, live

PATIENCE_S = 300.0
RUN = ".venv/bin/pliant run"


@pytest.fixture
def env() -> Iterator[dict[str, str]]:
    with TemporaryDirectory(prefix="plt") as runtime:
        yield {**os.environ, "XDG_RUNTIME_DIR": runtime}


@pytest.mark.long
@pytest.mark.parametrize("line", live())
def test_a_command_does_what_it_says(line: str, env: dict[str, str], tmp_path: Path) -> None:
    top = clone(tmp_path)
    ran = subprocess.run(
        ["sh", "-c", line], cwd=top, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ran.returncode == 0, ran.stderr
    if line.startswith(RUN):
        assert list(top.glob("pliant-runs/**/records.ndjson"))
    else:
        assert ran.stdout
    if "--compare" in line:
        assert "better" in ran.stdout, ran.stdout
        assert (top / "report.html").read_text().startswith("<!DOCTYPE html>")

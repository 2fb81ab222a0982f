"""Standard output and error may be closed, full or a pipe that nobody reads any more: the jobs go on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from harness import PATIENCE_S, PLIANT


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_run_ends_with_closed_descriptors(tmp_path: Path, closed: str) -> None:
    command = f"{PLIANT} run --nodes 1 --output {tmp_path / 'out'} -- sh -c 'echo one; echo two >&2' {closed}"
    done = subprocess.run(["sh", "-c", command], timeout=PATIENCE_S, check=False, env=os.environ)
    assert done.returncode == 0
    assert (tmp_path / "out" / "sh.log").read_text() == "one\ntwo\n"
    assert (tmp_path / "out" / "records.ndjson").read_text().count("JobEnded") == 1

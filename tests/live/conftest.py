from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import BatchRun


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., BatchRun]]:
    """Start batches; at the end of the test they are ended, and have left nothing."""
    runtime = Path(tempfile.mkdtemp(prefix="plt"))  # short: a Unix socket's path has at most 107 characters
    runs: list[BatchRun] = []

    def begin(cluster: str, *jobs: str, options: tuple[str, ...] = ()) -> BatchRun:
        place = tmp_path / f"run{len(runs)}"
        place.mkdir()
        runs.append(BatchRun(place, runtime, cluster, *jobs, options=options))
        return runs[-1]

    yield begin
    for run in runs:
        run.end()
    left = [each for run in runs for each in run.leftovers(run.run)]
    shutil.rmtree(runtime, ignore_errors=True)
    assert not left

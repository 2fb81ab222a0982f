from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import MARK, PROGRAMS, BatchRun, alive, until

from pliant.files.policy import PolicySpec
from pliant.job import recording as job_recording
from pliant.launch import processes
from pliant.live import recording as cluster_recording
from pliant.live.node import recording
from pliant.live.tree import recording as tree_recording
from pliant.policy.registry import POLICIES
from pliant.policy.view import Policy
from pliant.recorder import RECORD


def policy_of(head: cluster_recording.RecordingHead) -> Policy:
    """The policy of a recorded run: of ours by its name, else that of the tests which is called so."""
    name, _, order = head.policy.partition(" by ")
    known = name if name in POLICIES else f"{PROGRAMS / 'policies.py'}:{name.title()}"
    return PolicySpec(known, order=order or "submission").make()


SHM = Path("/dev/shm")
SEGMENTS = ("mpich_shm_*", "mpich_shar_tmp*")
SETTLED_S = 1.0
"""A file that is older is mapped by whoever uses it."""


def segments() -> set[Path]:
    return {path for pattern in SEGMENTS for path in SHM.glob(pattern)}


@pytest.fixture(autouse=True, scope="session")
def swept() -> Iterator[None]:
    """Ranks that are killed under a bare mpiexec leave MPICH's segments, which nobody else removes: those that have come
    since, and that no process has mapped."""
    before = segments()
    yield
    mapped = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            mapped.update(re.findall(r"/dev/shm/(mpich_\S+)", maps.read_text(errors="replace")))
    for path in segments() - before:
        with contextlib.suppress(OSError):
            if path.name not in mapped and time.time() - path.stat().st_mtime > SETTLED_S:
                path.unlink()


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Whatever agents, controllers and jobs do in a test is recorded, and played again at its end with the same outcome."""
    place = tmp_path / "recordings"
    monkeypatch.setenv(RECORD, str(place))
    yield place
    for path in place.glob("*.ndjson"):
        with path.open("rb") as lines:
            if path.name.startswith("agent-"):
                assert not list(recording.replay(lines)), path
            elif path.name.startswith("tree-"):
                assert not list(tree_recording.replay(lines)), path
            elif path.name.startswith("job-"):
                assert not list(job_recording.replay(lines)), path
            else:
                assert not list(cluster_recording.replay(lines, policy_of)), path


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., BatchRun]]:
    """Start batches; at the end of the test they are ended, and have left nothing."""
    runtime = Path(tempfile.mkdtemp(prefix="plt"))  # short: a Unix socket's path has at most 107 characters
    runs: list[BatchRun] = []

    def begin(
        cluster: str,
        *jobs: str,
        options: tuple[str, ...] = (),
        command: tuple[str, ...] = (),
        prefix: tuple[str, ...] = (),
    ) -> BatchRun:
        place = tmp_path / f"run{len(runs)}"
        place.mkdir()
        runs.append(BatchRun(place, runtime, cluster, *jobs, options=options, command=command, prefix=prefix))
        return runs[-1]

    yield begin
    for run in runs:
        run.end()
    left = [each for run in runs for each in run.leftovers(run.run)]
    shutil.rmtree(runtime, ignore_errors=True)
    assert not left


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """In the environment of all that is started; nothing of it is left at the end, nor a file."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield mark
    try:
        until(lambda: not alive(mark), "nothing is left")
    finally:
        for pid in alive(mark):
            processes.kill(pid)
    assert not list(Path("/tmp").glob(f"pliant-{os.getuid()}-{mark[:8]}*"))
    assert not list(Path("/dev/shm").glob(f"*{mark[:8]}*"))

"""Checking results: the last line that a job's verify command prints must equal the job's result."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pliant.launch import processes
from pliant.model.errors import PliantError
from pliant.model.jobs import JobSpec

PATIENCE_S = 300.0


def with_own_python(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` with Pliant's interpreter first in PATH, so that ``python`` in a batch finds pliant.mpi."""
    path = env.get("PATH", os.defpath)
    return {**env, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{path}"}


def verify(jobs: Sequence[JobSpec], results: Mapping[str, str | None]) -> dict[str, bool | None]:
    """By job name whether its result is right; None where the job states no verify command.

    Each distinct command runs once. PliantError names the command that fails, since then nothing is known.
    """
    wanted = {(job.verify, job.cwd): job.name for job in jobs if job.verify}
    expected = {key: _last_line(*key) for key in wanted}
    return {
        job.name: expected[job.verify, job.cwd] == results.get(job.name) if job.verify else None
        for job in jobs
    }


def _last_line(command: tuple[str, ...], cwd: str) -> str:
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command, cwd=cwd or None, env=with_own_python(os.environ), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            preexec_fn=processes.die_with_parent,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PliantError(f"verify: {shown}: {error}") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise PliantError(f"verify: {shown}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return lines[-1]

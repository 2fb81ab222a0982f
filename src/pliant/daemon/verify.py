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


def verify(
    jobs: Sequence[JobSpec], results: Mapping[str, str | None]
) -> tuple[dict[str, bool | None], list[str]]:
    """By job name whether its result is right, and what kept verify commands from telling.

    ``results`` are those of the jobs that completed. None: the job states no verify command, or did not
    complete. A command that fails vouches for nothing: its jobs count as wrong. Each distinct one runs once.
    """
    expected: dict[tuple[object, ...], str | None] = {}
    problems: list[str] = []
    verified: dict[str, bool | None] = {}
    for job in jobs:
        if not job.verify or job.name not in results:
            verified[job.name] = None
            continue
        key = (job.verify, job.cwd, tuple(sorted(job.env.items())))
        if key not in expected:
            try:
                expected[key] = _last_line(job)
            except PliantError as error:
                expected[key] = None
                problems.append(f"job {job.name}: {error}")
        verified[job.name] = expected[key] is not None and expected[key] == results[job.name]
    return verified, problems


def _last_line(job: JobSpec) -> str:
    shown = " ".join(job.verify)
    try:
        done = subprocess.run(
            job.verify, cwd=job.cwd or None, env=with_own_python(os.environ) | job.env,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            preexec_fn=processes.die_with_parent,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PliantError(f"verify: {shown}: {error}") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise PliantError(f"verify: {shown}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return lines[-1]

"""Checking results: the last line that a job's verify command prints must equal the job's result."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pliant.launch import processes
from pliant.model.errors import PliantError
from pliant.model.jobs import Check, JobSpec

PATIENCE_S = 300.0


class Unchecked(PliantError):  # noqa: N818 - the result may be right
    """A result could not be checked."""


def with_own_python(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` with Pliant's interpreter first in PATH, so that ``python`` in a batch finds pliant.mpi."""
    path = env.get("PATH", os.defpath)
    return {**env, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{path}"}


def unusable(job: JobSpec) -> str:
    """Why the job's verify command cannot be started, the cause first, else "". It is looked for as it is started: in
    the job's directory and with the job's PATH."""
    place = Path(job.cwd or ".").absolute()
    if not job.verify or not place.is_dir():
        return ""  # without its directory the job itself will not start
    program = job.verify[0]
    if "/" in program:
        search, where = None, f"in {place}"
        program = str(place / program)
    else:
        path = _environment(job).get("PATH", os.defpath)
        search, where = (
            os.pathsep.join(str(place / each) for each in path.split(os.pathsep)),
            "in the job's PATH",
        )
    if shutil.which(program, path=search) is not None:
        return ""
    if found := shutil.which(program, mode=os.F_OK, path=search):
        return f"command not executable: {found}; chmod +x it, or name the program that runs it"
    return f"command not found: {job.verify[0]}, {where}; install it, or name it by its path"


def verify(
    jobs: Sequence[JobSpec], results: Mapping[str, str | None], patience_s: float = PATIENCE_S
) -> dict[str, Check]:
    """By job name what its check said, of the jobs that state a verify command and are in ``results``: those
    that completed. Each distinct command runs once, for ``patience_s`` seconds at most."""
    lines: dict[tuple[object, ...], str | Unchecked] = {}
    checks: dict[str, Check] = {}
    for job in jobs:
        if not job.verify or job.name not in results:
            continue
        key = (job.verify, job.cwd, tuple(sorted(job.env.items())))
        if key not in lines:
            try:
                lines[key] = _last_line(job, patience_s)
            except Unchecked as error:
                lines[key] = error
        line = lines[key]
        if isinstance(line, Unchecked):
            checks[job.name] = Check(problem=str(line))
        else:
            checks[job.name] = Check(line == results[job.name], line)
    return checks


def _environment(job: JobSpec) -> dict[str, str]:
    return {**with_own_python(os.environ), **job.env}


def _last_line(job: JobSpec, patience_s: float) -> str:
    """The last line that the job's verify command prints; Unchecked if that is none."""
    shown = shlex.join(job.verify)
    try:
        done = subprocess.run(
            job.verify, cwd=job.cwd or None, env=_environment(job),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=patience_s,
            check=False, preexec_fn=processes.die_with_parent,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unchecked(f"no end within {patience_s:g} s: {shown}") from None
    except OSError as error:
        raise Unchecked(unusable(job) or f"{error.strerror}: {shown}") from None
    if done.returncode:
        code = done.returncode
        how = f"exited with {code}" if code > 0 else f"ended by signal {-code}"
        said = done.stderr.strip().splitlines()[-1:]
        raise Unchecked(": ".join([how, shown, *said]))
    lines = done.stdout.strip().splitlines()
    if not lines:
        raise Unchecked(f"printed nothing: {shown}; its last line is what the result must equal")
    return lines[-1]

"""What ``pliant doctor`` says of MPI: which there is, and what jobs can do with it when that is tried."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from pliant.core.settings import Settings
from pliant.daemon.detect import installed, mpi_of
from pliant.daemon.directory import current_directory
from pliant.daemon.foreground import run_batch
from pliant.daemon.submission import settle
from pliant.history.outcomes import JobOutcome
from pliant.launch.verify import with_own_python
from pliant.model.batch import Batch, ClusterSpec
from pliant.model.errors import PliantError
from pliant.model.flavours import way_of
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.plan.choose import Abilities, by_agent, by_spawn
from pliant.policy.malleable import Malleable
from pliant.report.runs import Run

TRY = ("-c", "from pliant.mpi.abilities import main; main()")
TRY_S = 60.0
STARTS = """
from mpi4py import MPI
w = MPI.COMM_WORLD
sums = w.allreduce(1) == w.size
if w.rank == 0 and sums:
    print("both here")
"""
GROWS = """
import time
import msgspec
from pliant import mpi
from pliant.mpi.abilities import find
until = time.monotonic() + 15.0
with mpi.malleable(min=1, max=2) as job:
    for step in job.steps(100_000):
        time.sleep(0.01)
        if job.comm.bcast(job.comm.size == 2 or time.monotonic() > until):
            break
    if job.comm.size == 2 and job.comm.rank == 0:
        job.result(msgspec.json.encode(find([])).decode())
"""
UNDER_RUN = "resize jobs under pliant run instead"
AS_ROOT = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
WORDS = 200
"""Characters that a finding shows of an error."""


class Finding(NamedTuple):
    """``remedy`` says what to do where ``ok`` is false. Jobs run and resize without a thing that is not ``needed``."""

    what: str
    ok: bool
    found: str
    remedy: str = ""
    needed: bool = True


def findings() -> list[Finding]:
    """All findings, in the order in which a user mends them."""
    return [_packages(), _starts(), _resizes_by_pliant(), _resizes_by_mpiexec(), *_mpis()]


def _packages() -> Finding:
    found = []
    for package in ("mpi4py", "numpy"):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            return Finding("MPI packages", False, f"{package} is not installed", "pip install 'pliant[mpi]'")
    mpi = mpi_of((sys.executable,), os.environ, "")
    if mpi is None:
        said, remedy = ", but mpi4py loads no MPI", "pip install mpich, or load the module of your MPI"
        return Finding("MPI packages", False, ", ".join(found) + said, remedy)
    return Finding("MPI packages", True, ", ".join([*found, mpi.mpi.name]))


def _starts() -> Finding:
    """Start two ranks for real, under an agent of our own."""
    ran = _ran(STARTS, Bounds.exactly(1), slots=2)
    if isinstance(ran, Finding):
        return ran._replace(what="MPI start")
    took = (ran.end_s or 0.0) - (ran.start_s or 0.0)
    ok = ran.state is JobState.COMPLETED
    remedy = "install mpi4py and its MPI anew in this environment"
    return Finding("MPI start", ok, f"2 ranks in {took:.2f} s" if ok else gist(ran.error), remedy)


def _resizes_by_pliant() -> Finding:
    """Have a job grow for real, where its MPI is one that can."""
    what, remedy = (
        "resizes by pliant",
        "jobs keep their size; take an MPI whose MPI_Open_port works: pip install mpich",
    )
    mpi = mpi_of((sys.executable,), os.environ, "")
    if mpi is not None and (no := (way := way_of(mpi.mpi, os.environ)).refused or way.keeps):
        return Finding(what, False, f"{mpi.mpi.name}: {no}", remedy)
    ran = _ran(GROWS, Bounds(1, 2))
    if isinstance(ran, Finding):
        return ran._replace(what=what)
    if not ran.result:
        said = gist(ran.error) or "a job was offered a second node, and has not grown"
        return Finding(what, False, said, remedy)
    can = msgspec.json.decode(ran.result, type=Abilities)
    return Finding(what, True, f"{_library(can)}: {by_agent(can)}")


def _resizes_by_mpiexec() -> Finding:
    """How a job would be resized under a bare mpiexec, by what its MPI can do there: few need that."""
    what = "resizes by mpiexec"
    can = _abilities()
    if isinstance(can, str):
        asked = f"export {AS_ROOT}, or {UNDER_RUN}" if can.endswith(REFUSED) else UNDER_RUN
        return Finding(what, False, can, asked, needed=False)
    try:
        return Finding(what, True, f"{_library(can)}: {by_spawn(can)}", needed=False)
    except ValueError as error:
        return Finding(what, False, f"{_library(can)}: {error}", UNDER_RUN, needed=False)


def _mpis() -> list[Finding]:
    """Each MPI that is found here, and what jobs can do that load it: nobody needs them all."""
    found = []
    for mpi, library in installed({**os.environ, "PATH": with_own_python(os.environ)["PATH"]}):
        way = way_of(mpi, os.environ)
        can = way.refused or (
            f"jobs keep the size of their start: {way.keeps}" if way.keeps else "jobs grow and shrink"
        )
        found.append(Finding(mpi.name, True, f"{can} ({library})"))
    return found


def _library(can: Abilities) -> str:
    return f"{can.library}{can.netmod and f', netmod {can.netmod}'}"


def _ran(program: str, nodes: Bounds, slots: int = 1) -> JobOutcome | Finding:
    """Run a job with this Python program: its outcome, or the reason that no job could run."""
    spec = JobSpec(
        name="doctor", nodes=nodes, command=(sys.executable, "-c", program), walltime_s=30.0, kill=True,
        job_class=JobClass.RIGID if nodes.max == 1 else JobClass.MALLEABLE,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        try:
            current_directory().encode()
            jobs = settle((spec,), "doctor").jobs
            batch = Batch(ClusterSpec(nodes=nodes.max, slots=slots), jobs, "doctor")
            records, stopped = run_batch(batch, Malleable(), Settings(), output=Path(place))
            if stopped is not None:
                raise stopped
        except (OSError, UnicodeEncodeError, PliantError) as error:
            return Finding("", False, str(error), "mend that, in another directory perhaps")
    names = [f"n{i}" for i in range(nodes.max)]
    return Run("doctor", "malleable", names, records).metrics.jobs[0]


REFUSED = "it refuses to run as root"


def _abilities() -> Abilities | str:
    """Run a program under mpiexec that tries what MPI can do: its findings, or the reason that there are none."""
    mpiexec = shutil.which("mpiexec", path=with_own_python(os.environ)["PATH"])
    if mpiexec is None:
        return "there is no mpiexec"
    words = [mpiexec, "-n", "1", sys.executable, *TRY]
    try:
        ran = subprocess.run(
            words, capture_output=True, text=True, timeout=TRY_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"tried under mpiexec: {error}"
    if ran.returncode:
        return refusal(ran.returncode, ran.stdout + ran.stderr)
    try:
        return msgspec.json.decode(ran.stdout, type=Abilities)
    except msgspec.MsgspecError as error:
        return f"tried under mpiexec: {error}: {gist(ran.stdout)}"


def refusal(code: int, said: str) -> str:
    """Why a program that was started by mpiexec has ended with this code."""
    if "run as root" in said and "allow-run-as-root" in said:
        return f"tried under mpiexec: {REFUSED}"
    return f"tried under mpiexec: exit code {code}: {gist(said)}"


def gist(said: str) -> str:
    """One line of an error: the end of a traceback, the beginning of all others, without frames of =, - and *."""
    lines = [words for line in said.splitlines() if (words := line.strip(" =-*|\t"))]
    if "Traceback (most recent call last):" in lines:
        lines = lines[-1:]
    words = " ".join(lines)
    return words if len(words) <= WORDS else f"{words[:WORDS]}..."

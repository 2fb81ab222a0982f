"""``pliant doctor``: what this machine offers, and what to do about what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from pliant.core.settings import Settings
from pliant.daemon import control
from pliant.daemon.detect import installed
from pliant.daemon.directory import current_directory
from pliant.daemon.foreground import run_batch
from pliant.daemon.submission import settle
from pliant.launch.verify import with_own_python
from pliant.measure.trials import MPIEXEC
from pliant.model.batch import Batch, ClusterSpec
from pliant.model.errors import PliantError
from pliant.model.flavours import way_of
from pliant.model.jobs import Bounds, JobSpec, JobState
from pliant.plan.choose import Abilities, by_agent, by_spawn
from pliant.policy.fcfs import Fcfs
from pliant.report.runs import Run

SHM = Path("/dev/shm")
SHM_BYTES = 256 << 20
TRY = ("-c", "from pliant.mpi.abilities import main; main()")
TRY_S = 60.0
_PROGRAM = (
    "from mpi4py import MPI; w = MPI.COMM_WORLD; ok = w.allreduce(1) == w.size\n"
    "if w.rank == 0: print(*MPI.Get_library_version().split(chr(10))[0].split(), ok)"
)


class Finding(NamedTuple):
    """``remedy`` says what to do where ``ok`` is false."""

    what: str
    ok: bool
    found: str
    remedy: str = ""


def doctor(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False
) -> None:
    """Check what this machine offers, and say what is missing. It looks at Python, MPI, shared memory, cores and
    directories, and exits with 1 if something is missing."""
    checks: tuple[Callable[[], Finding], ...] = (
        _python,
        _venv,
        _system,
        _cores,
        _shm,
        _runtime,
        _mpi,
        _start,
    )
    findings = [*(check() for check in checks), *_resizes(), *_mpis()]
    if as_json:
        typer.echo(json.dumps([finding._asdict() for finding in findings]))
    else:
        table = Table("CHECK", "", "FOUND", "WHAT TO DO")
        for finding in findings:
            mark = "[green]ok[/]" if finding.ok else "[bold red]MISSING[/]"
            table.add_row(finding.what, mark, finding.found, "" if finding.ok else finding.remedy)
        Console().print(table)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("Python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _venv() -> Finding:
    ok = importlib.util.find_spec("venv") is not None and importlib.util.find_spec("ensurepip") is not None
    return Finding(
        "venv module", ok, "there" if ok else "not there", "install your distribution's python3-venv"
    )


def _system() -> Finding:
    ok = sys.platform == "linux" and Path("/proc/self/environ").exists()
    return Finding("Linux with /proc", ok, sys.platform, "Pliant needs Linux with /proc mounted")


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    return Finding(
        "cores", cores >= 2, str(cores), "with one core, paced runs overrun their pace; use two or more"
    )


def _shm() -> Finding:
    if not SHM.is_dir():
        return Finding(
            "/dev/shm", False, "not there", "mount a tmpfs on /dev/shm; MPI keeps its messages there"
        )
    free = shutil.disk_usage(SHM).free
    remedy = "make it larger (in a container: --shm-size=1g); MPI keeps its messages there"
    return Finding(
        "/dev/shm", free >= SHM_BYTES and os.access(SHM, os.W_OK), f"{free >> 20} MiB free", remedy
    )


def _runtime() -> Finding:
    try:
        return Finding("runtime directory", True, str(control.base()))
    except (OSError, PliantError) as error:
        return Finding(
            "runtime directory", False, str(error), "set XDG_RUNTIME_DIR to a directory of your own"
        )


def _mpi() -> Finding:
    found = []
    for package in ("mpi4py", "mpich", "numpy"):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            return Finding("MPI packages", False, f"{package} is not installed", "pip install 'pliant[mpi]'")
    return Finding("MPI packages", True, ", ".join(found))


def _start() -> Finding:
    """Start two ranks for real, under an agent of our own."""
    job = JobSpec(
        name="doctor",
        nodes=Bounds.exactly(1),
        command=(sys.executable, "-c", _PROGRAM),
        walltime_s=30.0,
        kill=True,
    )
    with tempfile.TemporaryDirectory() as place:
        try:
            current_directory().encode()
            jobs = settle((job,), "doctor").jobs
            batch = Batch(ClusterSpec(nodes=1, slots=2), jobs, "doctor")
            records, stopped = run_batch(batch, Fcfs(), Settings(), output=Path(place))
            if stopped is not None:
                raise stopped
        except (OSError, UnicodeEncodeError, PliantError) as error:
            return Finding("MPI start", False, str(error), "mend that, in another directory perhaps")
        outcome = Run("doctor", "fcfs", ["n0"], records).metrics.jobs[0]
        lines = (Path(place) / "doctor.log").read_text(errors="replace").strip().splitlines()
    took = (outcome.end_s or 0.0) - (outcome.start_s or 0.0)
    ok = outcome.state is JobState.COMPLETED and bool(lines) and lines[-1].endswith("True")
    found = f"2 ranks in {took:.2f} s: {lines[-1].rpartition(' ')[0].strip()}" if ok else outcome.error[-200:]
    return Finding("MPI start", ok, found, "reinstall mpi4py and mpich in this environment: make setup")


def _resizes() -> list[Finding]:
    """How MPI jobs would be resized here, by what their MPI can do when it is tried."""
    found = _abilities()
    if isinstance(found, str):
        return [Finding("MPI resizes", ok=False, found=found, remedy="mend what is missing above")]
    netmod = f"{found.library}{found.netmod and f', netmod {found.netmod}'}"
    findings = []
    for what, choose, remedy in (
        (
            "resizes by pliant",
            by_agent,
            "jobs keep their size; take an MPI whose MPI_Open_port works: pip install mpich",
        ),
        ("resizes by mpiexec", by_spawn, "resize jobs under pliant run instead"),
    ):
        try:
            findings.append(Finding(what, ok=True, found=f"{netmod}: {choose(found)}", remedy=""))
        except ValueError as error:
            findings.append(Finding(what, ok=False, found=f"{netmod}: {error}", remedy=remedy))
    return findings


def _mpis() -> list[Finding]:
    """Each MPI that is found here, and what jobs can do that load it: nobody needs them all."""
    findings = []
    for mpi, library in installed({**os.environ, "PATH": with_own_python(os.environ)["PATH"]}):
        way = way_of(mpi, os.environ)
        can = way.refused or (
            f"jobs keep the size of their start: {way.keeps}" if way.keeps else "jobs grow and shrink"
        )
        findings.append(Finding(mpi.name, ok=True, found=f"{can} ({library})"))
    return findings


def _abilities() -> Abilities | str:
    """What is found by a program that tries it, or why nothing is."""
    words = [str(MPIEXEC), "-n", "1", sys.executable, *TRY]
    try:
        ran = subprocess.run(
            words, capture_output=True, text=True, timeout=TRY_S, check=True, errors="replace"
        )
        return msgspec.json.decode(ran.stdout, type=Abilities)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"tried under mpiexec: {error}"
    except subprocess.CalledProcessError as error:
        return f"tried under mpiexec: exit code {error.returncode}: {error.stderr.strip()[-200:]}"
    except msgspec.MsgspecError as error:
        return f"tried under mpiexec: {error}: {ran.stdout[:200]!r}"

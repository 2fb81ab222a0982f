"""``pliant doctor``: what this machine offers, and what to do about what is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from pliant.cli import doctor_hosts, doctor_mpi
from pliant.cli.doctor_mpi import Finding
from pliant.cli.hosts import SSH_OPTION
from pliant.cli.outputs import AsJson
from pliant.daemon import control
from pliant.model.errors import PliantError
from pliant.terminal.working import Working

SHM = Path("/dev/shm")
SHM_BYTES = 256 << 20


def doctor(
    *,
    hosts: Annotated[
        str | None,
        typer.Option(
            help="Try these nodes instead, as node[01-64]: ssh, and by which network MPI works there."
        ),
    ] = None,
    ssh_option: SSH_OPTION = None,
    as_json: AsJson = False,
) -> None:
    """Check what this machine offers, and say what is missing. It looks at Python, shared memory, cores and
    directories, and tries MPI jobs and their resizes. With --hosts it tries these nodes. It exits with 1 if something
    is missing that jobs need."""
    checks: tuple[Callable[[], Finding], ...] = (
        _python,
        _venv,
        _system,
        _cores,
        _shm,
        _runtime,
    )
    with Working("trying what is there" if hosts else "trying what is here"):
        if ssh_option and hosts is None:
            raise PliantError("--ssh-option is for nodes that are reached by ssh: name them by --hosts")
        if hosts is not None:
            findings = doctor_hosts.findings(hosts, ssh_option or ())
        else:
            findings = [*(check() for check in checks), *doctor_mpi.findings()]
    if as_json:
        typer.echo(json.dumps([finding._asdict() for finding in findings]))
    else:
        table = Table("CHECK", "", Column("FOUND", overflow="fold"), Column("WHAT TO DO", overflow="fold"))
        for finding in findings:
            remedy = "" if finding.ok else finding.remedy
            table.add_row(finding.what, _mark(finding), escape(finding.found), escape(remedy))
        Console().print(table)
    if not all(finding.ok or not finding.needed for finding in findings):
        raise typer.Exit(1)


def _mark(finding: Finding) -> str:
    if finding.ok:
        return "[green]ok[/]"
    return "[bold red]MISSING[/]" if finding.needed else "[yellow]no[/]"


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

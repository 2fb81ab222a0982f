"""``pliant doctor --hosts``: it tries whether ssh reaches these nodes, and by which network MPI works there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pliant.cli.doctor_mpi import Finding, gist
from pliant.cli.hosts import hosts_named
from pliant.daemon import networks
from pliant.daemon.detect import mpi_of
from pliant.daemon.directory import current_directory
from pliant.model.errors import PliantError
from pliant.model.flavours import MPICH, NETMOD
from pliant.model.words import count

TRY_S = 20.0
"""How long a program may take that tries a network."""
MARGIN_S = 60.0
"""How much longer the launch around it may take: for ssh, for instance."""
DONE = "done"
TRIES = f"""
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
def step(name):
    world.Barrier()
    if rank == 0:
        print(name, flush=True)
if rank == 0:
    print("MPI_Barrier", flush=True)
step("MPI_Dist_graph_create")
graph = world.Create_dist_graph([rank], [1], [(rank + 1) % size])
graph.neighbor_allgather(rank)
graph.Free()
step("MPI_Alltoall")
world.alltoall([bytes(1 << 16)] * size)
step("MPI_Open_port")
port = MPI.Open_port() if rank == 0 else ""
port = world.bcast(port)
step("MPI_Comm_connect")
for other in range(1, min(size, 4)):
    if rank in (0, other):
        own = MPI.COMM_SELF
        link = own.Connect(port) if rank else own.Accept(port)
        both = link.Merge(rank > 0)
        assert both.allreduce(1) == 2
        both.Free()
        link.Barrier()
        link.Disconnect()
    world.Barrier()
step("{DONE}")
"""


class Trial(NamedTuple):
    """A trial of one network: the MPI call in which it ended (DONE: in none), why, and its seconds."""

    netmod: str
    step: str
    why: str
    seconds: float

    @property
    def finding(self) -> Finding:
        what = f"MPI over {self.netmod}" if self.netmod else "MPI between them"
        if self.step == DONE:
            return Finding(what, True, f"messages and joins, in {self.seconds:.1f} s")
        where = f"ended at {self.step}: " if self.step else ""
        return Finding(what, False, where + self.why, needed=False)


def findings(hosts: str, ssh_options: Sequence[str]) -> list[Finding]:
    """All findings about these nodes; PliantError if they cannot be named so."""
    names = hosts_named(hosts)
    reached = _launched(hosts, ssh_options, ["--", "true"], {})
    if reached["code"]:
        remedy = f"try it: pliant launch --hosts '{hosts}' -- true; nodes need ssh without a password, and this Python"
        return [Finding("nodes", False, _why(reached), remedy)]
    found = [Finding("nodes", True, f"{count(len(names), 'node')}, in {reached['phases']['over']:.1f} s")]
    mpi = mpi_of((sys.executable,), os.environ, "")
    if mpi is None:
        return [*found, Finding("MPI", False, "mpi4py loads no MPI here", "pip install 'pliant[mpi]'")]
    netmods = (mpi.mpi.netmods or ("ofi", "ucx")) if mpi.mpi.flavour == MPICH else ("",)
    trials = [_tried(hosts, ssh_options, netmod) for netmod in netmods]
    return [*found, *(trial.finding for trial in trials), verdict(names, trials)]


def verdict(names: Sequence[str], trials: Sequence[Trial]) -> Finding:
    """The quickest network that works, which is kept for launches over these nodes."""
    good = [trial for trial in trials if trial.step == DONE]
    if not good:
        with suppress(OSError):
            networks.keep(names, "")  # what worked before does not
        remedy = "install mpi4py and its MPI at the same path on each node; --interface names the network of agents"
        return Finding("network", False, "none of these works between the nodes", remedy)
    best = min(good, key=lambda trial: trial.seconds).netmod
    if not best:
        return Finding("network", True, "nothing has to be set")
    try:
        networks.keep(names, best)
    except OSError as error:
        return Finding("network", True, f"set {NETMOD}={best}: that cannot be kept: {error}")
    return Finding(
        "network", True, f"{best}: jobs and launches on these nodes take it; {NETMOD} overrides it"
    )


def _tried(hosts: str, ssh_options: Sequence[str], netmod: str) -> Trial:
    words = ["--mpi", "--timeout", f"{TRY_S:g}", "--", sys.executable, "-c", TRIES]
    return trial_of(netmod, _launched(hosts, ssh_options, words, {NETMOD: netmod} if netmod else {}))


def trial_of(netmod: str, told: dict[str, Any]) -> Trial:
    """The trial of ``netmod``, from the answer of the launch."""
    said = "".join(each["stdout"] for each in told["outputs"]).split("\n")
    steps = [line for line in said if line.startswith(("MPI_", DONE))]
    step = steps[-1] if steps else ""
    if step == DONE and (told["code"] or "ended" not in told["phases"]):
        step = "MPI_Finalize"
    return Trial(netmod, step, _why(told), told["phases"].get("ended", 0.0))


def _why(told: dict[str, Any]) -> str:
    errors = next((each["stderr"] for each in told["outputs"] if each["stderr"]), "")
    return gist(errors) or str(told["why"])


def _launched(
    hosts: str, ssh_options: Sequence[str], words: Sequence[str], env: dict[str, str]
) -> dict[str, Any]:
    """The answer of ``pliant launch --json`` with these ``words`` behind; PliantError if there is none."""
    options = [f"--ssh-option={each}" for each in ssh_options]
    launch = [sys.executable, "-m", "pliant", "launch", "--json", "--hosts", hosts, *options, *words]
    current_directory()  # or an error that says that it is gone
    try:
        ran = subprocess.run(
            launch, env={**os.environ, **env}, capture_output=True, text=True, errors="replace",
            timeout=TRY_S + MARGIN_S, check=False,
        )  # fmt: skip
        told: dict[str, Any] = json.loads(ran.stdout)
    except subprocess.TimeoutExpired:
        raise PliantError(
            f"--hosts {hosts}: a launch there was not over within {TRY_S + MARGIN_S:g} s"
        ) from None
    except ValueError:
        raise PliantError(f"--hosts {hosts}: {gist(ran.stderr)}") from None
    return told

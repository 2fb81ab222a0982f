"""What this MPI can do here. ``main``, under mpiexec, tries all of it and prints that as JSON: for ``pliant
doctor``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping

import msgspec
from mpi4py import MPI

from pliant.model.flavours import identify
from pliant.mpi.wait import Wait
from pliant.plan.choose import Abilities

LIMIT_S = 15.0
PROGRAM = "from pliant.mpi.abilities import main; main()"
"""Not by -m: the package has imported it by then."""


def find(nodes: Iterable[tuple[str, str]], environ: Mapping[str, str] = os.environ) -> Abilities:
    """Without starting anything. ``nodes``: of each rank the node, as its launcher calls it, and its machine."""
    version = MPI.Get_library_version()
    built = re.findall(r"^MPICH Device:\s*ch4:(\w+)", version, re.MULTILINE)
    return Abilities(
        identify(version).name,
        (environ.get("MPIR_CVAR_CH4_NETMOD") or built[0]) if built else "",
        "",
        _no_ports(),
        share(set(nodes))
        and environ.get("MPIR_CVAR_NOLOCAL", "0").lower() in {"", "0", "no", "false", "off"},
    )


def share(nodes: set[tuple[str, str]]) -> bool:
    """Whether nodes of these names, on these machines, are machines that have other names, or one that has several."""
    if len({machine for _, machine in nodes}) < len({node for node, _ in nodes}):
        return True
    numbers = {node for node, _ in nodes if re.fullmatch(r"[\d.]+|.*:.*|localhost", node)}
    return any(node not in numbers and node.split(".")[0] != machine.split(".")[0] for node, machine in nodes)


def _no_ports() -> str:
    try:
        MPI.Close_port(MPI.Open_port())
    except MPI.Exception as error:
        return f"MPI_Open_port: {error.Get_error_string()}"
    return ""


def _try() -> Abilities:
    """Start this program again, and let it connect to this process by port."""
    can = find([])
    wait, port = Wait(LIMIT_S), "" if can.no_ports else MPI.Open_port()
    info = MPI.Info.Create({"hosts": os.environ.get("PMI_HOSTNAME") or MPI.Get_processor_name()})
    try:
        with wait.watchdog("MPI_Comm_spawn"):
            child = MPI.COMM_SELF.Spawn(sys.executable, ["-c", PROGRAM], 1, info)
    except MPI.Exception as error:
        return msgspec.structs.replace(can, no_spawn=error.Get_error_string())
    child.send(port, 0)
    if port:
        try:
            with wait.watchdog("accepting at a port"):
                MPI.COMM_SELF.Accept(port).Disconnect()
        except MPI.Exception as error:
            can = msgspec.structs.replace(can, no_ports=error.Get_error_string())
    child.Disconnect()
    return can


def main() -> None:
    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        print(msgspec.json.encode(_try()).decode())  # noqa: T201 - which is what it is for
        return
    if port := parent.recv(source=0):
        with Wait(LIMIT_S).watchdog("connecting to a port"):
            MPI.COMM_SELF.Connect(port).Disconnect()
    parent.Disconnect()

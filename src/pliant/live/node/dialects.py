"""Launch dialects: what the ranks of a group find when they start, whom they can ask, what they leave behind.

A dialect is data and a few functions. ``pmi1`` is MPICH's PMI-1: a connection and a server for each group. ``none``
is for jobs that need no MPI: their ranks learn their numbers from the environment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pliant.live.node.messages import Home
from pliant.live.node.pmi import PmiGroup
from pliant.model.world import World

SHM = "/dev/shm"
RANK = "PLIANT_RANK"
LAUNCHERS = ("PMI_", "PMIX_", "HYDI_", "HYDRA_", "OMPI_", RANK)
"""A launcher around us is not the launcher of our ranks: no variable of its own reaches them."""

Env = dict[str, str]
PLAIN = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""For any rank: a slot is one processor."""


class Dialect(NamedTuple):
    """How the ranks of a group are launched.

    ``defaults`` may be overridden by the user's environment, ``settings`` of a rank may not. ``server`` answers what
    the ranks say over their connections; with none they get no connection. ``files`` are what dead ranks may have
    left, by their run, job and world. ``together``: when one rank fails, the others cannot go on.
    """

    name: str
    defaults: Callable[[Home], Env]
    settings: Callable[[World, int], Env]
    server: Callable[[World, str], PmiGroup] | None
    files: Callable[[str, int, World], tuple[str, ...]]
    together: bool
    without: tuple[str, ...] = LAUNCHERS


def kvsname(run: str, job: int, world: int) -> str:
    """The name of a world's key-value space; no two worlds share one."""
    return f"pliant_{run}_{job}_{world}"


def mpich_segment(run: str, job: int, world: int, part: int) -> str:
    """Where MPICH puts the memory that the ranks of one part of a world share.

    It names the segment after a hash of the kvsname that the launcher gave it. The launcher is us, so that the file
    of a dead group is known by name, whoever else is at work on the machine.
    """
    return f"{SHM}/mpich_shm_{_fnv1a(kvsname(run, job, world).encode()):x}_{part}"


def _fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


PMI1 = Dialect(
    name="pmi1",
    defaults=lambda home: {"MPIR_CVAR_CH4_NETMOD": "ucx", "UCX_POSIX_DIR": home.shm, **PLAIN},
    settings=lambda world, rank: {"PMI_SIZE": str(world.size), "PMI_RANK": str(rank), "PMI_ID": str(rank)},
    server=PmiGroup,
    files=lambda run, job, world: (mpich_segment(run, job, world.number, world.part),),
    together=True,  # as mpiexec has it
)

NONE = Dialect(
    name="none",
    defaults=lambda _: dict(PLAIN),
    settings=lambda world, rank: {RANK: str(rank - world.ranks.start)},  # within its group
    server=None,
    files=lambda _run, _job, _world: (),
    together=False,
)

LAUNCH = NONE._replace(
    name="launch",
    settings=lambda world, rank: {
        RANK: str(rank),
        "PLIANT_SIZE": str(world.size),
        "PLIANT_LOCAL_RANK": str(rank - world.ranks.start),
    },
)
"""For ``pliant launch``: any programs, numbered through."""

DIALECTS = {dialect.name: dialect for dialect in (PMI1, NONE, LAUNCH)}

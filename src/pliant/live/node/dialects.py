"""Launch dialects: what the ranks of a group find when they start, whom they can ask, what they leave behind.

A dialect is data and a few functions. ``pmi1`` is MPICH's PMI-1: a connection and a server for each group; ``pmi1-ofi``
and Intel MPI's are the same with other settings. Which MPI has which is told in ``model/flavours.py``. ``none`` is for
jobs that need no MPI: their ranks learn their numbers from the environment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pliant.live.node.messages import Home
from pliant.live.node.pmi import PmiGroup
from pliant.live.node.pmix import PmixGroup
from pliant.model.flavours import NETMOD
from pliant.model.world import MpiWorld

SHM = "/dev/shm"
RANK = "PLIANT_RANK"
LAUNCHERS = (
    "PMI_", "HYDI_", "HYDRA_", "MPI_LOCAL", "I_MPI_PMI", "I_MPI_HYDRA", "I_MPI_INFO", "I_MPI_INTERNAL", "I_MPI_PIN_",
    "PRTE_LAUNCHED", "PMIX_BFROP", "PMIX_GDS", "PMIX_HOSTNAME", "PMIX_ID", "PMIX_NAMESPACE", "PMIX_PARAM", "PMIX_RANK",
    "PMIX_SECURITY", "PMIX_SERVER", "PMIX_SYSTEM", "PMIX_VERSION", "OMPI_APP", "OMPI_ARGV", "OMPI_COMM", "OMPI_FILE",
    "OMPI_FIRST", "OMPI_MCA_ess", "OMPI_MCA_initial_wdir", "OMPI_MCA_num_procs", "OMPI_MCA_orte", "OMPI_MCA_pmix",
    "OMPI_NUM", "OMPI_UNIVERSE", "OMPI_WORLD", RANK,
)  # fmt: skip
"""A launcher around us is not the launcher of our ranks: no variable of its own reaches them. What a user may have set,
as OMPI_MCA_btl or I_MPI_FABRICS, does."""

Env = dict[str, str]
PLAIN = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""For any rank: a slot is one processor."""


class Dialect(NamedTuple):
    """How the ranks of a group are launched.

    ``defaults`` are for what the user's environment says nothing of. ``places`` on a node go over that, unless the job
    itself says another; ``settings`` of a rank are what they are. ``server`` answers what the ranks say over their
    connections; with none they get no connection. ``files`` are what dead ranks may have
    left, by their run, job and world. ``together``: when one rank fails, the others cannot go on. ``finalizes``: a rank
    that ends has called MPI_Finalize; else one of pliant.mpi says that it is through. With a
    ``program`` the server is a process of the group's own, which is started first: the agent knows it by this name.
    """

    name: str
    defaults: Env
    places: Callable[[Home], Env]
    settings: Callable[[MpiWorld, int], Env]
    server: Callable[[MpiWorld, str], PmiGroup | PmixGroup] | None
    files: Callable[[str, int, MpiWorld], tuple[str, ...]]
    together: bool
    finalizes: bool = True
    without: tuple[str, ...] = LAUNCHERS
    program: str = ""


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
    defaults={NETMOD: "ucx", **PLAIN},
    places=lambda home: {"UCX_POSIX_DIR": home.shm},
    settings=lambda world, rank: {"PMI_SIZE": str(world.size), "PMI_RANK": str(rank), "PMI_ID": str(rank)},
    server=PmiGroup,
    files=lambda run, job, world: (mpich_segment(run, job, world.number, world.part),),
    together=True,  # as mpiexec has it
)

PMI1_OFI = PMI1._replace(name="pmi1-ofi", defaults={NETMOD: "ofi", **PLAIN})

INTEL = PMI1._replace(
    name="intel-rigid",
    defaults={
        "I_MPI_SPAWN": "on",  # without, MPI_Open_port ends the process
        "I_MPI_SHM_SPIN_RATIO": "1",  # or it looks for messages of other nodes so rarely that a barrier takes seconds
        "I_MPI_PIN": "off",
        "I_MPI_THREAD_YIELD": "2",
        **PLAIN,
    },
)
"""For jobs with one world."""

INTEL_GROUPS = INTEL._replace(
    name="intel",
    defaults={
        **INTEL.defaults,
        "MPI4PY_RC_FINALIZE": "0",  # who has accepted waits in MPI_Finalize for who connected, alive or not
    },
    finalizes=False,
)

OPENMPI = Dialect(
    name="openmpi",
    defaults={
        "OMPI_MCA_btl": "self,sm,tcp",  # with all others as well MPI_Init takes ten times as long
        "OMPI_MCA_mpi_yield_when_idle": "1",  # slots may be more than processors
        "OMPI_MCA_mpi_ft_enable": "1",  # without, who is left aborts when another group is lost
        **PLAIN,
    },
    places=lambda _: {},
    settings=lambda _world, _rank: {},
    server=PmixGroup,
    files=lambda _run, _job, _world: (),
    together=True,
    program="pmix",
)

NONE = Dialect(
    name="none",
    defaults=PLAIN,
    places=lambda _: {},
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

DIALECTS = {dialect.name: dialect for dialect in (PMI1, PMI1_OFI, INTEL, INTEL_GROUPS, OPENMPI, NONE, LAUNCH)}

"""Malleable SPMD programs: the same script on every rank, and a job that grows and shrinks between steps.

>>> from pliant import mpi
>>> with mpi.malleable(min=1, max=16) as job:                            # doctest: +SKIP
...     grid = job.array("grid", (4096, 4096), "f8", mpi.Block(axis=0, halo=1))
...     if job.fresh:
...         grid.local[...] = initial(grid.index)
...     for step in job.steps(10_000):
...         grid.exchange_halo()
...         relax(job.comm, grid.local)
"""

from pliant.job.decisions import Action
from pliant.job.errors import Stalled
from pliant.mpi.cart import Cart
from pliant.mpi.context import Value
from pliant.mpi.data.arrays import Array
from pliant.mpi.data.halo import HaloExchange
from pliant.mpi.data.movable import Copy, Movable, Parcel, Parcels, Way
from pliant.mpi.data.rows import Csr, Rows
from pliant.mpi.errors import NotJoined, Released
from pliant.mpi.job import Job, malleable
from pliant.plan.data.grids import Grid
from pliant.plan.data.layouts import Block, BlockCyclic, Irregular, Replicated, Weighted
from pliant.plan.data.mapping import Mapping

__all__ = [
    "Action",
    "Array",
    "Block",
    "BlockCyclic",
    "Cart",
    "Copy",
    "Csr",
    "Grid",
    "HaloExchange",
    "Irregular",
    "Job",
    "Mapping",
    "Movable",
    "NotJoined",
    "Parcel",
    "Parcels",
    "Released",
    "Replicated",
    "Rows",
    "Stalled",
    "Value",
    "Way",
    "Weighted",
    "malleable",
]

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

from pliant.job.errors import Stalled
from pliant.mpi.arrays import Array, Block
from pliant.mpi.context import Replicated
from pliant.mpi.errors import NotJoined, Released
from pliant.mpi.job import Job, malleable

__all__ = ["Array", "Block", "Job", "NotJoined", "Released", "Replicated", "Stalled", "malleable"]

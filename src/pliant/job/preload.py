"""What a warm process (`launch/warm.py`) imports for programs of MPI: all that `pliant.mpi` needs but MPI.

mpi4py starts MPI when `mpi4py.MPI` is imported, as `mpi4py.rc` says by then, which is the program's affair. So its
libraries are only loaded here: that is most of the time that the import takes.
"""

from __future__ import annotations

import contextlib
import copy  # noqa: F401
import ctypes
import dataclasses  # noqa: F401
import faulthandler  # noqa: F401
import importlib
import importlib.util
import traceback  # noqa: F401

import pliant.job.connection
import pliant.job.exchange
import pliant.job.negotiation
import pliant.job.recording
import pliant.plan.data.layouts
import pliant.plan.data.traffic
import pliant.plan.join  # noqa: F401


def load_libraries() -> None:
    """Load the MPI that mpi4py would take, and mpi4py's own; nothing where that cannot be."""
    with contextlib.suppress(ImportError, OSError, RuntimeError):
        importlib.import_module("numpy.typing")
        spec = importlib.util.find_spec("mpi4py.MPI")
        if spec is not None and spec.origin is not None:
            ctypes.CDLL(spec.origin)


load_libraries()

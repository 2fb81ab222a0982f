"""A process of a job that mpiexec has started: its node, and how it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import time

from mpi4py import MPI

from pliant.mpi.resizer import drain

PR_SET_PDEATHSIG = 1
END_S = 5.0
"""What mpiexec gets to end this process."""


def end_job(code: int) -> None:
    """All that mpiexec has started ends, with this exit code, and this process at once, whatever it is in: a thread
    that is in MPI_Comm_spawn keeps MPI_Abort waiting. An exit alone would have mpiexec wait for what has been
    started. What this process has said is read first."""
    drain()
    fd = os.environ.get("PMI_FD", "")
    if fd.isdigit():
        os.write(int(fd), f"cmd=abort exitcode={code}\n".encode())
        time.sleep(END_S)  # it is ended meanwhile
    os._exit(code)


def end_with_launcher() -> None:
    """Have the kernel end this process when that which has started it does: of several that fail at once Hydra's
    proxies crash, and what stands still would be left."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def host() -> str:
    """The node of this process, as mpiexec calls it: several virtual nodes may be one machine."""
    return os.environ.get("PMI_HOSTNAME") or MPI.Get_processor_name()

"""A process of a job that mpiexec has started: its node, and how it ends."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import termios
import time
from contextlib import suppress

from mpi4py import MPI

PR_SET_PDEATHSIG = 1
NAP_S = 1e-3
END_S = 5.0
"""What mpiexec gets to end this process."""


def drain() -> None:
    """What this process has said is on its way: what mpiexec has not read when it is told to end all would be lost."""
    until = time.perf_counter() + END_S
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it is closed, or no pipe
            stream.flush()
            while unread(stream.fileno()) and time.perf_counter() < until:
                time.sleep(NAP_S)


def unread(pipe: int) -> int:
    """Bytes in it; OSError if this cannot be told."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


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

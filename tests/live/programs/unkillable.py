"""Start a process that not even SIGKILL removes while this one lives: it is traced, and stopped at its exit.

    unkillable.py NAME=VALUE ...

The words are added to its environment. Its pid is printed; it goes when standard input ends.
"""

import ctypes
import os
import signal
import sys

TRACEME, CONT, SETOPTIONS, TRACEEXIT = 0, 7, 0x4200, 0x40
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request: int, pid: int, data: int = 0) -> None:
    if libc.ptrace(request, pid, None, data) == -1:
        raise OSError(ctypes.get_errno(), "ptrace")


pid = os.fork()
if pid == 0:
    ptrace(TRACEME, 0)
    os.execvpe("sleep", ["sleep", "600"], {**os.environ, **dict(word.split("=") for word in sys.argv[1:])})  # noqa: S606
os.waitpid(pid, 0)
ptrace(SETOPTIONS, pid, TRACEEXIT)
ptrace(CONT, pid)
print(pid, flush=True)
sys.stdin.read()
os.kill(pid, signal.SIGKILL)
while not os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
    ptrace(CONT, pid)

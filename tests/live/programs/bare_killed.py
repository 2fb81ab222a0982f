"""A program that resizes itself, whose processes fail as they are told: ``bare_killed.py WHO POINT HOW FILE``.

WHO is ``new``, the newcomers, ``one`` of them, which makes FILE, or ``old``, rank 0 of the first ones. At POINT it
dies (``die``), exits (``exit``), fails as Python does (``raise``), has no more files to open (``full``) or fills
/dev/shm (``fill``), stands still (``stop``), sleeps for so many seconds (a number), or aborts as a library that crashes
(``crash``). Or it has the process stand still that starts others beside the job (``starter``; the one with the same
BARE_KILLED in its environment), and may fail then (``starter,raise``).
"""

import contextlib
import importlib
import inspect
import os
import pathlib
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

WHO, POINT, HOW, FILE = sys.argv[1:5]
NEW = os.environ.get("PMI_SPAWNED") == "1"
POINTS = {
    "start": "it runs, and has not begun with MPI",
    "begin": "it has initialised MPI, and is to hear what it is for",
    "check": "a first process is to look whether others can be started",
    "report": "it is in its loop, and is to say that it is there",
    "join": "all are there, and newcomers are to join each other",
    "connect": "it is to connect or to accept",
    "merge": "it is to merge",
    "state": "it is in one communicator with the job, and is to be told its state",
    "data": "data are to move",
    "settle": "they have moved, and what was before is to be left",
    "step": "it computes",
}
"""What one comes to, in this order."""


def reach(point: str) -> None:
    if point != POINT or (WHO == "old") == NEW:
        return
    if WHO == "old" and importlib.import_module("mpi4py.MPI").COMM_WORLD.rank:
        return
    if WHO == "one":
        try:
            os.close(os.open(FILE, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    if HOW == "full":
        resource.setrlimit(resource.RLIMIT_NOFILE, (len([*pathlib.Path("/proc/self/fd").iterdir()]) + 5,) * 2)
        return
    if HOW == "fill":
        with pathlib.Path("/dev/shm/full").open("wb") as file:
            room = os.fstatvfs(file.fileno())
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
        return
    if HOW.startswith("starter"):
        os.kill(starter(), signal.SIGSTOP)
        if HOW == "starter":
            return
    if HOW == "exit":
        os._exit(0)
    if HOW in ("raise", "starter,raise"):
        raise RuntimeError("as it was told")
    number = {"die": signal.SIGKILL, "stop": signal.SIGSTOP, "crash": signal.SIGABRT}.get(HOW)
    if number is None:
        time.sleep(float(HOW))
    else:
        os.kill(os.getpid(), number)


def starter() -> int:
    mark = f"BARE_KILLED={os.environ['BARE_KILLED']}".encode()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            if b"spawning.starter" in words and mark in (entry / "environ").read_bytes().split(b"\0"):
                return int(entry.name)
    raise RuntimeError("nobody starts others beside the job")


def pointed(module: Any, name: str, before: str = "", behind: str = "") -> None:
    call: Callable[..., Any] = getattr(module, name)

    def told(*words: Any, **more: Any) -> Any:
        reach(before)
        result = call(*words, **more)
        reach(behind)
        return result

    def steps(*words: Any, **more: Any) -> Any:
        reach(before)
        result = yield from call(*words, **more)
        reach(behind)
        return result

    setattr(module, name, steps if inspect.isgeneratorfunction(call) else told)


def main() -> None:
    reach("start")
    from pliant.apps import heat
    from pliant.job.spawning import newcomer, sources, spawn_tree
    from pliant.mpi.bare import resizes as bare

    reach("begin")
    pointed(spawn_tree.SpawnTreeNode, "upside", before="report")
    pointed(newcomer, "connect", before="join")
    pointed(newcomer, "called", behind="connect")
    pointed(sources, "accept", before="connect")
    pointed(sources, "finish", before="merge")
    pointed(newcomer, "finish", before="merge")
    pointed(sources, "check", before="check")
    pointed(bare, "broadcast", before="state")
    pointed(bare, "redistribute", before="data", behind="settle")
    sys.argv[1:] = ["--rows", "64", "--cols", "64", "--steps", "40"]
    heat.main()


if __name__ == "__main__":
    main()

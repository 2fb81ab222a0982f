"""A plain mpi4py program, as people have them: one line a rank, and rank 0 adds up. With an argument, rank 1
comes late, when that file is there; with ``addresses`` each rank tells where it listens."""

import contextlib
import os
import pathlib
import socket
import sys
import time

argument = sys.argv[1] if len(sys.argv) > 1 else ""
rank = os.environ.get("PMI_RANK") or os.environ["PMIX_RANK"]
if argument == "leave" and rank == "1":
    sys.exit(0)
if argument.startswith("/") and rank == "1":
    pathlib.Path(argument).touch()
    time.sleep(600)

from mpi4py import MPI  # noqa: E402

world = MPI.COMM_WORLD
print(f"rank {world.rank} of {world.size} on {os.environ['PLIANT_NODE']}\n", end="", flush=True)
if world.allreduce(1) != world.size:
    world.Abort(3)
if argument == "addresses":
    with contextlib.suppress(MPI.Exception):  # older ones have none
        MPI.Open_port()
    own_server = socket.create_server(("127.0.0.1", 0))  # so that something is found
    own = {path.resolve().name for path in pathlib.Path("/proc/self/fd").iterdir()}
    for line in pathlib.Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if f"socket:[{words[9]}]" in own and words[3] == "0A":
            print(f"listens {words[1].partition(':')[0]}\n", end="", flush=True)
if argument == "abort" and world.rank == world.size - 1:
    raise ValueError("the last rank is not happy")
world.barrier()

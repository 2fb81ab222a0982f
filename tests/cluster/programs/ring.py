"""Each rank sends its node's name to the next one, and a message that is no short one, and says what it has got."""

import socket
import sys

from mpi4py import MPI

BYTES = 4 << 20
world = MPI.COMM_WORLD
after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
name = world.sendrecv(socket.gethostname(), dest=after, source=before)
much = bytearray(BYTES)
world.Sendrecv(bytes([world.rank]) * BYTES, dest=after, recvbuf=much, source=before)
right = much == bytes([before]) * BYTES
sys.stdout.write(f"{socket.gethostname()} of {world.size} heard {name}: {right}\n")

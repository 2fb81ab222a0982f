"""The job's side of the protocol, without MPI: its place under an agent, its session, what its root answers to the
scheduler. ``pliant.mpi`` stands on it.

``session`` and ``negotiation`` do no I/O: bytes and messages go in, messages and bytes come out. ``connection``
is the socket that carries them.
"""

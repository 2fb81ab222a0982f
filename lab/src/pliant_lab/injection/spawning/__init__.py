"""Expansions by MPI_Comm_spawn in seeded worlds of faults: the coroutines of `job/spawning/`, and MPI as it behaves."""

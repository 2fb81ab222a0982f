"""What each process does in an expansion by MPI_Comm_spawn: coroutines of operations, without MPI.

Each yields an operation (`operations.py`) and gets its outcome, or an error of a type that all know.
`mpi/bare/spawning/` carries them out by MPI, `pliant_lab/injection/spawning/` in seeded worlds of faults.
"""

"""Jobs that a bare mpiexec has started, and that resize themselves (Martín-Álvarez et al. 2025)."""

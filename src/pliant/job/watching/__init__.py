"""What newcomers of a program miss: found by comparing ranks after a resize. No MPI, no I/O."""

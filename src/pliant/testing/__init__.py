"""The whole live system in one process, under a virtual clock and faults drawn by a seed."""

"""The live system in one process, under a virtual clock: faults drawn by a seed, and checks after each record."""

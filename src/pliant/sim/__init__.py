"""Simulation: the same core and policies as live, under a virtual clock, on traces and batches."""

"""Parallel jobs that change size while they run, and the scheduler that makes use of it."""

__version__ = "0.1.0"

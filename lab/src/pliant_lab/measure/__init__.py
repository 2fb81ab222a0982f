"""Real programs on this machine, measured: against their kernels, over places and workers, and while they are
resized."""

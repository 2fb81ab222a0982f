"""The inner loops of the task programs, compiled by numba, which is imported nowhere else.

Each module is one file with all that its kernels call. numba keeps what it has compiled by the time of the file that
the kernel stands in, and would not notice a change elsewhere.
"""

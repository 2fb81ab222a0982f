"""A pool that spawns its workers, unless it is started by ``python -m mpi4py.futures``."""

from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    with MPIPoolExecutor(2) as pool:
        print(sum(pool.map(abs, range(-50, 50))))

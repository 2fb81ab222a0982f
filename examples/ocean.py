# ocean.py: a field that each step smooths, on as many nodes as it is given
import numpy as np

from pliant import mpi

STEPS = 400


def initial(index):
    i, j = np.ogrid[index]
    return np.sin(i / 9.0) + np.cos(j / 7.0)


def relax(field):
    inner = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
    field[1:-1, 1:-1] = 0.25 * inner


with mpi.malleable(min=1, max=8, preferred=4) as job:
    grid = job.array("grid", (512, 512), "f8", mpi.Block(axis=0, halo=1))
    if job.fresh:  # not on ranks that join later
        grid.local[...] = initial(grid.index)
    # Paced: as a job of a batch that has a model, it is as slow as that says. Else it computes as fast as it can.
    for _ in job.steps(STEPS, pace=True):
        grid.exchange_halo()
        relax(grid.local)
    whole = grid.gather()  # on rank 0
    if whole is not None:
        job.result(f"mean {whole.mean():.12f}")
        print(f"mean {whole.mean():.12f}")

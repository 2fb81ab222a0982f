"""Programs as people write them, each beside its serial twin: ``python natural.py NAME DIRECTORY``. Arithmetic is exact, so
that results are equal to the last bit at any number of ranks. It prints ``NAME right``, or what differs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from pliant import mpi

STEPS = 66
Whole = NDArray[Any] | None


def kmeans(job: mpi.Job, _where: Path) -> Whole:
    """Allreduce in each step, until nothing changes and all steps were made."""
    points = job.array("points", (200, 2), "i8", constant=True)
    centres = job.value("centres", cloud(200)[:5])
    if job.fresh:
        points.owned[...] = cloud(200)[points.owned_index]
    for step in job.steps():
        sums, counts = sums_of(points.owned, centres.value)
        job.comm.Allreduce(MPI.IN_PLACE, sums)
        job.comm.Allreduce(MPI.IN_PLACE, counts)
        before, centres.value = centres.value, sums // np.maximum(counts, 1)[:, None]
        if step >= STEPS - 1 and (before == centres.value).all():
            break
    return centres.value if job.rank == 0 else None


def kmeans_serial(_where: Path) -> NDArray[Any]:
    points, centres = cloud(200), cloud(200)[:5]
    for _step in range(2 * STEPS):
        sums, counts = sums_of(points, centres)
        centres = sums // np.maximum(counts, 1)[:, None]
    return centres


def cloud(points: int) -> NDArray[Any]:
    return np.random.default_rng(3).integers(0, 1000, (points, 2))


def sums_of(points: NDArray[Any], centres: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    sums, counts = np.zeros((5, 2), "i8"), np.zeros(5, "i8")
    np.add.at(sums, nearest, points)
    np.add.at(counts, nearest, 1)
    return sums, counts


def heat(job: mpi.Job, where: Path) -> Whole:
    """Rank 0 appends the plate to a file now and then."""
    plate, fresh = (job.array(name, (24, 10), "f8", mpi.Block(halo=1)) for name in ("plate", "fresh"))
    if job.fresh:
        plate.owned[...] = fresh.owned[...] = 0.0
        plate.owned[:, 0] = fresh.owned[:, 0] = 64.0
    for step in job.steps(STEPS):
        plate.exchange_halo()
        first, stop = plate.owned_rows()
        low = first - plate.index[0].start
        relax(plate.local, fresh.owned, low, first, stop, 24)
        job.swap(plate, fresh)
        if step % 10 == 9:
            whole = plate.gather()
            if whole is not None:
                with (where / "plates").open("ab") as file:
                    file.write(whole.tobytes())
    job.comm.barrier()
    return np.fromfile(where / "plates") if job.rank == 0 else None


def relax(old: NDArray[Any], new: NDArray[Any], low: int, first: int, stop: int, rows: int) -> None:
    for row in range(max(first, 1), min(stop, rows - 1)):
        here = row - first + low
        around = old[here - 1, 1:-1] + old[here + 1, 1:-1] + old[here, :-2] + old[here, 2:]
        new[row - first, 1:-1] = 0.25 * around


def heat_serial(_where: Path) -> NDArray[Any]:
    plate, fresh, saved = np.zeros((24, 10)), np.zeros((24, 10)), []
    plate[:, 0] = fresh[:, 0] = 64.0
    for step in range(STEPS):
        relax(plate, fresh, 0, 0, 24, 24)
        plate, fresh = fresh, plate
        if step % 10 == 9:
            saved.append(plate.copy())
    return np.concatenate(saved).reshape(-1)


def mandelbrot(job: mpi.Job, _where: Path) -> Whole:
    """Rows are dealt out, as they take different times."""
    layout = mpi.BlockCyclic(2)
    points, orbit = (job.array(name, (30, 20), "c16", layout) for name in ("points", "orbit"))
    count = job.array("count", (30, 20), "i4", layout)
    if job.fresh:
        points.owned[...] = plane()[points.owned_index]
    for _ in job.steps(STEPS):
        escape(points.owned, orbit.owned, count.owned)
    return count.gather()


def plane() -> NDArray[Any]:
    rows, columns = np.mgrid[-1.0:1.0:30j, -2.0:0.5:20j]
    points: NDArray[Any] = columns + 1j * rows
    return points


def escape(points: NDArray[Any], orbit: NDArray[Any], count: NDArray[Any]) -> None:
    inside = np.abs(orbit) <= 2.0
    orbit[inside] = orbit[inside] ** 2 + points[inside]
    count += inside


def mandelbrot_serial(_where: Path) -> NDArray[Any]:
    points, orbit, count = plane(), np.zeros((30, 20), "c16"), np.zeros((30, 20), "i4")
    for _step in range(STEPS):
        escape(points, orbit, count)
    return count


class Bodies:
    """N bodies, of which each rank moves its own and sees all."""

    COUNT = 25

    def __init__(self, job: mpi.Job) -> None:
        self.job = job
        self.bodies = job.array("bodies", (self.COUNT, 4), "f8")
        if job.fresh:
            self.bodies.owned[...] = start(self.COUNT)[self.bodies.owned_index]

    def run(self) -> Whole:
        for _ in self.job.steps(STEPS):
            every = np.concatenate(self.job.comm.allgather(self.bodies.owned))
            attract(self.bodies.owned, every)
        return self.bodies.gather()


def nbody(job: mpi.Job, _where: Path) -> Whole:
    return Bodies(job).run()


def start(count: int) -> NDArray[Any]:
    return np.random.default_rng(5).random((count, 4))


def attract(mine: NDArray[Any], every: NDArray[Any]) -> None:
    for body in mine:
        force = np.zeros(2)
        for other in every:
            way = other[:2] - body[:2]
            force += way / (0.1 + way @ way)
        body[2:] += 1e-3 * force
        body[:2] += 1e-3 * body[2:]


def nbody_serial(_where: Path) -> NDArray[Any]:
    bodies = start(Bodies.COUNT)
    for _step in range(STEPS):
        attract(bodies, bodies.copy())
    return bodies


def wave(job: mpi.Job, _where: Path) -> Whole:
    """Three arrays change their roles on a grid, whose rows and columns agree on the highest wave; the halo comes while
    the inner cells are computed."""
    layout = mpi.Grid(halo=1, periods=(True, False), dims="surface", corners=False)
    old, now, new = (job.array(name, (18, 14), "f8", layout) for name in ("old", "now", "new"))
    highest = job.value("highest", 0.0)
    if job.fresh:
        old.owned[...] = now.owned[...] = drop()[now.owned_index]
    for _ in job.steps(STEPS):
        halo = now.iexchange_halo()
        new.owned[...] = 0.0
        halo.wait()
        swing(old.owned, now.local, new.owned, now.owned_box())
        job.swap(old, now, new)
        mine = float(now.owned.max(initial=0.0))
        row = job.cart.row.allreduce(mine, MPI.MAX)
        highest.value = max(highest.value, job.cart.column.allreduce(row, MPI.MAX))
    whole = now.gather()
    return None if whole is None else np.append(whole, highest.value)


def drop() -> NDArray[Any]:
    rows, columns = np.mgrid[:18, :14]
    height: NDArray[Any] = np.maximum(0.0, 8.0 - (rows - 5.0) ** 2 - (columns - 6.0) ** 2)
    return height


def swing(old: NDArray[Any], now: NDArray[Any], new: NDArray[Any], box: Any) -> None:
    """Of ``now`` there is a row more on either side, and a column more where the box does not end at the wall."""
    low = int(box[1].start > 0)
    width = box[1].rows
    padded = np.zeros((new.shape[0] + 2, width + 2))
    if new.size:
        padded[:, 1 - low : 1 - low + now.shape[1]] = now
    middle = padded[1:-1, 1:-1]
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    new[...] = 2.0 * middle - old + 0.125 * (around - 4.0 * middle)


def wave_serial(_where: Path) -> NDArray[Any]:
    old, now, highest = drop(), drop(), 0.0
    box = (None, mpi.Block().split(14, 1).span(0))
    for _step in range(STEPS):
        new = np.zeros((18, 14))
        swing(old, np.concatenate([now[-1:], now, now[:1]]), new, box)
        old, now = now, new
        highest = max(highest, float(now.max(initial=0.0)))
    return np.append(now, highest)


def sgd(job: mpi.Job, _where: Path) -> Whole:
    """All ranks draw the same batch, from a generator that is a value."""
    data = job.array("data", (120, 4), "i8", constant=True)
    weights, draws = job.value("weights", np.zeros(3, "i8")), job.value("draws", np.random.default_rng(7))
    if job.fresh:
        data.owned[...] = samples()[data.owned_index]
    for _ in job.steps(STEPS):
        batch = draws.value.integers(0, 120, 16)
        first, stop = data.owned_rows()
        mine = batch[(batch >= first) & (batch < stop)] - first
        gradient = job.comm.allreduce(slope(data.owned[mine], weights.value))
        weights.value = weights.value - gradient // 64
    return weights.value if job.rank == 0 else None


def samples() -> NDArray[Any]:
    made = np.random.default_rng(9).integers(-3, 4, (120, 4))
    made[:, 3] = made[:, :3] @ [3, -2, 5]
    return made


def slope(rows: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    error = rows[:, :3] @ weights - rows[:, 3]
    slopes: NDArray[Any] = error @ rows[:, :3]
    return slopes


def sgd_serial(_where: Path) -> NDArray[Any]:
    data, weights, draws = samples(), np.zeros(3, "i8"), np.random.default_rng(7)
    for _step in range(STEPS):
        weights = weights - slope(data[draws.integers(0, 120, 16)], weights) // 64
    return weights


def pencils(job: mpi.Job, _where: Path) -> Whole:
    """As an FFT does: along one axis, then along the other, with a change of layout between them, and rows that come
    now and then."""
    field = job.array("field", (12, 15), "i8", mpi.Block(axis=0))
    if job.fresh:
        field.owned[...] = np.arange(180).reshape(12, 15)[field.owned_index]
    for step in job.steps(STEPS):
        field.owned[...] = np.cumsum(field.owned, axis=1) % 1009
        field.to(mpi.Block(axis=1))
        field.owned[...] = np.cumsum(field.owned, axis=0) % 1009
        if step % 20 == 19:
            field.resize((field.shape[0] + 3, 15))
        if step % 3:
            field.to(mpi.Weighted(1 + np.arange(field.shape[0]) % (2 + step % 5)))
        else:
            field.to(mpi.Block(axis=0))
    return field.gather()


def pencils_serial(_where: Path) -> NDArray[Any]:
    field = np.arange(180).reshape(12, 15)
    for step in range(STEPS):
        field = np.cumsum(np.cumsum(field, axis=1) % 1009, axis=0) % 1009
        if step % 20 == 19:
            field = np.concatenate([field, np.zeros((3, 15), "i8")])
    return field


PROGRAMS: dict[str, tuple[Callable[[mpi.Job, Path], Whole], Callable[[Path], NDArray[Any]]]] = {
    "kmeans": (kmeans, kmeans_serial),
    "heat": (heat, heat_serial),
    "mandelbrot": (mandelbrot, mandelbrot_serial),
    "nbody": (nbody, nbody_serial),
    "wave": (wave, wave_serial),
    "sgd": (sgd, sgd_serial),
    "pencils": (pencils, pencils_serial),
}


def main(name: str, where: Path) -> None:
    program, twin = PROGRAMS[name]
    with mpi.malleable(min=1, max=4) as job:
        found = program(job, where)
        if found is not None:
            expected = twin(where)
            same = found.shape == expected.shape and bool((found == expected).all())
            text = f"{name} right" if same else f"{name}: {found} where {expected} was expected"
            job.result(text)
            print(text)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

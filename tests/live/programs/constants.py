"""A job with large constant data that changes size: ``constants.py FLAG [MIB]``. In each step a part of it is compared
with what it has to be, and all of it after each resize. The result names what was not equal. When constant data begin
to move a rank leaves ``moving.PID`` beside the flag. It gives the memory of one array back when the file GIVEN is there.
"""

import os
import pathlib
import sys
import time

import numpy as np

from pliant import mpi
from pliant.mpi.data.ahead import Ahead

COLUMNS = 1 << 10


def touch_when_moving(flag: pathlib.Path) -> None:
    begin = Ahead.begin

    def begun(ahead: Ahead) -> None:
        begin(ahead)
        flag.with_name(f"moving.{os.getpid()}").touch()

    setattr(Ahead, "begin", begun)  # noqa: B010 - for a checker a method is not assigned


def main(flag: pathlib.Path, mib: int) -> None:
    touch_when_moving(flag)
    given = pathlib.Path(os.environ.get("GIVEN", "/nonexistent"))
    rows = mib << 7  # of 8 KiB
    with mpi.malleable(min=1, max=8, watch=False) as job:
        table = job.array("table", (rows, COLUMNS), "f8", mpi.Block(halo=1), constant=True)
        wide = job.array("wide", (16, rows), "i4", mpi.Block(axis=1), constant=True)
        matrix = job.csr("matrix", (rows, COLUMNS), constant=True)
        field = job.array("field", (rows,), "i8")
        count = job.value("count", 0)
        wrong: list[str] = []
        if job.fresh:
            table.local[...] = np.arange(rows)[table.index[0], None]
            wide.local[...] = np.arange(rows)[wide.index[1]]
            first, stop = matrix.owned_rows()
            numbers = np.arange(first, stop)
            matrix.put(
                mpi.Csr(np.arange(len(numbers) + 1) * 2, np.repeat(numbers % 1000, 2), np.repeat(numbers, 2))
            )

        def look(step: int, stride: int) -> None:
            numbers = np.arange(rows)
            if not (table.local[::stride] == numbers[table.index[0]][::stride, None]).all():
                wrong.append(f"table at {step}")
            if (
                wide.local.ndim == 2
                and not (wide.local[:, ::stride] == numbers[wide.index[1]][::stride]).all()
            ):
                wrong.append(f"wide at {step}")
            _, columns, data = matrix.local
            mine = np.repeat(np.arange(*matrix.owned_rows()), 2)
            if not ((columns == mine % 1000)[::stride].all() and (data == mine)[::stride].all()):
                wrong.append(f"matrix at {step}")
            if not (field.local == step).all():
                wrong.append(f"field at {step}")

        size = 0
        for step in job.steps(1_000_000):
            look(step, 101 if size == job.size else 1)
            if count.value != step:
                wrong.append(f"count at {step}")
            size, count.value = job.size, step + 1
            field.local[...] += 1
            time.sleep(0.005)
            if given.exists():
                wide.local.resize(0, refcheck=False)
                given.unlink()
            if job.comm.bcast(flag.exists()):
                break
        said = job.comm.gather(wrong)
        if said is not None:
            job.result(f"wrong: {[each for some in said for each in some][:5]}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 64)

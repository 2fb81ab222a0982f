"""A controller that may be killed and started again, without the command: it goes on from its journal if there is one.

    service.py PLACE RUN COMMAND...

runs COMMAND as a malleable job on two of three nodes. A size in PLACE/order resizes it.
"""

import asyncio
import sys
from pathlib import Path

from pliant.core import records as r
from pliant.core.journal import Header, header_line, read
from pliant.core.settings import Settings
from pliant.daemon.controller import Controller
from pliant.drivers.fork import ForkedNodes
from pliant.live.cluster import orders as o
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.policy.fcfs import Fcfs

GRACE = 40.0


async def main(place: Path, run: str, command: tuple[str, ...]) -> None:
    path = place / "out" / "records.ndjson"
    jobs: tuple[JobSpec, ...] = ()
    records = None
    if path.exists():
        lines = path.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        path.write_bytes(b"".join(whole))
        records = read(whole).records
    else:
        path.write_bytes(header_line(Header(began="2026-01-01T00:00:00Z", policy="fcfs")))
        bounds = Bounds(1, 3, preferred=2)
        jobs = (JobSpec(name="heat", command=command, job_class=JobClass.MALLEABLE, nodes=bounds),)
    driver = ForkedNodes(1, run, place / "run", grace=GRACE)
    controller = Controller(Fcfs(), Settings(), driver, 3, output=place / "out", records=records)
    with path.open("ab", buffering=0) as journal:

        def keep(record: r.Record) -> None:
            journal.write(r.to_line(record))

        controller.sinks.append(keep)
        orders = asyncio.ensure_future(follow(controller, place / "order"))
        try:
            await controller.start()
            await controller.run(jobs)
        finally:
            orders.cancel()
            await controller.stop()


async def follow(controller: Controller, path: Path) -> None:
    while True:
        if size := taken(path):
            controller.tell(o.Resize(1, size))
        await asyncio.sleep(0.05)


def taken(path: Path) -> int:
    """The size in the file, which is gone then; 0 if there is none."""
    if not path.exists():
        return 0
    size = int(path.read_text() or 0)
    path.unlink()
    return size


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], tuple(sys.argv[3:])))

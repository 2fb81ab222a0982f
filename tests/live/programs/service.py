"""A malleable job on two of three virtual nodes, under a controller that may be killed and started again.

    service.py PLACE RUN COMMAND...

A size in PLACE/order resizes the job.
"""

import asyncio
import sys
from pathlib import Path

from serving import serve

from pliant.core.settings import Settings
from pliant.drivers.fork import ForkedNodes
from pliant.live.cluster import orders as o
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.policy.fcfs import Fcfs

GRACE = 40.0


async def main(place: Path, run: str, command: tuple[str, ...]) -> None:
    bounds = Bounds(1, 3, preferred=2)
    job = JobSpec(name="heat", command=command, job_class=JobClass.MALLEABLE, nodes=bounds)
    driver = ForkedNodes(1, run, place / "run", grace=GRACE)
    resize = {"order": lambda size: o.Resize(1, size)}
    await serve(place, driver, Fcfs(), Settings(), nodes=3, jobs=(job,), orders=resize)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], tuple(sys.argv[3:])))

"""A batch under a controller that may be killed and started again.

    batch_service.py PLACE RUN BATCH [HOSTS]

HOSTS are reached by ssh; without any the nodes are virtual. A number in PLACE/more adds so many nodes.
"""

import asyncio
import sys
from pathlib import Path

from serving import serve

from pliant.cli.hosts import HostOptions, hosts_of
from pliant.core.settings import Settings
from pliant.drivers import Driver
from pliant.drivers.fork import ForkedNodes
from pliant.drivers.tree import TreeNodes
from pliant.files.batch import read_batch_file
from pliant.live.cluster import orders as o
from pliant.policy.malleable import Malleable

GRACE = 60.0
SETTINGS = Settings(cooldown_s=0.5)


def driver_of(place: Path, run: str, hosts: str) -> Driver:
    """It begins in place of an earlier one if there was one."""
    if not hosts:
        return ForkedNodes(1, run, place / "run", grace=GRACE)
    named = hosts_of(None, HostOptions(hosts), interface="", degree="3")
    assert named is not None
    return TreeNodes(named[0], 1, run, place / "run", grace=GRACE)


async def main(place: Path, run: str, file: Path, hosts: str = "") -> None:
    batch, driver = read_batch_file(file), driver_of(place, run, hosts)
    count, jobs = batch.cluster.nodes, batch.jobs
    await serve(place, driver, Malleable(), SETTINGS, nodes=count, jobs=jobs, orders={"more": o.Ask})


if __name__ == "__main__":
    place, run, file, *hosts = sys.argv[1:]
    asyncio.run(main(Path(place), run, Path(file), *hosts))

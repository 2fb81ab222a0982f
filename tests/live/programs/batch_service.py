"""A controller of a batch that may be killed and started again: it goes on from its journal if there is one.

    batch_service.py PLACE RUN BATCH [HOSTS]

HOSTS are reached by ssh; without any the nodes are virtual. A number in PLACE/more adds so many nodes.
"""

import asyncio
import sys
from pathlib import Path

from pliant.cli.hosts import hosts_of
from pliant.core import records as r
from pliant.core.journal import Header, header_line, read
from pliant.core.settings import Settings
from pliant.daemon.controller import Controller
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
    named = hosts_of(None, hosts, ssh_options=(), interface="", degree="3")
    assert named is not None
    return TreeNodes(named, 1, run, place / "run", grace=GRACE)


async def main(place: Path, run: str, file: Path, hosts: str = "") -> None:
    path = place / "out" / "records.ndjson"
    batch = read_batch_file(file)
    records = None
    if path.exists():
        whole = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        path.write_bytes(b"".join(whole))
        records = read(whole).records
    else:
        header = Header(began="2026-01-01T00:00:00Z", policy="malleable", settings=SETTINGS)
        path.write_bytes(header_line(header))
    controller = Controller(
        Malleable(), SETTINGS, driver_of(place, run, hosts), batch.cluster.nodes,
        output=place / "out", records=records,
    )  # fmt: skip
    with path.open("ab", buffering=0) as journal:

        def keep(record: r.Record) -> None:
            journal.write(r.to_line(record))

        controller.sinks.append(keep)
        orders = asyncio.ensure_future(follow(controller, place / "more"))
        try:
            await controller.start()
            await controller.run(() if records is not None else batch.jobs)
        finally:
            orders.cancel()
            await controller.stop()


async def follow(controller: Controller, path: Path) -> None:
    while True:
        if path.exists():  # noqa: ASYNC240 - a matter of microseconds
            controller.tell(o.Ask(int(path.read_text())))  # noqa: ASYNC240 - as above
            path.unlink()  # noqa: ASYNC240 - as above
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    place, run, file, *hosts = sys.argv[1:]
    asyncio.run(main(Path(place), run, Path(file), *hosts))

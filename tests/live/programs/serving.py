"""A controller that may be killed and started again: the next one goes on from the journal, and is given no jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from pliant.core import records as r
from pliant.core.journal import Header, header_line, read
from pliant.core.settings import Settings
from pliant.daemon.controller import Controller
from pliant.drivers import Driver
from pliant.live.cluster import orders as o
from pliant.model.jobs import JobSpec
from pliant.policy.view import Policy


async def serve(
    place: Path,
    driver: Driver,
    policy: Policy,
    settings: Settings,
    *,
    nodes: int,
    jobs: tuple[JobSpec, ...],
    orders: Mapping[str, Callable[[int], o.AnyInput]],
) -> None:
    """Run the jobs to their end, with the output and the journal in PLACE/out. A number in a file PLACE/NAME is the order
    of that name in ``orders``, and the file is gone then."""
    path = place / "out" / "records.ndjson"
    records = None
    if path.exists():
        whole = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        path.write_bytes(b"".join(whole))
        records = read(whole).records
    else:
        began = "2026-01-01T00:00:00Z"
        path.write_bytes(header_line(Header(began=began, policy=policy.name, settings=settings)))
    controller = Controller(policy, settings, driver, nodes, output=place / "out", records=records)
    with path.open("ab", buffering=0) as journal:

        def keep(record: r.Record) -> None:
            journal.write(r.to_line(record))

        controller.sinks.append(keep)
        following = asyncio.ensure_future(_follow(controller, place, orders))
        try:
            await controller.start()
            await controller.run(() if records is not None else jobs)
        finally:
            following.cancel()
            await controller.stop()


async def _follow(
    controller: Controller, place: Path, orders: Mapping[str, Callable[[int], o.AnyInput]]
) -> None:
    while True:
        for name, order in orders.items():
            if number := _taken(place / name):
                controller.tell(order(number))
        await asyncio.sleep(0.05)


def _taken(path: Path) -> int:
    """The number in the file, which is gone then; 0 if there is none."""
    if not path.exists():
        return 0
    number = int(path.read_text() or 0)
    path.unlink()
    return number

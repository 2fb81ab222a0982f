"""A fleet over a real driver, without a scheduler: what it tells, to be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

from harness import PATIENCE_S

from pliant.drivers import Driver, carry_out
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Fleet, Site
from pliant.model.errors import PliantError
from pliant.protocol import codec
from pliant.protocol import messages as m

Event = TypeVar("Event", bound=o.Input)


def named(event: o.Input) -> tuple[str, ...]:
    if isinstance(event, o.Granted | o.Returned):
        return event.names
    return (str(getattr(event, "node", "")),)


class Nodes:
    """``events`` are those that tell of nodes, ``said`` what agents have told."""

    def __init__(self, driver: Driver, site: Site | None = None) -> None:
        self.driver = driver
        self.fleet = Fleet(site or driver.site)
        self.events: list[o.Input] = []
        self.said: list[tuple[str, m.AgentMessage]] = []
        self.notices: list[str] = []
        self._news = asyncio.Event()
        self._why = ""
        self._timers: list[asyncio.TimerHandle] = []
        self._decoder = codec.from_agent()

    async def begin(self, count: int) -> None:
        """PliantError if these nodes cannot be had."""
        await self.driver.open(self.take)
        self.take(o.Begin(count))
        await self.wait_for(o.Granted)

    async def take_up(self, there: Iterable[str], lost: Iterable[str] = ()) -> None:
        """Go on with what another controller had."""
        await self.driver.open(self.take)
        self.fleet.resume(there, lost)
        self.go_on()

    async def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        await self.driver.close()

    def take(self, given: o.Input) -> None:
        self.fleet.now = asyncio.get_running_loop().time()
        self.fleet.take(given)  # type: ignore[arg-type]
        self.go_on()

    def go_on(self) -> None:
        """Do what the fleet wants, and note what it tells; all that is told counts as written."""
        fleet, loop = self.fleet, asyncio.get_running_loop()
        fleet.now = loop.time()
        fleet.acknowledge(written=True)
        outputs, fleet.outputs = fleet.outputs, []
        for output in outputs:
            if carry_out(self.driver, output):
                continue
            match output:
                case o.SetTimer():
                    self._timers.append(loop.call_at(output.at, self.take, o.Fired(output.key)))
                case o.CannotBegin():
                    self._why = output.why
                case o.Notice():
                    self.notices.append(output.text)
        events, fleet.events = fleet.events, []
        for event in events:
            if isinstance(event, o.Said):
                self.said.append((event.node, self._decoder.decode(event.message)))
            else:
                self.events.append(event)
        if events or outputs:
            self._news.set()

    async def wait_for(self, kind: type[Event], name: str = "") -> Event:
        """The first that is told of this kind, and of this node."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if self._why:
                    raise PliantError(self._why)
                for event in self.events:
                    if isinstance(event, kind) and (not name or name in named(event)):
                        return event
                await self.news()

    async def news(self) -> None:
        """Until something has been told."""
        self._news.clear()
        await self._news.wait()

    async def answers(self, node: str, job: int) -> None:
        """Its agent proves that nothing of a job is there."""
        self.fleet.send([node], m.Prove(job))
        self.go_on()
        async with asyncio.timeout(40):
            while not any(
                name == node and isinstance(said, m.Proof) and said.job == job for name, said in self.said
            ):
                await self.news()

"""The controller of the world: its machine with its journal, its timers and its driver."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from pliant.core import records as r
from pliant.core.journal import Header, header_line, read
from pliant.core.settings import Settings
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import Cluster, RunContext
from pliant.live.control import Control
from pliant.policy.view import Policy
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.clock import Timer
from pliant_lab.injection.roster import Roster
from pliant_lab.injection.standins.driver import Driver, Link


class Disk:
    """What has been written for good; ``full`` ones take nothing more."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.full = False
        self._waiting = bytearray()

    def write(self, line: bytes) -> None:
        self._waiting += line
        self.flush()

    def tear(self, part: bytes) -> None:
        """Write a part of a line, if there is room: none waits in memory, as the process is gone."""
        if not self.full:
            self.data += part

    def flush(self) -> None:
        if not self.full:
            self.data += self._waiting
            self._waiting.clear()

    @property
    def problem(self) -> bool:
        return bool(self._waiting)

    def waiting(self) -> list[r.Record]:
        """What has not been written yet."""
        return [r.from_line(line) for line in bytes(self._waiting).splitlines()]

    def lose(self) -> None:
        """What waits in memory goes with the process."""
        self._waiting.clear()


class _Lost(msgspec.Struct):
    group: int


class _Seen(Cluster):
    """What the jobs' machine was told last, and what it wants, for those who look at it."""

    told: list[o.AnyInput]
    wanted: list[o.Output]

    def handle(self, inputs: Iterable[o.AnyInput], now: float) -> tuple[list[r.Record], list[o.Output]]:
        self.told = list(inputs)
        records, self.wanted = super().handle(self.told, now)
        return records, self.wanted


class Head:
    """The controller's process, while it lives: ``crash`` ends it, and another one can begin with the same disk."""

    def __init__(self, roster: Roster, policy: Policy, disk: Disk, settings: Settings | None) -> None:
        """Without ``settings`` it goes on with what the disk has."""
        self._outside = roster.outside
        self.disk = disk
        self.alive = True
        self.told_lost: set[tuple[int, int]] = set()
        """The newcomers, by job and group, of whose loss a job has been told."""
        self.told_losses: set[tuple[int, int, int]] = set()
        """The same of all groups, with the one that was told."""
        self.tearing = False
        """The process is killed while it writes what it makes next."""
        self._timers: dict[o.Key, Timer] = {}
        self._inputs: list[o.AnyInput] = []
        self._due = False
        self._held = False
        self._sent: set[tuple[tuple[str, ...], int]] = set()
        self._taken: dict[str, int] = {}
        """By node, up to which message its agent was last told that all is taken."""
        context = RunContext("/out", "/home", {}, b"secret")
        if settings is None:
            journal = read(bytes(disk.data).splitlines(keepends=True))
            if journal.torn:
                del disk.data[disk.data.rindex(b"\n") + 1 :]
            self.cluster = _Seen(policy, journal.header.settings, context, journal.records)
            self.tell(o.Resumed("its controller was killed, and its ranks with it"))
        else:
            self.cluster = _Seen(policy, settings, context)
            following = self.cluster.core.state.settings
            disk.write(
                header_line(Header(began="1970-01-01T00:00:00Z", policy=policy.name, settings=following))
            )

        self.control = Control(self.cluster, roster.site)
        self.driver = Driver(roster, self.tell)

    @property
    def links(self) -> dict[str, Link]:
        """The links that there are, by the names of their nodes."""
        return self.driver.links

    def reaches(self, node: int) -> bool:
        """Whether there is a link to the node of this number."""
        return self.driver.reaches(self.cluster.core.state.nodes.names[node])

    # ---- life ----------------------------------------------------------------------------------------

    def crash(self) -> None:
        """SIGKILL: nothing more is done here, and the links end."""
        self.alive = False
        self.disk.lose()
        for timer in self._timers.values():
            timer.cancel()
        self.driver.crash()

    def tell(self, given: o.AnyInput) -> None:
        if not self.alive:
            return
        self._inputs.append(given)
        self._handle_soon()

    def _handle_soon(self) -> None:
        if not self._due:
            self._due = True
            self._outside.clock.later(0.0, self._handle)

    def _handle(self) -> None:
        self._due = False
        if not self.alive:
            return
        inputs, self._inputs = self._inputs, []
        outside, held = self._outside, self.disk.problem
        records, outputs = self.control.handle(inputs, outside.clock.now)
        lines = [r.to_line(record) for record in records]
        if self.tearing:
            # The process ends in the midst of writing, before anything is done.
            data = b"".join(lines)
            self.disk.tear(data[: outside.random.randint(0, len(data))])
            outside.witness.torn()
            return
        for line in lines:
            self.disk.write(line)
        self._heed_disk()
        outside.witness.recorded(records)
        self._note_losses(self.cluster.wanted)
        outside.witness.handled(self.cluster.told, records, self.cluster.wanted)
        for output in outputs:
            self._carry_out(output)
        self._acknowledged(outputs, held=held)
        if self.control.pending:
            self._handle_soon()
        outside.witness.checked()

    def _heed_disk(self) -> None:
        if self.disk.problem != self._held:
            self._held = self.disk.problem
            self.tell(o.Hold("journal", "the disk is full") if self._held else o.Release("journal"))

    def disk_changed(self) -> None:
        self.disk.flush()
        self._heed_disk()

    def _carry_out(self, output: o.Output) -> None:
        match output:
            case o.Send():
                self._send(output)
            case o.SetTimer():
                if (earlier := self._timers.pop(output.key, None)) is not None:
                    earlier.cancel()
                key = output.key
                self._timers[key] = self._outside.clock.at(
                    self._outside.about(output.at), lambda: self._fired(key)
                )
            case o.StartAgents():
                self.driver.start(output.nodes)
            case o.Clear():
                self.driver.clear(output.node)
            case o.ReadTail() if output.job % 8:  # now and then the file system does not answer
                self.tell(o.Tail(output.job, "the last words of the job"))
            case _:
                pass

    def _send(self, order: o.Send) -> None:
        is_new = not order.id or (order.nodes, order.id) not in self._sent
        self._sent.add((order.nodes, order.id))
        starts = isinstance(order.message, m.StartGroup)
        if is_new:
            self._outside.witness.sends(order.message, order.nodes[0], self.disk.waiting())
        for name in order.nodes:
            self._post(name, order)
            if starts and is_new:
                self._outside.repeat(partial(self._send_again, self.links.get(name), order))

    def _acknowledged(self, outputs: Iterable[o.Output], *, held: bool) -> None:
        """While records wait for the disk, no agent is told that it may forget more than it might before."""
        for output in outputs:
            if isinstance(output, o.Send) and isinstance(output.message, m.Ack):
                name, number = output.nodes[0], output.message.number
                if held and number > self._taken.get(name, 0):
                    raise Violation(
                        "lost", f"{name} may forget message {number}, and no record tells of it yet"
                    )
                self._taken[name] = number

    def _note_losses(self, outputs: Iterable[o.Output]) -> None:
        for output in outputs:
            order = output.message if isinstance(output, o.Send) else None
            if isinstance(order, m.Deliver) and b'"grouplost"' in bytes(order.message):
                lost = order.job, msgspec.json.decode(order.message, type=_Lost).group
                self.told_lost.add(lost)
                self.told_losses.add((*lost, order.group))

    def _send_again(self, link: Link | None, order: o.Send) -> None:
        """Over the link that it was sent by, if that stands."""
        if link is not None and self.links.get(link.node.name) is link:
            self._post(link.node.name, order)

    def _post(self, name: str, order: o.Send) -> None:
        self.driver.send(name, m.To((name,), codec.raw(order.message), order.id, order.after))

    def _fired(self, key: o.Key) -> None:
        self._timers.pop(key, None)
        self.tell(o.Fired(key))

    @property
    def pending(self) -> bool:
        """Whether something has come that the machine has not been told."""
        return bool(self._inputs)

    @property
    def timers(self) -> set[o.Key]:
        return set(self._timers)

"""How the stand-in for a rank of a malleable program takes newcomers in, or gives them up:
``mpi/resizing/admission.py`` in a world. Merge is where the death of a newcomer takes the job with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pliant.job.errors import Stalled
from pliant.protocol import messages as m
from pliant_lab.injection.standins.fabric import Call, Fabric, Seat
from pliant_lab.injection.standins.running import ROUNDING_S, Host, Running, Script, T

ADMIT_S = 5.0
"""How long Accept waits for newcomers."""
PATIENCE = 2 / 3
"""Of the deadline of the others: how long rank 0 waits for newcomers."""
MERGING = "merging with the job"


def _never() -> bool:
    return False


class Undone(Exception):  # noqa: N818 - the job goes on as it was
    """The newcomers of a resize are given up."""


class Admitting(Running):
    """A part of it. ``joining`` are the newcomers that the root is about to take in, ``lost`` is why one is gone."""

    def __init__(self, host: Host, fabric: Fabric) -> None:
        super().__init__(host, fabric)
        self.epoch = int(host.env["PLIANT_EPOCH"])
        self.joining: tuple[int, ...] = ()
        self.lost = ""
        self._leaves: Callable[[], bool] = _never
        self._share = 1.0

    def _all(self, seat: Seat, value: object, what: str, excuse: str = "") -> Script[dict[int, Any]]:
        """What every rank gives, by rank."""
        values: dict[int, Any] = yield from self.complete(seat.call(value), what, excuse=excuse)
        return values

    def _told(self, seat: Seat, root: int, value: Any, what: str, excuse: str = "") -> Script[Any]:
        """What ``root`` gives."""
        values = yield from self.complete(seat.call(value, root), what, excuse=excuse)
        return values[root]

    def _met(self, own: Seat, port: str, what: str, *, accepts: bool) -> Script[Seat]:
        """Accept or Connect, without a time."""
        side = self.fabric.meet(own, self, port, accepts=accepts)
        yield from self.wait(lambda: side.joint is not None, what, polls=False, watchdog=True)
        if side.joint is None:
            raise RuntimeError("a meeting ended without a communicator")
        return Seat(side.joint, own.rank + side.offset)

    def _merge(self, joint: Seat) -> Script[None]:
        """Those who are in Merge when one of them dies do not get out."""
        yield from self.complete(joint.call(), MERGING, polls=False, watchdog=True)

    def _admit(self, own: Seat, key: str) -> Script[Seat]:
        """Accept the newcomers, as mpi/resizing/admission.py does: rank 0 has so long for that, and the others
        learn from it."""
        port, until = "", self.host.now + min(ADMIT_S, self.limit_s / 3)
        if own.rank == 0 and self.session is not None:
            port = self.fabric.open_port()
            self.session.send(m.Put(self.epoch + 1, key, port))
            self.host.later(until - self.host.now, self._look)
        side = self.fabric.meet(own, self, port, accepts=True)
        if own.rank == 0:
            ended = lambda: side.joint is not None or self.host.now >= until - ROUNDING_S  # noqa: E731
            yield from self.wait(ended, f"accepting at {key}", polls=False, watchdog=True)
        here = own.call(side.joint is not None, 0)
        yield from self.complete(here, f"accepting at {key}", polls=False, watchdog=True)
        self.fabric.leave(own, side)
        if not here.values[0] or side.joint is None:
            raise Undone("the newcomers could not be connected")
        return Seat(side.joint, own.rank + side.offset)

    def _agreed(self, own: Seat, block: Script[T]) -> Script[T]:
        """The sources do the block together or not at all: rank 0 says when it is over, and whether it counts. It has
        less patience than the others, who wait for its word."""
        word: Call | None = None
        if own.rank == 0:
            self._leaves, self._share = lambda: self.lost != "", PATIENCE
        else:
            word = heard = own.call(None, 0)
            word.waiting.append(self)
            self._leaves = lambda: heard.done and not heard.values[0]
        try:
            result = yield from block
            if self._leaves():
                raise Undone(self.lost)
        except (Undone, Stalled) as error:
            if own.rank == 0:
                own.call(False, 0)
                raise Undone(str(error)) from error
            raise
        finally:
            self._leaves, self._share = _never, 1.0
        if word is None:
            own.call(True, 0)
        else:
            yield from self.complete(word, "the root's word")
            if not word.values[0]:
                raise Undone
        return result

    def wait(  # noqa: PLR0913 - as it is everywhere
        self,
        done: Callable[[], bool],
        what: str,
        *,
        excuse: str = "",
        polls: bool = True,
        watchdog: bool = False,
        times: float = 1,
    ) -> Script[None]:
        """In a block that sources do together it is left by Undone."""
        leaves = self._leaves
        yield from super().wait(
            lambda: done() or leaves(),
            what,
            excuse=excuse,
            polls=polls,
            watchdog=watchdog,
            times=times * self._share,
        )
        if leaves() and not done():
            raise Undone(self.lost)

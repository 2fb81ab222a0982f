"""After a resize all ranks compare what they see, once: newcomers know of no variable that the loop has changed.

A look at the loop's frame before the first step, the order in which that step uses the arrays, and one exchange of
both before the next step. What follows from it is decided by ``pliant.job.watching``, alike on all ranks.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from pliant.job import environment
from pliant.job.decisions import NEVER
from pliant.job.watching.findings import Parts, Seen, errors, warnings
from pliant.model.errors import PliantError
from pliant.mpi.context import Context
from pliant.mpi.data.arrays import Array
from pliant.mpi.data.rows import Rows
from pliant.mpi.errors import REMEDY
from pliant.mpi.looking import look, looping
from pliant.mpi.resizer import say
from pliant.mpi.team import gather_all
from pliant.protocol.messages import Note


class Watch:
    """Of one loop; ``due`` is the step before which :meth:`turn` is to be called, NEVER if nothing is to be
    compared."""

    def __init__(self, context: Context) -> None:
        self.due = NEVER
        self._context = context
        self._joined = False
        self._gone: Seen | None = None
        self._seen: Seen | None = None
        self._named: frozenset[str] = frozenset()

    def before(self) -> Seen | None:
        """What rank 0 hands down in a resize, in case that nobody stays; None on other ranks."""
        context = self._context
        return (
            self._look(joined=False) if context.watches and context.joined("the job").own.rank == 0 else None
        )

    def begin(self, step: int, *, joined: bool, gone: Seen | None = None) -> None:
        """The job has been resized before ``step``. On a rank that has ``joined`` it comes with what rank 0 of before
        has handed down."""
        if self._context.watches:
            self.due, self._joined, self._gone, self._seen = step, joined, gone, None

    def turn(self) -> None:
        """The first step after a resize begins, or the one behind that: all ranks compare then, for as long as one of
        them is in user code. PliantError on all of them if they use other arrays than newcomers."""
        if self._seen is None:
            self._seen = self._look(joined=self._joined)
            self._context.uses.begin()
            self.due += 1
        else:
            after = {name: held.digest for name, held in self._look(joined=self._joined).held.items()}
            self._seen = self._seen._replace(after=after)
            self.end()

    def end(self) -> None:
        """As turn, where no step follows; nothing if there is nothing to compare."""
        if self.due == NEVER:
            return
        seen = self._seen or Seen(self._joined, {})  # a newcomer may leave before its first step
        self.due, self._seen = NEVER, None
        own, mine = self._context.joined("the job").own, seen._replace(used=self._context.uses.end())
        if self._alike(own, mine):
            return
        every = gather_all(
            own, mine, self._context.wait, "what all ranks see after the resize", limited=False
        )
        parts = Parts.of(every, self._gone)
        arrays = self._context.arrays.items()
        kinds = {name: each.describe()[1:] for name, each in arrays if isinstance(each, Array | Rows)}
        if wrong := errors(parts, kinds):
            raise PliantError(f"after the resize {'; '.join(wrong)}: {REMEDY}")
        found = warnings(parts)
        self._named = parts.named.union(found)
        if found and environment.verifies():
            raise PliantError(f"PLIANT_VERIFY: after the resize {'; '.join(found.values())}")
        if found and own.rank == 0:
            for each in found.values():
                self._say(f"after the resize {each}")

    def _say(self, text: str) -> None:
        """In the job's log, and in the scheduler's report."""
        say(text)
        context = self._context
        if context.speaks and context.connection is not None:
            context.connection.send(Note(context.epoch, text))

    def _alike(self, own: MPI.Intracomm, mine: Seen) -> bool:
        """Whether all ranks see the same: then there is nothing to find."""
        there = mine.held if self._gone is None else self._gone.held
        words, every = np.array([mine.digest, mine.held != there], "u8"), np.empty((own.size, 2), "u8")
        request = own.Iallgather(words, every)
        self._context.wait.request(request, "what all ranks see after the resize", limited=False)
        return bool((every == [words[0], 0]).all())

    def _look(self, *, joined: bool) -> Seen:
        frame = looping()
        held = {} if frame is None else look(frame, self._context.arrays)
        return Seen(joined, held, named=self._named)

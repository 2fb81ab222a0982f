"""The public face of a malleable program: ``with malleable(...) as job``."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from mpi4py import MPI
from numpy.typing import DTypeLike

from pliant.job import environment
from pliant.job.decisions import Action
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.model.speedup import Model
from pliant.mpi import dmr
from pliant.mpi.arguments import RequestedSizes, seconds, whole
from pliant.mpi.cart import Cart
from pliant.mpi.context import MAX_NODES, Context, Value
from pliant.mpi.data.arrays import Array, rotate
from pliant.mpi.data.movable import Movable
from pliant.mpi.data.rows import Rows
from pliant.mpi.entry import enter, say_through
from pliant.mpi.errors import Released
from pliant.mpi.inhibitor import period
from pliant.mpi.looking import looping, prepare
from pliant.mpi.loop import ENDLESS, Loop, agree
from pliant.mpi.snapshot import LoopPlace
from pliant.mpi.team import barrier
from pliant.plan.data.grids import Grid
from pliant.plan.data.layouts import Block, Contiguous, Layout
from pliant.plan.data.mapping import Mapping
from pliant.protocol.messages import Bye, Error

RESULT_BYTES = 1 << 16
"""The longest result, and the longest part of a traceback, that is sent."""

ONE_BLOCK = (
    "a program has one `with mpi.malleable()` block, and this one has had it: the scheduler takes the end of the block "
    "for the end of the job; put all loops into one block"
)
NESTED = (
    "a steps() loop is still open: end it before the next begins, by break if need be, and keep no reference to what "
    "steps() returned"
)
MIXED = "a program has a steps() loop or one of its own with job.check(), not both"
Hook = Callable[[], object]
During = Callable[[Mapping, MPI.Intracomm], object]
_blocks: list[Bounds] = []
"""The block that this process has had."""


class Job:
    """A rank's view of its job; made by :func:`malleable`.

    On a newcomer ``comm``, ``rank``, ``size`` and ``nodes`` raise NotJoined until its ``steps()`` loop begins, or
    by ``join()`` or its first ``check()``.
    On a rank that has been released everything raises Released.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loop: Loop | None = None
        self._loops = 0
        self._own: dmr.Own | None = None
        self._entered = False

    # ---- who and where ------------------------------------------------------------------------------

    @property
    def comm(self) -> MPI.Intracomm:
        """All ranks of the job. It changes at a resize: use it at once, never keep it."""
        return self._context.joined("job.comm").comm

    @property
    def rank(self) -> int:
        """This rank's number in ``comm``. Raises NotJoined before a newcomer has joined, and Released after its end."""
        return self._context.joined("job.rank").own.rank

    @property
    def size(self) -> int:
        """Ranks of the job."""
        return self._context.joined("job.size").own.size

    @property
    def nodes(self) -> int:
        """Nodes of the job; 1 where no agent started it."""
        return self._context.joined("job.nodes").nodes

    @property
    def joined(self) -> bool:
        """Whether this rank takes part in the job now. False on a newcomer before the loop that the job is in, and on a
        rank that has been released: what stands between two loops and uses the job is for those where it is True."""
        return self._context.team is not None and self._context.catching_up is None

    @property
    def cart(self) -> Cart:
        """The ranks in the grid of the program's arrays, as a Cartesian communicator with those of rows and columns:
        see :class:`mpi.Cart`. It changes at a resize: take it in each step, never keep it.

        Collective at its first use after a resize. Raises PliantError unless the arrays with an ``mpi.Grid`` layout
        have the same grid of ranks: take that of one of them, ``array.cart``.
        """
        self._context.joined("job.cart")
        grids = [
            each
            for each in self._context.arrays.values()
            if isinstance(each, Array) and isinstance(each.layout, Grid)
        ]
        if len({each.grid for each in grids}) != 1:
            names = ", ".join(repr(each.name) for each in grids) or "none"
            raise PliantError(
                f"job.cart needs arrays with one common mpi.Grid; this job has {names}: use array.cart of one of them"
            )
        return grids[0].cart

    @property
    def fresh(self) -> bool:
        """Whether this rank was there from the start and has to set the data up. False on a newcomer."""
        if self._context.released:
            raise Released
        return self._context.fresh

    # ---- data ---------------------------------------------------------------------------------------

    def array(
        self,
        name: str,
        shape: tuple[int, ...] | int,
        dtype: DTypeLike = "f8",
        layout: Layout = Block(),  # noqa: B008 - immutable
        *,
        constant: bool = False,
    ) -> Array:
        """Register an array that is spread over all ranks, zero at first, and redistributed at every resize.

        All ranks register the same arrays in the same order before the loop. A rank that is one of more than the
        array has rows may own none. ``constant``: the program does not change it in its loop. Raises ValueError if the
        layout does not cover the array, and PliantError if the name is taken.
        """
        self._free(name, f"an array of shape {shape}")
        array = Array(name, shape, dtype, layout, self._context.seat(), constant=constant)
        self._register(array)
        return array

    def csr(  # noqa: PLR0913 - what a matrix is
        self,
        name: str,
        shape: tuple[int, int],
        dtype: DTypeLike = "f8",
        layout: Contiguous = Block(),  # noqa: B008 - immutable
        *,
        index: DTypeLike = "i8",
        constant: bool = False,
    ) -> Rows:
        """Register a sparse matrix in CSR form that is spread over all ranks by rows, as :meth:`array`; without
        elements until each rank has put its rows there. ``index`` is the dtype of its columns."""
        self._free(name, f"a matrix of shape {shape}")
        rows = Rows(name, shape, dtype, index, layout, self._context.seat(), constant=constant)
        self._register(rows)
        return rows

    def register(self, movable: Movable) -> None:
        """Register something of the program's own that follows the ranks: what it does is said by ``mpi.Movable``."""
        if not isinstance(movable, Movable):
            raise TypeError(f"job.register: {movable!r} is no mpi.Movable: make its class from that")
        self._free(getattr(movable, "name", None), "something of the program's own")
        self._register(movable)

    def _free(self, name: Any, what: str) -> None:
        self._context.register(name, what, looping=self._looping)

    @property
    def _looping(self) -> bool:
        return self._loop is not None or self._own is not None

    def _register(self, movable: Movable) -> None:
        arrays = self._context.arrays
        arrays[movable.name] = movable
        if self._context.team is not None:
            try:
                movable.begin()
            except Exception:
                del arrays[movable.name]
                raise

    def swap(self, *arrays: Array) -> None:
        """``job.swap(a, b)`` in place of ``a, b = b, a``, and ``job.swap(a, b, c)`` in place of ``a, b, c = b, c, a``.

        The variables keep their arrays, and the arrays change their data: so a newcomer, whose variables are those of
        before the loop, has the same. All ranks call it alike; nothing is copied or sent. Take ``local`` and ``owned``
        anew afterwards: a view of before is one of the other array now. ValueError if the arrays are not alike in
        shape, dtype and layout, or one is constant; TypeError for what is no array of this job.
        """
        self._context.joined("job.swap")
        for each in arrays:
            if not isinstance(each, Array) or self._context.arrays.get(each.name) is not each:
                raise TypeError(f"job.swap: {each!r:.60} was not made by job.array of this job")
        rotate(arrays)

    def before_resize(self, hook: Hook) -> Hook:
        """``hook()`` is called on all ranks of the job when they have stopped for a resize, before anything moves."""
        _check_callable(hook, "before_resize")
        self._context.before.append(hook)
        return hook

    def during_resize(self, hook: During) -> During:
        """``hook(mapping, comm)`` is called on all ranks of a resize, those that leave and newcomers too, behind the
        redistribution and before anybody goes: ``mapping.receivers`` and ``mapping.senders`` are the ranks of ``comm``
        with which this one exchanges what it moves by itself, see :class:`mpi.Mapping`. ``comm`` is for the hook alone.
        What it raises on any rank undoes the resize, so keep what was there before until ``after_resize``. It may take
        two thirds of PLIANT_DEADLINE, and a rank that waits for one that raised is stuck until then. All ranks name as
        many such functions, before the loop."""
        self._context.before_loop("a function of job.during_resize", looping=self._looping)
        _check_callable(hook, "during_resize")
        self._context.during.append(hook)
        return hook

    def after_resize(self, hook: Hook) -> Hook:
        """``hook()`` is called on all ranks of the job after a resize, on those that have joined too, but not on those
        that left; and after one that failed, in the job as it was. Its first step after that follows."""
        _check_callable(hook, "after_resize")
        self._context.after.append(hook)
        return hook

    def value(self, name: str, initial: Any = None) -> Value:
        """Register a value that all ranks hold alike, in ``.value``; a newcomer gets the job's current one.

        TypeError, here and when ``.value`` is assigned, for what cannot be pickled.
        """
        self._free(name, "a value")
        value = self._context.values[name] = Value(name, initial, self._context)
        return value

    def result(self, text: str) -> None:
        """Set what the job reports as its result when it ends; rank 0's counts.

        TypeError unless it is a str, ValueError if it is longer than 64 KiB or no valid text.
        """
        self._context.joined("job.result")
        if not isinstance(text, str):
            raise TypeError(f"a result is a text; str() of this {type(text).__name__} would be one")
        if len(text.encode()) > RESULT_BYTES:
            raise ValueError(
                f"a result may have {RESULT_BYTES} bytes; write more to a file and report its name"
            )
        self._context.result = text

    # ---- the loop -----------------------------------------------------------------------------------

    def steps(self, n: int | None = None, *, pace: bool | Model = False) -> Iterator[int]:
        """Steps 0 .. n - 1, or from the job's current step on a newcomer; the job may be resized at each. Without ``n``
        the steps have no end: all ranks break in the same one, by what they have agreed on.

        A block may have several loops, one after the other. A newcomer joins in the loop that the job is in: the loops
        before that have no steps there, and ``job.joined`` is False between them.

        With ``pace`` a step takes at least ``model.time(nodes) / n`` seconds, by the job's model or by one that
        is given. Raises Released on a rank whose node is given back, and PliantError within another loop.
        """
        self._may_begin(n, paced=bool(pace))
        context, number = self._context, self._loops
        self._loops += 1
        before, arrives = self._loop, context.team is None
        if before is not None and context.catching_up is None:
            before.settle()
        begin = context.resizer.arrive() if arrives else context.catching_up
        if begin is not None and begin.loop.number > number:
            if arrives:
                context.begin_catching_up(begin)
            return iter(())
        context.end_catching_up()
        if context.watches and context.resizer.resizes:
            prepare(looping())
        model = context.model if pace is True else pace or None
        if pace is True and model is None:
            raise PliantError(
                "steps(pace=True) needs the job's speed-up model: state one at submission, "
                "or pass steps(pace=pliant.Amdahl(work_s, serial_fraction))"
            )
        if begin is None and before is None:
            agree(context)
        first = 0 if before is None else before.behind
        self._loop = Loop(
            context, LoopPlace(number, first, first + (ENDLESS if n is None else n)), model, begin
        )
        if arrives:
            context.go_on()
        return self._loop.run()

    def _may_begin(self, n: int | None, *, paced: bool) -> None:
        """Whether a loop of so many steps can begin here."""
        if self._context.released:
            raise Released
        if n is not None and whole("job.steps", "n", n) < 0:
            raise ValueError(f"steps({n}): the number of steps must be 0 or more")
        if n is None and paced:
            raise ValueError("steps(pace=...) needs the number of steps: a step takes its part of the whole")
        if self._own is not None:
            raise PliantError(MIXED)
        if self._loop is not None and not self._loop.over:
            raise PliantError(NESTED)

    def request(self, *, min: int = 0, max: int = 0, keep: bool = False) -> None:  # noqa: A002 - the protocol's words
        """Ask the scheduler for at least ``min`` and at most ``max`` nodes (0: what the job allows), from within the
        ``steps()`` loop; all ranks call it alike, and what rank 0 asks for counts: nobody compares.

        What is granted comes as any other resize, between two steps; where no agent is, nothing follows. The job goes
        to the allowed size within these bounds that is nearest to the present one: Iserte et al. 2018, section 4.1.
        Where that cannot be had now, nothing follows either, unless the wish is to ``keep``: then it stays open, and is
        granted from nodes that are free while no job waits, until the job has such a size, by whatever resize, or the
        loop is over. A later call takes the place of one that is open, and without bounds it takes it back. A resize
        ends a wish that was not sent yet, but none to keep. Raises ValueError for bounds that hold no allowed size, and
        PliantError outside the loop.
        """
        context = self._context
        context.joined("job.request")
        if self._loop is None or self._loop.over:
            raise PliantError(
                "job.request() asks for other nodes from within the steps() loop: call it there"
            )
        allowed = context.bounds if context.agreed is None else context.agreed
        wish = RequestedSizes.of("job.request", min, max).within(allowed, "job.request")
        self._loop.request(wish, keep=keep)

    # ---- a loop of the program's own ----------------------------------------------------------------

    def check(
        self,
        *,
        min: int = 0,  # noqa: A002 - the protocol's words
        max: int = 0,  # noqa: A002
        factor: int = 0,
        preferred: int = 0,
        timeout_s: float = dmr.TIMEOUT_S,
    ) -> Action:
        """Ask the scheduler what to do, at the head of each turn of a loop of the program's own; all ranks call it
        alike. Iserte et al. 2018, section 4.

        The bounds are in nodes (0: what the job allows). Waits for the answer for up to ``timeout_s`` seconds, and
        for an expansion until the newcomers are there: those that come later are called off. What is returned goes to
        :meth:`resize`, unless it is NO_ACTION, as it is at once where no agent is, and at a newcomer's first check.
        Raises ValueError for bounds that hold no allowed size, TypeError for what is no number, and PliantError on all
        ranks if they do not call it alike.
        """
        wish = RequestedSizes.of("job.check", min, max, factor, preferred)
        limit_s = seconds("job.check", "timeout_s", timeout_s)
        own = self._asking(wish, "job.check")
        return Action.NO_ACTION if own is None else own.check(wish, limit_s)

    def icheck(
        self,
        *,
        min: int = 0,  # noqa: A002 - the protocol's words
        max: int = 0,  # noqa: A002
        factor: int = 0,
        preferred: int = 0,
        timeout_s: float = dmr.TIMEOUT_S,
    ) -> Action:
        """As :meth:`check`, but ask and go on: what comes of it is returned by the next call of this or of
        :meth:`check`, or by a later one if it takes longer, an expansion when its newcomers are there. Nothing else is
        asked before that. At the first call it is NO_ACTION."""
        wish = RequestedSizes.of("job.icheck", min, max, factor, preferred)
        limit_s = seconds("job.icheck", "timeout_s", timeout_s)
        own = self._asking(wish, "job.icheck")
        return Action.NO_ACTION if own is None else own.icheck(wish, limit_s)

    @property
    def asked(self) -> bool:
        """Whether the last check was none that the inhibitor answered."""
        return self._own is None or self._own.asked

    def _asking(self, wish: RequestedSizes, call: str) -> dmr.Own | None:
        if self._own is not None and self._context.team is not None:
            return self._own
        if not self._context.resizer.asks:
            wish.within(self._context.bounds, call)
            self._alone()
            return None
        return self._loop_of_its_own()

    def resize(self, action: Action) -> Mapping:
        """Do what :meth:`check` returned; all ranks call it alike. What is registered moves; the returned mapping says
        which ranks exchange data that are not, among those that were there and stay. Raises Released on a rank that
        leaves, and PliantError if it is not what the last check said."""
        if not self._context.resizer.asks:
            self._alone()
            raise PliantError("job.resize: without an agent job.check() never returns an action")
        return self._loop_of_its_own().resize(action)

    def join(self) -> None:
        """Join the job, on a newcomer, before a loop of the program's own; nothing on other ranks."""
        self._alone()
        if self._context.team is None:
            self._loop_of_its_own()

    def _alone(self) -> None:
        if self._context.released:
            raise Released
        if self._loop is not None:
            raise PliantError(MIXED)
        if self._context.resizer.loops_alone:
            raise PliantError(
                "where no agent is only a steps() loop can be resized: use that, or unset PLIANT_RESIZE_AT"
            )

    def _loop_of_its_own(self) -> dmr.Own:
        self._alone()
        if self._own is None:
            self._own = dmr.Own(self._context)
        return self._own

    # ---- the block ----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._entered:
            raise PliantError(ONE_BLOCK)
        self._entered = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._context.released:
            self._leave()
        elif error is None or (isinstance(error, SystemExit) and error.code in {None, 0}):
            self._finish()
        else:
            self._fail(error)

    def _leave(self) -> None:
        """After a release: the communicators are gone already."""
        self._context.sleepers.release()
        connection = self._context.connection
        if connection is not None:
            # In the epoch this rank lived in: the one before the shrink.
            connection.send(Bye(self._context.epoch - 1))
        say_through(self._context.wait.limit_s)

    def _finish(self) -> None:
        context = self._context
        try:
            team = context.joined("the end of the block")
            if self._loop is not None:
                self._loop.settle()
            elif context.resizer.asks:
                dmr.settle(context) if self._own is None else self._own.settle()
        except PliantError as error:
            self._fail(error)  # a rank that takes its own for done would wait for this one
        # Rank 0 may write results while the others are here already: no limit.
        barrier(team.own, context.wait, "the end of the job", limited=False)
        context.sleepers.release()
        if context.connection is not None:
            context.connection.send(Bye(context.epoch, context.result if context.speaks else None))
        context.resizer.finish(team.own)
        team.leave(context.wait)
        if context.resizer.asks:
            say_through(context.wait.limit_s)

    def _fail(self, error: BaseException) -> None:
        context = self._context
        if context.resizer.is_spare and context.team is None and self._loop is None:
            # The job goes on without this newcomer, which an abort would end. Python says what has failed.
            return
        code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
        text = "".join(traceback.format_exception(error))
        sys.stdout.flush()
        sys.stderr.write(text)
        connection = context.connection
        if connection is not None and connection.session.side.state not in {"new", "closed"}:
            # The end of a traceback tells most; what cannot be sent must not keep the group from ending.
            with suppress(Exception):
                connection.send(Error(text=text[-RESULT_BYTES:].encode(errors="replace").decode()))
        context.resizer.abort("the program failed", code or 1)


def _check_callable(hook: object, where: str) -> None:
    if not callable(hook):
        raise TypeError(f"job.{where}: {hook!r} cannot be called; pass a function")


def malleable(  # noqa: PLR0913 - each has a default
    *,
    min: int = 1,  # noqa: A002 - the protocol's words
    max: int | None = None,  # noqa: A002
    factor: int = 1,
    preferred: int = 0,
    inhibit: float = 0.0,
    inhibit_steps: int = 0,
    watch: bool = True,
) -> Job:
    """Enter a job that may be resized between ``min`` and ``max`` nodes, by ``factor`` (1: to any size).

    ``preferred`` is the size it would rather have (0: ``min``); without ``max`` only the rows of its arrays
    limit it. What the submission allows is intersected with this. Without an agent the program runs at the size
    it was started with, alone or under mpiexec. ``watch``: after each resize the ranks compare their variables, and the
    order in which the first step uses arrays; what newcomers miss is named, and ends the job if it is an array.
    Raises ValueError for bounds that contradict each other, TypeError for what is no number, and PliantError in a
    program that has had a block: one after it or inside it is refused, with an agent and without; and for variables
    that cannot be read.
    """
    given = {"min": min, "max": MAX_NODES if max is None else max, "factor": factor, "preferred": preferred}
    bounds = Bounds(**{name: whole("mpi.malleable", name, value) for name, value in given.items()})
    inhibits = period(inhibit, inhibit_steps)
    if _blocks:
        raise PliantError(ONE_BLOCK)
    _blocks.append(bounds)
    limit_s = environment.deadline_s()
    environment.redistribution()  # what is wrong there is told before anything has been computed
    environment.stall_s()
    context = enter(bounds, limit_s)
    context.inhibit, context.watches = inhibits, watch
    return Job(context)

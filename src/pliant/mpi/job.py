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
from pliant.job.connection import Connection
from pliant.job.errors import AgentLost
from pliant.job.recording import negotiation
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.model.speedup import Model
from pliant.mpi.arrays import Array, Block
from pliant.mpi.context import MAX_NODES, Context, Replicated
from pliant.mpi.errors import Released
from pliant.mpi.join import together
from pliant.mpi.loop import Loop, arrive
from pliant.mpi.team import Member, assemble, barrier, broadcast, count_members, gather_all
from pliant.mpi.wait import Wait
from pliant.plan.join import star
from pliant.protocol.messages import Bye, Error, GroupLost, SchedulerMessage

RESULT_BYTES = 1 << 16
"""The longest result, and the longest part of a traceback, that is sent."""

ONE_LOOP = (
    "put all phases into one loop: `for step in job.steps(a + b):` with `if step < a:` for the first phase "
    "and `else:` for the second"
)
ONE_BLOCK = (
    "a program has one `with mpi.malleable()` block with one steps() loop in it, and this one has had it: "
    f"the scheduler takes the end of the block for the end of the job; {ONE_LOOP}"
)
_blocks: list[Bounds] = []
"""The block that this process has had."""


class Job:
    """A rank's view of its job; made by :func:`malleable`.

    On a newcomer ``comm``, ``rank``, ``size`` and ``nodes`` raise NotJoined until its ``steps()`` loop begins.
    On a rank that has been released everything raises Released.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loop: Loop | None = None
        self._entered = False

    # ---- who and where ------------------------------------------------------------------------------

    @property
    def comm(self) -> MPI.Intracomm:
        """All ranks of the job. It changes at a resize: use it at once, never keep it."""
        return self._context.joined("job.comm").comm

    @property
    def rank(self) -> int:
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
    def fresh(self) -> bool:
        """Whether this rank was there from the start and has to set the data up. False on a newcomer."""
        if self._context.released:
            raise Released
        return self._context.fresh

    # ---- data ---------------------------------------------------------------------------------------

    def array(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DTypeLike = "f8",
        spread: Block = Block(),  # noqa: B008 - immutable
    ) -> Array:
        """Register an array that is spread over all ranks, zero at first, and redistributed at every resize.

        All ranks register the same arrays in the same order before the loop. Raises ValueError if a size that
        the submission and ``max`` allow would leave a rank without rows, or with fewer than the halo is deep.
        """
        context = self._context
        context.register(name, looping=self._loop is not None)
        array = Array(name, tuple(shape), dtype, spread, context.seat())
        if context.place is None:
            ranks, advice = self.size, "start fewer ranks or use a larger array"
        else:
            each = context.team.members[0].ranks if context.team else MPI.COMM_WORLD.size
            ranks = context.team.own.size if context.team else 1
            if context.bounds.max < MAX_NODES and context.agreed is not None:
                ranks = max(ranks, context.agreed.max * each)
            advice = (
                f"submit it for fewer nodes (of {each} ranks each), set max in the program lower, "
                "or use a larger array"
            )
        array.check_ranks(ranks, advice)
        context.arrays[name] = array
        if context.team is not None:
            array.allocate()
        return array

    def value(self, name: str, initial: Any = None) -> Replicated:
        """Register a value that all ranks hold alike, in ``.value``; a newcomer gets the job's current one.

        TypeError, here and when ``.value`` is assigned, for what cannot be pickled.
        """
        self._context.register(name, looping=self._loop is not None)
        replicated = self._context.values[name] = Replicated(name, initial, self._context)
        return replicated

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

    def steps(self, n: int, *, pace: bool | Model = False) -> Iterator[int]:
        """Steps 0 .. n - 1, or from the job's current step on a newcomer; the job may be resized at each.

        With ``pace`` a step takes at least ``model.time(nodes) / n`` seconds, by the job's model or by one that
        is given. Raises Released on a rank whose node is given back.
        """
        context = self._context
        if context.released:
            raise Released
        if n < 0:
            raise ValueError(f"steps({n}): the number of steps must be 0 or more")
        if self._loop is not None:
            raise PliantError(f"a program has one steps() loop, and this one has had it; {ONE_LOOP}")
        begin = arrive(context) if context.team is None else None
        model = context.model if pace is True else pace or None
        if pace is True and model is None:
            raise PliantError(
                "steps(pace=True) needs the job's speed-up model: state one at submission, "
                "or pass steps(pace=pliant.Amdahl(work_s, serial_fraction))"
            )
        self._loop = Loop(context, n, model, begin)
        return self._loop.run()

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
        connection = self._context.connection
        if connection is not None:
            # In the epoch this rank lived in: the one before the shrink.
            connection.send(Bye(self._context.epoch - 1))

    def _finish(self) -> None:
        context = self._context
        team = context.joined("the end of the job without a steps() loop")
        if self._loop is not None:
            self._loop.settle()
        # Rank 0 may write results while the others are here already: no limit.
        barrier(team.own, context.wait, "the end of the job", limited=False)
        if context.connection is not None:
            context.connection.send(Bye(context.epoch, context.result if context.speaks else None))
        team.leave(context.wait)

    def _fail(self, error: BaseException) -> None:
        code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
        text = "".join(traceback.format_exception(error))
        sys.stdout.flush()
        sys.stderr.write(text)
        connection = self._context.connection
        if connection is not None and connection.session.side.state not in {"new", "closed"}:
            # The end of a traceback tells most; what cannot be sent must not keep the group from ending.
            with suppress(Exception):
                connection.send(Error(text=text[-RESULT_BYTES:].encode(errors="replace").decode()))
        abort("the program failed; ending its group", code or 1)


def malleable(
    *,
    min: int = 1,  # noqa: A002 - the protocol's words
    max: int | None = None,  # noqa: A002
    factor: int = 1,
    preferred: int = 0,
) -> Job:
    """Enter a job that may be resized between ``min`` and ``max`` nodes, by ``factor`` (1: to any size).

    ``preferred`` is the size it would rather have (0: ``min``); without ``max`` only the rows of its arrays
    limit it. What the submission allows is intersected with this. Without an agent the program runs at the size
    it was started with, alone or under mpiexec.
    Raises ValueError for bounds that contradict each other, and PliantError in a program that has had a block:
    one after it or inside it is refused, with an agent and without.
    """
    bounds = Bounds(min, MAX_NODES if max is None else max, factor, preferred)
    if _blocks:
        raise PliantError(ONE_BLOCK)
    _blocks.append(bounds)
    limit_s = environment.deadline_s()
    place = environment.read()
    wait = Wait(limit_s)
    if place is None:
        own = MPI.COMM_WORLD.Dup()
        team = assemble(own, (Member(0, MPI.Get_processor_name(), own.size),), wait)
        return Job(Context(bounds, wait, team=team))
    context = Context(bounds, wait, place, epoch=place.epoch, fresh=place.resize == 0)
    try:
        _register(context, place)
        if context.fresh:
            _join_start(context, place)
    except BaseException as error:  # noqa: BLE001 - the peers in MPI have to go as well
        traceback.print_exception(error)
        abort(f"group {place.group} on {place.node} could not start")
    return Job(context)


def _register(context: Context, place: environment.Environment) -> None:
    """Open the session on rank 0 of the group, and tell its other ranks what came with the welcome."""
    world, wait = MPI.COMM_WORLD, context.wait
    news: tuple[tuple[int, ...], Model | None, Bounds | None] = ((), None, None)
    if world.rank == 0:
        connection = Connection.open(place, wait.limit_s, idle=world.Iprobe, on_lost=_orphaned(place))
        welcome = connection.greet(world.size, context.bounds)
        wait.idle = connection.poll
        connection.session.on_message = _watch(context)
        context.connection = connection
        context.negotiation = negotiation(connection.session, context.bounds, _pass_on)
        news = (welcome.groups, welcome.model, welcome.bounds)
    news = broadcast(world, news, 0, wait, "the scheduler's welcome", limited=False)
    context.started, context.model, context.agreed = news


def abort(text: str, code: int = 1) -> None:
    """Say why and end all ranks of this group: its peers may sit in MPI, where an exception cannot reach."""
    sys.stdout.flush()
    sys.stderr.write(f"pliant: {text}\n")
    sys.stderr.flush()
    MPI.COMM_WORLD.Abort(code)


def _pass_on(text: str) -> None:
    sys.stderr.write(f"pliant: the scheduler says: {text}\n")


def _orphaned(place: environment.Environment) -> Callable[[str], None]:
    """Ends this group when its agent is gone: nothing would end it later."""
    return lambda why: abort(str(AgentLost(place.group, place.node, why)))


def _watch(context: Context) -> Callable[[SchedulerMessage], None]:
    """Ends this group at the loss of one that it cannot do without, even in the midst of a wait: one that is
    joined or is being joined, or was started together with this group while that is not joined."""

    def take(message: SchedulerMessage) -> None:
        if isinstance(message, GroupLost) and not context.released:
            if context.team is None:
                needed = set(context.started)
            else:
                needed = {member.group for member in context.team.members} | set(context.joining)
            if message.group in needed:
                abort(
                    f"group {message.group} of this job was lost, and its data with it; the job cannot go on"
                )

    return take


def _join_start(context: Context, place: environment.Environment) -> None:
    """Make one communicator of the groups of the job's start: they may have one world already."""
    own = MPI.COMM_WORLD.Dup()
    places = gather_all(own, (place.group, place.node), context.wait, "the names of the groups")
    if {group for group, _ in places} != set(context.started):
        own.Free()
        own = together(star(context.started, 0), place.group, place.epoch, context.connection, context.wait)
        places = gather_all(own, (place.group, place.node), context.wait, "the names of the groups")
    context.team = assemble(own, count_members(places), context.wait)

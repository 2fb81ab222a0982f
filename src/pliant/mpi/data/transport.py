"""Carries out moves, stage by stage, by one of several methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from mpi4py import MPI

from pliant.job import environment
from pliant.mpi.data.ahead import Ahead
from pliant.mpi.data.alike import LookMaker
from pliant.mpi.data.choice import MethodChoice, finish
from pliant.mpi.data.delivery import TAGS_EACH, stage_of
from pliant.mpi.data.movable import Movable, Parcels, Way, checked
from pliant.mpi.data.pointwise import PointToPoint
from pliant.mpi.data.verify import Sums
from pliant.mpi.wait import Wait
from pliant.plan.data.mapping import Mapping, among

Hook = Callable[[Mapping, MPI.Intracomm], object]
WHAT = "the redistribution of the data"


def redistribute(  # noqa: PLR0913, PLR0917 - what goes from where to where, and how
    movables: Iterable[Movable],
    comm: MPI.Intracomm,
    sources: Sequence[int],
    targets: Sequence[int],
    wait: Wait,
    method: str = "",
    ahead: Ahead | None = None,
    hooks: Sequence[Hook] = (),
) -> None:
    """Take all of them from ``sources`` to ``targets``, ranks of ``comm``; collective over ``comm``. Halos are not
    filled. ``method``: a MoveMethod; default: that of PLIANT_REDISTRIBUTE. ``ahead`` has moved what
    is constant already.

    Behind that each of ``hooks`` is called with this rank's mapping and a communicator like ``comm``, on all ranks;
    they have a communicator for themselves, which is kept if the resize is undone, as messages may be under way in it.

    With PLIANT_VERIFY=1, Undone on all ranks alike if something has not come to be what it was, or cannot be summed up
    on one of them; and without, if something cannot be moved on one of them, or a hook raises.
    """
    way, every = Way(comm.rank, sources, targets), list(movables)
    sums = Sums(every, way) if environment.verifies() else None
    names = [each.name for each in every]
    choice = MethodChoice(comm, sources, targets, wait, method or environment.redistribution(), names)
    moves = [(number * TAGS_EACH, _begun(each, way, ahead)) for number, each in enumerate(every)]
    while True:
        stage, why = _next(moves, names, comm.size)
        if sums is not None:
            why = why or sums.wrong
        # Also where nothing is left: a rank may have failed at its end.
        choice.carry(stage_of(comm, stage), WHAT, why)
        if not stage:
            break
    if sums is not None:
        sums.sum_up()
        choice.carry(stage_of(comm, []), "all ranks to sum their data up", sums.wrong)
        sums.compare(comm, wait)
    if hooks:
        theirs, made = comm.Idup()
        wait.request(made, "a communicator for what is called during a resize")
        why = _called(hooks, among(comm.rank, sources, targets), theirs)
        choice.carry(stage_of(comm, []), "all ranks to be done with what is called during a resize", why)
        theirs.Free()


def _called(hooks: Sequence[Hook], mapping: Mapping, comm: MPI.Intracomm) -> str:
    """What one of them has raised on this rank; empty if none has."""
    for hook in hooks:
        try:
            hook(mapping, comm)
        except Exception as error:  # noqa: BLE001 - the program's own
            name = getattr(hook, "__name__", type(hook).__name__)
            return f"{name}() that is called during a resize ({type(error).__name__}: {error})"
    return ""


def _begun(movable: Movable, way: Way, ahead: Ahead | None) -> Iterator[Parcels]:
    """Its move; what it raises before its first stage is raised in that."""
    if ahead is None or not ahead.take(movable):
        yield from movable.move(way)


def _next(
    moves: Sequence[tuple[int, Iterator[Parcels]]], names: Sequence[str], ranks: int
) -> tuple[list[tuple[int, Parcels]], str]:
    """The next stage, between so many ``ranks``, and what is wrong with it here. All moves come to it, so that all can
    be undone."""
    stage, wrong = [], []
    for (tag, move), name in zip(moves, names, strict=True):
        try:
            if (parcels := next(move, None)) is not None:
                stage.append((tag, checked(parcels, ranks)))
        except Exception as error:  # noqa: BLE001 - a program's own movable may raise anything
            wrong.append(f"{name!r} ({type(error).__name__}: {error})")
    return stage, ", ".join(wrong)


def deliver(  # noqa: PLR0913, PLR0917 - what goes where, and how it is waited for
    comm: MPI.Intracomm,
    tag: int,
    move: Iterator[Parcels],
    wait: Wait,
    what: str,
    alike: LookMaker,
) -> None:
    """Carry out a move with its tag, point to point. The wait is not limited: a peer may be in user code; ``alike``
    looks meanwhile whether those whose messages are awaited are in the same call."""
    for parcels in move:
        made = PointToPoint(comm, stage_of(comm, [(tag, parcels)]))
        finish(made, wait, what, limited=False, look=alike(comm, tag, made.awaited))

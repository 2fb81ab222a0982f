"""Carries out moves, stage by stage, by one of several methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mpi4py import MPI

from pliant.job import environment
from pliant.mpi.data.ahead import Ahead
from pliant.mpi.data.choice import Choice, finish
from pliant.mpi.data.delivery import TAGS_EACH, stage_of
from pliant.mpi.data.movable import Movable, Parcels, Way
from pliant.mpi.data.pointwise import PointToPoint
from pliant.mpi.data.verify import Sums
from pliant.mpi.wait import Wait

WHAT = "the redistribution of the data"


def redistribute(  # noqa: PLR0913, PLR0917 - what goes from where to where, and how
    movables: Iterable[Movable],
    comm: MPI.Intracomm,
    sources: Sequence[int],
    targets: Sequence[int],
    wait: Wait,
    method: str = "",
    ahead: Ahead | None = None,
) -> None:
    """Take all of them from ``sources`` to ``targets``, ranks of ``comm``; collective over ``comm``. Halos are not
    filled. ``method``: a MoveMethod, or auto; that of PLIANT_REDISTRIBUTE where none is named. ``ahead`` has moved what
    is constant already.

    With PLIANT_VERIFY=1, Undone on all ranks alike if something has not come to be what it was; and without, if
    something cannot be moved on one of them.
    """
    way, every = Way(comm.rank, sources, targets), list(movables)
    sums = Sums(every, way) if environment.verifies() else None
    choice = Choice(comm, sources, targets, wait, method or environment.redistribution())
    moves = [(number * TAGS_EACH, _begun(each, way, ahead)) for number, each in enumerate(every)]
    while True:
        stage, why = _next(moves, [each.name for each in every])
        choice.carry(
            stage_of(comm, stage), WHAT, why
        )  # also where nothing is left: a rank may have failed at its end
        if not stage:
            break
    if sums is not None:
        sums.compare(comm, wait)


def _begun(movable: Movable, way: Way, ahead: Ahead | None) -> Iterator[Parcels]:
    """Its move; what it raises before its first stage is raised in that."""
    if ahead is None or not ahead.take(movable):
        yield from movable.move(way)


def _next(
    moves: Sequence[tuple[int, Iterator[Parcels]]], names: Sequence[str]
) -> tuple[list[tuple[int, Parcels]], str]:
    """The next stage, and what is wrong with it on this rank. All moves come to it, so that all can be undone."""
    stage, wrong = [], []
    for (tag, move), name in zip(moves, names, strict=True):
        try:
            parcels = next(move, None)
        except Exception as error:  # noqa: BLE001 - a program's own movable may raise anything
            wrong.append(f"{name!r} ({type(error).__name__}: {error})")
            continue
        if parcels is not None:
            stage.append((tag, parcels))
    return stage, ", ".join(wrong)


def deliver(
    comm: MPI.Intracomm, moves: Sequence[tuple[int, Iterator[Parcels]]], wait: Wait, what: str
) -> None:
    """Carry out moves, each with its tag, point to point. The wait is not limited: a peer may be in user code."""
    while stage := [(tag, parcels) for tag, move in moves if (parcels := next(move, None)) is not None]:
        finish(PointToPoint(comm, stage_of(comm, stage)), wait, what, limited=False)

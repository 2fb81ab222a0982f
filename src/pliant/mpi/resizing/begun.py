"""An expansion that is under way: the job and the newcomers have met, and the job can still go back."""

from __future__ import annotations

from typing import NamedTuple

from mpi4py import MPI

from pliant.mpi.data.ahead import Ahead
from pliant.mpi.team import Member, Team


class After(NamedTuple):
    """Who goes on behind a resize: ``targets`` are their ranks among all that are joined in it, in their new order,
    where some leave; None where all go on."""

    members: tuple[Member, ...]
    targets: list[int] | None = None


class Met(NamedTuple):
    """The job and the newcomers in one communicator; the job can still go back to ``old``."""

    old: Team
    joint: Team
    between: MPI.Intercomm
    after: After


class Begun(NamedTuple):
    """An expansion whose constant data are on their way; how long the phases took, and the job stood still for them."""

    met: Met
    ahead: Ahead
    seconds: dict[str, float]
    blocked_s: float
    at: float

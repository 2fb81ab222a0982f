"""How large jobs start, who gives nodes and who gets them: the sizing axis of the 3 x 3 malleable policies of
PECS'23 (10.1007/978-3-031-48803-0_14), with the sign of its average put right."""

from __future__ import annotations

from typing import NamedTuple

from pliant.policy.giving import Precedence, above_preferred
from pliant.policy.job_view import JobView
from pliant.policy.resizing import Limit, largest, preferred, smallest


class Sizing(NamedTuple):
    """One value of the axis.

    ``start`` is the rule of ``start_size``. ``attempts`` are (size wanted by a waiting job, floor of the donors), tried
    in this order. Jobs give and get ``by`` a precedence, up to each of ``ceilings`` in turn.
    """

    name: str
    start: str
    attempts: tuple[tuple[Limit, Limit], ...]
    ceilings: tuple[Limit, ...]
    by: Precedence


def _above_min(job: JobView, size: int) -> float:
    return size - job.bounds.min


def _share_of_range(job: JobView, size: int) -> float:
    low, high = job.bounds.min, job.bounds.max
    return (size - low) / (high - low) if high > low else 1.0


MIN = Sizing("min", "min", ((smallest, smallest),), (largest,), Precedence(_above_min))
PREFERRED = Sizing(
    "preferred",
    "preferred",
    ((preferred, preferred), (smallest, preferred), (smallest, smallest)),
    (preferred, largest),
    Precedence(above_preferred),
)
AVERAGE = Sizing(
    "average", "min", ((smallest, smallest),), (largest,), Precedence(_share_of_range, stepwise=True)
)

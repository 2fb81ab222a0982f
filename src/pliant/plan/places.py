"""Which ranks a job has after a resize in which groups arrive and others leave.

Who arrives takes the place of who leaves: then those that stay keep their parts of the data, where all are of one size,
and what moves is what the leaving groups have, once.
"""

from __future__ import annotations

from collections.abc import Sequence


def successors(stays: Sequence[bool], arriving: int) -> tuple[int, ...]:
    """The groups that go on, in the order of their ranks, as numbers of the list of the groups of before and, behind
    them, the ``arriving`` ones. ``stays`` says of each of before whether it goes on; where one does not, the next that
    arrives takes its place. Who arrives beyond that comes last.

    ValueError if nobody would go on.
    """
    new = iter(range(len(stays), len(stays) + arriving))
    taken = (number if stay else next(new, None) for number, stay in enumerate(stays))
    order = (*(number for number in taken if number is not None), *new)
    if not order:
        raise ValueError(f"all {len(stays)} groups would leave, and none arrives")
    return order

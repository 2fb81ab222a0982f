"""Job arrays: many jobs by one entry, told apart by an index, of which only so many may run at once. The notation is
Slurm's (``sbatch --array``)."""

from __future__ import annotations

import msgspec

from pliant.model.limits import ARRAY_ELEMENTS, whole

INDEX = "PLIANT_ARRAY_INDEX"
"""The variable in which a job finds its index."""
FORM = "0-99, 0-99:2 (every second), 1,3,7, or with %10 behind it, so that at most 10 run at once"


class ArrayMember(msgspec.Struct, frozen=True, gc=False):
    """What a job knows of its array: the array's ``name``, its own ``index``, and that at most ``limit`` of its jobs
    run at once; 0 is no limit."""

    name: str
    index: int
    limit: int = 0


class Elements(msgspec.Struct, frozen=True):
    """The indices of an array, ascending, and its limit."""

    indices: tuple[int, ...]
    limit: int = 0


def read_elements(text: str) -> Elements:
    """What ``text`` stands for: see ``FORM``. ValueError says what is wrong with it."""
    listed, percent, most = text.partition("%")
    limit = whole(most.strip()) if percent else 0
    if limit is None or (percent and limit < 1):
        raise ValueError(f"%{most}: how many may run at once is a whole number of 1 or more")
    indices: set[int] = set()
    for part in listed.split(","):
        indices.update(_indices(part.strip()))
        if len(indices) > ARRAY_ELEMENTS:
            raise ValueError(
                f"with {part.strip()} it has more than {ARRAY_ELEMENTS:,} jobs, which is the most"
            )
    return Elements(tuple(sorted(indices)), limit)


def _indices(part: str) -> range:
    span, colon, every = part.partition(":")
    first, dash, last = span.partition("-")
    low, step = whole(first), whole(every) if colon else 1
    high = whole(last) if dash else low
    if low is None or high is None or step is None or (colon and not dash):
        raise ValueError(f"{part!r} is neither an index, nor a range; write {FORM}")
    if high < low:
        raise ValueError(f"{part!r} ends before it begins")
    if step < 1:
        raise ValueError(f"{part!r} has steps of {step}; they are 1 or more")
    if (high - low) // step >= ARRAY_ELEMENTS:
        raise ValueError(f"{part} has more than {ARRAY_ELEMENTS:,} jobs, which is the most")
    return range(low, high + 1, step)

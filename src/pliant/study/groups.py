"""Groups of jobs that may fare differently: by class, by width and by user."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pliant.model.errors import BatchError
from pliant.model.jobs import JobClass, JobSpec
from pliant.model.words import nearest


def _width(spec: JobSpec) -> str:
    """Its preferred size, between powers of two: 1, 2, 3-4, 5-8 nodes and so on."""
    nodes = spec.nodes.preferred
    high = 1 << (nodes - 1).bit_length()
    low = high // 2 + 1
    return f"{high}" if low >= high else f"{low}-{high}"


LABELS: dict[str, Callable[[JobSpec], str]] = {
    "class": lambda spec: str(spec.job_class),
    "width": _width,
    "user": lambda spec: spec.user,
}
"""By what jobs are told apart, and what a job's group is called."""


def read_by(text: str) -> tuple[str, ...]:
    """``class,width`` as names of ``LABELS``, each once; BatchError."""
    names = [name.strip() for name in text.split(",")] if text else []
    for name in names:
        if name not in LABELS:
            raise BatchError(f"--by: there is no {name!r}{nearest(name, LABELS)}")
    return tuple(dict.fromkeys(names))


def in_order(by: str, groups: Sequence[str]) -> list[str]:
    """Classes as they are listed everywhere, widths from narrow to wide, users by number, then by name."""
    if by == "class":
        return sorted(groups, key=[str(each) for each in JobClass].index)
    return sorted(groups, key=_place)


def _place(name: str) -> tuple[bool, int, str]:
    first = name.partition("-")[0]
    return (False, int(first), "") if first.isdecimal() else (True, 0, name)

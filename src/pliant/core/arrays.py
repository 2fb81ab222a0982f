"""Jobs of arrays that may not all run at once. Those beyond an array's limit are submitted one by one, whenever one of
the array has ended: policies see none that they may not start, and what they promise can be kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from msgspec import UNSET

from pliant.model.arrays import ArrayMember
from pliant.model.jobs import JobSpec

T = TypeVar("T")


def limited(spec: JobSpec) -> ArrayMember | None:
    """Its array, if that has a limit."""
    return None if spec.array is UNSET or not spec.array.limit else spec.array


class ArrayThrottle(Generic[T]):
    """Who of an array is in the queue or runs, and who waits to be submitted, in order."""

    __slots__ = ("_there", "_waiting")

    def __init__(self) -> None:
        self._there: dict[str, int] = {}
        self._waiting: dict[str, deque[T]] = {}

    def come(self, spec: JobSpec, job: T) -> T | None:
        """``job``, which is ``spec``, if it is to be submitted now; else ``ended`` tells it in its turn."""
        array = limited(spec)
        if array is None or self._there.get(array.name, 0) < array.limit:
            self.there(spec)
            return job
        self._waiting.setdefault(array.name, deque()).append(job)
        return None

    def there(self, spec: JobSpec) -> None:
        """It was submitted."""
        if (array := limited(spec)) is not None:
            self._there[array.name] = self._there.get(array.name, 0) + 1

    def ended(self, spec: JobSpec) -> T | None:
        """The job that is to be submitted, as this one has ended for good; None if there is none."""
        array = limited(spec)
        if array is None:
            return None
        waiting = self._waiting.get(array.name)
        if waiting:
            return waiting.popleft()
        self._there[array.name] -= 1
        return None

    def clear(self) -> None:
        """None of those that wait is to be submitted any more."""
        self._waiting.clear()


def any_limited(specs: Iterable[JobSpec]) -> bool:
    return any(limited(spec) is not None for spec in specs)

"""What global load balancing asks of a program: a bag of tasks, and a result to which bags contribute.

A bag is some tasks together with the partial result of those it has done. Its owner works on it, splits it for
whoever has none, and merges what it is given. Every task is done once, by whichever bag it came to, and every
partial result is submitted once: so the sum over all bags does not depend on who did what.

Bags travel between processes by pickle. Their state is NumPy arrays and ints, so that protocol 5 sends the arrays
out of band; what arrives may be read-only. No bag is used by two threads at once.
"""

from __future__ import annotations

from typing import Protocol, Self, TypeVar


class Result(Protocol):
    """What a computation gives, or a part of it. A new one is the neutral element of ``merge``."""

    def merge(self, other: Self) -> None:
        """Add what the other has. The order of merges makes no difference."""


R_contra = TypeVar("R_contra", bound=Result, contravariant=True)


class Bag(Protocol[R_contra]):
    """Tasks, and the partial result of those that were done."""

    @property
    def tasks(self) -> int | None:
        """How many tasks are in it now, or None if the program does not know.

        ``split`` and ``merge`` move tasks and neither make nor lose any: a debug mode counts.
        """

    @property
    def is_empty(self) -> bool:
        """No task is left; a partial result may still be there."""

    @property
    def is_splittable(self) -> bool:
        """There are at least two tasks, so that both halves of a split have some."""

    def process(self, n: int) -> bool:
        """Work on up to about ``n`` tasks, those that come up meanwhile included; False if none is left afterwards."""

    def split(self, take_all: bool) -> Self:  # noqa: FBT001 - the word of the protocol that this library is known by
        """Part of the tasks, in a new bag whose partial result is empty; the partial result of this one stays.

        It is half of them, and asked for only if ``is_splittable``; or with ``take_all`` each one, asked for unless
        ``is_empty``. The new bag is no larger than what is in it.
        """

    def merge(self, bag: Self) -> None:
        """Take over the tasks and the partial result of another bag, which is not used afterwards."""

    def submit(self, result: R_contra) -> None:
        """Add the partial result to ``result`` and begin a new one, so that nothing counts twice."""

"""What the calls of a job are given: refused where it is no number, before anything is said to other ranks."""

from __future__ import annotations

from math import isnan
from numbers import Real
from operator import index
from typing import NamedTuple, SupportsIndex

from pliant.model.jobs import Bounds


def whole(call: str, name: str, value: SupportsIndex) -> int:
    """A whole number of whatever library. TypeError for what is none, such as 2.0: ranks would not agree on it."""
    if isinstance(value, bool):
        raise TypeError(f"{call}({name}={value!r}): it must be a whole number")
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{call}({name}={value!r}): it must be a whole number") from None


def count(call: str, name: str, value: SupportsIndex) -> int:
    """As ``whole``; ValueError for one below 0."""
    number = value if type(value) is int else whole(call, name, value)
    if number < 0:
        raise ValueError(f"{call}({name}={value!r}): it must be a whole number, 0 or more")
    return number


def seconds(call: str, name: str, value: object) -> float:
    """A time, endless perhaps. TypeError for what is no number, ValueError for one below 0."""
    if type(value) is float and value >= 0:
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{call}({name}={value!r}): it must be a number of seconds")
    if isnan(value) or value < 0:
        raise ValueError(f"{call}({name}={value!r}): it must be a number of seconds, 0 or more")
    return float(value)


class RequestedSizes(NamedTuple):
    """What a check was called with, in nodes; 0: what the job allows."""

    min: int = 0
    max: int = 0
    factor: int = 0
    preferred: int = 0

    @classmethod
    def of(
        cls,
        call: str,
        min: SupportsIndex = 0,  # noqa: A002 - the protocol's words
        max: SupportsIndex = 0,  # noqa: A002
        factor: SupportsIndex = 0,
        preferred: SupportsIndex = 0,
    ) -> RequestedSizes:
        """By the arguments of ``call``. TypeError for what is no whole number, ValueError for one below 0."""
        return cls(
            count(call, "min", min), count(call, "max", max),
            count(call, "factor", factor), count(call, "preferred", preferred),
        )  # fmt: skip

    def within(self, allowed: Bounds, call: str) -> Bounds:
        """The bounds to ask for; the preferred size is the allowed one in them that is nearest to it. ValueError if
        none of the sizes that are ``allowed`` is in them."""
        low, high, factor = self.min or allowed.min, self.max or allowed.max, self.factor or 1
        # Of two that the caller has said Bounds tells that they contradict each other.
        said_both = self.min and self.max
        common = Bounds(low, high, factor).intersect(allowed) if said_both or low <= high else None
        if common is None:
            by = f", by factor {factor}" if factor > 1 else ""
            raise ValueError(
                f"{call}: none of the job's sizes ({allowed.describe()}) is {self._described(low, high)}{by}"
            )
        if not self.preferred:
            return Bounds(low, high, factor)
        beside = (common.floor(self.preferred), common.above(self.preferred))
        preferred = min(filter(None, beside), key=lambda size: abs(size - self.preferred))
        return Bounds(low, high, factor, preferred)

    def _described(self, low: int, high: int) -> str:
        if low <= high:
            return f"from {low} to {high} nodes"
        return f"at least {low}" if self.min else f"at most {high}"

"""Which rows of an axis each part holds: what a layout comes to for a number of parts.

Rows are told as stripes, so that what is said of an axis does not grow with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple


class RowRange(NamedTuple):
    """Rows ``start`` up to, not including, ``stop`` of the whole axis."""

    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


class Stripe(NamedTuple):
    """Rows ``start`` up to ``start + width``, and the same again each ``step`` rows on, ``times`` times in all."""

    start: int
    width: int
    step: int = 0
    times: int = 1

    @property
    def rows(self) -> int:
        return self.width * self.times

    def spans(self) -> Iterator[RowRange]:
        """Each of its ranges."""
        for number in range(self.times):
            first = self.start + number * self.step
            yield RowRange(first, first + self.width)


class Cuts(NamedTuple):
    """Part p holds rows ``at[p]`` up to ``at[p + 1]``: consecutive parts, which may be empty."""

    at: tuple[int, ...]

    @property
    def parts(self) -> int:
        return len(self.at) - 1

    def span(self, part: int) -> RowRange:
        return RowRange(self.at[part], self.at[part + 1])

    def size(self, part: int) -> int:
        """How many rows a part holds."""
        return self.span(part).rows

    def held(self, part: int) -> tuple[Stripe, ...]:
        """The rows that a part holds, ascending; none is in two of the stripes."""
        first, stop = self.span(part)
        return (Stripe(first, stop - first),) if stop > first else ()

    def place(self, part: int, stripe: Stripe) -> Stripe:
        """Where these rows are in what the part holds, counted from its first row."""
        return stripe._replace(start=stripe.start - self.at[part])

    def bounds(self) -> tuple[int, ...]:
        """Where the part that holds a row may change, but for what :attr:`period` says."""
        return self.at

    def clipped(self, rows: int) -> Cuts:
        """The first ``rows`` rows, of the same parts."""
        return Cuts(tuple(min(each, rows) for each in self.at))

    @property
    def period(self) -> int:
        """After so many rows the parts come again in the same order; 0: they do not."""
        return 0

    def runs(self, first: int, stop: int) -> Iterator[tuple[RowRange, int]]:
        """The parts of these rows, one run of rows after the other."""
        part = bisect_right(self.at, first) - 1
        while part < self.parts and self.at[part] < stop:
            start, end = max(self.at[part], first), min(self.at[part + 1], stop)
            if start < end:
                yield RowRange(start, end), part
            part += 1


class Cycle(NamedTuple):
    """Blocks of ``block`` rows, dealt out to ``parts`` parts in turn; the last block may be shorter."""

    rows: int
    parts: int
    block: int

    @property
    def period(self) -> int:
        return self.parts * self.block

    def size(self, part: int) -> int:
        whole, rest = divmod(self.rows, self.period)
        return whole * self.block + min(self.block, max(0, rest - part * self.block))

    def held(self, part: int) -> tuple[Stripe, ...]:
        size, first = self.size(part), part * self.block
        count, rest = divmod(size, self.block)
        full = (Stripe(first, self.block, self.period, count),) if count else ()
        return (*full, Stripe(first + count * self.period, rest)) if rest else full

    def place(self, part: int, stripe: Stripe) -> Stripe:
        """No range of the stripe may go beyond a block, and its step has to be whole rounds of the deal."""
        turn, within = divmod(stripe.start - part * self.block, self.period)
        return Stripe(turn * self.block + within, stripe.width, stripe.step // self.parts, stripe.times)

    def clipped(self, rows: int) -> Cycle:
        return self._replace(rows=min(self.rows, rows))

    def bounds(self) -> tuple[int, ...]:
        return (0, self.rows)

    def runs(self, first: int, stop: int) -> Iterator[tuple[RowRange, int]]:
        while first < stop:
            number = first // self.block
            end = min(stop, (number + 1) * self.block)
            yield RowRange(first, end), number % self.parts
            first = end


class Copies(NamedTuple):
    """Each of ``parts`` parts holds all rows."""

    rows: int
    parts: int

    def size(self, part: int) -> int:  # noqa: ARG002 - all are alike
        return self.rows

    def held(self, part: int) -> tuple[Stripe, ...]:  # noqa: ARG002 - all are alike
        return (Stripe(0, self.rows),) if self.rows else ()

    def place(self, part: int, stripe: Stripe) -> Stripe:  # noqa: ARG002 - all are alike
        return stripe

    def clipped(self, rows: int) -> Copies:
        return self._replace(rows=min(self.rows, rows))


Exclusive = Cuts | Cycle
"""Each row is in one part."""
Split = Exclusive | Copies


def even(rows: int, parts: int) -> Cuts:
    """Consecutive parts; the first ``rows % parts`` have one more row (as numpy.array_split).

    Raises ValueError if there are no parts, or fewer than no rows.
    """
    if rows < 0:
        raise ValueError(f"there are no {rows} rows")
    size, longer = divmod(rows, at_least_one(parts))
    return Cuts(tuple(part * size + min(part, longer) for part in range(parts + 1)))


def at_least_one(parts: int) -> int:
    """It; ValueError if there are no parts."""
    if parts < 1:
        raise ValueError(f"rows cannot be spread over {parts} parts; there must be 1 or more")
    return parts

"""Sets of nodes as bit masks: a job may hold 300 nodes, so set operations have to be cheap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from pliant.model.limits import HOST_CHARACTERS, MOST_HOSTS, MOST_NODES, whole


class NodeSet:
    """An immutable set of node numbers, kept as an int bit mask.

    Its text form is a list of ranges, ``0-3,7``; ``hostlist`` writes the nodes' names.
    """

    __slots__ = ("_count", "mask")

    def __init__(self, mask: int = 0, count: int | None = None) -> None:
        """``count`` is how many they are, where that is known: 100,000 bits take 4 microseconds to count."""
        self.mask = mask
        self._count = count

    @classmethod
    def of(cls, numbers: Iterable[int]) -> NodeSet:
        mask = 0
        for number in numbers:
            mask |= 1 << number
        return cls(mask)

    @classmethod
    def first(cls, count: int) -> NodeSet:
        """Nodes 0 .. count - 1."""
        return cls((1 << count) - 1)

    @classmethod
    def parse(cls, text: str) -> NodeSet:
        """The inverse of ``str``; raises ValueError where the text is no list of ranges, or has a node beyond
        ``MOST_NODES``."""
        mask = 0
        for part in filter(None, text.split(",")):
            a, b = _range(part)
            if b >= MOST_NODES:
                raise ValueError(f"{part!r}: nodes count from 0, and there are at most {MOST_NODES:,}")
            mask |= ((1 << (b - a + 1)) - 1) << a
        return cls(mask)

    def __len__(self) -> int:
        count = self._count
        if count is None:
            count = self._count = self.mask.bit_count()
        return count

    def __bool__(self) -> bool:
        return self.mask != 0

    def __iter__(self) -> Iterator[int]:
        numbers: list[int] = []
        rest = self.mask
        while rest:  # run by run, as jobs hold few of them: adding the lowest bit carries over the lowest run
            low = rest & -rest
            carried = rest + low
            numbers += range(low.bit_length() - 1, (rest & ~carried).bit_length())
            rest &= carried
        return iter(numbers)

    def __contains__(self, number: int) -> bool:
        return self.mask >> number & 1 == 1

    def __or__(self, other: NodeSet) -> NodeSet:
        return NodeSet(self.mask | other.mask)

    def __and__(self, other: NodeSet) -> NodeSet:
        return NodeSet(self.mask & other.mask)

    def __sub__(self, other: NodeSet) -> NodeSet:
        return NodeSet(without(self.mask, other.mask))

    def __le__(self, other: NodeSet) -> bool:
        return self.mask & ~other.mask == 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSet) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash(self.mask)

    def ranges(self) -> list[tuple[int, int]]:
        """Maximal runs of consecutive nodes, as inclusive pairs."""
        runs: list[tuple[int, int]] = []
        rest, base = self.mask, 0
        while rest:
            skip = (rest & -rest).bit_length() - 1
            rest >>= skip
            base += skip
            length = (~rest & (rest + 1)).bit_length() - 1
            runs.append((base, base + length - 1))
            rest >>= length
            base += length
        return runs

    def __str__(self) -> str:
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges())

    def __repr__(self) -> str:
        return f"NodeSet({str(self)!r})"


EMPTY = NodeSet()


def without(mask: int, other: int) -> int:
    """The bits of ``mask`` that ``other`` has not; of 100,000 in a fifth of the time that a complement takes."""
    return (mask | other) ^ other


NEAR = 64
"""So many bits are looked at first, beside two for each that is wanted."""


def lowest_bits(mask: int, count: int, have: int | None = None) -> int:
    """The lowest ``count`` set bits of ``mask``, which has ``have`` of them where that is known: mostly they are near
    its beginning. The end of them is in one half of what has as many, and in one half of that."""
    if count <= 0:
        return 0
    if count >= (all_of_them := mask.bit_count() if have is None else have):
        if count > all_of_them:
            raise ValueError(f"{count} nodes wanted of a set of {all_of_them}")
        return mask
    whole, width, end, rest, lacking = mask.bit_length(), NEAR + 2 * count, 0, mask, count
    while width < whole:
        rest = mask & ((1 << width) - 1)
        if rest.bit_count() >= count:
            break
        width *= 4
    else:
        width, rest = whole, mask
    while width > 1:
        half = width >> 1
        lower = rest & ((1 << half) - 1)
        if (bits := lower.bit_count()) >= lacking:
            rest, width = lower, half
        else:
            lacking -= bits
            rest >>= half
            width -= half
            end += half
    return mask & ((1 << (end + 1)) - 1)


_NUMBERED = re.compile(r"(.*?)(\d+)")


def hostlist(names: Iterable[str]) -> str:
    """Slurm's short form of host names: ``n0 n1 n2 x7`` becomes ``n[0-2],x7``."""
    matches = [(name, _NUMBERED.fullmatch(name)) for name in names]
    plain = [name for name, match in matches if match is None]
    split = [match.groups() for _, match in matches if match is not None]
    # Names of one width share a bracket where any of them is padded: node01 is not node1.
    padded = {(prefix, len(digits)) for prefix, digits in split if digits[0] == "0" and len(digits) > 1}
    numbered: dict[tuple[str, int], list[int]] = {}
    for prefix, digits in split:
        width = len(digits) if (prefix, len(digits)) in padded else 0
        numbered.setdefault((prefix, width), []).append(int(digits))
    parts = sorted(plain)
    for (prefix, width), numbers in sorted(numbered.items()):
        parts.append(prefix + _bracket(sorted(set(numbers)), width))
    return ",".join(parts)


def _bracket(numbers: list[int], width: int) -> str:
    runs: list[list[int]] = [[numbers[0], numbers[0]]]
    for before, number in pairwise(numbers):
        if number == before + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs]
    return texts[0] if len(numbers) == 1 else f"[{','.join(texts)}]"


_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
"""Of a hostlist: what is between two commas that are not in brackets."""


_RANGES = re.compile(r"[-\d,]*")


def parse_hostlist(text: str) -> list[str]:
    """Names of a hostlist such as ``n[0-2,5],x7`` or ``r[1-2]n[01-16]-ib``; ValueError where it is malformed, or stands
    for more than ``MOST_HOSTS`` nodes, which is found before it is expanded."""
    if _PART.sub("", text).strip(" \t\n,"):
        raise ValueError(f"{_shown(text)} is no hostlist: a bracket has no other end")
    names: list[str] = []
    for part in filter(None, map(str.strip, _PART.findall(text))):
        names += _expanded(part, text, MOST_HOSTS - len(names)) if "[" in part else [part]
    if text.strip() and not names:
        raise ValueError(f"{_shown(text)} is no hostlist")
    return names


def parse_counts(text: str) -> dict[str, int]:
    """Names with a number each, such as ``n1=2,n[2-3]=1``; ValueError where something else is said, or a name twice."""
    if _PART.sub("", text).strip(" \t\n,"):
        raise ValueError(f"{_shown(text)}: a bracket has no other end; write n3=1 or n[2-3]=1")
    counts: dict[str, int] = {}
    for part in filter(None, map(str.strip, _PART.findall(text))):
        nodes, _, number = part.partition("=")
        names, count = parse_hostlist(nodes), whole(number)
        if not names or count is None:
            raise ValueError(f"{_shown(part)} is no node with a number; write n3=1 or n[2-3]=1")
        for name in names:
            if name in counts:
                raise ValueError(f"{_shown(text)} names {name} twice; say it once")
            counts[name] = count
    if not counts:
        raise ValueError(f"{_shown(text)} names no node; write n3=1 or n[2-3]=1")
    return counts


def _expanded(part: str, text: str, room: int) -> list[str]:
    """What the brackets of one part of ``text`` stand for, ``room`` names at most."""
    first, *rest = re.split(r"\[([^\[\]]*)\]", part)
    if (not first or first.endswith("@")) and not _RANGES.fullmatch(rest[0]):
        first, *rest = f"{first}[{rest[0]}]{rest[1]}", *rest[2:]  # a host, as in [::1]:2222
    if len(first) + sum(map(len, rest[1::2])) > HOST_CHARACTERS:
        raise ValueError(f"{_shown(part)}: no node has a name of more than {HOST_CHARACTERS} characters")
    names = [first]
    for inside, after in zip(rest[::2], rest[1::2], strict=True):
        pieces = inside.split(",")
        try:
            ranges = [(*_range(piece), len(piece.partition("-")[0])) for piece in pieces]
        except ValueError as error:
            raise ValueError(f"{_shown(text)} is no hostlist: {error}") from None
        if len(names) * sum(high - low + 1 for low, high, _ in ranges) > room:
            raise ValueError(f"{_shown(text)}: a hostlist stands for at most {MOST_HOSTS:,} nodes")
        numbers = [f"{n:0{width}d}" for low, high, width in ranges for n in range(low, high + 1)]
        names = [f"{name}{number}{after}" for name in names for number in numbers]
    return names


def _range(text: str) -> tuple[int, int]:
    """The ends of ``3`` or ``3-7``; ValueError where it is neither."""
    first, dash, last = text.partition("-")
    low = whole(first)
    high = whole(last) if dash else low
    if low is None or high is None:
        raise ValueError(f"{_shown(text)} is no number or range")
    if high < low:
        raise ValueError(f"the range {text!r} runs backwards")
    return low, high


def _shown(text: str) -> str:
    """A user's text in a message, cut where it is long."""
    return repr(text if len(text) <= 80 else text[:79] + "…")

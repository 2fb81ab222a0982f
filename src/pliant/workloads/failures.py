"""Nodes that fail and return: drawn by a seed, or listed in a file. They become the core's Lost and Back."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from pathlib import Path
from random import Random
from typing import NamedTuple

from pliant.core.settings import NEVER
from pliant.model.durations import duration
from pliant.model.errors import BatchError
from pliant.model.keys import keyed
from pliant.model.limits import as_number, whole

FORM = "mtbf=1000h,repair=30min[,seed=N], or a CSV file of node,fail_s,return_s"
FIXED = "fixed:"
HEADER = ["node", "fail_s", "return_s"]


class Outage(NamedTuple):
    """At ``at`` seconds ``node`` fails, or is back; of one instant, what is back comes first."""

    at: float
    fails: bool
    node: int


class Down(NamedTuple):
    """``node`` is away from ``fail_s`` until ``return_s``; NEVER if it does not return."""

    node: int
    fail_s: float
    return_s: float


class DrawnFailures(NamedTuple):
    """Every node fails after an exponential time of mean ``mtbf_s`` in use or idle, and is back after one of
    mean ``repair_s``, or after exactly that if ``fixed``. Each node has its own numbers, so that with the same
    seed a larger machine has the failures of a smaller one, and more."""

    mtbf_s: float
    repair_s: float
    fixed: bool = False
    seed: int | None = None


class Failures(NamedTuple):
    """What fails: as ``drawn``, else as ``listed``. ``requeue``: jobs that lose a node are submitted again, as
    Slurm does by default (JobRequeue=1); else that was the end of them (NODE_FAIL)."""

    drawn: DrawnFailures | None = None
    listed: tuple[Down, ...] = ()
    requeue: bool = True

    def seeded(self, seed: int, run: int) -> Failures:
        """The same for run number ``run``: by its own seed if it has one, else by ``seed``."""
        if self.drawn is None:
            return self
        own = seed if self.drawn.seed is None else self.drawn.seed
        return self._replace(drawn=self.drawn._replace(seed=own + run))

    def outages(self, nodes: int, first: int = 0) -> Iterator[Outage]:
        """What happens to ``nodes`` nodes from ``first`` on, in order of time; without end if drawn.

        BatchError if one that is listed does not exist.
        """
        if self.drawn is not None:
            drawn = _draw(self.drawn, first + nodes)
            return (outage for outage in drawn if outage.node >= first) if first else drawn
        for down in self.listed:
            if not first <= down.node < first + nodes:
                there = f"there are nodes {first} .. {first + nodes - 1}"
                raise BatchError(f"failures: node {down.node}: {there}")
        both = chain.from_iterable(
            (Outage(down.fail_s, True, down.node), Outage(down.return_s, False, down.node))
            for down in self.listed
        )
        return iter(sorted(outage for outage in both if outage.at < NEVER))

    def among(self, first: int, nodes: int) -> Failures:
        """The same without those that are listed of other nodes than ``nodes`` ones from ``first`` on."""
        return self._replace(listed=tuple(down for down in self.listed if first <= down.node < first + nodes))


def read_failures(text: str, *, requeue: bool = True) -> Failures:
    """Failures as a user writes them: see ``FORM``. BatchError says what is wrong."""
    if "=" in text and not Path(text).is_file():
        return Failures(drawn=_parse(text), requeue=requeue)
    return Failures(listed=_read(Path(text)), requeue=requeue)


def _parse(text: str) -> DrawnFailures:
    wrong = f"failures: {text}:"
    given = keyed(text, {"mtbf": True, "repair": True, "seed": False}, wrong, FORM)
    seed = whole(given["seed"]) if "seed" in given else None
    if "seed" in given and seed is None:
        raise BatchError(f"{wrong} seed: {given['seed']!r} is no whole number")
    repair = given["repair"]
    return DrawnFailures(
        mtbf_s=duration(given["mtbf"], f"{wrong} mtbf"),
        repair_s=duration(repair.removeprefix(FIXED), f"{wrong} repair"),
        fixed=repair.startswith(FIXED),
        seed=seed,
    )


def _read(path: Path) -> tuple[Down, ...]:
    """The outages listed in ``path``; BatchError names file and line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise BatchError(
            f"failures: {path}: cannot be read: {error.strerror or error}; give {FORM}"
        ) from None
    except UnicodeDecodeError as error:
        raise BatchError(f"failures: {path}: is no text in UTF-8: {error}") from None
    listed: list[tuple[Down, int]] = []
    for number, line in enumerate(lines, 1):
        words = [word.strip() for word in next(csv.reader([line]), [])]
        if words and not words[0].startswith("#") and words != HEADER:
            listed.append((_down(words, f"failures: {path}:{number}"), number))
    if not listed:
        raise BatchError(f"failures: {path}: there is no failure in it; a line is {','.join(HEADER)}")
    last: dict[int, Down] = {}
    for down, number in sorted(listed):
        before = last.get(down.node)
        if before is not None and down.fail_s < before.return_s:
            raise BatchError(
                f"failures: {path}:{number}: node {down.node} fails at {down.fail_s:g} s, but it is away from "
                f"{before.fail_s:g} s on, until {before.return_s:g} s"
            )
        last[down.node] = down
    return tuple(down for down, _ in sorted(listed))


def _down(words: list[str], where: str) -> Down:
    if len(words) not in (2, 3):
        raise BatchError(f"{where}: {len(words)} fields; a line is {','.join(HEADER)}")
    node = whole(words[0])
    if node is None:
        raise BatchError(f"{where}: node: {words[0]!r} is no number of a node; they count from 0")
    times: list[float] = []
    for name, word in zip(HEADER[1:], words[1:], strict=False):
        time = as_number(word) if word or name == "fail_s" else NEVER
        if not time >= 0 or (time == NEVER and word):
            raise BatchError(f"{where}: {name}: {word!r} is no number of seconds, 0 or more")
        times.append(time)
    fail_s, return_s = times[0], times[1] if len(times) > 1 else NEVER
    if return_s <= fail_s:
        raise BatchError(f"{where}: return_s: the node returns at {return_s:g} s, but fails at {fail_s:g} s")
    return Down(node, fail_s, return_s)


def _draw(drawn: DrawnFailures, nodes: int) -> Iterator[Outage]:
    randoms = [Random(f"failures {drawn.seed or 0} {node}") for node in range(nodes)]  # noqa: S311 - no secret
    mtbf, repair = 1.0 / drawn.mtbf_s, 1.0 / drawn.repair_s
    ahead = [Outage(randoms[node].expovariate(mtbf), True, node) for node in range(nodes)]
    heapify(ahead)
    while ahead:
        outage = heappop(ahead)
        yield outage
        at, fails, node = outage
        if fails:
            away = drawn.repair_s if drawn.fixed else randoms[node].expovariate(repair)
        else:
            away = randoms[node].expovariate(mtbf)
        heappush(ahead, Outage(math.nextafter(at + away, NEVER), not fails, node))

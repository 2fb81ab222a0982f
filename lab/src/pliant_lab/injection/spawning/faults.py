"""What goes wrong in an expansion, drawn from a seed."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from pliant.plan.spawn import SOURCES

STARTER = -2
"""The world of the process that starts others beside the job, as sources have SOURCES."""
KINDS = ("die", "stand", "stand", "raise", "raise", "slow", "slow", "slow")
OWN = 0.3
"""The share of worlds in which something happens to a process that was there before the expansion."""
LATE = 0.2
"""The share of words that are late, in worlds where some are."""


class Ill(NamedTuple):
    """``kind``: one of KINDS, or what goes wrong with a start. ``seconds``: for how long, of one that is slow."""

    kind: str
    seconds: float = 0.0


class Ills(NamedTuple):
    """``marked``: what happens to the process (world, rank) before its n-th operation; a source's are counted while it
    is in a phase. Of worlds, by number: ``refused`` cannot be started, ``silent`` never begins with MPI, and
    ``slow_start`` so much later."""

    marked: dict[tuple[int, int, int], Ill]
    program: bool = True
    descriptors: bool = True
    refused: int = -1
    silent: int = -1
    slow_start: int = -1
    slow_start_s: float = 0.0
    late_words_s: float = 0.0

    def of(self, world: int, rank: int, done: int) -> Ill | None:
        return self.marked.get((world, rank, done))

    def late_word(self, random: Random) -> float:
        if self.late_words_s and random.random() < LATE:
            return random.uniform(0.0, self.late_words_s)
        return 0.0


SOUND = Ills({})
MOST = 45
"""Operations of a newcomer, about."""


MOST_OWN = {SOURCES: 28, STARTER: 30}


def draw_own(
    random: Random, sources: int, *, beside: bool, limit_s: float
) -> dict[tuple[int, int, int], Ill]:
    """What happens to one of so many sources, or to the process that starts others beside them; seldom anything."""
    if random.random() > OWN:
        return {}
    world = STARTER if beside and random.random() < 0.6 else SOURCES
    rank = random.randrange(sources) if world == SOURCES else 0
    kind = random.choice(KINDS)
    seconds = random.uniform(0.0, 1.5 * limit_s) if kind == "slow" else 0.0
    return {(world, rank, random.randint(1, random.choice((8, MOST_OWN[world])))): Ill(kind, seconds)}


def draw(random: Random, sizes: tuple[int, ...], limit_s: float) -> Ills:
    """Of worlds with so many newcomers each."""
    marked: dict[tuple[int, int, int], Ill] = {}
    for _ in range(random.choice((0, 1, 1, 2))):
        world = random.randrange(len(sizes))
        where = (world, random.randrange(sizes[world]), random.randint(1, random.choice((8, 16, MOST))))
        kind = random.choice(KINDS)
        marked[where] = Ill(kind, random.uniform(0.0, 1.5 * limit_s) if kind == "slow" else 0.0)
    one, slow_s, late_s = random.randrange(len(sizes)), random.uniform(0.1, 1.3), random.uniform(0.1, 0.2)
    others: dict[str, Ills] = {
        "none": Ills(marked),
        "program": Ills(marked, program=False),
        "descriptors": Ills(marked, descriptors=False),
        "refused": Ills(marked, refused=one),
        "silent": Ills(marked, silent=one),
        "slow": Ills(marked, slow_start=one, slow_start_s=slow_s * limit_s),
        "words": Ills(marked, late_words_s=late_s * limit_s),
    }
    return others[random.choice((*4 * ("none",), *others, "slow"))]

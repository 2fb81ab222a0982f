"""Launch trees whose controller is killed and begins again, by a seed, and what must hold at the end of each."""

from __future__ import annotations

import random
from functools import partial

import msgspec

from pliant.live.tree import messages as b
from pliant.protocol.messages import From, To
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.tree.forest import Forest, Ground
from pliant_lab.injection.tree.launches import FEW, MOST, OVER, TREES, change, disturb, known_alike

GRACES_S = (5.0, 20.0, 60.0)
MARGIN_S = 3.0
"""A controller that begins so long before the grace is over finds all its agents."""
SHORT_S = 1.5
"""Not all agents find a controller that lives for less."""
WAYS = ("Calling", "Below", "Contacts", "Lost", "Moved", "Adrift")
"""What is said; a controller's end lies in wait for each of them."""
SPREAD_S = 2.0
"""All have ended so long after the grace."""
LATE_S = 8.0
"""So late may an agent learn that the controller has lost it: by then it may have been given up."""
PROBE = msgspec.Raw(b'"are you there?"')


class Reign:
    """What becomes of the controllers of one tree. ``lasts``: the last one lives until the end. ``gentle``: none is
    away for so long that an agent would have to end."""

    def __init__(self, forest: Forest, draw: random.Random) -> None:
        self._forest = forest
        self._draw = draw
        self._crashes = draw.choice((1, 1, 2, 2, 3))
        self.lasts = draw.random() < 0.75
        self.gentle = draw.random() < 0.75
        self._away_s = (
            max(0.0, forest.ground.grace_s - MARGIN_S) if self.gentle else 2 * forest.ground.grace_s
        )
        self.began_s = self.ended_s = 0.0
        """When the last controller began, and when it was killed."""
        self._await()

    def _await(self) -> None:
        """Let this controller be killed some time, as a message is on its way, or as it has written what it will do."""
        if not self._crashes:
            return
        draw = self._draw
        self._crashes -= 1
        early_s = draw.uniform(0.0, draw.choice((0.5, 3.0, 30.0)))
        way = draw.random()
        if way < 0.3:
            kind = draw.choice(WAYS)
            ambush = kind, self._forest.sent[kind] + draw.randint(1, self._forest.ground.agents)
            self._forest.ambushes[ambush] = lambda _sender, _receiver: self._crash()
            early_s += 5.0
        elif way < 0.5:
            self._forest.later(early_s, partial(self._crash, written=True))
        self._forest.later(early_s, self._crash)

    def _crash(self, *, written: bool = False) -> None:
        forest, root = self._forest, self._forest.agents[0]
        if not root.alive or self.ended_s > forest.now:
            return
        if written:
            forest.more((f"written {forest.now:.3f}",), crash=True)
        forest.kill(0)
        forest.seen["crash"] += 1
        self.ended_s = forest.now
        if self.ended_s - self.began_s < SHORT_S:  # for some it was never there
            self._away_s -= (self.ended_s - self.began_s) * self.gentle
            self.gentle = self.gentle and self._away_s > 0.0
        if self._crashes or self.lasts:
            away_s = self._draw.uniform(0.0, abs(self._away_s))
            self._away_s -= away_s * self.gentle
            forest.later(away_s, self._begin)

    def _begin(self) -> None:
        self.began_s = self._forest.now
        self._forest.seen["resume"] += 1
        self._forest.resume()
        self._await()


def restart(seed: int, number: int = 0) -> Forest:
    """One tree with its controllers; Violation if something is wrong at its end. Those with a ``number`` are small."""
    draw = random.Random(f"restart {seed} {number}")  # noqa: S311 - to be repeated
    ground = Ground(
        draw.randint(1, FEW if number else MOST), draw.choice(TREES), draw.choice(TREES),
        window=draw.choice((1, 4, 32)), survive=True, grace_s=draw.choice(GRACES_S),
    )  # fmt: skip
    forest = Forest(100 * seed + number, ground)
    disturbed = draw.random() < 0.5
    if disturbed:
        disturb(forest, draw)
        for _ in range(draw.choice((0, 1, 3, 6))):
            forest.later(
                draw.uniform(0.0, 60.0), partial(_unlink, forest, draw.random(), draw.uniform(0.0, LATE_S))
            )
    if draw.random() < 0.5:
        change(forest, draw)
    forest.open()
    reign = Reign(forest, draw)
    forest.run()
    if forest.agents[0].alive:
        _taken_up(forest, strict=reign.gentle and not disturbed)
        forest.finish(OVER)
        forest.run()
    elif not disturbed and forest.last_end > (end_s := _end_by(forest, reign)):
        raise Violation(
            "stuck", f"somebody goes on until {forest.last_end:.3f} s, beyond the grace at {end_s:.3f} s"
        )
    if left := [rank for rank, agent in forest.agents.items() if agent.alive]:
        raise Violation("leaked", f"there is no controller, and the agents of ranks {left} are there")
    if forest.links:
        raise Violation("leaked", f"there is no controller, and there are the links {forest.links}")
    return forest


def _unlink(forest: Forest, which: float, late_s: float) -> None:
    """A child's link to the controller breaks, and the child notices it late."""
    if children := [other for here, other in forest.links if not here]:
        forest.cut(0, children[int(which * len(children))], late_s)


def _end_by(forest: Forest, reign: Reign) -> float:
    return max(reign.ended_s, forest.last_placed) + forest.ground.grace_s + SPREAD_S


def _taken_up(forest: Forest, *, strict: bool) -> None:
    """Violation unless the controller and all that live know of each other, and reach each other, and all others are
    told as gone. ``strict``: who has ever had a place is there."""
    living = {rank for rank, agent in forest.agents.items() if agent.alive}
    if forest.gone.keys() != (gone := set(range(len(forest.nodes) + 1)) - living):
        raise Violation("lost", f"gone are {sorted(gone)}, and by what is told {sorted(forest.gone)}")
    if strict and (lost := forest.placed - forest.departed - living):
        raise Violation("lost", f"ranks {sorted(lost)} were there, and were not taken up again")
    if adrift := {rank for rank in living if forest.agents[rank].adrift}:
        raise Violation("stuck", f"there is a controller, and ranks {sorted(adrift)} do not know of it")
    for rank in living:
        known_alike(forest, forest.agents[rank], living)
    for rank in living - {0}:
        node = forest.nodes[rank - 1]
        forest.happened(0, b.Send(To((node,), PROBE)))
        forest.happened(rank, b.Say(From(node, PROBE)))
    forest.run()
    for rank in living - {0}:
        if forest.agents[rank].local != [bytes(PROBE)]:
            raise Violation("lost", f"rank {rank} was sent one message, and {forest.agents[rank].local} came")
    if sorted(forest.arrived) != sorted(forest.nodes[rank - 1] for rank in living - {0}):
        raise Violation("lost", f"each of ranks {sorted(living)} has said one word, and {forest.arrived} did")

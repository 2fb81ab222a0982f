"""Policies that go wrong: one never decides, one never starts anything, one fails at its second job."""

import itertools
import sys

from pliant import ClusterView, Decision
from pliant.policy.easy import Easy


class Endless:
    name = "endless"

    def decide(self, view: ClusterView) -> list[Decision]:
        if view.running:
            sys.stderr.write("deciding for ever\n")
            for _ in itertools.count():
                pass
        return list(Easy().decide(view))


class Idle:
    name = "idle"

    def decide(self, _view: ClusterView) -> list[Decision]:
        return []


class Failing(Endless):
    name = "failing"

    def decide(self, view: ClusterView) -> list[Decision]:
        if view.running:
            raise ZeroDivisionError("nothing is left to share")
        return super().decide(view)

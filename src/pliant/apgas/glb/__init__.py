"""Lifeline-based global load balancing over places: a user gives a bag of tasks, and gets the result of them all."""

from __future__ import annotations

from pliant.apgas.bag import Bag, Result
from pliant.apgas.glb.balancing import Settings, Statistics
from pliant.apgas.glb.computation import Outcome, run
from pliant.apgas.glb.lifelines import CyclicHypercube, LifelineStrategy

__all__ = ["Bag", "CyclicHypercube", "LifelineStrategy", "Outcome", "Result", "Settings", "Statistics", "run"]

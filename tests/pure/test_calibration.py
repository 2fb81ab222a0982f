"""Costs that a simulation was given come back from its journal."""

from __future__ import annotations

import math

import pytest

from pliant.core import records as r
from pliant.core.state import Settings
from pliant.model.errors import TraceError
from pliant.plan.cost import ResizeCost
from pliant.policy.malleable import Malleable
from pliant.sim.calibration import Samples, collect, cost, fit
from pliant.sim.generate import malleable_batch
from pliant.sim.simulator import simulate

COST = ResizeCost(start_s=0.7, start_each_s=0.3, blocked_s=0.05, leave_s=0.2, answer_s=0.1)


def test_the_coefficients_of_simulated_runs_are_found_again() -> None:
    journals = []
    for seed in range(5):
        records: list[r.AnyRecord] = []
        simulate(
            malleable_batch(seed, malleable=1.0),
            8,
            Malleable(),
            Settings(cost=COST),
            records.append,  # type: ignore[arg-type]
        )
        journals.append(records)
    fitted = fit(collect(journals))
    assert all(each.cases > 10 for each in fitted.values())
    found = cost(fitted)
    for name in COST.__struct_fields__:
        assert getattr(found, name) == pytest.approx(getattr(COST, name), abs=1e-6), name
        assert fitted[name].error == pytest.approx(0.0, abs=1e-6)


def test_a_line_has_the_errors_of_the_textbook() -> None:
    # x = 1 2 3 4, y = 2 4 5 4: slope 0.7, intercept 2, residual variance 1.15
    fitted = fit(Samples(growth=[(1, 2.0), (2, 4.0), (3, 5.0), (4, 4.0)], blocked=[1.0, 3.0]))
    assert fitted["start_each_s"][:2] == pytest.approx((0.7, math.sqrt(1.15 / 5)))
    assert fitted["start_s"][:2] == pytest.approx((2.0, math.sqrt(1.15 * (1 / 4 + 2.5**2 / 5))))
    assert fitted["blocked_s"] == pytest.approx((2.0, 1.0, 2))
    assert cost(fitted).leave_s == ResizeCost().leave_s  # no case: the default stays


def test_without_an_expansion_there_is_nothing_to_fit() -> None:
    with pytest.raises(TraceError, match="no expansion"):
        fit(Samples(blocked=[0.1]))

"""Proved ranges stay proved when they are turned to the other class or to own units."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.data.splits import Standardiser
from gpsuite.experiments.guarantee import regression
from gpsuite.experiments.guarantee.checks import Searches
from gpsuite.methods.robustness.verdict import complement


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.3), (1e-20, 0.7), (0.0, 1.0), (1e-21, 1e-20)])
def test_the_other_class_has_a_range_that_is_no_narrower(low: float, high: float) -> None:
    first, last = complement(low, high)
    assert Fraction(first) <= 1 - Fraction(high) < 1 - Fraction(low) <= Fraction(last)


def test_ranges_stay_outside_when_units_change(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = (-0.1, 0.7)
    side, searches = SimpleNamespace(reason=""), Searches(Budget(), 9)
    proved = SimpleNamespace(lowest_proved=ends[0], highest_proved=ends[1], minimum=side, maximum=side)
    monkeypatch.setattr(regression, "prediction_range", lambda *_: [proved])
    posterior = SimpleNamespace(hyperparameters=SimpleNamespace(noise_variance=0.1))
    latent: Any = None
    for mean, scale in np.random.default_rng(0).normal(size=(50, 2)) * [1e3, 10.0]:
        factor = abs(float(scale))
        fitted: Any = SimpleNamespace(
            posterior=posterior,
            inputs=Standardiser(np.zeros(1), np.ones(1)),
            target=Standardiser(np.array([mean]), np.array([factor])),
            scale=factor,
        )
        given = fitted, latent, np.zeros((1, 1)), np.ones(1), [0.1], searches, 0.1
        low, high = regression.proved_ranges(*given)[0, 0]
        exact = [Fraction(float(mean)) + Fraction(factor) * Fraction(end) for end in ends]
        assert Fraction(float(low)) <= exact[0] < exact[1] <= Fraction(float(high))

"""Intervals of exchangeable rows: ranks, closed forms against refitted models, and coverage over many draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.conformal import LeaveOneOut, jackknife_plus, split_radius
from gpsuite.models.config import Hyperparameters
from gpsuite.models.radial import kappa, squared_distances


def test_the_radius_is_the_rank_that_the_theorem_names() -> None:
    errors = np.arange(1.0, 10.0)
    assert split_radius(errors, 0.9) == 9.0  # ceil(10 * .9) = 9, exactly: no rounding of 10 * .9 upwards
    assert split_radius(errors, 0.5) == 5.0
    assert split_radius(errors[:8], 0.9) == np.inf  # ceil(8.1) = 9 of 8


def test_jackknife_plus_takes_its_two_ranks() -> None:
    errors, predictions = np.arange(1.0, 20.0), np.zeros((19, 2))
    lower, upper = jackknife_plus(errors, predictions, 0.9)  # a = .05: ranks 1 and 19 of 19
    assert np.array_equal(lower, [-19.0, -19.0])
    assert np.array_equal(upper, [19.0, 19.0])
    lower, upper = jackknife_plus(errors, predictions, 0.8)  # a = .1: ranks 2 and 18
    assert (lower[0], upper[0]) == (-18.0, 18.0)
    assert jackknife_plus(errors[:18], predictions[:18], 0.9)[1][0] == np.inf


def test_leaving_a_row_out_in_closed_form_is_fitting_without_it() -> None:
    rng = np.random.default_rng(3)
    X, new = rng.normal(size=(25, 3)), rng.normal(size=(4, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=25)
    found = Hyperparameters(1.3, (0.7, 1.1, 2.0), 0.05)
    rows = np.array([2, 7, 24])
    models = LeaveOneOut.fit(X, y, rows, "matern52", found)

    def predict(kept: IntArray, at: FloatArray) -> FloatArray:
        def covariance(A: FloatArray, B: FloatArray) -> FloatArray:
            scales = np.array(found.lengthscales)
            return found.variance * np.asarray(kappa("matern52", squared_distances(A / scales, B / scales)))

        K = covariance(X[kept], X[kept]) + found.noise_variance * np.eye(len(kept))
        return np.asarray(covariance(at, X[kept]) @ np.linalg.solve(K, y[kept]))

    for place, row in enumerate(rows):
        kept = np.delete(np.arange(25), row)
        assert models.predictions(new)[place] == pytest.approx(predict(kept, new), rel=1e-9)
        assert models.errors[place] == pytest.approx(abs(y[row] - predict(kept, X[row : row + 1])[0]), rel=1e-9)
    assert models.mean(new) == pytest.approx(predict(np.arange(25), new), rel=1e-9)


def test_both_intervals_cover_as_often_as_they_say() -> None:
    rng, repetitions, coverage = np.random.default_rng(11), 600, 0.8
    held = {"split": 0, "jackknife": 0}
    for _ in range(repetitions):
        errors = np.abs(rng.standard_t(2, size=15))
        held["split"] += abs(rng.standard_t(2)) <= split_radius(errors, coverage)
        y = rng.normal(size=12)
        means = (y.sum() - y) / 11  # the model is the mean, whose leave-one-out predictions are these
        lower, upper = jackknife_plus(np.abs(y - means), means[:, None], coverage)
        held["jackknife"] += lower[0] <= rng.normal() <= upper[0]
    for count in held.values():  # one-sided, both together at 1e-3
        assert binom.cdf(count, repetitions, coverage) > 5e-4


@pytest.mark.parametrize("errors", [[], [np.nan], [-1.0]])
def test_errors_that_are_none_are_refused(errors: list[float]) -> None:
    with pytest.raises(ValueError, match="errors must be"):
        split_radius(np.array(errors), 0.9)


def test_ranks_are_exact_where_a_product_of_floats_is_not() -> None:
    assert 100 * 0.55 > 55.0
    assert split_radius(np.arange(1.0, 100.0), 0.55) == 55.0

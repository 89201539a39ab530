"""ConfidenceBand: exact confidence by repetition, the methods layer's numbers, and what an infinite band says."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.kernel_ridge import KernelRidge as ScikitRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVR

import gpsuite
from gpsuite.arrays import FloatArray
from gpsuite.methods.perturbation import KernelRidge, ModelClass, NormBall, confidence_region, norm_ball_band

ONE_IN_A_MILLION = 1e-6
GRID = np.linspace(0.0, 6.0, 25)[:, None]


def wave(X: FloatArray) -> FloatArray:
    return 50.0 + 10.0 * np.sin(X[:, 0])


def rows(n: int = 60, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (n, 1))
    return X, wave(X) + rng.laplace(size=n) * (1.0 + X[:, 0])


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("kind", ["few centres", "few centres and a constant", "linear"])
def test_region_and_band_hold_the_function_as_often_as_stated(kind: str) -> None:
    settings: dict[str, Any] = {
        "few centres": {"model": ScikitRidge(kernel="rbf", gamma=0.3, alpha=0.1), "centres": 4},
        "few centres and a constant": {"model": "lssvm", "centres": 4},
        "linear": {"model": "lssvm", "kernel": "linear"},
    }[kind]
    repetitions, inside, covered, finite = 300, 0, 0, 0
    X = np.random.default_rng(1).uniform(0.0, 6.0, (40, 1))
    for seed in range(repetitions):
        rng = np.random.default_rng(10**6 + seed)
        estimator = gpsuite.ConfidenceBand(**settings, confidence=0.8, m=20, random_state=seed)
        # the centres are chosen from inputs alone, so that a function of them can be drawn before the targets
        any_targets = estimator.fit(X, rng.standard_normal(40))
        weights = rng.standard_normal(any_targets.region_.objective.design.shape[1])
        function = _of_model(any_targets, weights)
        fitted = estimator.fit(X, function(X) + rng.standard_t(3, 40) * (0.1 + X[:, 0]))
        inside += fitted.contains(function)
        try:
            band = fitted.band(GRID)
        except ValueError:
            continue
        finite += 1
        covered += bool(((band.lower <= function(GRID)) & (function(GRID) <= band.upper)).all())
    low, high = binom.ppf([ONE_IN_A_MILLION, 1.0 - ONE_IN_A_MILLION], repetitions, 0.8)
    assert low <= inside <= high, "the confidence is exact"
    assert covered + (repetitions - finite) >= low, "an infinite band holds every function"
    assert finite > 0.9 * repetitions


def _of_model(fitted: Any, weights: FloatArray) -> Any:
    """Return a function of the model that does not change when the estimator is fitted again."""
    problem = fitted._problem

    def function(X: FloatArray) -> FloatArray:
        values = problem.rows(problem.inputs.transform(X))
        if problem.kernel is not None and problem.whitening is None:
            values = np.asarray(problem.kernel(values, problem.centres))
        return values @ weights[-values.shape[1] :]

    return function


def test_a_kernel_ridge_is_that_of_scikit_learn_and_of_the_methods_layer() -> None:
    X, y = rows()
    model = ScikitRidge(kernel="rbf", gamma=0.5, alpha=0.3)
    fitted = gpsuite.ConfidenceBand(model=model, centres=None, norm_bound=300.0, random_state=4).fit(X, y)
    np.testing.assert_allclose(fitted.predict(GRID), model.fit(X, y).predict(GRID), rtol=1e-8)
    assert fitted.offset_ == 0.0
    rng = np.random.default_rng(np.random.RandomState(4).randint(2**31 - 1))
    order, kernel = rng.permutation(len(X)), partial(rbf_kernel, gamma=0.5)
    own = ModelClass(partial(KernelRidge, penalty=0.3 / len(X)), kernel)
    region = confidence_region(X[order], y[order], own, q=10, m=100, rng=rng)
    alphas = np.random.default_rng(0).standard_normal((20, len(X)))
    np.testing.assert_array_equal(fitted.region_.ranks(alphas), region.ranks(alphas))
    assert region.features is not None
    ball = NormBall(kernel(X[order], X[order]), 300.0)
    band = norm_ball_band(region.quadratic, 10, region.features(GRID), ball, np.ones(len(GRID)))
    found = fitted.band(GRID)
    np.testing.assert_allclose(found.lower, band.lower, rtol=1e-9)
    np.testing.assert_allclose(found.upper, band.upper, rtol=1e-9)
    assert found.guaranteed


def test_units_do_not_matter() -> None:
    X, y = rows()
    band = gpsuite.ConfidenceBand().fit(X, y).band(GRID)
    other = gpsuite.ConfidenceBand().fit(100.0 * X + 3.0, 1e3 * y - 7.0).band(100.0 * GRID + 3.0)
    np.testing.assert_allclose(other.lower, 1e3 * band.lower - 7.0, rtol=1e-6)
    np.testing.assert_allclose(other.upper, 1e3 * band.upper - 7.0, rtol=1e-6)
    np.testing.assert_allclose(other.X, 100.0 * GRID + 3.0)


@pytest.mark.parametrize("model", ["svr", "lasso", SVR(C=10.0, gamma=0.5)], ids=str)
def test_a_band_of_sampled_functions_says_that_it_proves_nothing(model: Any) -> None:
    X, y = rows(30)
    fitted = gpsuite.ConfidenceBand(model=model, norm_bound=300.0, rays=20, m=20).fit(X, y)
    band = fitted.band(GRID)
    assert not band.guaranteed
    assert "Nothing is proved of it" in repr(band)
    assert (band.lower <= band.centre).all()
    assert fitted.contains(fitted)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"centres": None}, "infinite at 25 of 25 inputs; one coefficient per row .* give centres=10, .* norm_bound="),
        ({"model": ScikitRidge(kernel="rbf"), "centres": None}, "give centres=10"),
        ({"centres": 14, "lengthscale": 0.3, "confidence": 0.99}, r"take fewer centres \(centres=\d\)"),
        (
            {"model": "svr"},
            "the band is infinite: one coefficient per row leaves some directions without an end; give norm",
        ),
        ({"model": "lasso"}, "give norm_bound="),
        ({"model": "lasso", "norm_bound": 1e-3}, "norm_bound=0.001: the estimate's norm is .*. Take a larger bound"),
    ],
)
def test_an_infinite_band_says_what_to_change(settings: dict[str, Any], message: str) -> None:
    fitted = gpsuite.ConfidenceBand(**settings).fit(*rows(30))
    with pytest.raises(ValueError, match=message) as found:
        fitted.band(GRID)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "tree"}, "model='tree': must be ridge, svr, lasso, lssvm, or a KernelRidge or SVR of scikit-learn"),
        ({"kernel": "cubic"}, "kernel='cubic': must be rbf, a function, or linear with model='lssvm'"),
        ({"confidence": 0.955}, "confidence=0.955: must be a multiple of 1/m = 1/100 between 0 and 1"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"centres": 0}, "centres=0: one or more, or None"),
        ({"model": ScikitRidge(kernel="precomputed")}, "kernel='precomputed' has no values at other inputs"),
    ],
)
def test_wrong_settings_are_one_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gpsuite.ConfidenceBand(**settings).fit(*rows(30))


def test_functions_and_values_are_tested() -> None:
    X, y = rows()
    fitted = gpsuite.ConfidenceBand(centres=None, confidence=0.99).fit(X, y)
    assert fitted.contains(wave)
    assert fitted.contains(wave(X))
    assert not fitted.contains(lambda X: wave(X) + 20.0)
    few = gpsuite.ConfidenceBand(centres=3).fit(X, y)
    with pytest.raises(ValueError, match=r"the function is not .* a combination of 3 kernel functions: off by"):
        few.contains(wave)
    for wrong in (wave(X)[1:], np.full(len(X), np.nan)):
        with pytest.raises(ValueError, match="finite values of the function at the 60 rows are needed"):
            fitted.contains(wrong)


def test_rows_of_equal_inputs_are_averaged_and_copies_count_once() -> None:
    X, y = rows(30)
    twice, both = np.concatenate([X, X[:5]]), np.concatenate([y, y[:5] + 1.0])
    merged = np.concatenate([y[:5] + 0.5, y[5:]])
    band = gpsuite.ConfidenceBand().fit(X, merged).band(GRID)
    np.testing.assert_allclose(gpsuite.ConfidenceBand().fit(twice, both).band(GRID).lower, band.lower, rtol=1e-9)
    copied = gpsuite.ConfidenceBand().fit(np.tile(X, (2, 1)), np.tile(merged, 2)).band(GRID)
    np.testing.assert_array_equal(copied.lower, band.lower)


def test_a_band_is_short_a_table_and_a_plot() -> None:
    X, y = rows()
    table = pd.DataFrame({"speed": X[:, 0], "load": np.random.default_rng(0).uniform(size=len(X))})
    band = gpsuite.ConfidenceBand(centres=5).fit(table, y).band(table)
    assert "holds the function at all 60 inputs with probability 90 %, if it is" in repr(band)
    assert band.to_frame().columns.tolist() == ["speed", "load", "centre", "lower", "upper"]
    assert band.plot().get_xlabel() == "rows by rising estimate"
    axes = gpsuite.ConfidenceBand().fit(X, y).band(GRID).plot()
    assert axes.get_xlabel() == "x0"
    axes.figure.clear()

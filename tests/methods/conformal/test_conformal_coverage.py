"""Coverage over repeated draws of every interval and set, and faults that the same check must notice.

Each check is one binomial test: given that the guarantee holds, so few hits have a probability below `CHANCE`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.conformal import (
    ClassCalibration,
    LeaveOneOutSpread,
    adaptive_scores,
    class_sets,
    follows_spread,
    intervals,
    jackknife_plus,
    label_scores,
    missed_bound,
    split_radii,
    split_radius,
    weighted_radii,
)
from gpsuite.models.config import Hyperparameters

CHANCE = 1e-4
COVERAGE = 0.9
REPETITIONS = [600, pytest.param(20_000, marks=pytest.mark.slow)]
Case = Callable[[np.random.Generator], bool]


def short(case: Case, repetitions: int, promised: float = COVERAGE) -> bool:
    """Return whether there are too few hits for what is promised."""
    rng = np.random.default_rng(20261128)
    hits = sum(case(rng) for _ in range(repetitions))
    return bool(binom.cdf(hits, repetitions, promised) < CHANCE)


def split(rng: np.random.Generator) -> bool:
    errors = np.abs(rng.standard_t(2, size=20))
    return bool(errors[0] <= split_radius(errors[1:], COVERAGE))


def by_group(rng: np.random.Generator, weighted: bool = True) -> bool:
    """A row of a new group; large groups have small errors."""
    sizes = rng.choice([1, 12], size=30)
    scale = np.where(sizes == 1, 3.0, 0.5)
    which = np.repeat(np.arange(29), sizes[1:])
    errors = np.abs(rng.normal(size=len(which))) * scale[1:][which]
    weights = 1.0 / sizes[1:][which] if weighted else np.full(len(which), 1.0)
    return bool(abs(rng.normal()) * scale[0] <= weighted_radii(errors, weights, np.ones(1), COVERAGE)[0])


def shifted(rng: np.random.Generator, weighted: bool = True) -> bool:
    """Errors grow with x, and new rows have larger x: their density is 2 x, that of the others 1."""
    x, new = rng.uniform(size=60), np.sqrt(rng.uniform())
    errors = np.abs(rng.normal(size=60)) * x**2
    weights, own = (2.0 * x, 2.0 * new) if weighted else (np.ones(60), 1.0)
    return bool(abs(rng.normal()) * new**2 <= weighted_radii(errors, weights, np.array([own]), COVERAGE)[0])


def three_classes(rng: np.random.Generator, rows: int) -> tuple[FloatArray, IntArray]:
    """Return probabilities that are wrong by a factor, and classes; the last is rare and hard to tell."""
    logits = rng.normal(size=(rows, 3)) * 1.5 + [1.5, 0.5, -1.0]
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    told = np.exp(2.0 * logits) / np.exp(2.0 * logits).sum(axis=1, keepdims=True)
    return told, (true.cumsum(axis=1) < rng.uniform(size=(rows, 1))).sum(axis=1)


def marginal_set(rng: np.random.Generator, rows: int = 80) -> bool:
    p, truth = three_classes(rng, rows)
    u = rng.uniform(size=rows)
    found = ClassCalibration.fit(p[1:], truth[1:], u[1:], COVERAGE)
    return bool(class_sets(adaptive_scores(p[:1], u[:1]), found.marginal, p[:1])[0, truth[0]])


def rare_class(rng: np.random.Generator, pooled: bool = False) -> bool:
    """A new row of the rare class."""
    p, truth = three_classes(rng, 240)
    place = int(np.argmax(truth == 2))
    others = np.delete(np.arange(240), place)
    each = ClassCalibration.fit(p[others], truth[others], np.ones(239), COVERAGE).each
    if pooled:
        each = np.full(3, split_radius(label_scores(p[others])[np.arange(239), truth[others]], COVERAGE))
    return bool(class_sets(label_scores(p[place : place + 1]), each, p[place : place + 1])[0, 2])


def jackknife_of_spread(rng: np.random.Generator) -> bool:
    """The noise grows with x, the model's does not."""
    X = rng.uniform(-2.0, 2.0, size=(26, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * (3.0 + X[:, 0]) * rng.normal(size=26)
    found = Hyperparameters(1.0, (0.7,), 0.05)
    spread = LeaveOneOutSpread.fit(X[1:], y[1:], np.arange(5, 25), "squared_exponential", found)
    new = X[:1]
    low, high = jackknife_plus(spread.scores, spread.models.predictions(new), 0.8, spread.deviations(new))
    return bool(low[0] <= y[0] <= high[0])


@pytest.mark.parametrize("repetitions", REPETITIONS)
@pytest.mark.parametrize("case", [split, by_group, shifted, marginal_set, rare_class])
def test_new_rows_are_held_as_often_as_promised(case: Case, repetitions: int) -> None:
    assert not short(case, repetitions)


@pytest.mark.parametrize("repetitions", REPETITIONS)
def test_jackknife_of_the_models_spread_holds_what_it_promises(repetitions: int) -> None:
    assert not short(jackknife_of_spread, repetitions, 0.8)


def test_a_rank_too_low_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = intervals.quantile_rank
    monkeypatch.setattr(intervals, "quantile_rank", lambda n, coverage: right(n, coverage) - 1)
    assert short(split, 2000)


def test_one_threshold_for_all_classes_is_noticed() -> None:
    assert short(lambda rng: rare_class(rng, pooled=True), 600)


def test_ignored_weights_are_noticed() -> None:
    assert short(lambda rng: shifted(rng, weighted=False), 600)
    assert short(lambda rng: by_group(rng, weighted=False), 600)


def test_randomised_sets_do_not_hold_much_more_than_promised() -> None:
    rng = np.random.default_rng(3)
    hits = sum(marginal_set(rng, 20) for _ in range(1500))  # n = 19: 0.9 (n + 1) is a whole number
    assert binom.sf(hits, 1500, COVERAGE) > CHANCE


def test_equal_weights_are_no_weights() -> None:
    rng = np.random.default_rng(0)
    for n in (5, 9, 19, 40, 99):
        errors = rng.uniform(size=n)
        for coverage in (0.5, 0.8, 0.9, 0.95):
            found = weighted_radii(errors, np.full(n, 0.3), np.full(2, 0.3), coverage)
            assert found.tolist() == [split_radius(errors, coverage)] * 2


def test_a_row_unlike_all_others_has_no_finite_radius() -> None:
    errors, weights = np.arange(1.0, 101.0), np.ones(100)
    assert weighted_radii(errors, weights, np.array([0.0, 1.0, 12.0]), 0.9).tolist() == [90.0, 91.0, np.inf]
    assert weighted_radii(errors, np.zeros(100), np.zeros(1), 0.9)[0] == np.inf
    for wrong in (np.full(100, -1.0), np.full(100, np.nan), np.ones(99)):
        with pytest.raises(ValueError, match="weights"):
            weighted_radii(errors, wrong, np.ones(1), 0.9)


def test_few_rows_of_a_class_are_in_every_set() -> None:
    kinds = np.array([0] * 9 + [1] * 8)
    assert split_radii(np.arange(17.0), kinds, 3, 0.9).tolist() == [8.0, np.inf, np.inf]
    with pytest.raises(ValueError, match="kinds"):
        split_radii(np.arange(17.0), kinds + 2, 3, 0.9)


def test_adaptive_scores_are_the_probability_before_a_class_and_a_share_of_its_own() -> None:
    p = np.array([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]])
    assert adaptive_scores(p, np.ones(2)) == pytest.approx(np.array([[1.0, 0.5, 0.8], [0.4, 1.0, 0.8]]))
    assert adaptive_scores(p, np.zeros(2)) == pytest.approx(np.array([[0.8, 0.0, 0.5], [0.0, 0.8, 0.4]]))
    for wrong in (np.ones(3), np.array([0.5, 1.5])):
        with pytest.raises(ValueError, match="u:"):
            adaptive_scores(p, wrong)
    with pytest.raises(ValueError, match="probabilities"):
        label_scores(-p)


def test_no_set_is_empty() -> None:
    p = np.array([[0.2, 0.5, 0.3]])
    assert class_sets(label_scores(p), np.zeros(3), p).tolist() == [[False, True, False]]
    assert class_sets(label_scores(p), np.inf, p).all()


def test_the_share_that_a_threshold_misses_is_bounded_over_its_rows() -> None:
    rng, bounds = np.random.default_rng(8), missed_bound(30, COVERAGE, 0.05)
    misses = [1.0 - split_radius(rng.uniform(size=30), COVERAGE) for _ in range(2000)]
    assert 1e-3 < binom.cdf(np.count_nonzero(np.array(misses) > bounds), 2000, 0.05) < 1.0 - 1e-3
    assert missed_bound(8, COVERAGE, 0.05) == missed_bound(0, COVERAGE, 0.05) == 0.0
    assert missed_bound(100_000, COVERAGE, 0.05) == pytest.approx(0.1, abs=0.003)
    with pytest.raises(ValueError, match="delta"):
        missed_bound(30, COVERAGE, 0.0)


def test_leaving_a_row_out_with_its_spread_is_fitting_without_it() -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    rng = np.random.default_rng(3)
    X, new = rng.normal(size=(25, 2)), rng.normal(size=(4, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=25)
    rows, noise = np.array([2, 7, 24, 0]), 0.05
    spread = LeaveOneOutSpread.fit(X, y, rows, "squared_exponential", Hyperparameters(1.3, (0.7, 1.1), noise))
    kernel = ConstantKernel(1.3) * RBF([0.7, 1.1]) + WhiteKernel(noise)
    means: list[FloatArray] = []
    deviations: list[FloatArray] = []
    scores: list[float] = []
    for row in rows:
        kept = np.delete(np.arange(25), row)
        model = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X[kept], y[kept])
        mean, deviation = model.predict(new, return_std=True)
        own, own_deviation = model.predict(X[row : row + 1], return_std=True)
        means, deviations = [*means, mean], [*deviations, deviation]
        scores.append(abs(y[row] - own[0]) / own_deviation[0])
    assert spread.models.predictions(new) == pytest.approx(np.array(means), rel=1e-8, abs=1e-10)
    assert spread.deviations(new) == pytest.approx(np.array(deviations), rel=1e-8)
    assert spread.scores == pytest.approx(np.array(scores), rel=1e-8)


def test_the_spread_is_followed_where_it_separates_errors() -> None:
    rng = np.random.default_rng(5)
    deviations = np.where(np.arange(200) < 100, 0.1, 3.0)
    noise = np.abs(rng.normal(size=200))
    assert follows_spread(noise * deviations, noise, COVERAGE)
    assert not follows_spread(noise, noise / rng.permutation(deviations), COVERAGE)
    assert not follows_spread(np.zeros(20), np.zeros(20), COVERAGE)


def test_deviations_must_be_positive_and_fit() -> None:
    for wrong in (np.zeros((3, 2)), np.ones((2, 2))):
        with pytest.raises(ValueError, match="deviations"):
            jackknife_plus(np.ones(3), np.zeros((3, 2)), 0.5, wrong)

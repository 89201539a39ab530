"""Costs before a training begins: golden seconds at a given speed. Their constants were fitted to timings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import norm

from gpsuite.methods.pac_bayes import cost
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, HyperparameterGrid
from gpsuite.methods.pac_bayes.cost import Cost, full_gp_cost, sparse_gp_cost
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior
from gpsuite.methods.pac_bayes.sparse.algebra import STORED_BYTES
from gpsuite.models.config import Hyperparameters
from tests.arrays import Array

Data = tuple[Array, Array]
LOSS = BandLoss(0.6)


def test_metrics_follow_their_definitions(small_data: Data) -> None:
    X, y = small_data[0][:110], small_data[1][:110]
    Xtest, ytest = small_data[0][110:], small_data[1][110:]
    h = PAPER_GRID.rounded(Hyperparameters(1.03, (1.7,), 0.21))
    result = evaluate(FullGPPosterior.fit(h, X, y), Xtest, ytest, LOSS, 0.01)
    posterior = FullGPPosterior.fit(h, X, y)
    mean, variance = posterior.predict(Xtest)
    draws = mean + np.sqrt(variance) * np.random.default_rng(0).normal(size=(20000, 40))
    assert result.gibbs_risk_test == pytest.approx(np.mean(np.abs(draws - ytest) > 0.6), abs=0.003)
    assert result.bayes_risk_test == np.mean(np.abs(mean - ytest) > 0.6)
    assert result.bayes_risk_train == np.mean(np.abs(posterior.train_mean - y) > 0.6)
    assert result.mse_test == pytest.approx(np.mean((mean - ytest) ** 2))
    assert result.mse_train == pytest.approx(np.mean((posterior.train_mean - y) ** 2))
    noisy = np.sqrt(variance + h.noise_variance)
    assert result.nll_test == pytest.approx(-norm.logpdf(ytest, mean, noisy).mean())
    assert result.kl_over_n == posterior.kl / 110
    assert result.n_test == 40
    assert result.gibbs_risk_train <= result.bound_kl <= result.bound_sqrt


def test_hyperparameters_off_the_grid_are_not_certified(small_data: Data) -> None:
    with pytest.raises(ValueError, match="rounded to the grid"):
        evaluate(FullGPPosterior.fit(Hyperparameters(1.234, (1.0,), 0.1), *small_data), *small_data, LOSS, 0.01)


@pytest.mark.parametrize("decimals", [0, 1, 3])
def test_another_grid_has_its_own_penalty(small_data: Data, decimals: int) -> None:
    grid = HyperparameterGrid(decimals)
    h = grid.rounded(Hyperparameters(2.9, (1.7,), 0.21))
    found = evaluate(FullGPPosterior.fit(h, *small_data), *small_data, LOSS, 0.01, grid)
    assert found.certificate.penalty.log_theta == pytest.approx(2 * np.log(12 * 10**decimals + 1))
    if decimals > 2:
        with pytest.raises(ValueError, match="rounded to the grid"):
            evaluate(FullGPPosterior.fit(h, *small_data), *small_data, LOSS, 0.01)


def test_choosing_among_settings_costs_their_logarithm(small_data: Data) -> None:
    h = PAPER_GRID.rounded(Hyperparameters(1.03, (1.7,), 0.21))
    alone = evaluate(FullGPPosterior.fit(h, *small_data), *small_data, LOSS, 0.01)
    chosen = evaluate(FullGPPosterior.fit(h, *small_data), *small_data, LOSS, 0.01, n_settings=10)
    assert chosen.certificate.penalty.total - alone.certificate.penalty.total == pytest.approx(np.log(10))
    assert chosen.bound_kl > alone.bound_kl
    assert chosen.lower_kl < alone.lower_kl < alone.gibbs_risk_train


FITTED = 1e-3
"""Every term of a cost is more than this share of it in one of the settings: a wrong one shows."""


@pytest.fixture(autouse=True)
def one_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "flops_per_second", lambda: 1e10)


@pytest.mark.parametrize(
    ("n", "n_test", "losses", "evaluation", "certificate"),
    [(100, 0, 1, 6e-4, 4e-4), (100, 2000, 3, 6e-4, 6.4e-3), (10_000, 0, 1, 203.0, 103.0)],
)
def test_seconds_of_a_full_gp(n: int, n_test: int, losses: int, evaluation: float, certificate: float) -> None:
    found = full_gp_cost(n, n_test, losses)
    assert (found.evaluation, found.certificate) == pytest.approx((evaluation, certificate), rel=FITTED)


def test_one_loss_is_the_default() -> None:
    assert full_gp_cost(100, 2000) == full_gp_cost(100, 2000, 1)
    assert sparse_gp_cost(300, 5000, 200, 2, "fitc") == sparse_gp_cost(300, 5000, 200, 2, "fitc", 1)


@pytest.mark.parametrize(
    ("kind", "small", "many_rows"),
    [("bound", 0.021396, 139.0), ("free_form", 0.016596, 83.0), ("fitc", 0.017796, 97.0), ("vfe", 0.015996, 76.0)],
)
def test_seconds_of_a_sparse_gp(kind: str, small: float, many_rows: float) -> None:
    assert sparse_gp_cost(300, 5000, 200, 2, kind).evaluation == pytest.approx(small, rel=FITTED)
    assert sparse_gp_cost(100_000, 1000, 1000, 20, kind).evaluation == pytest.approx(many_rows, rel=FITTED)
    for losses, certificate in ((1, 0.078036), (2, 0.127732)):
        found = sparse_gp_cost(300, 5000, 200, 2, kind, losses)
        assert found.certificate == pytest.approx(certificate, rel=FITTED)


def test_arrays_that_are_not_stored_are_computed_again() -> None:
    """Two n x M arrays are: just below their limit an evaluation is about 1.4 times cheaper than just above."""
    rows = STORED_BYTES // (8 * 100 * 2)
    below, above = (sparse_gp_cost(n, 0, 100, 1, "vfe").evaluation for n in (rows, rows + 1))
    assert 1.2 < above / below < 1.4


def test_the_shortest_training_is_an_evaluation_and_a_certificate() -> None:
    found = Cost(2.0, 5.0)
    assert (found.after, found.least) == (2.5, 7.0)


def test_the_speed_is_a_share_of_what_matrix_products_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that says one second passed: .65 times the multiplications and additions of the timed products."""
    monkeypatch.undo()
    ticks: Iterator[float] = iter((3.0, 4.0))
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(ticks))  # type: ignore[attr-defined]
    work = 2 * cost._SIZE**3 * cost._REPEATS
    assert cost.flops_per_second.__wrapped__() == pytest.approx(0.65 * work)
    monkeypatch.undo()
    assert 1e7 < cost.flops_per_second() < 1e13

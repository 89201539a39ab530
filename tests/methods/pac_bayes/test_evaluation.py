import numpy as np
import pytest
from scipy.stats import norm

from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, HyperparameterGrid
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior
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
        evaluate(
            FullGPPosterior.fit(Hyperparameters(1.234, (1.0,), 0.1), *small_data), *small_data, LOSS, 0.01
        )


@pytest.mark.parametrize("decimals", [0, 1, 3])
def test_another_grid_pays_its_own_penalty(small_data: Data, decimals: int) -> None:
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

"""Certificates of full GPs cover the rounding of their kernel: `gpsuite verify` computes it in extended precision."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.certificates.plain_risk import largest_risk, penalty, risk_and_kl
from gpsuite.certificates.risk import Goal, Predictor
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID
from gpsuite.methods.pac_bayes.evaluation import certify_posterior
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior
from gpsuite.models.config import Hyperparameters
from tests.arrays import Array


def near_copies(seed: int, columns: int) -> tuple[Array, Array]:
    """Rows of four patterns of standardised dummy columns, their copies 1e-6 apart."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 2, (4, columns)).astype(float)
    kind = rng.integers(4, size=400)
    X = patterns[kind]
    X = X[:, X.std(0) > 0]
    y = rng.normal(size=4)[kind]
    X = (X - X.mean(0)) / X.std(0) + 1e-6 * np.random.default_rng(9).normal(size=X.shape)
    return X, (y - y.mean()) / y.std()


@pytest.mark.parametrize(
    ("seed", "columns", "noise"), [(1, 30, 1e-4), (2, 30, 1e-4), (0, 10, 1e-4), (0, 3, 1e-2)]
)
def test_inputs_far_from_their_mean_and_close_to_each_other(seed: int, columns: int, noise: float) -> None:
    X, y = near_copies(seed, columns)
    hyperparameters = PAPER_GRID.rounded(Hyperparameters(1.0, (float(np.exp(-6)),), noise))
    posterior = FullGPPosterior.fit(hyperparameters, X, y)
    found = certify_posterior(posterior, BandLoss(0.3), 0.01)
    predictor = Predictor(
        "full GP",
        hyperparameters.variance,
        noise,
        0.0,
        0.0,
        {"lengthscales": np.array(hyperparameters.lengthscales)},
    )
    risk, _, kl = risk_and_kl(predictor, X, y, Goal("band01", 0.3, "own"), 0.3, None)
    assert abs(kl - posterior.kl) <= posterior.rounding(BandLoss(0.3)).kl < 1e-3 * (1 + kl)
    assert abs(risk - posterior.gibbs_risk(BandLoss(0.3))) <= posterior.rounding(BandLoss(0.3)).risk + 1e-13
    assert kl <= (found.penalty.kl + found.penalty.rounding) * (1 + 1e-13)
    assert largest_risk(risk, penalty(kl, len(y), 2, 0.01)) <= found.bound_kl + 1e-13


@pytest.mark.parametrize("noise", [1e-3, 0.3])
def test_the_rounding_is_as_large_as_stated(noise: float) -> None:
    """|E| = eps (N s (1 + ulps) + noise): |E| (|alpha|^2 + N / noise) in the KL, both moments' slopes in the risk."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(25, 2)), rng.normal(size=25)
    posterior = FullGPPosterior.fit(Hyperparameters(1.7, (0.8,), noise), X, y)
    found, alpha = posterior.rounding(BandLoss(0.4)), posterior.alpha
    error = 2.0**-52 * (25 * 1.7 * (1.0 + posterior.ulps) + noise)
    assert found.kl == pytest.approx(error * (alpha @ alpha + 25 / noise), rel=1e-9, abs=0.0)
    step, loss = 1e-5, BandLoss(0.4)
    mean, variance = posterior.train_mean, posterior.train_variance
    by_mean, by_variance = (
        (loss.expected(y, mean + s * step, variance + t * step * variance)
         - loss.expected(y, mean - s * step, variance - t * step * variance)) / (2 * step)
        for s, t in ((1.0, 0.0), (0.0, 1.0))
    )  # fmt: skip
    slopes = np.linalg.norm(by_mean) * np.linalg.norm(alpha) + np.abs(by_variance / variance).sum()
    assert found.risk == pytest.approx(error * slopes / 25, rel=1e-4, abs=0.0)

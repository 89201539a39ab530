import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from gpsuite.methods.pac_bayes.bounds import PAPER_GRID
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, se_kernel
from gpsuite.methods.pac_bayes.sparse import algebra
from gpsuite.methods.pac_bayes.sparse.algebra import BLOCK, JITTERS, InducingKernel
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.models.config import Hyperparameters
from gpsuite.models.linalg import NotPositiveDefiniteError
from tests.arrays import Array

Data = tuple[Array, Array]
ALPHAS = [0.0, 0.5, 1.0]
H = Hyperparameters(1.2, (0.9, 1.4, 2.0), 0.2)
Z = np.random.default_rng(5).normal(size=(7, 3)) * 1.5


def _textbook(X: Array, y: Array, new: Array, alpha: float) -> tuple[float, Array, Array]:
    """Eq. 9 to 11 as they stand: KL, mean and variance at new inputs."""
    Kzz, Kzx, Kzn = se_kernel(Z, Z, H), se_kernel(Z, X, H), se_kernel(Z, new, H)
    prior = np.linalg.inv(Kzz)
    noise = alpha * (H.variance - np.einsum("ij,ik,kj->j", Kzx, prior, Kzx)) + H.noise_variance
    Q = np.linalg.inv(Kzz + (Kzx / noise) @ Kzx.T)
    a, B = Kzz @ Q @ Kzx @ (y / noise), Kzz @ Q @ Kzz
    log_ratio = np.linalg.slogdet(Kzz)[1] - np.linalg.slogdet(B)[1]
    kl = 0.5 * (np.trace(prior @ B) + a @ prior @ a - len(Z) + log_ratio)
    gain = prior @ Kzn
    variance = H.variance - np.einsum("ij,ij->j", Kzn, gain) + np.einsum("ij,ik,kj->j", gain, B, gain)
    return kl, gain.T @ a, variance


@pytest.mark.parametrize("alpha", ALPHAS)
def test_equals_the_equations_of_the_paper(small_data: Data, alpha: float) -> None:
    X, y = small_data
    new = np.random.default_rng(6).normal(size=(9, 3))
    posterior = SparseGPPosterior.fit(H, X, y, Z, alpha)
    kl, mean, variance = _textbook(X, y, new, alpha)
    assert posterior.kl == pytest.approx(kl, rel=1e-10)
    np.testing.assert_allclose(posterior.predict(new), (mean, variance), atol=1e-11)
    _, mean, variance = _textbook(X, y, X, alpha)
    np.testing.assert_allclose((posterior.train_mean, posterior.train_variance), (mean, variance), atol=1e-11)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_inducing_inputs_at_the_data_give_the_full_gp(small_data: Data, alpha: float) -> None:
    X, y = small_data[0][:40] * 3.0, small_data[1][:40]
    full, sparse = FullGPPosterior.fit(H, X, y), SparseGPPosterior.fit(H, X, y, X, alpha)
    assert sparse.kl == pytest.approx(full.kl, rel=1e-9)
    np.testing.assert_allclose(sparse.train_mean, full.train_mean, atol=1e-9)
    np.testing.assert_allclose(sparse.train_variance, full.train_variance, atol=1e-9)
    np.testing.assert_allclose(sparse.predict(small_data[0]), full.predict(small_data[0]), atol=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_one_inducing_input_has_the_posterior_by_hand(small_data: Data, alpha: float) -> None:
    X, y = small_data
    k = se_kernel(Z[:1], X, H)[0] / np.sqrt(H.variance)
    noise = H.noise_variance + alpha * (H.variance - k**2)
    precision = 1.0 + np.sum(k**2 / noise)
    b = np.sum(k * y / noise) / precision
    posterior = SparseGPPosterior.fit(H, X, y, Z[:1], alpha)
    assert posterior.kl == pytest.approx(0.5 * (np.log(precision) - 1.0 + 1.0 / precision + b * b), rel=1e-13)
    np.testing.assert_allclose(posterior.train_mean, k * b, atol=1e-14)


def test_blocks_do_not_show(small_data: Data) -> None:
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(BLOCK + 3, 3)), rng.normal(size=BLOCK + 3)
    order = rng.permutation(BLOCK + 3)
    posterior, shuffled = (SparseGPPosterior.fit(H, X[o], y[o], Z, 1.0) for o in (slice(None), order))
    assert posterior.kl == pytest.approx(shuffled.kl, rel=1e-12)
    np.testing.assert_allclose(posterior.train_mean[order], shuffled.train_mean, atol=1e-12)
    np.testing.assert_allclose(posterior.train_variance[order], shuffled.train_variance, atol=1e-12)


def test_order_of_the_inducing_inputs_does_not_matter(small_data: Data) -> None:
    one, other = (SparseGPPosterior.fit(H, *small_data, z, 0.5) for z in (Z, Z[::-1]))
    assert one.kl == pytest.approx(other.kl, rel=1e-12)
    np.testing.assert_allclose(one.train_variance, other.train_variance, atol=1e-13)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_repeated_inducing_inputs_need_a_jitter_that_is_recorded(small_data: Data, alpha: float) -> None:
    single = SparseGPPosterior.fit(H, *small_data, Z, alpha)
    twice = SparseGPPosterior.fit(H, *small_data, np.vstack([Z, Z, Z[:2]]), alpha)
    assert single.inducing.jitter == 0.0
    assert 0.0 < twice.inducing.jitter <= JITTERS[-1]
    # the doubled variables carry nothing new
    assert twice.kl == pytest.approx(single.kl, rel=1e-6)
    np.testing.assert_allclose(twice.train_mean, single.train_mean, atol=1e-6)
    np.testing.assert_allclose(twice.train_variance, single.train_variance, atol=1e-6)


def test_a_matrix_that_needs_more_than_the_largest_jitter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A millionth of the variance at most: K_ZZ off by three times that has no factor, off by a third has one."""
    factors = algebra.log_kernel_factors  # type: ignore[attr-defined]

    def too_alike(excess: float) -> None:
        def moved(scaled: Array, log_variance: float) -> tuple[Array, Array]:
            return factors(scaled, log_variance + np.log1p(excess))

        monkeypatch.setattr(algebra, "log_kernel_factors", moved)

    theta = np.log([2.0, 1.0, 0.1])
    too_alike(0.3e-6)
    assert InducingKernel.factorise(np.zeros((2, 1)), theta).jitter == 1e-6
    too_alike(3e-6)
    with pytest.raises(NotPositiveDefiniteError):
        InducingKernel.factorise(np.zeros((2, 1)), theta)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_nearly_constant_kernel_stays_finite(small_data: Data, alpha: float) -> None:
    posterior = SparseGPPosterior.fit(Hyperparameters(1.0, (300.0,), 0.1), *small_data, Z, alpha)
    y = small_data[1]
    assert 0.0 <= posterior.kl < 100.0
    assert np.all((posterior.train_variance >= 0.0) & (posterior.train_variance < 1.0))
    assert np.mean((y - posterior.train_mean) ** 2) <= np.mean(y**2)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n_inducing", [12, 30, 60])
def test_dense_inducing_inputs_of_a_smooth_kernel_give_the_full_gp(alpha: float, n_inducing: int) -> None:
    # K_ZZ has condition 3e15 at 12 inducing inputs and is numerically singular beyond
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(200, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=200)
    h = Hyperparameters(1.0, (3.0,), 0.05)
    sparse = SparseGPPosterior.fit(h, X, y, np.linspace(-3.0, 3.0, n_inducing)[:, None], alpha)
    full = FullGPPosterior.fit(h, X, y)
    assert sparse.kl == pytest.approx(full.kl, rel=1e-6)
    np.testing.assert_allclose(sparse.train_mean, full.train_mean, atol=1e-7)
    np.testing.assert_allclose(sparse.train_variance, full.train_variance, atol=1e-7)


def test_a_jitter_that_is_not_enough_is_an_error() -> None:
    with pytest.raises(NotPositiveDefiniteError, match="K_ZZ"):
        InducingKernel.factorise(np.array([[np.nan], [0.0]]), np.zeros(3))


def test_numbers_that_overflow_are_an_error(small_data: Data) -> None:
    X, y = small_data
    small = replace(H, variance=1e-150, noise_variance=1e-150)
    with pytest.raises(NotPositiveDefiniteError, match=r"KL|positive definite"), np.errstate(all="ignore"):
        SparseGPPosterior.fit(small, X, y * 1e99, Z, 1.0)


def test_memory_does_not_grow_with_points_times_inducing_inputs() -> None:
    rng = np.random.default_rng(9)
    n, M = 20000, 64
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    tracemalloc.start()
    SparseGPPosterior.fit(Hyperparameters(1.0, (1.0,), 1.0), X, y, X[:M], 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * n * M


def test_is_certified_like_any_posterior(small_data: Data) -> None:
    posterior = SparseGPPosterior.fit(PAPER_GRID.rounded(H), *small_data, Z, 1.0)
    evaluation = evaluate(posterior, *small_data, BandLoss(0.6), 0.01)
    assert evaluation.gibbs_risk_train == evaluation.gibbs_risk_test == posterior.gibbs_risk(BandLoss(0.6))
    assert evaluation.gibbs_risk_train < evaluation.bound_kl < evaluation.bound_sqrt
    assert evaluation.kl_over_n == posterior.kl / 150


@pytest.mark.parametrize(
    ("inducing", "alpha", "message"),
    [
        (Z[:, :2], 1.0, r"expected Z \[M, 3\]"),
        (Z[:0], 1.0, "M >= 1"),
        (Z[0], 1.0, "expected Z"),
        (Z * np.inf, 1.0, "Z must be finite"),
        (Z, -0.1, "alpha"),
        (Z, 1.1, "alpha"),
        (Z, np.nan, "alpha"),
    ],
)
def test_rejects_what_does_not_fit(small_data: Data, inducing: Array, alpha: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparseGPPosterior.fit(H, *small_data, inducing, alpha)


def test_rejects_wrong_numbers_of_lengthscales(small_data: Data) -> None:
    with pytest.raises(ValueError, match="2 lengthscales for 3 inputs"):
        SparseGPPosterior.fit(Hyperparameters(1.0, (1.0, 1.0), 1.0), *small_data, Z, 1.0)

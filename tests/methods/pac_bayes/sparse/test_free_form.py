from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.losses import LOSSES, BandLoss, Loss
from gpsuite.methods.pac_bayes.posteriors import se_kernel
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search
from gpsuite.methods.pac_bayes.sparse.algebra import BLOCK
from gpsuite.methods.pac_bayes.sparse.free_form import (
    FreeFormObjective,
    FreeFormPosterior,
    TrainedFreeForm,
    WhitenedGaussian,
    train_free_form,
)
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse.training import train_sparse_gp
from gpsuite.models.config import Hyperparameters
from gpsuite.models.linalg import NotPositiveDefiniteError
from tests.arrays import Array

Data = tuple[Array, Array]
LOSS = BandLoss(0.5)
RNG = np.random.default_rng(5)
M = 6
Z = RNG.normal(size=(M, 3)) * 1.2
LOWER = np.tril_indices(M)
GAUSSIAN = WhitenedGaussian(
    RNG.normal(size=M),
    np.tril(RNG.normal(size=(M, M)) * 0.2, -1) + np.diag(RNG.uniform(0.3, 1.2, size=M)),  # type: ignore[arg-type]
)
THETA = np.array([0.3, 0.2, 0.7, 1.1])
ALPHAS = [0.0, 0.5, 1.0]


def packed(theta: Array, z: Array, mean: Array, factor: Array) -> Array:
    return np.concatenate([theta, z.ravel(), mean, factor[LOWER]])


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("objective", ["kl", "sqrt"])
@pytest.mark.parametrize("loss", [LOSSES.get(name)(0.5) for name in ("band01", "exp")], ids=["band01", "exp"])
def test_gradient_agrees_with_fourth_order_differences(small_data: Data, loss: Loss, objective: str, ard: bool) -> None:
    bound = FreeFormObjective(RiskProblem(*small_data, loss, 0.01, objective, ard), M)
    theta = THETA if ard else THETA[:2]
    _, d, _ = bound.value_and_gradient(theta, Z, GAUSSIAN)
    gradient = packed(d.d_theta, d.d_Z, d.d_mean, d.d_factor)
    np.testing.assert_array_equal(np.triu(d.d_factor, 1), 0.0)
    point = packed(theta, Z, GAUSSIAN.mean, GAUSSIAN.factor)

    def value(x: Array) -> float:
        kernel, inputs, mean, triangle = np.split(x, np.cumsum([len(theta), Z.size, M]))
        factor = np.zeros((M, M))
        factor[LOWER] = triangle
        return bound.value_and_gradient(kernel, inputs.reshape(Z.shape), WhitenedGaussian(mean, factor))[0]

    h = 2e-3
    for k, step in enumerate(np.eye(len(point)) * h):
        near = value(point + step) - value(point - step)
        far = value(point + 2 * step) - value(point - 2 * step)
        assert (8.0 * near - far) / (12.0 * h) == pytest.approx(gradient[k], rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_bound_at_a_sparse_posterior_is_that_posteriors(small_data: Data, alpha: float) -> None:
    h = Hyperparameters.from_log(np.append(THETA, -1.2))
    posterior = SparseGPPosterior.fit(h, *small_data, Z, alpha)
    gaussian = WhitenedGaussian.of(posterior.whitened)
    tied = SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01), alpha, M)
    expected, _, _, expected_parts = tied.value_and_gradient(h.to_log(), Z)
    value, _, parts = FreeFormObjective(RiskProblem(*small_data, LOSS, 0.01), M).value_and_gradient(THETA, Z, gaussian)
    assert value == pytest.approx(expected, rel=1e-13)
    assert (parts.risk, parts.kl) == pytest.approx((expected_parts.risk, expected_parts.kl), rel=1e-12)
    free = FreeFormPosterior.carry(h, *small_data, Z, gaussian)
    new = RNG.normal(size=(BLOCK + 3, 3))
    np.testing.assert_allclose(free.predict(new), posterior.predict(new), atol=1e-13)
    np.testing.assert_allclose(free.train_variance, posterior.train_variance, atol=1e-13)
    assert free.gibbs_risk(LOSS) == pytest.approx(parts.risk, rel=1e-13)


def test_factor_of_a_sparse_posterior_is_its_cholesky_factor(small_data: Data) -> None:
    h = Hyperparameters.from_log(np.append(THETA, -1.2))
    whitened = SparseGPPosterior.fit(h, *small_data, Z, 1.0).whitened
    gaussian = WhitenedGaussian.of(whitened)
    covariance = whitened.inverse_factor.T @ whitened.inverse_factor
    np.testing.assert_allclose(gaussian.factor, np.linalg.cholesky(covariance), rtol=1e-10, atol=1e-14)
    assert gaussian.kl == pytest.approx(whitened.kl, rel=1e-12)


def test_total_derivatives_of_the_tied_and_the_free_bound_agree(small_data: Data) -> None:
    # with T, m moved along FITC's path, the free gradient is FITC's: here in the noise variance alone
    tied = SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01), 1.0, M)
    free = FreeFormObjective(RiskProblem(*small_data, LOSS, 0.01), M)

    def gaussian(log_noise: float) -> WhitenedGaussian:
        h = Hyperparameters.from_log(np.append(THETA, log_noise))
        return WhitenedGaussian.of(SparseGPPosterior.fit(h, *small_data, Z, 1.0).whitened)

    _, gradient, _ = free.value_and_gradient(THETA, Z, gaussian(-1.2))
    step = 1e-5
    up, down = gaussian(-1.2 + step), gaussian(-1.2 - step)
    slope = gradient.d_mean @ (up.mean - down.mean) + np.vdot(gradient.d_factor, up.factor - down.factor)
    expected = tied.value_and_gradient(np.append(THETA, -1.2), Z)[1][-1]
    assert slope / (2 * step) == pytest.approx(expected, rel=1e-7)


def test_posterior_is_the_textbook_one(small_data: Data) -> None:
    h = Hyperparameters.from_log(np.append(THETA, 0.0))
    free = FreeFormPosterior.carry(h, *small_data, Z, GAUSSIAN)
    K, cross = se_kernel(Z, Z, h), se_kernel(Z, small_data[0], h)
    L = np.linalg.cholesky(K)
    a, B = L @ GAUSSIAN.mean, L @ GAUSSIAN.factor @ GAUSSIAN.factor.T @ L.T
    A = np.linalg.solve(K, cross)
    np.testing.assert_allclose(free.train_mean, A.T @ a, atol=1e-12)
    variance = h.variance - np.einsum("ij,ij->j", cross, A) + np.einsum("ij,ij->j", A, B @ A)
    np.testing.assert_allclose(free.train_variance, variance, atol=1e-12)
    trace = np.trace(np.linalg.solve(K, B)) + a @ np.linalg.solve(K, a)
    logs = np.linalg.slogdet(K)[1] - np.linalg.slogdet(B)[1]
    assert free.kl == pytest.approx(0.5 * (trace - M + logs), rel=1e-12)


def test_the_prior_has_no_kl() -> None:
    assert WhitenedGaussian(np.zeros(M), np.eye(M)).kl == 0.0
    assert WhitenedGaussian(np.zeros(M), -np.eye(M)).kl == 0.0


def test_is_certified_like_any_posterior(small_data: Data) -> None:
    h = PAPER_GRID.rounded(Hyperparameters.from_log(np.append(THETA, -1.2)))
    free = FreeFormPosterior.carry(h, *small_data, Z, GAUSSIAN)
    evaluation = evaluate(free, *small_data, LOSS, 0.01)
    bound = FreeFormObjective(RiskProblem(*small_data, LOSS, 0.01), M)
    assert evaluation.bound_kl == pytest.approx(bound.value_and_gradient(h.to_log()[:-1], Z, GAUSSIAN)[0], rel=1e-12)
    noisier = Hyperparameters(h.variance, h.lengthscales, 10.0 * h.noise_variance)
    other = evaluate(FreeFormPosterior.carry(noisier, *small_data, Z, GAUSSIAN), *small_data, LOSS, 0.01)
    assert other.nll_test != evaluation.nll_test
    assert other.certificate == evaluation.certificate


def test_blocks_computed_again_give_the_same() -> None:
    rng = np.random.default_rng(12)
    n, m = 2 * BLOCK + 7, 70
    X, y = rng.normal(size=(n, 4)), rng.normal(size=n)
    gaussian = WhitenedGaussian(rng.normal(size=m), np.eye(m) * 0.7)
    theta = np.array([0.3, 0.1])
    (value, d, _), (again, other, _) = (
        FreeFormObjective(RiskProblem(X, y, LOSS, 0.01, ard=False), m, store).value_and_gradient(theta, X[:m], gaussian)
        for store in (True, False)
    )
    assert again == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(other.d_theta, d.d_theta, rtol=1e-12)
    np.testing.assert_allclose(other.d_Z, d.d_Z, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(other.d_factor, d.d_factor, rtol=1e-12, atol=1e-14)


def test_memory_without_stored_blocks_does_not_grow_with_points_times_inducing_inputs() -> None:
    rng = np.random.default_rng(9)
    n, m = 20000, 64
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    tracemalloc.start()
    bound = FreeFormObjective(RiskProblem(X, y, LOSS, 0.01, ard=False), m, store=False)
    bound.value_and_gradient(np.zeros(2), X[:m], WhitenedGaussian(np.zeros(m), np.eye(m)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * n * m


def test_rejects_what_does_not_fit(small_data: Data) -> None:
    bound = FreeFormObjective(RiskProblem(*small_data, LOSS, 0.01), M)
    with pytest.raises(ValueError, match="theta must have 4"):
        bound.value_and_gradient(np.zeros(5), Z, GAUSSIAN)
    with pytest.raises(ValueError, match="expected M = 6"):
        bound.value_and_gradient(THETA, Z[:5], GAUSSIAN)
    with pytest.raises(ValueError, match="lower triangular"):
        WhitenedGaussian(np.zeros(2), np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"need m \[M\]"):
        WhitenedGaussian(np.zeros(3), np.eye(2))
    with pytest.raises(NotPositiveDefiniteError, match="KL"):
        bound.value_and_gradient(THETA, Z, WhitenedGaussian(np.zeros(M), np.zeros((M, M))))
    with pytest.raises(ValueError, match="n_inducing"):
        FreeFormObjective(RiskProblem(*small_data, LOSS, 0.01), 0)
    with pytest.raises(UserError, match="unknown objective"):
        FreeFormObjective(RiskProblem(*small_data, LOSS, 0.01, "catnoi"), M)
    h = Hyperparameters(1.0, (1.0,), 1.0)
    with pytest.raises(ValueError, match="5 inducing inputs for 6"):
        FreeFormPosterior.carry(h, *small_data, Z[:5], GAUSSIAN)
    with pytest.raises(ValueError, match="2 lengthscales for 3"):
        FreeFormPosterior.carry(Hyperparameters(1.0, (1.0, 1.0), 1.0), *small_data, Z, GAUSSIAN)


TRAINING_LOSS = BandLoss(0.6)
EPSILON = float(np.finfo(float).eps)


def condition(end: TrainedFreeForm) -> float:
    """Return the condition number of K_ZZ where a search ended."""
    return float(np.linalg.cond(se_kernel(end.Z, end.Z, end.gp.hyperparameters)))


@pytest.mark.parametrize("parametrisation", ["softplus", "log"])
@pytest.mark.parametrize(("ard", "alpha"), [(True, 1.0), (False, 0.0)])
def test_training_starts_at_the_tied_bound_and_goes_below(
    small_data: Data, ard: bool, alpha: float, parametrisation: str
) -> None:
    X, y = small_data
    Z = X[:5]
    start = Hyperparameters(1.0, (1.5,) * (3 if ard else 1), 0.3)
    problem = RiskProblem(X, y, TRAINING_LOSS, 0.01, ard=ard)
    before = SparseGPObjective(problem, alpha, 5).value_and_gradient(start.to_log(), Z)[0]

    def trained_in(evaluations: int) -> TrainedFreeForm:
        return train_free_form(problem, Z, alpha, Search(Budget(evaluations=evaluations), start, parametrisation))

    at_start = trained_in(1)
    assert at_start.gp.objective_value == pytest.approx(before, rel=1e-10)
    trained = trained_in(150)
    assert trained.gp.objective_value < before - 0.02
    short = trained_in(20)
    for end in (short, trained):
        free = FreeFormObjective(problem, 5)
        free.jitter = end.jitter
        value = free.value_and_gradient(end.gp.hyperparameters.to_log()[:-1], end.Z, end.gaussian)[0]
        # the longer search brings two inducing inputs close to each other: digits are lost with K_ZZ's condition
        assert value == pytest.approx(end.gp.objective_value, rel=EPSILON * condition(end))
    assert trained.gp.hyperparameters.noise_variance == pytest.approx(0.3, rel=1e-14)
    posterior = FreeFormPosterior.carry(trained.gp.rounded, X, y, trained.Z, trained.gaussian, trained.jitter)
    assert evaluate(posterior, X, y, TRAINING_LOSS, 0.01).bound_kl == pytest.approx(
        trained.gp.objective_value, abs=2e-3
    )


def test_a_jitter_that_only_a_worse_trial_needed_is_not_reported(
    small_data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the whitened posterior means depends on the jitter: it must be the one the best value was found with."""
    inner, count = FreeFormObjective.value_and_gradient, itertools.count(1)

    def later_larger(self: FreeFormObjective, *point: Any) -> Any:
        last = next(count) == 6
        self.jitter = 1e-4 if last else self.jitter
        value, *rest = inner(self, *point)
        return value + last, *rest

    monkeypatch.setattr(FreeFormObjective, "value_and_gradient", later_larger)
    X, y = small_data
    trained = train_free_form(
        RiskProblem(X, y, TRAINING_LOSS, 0.01, ard=False), X[:5], 1.0, Search(Budget(evaluations=6))
    )
    assert next(count) == 7 and trained.jitter == 0.0


def test_training_improves_on_trained_fitc_and_ends_where_the_gradient_vanishes(small_data: Data) -> None:
    X, y = small_data
    fitc = train_sparse_gp(
        RiskProblem(X, y, TRAINING_LOSS, 0.01, "sqrt", False), X[:3], 1.0, Search(Budget(evaluations=1000))
    )
    start = fitc.gp.hyperparameters
    trained = train_free_form(
        RiskProblem(X, y, TRAINING_LOSS, 0.01, "sqrt", False), fitc.Z, 1.0, Search(Budget(evaluations=1000), start)
    )
    assert trained.gp.status == "done"
    assert trained.gp.objective_value < fitc.gp.objective_value - 1e-4
    free = FreeFormObjective(RiskProblem(X, y, TRAINING_LOSS, 0.01, "sqrt", False), 3)
    theta = trained.gp.hyperparameters.to_log()[:-1]
    _, gradient, _ = free.value_and_gradient(theta, trained.Z, trained.gaussian)
    parts = (gradient.d_theta, gradient.d_Z, gradient.d_mean, gradient.d_factor)
    assert max(np.abs(part).max() for part in parts) < 1e-3


def test_coinciding_inducing_inputs_are_no_error(small_data: Data) -> None:
    X, y = small_data
    Z = np.repeat(X[:1], 3, axis=0)
    trained = train_free_form(RiskProblem(X, y, TRAINING_LOSS, 0.01, ard=False), Z, 1.0, Search(Budget(evaluations=10)))
    assert np.isfinite(trained.gp.objective_value)
    assert trained.jitter > 0.0


def test_rejects_a_start_that_does_not_fit(small_data: Data) -> None:
    X, y = small_data
    with pytest.raises(ValueError, match="start has 1 lengthscales, expected 3"):
        train_free_form(
            RiskProblem(X, y, TRAINING_LOSS, 0.01),
            X[:4],
            1.0,
            Search(Budget(evaluations=1), Hyperparameters(1.0, (1.0,), 1.0)),
        )
    with pytest.raises(ValueError, match=r"expected Z \[M, 3\]"):
        train_free_form(
            RiskProblem(X, y, TRAINING_LOSS, 0.01, ard=False), X[:4, :2], 1.0, Search(Budget(evaluations=1))
        )

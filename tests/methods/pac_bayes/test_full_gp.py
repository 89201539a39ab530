"""How much memory the full GP's certificate takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.certificates.plain_risk import largest_risk, penalty, risk_and_kl
from gpsuite.certificates.risk import Goal, Predictor
from gpsuite.errors import UserError
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, Terms, certify
from gpsuite.methods.pac_bayes.evaluation import certify_posterior, evaluate
from gpsuite.methods.pac_bayes.full_gp import (
    NOISE,
    SPREAD,
    FullGPLikelihood,
    FullGPObjective,
    maximise_full_likelihood,
    relevance_lengthscales,
)
from gpsuite.methods.pac_bayes.losses import LOSSES, BandLoss, Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, RiskAndKL, se_kernel
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.linalg import NotPositiveDefiniteError
from tests.arrays import Array

Data = tuple[Array, Array]


def _naive_kernel(A: Array, B: Array, h: Hyperparameters) -> Array:
    scaled = (A[:, None, :] - B[None, :, :]) / np.asarray(h.lengthscales)
    return np.asarray(h.variance * np.exp(-0.5 * (scaled**2).sum(axis=-1)))


def test_kl_equals_the_kl_of_two_gaussians() -> None:
    rng = np.random.default_rng(3)
    X, y = np.linspace(-10.0, 10.0, 15)[:, None], rng.normal(size=15)
    h = Hyperparameters(1.3, (0.9,), 0.2)
    K = _naive_kernel(X, X, h)
    gain = K @ np.linalg.inv(K + 0.2 * np.eye(15))
    mean, covariance = gain @ y, K - gain @ K  # type: ignore[var-annotated]
    prior = np.linalg.inv(K)
    log_ratio = np.linalg.slogdet(K)[1] - np.linalg.slogdet(covariance)[1]
    expected = 0.5 * (np.trace(prior @ covariance) + mean @ prior @ mean - 15 + log_ratio)
    posterior = FullGPPosterior.fit(h, X, y)
    assert posterior.kl == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(posterior.train_mean, mean, atol=1e-12)
    np.testing.assert_allclose(posterior.train_variance, np.diag(covariance), atol=1e-12)


def test_gibbs_risk_equals_a_simulation(small_data: Data) -> None:
    X, y = small_data
    posterior = FullGPPosterior.fit(Hyperparameters(1.0, (1.5,), 0.2), X, y)
    loss = BandLoss(0.4)
    draws = posterior.train_mean + np.sqrt(posterior.train_variance) * np.random.default_rng(0).normal(size=(4000, 150))
    losses = loss.pointwise(y, draws)
    error = losses.std() / np.sqrt(losses.size)
    assert abs(losses.mean() - posterior.gibbs_risk(loss)) < 5.0 * error


def test_predictions_equal_the_conditional_gaussian(small_data: Data) -> None:
    X, y = small_data
    h = Hyperparameters(0.8, (1.0, 2.0, 0.7), 0.3)
    new = np.random.default_rng(4).normal(size=(6, 3))
    inverse = np.linalg.inv(_naive_kernel(X, X, h) + 0.3 * np.eye(150))
    cross = _naive_kernel(new, X, h)
    mean, variance = FullGPPosterior.fit(h, X, y).predict(new)
    np.testing.assert_allclose(mean, cross @ inverse @ y, atol=1e-11)
    np.testing.assert_allclose(variance, 0.8 - np.einsum("ij,jk,ik->i", cross, inverse, cross), atol=1e-11)


def test_objective_and_posterior_agree(small_data: Data) -> None:
    X, y = small_data
    h, loss = Hyperparameters(1.4, (0.8, 1.1, 3.0), 0.15), BandLoss(0.5)
    posterior = FullGPPosterior.fit(h, X, y)
    objective = FullGPObjective(RiskProblem(X, y, loss, 0.01))
    value, _, parts = objective.value_and_gradient(h.to_log())
    assert parts.kl == pytest.approx(posterior.kl, rel=1e-11)
    assert parts.risk == pytest.approx(posterior.gibbs_risk(loss), rel=1e-11)
    certificate = certify(RiskAndKL(parts.risk, parts.kl), Terms(150, h.n_kernel, 0.01))
    assert value == pytest.approx(certificate.bound_kl, rel=1e-14)


def test_log_determinant_agrees_with_the_marginal_likelihood(small_data: Data) -> None:
    X, y = small_data
    h = Hyperparameters(1.1, (1.3,), 0.4)
    posterior = FullGPPosterior.fit(h, X, y)
    direct = multivariate_normal(np.zeros(150), _naive_kernel(X, X, h) + 0.4 * np.eye(150)).logpdf(y)
    log_determinant = 2.0 * np.log(np.diagonal(posterior.factor)).sum()
    ours = -0.5 * (y @ posterior.alpha + log_determinant + 150 * np.log(2.0 * np.pi))
    assert ours == pytest.approx(direct, rel=1e-11)


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("objective", ["kl", "sqrt"])
@pytest.mark.parametrize("loss", [LOSSES.get(name)(0.5) for name in LOSSES], ids=list(LOSSES))
def test_gradient_agrees_with_fourth_order_differences(small_data: Data, loss: Loss, objective: str, ard: bool) -> None:
    bound = FullGPObjective(RiskProblem(*small_data, loss, 0.01, objective, ard))
    theta = np.array([0.3, *([0.2, 0.7, 1.1] if ard else [0.5]), -1.2])
    _, gradient, _ = bound.value_and_gradient(theta)
    h = 2e-3
    for k, step in enumerate(np.eye(len(theta)) * h):
        near = bound.value_and_gradient(theta + step)[0] - bound.value_and_gradient(theta - step)[0]
        far = bound.value_and_gradient(theta + 2 * step)[0] - bound.value_and_gradient(theta - 2 * step)[0]
        assert (8.0 * near - far) / (12.0 * h) == pytest.approx(gradient[k], rel=1e-8, abs=1e-10)


def test_evaluations_do_not_depend_on_what_came_before(small_data: Data) -> None:
    bound = FullGPObjective(RiskProblem(*small_data, BandLoss(0.5), 0.01, ard=False))
    theta = np.array([0.1, 0.2, -1.0])
    first, first_gradient, _ = bound.value_and_gradient(theta)
    bound.value_and_gradient(theta + 2.0)
    again, gradient, _ = bound.value_and_gradient(theta)
    assert again == first
    np.testing.assert_array_equal(gradient, first_gradient)


def test_rows_far_away_lose_no_digits() -> None:
    """A column that is 0 but for some rows at 1e10 and more: the kernel is as if these were 300 apart, namely 0."""
    rng, theta = np.random.default_rng(5), np.log([1.3, 0.8, 1.2, 2.0, 0.2])
    X, y, rare = rng.normal(size=(90, 3)), rng.normal(size=90), rng.permutation(90)[:6]
    found = []
    for levels in (300.0 * np.arange(1, 7), np.linspace(1e10, 5e10, 6)):
        X[:, 2] = 0.0
        X[rare, 2] = levels
        objective = FullGPObjective(RiskProblem(X, y, BandLoss(0.6), 0.01))
        value, gradient, _ = objective.value_and_gradient(theta)
        posterior = FullGPPosterior.fit(Hyperparameters(1.3, (0.8, 1.2, 2.0), 0.2), X, y)
        found.append(np.concatenate([[value, posterior.kl], gradient, *posterior.predict(X[:40])]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_where_no_rows_are_near_a_lengthscale_has_no_slope() -> None:
    """The squares of scaled inputs do not leave their rounding in it."""
    rng = np.random.default_rng(12)
    X, y = np.stack([np.arange(20.0), rng.normal(size=20)], axis=1), rng.normal(size=20)
    objective = FullGPObjective(RiskProblem(X, y, BandLoss(0.5), 0.01))
    _, gradient, _ = objective.value_and_gradient(Hyperparameters(1.2, (0.02, 0.02), 0.3).to_log())
    assert np.abs(gradient[1:3]).max() < 1e-20
    assert np.abs(gradient[[0, 3]]).min() > 1e-4


def test_a_singular_matrix_is_an_error() -> None:
    X, y = np.zeros((5, 1)), np.arange(5.0)
    with pytest.raises(NotPositiveDefiniteError, match="not positive definite"):
        FullGPObjective(RiskProblem(X, y, BandLoss(0.5), 0.01)).value_and_gradient(np.array([0.0, 0.0, -60.0]))
    with pytest.raises(NotPositiveDefiniteError, match="not positive definite"):
        FullGPPosterior.fit(Hyperparameters(1.0, (1.0,), 1e-26), X, y)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((3, 1)), np.zeros(4)),
        (np.zeros(3), np.zeros(3)),
        (np.zeros((0, 2)), np.zeros(0)),
        (np.array([[np.nan]]), np.zeros(1)),
        (np.zeros((1, 1)), np.array([np.inf])),
        (np.zeros((3, 1)), np.zeros((3, 1))),
    ],
)
def test_rejects_data_that_do_not_fit(X: Array, y: Array) -> None:
    with pytest.raises(ValueError, match=r"expected X|finite"):
        FullGPObjective(RiskProblem(X, y, BandLoss(0.5), 0.01))


def test_rejects_wrong_numbers_of_hyperparameters(small_data: Data) -> None:
    with pytest.raises(ValueError, match="theta must have 5"):
        FullGPObjective(RiskProblem(*small_data, BandLoss(0.5), 0.01)).value_and_gradient(np.zeros(3))
    with pytest.raises(ValueError, match="2 lengthscales for 3 inputs"):
        FullGPPosterior.fit(Hyperparameters(1.0, (1.0, 1.0), 1.0), *small_data)
    with pytest.raises(UserError, match="unknown objective"):
        FullGPObjective(RiskProblem(*small_data, BandLoss(0.5), 0.01, "catnoi"))


@pytest.mark.parametrize("noise", [1e3, 1e12, 1e13, 1e16, 1e20, 1e30])
def test_a_bound_holds_at_any_noise_variance(noise: float) -> None:
    """Beside a large one nothing is left of the latent variances: s - s^2 h rounds to 0, and the risk with it."""
    X, y = np.random.default_rng(0).normal(size=(200, 1)), np.zeros(200)
    h = Hyperparameters(float(np.exp(-6.0)), (1.0,), noise)
    found = evaluate(FullGPPosterior.fit(h, X, y), X, y, BandLoss(0.08), 0.01).certificate
    risk = 2.0 * float(ndtr(-0.08 / np.exp(-3.0)))
    assert found.bound_kl >= risk
    if noise >= 1e12:
        assert found.bound_kl == 1.0 and "rounding" in found.reason
    else:
        assert found.bound_kl < 0.5 and found.gibbs_risk == pytest.approx(risk, rel=1e-3)


def test_a_full_posterior_takes_two_matrices_at_most() -> None:
    """The factor and its inverse; the kernel becomes the factor in place."""
    n = 400
    X = np.random.default_rng(0).standard_normal((n, 2))
    FullGPPosterior.fit(Hyperparameters(1.0, (1.0,), 0.1), X[:5], X[:5, 0])  # what is imported only when used
    tracemalloc.start()
    try:
        FullGPPosterior.fit(Hyperparameters(1.0, (1.0,), 0.1), X, X[:, 0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.2 * 8 * n * n


# Certificates of full GPs cover the rounding of their kernel: `gpsuite verify` computes it in extended precision.
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


@pytest.mark.parametrize(("seed", "columns", "noise"), [(1, 30, 1e-4), (2, 30, 1e-4), (0, 10, 1e-4), (0, 3, 1e-2)])
def test_certificates_hold_for_inputs_far_from_their_mean_and_close_together(
    seed: int, columns: int, noise: float
) -> None:
    X, y = near_copies(seed, columns)
    hyperparameters = PAPER_GRID.rounded(Hyperparameters(1.0, (float(np.exp(-6)),), noise))
    posterior = FullGPPosterior.fit(hyperparameters, X, y)
    found = certify_posterior(posterior, BandLoss(0.3), 0.01)
    predictor = Predictor(
        "full GP", hyperparameters.variance, noise, 0.0, 0.0, {"lengthscales": np.array(hyperparameters.lengthscales)}
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
        (
            loss.expected(y, mean + s * step, variance + t * step * variance)
            - loss.expected(y, mean - s * step, variance - t * step * variance)
        )
        / (2 * step)
        for s, t in ((1.0, 0.0), (0.0, 1.0))
    )
    slopes = np.linalg.norm(by_mean) * np.linalg.norm(alpha) + np.abs(by_variance / variance).sum()
    assert found.risk == pytest.approx(error * slopes / 25, rel=1e-4, abs=0.0)


# The full GP's marginal likelihood against scipy's density and GPflow's model, and its training against GPflow's.
def problem(rows: int = 150) -> tuple[FloatArray, FloatArray]:
    """More rows than one panel of the algebra has."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rows, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=rows)


THETAS = [np.log([1.3, 0.7, 2.0, 0.1]), np.log([0.4, 3.0, 0.3, 1.5])]


@pytest.mark.parametrize("theta", THETAS)
def test_value_is_the_gaussian_density_and_the_gradient_its_slope(theta: FloatArray) -> None:
    X, y = problem()
    likelihood, h = FullGPLikelihood(X, y), Hyperparameters.from_log(theta)
    value, gradient = likelihood.value_and_gradient(theta)
    cov = se_kernel(X, X, h) + h.noise_variance * np.eye(len(y))
    assert value == pytest.approx(-multivariate_normal.logpdf(y, cov=cov), rel=1e-10)
    slopes = [
        (likelihood.value_and_gradient(theta + step)[0] - likelihood.value_and_gradient(theta - step)[0]) / 2e-5
        for step in 1e-5 * np.eye(len(theta))
    ]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-5)


def test_one_lengthscale_has_the_sum_of_all_derivatives() -> None:
    X, y = problem(40)
    one, each = FullGPLikelihood(X, y, ard=False), FullGPLikelihood(X, y)
    value, gradient = one.value_and_gradient(np.log([1.3, 0.7, 0.1]))
    other, parts = each.value_and_gradient(np.log([1.3, 0.7, 0.7, 0.1]))
    assert value == pytest.approx(other, rel=1e-13)
    np.testing.assert_allclose(gradient, [parts[0], parts[1] + parts[2], parts[3]], rtol=1e-11)


def test_it_is_gpflows_likelihood_and_is_trained_to_gpflows_optimum() -> None:
    from gpsuite.models.tensorflow_setup import configure

    configure()
    from gpsuite.models.regression.gpflow_models import build_gpr, hyperparameters_of, maximise_likelihood

    X, y = problem(60)
    theta = THETAS[0]
    spec = ModelSpec(ard=True)
    model = build_gpr(X, y, spec, Hyperparameters.from_log(theta))
    value, _ = FullGPLikelihood(X, y).value_and_gradient(theta)
    assert value == pytest.approx(float(model.training_loss()), rel=1e-10)
    model = build_gpr(X, y, spec, Hyperparameters(1.0, (1.0, 1.0), 1.0))
    theirs = maximise_likelihood(model, Budget())
    ours, search = maximise_full_likelihood(X, y, True, Budget())
    assert search.status == "done" and abs(search.evaluations - theirs.evaluations) <= 2
    assert search.loss == pytest.approx(theirs.loss, abs=1e-4)
    np.testing.assert_allclose(ours.to_log(), hyperparameters_of(model).to_log(), atol=1e-2)


def test_a_budget_keeps_the_best_point_met() -> None:
    X, y = problem(40)
    found, search = maximise_full_likelihood(X, y, True, Budget(evaluations=3))
    assert (search.status, search.evaluations) == ("budget", 3)
    assert FullGPLikelihood(X, y).value_and_gradient(found.to_log())[0] == pytest.approx(search.loss, rel=1e-12)


# Lengthscales that rows apart from a bound choose.
def rows(seed: int, n: int, inputs: int) -> tuple[FloatArray, FloatArray]:
    """Return rows of which the first input alone matters."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, inputs))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=n)
    return X, (y - y.mean()) / y.std()


def test_it_is_the_mode_that_a_search_without_gradients_finds() -> None:
    """The posterior from scipy's normal density; the flat directions of three lengthscales leave 1e-3."""
    X, y = rows(0, 25, 2)
    centre = np.log([1.0, 2.0, 2.0, NOISE])

    def loss(theta: FloatArray) -> float:
        variance, *lengthscales, noise = np.exp(theta)
        off = (X[:, None] - X) / np.array(lengthscales)
        K = variance * np.exp(-0.5 * np.sum(off**2, axis=2)) + noise * np.eye(25)
        prior = 0.5 * np.sum((theta - centre) ** 2) / SPREAD**2
        return float(prior - multivariate_normal(np.zeros(25), K).logpdf(y))

    found = minimize(loss, centre, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10, "maxiter": 4000})
    assert found.success
    np.testing.assert_allclose(relevance_lengthscales(X, y), np.exp(found.x[1:-1]), rtol=1e-3)


@pytest.mark.parametrize("n", [40, 200])
def test_an_input_without_effect_gets_a_long_one(n: int) -> None:
    found = relevance_lengthscales(*rows(1, n, 6))
    assert np.all(found[1:] > 6.0 * found[0])


def test_of_two_rows_all_inputs_stay_alike() -> None:
    found = relevance_lengthscales(np.array([[1.0, -1.0, 0.5], [-1.0, 1.0, 0.4]]), np.array([1.0, -1.0]))
    assert np.all(np.abs(np.log2(found / np.sqrt(6.0))) < 1.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.permutations(range(4)))
def test_the_order_of_inputs_does_not_matter(seed: int, order: list[int]) -> None:
    X, y = rows(seed, 12, 4)
    np.testing.assert_allclose(relevance_lengthscales(X[:, order], y), relevance_lengthscales(X, y)[order], rtol=1e-2)


def test_copies_do_not_send_them_to_zero() -> None:
    """Of equal rows with equal targets the likelihood grows without limit as the noise falls."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), rng.integers(0, 4, 100) - 1.5
    found = relevance_lengthscales(np.repeat(X, 4, axis=0)[:100], np.repeat(y, 4)[:100])
    assert np.all(np.abs(np.log(found / 2.0)) <= 4.5 * (1.0 + 1e-12))  # three prior deviations of 1.5

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from gpsuite.errors import UserError
from gpsuite.methods.pac_bayes.bounds import Terms, certify
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.full_gp import FullGPObjective
from gpsuite.methods.pac_bayes.losses import LOSSES, BandLoss, Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, RiskAndKL
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.models.config import Hyperparameters
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
    draws = posterior.train_mean + np.sqrt(posterior.train_variance) * np.random.default_rng(0).normal(
        size=(4000, 150)
    )
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
def test_gradient_agrees_with_fourth_order_differences(
    small_data: Data, loss: Loss, objective: str, ard: bool
) -> None:
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
        FullGPObjective(RiskProblem(X, y, BandLoss(0.5), 0.01)).value_and_gradient(
            np.array([0.0, 0.0, -60.0])
        )
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

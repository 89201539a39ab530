import tracemalloc

import numpy as np
import pytest

from gpsuite.errors import UserError
from gpsuite.methods.pac_bayes.bounds import Terms, certify
from gpsuite.methods.pac_bayes.full_gp import FullGPObjective
from gpsuite.methods.pac_bayes.losses import LOSSES, BandLoss, Loss
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.methods.pac_bayes.sparse.algebra import BLOCK, symmetric
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.models.config import Hyperparameters
from tests.arrays import Array

Data = tuple[Array, Array]
ALPHAS = [0.0, 0.5, 1.0]
LOSS = BandLoss(0.5)
Z = np.random.default_rng(5).normal(size=(7, 3)) * 1.2
# alpha and whether the covariance form is used
FORMS = [(0.0, True), (0.0, False), (0.5, False), (1.0, False)]
THETA = np.array([0.3, 0.2, 0.7, 1.1, -1.2])


@pytest.mark.parametrize("alpha", ALPHAS)
def test_objective_and_posterior_agree(small_data: Data, alpha: float) -> None:
    h = Hyperparameters.from_log(THETA)
    posterior = SparseGPPosterior.fit(h, *small_data, Z, alpha)
    objective = SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01), alpha, 7)
    value, _, _, parts = objective.value_and_gradient(THETA, Z)
    assert parts.kl == pytest.approx(posterior.kl, rel=1e-12)
    assert parts.risk == pytest.approx(posterior.gibbs_risk(LOSS), rel=1e-12)
    assert value == pytest.approx(certify(RiskAndKL(parts.risk, parts.kl), Terms(150, 4, 0.01)).bound_kl, rel=1e-14)


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize(("alpha", "covariance_form"), FORMS)
@pytest.mark.parametrize("loss", [LOSSES.get(name)(0.5) for name in LOSSES], ids=list(LOSSES))
def test_gradient_agrees_with_fourth_order_differences(
    small_data: Data, loss: Loss, alpha: float, covariance_form: bool, ard: bool
) -> None:
    n_theta = 5 if ard else 3
    bound = SparseGPObjective(RiskProblem(*small_data, loss, 0.01, ard=ard), alpha, 7)
    bound.use_covariance_form = covariance_form
    point = np.concatenate([THETA if ard else [0.3, 0.5, -1.2], Z.ravel()])

    def value(x: Array) -> float:
        return bound.value_and_gradient(x[:n_theta], x[n_theta:].reshape(7, 3))[0]

    _, d_theta, d_Z, _ = bound.value_and_gradient(point[:n_theta], Z)
    gradient = np.concatenate([d_theta, d_Z.ravel()])
    h = 2e-3
    for k, step in enumerate(np.eye(len(point)) * h):
        near, far = (value(point + step) - value(point - step), value(point + 2 * step) - value(point - 2 * step))
        assert (8.0 * near - far) / (12.0 * h) == pytest.approx(gradient[k], rel=1e-8, abs=2e-10)
    assert bound.use_covariance_form == covariance_form


@pytest.mark.parametrize(("alpha", "covariance_form"), FORMS)
@pytest.mark.parametrize("n_inducing", [1, 130, 300])
def test_gradient_holds_over_panels_and_blocks(alpha: float, covariance_form: bool, n_inducing: int) -> None:
    rng = np.random.default_rng(11)
    n = 2 * BLOCK + 7
    X, y = rng.normal(size=(n, 5)), rng.normal(size=n)
    start = rng.normal(size=(n_inducing, 5))
    bound = SparseGPObjective(RiskProblem(X, y, LOSS, 0.01, ard=False), alpha, n_inducing)
    bound.use_covariance_form = covariance_form
    theta = np.array([0.1, -0.1, -0.5])
    _, d_theta, d_Z, _ = bound.value_and_gradient(theta, start)
    direction, turn, h = rng.normal(size=3), rng.normal(size=start.shape), 3e-4

    def value(t: float) -> float:
        return bound.value_and_gradient(theta + t * direction, start + t * turn)[0]

    slope = d_theta @ direction + np.vdot(d_Z, turn)
    near, far = value(h) - value(-h), value(2.0 * h) - value(-2.0 * h)
    assert (8.0 * near - far) / (12.0 * h) == pytest.approx(slope, rel=1e-6, abs=1e-10)
    assert bound.use_covariance_form == covariance_form


def test_inducing_inputs_at_the_data_give_the_bound_of_the_full_gp(small_data: Data) -> None:
    X, y = small_data[0][:40] * 3.0, small_data[1][:40]
    full = FullGPObjective(RiskProblem(X, y, LOSS, 0.01))
    expected, _, expected_parts = full.value_and_gradient(THETA)
    for alpha in ALPHAS:
        sparse = SparseGPObjective(RiskProblem(X, y, LOSS, 0.01), alpha, 40)
        value, _, _, parts = sparse.value_and_gradient(THETA, X)
        assert value == pytest.approx(expected, rel=1e-10)
        assert parts.kl == pytest.approx(expected_parts.kl, rel=1e-10)


def test_a_tiny_alpha_approaches_zero(small_data: Data) -> None:
    # alpha = 0 takes a path of its own
    at_zero, near_zero = (
        SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01, "sqrt"), alpha, 7).value_and_gradient(THETA, Z)
        for alpha in (0.0, 1e-13)
    )
    for one, other in zip(at_zero[:3], near_zero[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("log_lengthscale", [-1.0, 0.0, 0.5, 0.9])
def test_covariance_form_equals_the_whitened_form(small_data: Data, log_lengthscale: float) -> None:
    theta = np.array([0.3, log_lengthscale, -1.2])
    results = []
    for covariance_form in (True, False):
        bound = SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01, ard=False), 0.0, 7)
        bound.use_covariance_form = covariance_form
        results.append(bound.value_and_gradient(theta, Z))
        assert bound.use_covariance_form == covariance_form
    (value, d_theta, d_Z, parts), whitened = results
    assert value == pytest.approx(whitened[0], rel=1e-11)
    assert parts.kl == pytest.approx(whitened[3].kl, rel=1e-11)
    np.testing.assert_allclose(d_theta, whitened[1], rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(d_Z, whitened[2], rtol=1e-8, atol=1e-11)


def test_covariance_form_is_left_for_good_when_the_kernel_is_ill_conditioned(small_data: Data) -> None:
    smooth, rough = np.array([0.3, 2.5, -1.2]), np.array([0.3, 0.5, -1.2])
    bound = SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01, ard=False), 0.0, 7)
    before = bound.value_and_gradient(rough, Z)[0]
    assert bound.use_covariance_form
    parts = bound.value_and_gradient(smooth, Z)[3]
    assert not bound.use_covariance_form
    posterior = SparseGPPosterior.fit(Hyperparameters.from_log(smooth), *small_data, Z, 0.0)
    assert (parts.kl, parts.risk) == pytest.approx((posterior.kl, posterior.gibbs_risk(LOSS)), rel=1e-9)
    assert bound.value_and_gradient(rough, Z)[0] == pytest.approx(before, rel=1e-11)
    assert not bound.use_covariance_form
    # a small noise variance alone is enough
    bound = SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01, ard=False), 0.0, 7)
    bound.value_and_gradient(np.array([0.3, 0.5, -12.0]), Z)
    assert not bound.use_covariance_form


@pytest.mark.parametrize(("alpha", "covariance_form"), FORMS)
def test_evaluations_do_not_depend_on_what_came_before(small_data: Data, alpha: float, covariance_form: bool) -> None:
    bound = SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01), alpha, 7)
    bound.use_covariance_form = covariance_form
    first = bound.value_and_gradient(THETA, Z)
    bound.value_and_gradient(THETA + 1.0, Z * 2.0)
    again = bound.value_and_gradient(THETA, Z)
    assert again[0] == first[0]
    np.testing.assert_array_equal(again[1], first[1])
    np.testing.assert_array_equal(again[2], first[2])


@pytest.mark.parametrize("alpha", ALPHAS)
def test_shifting_inputs_and_inducing_inputs_together_changes_nothing(small_data: Data, alpha: float) -> None:
    X, y = small_data
    bound = SparseGPObjective(RiskProblem(X, y, LOSS, 0.01), alpha, 7)
    moved = SparseGPObjective(RiskProblem(X + 100.0, y, LOSS, 0.01), alpha, 7)
    here, there = bound.value_and_gradient(THETA, Z), moved.value_and_gradient(THETA, Z + 100.0)
    assert there[0] == pytest.approx(here[0], rel=1e-11)
    np.testing.assert_allclose(there[2], here[2], rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_jitter_is_kept_once_it_was_needed(small_data: Data, alpha: float) -> None:
    bound = SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01), alpha, 7)
    value = bound.value_and_gradient(THETA, Z)[0]
    assert bound.jitter == 0.0
    singular = np.repeat(Z[:1], 7, axis=0)
    at_singular = bound.value_and_gradient(THETA, singular)
    kept = bound.jitter
    assert kept > 0.0
    assert all(np.isfinite(part).all() for part in at_singular[:3])
    after = bound.value_and_gradient(THETA, Z)[0]
    assert bound.jitter == kept
    assert after == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_memory_is_two_arrays_of_points_times_inducing_inputs(alpha: float) -> None:
    rng = np.random.default_rng(9)
    n, M = 20000, 64
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    tracemalloc.start()
    bound = SparseGPObjective(RiskProblem(X, y, LOSS, 0.01, ard=False), alpha, M)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    bound.value_and_gradient(np.zeros(3), X[:M])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 2.3 * 8 * n * M
    assert peak - held < 0.6 * 8 * n * M


def test_symmetric_counts_whole_diagonal_blocks_once() -> None:
    full = np.arange(25.0).reshape(5, 5)
    full = full + full.T
    np.testing.assert_array_equal(symmetric(np.tril(full)), full)
    panels = np.tril(full)
    panels[:2, :2], panels[2:4, 2:4] = full[:2, :2], full[2:4, 2:4]
    np.testing.assert_array_equal(symmetric(panels, 2), full)


@pytest.mark.parametrize(("alpha", "covariance_form"), FORMS)
def test_blocks_computed_again_give_the_same(alpha: float, covariance_form: bool) -> None:
    rng = np.random.default_rng(12)
    n, M = 2 * BLOCK + 7, 70
    X, y = rng.normal(size=(n, 4)), rng.normal(size=n)
    results = []
    for store in (True, False):
        bound = SparseGPObjective(RiskProblem(X, y, LOSS, 0.01), alpha, M, store=store)
        bound.use_covariance_form = covariance_form
        results.append(bound.value_and_gradient(np.array([0.3, 0.1, 0.2, 0.0, 0.4, -0.5]), X[:M]))
        assert bound.use_covariance_form == covariance_form
    stored, again = results
    assert again[0] == pytest.approx(stored[0], rel=1e-14)
    np.testing.assert_allclose(again[1], stored[1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(again[2], stored[2], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("alpha", "covariance_form"), FORMS)
def test_memory_without_stored_blocks_does_not_grow_with_points_times_inducing_inputs(
    alpha: float, covariance_form: bool
) -> None:
    rng = np.random.default_rng(9)
    n, M = 20000, 64
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    tracemalloc.start()
    bound = SparseGPObjective(RiskProblem(X, y, LOSS, 0.01, ard=False), alpha, M, store=False)
    bound.use_covariance_form = covariance_form
    bound.value_and_gradient(np.zeros(3), X[:M])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * n * M


def test_rejects_what_does_not_fit(small_data: Data) -> None:
    bound = SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01), 1.0, 7)
    with pytest.raises(ValueError, match="theta must have 5"):
        bound.value_and_gradient(np.zeros(3), Z)
    with pytest.raises(ValueError, match="expected 7 inducing inputs, got 6"):
        bound.value_and_gradient(THETA, Z[:6])
    with pytest.raises(ValueError, match="Z must be finite"):
        bound.value_and_gradient(THETA, Z * np.nan)
    with pytest.raises(ValueError, match="alpha"):
        SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01), 2.0, 7)
    with pytest.raises(ValueError, match="n_inducing"):
        SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01), 1.0, 0)
    with pytest.raises(UserError, match="unknown objective"):
        SparseGPObjective(RiskProblem(*small_data, LOSS, 0.01, "catnoi"), 1.0, 7)

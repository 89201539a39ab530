import tracemalloc
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.methods.pac_bayes.posteriors import se_kernel
from gpsuite.methods.pac_bayes.problem import Search
from gpsuite.methods.pac_bayes.sparse.objective import FORMS, Form, SparseLikelihoodObjective
from gpsuite.methods.pac_bayes.sparse.training import train_sparse_likelihood
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.regression.gpflow_models import build_fitc, build_sgpr
from tests.arrays import Array

Data = tuple[Array, Array]
Z = np.random.default_rng(5).normal(size=(7, 3)) * 1.2
THETA = np.array([0.3, 0.2, 0.7, 1.1, -1.2])
# form and whether the covariance form is used
EVALUATIONS: list[tuple[Form, bool]] = [("vfe", True), ("vfe", False), ("fitc", False)]
# GPflow's is absolute; this one is lost in rounding
NO_JITTER = gpflow.config.Config(jitter=1e-300)


def made_up(n: int, dimension: int, seed: int = 1) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dimension))
    return X, np.sin(X.sum(axis=1)) + 0.3 * rng.normal(size=n)


def objective(X: Array, y: Array, form: Form, ard: bool, M: int) -> SparseLikelihoodObjective:
    return SparseLikelihoodObjective(X, y, ard, form, M)


def gpflow_model(X: Array, y: Array, Z: Array, theta: Array, form: Form) -> Any:
    build = build_sgpr if form == "vfe" else build_fitc
    return build(X, y, Z, ModelSpec(ard=len(theta) > 3), Hyperparameters.from_log(theta))


def gpflow_value_and_gradient(X: Array, y: Array, Z: Array, theta: Array, form: Form) -> tuple[float, Array, Array]:
    with gpflow.config.as_context(NO_JITTER):
        model = gpflow_model(X, y, Z, theta, form)
        positive = [model.kernel.variance, model.kernel.lengthscales, model.likelihood.variance]
        variables = [p.unconstrained_variable for p in (*positive, model.inducing_variable.Z)]
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        *slopes, d_Z = (g.numpy() for g in tape.gradient(loss, variables))
    d_log = []
    for parameter, slope in zip(positive, slopes, strict=True):
        u = parameter.unconstrained_variable
        d_log.append(slope * parameter.numpy() / np.exp(parameter.transform.forward_log_det_jacobian(u, 0)))
    return float(loss), np.concatenate([np.atleast_1d(part) for part in d_log]), d_Z


def assert_close(actual: Array, expected: Array, tolerance: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize(("form", "covariance_form"), EVALUATIONS)
@pytest.mark.parametrize(
    ("n", "M", "dimension", "noise"),
    [(150, 7, 3, 0.3), (700, 20, 4, 1.0), (1100, 1, 2, 0.05), (512, 30, 5, 1.0), (40, 12, 8, 2e-6)],
)
def test_value_and_gradient_are_gpflows(
    n: int, M: int, dimension: int, noise: float, form: Form, covariance_form: bool, ard: bool
) -> None:
    X, y = made_up(n, dimension)
    rng = np.random.default_rng(2)
    inducing = X[:M] + 0.3 * rng.normal(size=(M, dimension))
    lengthscales = 0.3 * rng.normal(size=dimension if ard else 1) + 0.1
    theta = np.concatenate([[0.4], lengthscales, [np.log(noise)]])
    ours = objective(X, y, form, ard, M)
    ours.use_covariance_form = covariance_form
    value, d_theta, d_Z = ours.value_and_gradient(theta, inducing)
    expected, expected_theta, expected_Z = gpflow_value_and_gradient(X, y, inducing, theta, form)
    assert ours.jitter == 0.0
    assert ours.use_covariance_form == (covariance_form and noise > 1e-3)
    assert value == pytest.approx(expected, rel=1e-12)
    assert_close(d_theta, expected_theta, 1e-10)
    assert_close(d_Z, expected_Z, 1e-10)


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize(("form", "covariance_form"), EVALUATIONS)
def test_gradient_agrees_with_fourth_order_differences(
    small_data: Data, form: Form, covariance_form: bool, ard: bool
) -> None:
    n_theta = 5 if ard else 3
    ours = objective(*small_data, form, ard, 7)
    ours.use_covariance_form = covariance_form
    point = np.concatenate([THETA if ard else [0.3, 0.5, -1.2], Z.ravel()])

    def value(x: Array) -> float:
        return ours.value_and_gradient(x[:n_theta], x[n_theta:].reshape(7, 3))[0]

    _, d_theta, d_Z = ours.value_and_gradient(point[:n_theta], Z)
    gradient, h = np.concatenate([d_theta, d_Z.ravel()]), 2e-3
    for k, step in enumerate(np.eye(len(point)) * h):
        near = value(point + step) - value(point - step)
        far = value(point + 2 * step) - value(point - 2 * step)
        assert (8.0 * near - far) / (12.0 * h) == pytest.approx(gradient[k], rel=1e-7, abs=1e-7)
    assert ours.use_covariance_form == covariance_form


def exact(X: Array, y: Array, theta: Array) -> tuple[float, float]:
    """Return the exact GP's negative log marginal likelihood and its derivative in ln s."""
    h = Hyperparameters.from_log(theta)
    values, vectors = np.linalg.eigh(se_kernel(X, X, h))
    spectrum = np.maximum(values, 0.0) + h.noise_variance
    squares = (vectors.T @ y) ** 2
    value = 0.5 * (len(y) * np.log(2.0 * np.pi) + np.log(spectrum).sum() + (squares / spectrum).sum())
    return value, 0.5 * h.noise_variance * float((1.0 / spectrum - squares / spectrum**2).sum())


@pytest.mark.parametrize("noise", [0.3, 1e-2, 1e-6])
@pytest.mark.parametrize("form", FORMS)
def test_at_the_data_it_is_the_exact_marginal_likelihood(form: Form, noise: float) -> None:
    X, y = made_up(60, 4)
    theta = np.array([0.3, 0.1, np.log(noise)])
    ours = objective(X, y, form, False, 60)
    value, d_theta, d_Z = ours.value_and_gradient(theta, X)
    expected, d_log_noise = exact(X, y, theta)
    # VFE divides the rounding of tr(K_XX - V'V) by s
    tolerance = 1e-10 + 1e-14 / noise
    assert ours.jitter == 0.0
    assert value == pytest.approx(expected, rel=tolerance)
    assert d_theta[-1] == pytest.approx(d_log_noise, rel=1e-7, abs=100.0 * tolerance)
    assert np.isfinite(d_theta).all()
    assert np.isfinite(d_Z).all()


def test_singular_inducing_inputs_and_hardly_any_noise_stay_finite() -> None:
    X, y = made_up(200, 1)
    for form in FORMS:
        ours = objective(X, y, form, True, 200)
        value, d_theta, d_Z = ours.value_and_gradient(np.array([0.0, 1.0, np.log(1e-6)]), X)
        assert ours.jitter > 0.0
        assert np.isfinite(value)
        assert np.isfinite(d_theta).all()
        assert np.isfinite(d_Z).all()


@pytest.mark.parametrize("form", FORMS)
def test_more_inducing_inputs_bring_it_closer_to_the_exact_likelihood(small_data: Data, form: Form) -> None:
    X, y = small_data
    theta = THETA
    few = objective(X, y, form, True, 7).value_and_gradient(theta, X[:7])[0]
    many = objective(X, y, form, True, 60).value_and_gradient(theta, X[:60])[0]
    whole = exact(X, y, theta)[0]
    if form == "vfe":
        assert few > many > whole  # a bound, and tighter with more inducing inputs
    else:
        assert abs(many - whole) < abs(few - whole)


@given(seed=st.integers(0, 2**32 - 1), evaluation=st.sampled_from(EVALUATIONS))
def test_the_order_of_points_and_of_inducing_inputs_does_not_matter(seed: int, evaluation: tuple[Form, bool]) -> None:
    X, y = made_up(150, 3)
    rng = np.random.default_rng(seed)
    rows, order = rng.permutation(150), rng.permutation(7)
    here, there = objective(X, y, evaluation[0], True, 7), objective(X[rows], y[rows], evaluation[0], True, 7)
    here.use_covariance_form = there.use_covariance_form = evaluation[1]
    value, d_theta, d_Z = here.value_and_gradient(THETA, Z)
    moved_value, moved_theta, moved_Z = there.value_and_gradient(THETA, Z[order])
    assert moved_value == pytest.approx(value, rel=1e-13)
    assert_close(moved_theta, d_theta, 1e-12)
    assert_close(moved_Z, d_Z[order], 1e-12)


@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-3])
def test_covariance_form_agrees_with_the_whitened_one_wherever_it_is_used(noise: float) -> None:
    X, y = made_up(600, 2)
    used = 0
    for lengthscale in np.linspace(-2.5, 1.0, 36):
        theta = np.array([0.2, lengthscale, np.log(noise)])
        ours = objective(X, y, "vfe", False, 15)
        value, d_theta, d_Z = ours.value_and_gradient(theta, X[:15])
        whitened = objective(X, y, "vfe", False, 15)
        whitened.use_covariance_form = False
        expected, expected_theta, expected_Z = whitened.value_and_gradient(theta, X[:15])
        assert value == pytest.approx(expected, rel=1e-12)
        assert_close(d_theta, expected_theta, 1e-9)
        assert_close(d_Z, expected_Z, 1e-9)
        used += ours.use_covariance_form
    assert 0 < used < 36


@pytest.mark.parametrize(("form", "covariance_form"), EVALUATIONS)
def test_evaluations_do_not_depend_on_what_came_before(small_data: Data, form: Form, covariance_form: bool) -> None:
    ours = objective(*small_data, form, True, 7)
    ours.use_covariance_form = covariance_form
    first = ours.value_and_gradient(THETA, Z)
    ours.value_and_gradient(THETA + 1.0, Z * 2.0)
    for before, after in zip(first, ours.value_and_gradient(THETA, Z), strict=True):
        np.testing.assert_array_equal(after, before)  # type: ignore[arg-type]


def test_the_covariance_form_is_not_taken_up_again(small_data: Data) -> None:
    ours = objective(*small_data, "vfe", True, 7)
    ours.value_and_gradient(THETA, Z)
    assert ours.use_covariance_form
    ours.value_and_gradient(THETA - np.array([0.0, 0.0, 0.0, 0.0, 15.0]), Z)
    ours.value_and_gradient(THETA, Z)
    assert not ours.use_covariance_form


@pytest.mark.parametrize("form", FORMS)
def test_jitter_is_kept_once_it_was_needed(small_data: Data, form: Form) -> None:
    ours = objective(*small_data, form, True, 7)
    value = ours.value_and_gradient(THETA, Z)[0]
    assert ours.jitter == 0.0
    at_singular = ours.value_and_gradient(THETA, np.repeat(Z[:1], 7, axis=0))
    kept = ours.jitter
    assert kept > 0.0
    assert all(np.isfinite(part).all() for part in at_singular)
    after = ours.value_and_gradient(THETA, Z)[0]
    assert ours.jitter == kept
    assert after == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("form", FORMS)
def test_memory_is_two_arrays_of_points_times_inducing_inputs(form: Form) -> None:
    rng = np.random.default_rng(9)
    n, M = 20000, 64
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    tracemalloc.start()
    ours = objective(X, y, form, False, M)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    ours.value_and_gradient(np.zeros(3), X[:M])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 2.3 * 8 * n * M
    assert peak - held < 0.6 * 8 * n * M


def test_rejects_what_does_not_fit(small_data: Data) -> None:
    ours = objective(*small_data, "fitc", True, 7)
    with pytest.raises(ValueError, match="theta must have 5"):
        ours.value_and_gradient(np.zeros(3), Z)
    with pytest.raises(ValueError, match="expected 7 inducing inputs, got 6"):
        ours.value_and_gradient(THETA, Z[:6])
    with pytest.raises(ValueError, match="Z must be finite"):
        ours.value_and_gradient(THETA, Z * np.nan)
    with pytest.raises(ValueError, match="n_inducing"):
        objective(*small_data, "vfe", True, 0)
    with pytest.raises(UserError, match="unknown form"):
        objective(*small_data, "fict", True, 7)  # type: ignore[arg-type]


def curve_data() -> Data:
    """Return 150 points of one input and a curve that four inducing inputs describe well apart from each other."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-3.0, 3.0, size=(150, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=150)


@pytest.mark.parametrize("parametrisation", ["softplus", "log"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["curve", "small"])
def test_training_reaches_a_stationary_point(small_data: Data, name: str, form: Form, parametrisation: str) -> None:
    X, y = curve_data() if name == "curve" else small_data
    trained = train_sparse_likelihood(X, y, X[:4], form, True, Search(Budget(evaluations=2000), None, parametrisation))
    ours = objective(X, y, form, True, 4)
    before, *slopes = ours.value_and_gradient(np.zeros(X.shape[1] + 2), X[:4])
    after, d_theta, d_Z = ours.value_and_gradient(trained.gp.hyperparameters.to_log(), trained.Z)
    assert trained.gp.status == "done"
    assert after == pytest.approx(trained.gp.objective_value, rel=1e-9)
    assert after < before - 10.0
    assert np.abs(trained.Z - X[:4]).max() > 0.05
    assert trained.alpha == (1.0 if form == "fitc" else 0.0)
    if (name, form, parametrisation) == ("small", "fitc", "softplus"):
        # there is no optimum to end at: two inducing inputs run into each other while the noise vanishes
        scaled = trained.Z / trained.gp.hyperparameters.lengthscales
        assert pdist(scaled).min() < 0.1
        assert trained.gp.hyperparameters.noise_variance < 1e-2
        return
    # the search stops at a relative reduction of 1e-8, where the objective is flat
    limit = (0.001 if name == "curve" else 0.01) * max(np.abs(part).max() for part in slopes)
    assert max(np.abs(d_theta).max(), np.abs(d_Z).max()) < limit


@pytest.mark.parametrize("form", FORMS)
def test_training_ends_where_gpflow_does(form: Form) -> None:
    X, y = curve_data()
    trained = train_sparse_likelihood(X, y, X[:4], form, False, Search(Budget(evaluations=2000)))
    with gpflow.config.as_context(NO_JITTER):
        model = gpflow_model(X, y, X[:4], np.zeros(3), form)
        gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables)
        expected = float(model.training_loss())
    found = trained.gp.hyperparameters
    assert trained.gp.objective_value == pytest.approx(expected, abs=2e-3)
    assert found.noise_variance == pytest.approx(float(model.likelihood.variance.numpy()), rel=1e-3)
    assert found.lengthscales[0] == pytest.approx(float(model.kernel.lengthscales.numpy()), rel=1e-3)


def test_training_respects_the_budget_and_the_start(small_data: Data) -> None:
    X, y = small_data
    start = Hyperparameters(2.0, (1.5,), 0.5)
    trained = train_sparse_likelihood(X, y, X[:5], "vfe", False, Search(Budget(evaluations=1), start))
    assert (trained.gp.status, trained.gp.evaluations) == ("budget", 1)
    np.testing.assert_allclose(trained.gp.hyperparameters.to_log(), start.to_log(), rtol=1e-12)
    np.testing.assert_array_equal(trained.Z, X[:5])
    with pytest.raises(ValueError, match="start has 1 lengthscales, expected 3"):
        train_sparse_likelihood(X, y, X[:5], "vfe", True, Search(Budget(), start))

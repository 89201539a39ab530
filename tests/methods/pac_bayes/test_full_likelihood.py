"""The full GP's marginal likelihood against scipy's density and GPflow's model, and its training against GPflow's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.full_gp import FullGPLikelihood, maximise_full_likelihood
from gpsuite.methods.pac_bayes.posteriors import se_kernel
from gpsuite.models.config import Hyperparameters, ModelSpec


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
        (likelihood.value_and_gradient(theta + step)[0] - likelihood.value_and_gradient(theta - step)[0])
        / 2e-5
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
    assert FullGPLikelihood(X, y).value_and_gradient(found.to_log())[0] == pytest.approx(
        search.loss, rel=1e-12
    )

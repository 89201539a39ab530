"""Every regression learns a line of sines, tempers on validation rows, and predicts what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.methods.wasserstein.fitting import GWIOptions, TrainingOptions, split_rows
from gpsuite.methods.wasserstein.gwi import inducing_count
from gpsuite.methods.wasserstein.regressors import REGRESSORS, RegressionFit
from gpsuite.methods.wasserstein.scoring import (
    TEMPERATURES,
    negative_log_density,
    rmse,
    temperature,
    tempered,
    variance_factor,
)
from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.random_elements.elements import NNGP, KernelMean, NetworkMean
from gpsuite.models.regression.gpflow_models import hyperparameters_of, predict

pytestmark = pytest.mark.usefixtures("uncompiled")
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (80, 1))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.standard_normal(80)
ROWS = split_rows(X, Y, 0.2, np.random.default_rng(1))
OPTIONS = GWIOptions(prior="se", prior_mean=0.0, prior_evaluations=10, network=NetworkSpec((20,), "tanh"), chosen=20)
TRAINING = TrainingOptions(epochs=40, batches=(64,), learning_rates=(0.03,), patience=40)
TEST = np.linspace(-1.8, 1.8, 40)[:, None]


QUICK = {"gwi", "exact_gp"}
EVERY = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow], id=name) for name in sorted(REGRESSORS)]


@pytest.mark.parametrize("name", EVERY)
def test_it_learns_and_tempers(name: str) -> None:
    found = REGRESSORS.get(name)(RegressionFit(ROWS, OPTIONS, TRAINING, 2, Budget()))
    mean, variance = found.predict(TEST)
    assert rmse(np.sin(2.0 * TEST[:, 0]), mean) < 0.25
    assert (variance > 0.0).all()
    _, wider = found.predict_tempered(TEST)
    np.testing.assert_allclose(wider, found.tempering * variance, rtol=1e-12)
    held = found.predict(ROWS.X_validation), found.predict_tempered(ROWS.X_validation)
    plain, best = (negative_log_density(ROWS.y_validation, *one) for one in held)
    assert best <= plain
    with pytest.raises(ValueError, match=r"\[N, 1\]"):
        found.predict(np.zeros((2, 3)))


@pytest.mark.parametrize("name", sorted(REGRESSORS))
def test_every_method_trains_what_its_name_says(name: str) -> None:
    """One step of each; those that are slow to learn are tested for it elsewhere."""
    rows = split_rows(X[:20], Y[:20], 0.2, np.random.default_rng(1))
    options = replace(OPTIONS, prior_evaluations=1, chosen=5, network=NetworkSpec((3,), "tanh"))
    training = TrainingOptions(epochs=1, batches=(16,), learning_rates=(0.03,), patience=1, trial_epochs=1)
    found = REGRESSORS.get(name)(RegressionFit(rows, options, training, 2, Budget()))
    mean, variance = found.predict(TEST)
    assert mean.shape == variance.shape == (40,)
    assert np.isfinite(mean).all() and (variance > 0.0).all()
    if name.startswith("gwi"):
        element = found.model.element
        assert isinstance(element.mean, KernelMean if name == "gwi_kernel" else NetworkMean)
        assert isinstance(element.prior_kernel, NNGP) == (name == "gwi_nngp")


@pytest.mark.parametrize("name", ["gwi", "gwi_kernel", "svgp"])
def test_its_score_in_a_graph_is_its_validation_loss(name: str) -> None:
    options = replace(OPTIONS, prior_evaluations=1, prior_mean=0.2, network=NetworkSpec((3,), "tanh"))
    training = TrainingOptions(epochs=1, batches=(64,), learning_rates=(0.03,), patience=1, trial_epochs=1)
    model = REGRESSORS.get(name)(RegressionFit(ROWS, options, training, 2, Budget())).model
    held = ROWS.X_validation, ROWS.y_validation
    assert float(model.graph_score(*held)) == pytest.approx(model.validation_loss(*held), rel=1e-12)


@pytest.mark.parametrize("name", ["gwi", "svgp"])
def test_the_epoch_kept_has_the_best_tempered_density(name: str) -> None:
    """A noise variance that is off by a factor says nothing about the mean: the factor is chosen afterwards."""
    options = replace(OPTIONS, prior_evaluations=1, network=NetworkSpec((3,), "tanh"))
    training = TrainingOptions(epochs=1, batches=(64,), learning_rates=(0.03,), patience=1, trial_epochs=1)
    model = REGRESSORS.get(name)(RegressionFit(ROWS, options, training, 2, Budget())).model
    X, y = ROWS.X_validation, ROWS.y_validation
    mean, variance = (model.predict if name == "gwi" else model.predict_gaussian)(X[:, :1])
    best = negative_log_density(y, mean, variance_factor(y, mean, variance) * variance)
    assert model.validation_loss(X, y) == pytest.approx(best, rel=1e-10)


def test_the_factor_is_the_best_one() -> None:
    rng = np.random.default_rng(3)
    y, mean, variance = rng.standard_normal(30), rng.standard_normal(30), rng.uniform(0.1, 1.0, 30)
    alpha = variance_factor(y, mean, variance)
    best = negative_log_density(y, mean, alpha * variance)
    for other in (0.98, 1.02):
        assert negative_log_density(y, mean, other * alpha * variance) > best
    with pytest.raises(ValueError, match="every prediction is exact"):
        variance_factor(mean, mean, variance)


def test_the_temperature_is_found_again() -> None:
    rng = np.random.default_rng(4)
    logits = 2.0 * rng.standard_normal((4000, 3))
    y = np.array([rng.choice(3, p=p) for p in tempered(logits, 1.0)])
    assert temperature(3.0 * logits, y) == pytest.approx(3.0, rel=0.1)
    assert temperature(logits / 4.0, y) == pytest.approx(0.25, rel=0.1)
    exact = logits.argmax(axis=1)
    assert temperature(logits, exact) < 1e-2  # the colder the better, down to the range's end
    assert temperature(logits, exact) >= TEMPERATURES[0]
    with pytest.raises(ValueError, match="finite"):
        temperature(logits * np.inf, y)


def test_options_are_checked() -> None:
    for changes in ({"mean": "spline"}, {"kernel": "spline"}):
        with pytest.raises(UserError, match="spline"):
            GWIOptions(**changes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be positive"):
        GWIOptions(inducing=0.0)
    assert [inducing_count(400, m) for m in (0.5, 1.0, 100.0, 1e-9)] == [10, 20, 400, 1]


@pytest.mark.parametrize("name", ["gwi", "exact_gp"])
def test_predictions_hold_the_noise_and_are_tempered_on_rows_that_training_did_not_see(name: str) -> None:
    rows = split_rows(X[:20], Y[:20], 0.2, np.random.default_rng(1))
    options = replace(OPTIONS, prior_evaluations=1, chosen=5, network=NetworkSpec((3,), "tanh"))
    found = REGRESSORS.get(name)(RegressionFit(rows, options, replace(TRAINING, epochs=1), 2, Budget()))
    _, variance = found.predict(X)
    if name == "gwi":
        latent, noise = found.model.element.predict(X)[1][:, 0], found.model.likelihood.variance
    else:
        latent, noise = predict(found.model, X)[1][:, 0], hyperparameters_of(found.model).noise_variance
    assert noise > 1e-6
    np.testing.assert_allclose(variance, latent + noise, rtol=1e-12)
    assert found.tempering == variance_factor(rows.y_validation, *found.predict(rows.X_validation))

"""All regressions of the family with one interface. Predictions are Gaussian and include the noise.

Equation: none, exports methods that state their own
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.baselines import build_sparse_gp
from gpsuite.methods.wasserstein.classifiers import NoKeeper, StateKeeper
from gpsuite.methods.wasserstein.fitting import DivergedError, GWIOptions, TrainingOptions, TrainingRows
from gpsuite.methods.wasserstein.gwi import build_gwi_regressor, inducing_count
from gpsuite.methods.wasserstein.scoring import variance_factor
from gpsuite.methods.wasserstein.training import Trainable, train
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.regression.gpflow_models import build_gpr, hyperparameters_of, maximise_likelihood, predict
from gpsuite.registry import Registry
from gpsuite.seeds import derived_seed, stream

REGRESSORS: Registry[Callable[[RegressionFit], FittedRegressor]] = Registry("regressor")


@dataclass(frozen=True, eq=False)
class FittedRegressor:
    """A trained regression.

    Attributes:
        predict: function of inputs [N, D] that returns mean [N] and variance [N] of targets, noise included.
        tempering: factor alpha of the variance with the best validation likelihood. `predict` does not apply it.
    """

    predict: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    status: str
    reason: str
    model: Any
    tempering: float

    def predict_tempered(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean, and the variance times alpha."""
        mean, variance = self.predict(X)
        return mean, self.tempering * variance


@dataclass(frozen=True, eq=False)
class RegressionFit:
    """One fit. Fields are as in `ClassifierFit`. Targets are numbers of about mean 0 and variance 1."""

    rows: TrainingRows
    options: GWIOptions
    training: TrainingOptions
    seed: int
    budget: Budget
    keeper: StateKeeper = field(default_factory=NoKeeper)

    def __post_init__(self) -> None:
        y, held = (np.asarray(each, dtype=np.float64) for each in (self.rows.y, self.rows.y_validation))
        object.__setattr__(self, "rows", replace(self.rows, y=y, y_validation=held))

    def trained(
        self,
        model: Trainable,
        predictions: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
        rows: TrainingRows | None = None,
    ) -> FittedRegressor:
        report = train(
            model,
            rows or self.rows,
            self.training,
            derived_seed(self.seed, "model"),
            self.budget,
            self.keeper.load("model"),
            lambda state: self.keeper.save("model", state),
        )
        if report.state.best_epoch == 0:
            raise DivergedError(report.reason)
        return self.fitted(model, predictions, report.status, report.reason)

    def fitted(
        self, model: Any, predictions: Callable[[FloatArray], tuple[FloatArray, FloatArray]], status: str, reason: str
    ) -> FittedRegressor:
        alpha = variance_factor(self.rows.y_validation, *predictions(self.rows.X_validation))
        return FittedRegressor(predictions, status, reason, model, alpha)


@REGRESSORS.register("gwi")
def _gwi(fit: RegressionFit) -> FittedRegressor:
    """Return GWI with a network's mean (Wild et al. 2022)."""
    return _gwi_with(fit, replace(fit.options, mean="network"))


@REGRESSORS.register("gwi_kernel")
def _gwi_kernel(fit: RegressionFit) -> FittedRegressor:
    return _gwi_with(fit, replace(fit.options, mean="kernel"))


@REGRESSORS.register("gwi_nngp")
def _gwi_nngp(fit: RegressionFit) -> FittedRegressor:
    """Return GWI around the prior of an infinitely wide ReLU network."""
    return _gwi_with(fit, replace(fit.options, mean="network", prior="nngp_relu"))


@REGRESSORS.register("svgp")
def _svgp(fit: RegressionFit) -> FittedRegressor:
    o, X = fit.options, fit.rows.X
    M = inducing_count(len(X), o.inducing)
    prior = (o.prior, o.prior_mean, o.prior_evaluations)
    model = build_sparse_gp(X, fit.rows.y[:, None], None, *prior, M, stream(fit.seed, "start"), fit.budget.left)
    return fit.trained(model, model.predict_gaussian)


@REGRESSORS.register("exact_gp")
def _exact_gp(fit: RegressionFit) -> FittedRegressor:
    """Return an exact GP with a squared exponential ARD kernel, by marginal likelihood on the same training rows."""
    X, y = fit.rows.X, fit.rows.y
    start = Hyperparameters(1.0, (float(np.sqrt(X.shape[1])),), 0.1)
    model = build_gpr(X, y, ModelSpec(ard=True), start)
    report = maximise_likelihood(model, fit.budget)

    def predictions(X: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, variance = predict(model, X)
        return mean[:, 0], variance[:, 0] + hyperparameters_of(model).noise_variance

    return fit.fitted(model, predictions, report.status, report.reason)


def _gwi_with(fit: RegressionFit, options: GWIOptions) -> FittedRegressor:
    model = build_gwi_regressor(fit.rows.X, fit.rows.y, options, stream(fit.seed, "start"), fit.budget.left)
    return fit.trained(model, model.predict, model.prepared(fit.rows))

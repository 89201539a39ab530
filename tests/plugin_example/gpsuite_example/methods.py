"""Methods that nobody shipped: a regressor with a risk bound, and a classifier whose posterior is exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.budget import Budget
from gpsuite.experiments.base import MethodOptions
from gpsuite.experiments.pac_bayes.methods import FULL, REGRESSION, RISK_BOUND, RiskMethod, exact_posterior, full_cost
from gpsuite.experiments.pac_bayes.training import Trained, Training
from gpsuite.experiments.robustness.classifiers import ClassifierMethod, Problem
from gpsuite.experiments.robustness.classifiers import Trained as TrainedClassifier
from gpsuite.experiments.robustness.tasks import CLASSIFIER, GAUSSIAN_LATENT, ClassifierParams
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.config import Hyperparameters


@dataclass(frozen=True, kw_only=True)
class SpreadOptions(MethodOptions):
    noise: float = 0.1


def by_spread(work: Training[SpreadOptions], loss: Loss) -> Trained:
    width = 2.0 * float(np.sqrt(work.X.var(axis=0).sum()))  # nothing is searched
    return Trained(Hyperparameters(1.0, (width,) * work.n_lengthscales, work.options.noise), "done", "", 1, 0.0)


SPREAD = RiskMethod(
    options=SpreadOptions,
    dataset_tasks=REGRESSION,
    traits=frozenset({RISK_BOUND, FULL}),
    train=by_spread,
    certify=exact_posterior,
    cost=full_cost,
)


@dataclass(frozen=True, kw_only=True)
class LeastSquaresOptions(MethodOptions):
    noise: float


def by_least_squares(problem: Problem, model: ClassifierParams, budget: Budget) -> TrainedClassifier:
    """Regress on the labels -1 and 1: the posterior is exact, and nothing is searched."""
    assert isinstance(model.method, LeastSquaresOptions)
    X, lengthscales = problem.X, np.full(problem.X.shape[1], np.sqrt(problem.X.shape[1]))
    distances = ((X[:, None] - X[None]) / lengthscales) ** 2
    covariance = np.exp(-0.5 * distances.sum(axis=2)) + model.method.noise * np.eye(len(X))
    root = np.tril(np.linalg.inv(np.linalg.cholesky(covariance)))
    alpha, link = np.linalg.solve(covariance, problem.y), LINKS.get("probit")
    weights, bound = -np.ones(len(X)), 1.0
    return TrainedClassifier(
        GPCPosterior(X, "squared_exponential", 1.0, lengthscales, alpha, root, weights, bound, link)
    )


LEAST_SQUARES = ClassifierMethod(
    options=LeastSquaresOptions,
    dataset_tasks=("classification",),
    traits=frozenset({CLASSIFIER, GAUSSIAN_LATENT}),
    train=by_least_squares,
    most_classes=lambda options: 2,
)

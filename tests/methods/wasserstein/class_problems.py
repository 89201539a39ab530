"""A small problem of three classes in two dimensions, and fits of it that take no time."""

from __future__ import annotations

import numpy as np

from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.classifiers import ClassifierFit, NoKeeper, StateKeeper
from gpsuite.methods.wasserstein.distance import wasserstein_on_points
from gpsuite.methods.wasserstein.fitting import ClassifierOptions, TrainingOptions, TrainingRows, split_rows
from gpsuite.models.network_spec import NetworkSpec
from tests.arrays import Array

CENTRES = np.array([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])


def labelled(seed: int, count: int, classes: int = 3) -> tuple[Array, Array]:
    """Return clouds around the centres and their labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % classes
    return CENTRES[y] + 0.5 * rng.standard_normal((count, 2)), y


def rows(classes: int = 3) -> TrainingRows:
    """Return 48 training and 12 validation rows."""
    return split_rows(*labelled(0, 60, classes), 0.2, np.random.default_rng(1))


def options(epochs: int = 12) -> ClassifierOptions:
    """Return settings for a fit of a second."""
    return ClassifierOptions(
        training=TrainingOptions(epochs=epochs, batches=(48,), learning_rates=(0.1,), patience=epochs),
        network=NetworkSpec((12,), "tanh"),
        prior="se",
        prior_evaluations=3,
        chosen=10,
        members=2,
        draws=8,
    )


def fit(classes: int = 3, epochs: int = 12, seed: int = 3, keeper: StateKeeper | None = None) -> ClassifierFit:
    """Return a fit of the problem."""
    return ClassifierFit(rows(classes), classes, options(epochs), seed, Budget(), keeper or NoKeeper())


def squared_gaussian_wasserstein(mean_p: Array, covariance_p: Array, mean_q: Array, covariance_q: Array) -> float:
    """Return the squared 2-Wasserstein distance of N(mean_p, covariance_p) and N(mean_q, covariance_q) on R^d."""
    parts = (np.asarray(part, np.float64) for part in (mean_p, mean_q, covariance_p, covariance_q))
    # rounding may leave it an ulp below 0
    return max(len(mean_p) * wasserstein_on_points(*parts).squared_distance, 0.0)

"""Training of a classifier or a regression by its name; TensorFlow is imported when one is trained.

Equation: none, one face of methods that state their own
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.options import ClassifierOptions, GWIOptions, TrainingOptions
from gpsuite.methods.wasserstein.rows import TrainingRows
from gpsuite.models.tensorflow_setup import configure

if TYPE_CHECKING:
    from gpsuite.methods.wasserstein.classifiers import FittedClassifier
    from gpsuite.methods.wasserstein.regressors import FittedRegressor


def fit_classifier(
    name: str,
    rows: TrainingRows,
    n_classes: int,
    options: ClassifierOptions | None = None,
    *,
    seed: int = 0,
    budget: Budget | None = None,
) -> FittedClassifier:
    """Train a classifier and choose on the validation rows what is to be chosen.

    Args:
        name: one of `GP_CLASSIFIER_NAMES` and `NETWORK_CLASSIFIER_NAMES`.
        rows: training and validation rows; inputs standardised, labels 0, ..., C - 1.
        n_classes: C.
        options: settings, the shipped ones by default.
        seed: of everything random.
        budget: steps and seconds, without a limit by default.

    Raises:
        UserError: if there is no such classifier.
        ValueError: if a label is not a class, or a class has no training row.
    """
    configure()
    from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS, Fit

    fit = Fit(rows, n_classes, options or ClassifierOptions(), seed, budget or Budget())
    return CLASSIFIERS.get(name)(fit)


def fit_regressor(
    name: str,
    rows: TrainingRows,
    options: GWIOptions | None = None,
    training: TrainingOptions | None = None,
    *,
    seed: int = 0,
    budget: Budget | None = None,
) -> FittedRegressor:
    """Train a regression and temper its variance on the validation rows.

    Args:
        name: one of `REGRESSOR_NAMES`.
        rows: training and validation rows; inputs standardised, targets of about mean 0 and variance 1.
        options: what GWI's measures are made of, the shipped ones by default.
        training: epochs, batches, rates.
        seed: of everything random.
        budget: steps and seconds, without a limit by default.

    Raises:
        UserError: if there is no such regression.
    """
    configure()
    from gpsuite.methods.wasserstein.regressors import REGRESSORS, RegressionFit

    fit = RegressionFit(
        rows, options or GWIOptions(), training or TrainingOptions(), seed, budget or Budget()
    )
    return REGRESSORS.get(name)(fit)

"""Training and validation rows, without TensorFlow.

Equation: none, data
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.options import ClassifierOptions, GWIOptions, TrainingOptions
from gpsuite.models.tensorflow_setup import configure
from gpsuite.seeds import require_generator

if TYPE_CHECKING:
    from gpsuite.methods.wasserstein.classifiers import FittedClassifier
    from gpsuite.methods.wasserstein.regressors import FittedRegressor


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training and validation rows.

    Attributes:
        X: inputs [N, D].
        y: targets [N]: integers 0, ..., C - 1 or numbers.
        X_validation: held-out inputs [N', D].
        y_validation: their targets [N'].

    Raises:
        ValueError: if shapes do not fit, a part has no rows, or a value is not finite.
    """

    X: FloatArray
    y: npt.NDArray[Any]
    X_validation: FloatArray
    y_validation: npt.NDArray[Any]

    def __post_init__(self) -> None:
        for X, y in ((self.X, self.y), (self.X_validation, self.y_validation)):
            if X.ndim != 2 or y.shape != (len(X),) or len(X) == 0 or X.shape[1] != self.X.shape[1]:
                raise ValueError(f"inputs [N, D] and targets [N], N >= 1, are needed: {X.shape}, {y.shape}")
            if not (np.isfinite(X).all() and np.isfinite(y).all()):
                raise ValueError("inputs and targets must be finite")


class FewDifferentRowsError(ValueError):
    """The rows are too often the same: none is left to train on."""


def split_rows(
    X: FloatArray,
    y: npt.NDArray[Any],
    share: float,
    rng: np.random.Generator,
    groups: IntArray | None = None,
) -> TrainingRows:
    """Return a random split with about `share` of the rows for validation, at least one of both.

    Args:
        X: inputs [N, D].
        y: targets [N].
        share: of the rows, for validation.
        rng: of the split.
        groups: equal for rows that are copies of each other [N], or None. Copies of a validation row are not trained
            on: what is chosen by validation would be what remembers best.

    Raises:
        TypeError: if `rng` is a seed.
        ValueError: if there are fewer than 2 rows, as many of each are not given, or the share is not in (0, 1).
        FewDifferentRowsError: if all other rows are copies of validation rows.
    """
    X, y = np.asarray(X), np.asarray(y)
    if len(X) != len(y) or (groups is not None and len(groups) != len(X)):
        raise ValueError(f"{len(X)} inputs, {len(y)} targets: as many are needed, and a group for each")
    if len(X) < 2 or not 0.0 < share < 1.0:
        raise ValueError(f"{len(X)} rows, share {share}: at least 2 rows and a share in (0, 1) are needed")
    require_generator(rng)
    order = rng.permutation(len(X))
    held = min(max(round(share * len(X)), 1), len(X) - 1)
    validation, train = order[:held], order[held:]
    if groups is not None:
        groups = np.asarray(groups)
        train = train[~np.isin(groups[train], groups[validation])]
        if not train.size:
            raise FewDifferentRowsError(f"{len(X)} rows: all others are copies of the {held} validation rows")
    return TrainingRows(X[train], y[train], X[validation], y[validation])


# Training of a classifier or a regression by its name; TensorFlow is imported when one is trained.


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

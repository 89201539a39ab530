"""Classifiers and regressions of the family by name: options, rows and fits. TensorFlow is imported only to train.

Equation: none, names
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.errors import unknown_name
from gpsuite.models.classification import robust_max
from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.tensorflow_setup import configure
from gpsuite.seeds import require_generator

if TYPE_CHECKING:
    from gpsuite.methods.wasserstein.classifiers import FittedClassifier
    from gpsuite.methods.wasserstein.regressors import FittedRegressor

GP_CLASSIFIER_NAMES = ("gwi", "gwi_kernel", "gwi_softmax", "gwi_nngp", "gwi_bernoulli", "svgp", "svgp_softmax")
NETWORK_CLASSIFIER_NAMES = ("map", "temperature", "mc_dropout", "ensemble", "mean_field", "laplace")
REGRESSOR_NAMES = ("gwi", "gwi_kernel", "gwi_nngp", "svgp", "exact_gp")
CHOSEN = 100  # |X_S| of Wild et al. 2022
MEANS = ("network", "kernel")
KERNELS = ("sparse", "nngp")


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training.

    Attributes:
        batches: numbers of rows per step to try. The last batch of an epoch may be smaller.
        patience: number of epochs without a better validation score after which training ends.
        trial_epochs: number of epochs after which only the pair of batch and rate with the best validation score
            continues, if there are several pairs.

    Raises:
        ValueError: if a number is not positive, or nothing is to be tried.
    """

    epochs: int = 100
    batches: tuple[int, ...] = (1000,)
    learning_rates: tuple[float, ...] = (1e-2,)
    patience: int = 10
    trial_epochs: int = 5

    def __post_init__(self) -> None:
        counts = min(self.epochs, self.patience, self.trial_epochs, *self.batches, 1)
        if not (self.batches and self.learning_rates and counts == 1 and min(self.learning_rates) > 0.0):
            raise ValueError(f"epochs, batches, patience and learning_rates must be positive: {self}")

    def steps(self, rows: int) -> int:
        trials = sum(math.ceil(rows / batch) for batch in self.batches) * len(self.learning_rates)
        return self.epochs * math.ceil(rows / min(self.batches)) + trials * min(self.trial_epochs, self.epochs)


@dataclass(frozen=True)
class GWIOptions:
    """Options of the variational measures and their prior.

    Attributes:
        mean: `network` or `kernel` (a basis of the prior's kernel at the inducing inputs).
        kernel: `sparse` (SVGP-type, around the prior) or `nngp` (an infinitely wide ReLU network's).
        prior: name in `models.random_elements.elements.PRIORS`.
        inducing: M as a multiple of sqrt(N). The paper takes 0.5, 0.75 and 1.
        chosen: rows |X_S| on which the distance's covariance terms are computed.

    Raises:
        UserError: if mean or kernel is unknown.
        ValueError: if a number is not positive.
    """

    mean: str = "network"
    kernel: str = "sparse"
    prior: str = "se_ard"
    prior_mean: float = 0.1
    prior_evaluations: int = 100
    inducing: float = 1.0
    network: NetworkSpec = field(default_factory=NetworkSpec)
    chosen: int = CHOSEN

    def __post_init__(self) -> None:
        if self.mean not in MEANS:
            raise unknown_name("mean", self.mean, MEANS)
        if self.kernel not in KERNELS:
            raise unknown_name("kernel", self.kernel, KERNELS)
        if not self.inducing > 0.0 or min(self.prior_evaluations, self.chosen) < 1:
            raise ValueError("inducing, prior_evaluations and chosen must be positive")


@dataclass(frozen=True)
class ClassifierOptions:
    """Settings of all classifiers. Each uses the settings that concern it.

    Attributes:
        prior: kernel of the GPs' prior, a name in `random_elements.elements.PRIORS`.
        prior_mean: prior mean of the latent functions.
        inducing: M as a multiple of sqrt(N).
        inducing_tried: multiples that GWI tries instead. Each is trained. The one with the best validation score is
            kept.
        tempered: whether GWI fits a temperature per class on the validation rows (`temperatures`).

    Raises:
        ValueError: if a number is out of range.
    """

    training: TrainingOptions = field(default_factory=TrainingOptions)
    network: NetworkSpec = field(default_factory=NetworkSpec)
    prior: str = "se_ard"
    prior_mean: float = 0.1
    prior_evaluations: int = 100
    inducing: float = 1.0
    chosen: int = CHOSEN
    epsilon: float = robust_max.EPSILON
    dropout: float = 0.2
    members: int = 5
    draws: int = 50
    inducing_tried: tuple[float, ...] = ()
    tempered: bool = False

    def __post_init__(self) -> None:
        counts = self.prior_evaluations, self.chosen, self.members, self.draws
        if not min([self.inducing, *self.inducing_tried]) > 0.0 or min(counts) < 1:
            raise ValueError("inducing, prior_evaluations, chosen, members and draws must be positive")
        if not (0.0 < self.epsilon < 1.0 and 0.0 <= self.dropout < 1.0):
            raise ValueError(f"epsilon={self.epsilon}, dropout={self.dropout}: must be shares below 1")


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training and validation rows.

    Attributes:
        y: targets [N], integers 0, ..., C - 1 or numbers.

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


class DivergedError(ArithmeticError):
    """Raised if no epoch of a training has a finite loss: there is nothing to predict with."""


class FewDifferentRowsError(ValueError):
    """Raised if all rows are copies of validation rows: none is left to train on."""


def split_rows(
    X: FloatArray, y: npt.NDArray[Any], share: float, rng: np.random.Generator, groups: IntArray | None = None
) -> TrainingRows:
    """Return a random split with about `share` of the rows for validation, at least one row in each part.

    Args:
        groups: numbers [N] that are equal for copies of the same row, or None. Copies of a validation row are left out
            of training: otherwise validation would prefer models that memorise.

    Raises:
        TypeError: if `rng` is a seed.
        ValueError: if there are fewer than 2 rows, the numbers of rows differ, or the share is not in (0, 1).
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


# Training of a classifier or a regression by its name. TensorFlow is imported when one is trained.
def fit_classifier(
    name: str,
    rows: TrainingRows,
    n_classes: int,
    options: ClassifierOptions | None = None,
    *,
    seed: int = 0,
    budget: Budget | None = None,
) -> FittedClassifier:
    """Train a classifier and make its choices on the validation rows.

    Args:
        name: one of `GP_CLASSIFIER_NAMES` and `NETWORK_CLASSIFIER_NAMES`.
        rows: training and validation rows. Inputs standardised, labels 0, ..., C - 1.

    Raises:
        UserError: if there is no such classifier.
        ValueError: if a label is not a class, or a class has no training row.
    """
    configure()
    from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS, ClassifierFit

    fit = ClassifierFit(rows, n_classes, options or ClassifierOptions(), seed, budget or Budget())
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
        rows: training and validation rows. Inputs standardised, targets of about mean 0 and variance 1.

    Raises:
        UserError: if there is no such regression.
    """
    configure()
    from gpsuite.methods.wasserstein.regressors import REGRESSORS, RegressionFit

    fit = RegressionFit(rows, options or GWIOptions(), training or TrainingOptions(), seed, budget or Budget())
    return REGRESSORS.get(name)(fit)

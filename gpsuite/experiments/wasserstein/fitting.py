"""Settings and task params that classification and regression share: the prior, the network, the training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.splits import Standardiser
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, require
from gpsuite.experiments.settings import Count, Positive, Share, filled, one_of, unique
from gpsuite.experiments.wasserstein.methods import regressor_method
from gpsuite.methods.wasserstein import scoring as scores
from gpsuite.methods.wasserstein.fitting import TrainingOptions, split_rows
from gpsuite.reporting.metrics import UNTEMPERED
from gpsuite.seeds import stream

if TYPE_CHECKING:
    from gpsuite.experiments.base import MethodOptions
    from gpsuite.methods.wasserstein.regressors import FittedRegressor


PRIORS = ("se", "se_ard", "nngp_relu", "nngp_erf")
ACTIVATIONS = ("relu", "tanh")


@dataclass
class CommonSettings:
    """Training of every method of a run, without the number of inducing inputs.

    Attributes:
        validation_share: share of the training rows that choose epoch, temperature and precision.
        epochs: largest number of epochs.
        patience: epochs without a better validation score after which training ends.
        batches: rows of a step, tried on the validation rows.
        learning_rates: learning rates of Adam to try. Every training tries every pair of batch and rate.
        trial_epochs: number of epochs after which only the pair with the best validation score continues.
        widths: widths of the network's hidden layers.
        activation: activation of the network.
        prior: kernel of the Gaussian processes' prior.
        prior_mean: prior mean of the latent functions.
        prior_evaluations: largest number of evaluations of the marginal likelihood that chooses the prior's parameters.
        chosen: rows on which the Wasserstein distance's covariance terms are computed.
    """

    validation_share: Share
    epochs: Count
    patience: Count
    batches: Annotated[list[Count], filled, unique]
    learning_rates: Annotated[list[Positive], filled, unique]
    trial_epochs: Count
    widths: Annotated[list[Count], filled]
    activation: Annotated[str, one_of(ACTIVATIONS)]
    prior: Annotated[str, one_of(PRIORS)]
    prior_mean: float
    prior_evaluations: Count
    chosen: Count

    def check_multiple(self, key: str, multiple: float, rows: int) -> None:
        """Refuse more inducing inputs than there are training rows, validation rows among them.

        Raises:
            UserError: naming the key.
        """
        learned = rows - round(self.validation_share * rows)
        most = math.sqrt(max(learned, 1))
        allowed = f"M = inducing * sqrt(N) exceeds the N = {learned} training rows. At most {most:.4g}"
        require(multiple <= most, key, multiple, allowed)

    def params(self, inducing: float) -> TrainingParams:
        """Return the settings as params of a task, with M as a multiple of sqrt(N)."""
        return TrainingParams(
            validation_share=self.validation_share,
            epochs=self.epochs,
            patience=self.patience,
            batches=tuple(self.batches),
            learning_rates=tuple(self.learning_rates),
            trial_epochs=self.trial_epochs,
            widths=tuple(self.widths),
            activation=self.activation,
            prior=self.prior,
            prior_mean=self.prior_mean,
            prior_evaluations=self.prior_evaluations,
            inducing=inducing,
            chosen=self.chosen,
        )


@dataclass
class TrainingSettings(CommonSettings):
    """Training of every method of a run.

    Attributes:
        inducing: M as a multiple of sqrt(N).
    """

    inducing: Positive

    def check_inducing(self, rows: int) -> None:
        """As `check_multiple`, for the run's own."""
        self.check_multiple("inducing", self.inducing, rows)

    @property
    def work(self) -> TrainingParams:
        """The settings as params of a task."""
        return self.params(self.inducing)


@dataclass(frozen=True, kw_only=True)
class TrainingParams:
    """Params of a training. Attributes as `TrainingSettings`."""

    validation_share: float
    epochs: int
    patience: int
    batches: tuple[int, ...]
    learning_rates: tuple[float, ...]
    trial_epochs: int
    widths: tuple[int, ...]
    activation: str
    prior: str
    prior_mean: float
    prior_evaluations: int
    inducing: float
    chosen: int

    @property
    def training(self) -> TrainingOptions:
        """The same as a training's options."""
        return TrainingOptions(self.epochs, self.batches, self.learning_rates, self.patience, self.trial_epochs)


LEVEL = 0.95  # of predictive intervals
_STATUS = {"done": DONE, "budget": BUDGET, "diverged": DIVERGED}


@dataclass(frozen=True, eq=False)
class OwnUnits:
    """A trained regression with inputs and targets in their own units.

    Attributes:
        found: trained on standardised rows.
        inputs: the map of its inputs.
        targets: the map of its targets.
        validation_nll: of the validation rows, tempered, in standardised units.
    """

    found: FittedRegressor
    inputs: Standardiser
    targets: Standardiser
    validation_nll: float

    @property
    def status(self) -> str:
        return _STATUS[self.found.status]

    def predict(self, X: FloatArray, tempered: bool = False) -> tuple[FloatArray, FloatArray]:
        """Return mean [N] and variance [N] of the targets, noise included."""
        predict = self.found.predict_tempered if tempered else self.found.predict
        mean, variance = predict(self.inputs.transform(X))
        return self.targets.inverse(mean[:, None])[:, 0], variance * self.targets.scale[0] ** 2


def fit_regression(
    options: MethodOptions,
    t: TrainingParams,
    X: FloatArray,
    y: FloatArray,
    seed: int,
    budget: Budget,
    states: Path | None = None,
    groups: IntArray | None = None,
) -> OwnUnits:
    """Train on rows [N, D], [N]: both standardised by the training rows, validation rows among them split off.

    Rows of equal `groups` [N] are copies of each other. None is on both sides.
    In the folder `states` a training leaves what an interruption must not lose.
    """
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.methods.wasserstein.classifiers import NoKeeper
    from gpsuite.methods.wasserstein.fitting import GWIOptions
    from gpsuite.methods.wasserstein.regressors import RegressionFit
    from gpsuite.methods.wasserstein.training import StateFolder
    from gpsuite.models.network_spec import NetworkSpec

    inputs, targets = Standardiser.fit(X), Standardiser.fit(y[:, None])
    scaled = inputs.transform(X), targets.transform(y[:, None])[:, 0]
    rows = split_rows(*scaled, t.validation_share, stream(seed, "validation"), groups)
    settings = GWIOptions(
        prior=t.prior,
        prior_mean=t.prior_mean,
        prior_evaluations=t.prior_evaluations,
        inducing=t.inducing,
        network=NetworkSpec(t.widths, t.activation),
        chosen=t.chosen,
    )
    keeper = NoKeeper() if states is None else StateFolder(states)
    work = RegressionFit(rows, settings, t.training, seed, budget, keeper)
    found = regressor_method(options).train(options, work)
    held = scores.negative_log_density(rows.y_validation, *found.predict_tempered(rows.X_validation))
    return OwnUnits(found, inputs, targets, held)


def regression_scores(model: OwnUnits, X: FloatArray, y: FloatArray) -> dict[str, float]:
    """Return the scores on test rows, tempered and not (`UNTEMPERED`)."""
    found: dict[str, float] = {"tempering": model.found.tempering}
    for tempered, suffix in ((True, ""), (False, UNTEMPERED)):
        mean, variance = model.predict(X, tempered)
        found |= {
            f"nll_own{suffix}": scores.negative_log_density(y, mean, variance),
            f"crps{suffix}": scores.crps(y, mean, variance),
            f"interval_coverage{suffix}": scores.interval_coverage(y, mean, variance, LEVEL),
            f"interval_width{suffix}": float(2.0 * np.mean(scores.interval_half_widths(variance, LEVEL))),
        }
        found["rmse_test_own_units"] = scores.rmse(y, mean)
    return found

"""Settings and task params that classification and regression share: the prior, the network, the training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.settings import Count, Positive, Share, filled, one_of, unique
from gpsuite.methods.wasserstein.options import TrainingOptions

PRIORS = ("se", "se_ard", "nngp_relu", "nngp_erf")
ACTIVATIONS = ("relu", "tanh")


@dataclass
class TrainingSettings:
    """How every method of a run is trained.

    Attributes:
        validation_share: share of the training rows that choose epoch, temperature and precision.
        epochs: at most.
        patience: epochs without a better validation score after which training ends.
        batches: rows of a step, tried on the validation rows.
        learning_rates: of Adam, tried likewise; every pair of both is tried by every training.
        trial_epochs: after which the pair with the best validation score goes on.
        widths: of the network's hidden layers; channels of its convolutions.
        activation: of the network.
        prior: kernel of the Gaussian processes' prior.
        prior_mean: of their latent functions.
        prior_evaluations: of the marginal likelihood that chooses the prior's parameters.
        inducing: M as a multiple of sqrt(N).
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
    inducing: Positive
    chosen: Count

    def check_inducing(self, rows: int) -> None:
        """Refuse more inducing inputs than there are training rows, validation rows among them.

        Raises:
            UserError: naming the key.
        """
        learned = rows - round(self.validation_share * rows)
        most = math.sqrt(max(learned, 1))
        allowed = f"M = inducing * sqrt(N) exceeds the N = {learned} training rows; at most {most:.4g}"
        require(self.inducing <= most, "inducing", self.inducing, allowed)

    @property
    def work(self) -> TrainingParams:
        """The settings as params of a task."""
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
            inducing=self.inducing,
            chosen=self.chosen,
        )


@dataclass(frozen=True, kw_only=True)
class TrainingParams:
    """Params of a training; attributes as `TrainingSettings`."""

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
        return TrainingOptions(
            self.epochs, self.batches, self.learning_rates, self.patience, self.trial_epochs
        )

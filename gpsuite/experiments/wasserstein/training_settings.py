"""Settings and task params that classification and regression share: the prior, the network, the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.settings import Count, Positive, Share, filled, one_of

PRIORS = ("se", "se_ard", "nngp_relu", "nngp_erf")
ACTIVATIONS = ("relu", "tanh")


@dataclass
class TrainingSettings:
    """How every method of a run is trained.

    Attributes:
        validation_share: share of the training rows that choose epoch, temperature and precision.
        epochs: at most.
        patience: epochs without a better validation score after which training ends.
        batch: rows of a step.
        learning_rate: of Adam.
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
    batch: Count
    learning_rate: Positive
    widths: Annotated[list[Count], filled]
    activation: Annotated[str, one_of(ACTIVATIONS)]
    prior: Annotated[str, one_of(PRIORS)]
    prior_mean: float
    prior_evaluations: Count
    inducing: Positive
    chosen: Count

    @property
    def work(self) -> TrainingParams:
        """The settings as params of a task."""
        return TrainingParams(
            validation_share=self.validation_share,
            epochs=self.epochs,
            patience=self.patience,
            batch=self.batch,
            learning_rate=self.learning_rate,
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
    batch: int
    learning_rate: float
    widths: tuple[int, ...]
    activation: str
    prior: str
    prior_mean: float
    prior_evaluations: int
    inducing: float
    chosen: int

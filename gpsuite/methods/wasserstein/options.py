"""Names of the family's classifiers and regressions, without what they are made of. No TensorFlow.

Equation: none, names
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gpsuite.errors import unknown_name
from gpsuite.models.classification import robust_max
from gpsuite.models.network_spec import NetworkSpec

GP_CLASSIFIER_NAMES = (
    "gwi",
    "gwi_kernel",
    "gwi_softmax",
    "gwi_nngp",
    "gwi_bernoulli",
    "svgp",
    "svgp_softmax",
)
NETWORK_CLASSIFIER_NAMES = ("map", "temperature", "mc_dropout", "ensemble", "mean_field", "laplace")
REGRESSOR_NAMES = ("gwi", "gwi_kernel", "gwi_nngp", "svgp", "exact_gp")
CHOSEN = 100  # |X_S| of Wild et al. 2022
MEANS = ("network", "kernel")
KERNELS = ("sparse", "nngp")


@dataclass(frozen=True)
class TrainingOptions:
    """How to train.

    Attributes:
        epochs: passes over the data at most.
        batches: rows of a step that are tried; the last batch of an epoch may be smaller.
        learning_rates: of Adam, tried.
        patience: epochs without a better validation score after which it ends.
        trial_epochs: after which the pair of batch and rate with the best validation score goes on, where there are
            several.

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
        """Return the steps of a training on so many rows at most, trials included."""
        trials = sum(math.ceil(rows / batch) for batch in self.batches) * len(self.learning_rates)
        return self.epochs * math.ceil(rows / min(self.batches)) + trials * min(
            self.trial_epochs, self.epochs
        )


@dataclass(frozen=True)
class GWIOptions:
    """What the variational measures and their prior are made of.

    Attributes:
        mean: `network` or `kernel` (a basis of the prior's kernel at the inducing inputs).
        kernel: `sparse` (SVGP-type, around the prior) or `nngp` (an infinitely wide ReLU network's).
        prior: name in `models.random_elements.prior.PRIORS`.
        prior_mean: the constant m_P.
        prior_evaluations: of the marginal likelihood that chooses the prior's parameters.
        inducing: M as a multiple of sqrt(N); the paper takes .5, .75 and 1.
        network: of the mean.
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
    """Settings that the classifiers share; each uses those that concern it.

    Attributes:
        training: epochs, batch, rate, patience.
        network: of the mean function and of the network baselines.
        prior: kernel of the GPs' prior, a name in `random_elements.prior.PRIORS`.
        prior_mean: of the latent functions.
        prior_evaluations: of the marginal likelihood that chooses the prior's parameters.
        inducing: M as a multiple of sqrt(N).
        chosen: rows on which the Wasserstein distance's covariance terms are computed.
        epsilon: of robust max.
        dropout: probability of leaving a unit out, where dropout is used.
        members: networks of the ensemble.
        draws: of weights or of dropout in a prediction.

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

    def __post_init__(self) -> None:
        if not self.inducing > 0.0 or min(self.prior_evaluations, self.chosen, self.members, self.draws) < 1:
            raise ValueError("inducing, prior_evaluations, chosen, members and draws must be positive")
        if not (0.0 < self.epsilon < 1.0 and 0.0 <= self.dropout < 1.0):
            raise ValueError(f"epsilon={self.epsilon}, dropout={self.dropout}: must be shares below 1")

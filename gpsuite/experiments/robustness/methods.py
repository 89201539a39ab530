"""Options of the family's methods, as their files under conf/method set them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import METHODS, Method, MethodOptions
from gpsuite.experiments.settings import Count, Positive, Share, at_least, one_of
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES

CLASSIFICATION = ("classification",)
REGRESSION = ("regression",)
CLASSIFIER = "classifier"  # the trait of every one: class probabilities from a latent Gaussian process
GAUSSIAN_LATENT = "gaussian latent posterior"  # whatever trained it: all that a certified range needs
REGRESSOR = "regressor"  # a Gaussian latent posterior and Gaussian noise


@dataclass(frozen=True)
class GPCOptions(MethodOptions):
    """A binary Gaussian process classifier, trained by its approximate marginal likelihood.

    Attributes:
        inference: of the latent posterior: laplace or ep.
        link: class probability from the latent value: probit or logistic.
    """

    inference: Annotated[str, one_of(INFERENCES)]
    link: Annotated[str, one_of(LINKS)] = "probit"


METHODS.register("gpc")(
    Method(GPCOptions, CLASSIFICATION, frozenset({CLASSIFIER, GAUSSIAN_LATENT}), version=2)
)

MINIBATCH = ("gwi", "svgp")


@dataclass(frozen=True)
class MinibatchGPCOptions(MethodOptions):
    """A sparse Gaussian process classifier trained by minibatches, with the squared exponential.

    Attributes:
        inference: gwi (a mean in the kernel's basis; probit link, or robust max for several classes) or svgp (softmax).
        inducing: M as a multiple of sqrt(N).
        prior_evaluations: of the marginal likelihood that chooses the first kernel parameters.
        validation_share: share of the training rows that choose the epoch.
        epochs: at most.
        patience: epochs without a better validation score after which training ends.
        batch: rows of a step.
        learning_rate: of Adam.
    """

    inference: Annotated[str, one_of(MINIBATCH)]
    inducing: Positive
    prior_evaluations: Count
    validation_share: Share
    epochs: Count
    patience: Count
    batch: Count
    learning_rate: Positive


METHODS.register("minibatch_gpc")(
    Method(MinibatchGPCOptions, CLASSIFICATION, frozenset({GAUSSIAN_LATENT}), version=2)
)


@dataclass(frozen=True)
class GPRegressionOptions(MethodOptions):
    """Gaussian process regression, trained by its marginal likelihood or the bound of it.

    Attributes:
        inducing: inducing inputs of the sparse variational model; 0 for the exact one.
    """

    inducing: Annotated[int, at_least(0)] = 0


METHODS.register("gp_regression")(Method(GPRegressionOptions, REGRESSION, frozenset({REGRESSOR})))

"""Options of the family's methods, as their files under conf/method set them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import METHODS, Method, MethodOptions
from gpsuite.experiments.settings import at_least, one_of
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES

CLASSIFICATION = ("classification",)
REGRESSION = ("regression",)
CLASSIFIER = "classifier"  # the trait of every one: class probabilities from a latent Gaussian process
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


METHODS.register("gpc")(Method(GPCOptions, CLASSIFICATION, frozenset({CLASSIFIER})))


@dataclass(frozen=True)
class GPRegressionOptions(MethodOptions):
    """Gaussian process regression, trained by its marginal likelihood or the bound of it.

    Attributes:
        inducing: inducing inputs of the sparse variational model; 0 for the exact one.
    """

    inducing: Annotated[int, at_least(0)] = 0


METHODS.register("gp_regression")(Method(GPRegressionOptions, REGRESSION, frozenset({REGRESSOR})))

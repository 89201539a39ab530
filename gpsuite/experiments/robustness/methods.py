"""Options of the family's methods, as their files under conf/method set them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import METHODS, Method, MethodOptions
from gpsuite.experiments.settings import one_of
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES

CLASSIFICATION = ("classification",)
CLASSIFIER = "classifier"  # the trait of every one: class probabilities from a latent Gaussian process


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

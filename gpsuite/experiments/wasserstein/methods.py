"""The family's methods, as their files under conf/method set them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import METHODS, Method, MethodOptions
from gpsuite.experiments.settings import one_of
from gpsuite.methods.wasserstein.fitting import GP_CLASSIFIER_NAMES, NETWORK_CLASSIFIER_NAMES, REGRESSOR_NAMES

LABELS = "class probabilities"  # the trait of every classifier of the family
NUMBERS = "gaussian predictions"  # and of every regression


@dataclass(frozen=True, kw_only=True)
class ClassifierMethod(MethodOptions):
    """A classifier trained by minibatches.

    Attributes:
        classifier: which one.
    """

    classifier: str


@dataclass(frozen=True, kw_only=True)
class NetworkClassifierMethod(ClassifierMethod):
    """A network, or several."""

    classifier: Annotated[str, one_of(NETWORK_CLASSIFIER_NAMES)]


@dataclass(frozen=True, kw_only=True)
class GPClassifierMethod(ClassifierMethod):
    """A classifier around a Gaussian process prior whose kernel is chosen first."""

    classifier: Annotated[str, one_of(GP_CLASSIFIER_NAMES)]


@dataclass(frozen=True, kw_only=True)
class RegressorMethod(MethodOptions):
    """A regression with Gaussian predictions.

    Attributes:
        regressor: which one.
    """

    regressor: Annotated[str, one_of(REGRESSOR_NAMES)]


METHODS.register("minibatch_classifier")(Method(NetworkClassifierMethod, ("classification",), frozenset({LABELS})))
METHODS.register("minibatch_gp_classifier")(Method(GPClassifierMethod, ("classification",), frozenset({LABELS})))
METHODS.register("minibatch_regressor")(Method(RegressorMethod, ("regression",), frozenset({NUMBERS}), version=2))

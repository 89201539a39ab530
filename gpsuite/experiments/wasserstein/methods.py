"""The family's methods, as their files under conf/method set them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import METHODS, Method, MethodOptions
from gpsuite.experiments.settings import one_of
from gpsuite.methods.wasserstein.names import CLASSIFIER_NAMES, REGRESSOR_NAMES

LABELS = "class probabilities"  # the trait of every classifier of the family
NUMBERS = "gaussian predictions"  # and of every regression


@dataclass(frozen=True, kw_only=True)
class ClassifierMethod(MethodOptions):
    """A classifier trained by minibatches.

    Attributes:
        classifier: which one.
    """

    classifier: Annotated[str, one_of(CLASSIFIER_NAMES)]


@dataclass(frozen=True, kw_only=True)
class RegressorMethod(MethodOptions):
    """A regression with Gaussian predictions.

    Attributes:
        regressor: which one.
    """

    regressor: Annotated[str, one_of(REGRESSOR_NAMES)]


METHODS.register("minibatch_classifier")(Method(ClassifierMethod, ("classification",), frozenset({LABELS})))
METHODS.register("minibatch_regressor")(Method(RegressorMethod, ("regression",), frozenset({NUMBERS})))

"""Options of the family's methods, as their files under conf/method set them."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import METHODS, Method, MethodOptions, require
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

    inference: str
    link: str = "probit"

    def check(self) -> None:
        """Refuse an unknown inference or link."""
        require(self.inference in INFERENCES, "method.inference", self.inference, _valid(list(INFERENCES)))
        require(self.link in LINKS, "method.link", self.link, _valid(list(LINKS)))


def _valid(names: list[str]) -> str:
    return f"valid: {', '.join(names)}"


METHODS.register("gpc")(Method(GPCOptions, CLASSIFICATION, frozenset({CLASSIFIER})))

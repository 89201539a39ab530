"""Checks that the bounds of a certificate of several classes or of a regression hold, by the plain bounds.

Nothing of the search, its bounds or its rounding is used.

Equation: derived, softmax of several classes, level function
"""

from __future__ import annotations

from collections.abc import Iterator

from scipy.special import ndtri

from gpsuite.certificates.certificate import StoredRegion
from gpsuite.certificates.checker import (
    NamedClaim,
    Report,
    TreeBound,
    check_claims,
    require_extended_precision,
    side_of,
)
from gpsuite.certificates.joint_certificate import JointCertificate
from gpsuite.certificates.joint_form import check_joint_form
from gpsuite.certificates.joint_quantity import (
    ClassQuantity,
    QuantileQuantity,
    Quantity,
)
from gpsuite.certificates.model import (
    GAUSSIAN,
    JointModel,
    JointProducts,
    joint_hash,
    only_function,
)
from gpsuite.certificates.plain_bound import ScoreBound
from gpsuite.certificates.plain_scores import QuantileScore
from gpsuite.certificates.plain_softmax_bound import ClassExpansions, SoftmaxPlainBound

MEAN = 0.5  # the median of a normal distribution is its mean


class JointBounds:
    """The plain bounds of what a model's claims are about, over the free inputs of one point.

    Args:
        model: the stored posterior.
        region: of the claims.

    Raises:
        ValueError: if the model is not one these bounds know, or its numbers are too large.
    """

    def __init__(self, model: JointModel, region: StoredRegion) -> None:
        self.model = model
        if model.likelihood == GAUSSIAN:
            score = QuantileScore(0.0, model.noise)
            self._quantiles = ScoreBound(only_function(model), score, region.centre, region.free)
        else:
            products = JointProducts(model)
            self._classes = ClassExpansions(model, region.centre, region.free, products)

    def of(self, quantity: Quantity) -> TreeBound:
        """Return the bound of a quantity of this model."""
        if isinstance(quantity, ClassQuantity):
            return SoftmaxPlainBound(self._classes, quantity)
        return self._quantiles.scoring(QuantileScore(normal_quantile(quantity), self.model.noise))


def normal_quantile(quantity: QuantileQuantity) -> float:
    """Return the standard normal's quantile of the level, 0 for the mean."""
    return 0.0 if quantity.level == MEAN else float(ndtri(quantity.level))


def check_joint(certificate: JointCertificate) -> Report:
    """Recompute everything a certificate claims; the first problem of each claim is reported.

    Raises:
        MalformedError: if it is not a certificate.
        UserError: if the platform has no extended precision.
    """
    require_extended_precision()
    check_joint_form(certificate)
    region = certificate.region

    def claims() -> Iterator[NamedClaim]:
        bounds = JointBounds(certificate.model, region)
        for stated in certificate.claims:
            name = f"{named(stated.quantity)}, {side_of(stated.claim)}"
            yield name, bounds.of(stated.quantity), stated.claim

    return check_claims(region, certificate.model_hash, joint_hash(certificate.model), claims())


def named(quantity: Quantity) -> str:
    """Return what a claim is about, by numbers alone."""
    if isinstance(quantity, QuantileQuantity):
        return "mean" if quantity.level == MEAN else f"quantile {quantity.level:g}"
    return f"class {quantity.own}" + ("" if quantity.rival is None else f" ahead of {quantity.rival}")

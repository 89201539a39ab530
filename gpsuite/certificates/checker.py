"""Check of a certificate's bounds by another method than the search's: the plain bound.

No part of the search, its bounds or its rounding is used. Boxes are rebuilt from the cuts, so they cover the region by
construction. Every leaf's bound is recomputed at the named node. The witness is evaluated.

Equation: derived, stationary kernels to degree 1, level function, softmax of several classes
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.certificates.certificate import (
    Certificate,
    Claim,
    MarginQuantity,
    QuantileQuantity,
    Quantity,
    StoredRegion,
)
from gpsuite.certificates.form import MalformedError, check_form, rebuild_boxes
from gpsuite.certificates.model import GAUSSIAN, LINKS, SOFTMAX, JointProducts, Model, model_hash
from gpsuite.certificates.plain_bound import PlainBound, ScoreBound
from gpsuite.certificates.plain_kernel import UNIT, Long
from gpsuite.certificates.plain_margin import MarginPlainBound
from gpsuite.certificates.plain_model import ModelProducts, Products
from gpsuite.certificates.plain_scores import QuantileScore
from gpsuite.certificates.plain_softmax_bound import ClassExpansions, SoftmaxPlainBound
from gpsuite.errors import UserError

SECONDS_PER_TERM, SECONDS_PER_PRODUCT = 3e-6, 2e-10  # measured on one core, rounded up
MEAN = 0.5  # the median of a normal distribution is its mean
EULER = "2.71828182845904523536028747135266249775724709"
EXTENDED_UNIT = 2.0**-63


@dataclass(frozen=True)
class Report:
    """Result of a check.

    Attributes:
        problems: reasons of a refutation. Empty if the certificate is confirmed.
        boxes: number of recomputed bounds.
        leaves: number of leaves that these bounds cover.
    """

    problems: tuple[str, ...]
    boxes: int
    leaves: int

    @property
    def confirmed(self) -> bool:
        """Whether every claim was proved again."""
        return not self.problems


class TreeBound(Protocol):
    """Interface of a plain bound that a tree of boxes uses."""

    @property
    def scale(self) -> FloatArray:
        """Lengthscales of the free inputs, [d]."""

    @property
    def limits(self) -> tuple[float, float]:
        """Lower and upper limit of every claim."""

    def at(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B, d]."""

    def bound(
        self, lo: FloatArray, hi: FloatArray, sign: int, threshold: FloatArray, wanted: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return bounds [B] of the score over boxes [B, d], and each input's share of their looseness, [B, d]."""

    def claimed(self, score: float) -> tuple[float, float]:
        """Return the claimed value of a score, rounded down and up."""

    def score_of(self, claim: float) -> float:
        """Return the approximate score of a claim."""


class Refuted(Exception):
    """Raised if a claim does not follow from the stored numbers."""


def require_extended_precision() -> None:
    """Raise if the platform's long floats are no longer than float64.

    Raises:
        UserError: on such a platform.
    """
    error = abs(np.exp(Long(1)) - Long(EULER)) / 3
    if UNIT > EXTENDED_UNIT or Long(1) + Long(UNIT) == 1 or error > 4 * UNIT:
        raise UserError("verify: this platform has no floats of 80 bits or more, which the check needs")


class PlainBounds:
    """The plain bounds of a model's quantities, over the free inputs of one point.

    Args:
        model: the stored posterior.
        region: region of the claims.
        products: known products of two classes, or None.

    Raises:
        ValueError: if these bounds do not know the model, or its numbers are too large.
    """

    def __init__(self, model: Model, region: StoredRegion, products: Products | None = None) -> None:
        self.model, where = model, (region.centre, region.free)
        if model.likelihood == SOFTMAX:
            self._classes = ClassExpansions(model, *where, JointProducts(model))
        elif model.likelihood == GAUSSIAN:
            self._quantiles = ScoreBound(model.only, QuantileScore(0.0, model.noise), *where)
        else:
            self._binary = PlainBound(model.binary, *where, products)

    def of(self, quantity: Quantity) -> TreeBound:
        """Return the bound of a quantity of this model."""
        if isinstance(quantity, QuantileQuantity):
            return self._quantiles.scoring(QuantileScore(normal_quantile(quantity), self.model.noise))
        if isinstance(quantity, MarginQuantity):
            return MarginPlainBound(self._classes, quantity.own)
        if self.model.likelihood == SOFTMAX:
            return SoftmaxPlainBound(self._classes, quantity)
        return self._binary


def normal_quantile(quantity: QuantileQuantity) -> float:
    """Return the standard normal's quantile of the level, 0 for the mean."""
    return 0.0 if quantity.level == MEAN else float(ndtri(quantity.level))


def check_certificate(certificate: Certificate) -> Report:
    """Recompute everything a certificate claims. The first problem of each claim is reported.

    Raises:
        MalformedError: if it is not a certificate.
        UserError: if the platform has no extended precision.
    """
    require_extended_precision()
    check_form(certificate)
    model, region = certificate.model, certificate.region
    if model_hash(model) != certificate.model_hash:
        problem = "the model's floats are not those the claims are about (SHA-256 differs)"
        return Report((problem,), 0, 0)
    problems, boxes, leaves = [], 0, 0
    try:
        products = _shared_products(certificate) if model.likelihood in LINKS else None
        bounds = PlainBounds(model, region, products)
        for claim in certificate.claims:
            plain = bounds.of(claim.quantity)
            try:
                boxes += _check_tree(plain, region, claim)
                _check_witness(plain, region, claim)
            except Refuted as error:
                problems.append(f"{_named(claim.quantity)}, {claim.side}: {error}")
            leaves += len(claim.leaf)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        raise MalformedError(f"the model cannot be bounded: {error}") from error
    return Report(tuple(problems), boxes, leaves)


def estimated_minutes(certificate: Certificate) -> float:
    """Return the estimated minutes of `check_certificate` on one core: bounds times rows, inputs and functions."""
    model, region = certificate.model, certificate.region
    bounds = sum(len(claim.leaf) for claim in certificate.claims)
    each = SECONDS_PER_TERM * len(model.X) * max(model.functions, 1) * (1 + len(region.free) / 4)
    return (bounds * each + SECONDS_PER_PRODUCT * float(len(model.X)) ** 3) / 60


def _named(quantity: Quantity) -> str:
    """Return the name of a claim's quantity, with classes as numbers."""
    if isinstance(quantity, QuantileQuantity):
        return "mean" if quantity.level == MEAN else f"quantile {quantity.level:g}"
    if isinstance(quantity, MarginQuantity):
        return f"margin of class {quantity.own}"
    return f"class {quantity.own}" + ("" if quantity.rival is None else f" ahead of {quantity.rival}")


_KEPT: dict[str, ModelProducts] = {}


def _shared_products(certificate: Certificate) -> ModelProducts:
    """Return the products of two classes' model. Those of the last model are kept, by the hash of its floats."""
    digest = certificate.model_hash
    if digest not in _KEPT:
        _KEPT.clear()
        _KEPT[digest] = ModelProducts(certificate.model.binary)
    return _KEPT[digest]


def node_bounds(
    plain: TreeBound,
    region: StoredRegion,
    sign: int,
    lo: FloatArray,
    hi: FloatArray,
    threshold: FloatArray,
    wanted: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return bounds [B] of the score over boxes [B, d]: upper ones for sign 1, lower ones for -1.

    A box that misses the region's ball has the bound -sign * infinity.

    Args:
        plain: the bound.
        region: region with a ball that may shrink the boxes.
        sign: 1 for upper bounds, -1 for lower ones.
        lo: lower ends.
        hi: upper ends.
        threshold: threshold of each bound, [B].
        wanted: bounds that are good enough, [B]. By default none is: then a check cannot return a looser bound than was
            stated.

    Returns:
            the bounds, and each input's share of their looseness, [B, d].
    """
    low, high, meets = shrink_to_ball(region, lo, hi)
    found, share = np.full(len(lo), -sign * np.inf), np.zeros(lo.shape)
    found[meets], share[meets] = plain.bound(
        low[meets], high[meets], sign, threshold[meets], None if wanted is None else wanted[meets]
    )
    return found, share


def shrink_to_ball(region: StoredRegion, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the parts of boxes [B, d] in a ball, rounded outwards, and which boxes [B] may have such a part.

    If a box has none, its ends have no meaning. Otherwise they are in order, since the reach is at least the gap.
    """
    if region.norm == "box":
        return lo, hi, np.ones(len(lo), dtype=bool)
    power = 1 if region.norm == "l1" else 2
    x0 = region.centre[region.free].astype(Long)
    slack = 64 * UNIT * len(x0)
    gap = np.maximum(Long(0), np.maximum(lo - x0, x0 - hi)) ** power
    room = Long(region.radius) ** power * (1 + slack) - np.sum(gap, axis=1, keepdims=True) * (1 - slack)
    meets: BoolArray = room[:, 0] >= 0
    reach = (np.maximum(room, 0) + gap) ** (Long(1) / power) * (1 + 64 * UNIT)
    low = np.maximum(lo, np.nextafter((x0 - reach).astype(np.float64), -np.inf))
    high = np.minimum(hi, np.nextafter((x0 + reach).astype(np.float64), np.inf))
    return low, high, meets


def attained(plain: TreeBound, witness: FloatArray) -> tuple[float, float]:
    """Return lower and upper bound of the claimed value at a witness [d]."""
    low, high = plain.at(witness[None])
    return plain.claimed(float(low[0]))[0], plain.claimed(float(high[0]))[1]


def _check_tree(plain: TreeBound, region: StoredRegion, claim: Claim) -> int:
    """Check coverage, every leaf's bound and the outer bound. Return the number of recomputed bounds."""
    lo, hi = rebuild_boxes(region, claim.parent, claim.dim, claim.cut)
    leaf, proved = claim.leaf, claim.leaf_proved
    inside = np.all((lo[proved] <= lo[leaf]) & (hi[leaf] <= hi[proved]), axis=1)
    if not inside.all():
        stray = int(np.argmin(inside))
        raise Refuted(f"leaf {leaf[stray]} cites node {proved[stray]}, which does not contain it")
    nodes, first, back = np.unique(proved, return_index=True, return_inverse=True)
    threshold = claim.leaf_threshold[first]
    found = node_bounds(plain, region, claim.sign, lo[nodes], hi[nodes], threshold)[0][back]
    holds = claim.sign * found <= claim.sign * claim.leaf_bound
    if not holds.all():
        worst = int(np.argmin(holds))
        stated = claim.leaf_bound[worst]
        raise Refuted(f"leaf {leaf[worst]}: stated {stated:.10g}, recomputed {found[worst]:.10g}")
    limit = claim.sign * float(np.max(claim.sign * claim.leaf_bound))
    proved_outer = plain.claimed(limit)[(claim.sign + 1) // 2]
    if not claim.sign * proved_outer <= claim.sign * claim.outer:
        raise Refuted(f"the leaves prove {proved_outer:.10g}, claimed is {claim.outer:.10g}")
    return len(nodes)


def _check_witness(plain: TreeBound, region: StoredRegion, claim: Claim) -> None:
    if claim.inner is None or claim.witness is None:
        return
    if not _contains(region, claim.witness):
        raise Refuted("the witness is not in the region")
    reached = attained(plain, claim.witness)[0 if claim.sign > 0 else 1]
    if not claim.sign * claim.inner <= claim.sign * reached:
        raise Refuted(f"the witness attains {reached:.10g}, claimed is {claim.inner:.10g}")


def _contains(region: StoredRegion, point: FloatArray) -> bool:
    """Return whether the point is in the region, in exact arithmetic."""
    if not np.all((point >= region.lower) & (point <= region.upper)):
        return False
    if region.norm == "box":
        return True
    steps = [Fraction(float(x)) - Fraction(float(c)) for x, c in zip(point, region.centre[region.free], strict=True)]
    if region.norm == "l1":
        return sum(map(abs, steps), Fraction(0)) <= Fraction(region.radius)
    return sum((step * step for step in steps), Fraction(0)) <= Fraction(region.radius) ** 2

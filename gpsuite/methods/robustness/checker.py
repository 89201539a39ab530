"""Checks a certificate by other means than those that made it: the plain bound in extended precision.

Nothing of the search, its bounds or its rounding is used. Boxes are rebuilt from the cuts, so that they cover the
region by construction; every leaf's bound is recomputed at the node named; the witness is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpsuite.methods.robustness.certificate import Certificate, Claim, IntArray, StoredRegion, model_hash
from gpsuite.methods.robustness.plain_bound import UNIT, FloatArray, Long, PlainBound, PlainModel

SAME = 1e-9  # a witness's probability, evaluated twice in different ways


@dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        problems: why it is refuted; empty when it is confirmed.
        boxes: bounds recomputed.
        leaves: leaves covered by them.
    """

    problems: tuple[str, ...]
    boxes: int
    leaves: int

    @property
    def confirmed(self) -> bool:
        """Whether every claim was proved again."""
        return not self.problems


class Refuted(Exception):
    """A claim does not follow from what is stored."""


def check_certificate(certificate: Certificate) -> Report:
    """Recompute everything a certificate claims; the first problem of each claim is reported."""
    try:
        _check_model(certificate.model, certificate.model_hash)
        _check_region(certificate.model, certificate.region)
        region = certificate.region
        plain = PlainBound(certificate.model, region.centre, region.free)
    except (Refuted, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        return Report((str(error),), 0, 0)
    problems, boxes, leaves = [], 0, 0
    for claim in certificate.claims:
        side = "maximum" if claim.sign > 0 else "minimum"
        try:
            boxes += _check_tree(plain, region, claim)
            _check_witness(plain, region, claim)
        except Refuted as error:
            problems.append(f"{side}: {error}")
        leaves += len(claim.leaf)
    return Report(tuple(problems), boxes, leaves)


def rebuild_boxes(
    region: StoredRegion, parent: IntArray, dim: IntArray, cut: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends [K, d] of all nodes from the cuts.

    Raises:
        Refuted: if the nodes are not a tree of cuts of the region's box.
    """
    nodes, inputs = len(parent), len(region.free)
    if not (len(dim) == len(cut) == nodes and nodes % 2 == 1 and parent[0] == -1):
        raise Refuted("the tree of cuts has no root, or half a pair of siblings")
    odd, even = np.arange(1, nodes, 2), np.arange(2, nodes, 2)
    for values in (parent, dim, cut):
        if not np.array_equal(values[odd], values[even]):
            raise Refuted("two siblings come from different cuts")
    if len(np.unique(parent[odd])) != len(odd) or np.any(parent[odd] < 0) or np.any(parent[odd] >= odd):
        raise Refuted("a node is cut twice, or before it exists")
    if np.any(dim[odd] < 0) or np.any(dim[odd] >= inputs):
        raise Refuted("a cut through an input that is not free")
    lo, hi = np.empty((nodes, inputs)), np.empty((nodes, inputs))
    lo[0], hi[0] = region.lower, region.upper
    for node in odd:
        above, axis, at = parent[node], dim[node], cut[node]
        if not lo[above, axis] <= at <= hi[above, axis]:
            raise Refuted(f"node {above} is cut outside its box")
        lo[node : node + 2], hi[node : node + 2] = lo[above], hi[above]
        hi[node, axis], lo[node + 1, axis] = at, at
    return lo, hi


def node_bound(plain: PlainBound, region: StoredRegion, sign: int, lo: FloatArray, hi: FloatArray) -> float:
    """Return the bound of the score over a box: an upper one for sign 1, a lower one for -1.

    A box that misses the region's ball has the bound -sign * infinity.
    """
    low, high, meets = shrink_to_ball(region, lo, hi)
    if not meets:
        return -sign * np.inf
    return plain.bounds(low, high)[(sign + 1) // 2]


def shrink_to_ball(
    region: StoredRegion, lo: FloatArray, hi: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Return what a ball leaves of a box, rounded outwards, and whether it may leave anything."""
    if region.norm == "box":
        return lo, hi, True
    power = 1 if region.norm == "l1" else 2
    x0 = region.centre[region.free].astype(Long)
    gap = np.maximum(Long(0), np.maximum(lo - x0, x0 - hi)) ** power
    room = Long(region.radius) ** power * (1 + 64 * UNIT * len(x0)) - np.sum(gap) * (1 - 64 * UNIT * len(x0))
    if room < 0:
        return lo, hi, False
    reach = (room + gap) ** (Long(1) / power) * (1 + 64 * UNIT)
    low = np.nextafter((x0 - reach).astype(np.float64), -np.inf)
    high = np.nextafter((x0 + reach).astype(np.float64), np.inf)
    low, high = np.maximum(lo, low), np.minimum(hi, high)
    return (low, high, True) if np.all(low <= high) else (lo, hi, True)


def _check_model(model: PlainModel, stated: str) -> None:
    if model_hash(model) != stated:
        raise Refuted("the model's floats are not those the claims are about (SHA-256 differs)")
    n, inputs = model.X.shape
    shapes = (
        len(model.lengthscales) == inputs,
        len(model.alpha) == n,
        model.root.shape == (len(model.weights), n),
    )
    values = (model.X, model.lengthscales, model.alpha, model.root, model.weights, np.array(model.variance))
    if not (all(shapes) and all(np.all(np.isfinite(value)) for value in values)):
        raise Refuted("the model's arrays do not fit together, or are not finite")
    if not (model.variance > 0 and np.all(model.lengthscales > 0) and 0 <= model.squeeze < 0.5):
        raise Refuted("variance and lengthscales must be positive")


def _check_region(model: PlainModel, region: StoredRegion) -> None:
    free, inputs = region.free, len(region.centre)
    if inputs != model.X.shape[1] or not len(free) or np.any(np.diff(free) <= 0):
        raise Refuted("the region does not fit the model")
    if free[0] < 0 or free[-1] >= inputs or not len(free) == len(region.lower) == len(region.upper):
        raise Refuted("the region's free inputs do not exist")
    ends = np.all(region.lower <= region.upper) and np.all(np.isfinite([region.lower, region.upper]))
    if not (ends and np.all(np.isfinite(region.centre))):
        raise Refuted("the region's box is empty or not finite")
    if region.norm not in ("box", "l1", "l2") or not region.radius >= 0:
        raise Refuted("the region is of an unknown kind")


def _check_tree(plain: PlainBound, region: StoredRegion, claim: Claim) -> int:
    """Check coverage, every leaf's bound and the outer bound; return how many bounds were recomputed."""
    lo, hi = rebuild_boxes(region, claim.parent, claim.dim, claim.cut)
    leaves = np.setdiff1d(np.arange(len(claim.parent)), claim.parent)
    if not np.array_equal(np.sort(claim.leaf), leaves):
        raise Refuted("the leaves listed are not those of the tree")
    if not len(claim.leaf) == len(claim.leaf_bound) == len(claim.leaf_proved) == len(claim.leaf_degree):
        raise Refuted("the leaves' entries are incomplete")
    if np.any(claim.leaf_degree != 1) or np.any(np.isnan(claim.leaf_bound)):
        raise Refuted("a leaf states a bound of unknown degree, or none")
    known: dict[int, float] = {}
    for leaf, stated, proved in zip(claim.leaf, claim.leaf_bound, claim.leaf_proved, strict=True):
        if not _is_ancestor(claim.parent, int(proved), int(leaf)):
            raise Refuted(f"leaf {leaf} cites node {proved}, which does not contain it")
        if int(proved) not in known:
            known[int(proved)] = node_bound(plain, region, claim.sign, lo[proved], hi[proved])
        found = known[int(proved)]
        if not claim.sign * found <= claim.sign * stated:
            raise Refuted(f"leaf {leaf}: stated {stated:.10g}, recomputed {found:.10g}")
    worst = claim.sign * float(np.max(claim.sign * claim.leaf_bound))
    proved_outer = plain.probability(worst)[(claim.sign + 1) // 2]
    if not claim.sign * proved_outer <= claim.sign * claim.outer:
        raise Refuted(f"the leaves prove {proved_outer:.10g}, claimed is {claim.outer:.10g}")
    return len(known)


def _is_ancestor(parent: IntArray, node: int, leaf: int) -> bool:
    while leaf > node:
        leaf = int(parent[leaf])
    return leaf == node and node >= 0


def _check_witness(plain: PlainBound, region: StoredRegion, claim: Claim) -> None:
    if claim.inner is None or claim.witness is None:
        return
    if claim.witness.shape != region.lower.shape or not _contains(region, claim.witness):
        raise Refuted("the witness is not in the region")
    low, high = plain.probability(plain.value(claim.witness))
    if not low - SAME <= claim.inner <= high + SAME:
        raise Refuted(f"the witness attains {low:.10g}, claimed is {claim.inner:.10g}")


def _contains(region: StoredRegion, point: FloatArray) -> bool:
    """Tell whether the point lies in the region, in exact arithmetic."""
    if not np.all((point >= region.lower) & (point <= region.upper)):
        return False
    if region.norm == "box":
        return True
    steps = [
        Fraction(float(x)) - Fraction(float(c))
        for x, c in zip(point, region.centre[region.free], strict=True)
    ]
    if region.norm == "l1":
        return sum(map(abs, steps), Fraction(0)) <= Fraction(region.radius)
    return sum((step * step for step in steps), Fraction(0)) <= Fraction(region.radius) ** 2

"""From a finished search to a certificate: the search's cuts, with the bounds that the checker can prove.

The search's own bounds are tighter than the checker's, so leaves where the plain bound is not good enough are cut
further, best first, until the claim holds or the boxes are used up; then a looser bound is claimed.
"""

from __future__ import annotations

import heapq

import numpy as np

from gpsuite.methods.robustness.branch_and_bound import Extremum
from gpsuite.methods.robustness.certificate import Certificate, Claim, StoredRegion, model_hash
from gpsuite.methods.robustness.checker import node_bound, rebuild_boxes, shrink_to_ball
from gpsuite.methods.robustness.plain_bound import FloatArray, PlainBound, PlainModel
from gpsuite.methods.robustness.regions import Region
from gpsuite.models.gpc import GPCPosterior

LOOSER = 1e-9  # relative, on stated leaf bounds: other machines' exp and log differ in the last bits
MOST_BOXES = 20_000


def certify(
    posterior: GPCPosterior,
    region: Region,
    extrema: tuple[Extremum, ...],
    slack: float = 1e-3,
    bound_name: str = "",
    bound_version: int = 0,
    most_boxes: int = MOST_BOXES,
) -> Certificate:
    """Build a certificate of the outer bounds and witnesses of up to two searches over the same region.

    Args:
        posterior: the classifier.
        region: where.
        extrema: a minimum, a maximum, or both.
        slack: how much looser than the search's outer probability the certified one may be, > 0.
        bound_name: the search's bound, for the reader.
        bound_version: its version.
        most_boxes: boxes bounded at most per claim; then the claim is as loose as it must be.

    Raises:
        ValueError: if the checker knows no plain bound for this model.
    """
    model = plain_model(posterior)
    stored = StoredRegion(region.centre, region.free, region.lower, region.upper, region.norm, region.radius)
    plain = PlainBound(model, region.centre, region.free)
    claims = tuple(_Builder(plain, stored, extremum, slack, most_boxes).build() for extremum in extrema)
    search = {"bound": bound_name, "version": bound_version, "boxes": [each.boxes for each in extrema]}
    return Certificate(model, stored, claims, model_hash(model), search)


def plain_model(posterior: GPCPosterior) -> PlainModel:
    """Return the stored form of a posterior."""
    link = posterior.link
    probit = link.name in ("probit", "squeezed_probit")
    return PlainModel(
        X=np.array(posterior.X, dtype=np.float64),
        kernel=posterior.kernel,
        variance=float(posterior.variance),
        lengthscales=np.array(posterior.lengthscales, dtype=np.float64),
        alpha=np.array(posterior.alpha, dtype=np.float64),
        root=np.array(posterior.root, dtype=np.float64),
        weights=np.array(posterior.weights, dtype=np.float64),
        link="probit" if probit else link.name,
        squeeze=float(getattr(link, "squeeze", 0.0)),
    )


class _Builder:
    """Bounds the leaves of one search's tree and cuts those that are too loose."""

    def __init__(
        self, plain: PlainBound, region: StoredRegion, extremum: Extremum, slack: float, most_boxes: int
    ) -> None:
        self.plain, self.region, self.extremum, self.sign = plain, region, extremum, extremum.sign
        self.target = self.sign * extremum.outer + slack
        self.left = most_boxes
        tree = extremum.tree
        self.parent, self.dim, self.cut = tree.parent.tolist(), tree.dim.tolist(), tree.cut.tolist()
        lo, hi = rebuild_boxes(region, tree.parent, tree.dim, tree.cut)
        self.open: list[tuple[float, int, int, FloatArray, FloatArray]] = []
        self.done: list[tuple[int, float, int]] = []
        for leaf in tree.leaves.tolist():
            self._keep(leaf, np.inf, leaf, lo[leaf], hi[leaf])

    def build(self) -> Claim:
        """Cut the loosest leaf until none is too loose, and return the claim."""
        while self.open and self.left > 0:
            key, node, proved, lo, hi = heapq.heappop(self.open)
            axis = self._axis(lo, hi)
            middle = 0.5 * lo[axis] + 0.5 * hi[axis]
            if not lo[axis] < middle < hi[axis]:
                self.done.append((node, -key, proved))
                continue
            first = len(self.parent)
            self.parent += [node, node]
            self.dim += [axis, axis]
            self.cut += [middle, middle]
            below, above = hi.copy(), lo.copy()
            below[axis] = above[axis] = middle
            self._keep(first, -key, proved, lo, below)
            self._keep(first + 1, -key, proved, above, hi)
        leaves = sorted(self.done + [(node, -key, proved) for key, node, proved, _, _ in self.open])
        return self._claim(leaves)

    def _keep(self, node: int, inherited: float, proved: int, lo: FloatArray, hi: FloatArray) -> None:
        """Bound a new leaf, or take over its parent's bound, and decide whether it is good enough."""
        own = self.sign * node_bound(self.plain, self.region, self.sign, lo, hi)
        self.left -= 1
        bound, where = (own, node) if own <= inherited else (inherited, proved)
        if self.sign * self._probability(bound) <= self.target:
            self.done.append((node, bound, where))
        else:
            heapq.heappush(self.open, (-bound, node, where, lo, hi))

    def _axis(self, lo: FloatArray, hi: FloatArray) -> int:
        """Return the widest input, in lengthscales, of what the ball leaves of the box."""
        low, high, _ = shrink_to_ball(self.region, lo, hi)
        return int(np.argmax((high - low) / self.plain.scale))

    def _probability(self, signed: float) -> float:
        """Return the outward probability of a signed bound as it will be stated."""
        return self.plain.probability(self.sign * _looser(signed))[(self.sign + 1) // 2]

    def _claim(self, leaves: list[tuple[int, float, int]]) -> Claim:
        node, bound, proved = (list(column) for column in zip(*leaves, strict=True))
        witness = self.extremum.witness
        inner = None
        if witness is not None:
            inner = self.plain.probability(self.plain.value(witness))[0]
        return Claim(
            sign=self.sign,
            outer=self._probability(max(bound)),
            inner=inner,
            witness=None if witness is None else np.array(witness, dtype=np.float64),
            parent=np.array(self.parent, dtype=np.int64),
            dim=np.array(self.dim, dtype=np.int64),
            cut=np.array(self.cut, dtype=np.float64),
            leaf=np.array(node, dtype=np.int64),
            leaf_bound=np.array([self.sign * _looser(each) for each in bound]),
            leaf_proved=np.array(proved, dtype=np.int64),
            leaf_degree=np.ones(len(node), dtype=np.int64),
        )


def _looser(signed: float) -> float:
    return signed + LOOSER * abs(signed) if np.isfinite(signed) else signed

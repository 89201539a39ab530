"""From a finished search to a certificate: the search's cuts, with the bounds that the checker can prove.

The plain bound is a little looser than the search's: what the search cut is cut again, and leaves where the plain bound
is not good enough are cut further, where it is loose; where it is good enough before the search stopped cutting, the
rest of the search's tree is left out. Worst boxes come first and in batches, so that the claim holds whenever it ends.
Every bound is taken at the level that the claim is to have.

Equation: Blaas et al. 2020, Definition 2, Algorithm 1
"""

from __future__ import annotations

import heapq
import time
from weakref import WeakKeyDictionary

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.certificates.certificate import (
    Certificate,
    Claim,
    Origin,
    StoredRegion,
    model_hash,
)
from gpsuite.certificates.checker import TreeBound, attained, node_bounds, shrink_to_ball
from gpsuite.certificates.form import most_nodes
from gpsuite.certificates.plain_bound import PlainBound, class_probability
from gpsuite.certificates.plain_model import EXTENDED, Known, ModelProducts, PlainModel
from gpsuite.methods.robustness.level_bound.posterior_slice import posterior_products
from gpsuite.methods.robustness.search.branch_and_bound import Extremum, choose_cuts
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.models.classification.approximation import GPCPosterior

LOOSER = 1e-9  # relative, on what is stated: other machines' exp and log differ in the last bits
WITNESS = 1e-11  # the same for what a witness attains, beside a tenth of its own rounding
LEAST_BOXES = 1000
BOXES_EACH = 20  # for a box of the search; few are used
BATCH = 16  # boxes cut at once
LEAST_SHARE = 1e-3  # of what loosens a bound, that every input has at least
SET_UP = (
    5e-10,
    4e-9,
)  # seconds per N^3 (products, a factorisation) and per N^2 D (distances) before the first bound


def certify(
    posterior: GPCPosterior,
    region: Region,
    extrema: tuple[Extremum, ...],
    slack: float = 1e-3,
    bound_name: str = "",
    bound_version: int = 0,
    most_boxes: int | None = None,
    budget: Budget | None = None,
    origin: Origin | None = None,
) -> Certificate:
    """Build a certificate of the outer bounds and witnesses of up to two searches over the same region.

    Args:
        posterior: latent posterior of the trained classifier.
        region: inputs over which the claim holds, `robustness.linf_ball` and the like.
        extrema: a minimum, a maximum, or both.
        slack: how much looser than the search's outer probability the certified one may be, > 0.
        bound_name: the search's bound, for the reader.
        bound_version: its version.
        most_boxes: boxes bounded at most per claim, `BOXES_EACH` for each of the search's but at least
            `LEAST_BOXES` by default;
            then the claim is as loose as it must be.
        budget: its seconds limit both claims in the same way; when not even the first bound fits, nothing is claimed
            but that probabilities lie between 0 and 1.
        origin: where model and point come from.

    Raises:
        ValueError: if the checker knows no plain bound for this model.
    """
    model, digest, products = _stored(posterior)
    stored = StoredRegion(region.centre, region.free, region.lower, region.upper, region.norm, region.radius)
    left = np.inf if budget is None or budget.seconds is None else budget.seconds - budget.elapsed
    ends, out_of_time = time.monotonic() + left, _set_up_seconds(model) > left
    ordered = sorted(extrema, key=lambda extremum: extremum.sign)
    claims: tuple[Claim, ...] = ()
    if out_of_time:
        claims = tuple(_trivial_claim(model, extremum.sign) for extremum in ordered)
    else:
        plain = PlainBound(model, region.centre, region.free, products)
        for rank, extremum in enumerate(ordered):
            share = (ends - time.monotonic()) / (len(ordered) - rank)
            claim, stopped = build_claim(plain, stored, extremum, slack, most_boxes, share)
            claims += (claim,)
            out_of_time = out_of_time or stopped
    search = {
        "bound": bound_name,
        "version": bound_version,
        "boxes": [each.boxes for each in ordered],
        "out_of_time": out_of_time,
    }
    return Certificate(model, stored, claims, digest, search, origin)


def build_claim(
    plain: TreeBound,
    region: StoredRegion,
    extremum: Extremum,
    slack: float,
    most_boxes: int | None,
    seconds: float,
) -> tuple[Claim, bool]:
    """Return the claim that a finished search supports, and whether seconds ended it.

    Args:
        plain: the bound of what was searched.
        region: where.
        extremum: what the search found.
        slack: how much looser than the search's the claim may be, > 0.
        most_boxes: as those of `certify`.
        seconds: for this claim.
    """
    most = max(LEAST_BOXES, BOXES_EACH * extremum.boxes) if most_boxes is None else most_boxes
    builder = _Builder(plain, region, extremum, slack, most, seconds)
    return builder.build(), builder.out_of_time


_STORED: WeakKeyDictionary[GPCPosterior, tuple[PlainModel, str, ModelProducts]] = WeakKeyDictionary()


def _stored(posterior: GPCPosterior) -> tuple[PlainModel, str, ModelProducts]:
    """Return the stored form of a posterior, its hash and what is computed of it once.

    For many data those products are the search's, so that a proposal costs none of N x N.
    """
    known = _STORED.get(posterior)
    if known is None:
        model, given = plain_model(posterior), None
        if len(posterior.X) > EXTENDED:
            kept = posterior_products(posterior)
            given = Known(kept.reduction, kept.operator.below, kept.operator.above, kept.norm2)
        known = _STORED[posterior] = model, model_hash(model), ModelProducts(model, given)
    return known


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


def _set_up_seconds(model: PlainModel) -> float:
    n, inputs = model.X.shape
    cubic, quadratic = SET_UP
    return cubic * float(n) ** 3 + quadratic * float(n) ** 2 * inputs


class _Builder:
    """Bounds one search's tree from the root down and cuts what is too loose; `signed` scores are times the sign."""

    def __init__(
        self,
        plain: TreeBound,
        region: StoredRegion,
        extremum: Extremum,
        slack: float,
        most_boxes: int,
        seconds: float,
    ) -> None:
        self.plain, self.region, self.extremum, self.sign = plain, region, extremum, extremum.sign
        self.target = self.sign * plain.score_of(extremum.outer + 0.999 * self.sign * slack)
        self.boxes_left, self.ends, self.per_box = most_boxes, time.monotonic() + seconds, 0.0
        self.out_of_time = False
        tree = extremum.tree
        self.tree, self.searched = tree, self.sign * tree.bound
        self.first_child = np.zeros(len(tree.parent), dtype=np.int64)  # 0: a leaf, as the root is no child
        self.first_child[tree.parent[1::2]] = np.arange(1, len(tree.parent), 2)
        self.parent, self.dim, self.cut, self.source = [-1], [-1], [0.0], [0]
        self.lo, self.hi = [region.lower], [region.upper]
        self.bound, self.proved = [np.inf], [0]
        self.share = [np.zeros(len(region.free))]
        self.threshold = self.sign * self.target
        self.open: list[tuple[float, int]] = []
        self.leaves: list[int] = []

    def build(self) -> Claim:
        """Cut the loosest boxes until none is too loose or the budget ends, and return the claim."""
        self._keep([0], [True])
        room = most_nodes(len(self.region.free))
        while self.open:
            count = min(BATCH, self.boxes_left // 2, (room - len(self.parent)) // 2)
            fits = (self.ends - time.monotonic()) / (2 * max(self.per_box, 1e-9))
            self.out_of_time = fits < 1 <= count
            count = int(min(count, fits))
            if count < 1:
                break
            self._cut([heapq.heappop(self.open)[1] for _ in range(min(count, len(self.open)))])
        return self._claim(sorted(self.leaves + [node for _, node in self.open]))

    def _cut(self, nodes: list[int]) -> None:
        """Cut nodes as the search did, or beyond it where the bound is loose, and bound the parts."""
        new, ask = [], []
        lo, hi = np.array([self.lo[node] for node in nodes]), np.array([self.hi[node] for node in nodes])
        low, high, _ = shrink_to_ball(self.region, lo, hi)
        axes, middles, divisible = choose_cuts(low, high, self._scores(nodes, high - low))
        for place, node in enumerate(nodes):
            child = int(self.first_child[self.source[node]]) if self.source[node] >= 0 else 0
            axis, middle = int(axes[place]), float(middles[place])
            if child:
                axis, middle = int(self.tree.dim[child]), float(self.tree.cut[child])
            elif not divisible[place]:
                self.leaves.append(node)
                continue
            for side in (0, 1):
                source = child + side if child else -1
                new.append(self._append(node, axis, middle, side, source))
                ask.append(self._is_worth_a_bound(source))
        self._keep(new, ask)

    def _scores(self, nodes: list[int], width: FloatArray) -> FloatArray:
        """Return the widths of boxes in lengthscales, weighted by how much each input loosens the bound."""
        share = np.array([self.share[node] for node in nodes])
        total = share.sum(axis=1, keepdims=True)
        loose = np.where(np.isfinite(total) & (total > 0), share / np.where(total > 0, total, 1), 1.0)
        return np.asarray(width / self.plain.scale * np.sqrt(loose + LEAST_SHARE))

    def _is_worth_a_bound(self, source: int) -> bool:
        """Tell whether to bound a box: not where the search's own, better bound was too loose and it went on."""
        return source < 0 or not self.first_child[source] or bool(self.searched[source] <= self.target)

    def _append(self, node: int, axis: int, middle: float, side: int, source: int) -> int:
        lo, hi = self.lo[node].copy(), self.hi[node].copy()
        (lo if side else hi)[axis] = middle
        self.parent.append(node)
        self.dim.append(axis)
        self.cut.append(middle)
        self.source.append(source)
        self.lo.append(lo)
        self.hi.append(hi)
        self.bound.append(self.bound[node])
        self.proved.append(self.proved[node])
        self.share.append(self.share[node])
        return len(self.parent) - 1

    def _keep(self, nodes: list[int], ask: list[bool]) -> None:
        """Bound those new nodes that ask for it; they are leaves if they are good enough, else open."""
        asked = [node for node, wanted in zip(nodes, ask, strict=True) if wanted]
        if asked:
            before = time.monotonic()
            lo, hi = np.array([self.lo[node] for node in asked]), np.array([self.hi[node] for node in asked])
            levels = np.full(len(asked), self.threshold)
            found, shares = node_bounds(self.plain, self.region, self.sign, lo, hi, levels, levels)
            self.per_box = (time.monotonic() - before) / len(asked)
            self.boxes_left -= len(asked)
            for node, bound, share in zip(asked, (self.sign * found).tolist(), shares, strict=True):
                self.share[node] = share
                if bound <= self.bound[node]:
                    self.bound[node], self.proved[node] = bound, node
        for node in nodes:
            if _looser(self.bound[node]) <= self.target:
                self.leaves.append(node)
            else:
                heapq.heappush(self.open, (-self.bound[node], node))

    def _claim(self, leaves: list[int]) -> Claim:
        bounds = [_looser(self.bound[node]) for node in leaves]
        witness = self.extremum.witness
        return Claim(
            sign=self.sign,
            outer=self.plain.claimed(self.sign * max(bounds))[(self.sign + 1) // 2],
            inner=None if witness is None else self._attained(witness),
            witness=None if witness is None else np.array(witness, dtype=np.float64),
            parent=np.array(self.parent, dtype=np.int64),
            dim=np.array(self.dim, dtype=np.int64),
            cut=np.array(self.cut, dtype=np.float64),
            leaf=np.array(leaves, dtype=np.int64),
            leaf_bound=float(self.sign) * np.array(bounds),
            leaf_threshold=np.full(len(leaves), self.threshold),
            leaf_proved=np.array([self.proved[node] for node in leaves], dtype=np.int64),
        )

    def _attained(self, witness: FloatArray) -> float:
        """Return what is claimed at a witness: inward by its rounding, and a little more."""
        low, high = attained(self.plain, witness)
        inward = low if self.sign > 0 else high
        least, most = self.plain.limits
        return min(most, max(least, inward - self.sign * (WITNESS * abs(inward) + 0.1 * (high - low))))


def _trivial_claim(model: PlainModel, sign: int) -> Claim:
    """Return the claim that no probability exceeds 1 (sign 1) or is below 0 (sign -1)."""
    root, none = np.array([-1]), np.array([0])
    outer = class_probability(model, sign * np.inf)[(sign + 1) // 2]
    bound = np.array([sign * np.inf])
    return Claim(sign, outer, None, None, root, root, np.zeros(1), none, bound, np.zeros(1), none)


def _looser(signed: float) -> float:
    return signed + LOOSER * abs(signed) if np.isfinite(signed) else signed

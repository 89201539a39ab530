"""Certificates from finished searches: the search's cuts, with the bounds that the checker can prove.

The plain bound is a little looser than the search's. The builder repeats the search's cuts. It cuts a leaf further
where the plain bound is loose, until the bound is good enough. If the bound is good enough earlier, the remainder of
the search's tree is left out. The worst boxes come first and in batches: the claim holds whenever the building ends.
Every bound is taken at the level that the claim is to have.

Equation: Blaas et al. 2020, Definition 2, Algorithm 1
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.certificates.certificate import (
    Certificate,
    Claim,
    ClassQuantity,
    MarginQuantity,
    Origin,
    Quantity,
    StoredRegion,
)
from gpsuite.certificates.checker import PlainBounds, TreeBound, attained, node_bounds, shrink_to_ball
from gpsuite.certificates.form import most_nodes
from gpsuite.certificates.model import GAUSSIAN, SOFTMAX, Model, model_hash
from gpsuite.certificates.plain_bound import class_probability
from gpsuite.certificates.plain_model import EXTENDED, Known, ModelProducts
from gpsuite.methods.robustness.level_bound.posterior_slice import posterior_products
from gpsuite.methods.robustness.search.branch_and_bound import Extremum, choose_cuts
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.methods.robustness.verdict import HALF
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.composite import single_kernel
from gpsuite.models.latent import LatentPosterior

LOOSER = 1e-9  # relative, of the stated bounds: exp and log of other machines differ in the last bits
WITNESS = 1e-11  # the same for a witness's value, in addition to a tenth of its rounding
LEAST_BOXES = 1000
BOXES_EACH = 20  # for each box of the search. Few are used
BATCH = 16  # boxes cut at once
LEAST_SHARE = 1e-3  # least share of each input in the looseness of a bound
SET_UP = (5e-10, 4e-9)  # seconds per N^3 (products, a factorisation) and N^2 D (distances) before the first bound

Posterior = GPCPosterior | MultiClassPosterior | LatentPosterior
Found = tuple[Quantity, Extremum]


def certify(
    posterior: Posterior,
    region: Region,
    found: Sequence[Found],
    slack: float = 1e-3,
    noise: float = 0.0,
    bound_name: str = "",
    bound_version: int = 0,
    most_boxes: int | None = None,
    budget: Budget | None = None,
    origin: Origin | None = None,
) -> Certificate:
    """Return a certificate of the proved bounds and attained values of searches over the same region.

    Args:
        posterior: a classifier of two or more classes, or a regression.
        region: inputs over which the claims hold, `robustness.linf_ball` and so on.
        found: each search's quantity and result. The quantity of a margin is (1 + p_own - p_rival) / 2. That of two
            classes is the positive class' probability, `POSITIVE`. A latent margin's is `PointSearch.margin_proof`.
        slack: largest loss of a claim compared with the search's bound, > 0. A proved positive margin may lose at most
            half of it.
        noise: variance of a regression's observations, above 0.
        bound_name: name of the search's bound, for the reader.
        bound_version: its version.
        most_boxes: largest number of boxes per claim, by default `BOXES_EACH` for each of the search's boxes and at
            least `LEAST_BOXES`. At this number the claim stays as loose as it is.
        budget: seconds for all claims. Each gets an equal share of the remaining time. If not even the first bound of
            two classes fits, the only claim is that probabilities are between 0 and 1.
        origin: source of model and point.

    Raises:
        UserError: for a sum or product of kernels: the checker knows only single kernels.
        ValueError: if the checker knows no plain bound for this model, or nothing can be claimed.
    """
    model, digest, products = _stored(posterior, noise)
    stored = StoredRegion(region.centre, region.free, region.lower, region.upper, region.norm, region.radius)
    left = math.inf if budget is None or budget.seconds is None else budget.seconds - budget.elapsed
    ends, out_of_time = time.monotonic() + left, products is not None and _set_up_seconds(model) > left
    claims: list[Claim] = []
    if out_of_time:
        claims = [_trivial_claim(model, quantity, extremum.sign) for quantity, extremum in found]
    else:
        bounds = PlainBounds(model, stored, products)
        for rank, (quantity, extremum) in enumerate(found):
            most = max(LEAST_BOXES, BOXES_EACH * extremum.boxes) if most_boxes is None else most_boxes
            seconds = (ends - time.monotonic()) / (len(found) - rank)
            looser = _slack(quantity, extremum, slack)
            builder = _Builder(bounds.of(quantity), stored, quantity, extremum, looser, most, seconds)
            claim = builder.build()
            out_of_time = out_of_time or builder.out_of_time
            if np.isfinite(claim.outer):  # a quantile without a bound is not claimed
                claims.append(claim)
    if found and not claims:
        raise ValueError("nothing can be claimed of this model and region")
    search = {
        "bound": bound_name,
        "version": bound_version,
        "boxes": [extremum.boxes for _, extremum in found],
        "out_of_time": out_of_time,
    }
    return Certificate(model, stored, tuple(claims), digest, search, origin)


def _slack(quantity: Quantity, extremum: Extremum, slack: float) -> float:
    """Return a claim's slack: a latent margin, and a margin proved above one half, must stay positive."""
    if isinstance(quantity, MarginQuantity):
        return 0.5 * extremum.outer
    margin = isinstance(quantity, ClassQuantity) and quantity.rival is not None
    if margin and extremum.sign < 0 and extremum.outer > HALF:
        return min(slack, 0.5 * (extremum.outer - HALF))
    return slack


_STORED: WeakKeyDictionary[GPCPosterior, tuple[Model, str, ModelProducts]] = WeakKeyDictionary()


def _stored(posterior: Posterior, noise: float) -> tuple[Model, str, ModelProducts | None]:
    """Return a posterior's stored form, its hash, and for two classes the products of the bounds.

    For many data the search's products are reused: a proposal then needs no product of N x N.
    """
    if not isinstance(posterior, GPCPosterior):
        model = stored_model(posterior, noise)
        return model, model_hash(model), None
    known = _STORED.get(posterior)
    if known is None:
        model, given = stored_model(posterior), None
        if len(posterior.X) > EXTENDED:
            kept = posterior_products(posterior)
            given = Known(kept.reduction, kept.operator.below, kept.operator.above, kept.norm2)
        known = _STORED[posterior] = model, model_hash(model), ModelProducts(model.binary, given)
    return known


def stored_model(posterior: Posterior, noise: float = 0.0) -> Model:
    several = isinstance(posterior, MultiClassPosterior)
    likelihood, squeeze = SOFTMAX if several else GAUSSIAN, 0.0
    if isinstance(posterior, GPCPosterior):
        link = posterior.link
        likelihood = "probit" if link.name == "squeezed_probit" else link.name
        squeeze = float(getattr(link, "squeeze", 0.0))
    alpha, root = np.array(posterior.alpha), np.array(posterior.root)
    return Model(
        X=np.array(posterior.X),
        kernel=single_kernel(posterior.kernel, "a certificate"),
        variance=float(posterior.variance),
        lengthscales=np.array(posterior.lengthscales),
        alpha=alpha if several else alpha[None],
        root=root if several else root[:, None],
        weights=np.array(posterior.weights),
        likelihood=likelihood,
        noise=float(noise),
        squeeze=squeeze,
    )


def _set_up_seconds(model: Model) -> float:
    n, inputs = model.X.shape
    cubic, quadratic = SET_UP
    return cubic * float(n) ** 3 + quadratic * float(n) ** 2 * inputs


class _Builder:
    """Bounds a search's tree from the root down and cuts loose boxes. `signed` scores are multiplied by the sign."""

    def __init__(
        self,
        plain: TreeBound,
        region: StoredRegion,
        quantity: Quantity,
        extremum: Extremum,
        slack: float,
        most_boxes: int,
        seconds: float,
    ) -> None:
        self.plain, self.region, self.quantity = plain, region, quantity
        self.extremum, self.sign = extremum, extremum.sign
        self.target = self.sign * plain.score_of(extremum.outer + 0.999 * self.sign * slack)
        self.boxes_left, self.ends, self.per_box = most_boxes, time.monotonic() + seconds, 0.0
        self.out_of_time = False
        tree = extremum.tree
        self.tree, self.searched = tree, self.sign * tree.bound
        self.first_child = np.zeros(len(tree.parent), dtype=np.int64)  # 0 for a leaf: the root is not a child
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
        """Cut nodes as the search did, or further where the bound is loose, and bound the parts."""
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
        """Return the widths of boxes in lengthscales, weighted by each input's share of the bound's looseness."""
        share = np.array([self.share[node] for node in nodes])
        total = share.sum(axis=1, keepdims=True)
        loose = np.where(np.isfinite(total) & (total > 0), share / np.where(total > 0, total, 1), 1.0)
        return np.asarray(width / self.plain.scale * np.sqrt(loose + LEAST_SHARE))

    def _is_worth_a_bound(self, source: int) -> bool:
        """Return whether to bound a box: not if the search's tighter bound was too loose and the box was cut."""
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
        """Bound the new nodes that request it. A node with a good enough bound is a leaf, others stay open."""
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
            quantity=self.quantity,
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
        """Return the value claimed at a witness: the computed one, moved inward by its rounding and a little more."""
        low, high = attained(self.plain, witness)
        inward = low if self.sign > 0 else high
        least, most = self.plain.limits
        return min(most, max(least, inward - self.sign * (WITNESS * abs(inward) + 0.1 * (high - low))))


def _trivial_claim(model: Model, quantity: Quantity, sign: int) -> Claim:
    """Return the claim that no probability exceeds 1 (sign 1) or is below 0 (sign -1)."""
    root, none = np.array([-1]), np.array([0])
    bound = np.array([sign * np.inf])
    outer = class_probability(model.binary, sign * np.inf)[(sign + 1) // 2]
    return Claim(quantity, sign, outer, None, None, root, root, np.zeros(1), none, bound, np.zeros(1), none)


def _looser(signed: float) -> float:
    return signed + LOOSER * abs(signed) if np.isfinite(signed) else signed

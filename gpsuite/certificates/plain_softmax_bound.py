"""A plain bound of class probabilities and margins of several classes. It shares no code with the search.

At most `MOST_KEPT` classes are kept, the most probable ones. p_c of all classes is at most that among the kept ones. It
is lower by at most the sum over the others of E sigma(f_j - f_c). With more classes a second bound uses all classes,
with independent latent values as reference. The better bound is taken.

Among the kept classes the bound starts with the cubature at the box's centre. The change with the means is bounded by
its gradient, one cubic over the box, plus half the curvature times the squared spread. Or it is bounded by the largest
change of any log-odds. Then the change with the covariance is added.

Equation: derived, softmax of several classes
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.certificates.certificate import ClassQuantity
from gpsuite.certificates.model import JointProducts, Model, Pair
from gpsuite.certificates.plain_kernel import cubic_maximum, kappa
from gpsuite.certificates.plain_model import plain_slice
from gpsuite.certificates.plain_moments import Expander, Expansion, Surroundings
from gpsuite.certificates.plain_scores import QUADRATURE, logistic_value
from gpsuite.certificates.plain_softmax import (
    CURVATURE,
    Expectations,
    covariance_root,
    covariance_step,
    expectations,
    independent_expectations,
    independent_variances,
    moved_by_covariance,
    pairs_of,
    tilted,
)

MOST_KEPT = 4
BLOCK = 1 << 19  # number of features held at once
OUTWARD = 1e-12


class ClassExpansions:
    """Expansions of the differences of a stored model's functions over its free inputs.

    Args:
        model: model of several classes.
        centre: [D] the point. Inputs that are not free are fixed there.
        free: [d] indices of the free inputs.
        products: the model's products.

    Raises:
        ValueError: if this bound does not know the model, or its numbers are too large.
    """

    def __init__(self, model: Model, centre: FloatArray, free: IntArray, products: JointProducts) -> None:
        self.model, self.centre, self.free, self.products = model, centre, free, products
        self.s = 2.0 * model.variance  # rounding of a difference
        self._expanders: dict[Pair, Expander] = {}
        self.first = self.expander(0, 1)

    def expander(self, i: int, j: int) -> Expander:
        """Return the expander of f_i - f_j, i < j."""
        if (i, j) not in self._expanders:
            latent, products = self.products.pair(i, j)
            self._expanders[i, j] = Expander(plain_slice(latent, self.centre, self.free, products))
        return self._expanders[i, j]

    def means(self, points: FloatArray) -> FloatArray:
        """Return the latent means [B, C] at points [B, d], without their rounding."""
        full = np.tile(self.centre, (len(points), 1))
        full[:, self.free] = points
        model = self.model
        distance = cdist(full, model.X, "seuclidean", V=model.lengthscales**2)
        return np.asarray(model.variance * kappa(model.kernel, distance) @ model.alpha.T)


@dataclass(frozen=True)
class _Local:
    """State over B boxes for K kept classes, by place.

    Attributes:
        found: expansions of the differences of places i < j.
        offset: differences of the reference means, [B, K, K].
        mean_low: smallest differences of means, [B, K, K].
        mean_high: largest differences of means.
        change_low: smallest change of the variances of differences from the reference's, [B, K, K].
        change_high: largest change.
        reference: expectations at the reference.
        valid: whether all numbers are finite and in order, [B].
    """

    found: dict[Pair, Expansion]
    offset: FloatArray
    mean_low: FloatArray
    mean_high: FloatArray
    change_low: FloatArray
    change_high: FloatArray
    reference: Expectations
    valid: BoolArray

    @property
    def spread(self) -> FloatArray:
        """Largest change of any difference of means, [B]."""
        away = np.maximum(self.mean_high - self.offset, self.offset - self.mean_low)
        return np.asarray(away.max(axis=(1, 2)))


class BlockedBound(ABC):
    """A bound over boxes of the free inputs, block by block, for a score that is the quantity itself.

    Args:
        expansions: expansions of the stored model.
    """

    def __init__(self, expansions: ClassExpansions) -> None:
        self.expansions = expansions

    @property
    def scale(self) -> FloatArray:
        return self.expansions.first.form.scale

    def score_of(self, claim: float) -> float:
        return claim

    def at(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] at points [B, d], as boxes of zero width."""
        none = np.zeros(len(points))
        return self.bound(points, points, -1, none)[0], self.bound(points, points, 1, none)[0]

    def bound(
        self, lo: FloatArray, hi: FloatArray, sign: int, threshold: FloatArray, wanted: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return bounds [B] over boxes [B, d]: upper ones for sign 1, lower ones for -1.

        Args:
            lo: lower ends.
            hi: upper ends.
            sign: 1 for upper bounds, -1 for lower ones.
            threshold: not used: there is no level.
            wanted: not used.

        Returns:
                the bounds, the quantity's own limit if nothing is known, and each input's share of their looseness, [B,
                d].
        """
        found, share = np.empty(len(lo)), np.zeros(lo.shape)
        with np.errstate(all="ignore"):  # overflow gives inf or NaN, which are no bounds
            size = max(1, BLOCK // (len(self.expansions.model.X) * (1 + lo.shape[1])))
            for start in range(0, len(lo), size):
                part = slice(start, start + size)
                found[part], share[part] = self._best(lo[part], hi[part], sign)
        return found, np.where(np.isfinite(share), share, 0.0)

    @abstractmethod
    def _best(self, lo: FloatArray, hi: FloatArray, sign: int) -> tuple[FloatArray, FloatArray]:
        """Return the result of `bound` for one block."""


class SoftmaxPlainBound(BlockedBound):
    """Bounds a class probability, or (1 + p_own - p_rival) / 2, over boxes of the free inputs.

    Args:
        expansions: expansions of the stored model.
        quantity: the bounded quantity.
    """

    limits = (0.0, 1.0)

    def __init__(self, expansions: ClassExpansions, quantity: ClassQuantity) -> None:
        super().__init__(expansions)
        self.quantity = quantity

    def claimed(self, score: float) -> tuple[float, float]:
        """Return the probability itself, within [0, 1]."""
        clipped = min(max(0.0, score), 1.0)  # in this order -0.0 becomes 0.0
        return clipped, clipped

    def _best(self, lo: FloatArray, hi: FloatArray, sign: int) -> tuple[FloatArray, FloatArray]:
        """Return the better of the bounds by the kept classes and, if there are more, by all classes."""
        best, share = np.full(len(lo), np.nan), np.zeros(lo.shape)
        order = self._order(0.5 * lo + 0.5 * hi)
        functions, left = order.shape[1], np.arange(len(lo))
        # fewer classes if the cubature takes too many nodes
        for count in range(min(MOST_KEPT, functions), max(1, len(self.quantity.classes) - 1), -1):
            kept = np.sort(order[left, :count], axis=1)
            for classes in np.unique(kept, axis=0):
                rows = left[(kept == classes).all(axis=1)]
                best[rows], share[rows] = self._among(tuple(classes.tolist()), lo[rows], hi[rows], sign, False)
            left = left[np.isnan(best[left])]
            if not len(left):
                break
        if functions > MOST_KEPT:
            whole, other = self._among(tuple(range(functions)), lo, hi, sign, True)
            better = ~(sign * best <= sign * whole)
            best, share = np.where(better, whole, best), np.where(better[:, None], other, share)
        return np.where(np.isnan(best), 0.5 + 0.5 * sign, np.clip(best, 0.0, 1.0)), share

    def _order(self, centres: FloatArray) -> IntArray:
        """Return the classes over boxes around these points, [B, C]: the quantity's first, then the most probable."""
        means = self.expansions.means(centres)
        means = np.where(np.isnan(means), -np.inf, means)
        for own in self.quantity.classes:
            means[:, own] = np.inf
        return np.asarray(np.argsort(-means, axis=1, kind="stable"))

    def _among(
        self, kept: tuple[int, ...], lo: FloatArray, hi: FloatArray, sign: int, independent: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Bound the quantity by the kept classes. NaN if nothing is known."""
        around = self.expansions.first.surroundings(lo, hi)
        local = self._local(kept, around, independent)
        own = kept.index(self.quantity.own)
        if self.quantity.rival is None:
            best = self._class(local, own, sign)
            along, share = self._along(local, own, None, sign)
            along = self._moved(local, along, own, sign)
            loss = self._loss(kept, self.quantity.own, around) if sign < 0 else np.zeros(len(lo))
        else:
            rival = kept.index(self.quantity.rival)
            best = 0.5 * (1 + self._class(local, own, sign) - self._class(local, rival, -sign))
            along, share = self._along(local, own, rival, sign)
            along = self._margin_moved(local, along, own, rival, sign)
            ahead = self.quantity.own if sign < 0 else self.quantity.rival
            loss = 0.5 * self._loss(kept, ahead, around)
        best = sign * np.fmin(sign * best, sign * along) + sign * (loss + OUTWARD)
        return np.where(local.valid & np.isfinite(best), best, np.nan), share

    def _local(self, kept: tuple[int, ...], around: Surroundings, independent: bool) -> _Local:
        """Return the state over boxes. The reference has independent latent values or a full covariance."""
        s, B, K = self.expansions.s, len(around.r), len(kept)
        found: dict[Pair, Expansion] = {}
        low, high, D, least, most = (np.zeros((B, K, K)) for _ in range(5))
        reference = np.zeros((B, K))
        for i, j in pairs_of(tuple(range(K))):
            each = found[i, j] = self.expansions.expander(kept[i], kept[j]).expand_in(around)
            if i == 0:
                reference[:, j] = -s * each.mean.constant
            low[:, i, j], high[:, i, j] = s * each.mean.low, s * each.mean.high
            low[:, j, i], high[:, j, i] = -high[:, i, j], -low[:, i, j]
            middle = s * np.clip(each.variance.constant, each.variance.low, each.variance.high)
            D[:, i, j] = D[:, j, i] = middle
            least[:, i, j] = least[:, j, i] = s * each.variance.low
            most[:, i, j] = most[:, j, i] = s * each.variance.high
        valid = (low <= high).all(axis=(1, 2)) & (least <= most).all(axis=(1, 2))
        for ends in (low, high, least, most, reference[:, None], D):
            valid &= np.isfinite(ends).all(axis=(1, 2))
        reference, D = (np.where(valid.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0) for x in (reference, D))
        if independent:
            d = independent_variances(D)
            known, D0 = independent_expectations(reference, d), d[:, :, None] + d[:, None]
            np.einsum("bcc->bc", D0)[...] = 0.0
        else:
            root, D0 = covariance_root(D)
            known = expectations(reference, root)
        valid &= np.isfinite(known.mean).all(axis=1)
        pad = 1e-12 * (D0 + np.abs(most))
        offset = reference[:, :, None] - reference[:, None]
        return _Local(found, offset, low, high, least - D0 - pad, most - D0 + pad, known, valid)

    def _class(self, local: _Local, own: int, sign: int) -> FloatArray:
        """Bound a class probability among the kept by the largest change of any log-odds, [B]."""
        known = local.reference
        away = (local.mean_high - local.offset) if sign > 0 else (local.offset - local.mean_low)
        # the class against itself gives 0: no log-odds changes in the other direction
        h = sign * away[:, own].max(axis=1)
        p = np.clip(known.mean[:, own] + sign * known.error, 0.0, 1.0)
        return self._moved(local, tilted(p, h) + sign * OUTWARD, own, sign)

    def _moved(self, local: _Local, p: FloatArray, own: int, sign: int) -> FloatArray:
        return moved_by_covariance(p, local.change_low, local.change_high, own, sign)

    def _margin_moved(self, local: _Local, margin: FloatArray, own: int, rival: int, sign: int) -> FloatArray:
        """Return the margin after the change with the covariance, which moves both probabilities."""
        mine = covariance_step(local.change_low, local.change_high, own, sign)[0]
        theirs = covariance_step(local.change_low, local.change_high, rival, -sign)[0]
        return margin + sign * 0.5 * (mine + theirs)

    def _along(self, local: _Local, own: int, rival: int | None, sign: int) -> tuple[FloatArray, FloatArray]:
        """Bound the quantity at the reference covariance by its gradient in the means, [B], with shares [B, d]."""
        known, s = local.reference, self.expansions.s
        product = known.product
        value, gradient = known.mean[:, own], product[:, own].copy()  # in m_own - m_j
        if rival is not None:
            gradient = 0.5 * (product[:, own] - product[:, rival])
            gradient[:, rival] += 0.5 * known.mean[:, rival]
            value = 0.5 * (1 + value - known.mean[:, rival])
        first = next(iter(local.found.values()))
        r = first.radius
        constant, linear = np.zeros(len(r)), np.zeros(r.shape)
        square = np.zeros((*r.shape, r.shape[1]))
        cubic = None if first.mean.cubic is None else np.zeros((*square.shape, r.shape[1]))
        remainder, size = np.zeros(len(r)), np.zeros(len(r))
        for (i, j), each in local.found.items():
            if own not in (i, j):
                continue
            other, way = (j, 1.0) if i == own else (i, -1.0)
            w = sign * way * s * gradient[:, other]
            constant += w * each.mean.constant - sign * gradient[:, other] * local.offset[:, own, other]
            linear += w[:, None] * each.mean.linear
            square += w[:, None, None] * each.mean.square
            if cubic is not None and each.mean.cubic is not None:
                cubic += w[:, None, None, None] * each.mean.cubic
            remainder += np.abs(w) * np.where(w >= 0, each.mean.above, each.mean.below)
            size += np.abs(w) * (np.abs(each.mean.constant) + np.abs(each.mean.linear * r).sum(axis=1))
        if cubic is not None:
            cubic = cubic * r[:, :, None, None] * r[:, None, :, None] * r[:, None, None, :]
        most, share = cubic_maximum(constant, linear * r, square * r[:, :, None] * r[:, None, :], cubic)
        K, spread = product.shape[1], local.spread
        room = CURVATURE * spread**2 + known.error * (1 + K * spread) + OUTWARD * (1 + size)
        moves = [s * r * (spread[:, None] * np.abs(e.mean.linear) + np.abs(e.variance.linear))
                 for e in local.found.values()]  # fmt: skip
        share = share + CURVATURE * np.max(moves, axis=0)
        return value + sign * (most + remainder + room), share

    def _loss(self, kept: tuple[int, ...], own: int, around: Surroundings) -> FloatArray:
        """Return the largest sum over the classes left out of E sigma(f_j - f_own), [B]."""
        s, total = self.expansions.s, np.zeros(len(around.r))
        for other in sorted(set(range(self.expansions.model.functions)) - set(kept)):
            i, j = min(own, other), max(own, other)
            each = self.expansions.expander(i, j).expand_in(around)
            top = s * (each.mean.high if other == i else -each.mean.low)
            variance = s * np.where(top >= 0, each.variance.low, each.variance.high)
            sound = np.isfinite(top) & np.isfinite(variance) & (each.variance.low <= each.variance.high)
            value = logistic_value(np.where(sound, top, 0.0), np.where(sound, variance, 0.0))
            total += np.where(sound, value + QUADRATURE, 1.0)
        return total

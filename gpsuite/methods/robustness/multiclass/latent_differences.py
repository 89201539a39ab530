"""Bounds on how E softmax moves when the latent covariance changes, from its differences D_ij = Var(f_i - f_j) only.

Price's theorem and the softmax's invariance to a common shift give
dp_c = (1/2) sum_{j != c} E[p_c p_j (1 - 2 p_c)] dD_cj - sum_{i < j; i, j != c} E[p_c p_i p_j] dD_ij. Consider the
segment between two covariances. Along it p_c rises by at most A + B max(-dD_ij)_+. It falls by at most
A + B max(dD_ij)_+. Here A = max_j |dD_cj| / (12 sqrt 3) and B = (2/27) (C - 2) / (C - 1). A second bound is sharper
near zero and one. It uses sum_j p_c p_j |1 - 2 p_c| <= min(p_c, 1 - p_c) and sum_{i<j} p_c p_i p_j <= min(p_c,
1 - p_c) / 2. So p_c and 1 - p_c move by a factor of at most exp((max_j |dD_cj| + max_ij |dD_ij|) / 2).

Equation: derived, softmax of several classes
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from weakref import WeakKeyDictionary

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.robustness.class_probability import LatentRanges, latent_ranges
from gpsuite.methods.robustness.level_bound.cubic import Cubic, LatentModel, MomentModel
from gpsuite.methods.robustness.level_bound.level_bound import expand
from gpsuite.methods.robustness.level_bound.posterior_slice import (
    SliceStack,
    StackedFunctions,
    compute_products,
    restricted_slice,
    stacked_functions,
)
from gpsuite.methods.robustness.operators import restriction
from gpsuite.methods.robustness.rounding import SHORT_SUM, UNIT
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, centred_root
from gpsuite.models.latent import LatentPosterior

CURVATURE = 1.0 / (12.0 * math.sqrt(3.0))
"""Half the largest |w'Hw| / (max w - min w)^2 of the softmax's Hessian, and A's constant."""
_OUTWARD = 1.0 + 1e-12


@dataclass(frozen=True)
class CovarianceChange:
    """Changes of one class probability with the covariance, [B] each.

    Attributes:
        up: largest rise, as a difference.
        down: largest fall.
        rate: e^rate is the largest factor by which the probability or its complement rises or falls.
    """

    up: FloatArray
    down: FloatArray
    rate: FloatArray

    def highest(self, p: FloatArray) -> FloatArray:
        """Return the largest probability [B] that `p` may become."""
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite limit is no limit
            falls = 1.0 - (1.0 - p) * np.exp(-self.rate)
            return np.asarray(np.fmin(np.fmin(p + self.up, p * np.exp(self.rate) * _OUTWARD), falls + 1e-15))

    def lowest(self, p: FloatArray) -> FloatArray:
        """Return the smallest probability [B] that `p` may become."""
        with np.errstate(over="ignore", invalid="ignore"):
            rises = 1.0 - (1.0 - p) * np.exp(self.rate)
            return np.asarray(np.fmax(np.fmax(p - self.down, p * np.exp(-self.rate) / _OUTWARD), rises - 1e-15))


def covariance_change(low: FloatArray, high: FloatArray, own: int) -> CovarianceChange:
    """Return the largest changes of p_own with the covariance.

    Args:
        low: smallest change of each D_ij, [B, C, C], symmetric with zeros on the diagonal.
        high: largest change.
        own: the class.
    """
    C = low.shape[1]
    size = np.maximum(np.abs(low), np.abs(high))
    mine = size[:, own].max(axis=1)
    rest_low, rest_high = low.copy(), high.copy()
    for rest in (rest_low, rest_high):
        rest[:, own], rest[:, :, own] = 0.0, 0.0
    # the zeros on the diagonal make the maximum a positive part
    falls, rises = -rest_low.min(axis=(1, 2)), rest_high.max(axis=(1, 2))
    weight = (2.0 / 27.0) * (C - 2) / (C - 1)
    first = CURVATURE * mine
    rate = 0.5 * (mine + np.maximum(falls, rises)) * _OUTWARD
    return CovarianceChange((first + weight * falls) * _OUTWARD, (first + weight * rises) * _OUTWARD, rate)


# Local models of all differences f_i - f_j of latent functions: each is the latent function of a binary classifier.
#
# The pairs of classes share one expansion: centres, offsets, kernels and monomials. Only coefficients differ.


Pair = tuple[int, int]

ENTRIES = 1 << 21
"""Numbers per array that an expansion holds at once (16 MB): more pairs are expanded one group after another."""


@cache
def class_pairs(n_classes: int) -> tuple[Pair, ...]:
    """Return (i, j) with i < j."""
    return tuple((i, j) for i in range(n_classes) for j in range(i + 1, n_classes))


@cache
def _pairs_with(n_classes: int, own: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the positions of a class' pairs, their other classes, and the signs of m_own in them."""
    pairs = class_pairs(n_classes)
    mine = [place for place, pair in enumerate(pairs) if own in pair]
    others = [sum(pairs[place]) - own for place in mine]
    # the models are of f_i - f_j, i < j
    return np.array(mine), np.array(others), np.array([1.0 if own < other else -1.0 for other in others])


@dataclass(frozen=True, eq=False)
class DifferenceFunctions:
    """Terms of the bounds of all differences that do not depend on the point and the free inputs.

    Attributes:
        functions: functions of every pair, as stored.
        mean_error: error of a stored difference's mean anywhere, [F].
        variance_error: error of its variance, [F].
    """

    functions: StackedFunctions
    mean_error: FloatArray
    variance_error: FloatArray


_KEPT: WeakKeyDictionary[MultiClassPosterior, DifferenceFunctions] = WeakKeyDictionary()


def difference_functions(posterior: MultiClassPosterior) -> DifferenceFunctions:
    """Return the bounds' terms of all differences. They are computed once for a posterior."""
    known = _KEPT.get(posterior)
    if known is None:
        alpha, products, errors = [], [], []
        # keep one root at a time: with many classes all roots would take most of the memory
        for pair in class_pairs(posterior.n_classes):
            difference = posterior.difference(*pair)
            alpha.append(difference.alpha)
            products.append(compute_products(difference))
            errors.append(difference_errors(posterior, pair, difference))
        mean_error, variance_error = np.array(errors).T
        functions = stacked_functions(np.stack(alpha), products)
        known = _KEPT[posterior] = DifferenceFunctions(functions, mean_error, variance_error)
    return known


def difference_errors(posterior: MultiClassPosterior, pair: Pair, difference: LatentPosterior) -> tuple[float, float]:
    """Bound the distances of the stored difference's mean and variance from those of f_i - f_j, everywhere.

    The kernel's values are in [0, s]. With F the exact root and T the stored one, |k'(F'F - T'T)k| is at most s^2 times
    the sum of |F'F - T'T|. Both products are computed, each within (rows + 2) u sum_k |F_k|_1^2. Subtracting weights
    or roots moves them by a share u of their size.

    Args:
        posterior: classifier of all classes.
        pair: (i, j).
        difference: their difference, as `MultiClassPosterior.difference` returns it.
    """
    i, j = pair
    s, outward = difference.variance, 1.0 + SHORT_SUM
    with np.errstate(over="ignore", invalid="ignore"):
        mean = UNIT * s * float(np.abs(difference.alpha).sum())
        root = 0.5 * (posterior.root[:, i] - posterior.root[:, j])
        sizes = np.abs(root).sum(axis=1) * np.sqrt(np.abs(posterior.weights))
        moved = 4.0 * UNIT * float(sizes @ sizes)
        if len(difference.root) < np.count_nonzero(sizes):  # put together by an orthogonal transformation
            stored = difference.root * np.sqrt(np.abs(difference.weights))[:, None]
            given = root * np.sqrt(np.abs(posterior.weights))[:, None]
            own = np.abs(stored).sum(axis=1)
            moved += float(np.abs(given.T @ given - stored.T @ stored).sum())
            moved += UNIT * ((len(given) + 6.0) * float(sizes @ sizes) + (len(stored) + 6.0) * float(own @ own))
    return mean * outward, s * s * moved * outward


@dataclass(frozen=True)
class DifferenceRanges:
    """Ranges of all differences over B boxes or points, and a reference (m0, S0) inside them.

    Attributes:
        mean: m0, a mean vector with the first component zero, [B, C].
        root: L of the reference covariance S0 = L L' of the centred latent values, [B, C, C - 1].
        mean_low: lower bounds of m_i - m_j, [B, C, C]. Antisymmetric with `mean_high`.
        mean_high: upper bounds.
        change_low: lower bounds of D_ij - D0_ij, [B, C, C], symmetric.
        change_high: upper bounds.
    """

    mean: FloatArray
    root: FloatArray
    mean_low: FloatArray
    mean_high: FloatArray
    change_low: FloatArray
    change_high: FloatArray

    @cached_property
    def valid(self) -> BoolArray:
        """Whether all of it is finite and in order, [B]."""
        ends = (self.mean_low, self.mean_high, self.change_low, self.change_high)
        good: BoolArray = (self.mean_low <= self.mean_high).all(axis=(1, 2))
        good &= (self.change_low <= self.change_high).all(axis=(1, 2))
        for each in ends:
            good &= np.isfinite(each).all(axis=(1, 2))
        return good

    @cached_property
    def offset(self) -> FloatArray:
        """Reference differences m0_i - m0_j, [B, C, C]."""
        return np.asarray(self.mean[:, :, None] - self.mean[:, None, :])

    @cached_property
    def spread(self) -> FloatArray:
        """Bound of max_ij |(m_i - m_j) - (m0_i - m0_j)|, [B]."""
        distance = np.maximum(self.mean_high - self.offset, self.offset - self.mean_low)
        return np.asarray(distance.max(axis=(1, 2)))


@dataclass(frozen=True)
class DifferenceModels:
    """Local models of F differences over B boxes, by default of all. Rows are pair by pair.

    Attributes:
        n_classes: C.
        pairs: classes of every difference, F.
        n_boxes: B.
        mean: means of every difference, F B rows.
        variance: variances of every difference, F B rows.
        radius: half-widths in lengthscales, [B, d].
    """

    n_classes: int
    pairs: tuple[Pair, ...]
    n_boxes: int
    mean: MomentModel
    variance: MomentModel
    radius: FloatArray

    def of(self, pair: Pair) -> LatentModel:
        """Return the models of one difference, B rows."""
        rows = self.pairs.index(pair) * self.n_boxes + np.arange(self.n_boxes)
        return LatentModel(self.radius, self.mean.take(rows), self.variance.take(rows))

    @cached_property
    def variance_slopes(self) -> FloatArray:
        """The largest slope of any difference's variance, [B, d]."""
        slopes = np.abs(self.variance.model.linear)
        return np.asarray(slopes.reshape(-1, self.n_boxes, slopes.shape[1]).max(axis=0))

    def combined_means(self, own: int, weights: FloatArray) -> tuple[Cubic, FloatArray, FloatArray]:
        """Return sum_j weights_j (m_own - m_j) over the boxes as a cubic, and its largest errors below and above, [B].

        The models are of all differences.

        Args:
            own: class that the others are compared with.
            weights: [B, C]. The class' own weight is not used.
        """
        mine, others, signs = _pairs_with(self.n_classes, own)
        weight = weights[:, others].T * signs[:, None]
        mean = self.mean.take(np.add.outer(mine * self.n_boxes, np.arange(self.n_boxes)).ravel())
        below, above = (each.reshape(weight.shape) for each in (mean.below, mean.above))
        down, up = np.maximum(-weight, 0.0), np.maximum(weight, 0.0)

        def combined(tensor: FloatArray) -> FloatArray:
            parts = tensor.reshape(*weight.shape, *tensor.shape[1:])
            return np.asarray(np.einsum("kb,kb...->b...", weight, parts))

        model = mean.model
        cubic = None if model.cubic is None else combined(model.cubic)
        total = Cubic(combined(model.constant), combined(model.linear), combined(model.quadratic), cubic)
        return total, (up * below + down * above).sum(axis=0), (up * above + down * below).sum(axis=0)


@dataclass(frozen=True)
class LatentDifferences:
    """All differences f_i - f_j, i < j, over the free inputs around a point, or along lines.

    Attributes:
        n_classes: C.
        form: slices, one function for each pair.
        rounding: rounding of the stored differences.
    """

    n_classes: int
    form: SliceStack
    rounding: DifferenceFunctions

    def over(self, lo: FloatArray, hi: FloatArray, cheap: bool = False) -> tuple[DifferenceModels, DifferenceRanges]:
        """Return the models of every difference over boxes [B, d], and their ranges. Cheap ones as in `Expansion`."""
        models = self.models(lo, hi, np.arange(len(self.form.alpha)), cheap)
        mean, variance = models.mean, models.variance
        values, spread = mean.model.constant, variance.model.constant
        at = LatentRanges(
            mean.low, mean.high, variance.low, variance.high, values, np.clip(spread, variance.low, variance.high)
        )
        return models, self._ranges(at)

    def models(self, lo: FloatArray, hi: FloatArray, places: IntArray, cheap: bool = False) -> DifferenceModels:
        """Return the models of some differences over boxes [B, d].

        Args:
            lo: lower ends of the boxes.
            hi: upper ends.
            places: of the differences in `class_pairs`, [F].
            cheap: as in `Expansion`.
        """
        centre = 0.5 * lo + 0.5 * hi
        radius, found = self.form.radius(lo, hi, centre), []
        boxes, d = centre.shape
        group = max(1, ENTRIES // max(1, boxes * (1 + d) * self.form.alpha.shape[2]))
        for start in range(0, len(places), group):
            functions = self.form.functions(places[start : start + group])
            found.append(expand(functions, centre).over(radius, cheap))
        pairs = class_pairs(self.n_classes)
        mean, variance = (_joined([each.mean for each in found]), _joined([each.variance for each in found]))
        return DifferenceModels(self.n_classes, tuple(pairs[at] for at in places), boxes, mean, variance, radius)

    def at(self, points: FloatArray) -> DifferenceRanges:
        """Return the ranges at points [B, d]. Their width is only rounding."""
        found = latent_ranges(self.form, points)
        middle = np.clip(found.variance, found.variance_low, found.variance_high)
        return self._ranges(replace(found, variance=middle))

    def _ranges(self, found: LatentRanges) -> DifferenceRanges:
        """Return the ranges of all C^2 differences from those of the pairs, F B numbers or [F, B]."""
        C, pairs = self.n_classes, np.array(class_pairs(self.n_classes)).T
        i, j = pairs
        values = {name: each.reshape(len(i), -1).T for name, each in vars(found).items()}
        B = len(values["mean"])
        low, high, D, least, most = (np.zeros((B, C, C)) for _ in range(5))
        low[:, i, j] = values["mean_low"] - self.rounding.mean_error
        high[:, i, j] = values["mean_high"] + self.rounding.mean_error
        low[:, j, i], high[:, j, i] = -high[:, i, j], -low[:, i, j]
        D[:, i, j] = D[:, j, i] = values["variance"]
        error = self.rounding.variance_error
        least[:, i, j] = least[:, j, i] = values["variance_low"] - error
        most[:, i, j] = most[:, j, i] = values["variance_high"] + error
        reference = np.zeros((B, C))
        reference[:, j[i == 0]] = -values["mean"][:, i == 0]
        reference, D = (np.where(np.isfinite(each), each, 0.0) for each in (reference, D))
        root = centred_root(-0.5 * D)
        D0 = ((root[:, :, None] - root[:, None]) ** 2).sum(axis=3)
        pad = 1e-13 * (D0 + np.abs(most))
        for each in (least, most, pad):
            each[:, np.arange(C), np.arange(C)] = 0.0
        return DifferenceRanges(reference, root, low, high, least - D0 - pad, most - D0 + pad)


def latent_differences(posterior: MultiClassPosterior, x0: FloatArray, free: IntArray) -> LatentDifferences:
    """Return all differences around a point with some free inputs.

    Args:
        posterior: classifier of C classes.
        x0: the point that fixes the other inputs, [D].
        free: indices of the free inputs, [d].

    Raises:
        ValueError: if the point or the indices do not fit.
    """
    found, one = difference_functions(posterior), any_difference(posterior)
    kept = restriction(one, x0, free)
    form = found.functions.stack(restricted_slice(one, kept, found.functions.products[0]), kept.unit)
    return LatentDifferences(posterior.n_classes, form, found)


def any_difference(posterior: MultiClassPosterior) -> LatentPosterior:
    """Return the common parts of all differences, with the mean of one difference and without a root."""
    n = len(posterior.X)
    return LatentPosterior(
        posterior.X,
        posterior.kernel,
        2.0 * posterior.variance,
        posterior.lengthscales,
        0.5 * (posterior.alpha[0] - posterior.alpha[1]),
        np.zeros((0, n)),
        np.zeros(0),
        posterior.operator_bound,
    )


def _joined(parts: list[MomentModel]) -> MomentModel:
    """Return the rows of all parts, part after part."""
    if len(parts) == 1:
        return parts[0]

    model = parts[0].model.followed_by(*(each.model for each in parts[1:]))
    return MomentModel(
        model,
        np.concatenate([each.below for each in parts]),
        np.concatenate([each.above for each in parts]),
        np.concatenate([each.low for each in parts]),
        np.concatenate([each.high for each in parts]),
    )

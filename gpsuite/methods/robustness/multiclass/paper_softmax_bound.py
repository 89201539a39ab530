"""Class probabilities by cells of the latent space, for any monotone link and for three classes.

This is a checked baseline: with more cells it approaches the exact closed forms of `class_probability`. The printed
Prop. 2 does not cover the cells that reach to infinity. There the best mean is the one farthest into the cell (for a
maximum) or out of it (for a minimum). The best variance outside the cell is the largest one.

Equation: Blaas et al. 2020, Prop. 1, Prop. 2
Equation: Blaas et al. 2020, Prop. 3, Prop. 4
Equation: Blaas et al. 2020, Prop. 3, Prop. 4, App. D
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.errors import UserError
from gpsuite.methods.robustness.multiclass.latent_differences import class_pairs, difference_errors
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends, PointModel, SoftmaxBound
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.models.classification.links import Link
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, RobustMaxPosterior

# Cells reach this many standard deviations beyond the means. Two more cells cover the remaining line.
_REACH = 8.0
# Absolute rounding error allowed per cell.
_CELL = 1e-15


def cell_probability_bounds(
    link: Link, mean: tuple[FloatArray, FloatArray], variance: tuple[FloatArray, FloatArray], n_cells: int
) -> tuple[FloatArray, FloatArray]:
    """Bound E sigma(f) over rectangles of (mean, variance) with n_cells cells.

    Args:
        link: monotone, increasing.
        mean: lower and upper bound of the mean, [B] each.
        variance: lower and upper bound of the variance, [B] each, >= 0.
        n_cells: number of cells, at least 2.

    Raises:
        ValueError: if there are fewer than two cells.
    """
    if n_cells < 2:
        raise ValueError(f"n_cells={n_cells}: at least 2")
    reach = _REACH * np.sqrt(variance[1])
    share = np.linspace(0.0, 1.0, n_cells - 1)
    edges = (mean[0] - reach)[:, None] + (mean[1] - mean[0] + 2.0 * reach)[:, None] * share
    ends = np.full((len(edges), 1), np.inf)
    a, b = np.hstack([-ends, edges]), np.hstack([edges, ends])
    sigma = link.sigma(edges)
    smallest, largest = cell_mass_bounds(a, b, mean, variance)
    low = (np.hstack([np.zeros_like(ends), sigma]) * smallest).sum(axis=1)
    high = (np.hstack([sigma, np.ones_like(ends)]) * largest).sum(axis=1)
    slack = n_cells * _CELL
    return np.maximum(low - slack, 0.0), np.minimum(high + slack, 1.0)


def cell_mass_bounds(
    a: FloatArray, b: FloatArray, mean: tuple[FloatArray, FloatArray], variance: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest mass of N(mean, variance) in the cells [a, b], exact over the rectangles.

    Args:
        a: lower ends, -inf first, [B, N].
        b: upper ends, +inf last, [B, N].
        mean: bounds of the mean, [B] each.
        variance: bounds of the variance, [B] each.
    """
    low, high = (np.broadcast_to(end[:, None], a.shape) for end in mean)
    least, most = (np.broadcast_to(end[:, None], a.shape) for end in variance)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        middle = 0.5 * (a + b)
        into = np.where(np.isneginf(a), low, np.where(np.isposinf(b), high, np.clip(middle, low, high)))
        best = np.clip(_best_variance(into, a, b), least, most)
        best = np.where((into >= a) & (into <= b), least, best)
        farther = np.where(np.abs(middle - low) > np.abs(middle - high), low, high)
        out = np.where(np.isneginf(a), high, np.where(np.isposinf(b), low, farther))
        smallest = np.minimum(_mass(a, b, out, least, False), _mass(a, b, out, most, False))
        return smallest, _mass(a, b, into, best, True)


def _best_variance(mean: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the variance of the largest mass in [a, b] for a mean outside it. Infinite for unbounded cells."""
    square = (mean - a) ** 2 - (mean - b) ** 2
    value = square / (2.0 * np.log((mean - a) / (mean - b)))
    return np.where(np.isinf(a) | np.isinf(b) | np.isnan(value), np.inf, value)


def _mass(a: FloatArray, b: FloatArray, mean: FloatArray, variance: FloatArray, closed: bool) -> FloatArray:
    """Return P(a <= f <= b). A point mass counts on the cell's edge if `closed`."""
    width = np.sqrt(variance)
    left, right = (a - mean) / width, (b - mean) / width
    # The same tail on both sides keeps small masses accurate.
    mass = np.where(left > 0.0, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))
    inside = (a <= mean) & (mean <= b) if closed else (a < mean) & (mean < b)
    return np.where(variance > 0.0, mass, np.where(inside, 1.0, 0.0))


# Class probabilities of three classes by cells of the latent space: the paper's bound, a checked baseline.
#
# The latent space is cut into N^3 cells. In each cell the softmax is between its values in two corners. The mass of the
# latent distribution is at most (least) a product of largest (least) masses of one-dimensional conditional
# distributions. Their mean is mu_i + Sigma_iI Sigma_II^-1 (f - mu_I). The paper prints a minus there. The conditional
# moments over a box and a cell come from ranges of mean and covariance by interval arithmetic. The work is exponential
# in the number of classes.


CLASSES = 3
N_CELLS = 12
_CELL_REACH = 4.0  # standard deviations beyond the means that the bounded cells cover
_OUTWARD = 1e-12

Range = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class LatentBoxes:
    """Ranges of the latent mean vector and covariance matrix over B boxes.

    Attributes:
        mean: lower and upper bounds, [B, 3] each.
        covariance: lower and upper bounds, [B, 3, 3] each, symmetric.
    """

    mean: Range
    covariance: Range

    @property
    def known(self) -> BoolArray:
        """Whether all ranges over a box are finite, [B]."""
        ends = [each.reshape(len(each), -1) for each in (*self.mean, *self.covariance)]
        return np.asarray(np.isfinite(np.hstack(ends)).all(axis=1))

    def reordered(self, order: tuple[int, ...]) -> LatentBoxes:
        """Return the ranges with the classes in another order."""
        low, high = (each[:, order][:, :, order] for each in self.covariance)
        return LatentBoxes((self.mean[0][:, order], self.mean[1][:, order]), (low, high))


def class_probability_cells(
    latent: LatentBoxes, own: int, n_cells: int = N_CELLS, sign: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Bound E softmax_own over boxes, [B] each.

    Args:
        latent: ranges over the boxes.
        own: the class.
        n_cells: cells of every latent axis. Two reach to infinity.
        sign: 1. With -1 the conditional mean is as printed and the results are no bounds.

    Raises:
        ValueError: for fewer than three cells.
    """
    if n_cells < 3:
        raise ValueError(f"n_cells={n_cells}: at least 3")
    others = tuple(c for c in range(CLASSES) if c != own)
    latent = latent.reordered((own, *others))
    edges = [_edges(latent, axis, n_cells) for axis in range(CLASSES)]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        least, most = mass_of_cells(latent, edges, sign)
        low, high = _softmax_of_cells(edges)
        lower, upper = (least * low).sum(axis=(1, 2, 3)), (most * high).sum(axis=(1, 2, 3))
    # a product of NaN counts as zero there, so unknown values are replaced before
    known = np.isfinite(lower) & np.isfinite(upper) & latent.known
    lower = np.where(known, np.maximum(lower - _OUTWARD, 0.0), 0.0)
    return lower, np.where(known, np.minimum(upper + _OUTWARD, 1.0), 1.0)


def mass_of_cells(latent: LatentBoxes, edges: list[FloatArray], sign: float) -> Range:
    """Bound the mass of every cell, [B, N, N, N] each. The axes are the classes.

    Args:
        latent: ranges over the boxes.
        edges: edges of the cells along every axis, [B, N + 1], infinite at the ends.
        sign: sign of the conditional mean's correction.
    """
    (m_low, m_high), (s_low, s_high) = latent.mean, latent.covariance

    def entry(i: int, j: int) -> Range:
        return s_low[:, i, j], s_high[:, i, j]

    variance = [_positive(entry(i, i)) for i in range(CLASSES)]
    cells = [(each[:, :-1], each[:, 1:]) for each in edges]
    away = [_times_sign(_minus(cells[i], (m_low[:, i, None], m_high[:, i, None])), sign) for i in range(CLASSES)]
    last = cell_mass_bounds(*cells[2], (m_low[:, 2], m_high[:, 2]), variance[2])
    # class 1 given class 2
    slope = _over(entry(1, 2), variance[2])
    shift = _times(_wide(slope, 1), away[2])
    mean = m_low[:, 1, None] + shift[0], m_high[:, 1, None] + shift[1]
    left = _positive(_minus(variance[1], _times(slope, entry(1, 2))), variance[1])
    middle = _conditional_masses(cells[1], mean, left)
    # class 0 given classes 1 and 2
    determinant = _minus(_times(variance[1], variance[2]), _square(entry(1, 2)))
    determinant = _positive(determinant)
    first = _over(_minus(_times(entry(0, 1), variance[2]), _times(entry(0, 2), entry(1, 2))), determinant)
    second = _over(_minus(_times(entry(0, 2), variance[1]), _times(entry(0, 1), entry(1, 2))), determinant)
    near, far = _times(_wide(first, 1), away[1]), _times(_wide(second, 1), away[2])
    ends = [
        m[:, 0, None, None] + a[:, :, None] + b[:, None, :] for m, a, b in zip((m_low, m_high), near, far, strict=True)
    ]
    explained = _plus(_times(first, entry(0, 1)), _times(second, entry(0, 2)))
    rest = _positive(_minus(variance[0], explained), variance[0])
    own = _conditional_masses(cells[0], (ends[0], ends[1]), rest)
    # own is [B, N1, N2, N0], middle [B, N2, N1]
    least, most = (
        np.moveaxis(o, 3, 1) * np.swapaxes(c, 1, 2)[:, None] * f[:, None, None, :]
        for o, c, f in zip(own, middle, last, strict=True)
    )
    return least, most


def _conditional_masses(cells: Range, mean: Range, variance: Range) -> Range:
    """Bound the mass of cells [B, N] under means [B, ...] and variances [B], [B, ..., N] each."""
    shape = mean[0].shape
    rows = int(np.prod(shape[1:]))
    low, high = mean[0].ravel(), mean[1].ravel()
    known = np.isfinite(low) & np.isfinite(high)  # otherwise the bounds are trivial
    a, b = (np.repeat(end, rows, axis=0) for end in cells)
    spread = [np.repeat(end, rows) for end in variance]
    ends = np.where(known, low, 0.0), np.where(known, high, 0.0)
    least, most = cell_mass_bounds(a, b, ends, (spread[0], spread[1]))
    least, most = np.where(known[:, None], least, 0.0), np.where(known[:, None], most, 1.0)
    return least.reshape(*shape, -1), most.reshape(*shape, -1)


def _edges(latent: LatentBoxes, axis: int, n_cells: int) -> FloatArray:
    """Return the ends of the cells along a class' axis, [B, N + 1]."""
    deviation = np.sqrt(np.maximum(latent.covariance[1][:, axis, axis], 0.0))
    low, high = (latent.mean[0][:, axis] - _CELL_REACH * deviation, latent.mean[1][:, axis] + _CELL_REACH * deviation)
    inner = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, n_cells - 1)
    ends = np.full((len(low), 1), np.inf)
    return np.hstack([-ends, inner, ends])


def _softmax_of_cells(edges: list[FloatArray]) -> Range:
    """Return the least and the largest softmax of class 0 in every cell, [B, N, N, N] each."""

    def value(own: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
        rivals = np.logaddexp(first[:, None, :, None], second[:, None, None, :])
        apart = own[:, :, None, None] - rivals
        return np.asarray(expit(apart))

    low, high = [each[:, :-1] for each in edges], [each[:, 1:] for each in edges]
    least, most = value(low[0], high[1], high[2]), value(high[0], low[1], low[2])
    # infinity minus infinity is unknown
    return np.where(np.isnan(least), 0.0, least), np.where(np.isnan(most), 1.0, most)


def _wide(x: Range, axes: int) -> Range:
    ends = [each.reshape(each.shape + (1,) * axes) for each in x]
    return ends[0], ends[1]


def _times(x: Range, y: Range) -> Range:
    products = np.stack([a * b for a in x for b in y])
    # zero times infinity: the other factor may be anything
    products = np.where(np.isnan(products), 0.0, products)
    return products.min(axis=0), products.max(axis=0)


def _times_sign(x: Range, sign: float) -> Range:
    return x if sign > 0.0 else (-x[1], -x[0])


def _square(x: Range) -> Range:
    low, high = np.minimum(np.abs(x[0]), np.abs(x[1])), np.maximum(np.abs(x[0]), np.abs(x[1]))
    least = np.where((x[0] <= 0.0) & (x[1] >= 0.0), 0.0, low)
    return np.asarray(least * least), np.asarray(high * high)


def _over(x: Range, positive: Range) -> Range:
    """Divide by a range that is not negative. Division by zero gives an unknown range."""
    safe = positive[0] > 0.0
    low, high = np.where(safe, positive[0], 1.0), np.where(safe, positive[1], 1.0)
    found = _times(x, (1.0 / high, 1.0 / low))
    return np.where(safe, found[0], -np.inf), np.where(safe, found[1], np.inf)


def _plus(x: Range, y: Range) -> Range:
    return x[0] + y[0], x[1] + y[1]


def _minus(x: Range, y: Range) -> Range:
    return x[0] - y[1], x[1] - y[0]


def _positive(x: Range, at_most: Range | None = None) -> Range:
    """Clip a range of variances to possible values. An unknown one becomes [0, `at_most`]."""
    low = np.where(np.isnan(x[0]), 0.0, np.maximum(x[0], 0.0))
    high = np.maximum(x[1], 0.0)
    if at_most is not None:
        high = np.where(np.isnan(high), at_most[1], np.minimum(high, at_most[1]))
        low = np.minimum(low, high)
    return low, high


# The paper's bound of the class probabilities of three classes: its envelopes of mean and variance, then its cells.
#
# Covariances follow from variances: Sigma_ij = (Sigma_ii + Sigma_jj - Var(f_i - f_j)) / 2.


class PaperSoftmaxBound:
    """The baseline for three classes, with the interface of `SoftmaxBound` and its evaluation of points.

    Args:
        posterior: classifier of three classes with a squared exponential kernel.
        x0: point that fixes the other inputs, [D].
        free: indices of the free inputs, [d].
        n_cells: cells of every latent axis.
        sign: 1. With -1 the conditional mean is as printed, which gives no bound.

    Raises:
        UserError: for another number of classes or another kernel.
        ValueError: if the point or the indices do not fit.
    """

    name = "paper"
    version = 1

    def __init__(
        self, posterior: MultiClassPosterior, x0: FloatArray, free: IntArray, n_cells: int = N_CELLS, sign: float = 1.0
    ) -> None:
        if isinstance(posterior, RobustMaxPosterior):
            raise UserError("bound=paper: the paper's cells are for the softmax. Use bound=rkhs_taylor", key="bound")
        if posterior.n_classes != CLASSES:
            fault = f"the paper's cells are for {CLASSES} classes, there are {posterior.n_classes}"
            raise UserError(f"bound=paper: {fault}. Use bound=rkhs_taylor", key="bound")
        self.n_cells, self.sign = n_cells, sign
        self._points = SoftmaxBound(posterior, x0, free)
        functions = [posterior.function(c) for c in range(CLASSES)]
        pairs = class_pairs(CLASSES)
        differences = [posterior.difference(*pair) for pair in pairs]
        parts = zip(pairs, differences, strict=True)
        self._moved = [difference_errors(posterior, *each)[1] for each in parts]
        self._bounds = [paper_bound(each, x0, free) for each in (*functions, *differences)]

    def latent(self, lo: FloatArray, hi: FloatArray) -> tuple[LatentBoxes, FloatArray]:
        """Return ranges of latent means and covariances over boxes [B, d], and scores for the cut, [B, d]."""
        found = [each.bounds(lo, hi) for each in self._bounds]
        own = found[:CLASSES]
        low, high = (np.empty((len(lo), CLASSES, CLASSES)) for _ in range(2))
        for c, each in enumerate(own):
            low[:, c, c], high[:, c, c] = each.variance_low, each.variance_high
        for (i, j), each, moved in zip(class_pairs(CLASSES), found[CLASSES:], self._moved, strict=True):
            least = 0.5 * (low[:, i, i] + low[:, j, j] - (each.variance_high + moved))
            most = 0.5 * (high[:, i, i] + high[:, j, j] - (each.variance_low - moved))
            largest = np.sqrt(high[:, i, i] * high[:, j, j])
            low[:, i, j] = low[:, j, i] = np.maximum(least, -largest)
            high[:, i, j] = high[:, j, i] = np.minimum(most, largest)
        mean = tuple(np.stack([getattr(each, f"mean_{end}") for each in own], axis=1) for end in ("low", "high"))
        return LatentBoxes((mean[0], mean[1]), (low, high)), own[0].split_score

    def class_bounds(self, lo: FloatArray, hi: FloatArray, own: int) -> Ends:
        """Bound the probability of a class over boxes [B, d]."""
        latent, score = self.latent(lo, hi)
        low, high = class_probability_cells(latent, own, self.n_cells, self.sign)
        return Ends(low, high, self.at(0.5 * lo + 0.5 * hi).moments.mean[:, own], score)

    def margin_bounds(self, lo: FloatArray, hi: FloatArray, own: int, rival: int) -> Ends:
        """Bound p_own - p_rival over boxes [B, d], by the bounds of both."""
        latent, score = self.latent(lo, hi)
        ends = [class_probability_cells(latent, c, self.n_cells, self.sign) for c in (own, rival)]
        mean = self.at(0.5 * lo + 0.5 * hi).moments.mean
        return Ends(ends[0][0] - ends[1][1], ends[0][1] - ends[1][0], mean[:, own] - mean[:, rival], score)

    def at(self, points: FloatArray) -> PointModel:
        """Return what `class_of` and `margin_of` need at points [B, d] of the free inputs."""
        return self._points.at(points)

    def class_of(self, local: PointModel, own: int) -> tuple[FloatArray, FloatArray]:
        """Bound the probability of a class at points from `at`, [B] each."""
        return self._points.class_of(local, own)

    def margin_of(self, local: PointModel, own: int, rival: int) -> tuple[FloatArray, FloatArray]:
        """Bound p_own - p_rival at points from `at`, [B] each."""
        return self._points.margin_of(local, own, rival)

"""Extremes of a class probability over many intervals at once: branch and bound, all open pieces in one batch.

Every interval has its attained value, its threshold and its list of pieces. The intervals share the product that
expands the posterior around all their centres.

Equation: Blaas et al. 2020, Algorithm 1
Equation: derived, search with the level bound
Equation: derived, operator form of a posterior
Equation: derived, rounding of the level bound
Equation: derived, level function
Equation: derived, softmax of several classes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.class_probability import clipped
from gpsuite.methods.robustness.level_bound.cubic import LatentModel
from gpsuite.methods.robustness.level_bound.level import level_of
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound
from gpsuite.methods.robustness.level_bound.posterior_slice import (
    PosteriorProducts,
    PosteriorSlice,
    gram_error,
    mean_sizes,
    posterior_products,
    take_lines,
)
from gpsuite.methods.robustness.multiclass.latent_differences import (
    LatentDifferences,
    any_difference,
    difference_functions,
)
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends, Proof, SoftmaxBound
from gpsuite.methods.robustness.operators import PROFILES
from gpsuite.methods.robustness.rounding import dot_product_unit
from gpsuite.methods.robustness.search.branch_and_bound import UnsoundBoundError
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.composite import single_kernel
from gpsuite.models.latent import LatentPosterior

ENTRIES = 1 << 19  # numbers per array that a batch holds for the data (4 MB)
ROUNDS = 2


@dataclass(frozen=True)
class PieceBounds:
    """Bounds of a signed score over pieces of lines, arrays [B].

    Attributes:
        outer: proved upper bound of the signed score over the piece. Infinite if nothing is known.
        point: place of the relaxation's maximum.
    """

    outer: FloatArray
    point: FloatArray


class Pieces(Protocol):
    """Pieces of lines that are already expanded."""

    @property
    def sharpens(self) -> bool:
        """Whether bounds are sharper for a target nearer to the extremum."""

    def centre_scores(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of the score at the centres, [B] each. NaN if not computable."""

    def bound(self, sign: int, target: FloatArray) -> PieceBounds:
        """Bound the signed score, sharp at signed probabilities [B]."""


class Lines(Protocol):
    """A probability along L lines. It is monotone in a score."""

    @property
    def width(self) -> int:
        """Numbers held per piece and array."""

    def pieces(self, lines: IntArray, low: FloatArray, high: FloatArray) -> Pieces:
        """Expand pieces [low, high] of lines, [B] each."""

    def evaluate(self, lines: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B] of lines."""

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return probabilities of score bounds, rounded outwards."""


@dataclass(frozen=True)
class LineExtrema:
    """Extremes over S intervals, valid at any time, arrays [S].

    Attributes:
        sign: 1 for maxima, -1 for minima.
        inner: value surely attained at `witness`.
        outer: proved bound.
        witness: place on the line.
        closed: whether attained and proved value agree within the tolerance.
        boxes: number of pieces bounded for all intervals.
    """

    sign: int
    inner: FloatArray
    outer: FloatArray
    witness: FloatArray
    closed: BoolArray
    boxes: int

    @property
    def gap(self) -> FloatArray:
        """Distance of the proved from the attained values, >= 0."""
        return np.maximum(0.0, self.sign * (self.outer - self.inner))


def line_extrema(
    lines: Lines, which: IntArray, low: FloatArray, high: FloatArray, sign: int, tolerance: float, budget: Budget
) -> LineExtrema:
    """Search the maxima (`sign=1`) or minima (-1) of the probability over intervals of lines.

    Args:
        lines: probability to bound.
        which: the line of each interval, [S].
        low: lower ends, [S]. They may equal the upper ends.
        high: upper ends, [S].
        sign: 1 or -1.
        tolerance: largest gap between attained and proved probability.
        budget: seconds and boxes. When it ends the best valid bounds are returned.

    Raises:
        ValueError: if an interval is empty or not finite, or sign or tolerance is out of range.
        UnsoundBoundError: if a point attains more than the bounds allow.
    """
    finite = np.isfinite(low) & np.isfinite(high)
    if not (finite.all() and (low <= high).all() and tolerance >= 0 and sign in (-1, 1)):
        raise ValueError("finite intervals low <= high, tolerance >= 0 and sign = 1 or -1 are needed")
    return _LineSearch(lines, which, low, high, sign, tolerance, budget).run()


class _LineSearch:
    """One run. `signed` values are multiplied by the sign: every search is for a maximum."""

    def __init__(
        self,
        lines: Lines,
        which: IntArray,
        low: FloatArray,
        high: FloatArray,
        sign: int,
        tolerance: float,
        budget: Budget,
    ) -> None:
        self.lines, self.which, self.low, self.high = lines, which, low, high
        self.sign, self.tolerance, self.budget = float(sign), tolerance, budget
        count = len(which)
        self.score = np.full(count, -np.inf)  # signed score surely attained by the witness
        self.inner, self.rounding = np.full(count, min(0.0, self.sign)), np.zeros(count)
        self.witness = low.copy()
        self.closed = np.full(count, -np.inf)  # largest signed score bound among the dropped pieces
        self.boxes = 0

    def run(self) -> LineExtrema:
        """Search until every interval is closed or the budget ends."""
        owner, low, high = np.arange(len(self.which)), self.low, self.high
        inherited = np.full(len(owner), np.inf)
        self._offer_ends()
        while len(owner):
            parts = [self._batch(owner[part], low[part], high[part], inherited[part])
                     for part in self._parts(len(owner))]  # fmt: skip
            owner, low, high, inherited = (np.concatenate(each) for each in zip(*parts, strict=True))
        low_end, high_end = self.lines.outward_probability(self.sign * self.closed, self.sign * self.closed)
        outer = high_end if self.sign > 0 else -low_end
        if (self.inner > outer).any():
            worst = int(np.argmax(self.inner - outer))
            raise UnsoundBoundError(
                f"attained {self.sign * self.inner[worst]:.17g} at {self.witness[worst]}, bound {outer[worst]:.17g}"
            )
        closed = outer <= self.inner + np.maximum(self.tolerance, 2.0 * self.rounding)
        return LineExtrema(int(self.sign), self.sign * self.inner, self.sign * outer, self.witness, closed, self.boxes)

    def _offer_ends(self) -> None:
        """Try both ends of every interval: the extremes of a monotone function."""
        for ends in (self.low, self.high):
            for part in self._parts(len(ends)):
                if self.budget.exhausted:
                    return
                rows = np.arange(len(ends))[part]
                with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                    self._take(rows, ends[part], *self.lines.evaluate(self.which[part], ends[part]))

    def _parts(self, count: int) -> Iterator[slice]:
        size = max(1, ENTRIES // self.lines.width)
        return (slice(start, start + size) for start in range(0, count, size))

    def _batch(
        self, owner: IntArray, low: FloatArray, high: FloatArray, inherited: FloatArray
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Bound pieces. Return the halves of lines that stay open, with the bounds they inherit."""
        spent = self.budget.boxes is not None and self.budget.spent_boxes + len(owner) > self.budget.boxes
        if spent or self.budget.exhausted:
            self._drop(owner, inherited)
            none = np.zeros(0)
            return owner[:0], none, none, none
        centre = 0.5 * low + 0.5 * high
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            pieces = self.lines.pieces(self.which[owner], low, high)
            self._take(owner, centre, *pieces.centre_scores())
            outer = inherited
            for _ in range(ROUNDS if pieces.sharpens else 1):
                found = pieces.bound(int(self.sign), self.inner[owner] + self.tolerance)
                outer = np.fmin(outer, found.outer)
                open_pieces = np.flatnonzero(~self._fathomed(owner, outer) & np.isfinite(found.point))
                if not len(open_pieces):
                    break
                mine = owner[open_pieces]
                points = np.clip(found.point[open_pieces], self.low[mine], self.high[mine])
                self._take(mine, points, *self.lines.evaluate(self.which[mine], points))
        self.boxes += len(owner)
        self.budget.spend(boxes=len(owner))
        left = ~self._fathomed(owner, outer) & (low < centre) & (centre < high)
        self._drop(owner[~left], outer[~left])
        owner, centre, outer = owner[left], centre[left], outer[left]
        return (
            np.repeat(owner, 2),
            np.stack([low[left], centre], axis=1).ravel(),
            np.stack([centre, high[left]], axis=1).ravel(),
            np.repeat(outer, 2),
        )

    def _take(self, owner: IntArray, points: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Make points [B] of the owners' intervals witnesses if the bounds of their scores are better."""
        attained = low if self.sign > 0 else -high
        attained = np.where(np.isnan(attained), -np.inf, attained)
        best = np.full(len(self.score), -np.inf)
        np.maximum.at(best, owner, attained)
        rows = np.flatnonzero((attained == best[owner]) & (attained > self.score[owner]))
        if not len(rows):
            return
        mine = owner[rows]
        p_low, p_high = self.lines.outward_probability(low[rows], high[rows])
        self.score[mine], self.witness[mine] = attained[rows], points[rows]
        self.inner[mine] = p_low if self.sign > 0 else -p_high
        self.rounding[mine] = p_high - p_low

    def _fathomed(self, owner: IntArray, outer: FloatArray) -> BoolArray:
        """Return which pieces cannot change their interval's answer."""
        low, high = self.lines.outward_probability(self.sign * outer, self.sign * outer)
        probability = high if self.sign > 0 else -low
        slack = np.maximum(self.tolerance, 2.0 * self.rounding[owner])
        return np.asarray(probability <= self.inner[owner] + slack)

    def _drop(self, owner: IntArray, outer: FloatArray) -> None:
        np.maximum.at(self.closed, owner, np.where(np.isnan(outer), np.inf, outer))


# A posterior along many lines at once, each through a point in the direction of one input.
#
# Every line is a slice with a single free input. The slices share the posterior's products. One product with the
# reduction expands the boxes of all lines.


@dataclass(frozen=True)
class LineSlices(PosteriorSlice):
    """L slices with one free input each. Row b of points, boxes and of these arrays belongs to line b.

    Attributes:
        dims: the free input of each line, [L].
        lengthscales: lengthscales of the free inputs, [L, 1].
        X: data of the free inputs, [L, 1, n].
        fixed: squared distances over the fixed inputs, [L, n]. Zero if they are folded.
        weight: folds, [L, n].
        floor: bound as in `PosteriorSlice`, [L]. So are the next three.
        ceiling: [L].
        mean_error: [L].
        gram_error: [L].
    """

    def moments(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance [L] per unit s at one point [L, 1] of each line."""
        k = self._kernel(points)
        return k @ self.alpha, 1.0 - np.einsum("bn,bn->b", k @ self.products.reduction, k)


def line_slices(posterior: LatentPosterior, points: FloatArray, inputs: IntArray) -> LineSlices:
    """Restrict a posterior to the lines through each of P points along each of d inputs, L = P d, points first.

    Args:
        posterior: N data, D inputs.
        points: [P, D].
        inputs: indices, [d], distinct.

    Raises:
        ValueError: if points are not finite or of the wrong shape, or the indices are not distinct and in range.
    """
    return restricted_lines(posterior, points, inputs, posterior_products(posterior))[0]


def restricted_lines(
    posterior: LatentPosterior, points: FloatArray, inputs: IntArray, products: PosteriorProducts
) -> tuple[LineSlices, FloatArray]:
    """Return `line_slices` with known products, and the relative errors of the data's parts, [L, n].

    Raises:
        ValueError: as `line_slices`.
    """
    points, inputs = np.asarray(points, dtype=np.float64), np.asarray(inputs, dtype=np.int64)
    D = posterior.X.shape[1]
    if points.ndim != 2 or points.shape[1] != D or not np.isfinite(points).all():
        raise ValueError(f"finite points [P, {D}] are needed, got shape {points.shape}")
    distinct = inputs.ndim == 1 and len(inputs) and len(np.unique(inputs)) == len(inputs)
    if not distinct or inputs.min() < 0 or inputs.max() >= D:
        raise ValueError(f"inputs {inputs}: distinct indices in [0, {D}) are needed")
    distance = np.concatenate([_other_inputs(posterior, point)[inputs] for point in points])
    folds = PROFILES.get(single_kernel(posterior.kernel, "the search along single inputs")).folds
    weight = np.exp(-0.5 * distance) if folds else np.ones_like(distance)
    fixed = np.zeros_like(distance) if folds else distance
    unit = dot_product_unit(len(posterior.alpha), D, distance if folds else np.zeros_like(distance))
    dims = np.tile(inputs, len(points))
    floor, ceiling, mean_error = mean_sizes(posterior.alpha, weight, unit)
    found = LineSlices(
        kernel=posterior.kernel,
        variance=posterior.variance,
        dims=dims,
        lengthscales=posterior.lengthscales[dims][:, None],
        X=np.tile(posterior.X.T[inputs], (len(points), 1))[:, None],
        fixed=fixed,
        weight=weight,
        alpha=posterior.alpha,
        products=products,
        norm2=products.norm2,
        floor=floor,
        ceiling=ceiling,
        mean_error=mean_error,
        gram_error=gram_error(products, weight, unit),
    )
    return found, unit


def _other_inputs(posterior: LatentPosterior, point: FloatArray) -> FloatArray:
    """Return the squared scaled distances of the data from a point over all inputs but each, [D, N].

    The sums over the inputs before and after are added. Nothing is subtracted, so one far input cannot cancel the
    others.
    """
    square = ((posterior.X - point).T / posterior.lengthscales[:, None]) ** 2
    before, behind = np.zeros_like(square), np.zeros_like(square)
    np.cumsum(square[:-1], axis=0, out=before[1:])
    np.cumsum(square[:0:-1], axis=0, out=behind[1:])
    return np.asarray(before + behind[::-1])


# The positive class' probability of a binary classifier along many lines, bounded by the level function.


@dataclass(frozen=True)
class BinaryPieces:
    """Local models over B pieces. See `Pieces`."""

    level_bound: LevelBound
    centre: FloatArray
    latent: LatentModel

    @property
    def sharpens(self) -> bool:
        """Whether bounds depend on the target: yes."""
        return True

    def centre_scores(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of the score at the centres, [B] each."""
        return self.level_bound.evaluate_centres(self.latent)

    def bound(self, sign: int, target: FloatArray) -> PieceBounds:
        """Bound the signed score, sharp at signed probabilities [B]."""
        level = self.level_bound.level
        towards = target if sign > 0 else 1.0 + target
        threshold = np.array([level.threshold(float(each)) for each in towards])
        found = self.level_bound.bound(self.centre, self.latent, sign, threshold)
        return PieceBounds(found.outer, found.point[:, 0])


@dataclass(frozen=True)
class BinaryLines:
    """The class probability along L lines. See `Lines`.

    Attributes:
        level_bound: bound over the slices of all lines.
        slices: one row per line.
    """

    level_bound: LevelBound
    slices: LineSlices

    @property
    def width(self) -> int:
        """Numbers held per piece and array: the data."""
        return len(self.slices.alpha)

    def pieces(self, lines: IntArray, low: FloatArray, high: FloatArray) -> BinaryPieces:
        """Expand pieces [low, high] of lines, [B] each."""
        form = take_lines(self.slices, lines)
        bound = replace(self.level_bound, form=form)
        lo, hi = low[:, None], high[:, None]
        centre = 0.5 * lo + 0.5 * hi
        return BinaryPieces(bound, centre, bound.expand(centre).over(form.radius(lo, hi, centre)))

    def evaluate(self, lines: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B] of lines."""
        return replace(self.level_bound, form=take_lines(self.slices, lines)).evaluate(points[:, None])

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return probabilities of score bounds, rounded outwards."""
        return self.level_bound.outward_probability(low, high)


def binary_lines(posterior: GPCPosterior, points: FloatArray, inputs: IntArray) -> BinaryLines:
    """Return the class probability along the lines through points [P, D] along inputs [d], points first.

    Raises:
        ValueError: as `line_slices`.
    """
    slices = line_slices(posterior, points, inputs)
    return BinaryLines(LevelBound(slices, level_of(posterior.link)), slices)


# The probability of one of several classes along many lines, by the models of all latent differences.


class LineSoftmaxBound(SoftmaxBound):
    """Bounds of class probabilities along lines: `SoftmaxBound` with a slice per line."""

    def __init__(self, posterior: MultiClassPosterior, differences: LatentDifferences) -> None:
        self.posterior, self.differences = posterior, differences
        self.dims = np.zeros(1, dtype=np.int64)
        self.n_classes = posterior.n_classes
        self._root, self._points = None, {}


@dataclass(frozen=True)
class SoftmaxPieces:
    """Bounds over B pieces. See `Pieces`.

    Attributes:
        low: ends of the pieces, [B].
        high: [B].
        ends: bounds of the probability.
        slope: derivative of the probability's quadratic model by the offset from the centre, [B].
        bend: half its second derivative, [B].
    """

    low: FloatArray
    high: FloatArray
    ends: Ends
    slope: FloatArray
    bend: FloatArray

    @property
    def sharpens(self) -> bool:
        """Whether bounds depend on the target: no."""
        return False

    def centre_scores(self) -> tuple[FloatArray, FloatArray]:
        """Return NaN: an evaluation takes as long as a bound, and `bound` proposes a better point."""
        unknown = np.full(len(self.low), np.nan)
        return unknown, unknown

    def bound(self, sign: int, target: FloatArray) -> PieceBounds:
        """Bound the signed probability. The proposed point is where the quadratic model is largest."""
        radius = 0.5 * (self.high - self.low)
        slope, bend = sign * self.slope, sign * self.bend
        curved = bend < 0.0
        turn = np.where(curved, -0.5 * slope / np.where(curved, bend, -1.0), np.sign(slope) * np.inf)
        turn = np.where(curved | (slope != 0.0), turn, 0.0)
        offset = np.clip(turn, -radius, radius)
        outer = self.ends.high if sign > 0 else -self.ends.low
        return PieceBounds(outer, 0.5 * (self.low + self.high) + offset)


@dataclass(frozen=True)
class SoftmaxLines:
    """The probability of a class along L lines. See `Lines`.

    Attributes:
        posterior: classifier of C classes.
        differences: latent differences over the slices of all lines.
        own: the class.
        proof: whether all bounds so far are proved.
    """

    posterior: MultiClassPosterior
    differences: LatentDifferences
    own: int
    proof: Proof = field(default_factory=Proof)

    @property
    def width(self) -> int:
        """Numbers held per piece and array: the data for every difference."""
        return len(self.posterior.X) * len(self.differences.form.alpha)

    def of_class(self, own: int) -> SoftmaxLines:
        """Return another class' probability along the same lines."""
        return replace(self, own=own)

    def pieces(self, lines: IntArray, low: FloatArray, high: FloatArray) -> SoftmaxPieces:
        """Expand pieces [low, high] of lines, [B] each."""
        bound = self._rows(lines)
        local = bound.over(low[:, None], high[:, None])
        self.proof.note(local.moments.proved)
        scale = bound.differences.form.lengthscales[:, 0]
        total, _, _ = local.models.combined_means(self.own, local.moments.product[:, self.own])
        slope, bend = total.linear[:, 0] / scale, total.quadratic[:, 0, 0] / scale**2
        return SoftmaxPieces(low, high, bound.class_ends(local, self.own), slope, bend)

    def evaluate(self, lines: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the probability at points [B] of lines."""
        bound = self._rows(lines)
        known = bound.at(points[:, None])
        self.proof.note(known.proved)
        return bound.class_of(known, self.own)

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds clipped to [0, 1]. NaN gives 0 and 1."""
        return clipped(low, high)

    def _rows(self, lines: IntArray) -> LineSoftmaxBound:
        chosen = replace(self.differences, form=take_lines(self.differences.form, lines))
        return LineSoftmaxBound(self.posterior, chosen)


def softmax_lines(posterior: MultiClassPosterior, points: FloatArray, inputs: IntArray, own: int) -> SoftmaxLines:
    """Return a class' probability along the lines through points [P, D] along inputs [d], points first.

    Raises:
        ValueError: as `line_slices`, or if the class does not exist.
    """
    C = posterior.n_classes
    if not 0 <= own < C:
        raise ValueError(f"class {own}: there are {C}")
    found = difference_functions(posterior)
    one, unit = restricted_lines(any_difference(posterior), points, inputs, found.functions.products[0])
    differences = LatentDifferences(C, found.functions.stack(one, unit), found)
    return SoftmaxLines(posterior, differences, own)

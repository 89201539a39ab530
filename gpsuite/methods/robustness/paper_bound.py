"""The bound of Blaas et al. 2020. First, sums over all pairs of data of lines that bound the kernel products.

Pairs are summed in blocks that stay in the cache. A pair's product is exp(-Q), Q = (q_i + q_l) / 2 with
near <= Q <= near + width over a box of centre c and radius r. With the middle m of the two data and a = |m - c|, per
input:

    near            sum_j max(0, a_j - r_j)^2 + |U_i - U_l|^2 / 4
    near + width    (q_i(c) + q_l(c)) / 2 + sum_j 2 r_j a_j + r_j^2
    tangent         v (1 + width / 2) - v (Q - near), at the middle: v = exp(-near - width / 2)
    chord           e - k (Q - near), e = exp(-near), k = e (1 - exp(-width)) / width

Equation: Blaas et al. 2020, App. D
Equation: Blaas et al. 2020, Eq. (20), App. D
Equation: Blaas et al. 2020, App. C, App. D
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.errors import UserError, unknown_name
from gpsuite.methods.robustness.class_probability import (
    BoxBounds,
    LatentRanges,
    Score,
    checked_boxes,
    score_at,
    score_of,
    trivial_where_invalid,
)
from gpsuite.methods.robustness.envelope import (
    chord_line,
    distance_ranges,
    envelope_mean,
    envelope_mean_extrema,
    lowest_point,
    tangent_line,
)
from gpsuite.methods.robustness.operators import OperatorForm, operator_form
from gpsuite.methods.robustness.rounding import SHORT_SUM, UNIT
from gpsuite.methods.robustness.search.regions import Boxes, measure
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.radial import kappa

# Pairs held at once: 200 kB per array. Fewer need more calls per pair, more do not fit in the cache.
_BLOCK = 3 << 13
# Number of arrays of a block with one row: `apart`, the weights, and those of a box.
_ARRAYS = 12
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class LineSums:
    """Sums of lines over the pairs: value_b - sum_i slope_bi q_i(x), below [0] and above [1] the weighted products.

    Attributes:
        value: value at q = 0, [2, B].
        slope: fall per q_i, [2, B, n].
        size: bound of the absolute terms of either sum, times the units of their pairs, [B].
        steep: bound of the absolute slopes of either sum, times these units, [B].
    """

    value: FloatArray
    slope: FloatArray
    size: FloatArray
    steep: FloatArray


@dataclass(frozen=True)
class _Block:
    """Pairs of `rows` with the data from `rows.start` on, [k, L]. Those below the diagonal have weight zero.

    Attributes:
        rows: k data.
        columns: L data.
        middle: middles of the two data, [d, k L].
        apart: -|U_i - U_l|^2 / 4, [k, L].
        weights: positive weights and negative weights, otherwise zero, [2, k, L].
        offset: scratch memory, [d, k L].
        spare: scratch memory, nine times [k, L].
    """

    rows: slice
    columns: slice
    middle: FloatArray
    apart: FloatArray
    weights: FloatArray
    offset: FloatArray
    spare: FloatArray


@dataclass(frozen=True)
class _RowSums:
    """Sums over a datum's pairs before the total: values and slopes of lines, and slopes weighted by units.

    Attributes:
        value: values of the pairs (i, l) with i <= l, [2, B, n].
        slope: slopes of all pairs with the datum, [2, B, n].
        steep: sum_l unit_l |weight_il| k_il over i <= l, [B, n].
        far: sum_l unit_l f_l |weight_il| k_il over i <= l, [B, n].
    """

    value: FloatArray
    slope: FloatArray
    steep: FloatArray
    far: FloatArray


def line_sums(U: FloatArray, weights: FloatArray, unit: FloatArray, centre: FloatArray, radius: FloatArray) -> LineSums:
    """Sum the lines over B boxes. Time O(B n^2 d), memory O(n^2 + _BLOCK d).

    A datum's slopes and a row's values are sums of at most n terms. So is the sum of the rows' values. Let f be half
    the farthest squared distance of a datum. Then v <= k, e <= v + k width and Q <= f_i + f_l. So a line's terms at any
    point of the box are at most |weight| k (1 + 2 (f_i + f_l)). `size` is the sum of these bounds.

    Args:
        U: data, [n, d].
        weights: weights of the pairs i <= l, zero below the diagonal, [n, n].
        unit: relative error allowed to a pair's part, from its second datum, [n].
        centre: centres of the boxes, in units of U, [B, d].
        radius: half-widths, [B, d].
    """
    apart = np.abs(U - centre[:, None])
    half = 0.5 * np.einsum("bnd,bnd->bn", apart, apart)
    farthest = 0.5 * np.square(apart + radius[:, None]).sum(axis=2)
    sums = _RowSums(*np.zeros((2, 2, *half.shape)), *np.zeros((2, *half.shape)))
    for block in _blocks(U, weights):
        for b in range(len(centre)):
            start, width = _range(block, centre[b], radius[b], half[b])
            _add(sums, b, block, start, width, unit, unit * farthest[b])
    return LineSums(
        value=sums.value.sum(axis=2),
        slope=0.5 * sums.slope,
        size=(sums.steep * (1.0 + 2.0 * farthest) + 2.0 * sums.far).sum(axis=1),
        steep=0.5 * sums.steep.sum(axis=1),
    )


def _blocks(U: FloatArray, weights: FloatArray) -> Iterator[_Block]:
    """Yield the blocks of pairs. Each overwrites the one before."""
    n, d = U.shape
    room = np.empty((2 * d + _ARRAYS) * max(n, min(n * n, _BLOCK)))
    start = 0
    while start < n:
        stop = min(n, start + max(1, _BLOCK // (n - start)))
        rows, columns = slice(start, stop), slice(start, n)
        shape = stop - start, n - start
        used = room[: (2 * d + _ARRAYS) * shape[0] * shape[1]].reshape(-1, *shape)
        middle, offset, apart, split, spare = np.split(used, [d, 2 * d, 2 * d + 1, 2 * d + 3])
        left, right = 0.5 * U[rows].T[:, :, None], 0.5 * U[columns].T[:, None, :]
        np.add(left, right, out=middle)
        np.subtract(left, right, out=offset)
        np.negative(np.einsum("jkl,jkl->kl", offset, offset), out=apart[0])
        np.maximum(weights[rows, columns], 0.0, out=split[0])
        np.minimum(weights[rows, columns], 0.0, out=split[1])
        yield _Block(rows, columns, middle.reshape(d, -1), apart[0], split, offset.reshape(d, -1), spare)
        start = stop


def _range(block: _Block, centre: FloatArray, radius: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return minus the smallest Q of the block's pairs over one box and minus the width of its range, [k, L] each.

    Both ends are sums of terms that are not negative, so each has a small relative error.

    Args:
        block: block of pairs.
        centre: the box's centre, [d].
        radius: the box's half-widths, [d].
        half: half the data's squared distances from the centre, [n].
    """
    start, width = block.spare[:2]
    offset = np.subtract(block.middle, centre[:, None], out=block.offset)
    np.abs(offset, out=offset)
    np.dot(-2.0 * radius, offset, out=width.reshape(-1))
    width -= (half[block.rows] + radius @ radius)[:, None]
    width -= half[block.columns]
    offset -= radius[:, None]
    np.maximum(offset, 0.0, out=offset)
    np.einsum("jp,jp->p", offset, offset, out=start.reshape(-1))
    np.subtract(block.apart, start, out=start)
    width -= start
    np.minimum(width, -_TINY, out=width)
    return start, width


def _lines(block: _Block, start: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the value at the smallest Q, and the falls of tangent and chord, [k, L] each.

    A chord is never flatter than the tangent. Rounding that makes it flatter is undone. This also handles ranges of
    zero width.
    """
    top, tangent, chord = block.spare[2:5]
    np.exp(start, out=top)
    np.exp(width, out=tangent)
    np.subtract(tangent, 1.0, out=chord)
    chord /= width
    chord *= top
    np.sqrt(tangent, out=tangent)
    tangent *= top
    np.maximum(chord, tangent, out=chord)
    return top, tangent, chord


def _add(
    sums: _RowSums, b: int, block: _Block, start: FloatArray, width: FloatArray, unit: FloatArray, far: FloatArray
) -> None:
    """Add the lines of a block's pairs over box b. `start` and `width` are from `_range`.

    Args:
        sums: sums to add to.
        b: index of the box.
        block: block of pairs.
        start: minus the smallest Q, [k, L].
        width: minus the width of its range, below zero, [k, L].
        unit: see `line_sums`, [n].
        far: `unit` times f, [n].
    """
    rows, columns, ones = block.rows, block.columns, np.ones(len(unit))
    top, tangent, chord = _lines(block, start, width)
    tangents, chords = block.spare[5:7], block.spare[7:9]
    np.multiply(block.weights, tangent, out=tangents)
    np.multiply(block.weights, chord, out=chords)
    steep = np.subtract(chords[0], chords[1], out=chord)
    sums.steep[b, rows] = steep @ unit[columns]
    sums.far[b, rows] = steep @ far[columns]
    value = tangents @ ones[columns] - 0.5 * _row_products(tangents, width)
    value += _row_products(block.weights, top)[::-1]
    # tangents for positive and chords for negative weights are below, the opposite choice is above
    slopes = np.add(tangents, chords[::-1], out=tangents)
    sums.value[:, b, rows] = value - _row_products(slopes, start)
    sums.slope[:, b, rows] += slopes @ ones[columns]
    sums.slope[:, b, columns] += ones[rows] @ slopes


def _row_products(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the dot products of the rows of arrays [2, k, L] and [k, L], [2, k]."""
    return np.asarray(np.matmul(left[:, :, None, :], right[:, :, None])[..., 0, 0])


# Variance bound of the baseline, quick variant: tangents and chords of the kernel products of all pairs of data.


@dataclass(frozen=True)
class Pairs:
    """The variance 1 - sum_il weights_il exp(-(q_i + q_l) / 2) per unit s, with data sorted by units.

    Attributes:
        order: indices of the data in the form, units ascending, [n].
        U: the form's U in this order, [n, d].
        weights: s R_il, twice that above the diagonal and zero below it, [n, n].
        unit: relative error allowed to the part of the pairs (i, l), i <= l, for each l, [n].
        slack: bound of the rounding of the weighted sum, in units of s.
    """

    order: IntArray
    U: FloatArray
    weights: FloatArray
    unit: FloatArray
    slack: float

    @classmethod
    def of(cls, form: OperatorForm) -> Pairs:
        """Return the pairs of a form, from the product of the operator's root with itself."""
        order = np.argsort(form.slack.spread, kind="stable")
        root, spread = form.root[:, order], form.slack.spread[order]
        signs = np.where(np.arange(len(root)) < form.n_negative, 1.0, -1.0)
        matrix = (root.T * signs) @ root
        weights = np.triu(matrix) + np.triu(matrix, 1)
        sums = np.abs(root)
        slack = 4.0 * float(np.sum((sums @ spread) * sums.sum(axis=1)))
        return cls(order, np.ascontiguousarray(form.U[order]), weights, spread, slack)

    def sums(self, centre: FloatArray, radius: FloatArray) -> LineSums:
        """Return the sums of the pairs' lines over boxes [B, d] of scaled inputs."""
        return line_sums(self.U, self.weights, self.unit, centre, radius)


def pair_variance(
    form: OperatorForm, pairs: Pairs, centre: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound the variance per unit s over B boxes. Time O(B n^2 d).

    Scaled data and centres are used as rounded. `pairs` accounts for the data's rounding, a wider box for the centre's.

    With the middle m of the two data, q_i + q_l = sum_j 2 (x_j - m_j)^2 + (U_ij - U_lj)^2 / 2. So its range over a box
    is exact. The bounded sum is again one separable quadratic of x.

    Args:
        form: the posterior over the free inputs.
        pairs: pairs of the form's data.
        centre: centres in units of X, [B, d].
        radius: half-widths in lengthscales, rounded up, [B, d].
    """
    centre = form.scale(centre)
    largest_input = float(np.max(np.abs(form.U)))
    radius = radius + 8.0 * UNIT * (radius + np.abs(centre) + largest_input)
    sums = pairs.sums(centre, radius)
    slack = _slack(pairs, sums, centre, radius)
    largest = -_minimum(pairs, centre, radius, -sums.value[1], sums.slope[1]) + slack
    smallest = _minimum(pairs, centre, radius, sums.value[0], -sums.slope[0]) - slack
    return 1.0 - largest - SHORT_SUM, 1.0 - smallest + SHORT_SUM


def pair_variance_extrema(form: OperatorForm, pairs: Pairs, centre: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the points of the boxes at which the lines of `pair_variance` give the bounds.

    Returns:
        The lower bound's point first, [B, 2, d].
    """
    sums = pairs.sums(form.scale(centre), radius)
    factors = np.empty_like(sums.slope)
    factors[:, :, pairs.order] = sums.slope[1], -sums.slope[0]
    return np.stack([lowest_point(form, centre, radius, each) for each in factors], axis=1)


def _slack(pairs: Pairs, sums: LineSums, centre: FloatArray, radius: FloatArray) -> FloatArray:
    """Return bounds of the errors of the computed sums, [B].

    At n data and D inputs a unit is at least (n + 4 D + 64) u. Four times a unit covers the 2 n terms of the values'
    sums and the n terms of a datum's slopes. It also covers a few roundings of exponentials, lines and a pair's range
    (D + 8 of its size).
    """
    reach = float(np.max(np.abs(pairs.U), initial=1.0)) + np.abs(centre).max(axis=1)
    spread = 4.0 * sums.steep * reach * radius.sum(axis=1)
    return np.asarray(4.0 * (sums.size + spread) + pairs.slack)


def _minimum(
    pairs: Pairs, centre: FloatArray, radius: FloatArray, constant: FloatArray, factors: FloatArray
) -> FloatArray:
    """Minimise constant_b + sum_i factors_bi q_i(x) over the boxes, up to rounding."""
    q = np.asarray(cdist(centre, pairs.U, "sqeuclidean"))
    total = factors.sum(axis=1)
    gradient = -2.0 * (factors @ pairs.U - total[:, None] * centre)
    linear = np.abs(gradient)
    bent = total[:, None] * radius
    inside = (bent > 0.0) & (linear <= 2.0 * bent)
    vertex = -0.25 * linear * radius * (linear / np.where(inside, bent, 1.0))
    shape = np.where(inside, vertex, bent * radius - linear * radius).sum(axis=1)
    return np.asarray(constant + np.einsum("bn,bn->b", factors, q) + shape)


# Variance bound of the baseline, slow variant: a convex quadratic program and linear programs (App. D.1).
#
# The kernel vector k and the inputs x are the variables. Two lines per datum relate k_i to x. Every program's value
# comes from its dual: a valid bound regardless of the solver's tolerance.


# Largest number of Frank-Wolfe steps of the quadratic program, and the gap (in units of s) at which it stops.
_STEPS = 60
_GAP = 1e-4


@dataclass(frozen=True)
class Operator:
    """The quadratic form k'Rk in its eigenvectors: sum_m values_m (vectors_m'k)^2, k per unit s and weight.

    Attributes:
        matrix: s R, [n, n].
        values: eigenvalues, clipped at zero, [n].
        vectors: eigenvectors in columns, [n, n].
        error: bound of |k'(matrix - eigen form)k| for 0 <= k <= 1.
    """

    matrix: FloatArray
    values: FloatArray
    vectors: FloatArray
    error: float

    @classmethod
    def of(cls, form: OperatorForm) -> Operator:
        """Return the operator of a form's data, diagonalised."""
        matrix = form.root.T @ form.root
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values, 0.0)
        error = float(np.sum(np.abs(matrix - (vectors * values) @ vectors.T)))
        sums = np.abs(form.root)
        rounding = 4.0 * float(np.sum((sums @ form.slack.unit) * sums.sum(axis=1)))
        return cls(matrix, values, vectors, error + rounding)


@dataclass(frozen=True)
class Relaxation:
    """Constraints rows (k, x) <= right with low <= (k, x) <= high that hold for k = k(x), x in the box."""

    rows: FloatArray
    right: FloatArray
    low: FloatArray
    high: FloatArray

    def minimum(self, cost: FloatArray) -> tuple[float, FloatArray | None]:
        """Return a lower bound of cost'(k, x) and the solver's point (None if it failed).

        For multipliers y >= 0: cost'v >= -y'right + sum_j min over [low_j, high_j] of (cost + rows'y)_j v_j.
        """
        ends = list(zip(self.low.tolist(), self.high.tolist(), strict=True))
        solved = linprog(cost, A_ub=self.rows, b_ub=self.right, bounds=ends, method="highs")
        y = np.zeros(len(self.right))
        if solved.status == 0:
            y = np.maximum(-np.asarray(solved.ineqlin.marginals, dtype=np.float64), 0.0)
        reduced = cost + y @ self.rows
        least = np.minimum(reduced * self.low, reduced * self.high)
        value = float(least.sum() - y @ self.right)
        size = float(np.abs(cost).sum() + y @ (np.abs(self.right) + np.abs(self.rows).sum(axis=1)))
        point = np.asarray(solved.x, dtype=np.float64) if solved.status == 0 else None
        return value - SHORT_SUM * len(cost) * (size + np.abs(least).sum()), point


def program_variance(
    form: OperatorForm, operator: Operator, centre: FloatArray, radius: FloatArray
) -> tuple[float, float]:
    """Bound the variance per unit s over one box; centre [d] in units of X, radius [d] in lengthscales."""
    relaxation = relaxation_of(form, centre, radius)
    start = kappa(form.kernel, form.squared_distances(centre[None]))[0]
    high = 1.0 - _smallest_square(relaxation, operator, start) + operator.error
    low = 1.0 - _largest_square(relaxation, operator) - operator.error
    return low, high


def relaxation_of(form: OperatorForm, centre: FloatArray, radius: FloatArray) -> Relaxation:
    """Return constraints between k_i and x: lines below and above kappa.

    Below is the tangent of kappa in q with q's chord in x. Above is the chord of kappa with q's tangent.
    """
    _, nearest, farthest = distance_ranges(form, centre[None], radius[None])
    tangent, chord = (
        (line[0][0], line[1][0])
        for line in (tangent_line(form.kernel, nearest, farthest), chord_line(form.kernel, nearest, farthest))
    )
    offset = form.offsets(centre[None])[:, :, 0]
    # (x - D)^2 is between its tangent D^2 - 2 D x at x = 0 and its chord, r^2 higher. Slopes are negative.
    at_centre = np.einsum("ij,ij->i", offset, offset) + form.fixed
    square = float(radius @ radius)
    n = len(offset)
    rows = np.block([[-np.eye(n), -2.0 * tangent[1][:, None] * offset], [np.eye(n), 2.0 * chord[1][:, None] * offset]])
    below = -(tangent[0] + tangent[1] * (at_centre + square))
    above = chord[0] + chord[1] * at_centre
    slack = 4.0 * form.slack.unit * (1.0 + np.abs(np.stack([tangent[1], chord[1]])) * farthest)
    low, high = kappa(form.kernel, farthest)[0], kappa(form.kernel, nearest)[0]
    return Relaxation(
        rows,
        np.concatenate([below + slack[0], above + slack[1]]),
        np.concatenate([low * (1.0 - SHORT_SUM) - form.slack.unit, -radius]),
        np.concatenate([high * (1.0 + SHORT_SUM) + form.slack.unit, radius]),
    )


def _smallest_square(relaxation: Relaxation, operator: Operator, start: FloatArray) -> float:
    """Return a lower bound of min k'Rk by Frank-Wolfe: every step's linearisation is a valid bound."""
    n = len(start)
    k, best = start, 0.0
    for _ in range(_STEPS):
        gradient = 2.0 * operator.matrix @ k
        value = float(k @ operator.matrix @ k)
        cost = np.concatenate([gradient, np.zeros(len(relaxation.low) - n)])
        least, point = relaxation.minimum(cost)
        # Convexity: k'Rk over the feasible set >= value + gradient'(point - k).
        best = max(best, least - value - SHORT_SUM * n * (1.0 + abs(value)))
        if point is None or value - best <= _GAP:
            break
        direction = point[:n] - k
        curvature = float(direction @ operator.matrix @ direction)
        step = -0.5 * float(gradient @ direction) / curvature if curvature > 0.0 else 1.0
        k = k + np.clip(step, 0.0, 1.0) * direction
    return best


def _largest_square(relaxation: Relaxation, operator: Operator) -> float:
    """Return an upper bound of max sum_m values_m z_m^2, z = vectors'k: ranges of z, chords, one more program."""
    n = len(operator.values)
    pad = np.zeros(len(relaxation.low) - n)
    low, high = np.empty(n), np.empty(n)
    for m in range(n):
        cost = np.concatenate([operator.vectors[:, m], pad])
        low[m], high[m] = relaxation.minimum(cost)[0], -relaxation.minimum(-cost)[0]
    # -z^2 >= -(low + high) z + low high on [low, high].
    cost = -operator.vectors @ (operator.values * (low + high))
    constant = float(operator.values @ (low * high))
    value, _ = relaxation.minimum(np.concatenate([cost, pad]))
    size = float(operator.values @ (np.abs(low) + np.abs(high)) ** 2)
    return -(value + constant) + SHORT_SUM * n * (1.0 + size)


# The bound of Blaas et al. 2020, the baseline: envelopes of kernel terms, pairs or linear programs.
#
# Mean: every kernel term is bounded by its tangent or chord. Variance, `quick`: so are the terms of all pairs of data.
# This needs the squared exponential kernel. Variance, `slow`: a convex quadratic program and 2 n + 1 linear programs.


Variant = Literal["quick", "slow"]
VARIANTS: tuple[Variant, ...] = ("quick", "slow")

# Inputs of data times boxes held at once (8 MB per array).
_PIECE = 1 << 20


@dataclass(frozen=True)
class PaperBound:
    """The baseline bound over boxes of the free inputs, with the interface of the RKHS-Taylor bound.

    Attributes:
        form: the posterior over the free inputs.
        covariance: pairs of data (quick) or the operator's eigenvectors (slow).
        score: score of the class probability.
        name: name of the bound and its variant.
        version: version of the formulas.
    """

    form: OperatorForm
    covariance: Pairs | Operator
    score: Score
    name: str
    version: int = 2

    @property
    def dims(self) -> IntArray:
        """Indices of the free inputs, [d]."""
        return self.form.dims

    def bounds(self, lo: FloatArray, hi: FloatArray) -> BoxBounds:
        """Bound the score over the boxes lo[b] <= x_free <= hi[b]. `lo` and `hi` are [B, d] in units of X.

        Raises:
            ValueError: if the shapes do not fit or lo > hi somewhere.
        """
        low, high = checked_boxes(lo, hi, len(self.dims))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            boxes = measure(self.form, low, high)
            mean_low, mean_high = envelope_mean(self.form, boxes.centre, boxes.radius)
            variance_low, variance_high = self._variance(boxes)
            mean, variance = self._moments(boxes.centre)
            ranges = LatentRanges(mean_low, mean_high, variance_low, variance_high, mean, variance)
            score_low, score_high = self.score.separate(ranges)
            return trivial_where_invalid(
                BoxBounds(
                    mean_low,
                    mean_high,
                    variance_low,
                    variance_high,
                    score_low,
                    score_high,
                    self.score.value(mean, variance),
                    boxes.radius,
                )
            )

    def candidates(self, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return candidate points of an extremum in the boxes, in units of X, and their scores (App. D, line 6).

        At these points the relaxations attain their bounds: mean from below and above, variance from below and above.
        The slow variant returns only the points of the mean: those of the variance need its programs again.

        Args:
            lo: lower ends, [B, d].
            hi: upper ends, [B, d].

        Returns:
            points [B, C, d] and scores [B, C], C = 4 (quick) or 2 (slow).
        """
        low, high = checked_boxes(lo, hi, len(self.dims))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            boxes = measure(self.form, low, high)
            points = envelope_mean_extrema(self.form, boxes.centre, boxes.radius)
            if isinstance(self.covariance, Pairs):
                points = np.concatenate([points, self._variance_extrema(self.covariance, boxes)], axis=1)
            points = np.clip(points, low[:, None], high[:, None])
            mean, variance = self._moments(points.reshape(-1, len(self.dims)))
            return points, self.score.value(mean, variance).reshape(points.shape[:2])

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B, d] in units of X."""
        return score_at(self.form, self.score, points)

    def to_probability(self, score: FloatArray) -> FloatArray:
        return self.score.to_probability(score)

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return class probabilities of score bounds, rounded outwards. NaN gives 0 and 1."""
        return self.score.outward_probability(low, high)

    def _moments(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return latent mean and variance [B] at points [B, d], without any bound."""
        mean, variance = self.form.moments(points)
        return self.form.variance * mean, self.form.variance * np.maximum(variance, 0.0)

    def _variance(self, boxes: Boxes) -> tuple[FloatArray, FloatArray]:
        """Return bounds of the variance, [B] each, never outside [0, g s]."""
        form = self.form
        low, high = np.empty(len(boxes.centre)), np.empty(len(boxes.centre))
        if isinstance(self.covariance, Pairs):
            for part in _pieces(self.covariance, len(low)):
                low[part], high[part] = pair_variance(form, self.covariance, boxes.centre[part], boxes.radius[part])
        else:
            for b in range(len(low)):
                low[b], high[b] = program_variance(form, self.covariance, boxes.centre[b], boxes.radius[b])
        s = form.variance
        return np.maximum(s * low, 0.0), np.minimum(s * high, s * form.bound)

    def _variance_extrema(self, pairs: Pairs, boxes: Boxes) -> FloatArray:
        """Return the points where the pairs' relaxation attains its bounds, [B, 2, d]."""
        points = np.empty((len(boxes.centre), 2, len(self.dims)))
        for part in _pieces(pairs, len(points)):
            points[part] = pair_variance_extrema(self.form, pairs, boxes.centre[part], boxes.radius[part])
        return points


def _pieces(pairs: Pairs, boxes: int) -> Iterator[slice]:
    """Return slices of the boxes small enough for arrays of all data."""
    piece = max(1, _PIECE // pairs.U.size)
    return (slice(start, start + piece) for start in range(0, boxes, piece))


def paper_bound(posterior: GPCPosterior, x0: FloatArray, free: IntArray, variant: Variant = "quick") -> PaperBound:
    """Build the baseline bound with the inputs outside `free` fixed at x0.

    Args:
        posterior: binary classifier with a squared exponential kernel and weights of -1 (Laplace, EP).
        x0: point that fixes the other inputs, [D].
        free: indices of the free inputs, [d].
        variant: `quick` (all pairs of data, O(n^2 d) per box) or `slow` (2 n + 2 programs per box).

    Raises:
        UserError: if the kernel is another, the operator has positive weights with `slow`, or the variant is unknown.
        ValueError: if x0 or `free` do not fit the posterior.
    """
    if posterior.kernel != "squared_exponential":
        raise UserError(f"the paper's bound needs the squared exponential kernel, not {posterior.kernel}")
    form = operator_form(posterior, x0, free)
    score = score_of(posterior.link)
    if variant == "quick":
        return PaperBound(form, Pairs.of(form), score, "paper_quick")
    if variant != "slow":
        raise unknown_name("variant", variant, VARIANTS)
    if form.n_negative < len(form.root):
        raise UserError("the paper's slow bound needs a posterior of Laplace's method or EP")
    return PaperBound(form, Operator.of(form), score, "paper_slow")

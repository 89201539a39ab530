"""Envelope bound of the latent mean: every kernel term is replaced by a line in its squared distance.

kappa is convex in q = r^2. A term of positive weight is bounded below by the tangent at the middle of the range of q. A
term of negative weight is bounded below by the chord over the range. Each q_i is a separable quadratic of the inputs.
So is their sum, which is minimised exactly over the box. For the squared exponential kernel this is the mean bound of
Blaas et al. 2020, App. D.

Equation: Blaas et al. 2020, App. D
Equation: derived, stationary kernels to degree 1
"""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.operators import OperatorForm
from gpsuite.methods.robustness.rounding import SHORT_SUM, UNDERFLOW
from gpsuite.models.radial import kappa, kappa_and_slope

Line = tuple[FloatArray, FloatArray]

# Below this relative width of the range of q the chord's slope would be only rounding.
_THIN = 1e-12


def envelope_mean(form: OperatorForm, centre: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound the latent mean over B boxes, O(n d) each.

    Args:
        form: the posterior over the free inputs.
        centre: centres in units of X, [B, d].
        radius: half-widths in lengthscales, rounded up, [B, d].

    Returns:
        Lower and upper bounds in units of the latent function, [B] each.
    """
    q, nearest, farthest = distance_ranges(form, centre, radius)
    tangent, chord = _lines(form.kernel, nearest, farthest)
    geometry = (form, centre, radius, q, farthest)
    low = _minimum(geometry, form.alpha, tangent, chord)
    high = -_minimum(geometry, -form.alpha, tangent, chord)
    return form.variance * low, form.variance * high


def envelope_mean_extrema(form: OperatorForm, centre: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the points of the boxes at which the lines of `envelope_mean` give the bounds.

    Args:
        form: the posterior over the free inputs.
        centre: centres in units of X, [B, d].
        radius: half-widths in lengthscales, [B, d].

    Returns:
        The lower bound's point first, [B, 2, d].
    """
    _, nearest, farthest = distance_ranges(form, centre, radius)
    tangent, chord = _lines(form.kernel, nearest, farthest)
    slopes = [weighted_line(alpha, tangent, chord)[1] for alpha in (form.alpha, -form.alpha)]
    return np.stack([lowest_point(form, centre, radius, slope) for slope in slopes], axis=1)


def distance_ranges(
    form: OperatorForm, centre: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return squared distances from the data at the centre, and their smallest and largest values, [B, n] each."""
    at_centre = np.tile(form.fixed, (len(centre), 1))
    nearest, farthest = at_centre.copy(), at_centre.copy()
    for j, lengthscale in enumerate(form.lengthscales):
        offset = np.abs(form.X[:, j] - centre[:, j : j + 1])
        offset *= 1.0 / lengthscale
        at_centre += offset * offset
        nearest += np.maximum(0.0, offset - radius[:, j : j + 1]) ** 2
        farthest += (offset + radius[:, j : j + 1]) ** 2
    return at_centre, nearest, farthest


def tangent_line(kernel: str, nearest: FloatArray, farthest: FloatArray) -> Line:
    """Return value at q = 0 and slope of the tangent of kappa at the middle of the range of q: below kappa."""
    middle = 0.5 * (nearest + farthest)
    value, fall = kappa_and_slope(kernel, middle)
    slope = -0.5 * fall
    return value - slope * middle, slope


def chord_line(kernel: str, nearest: FloatArray, farthest: FloatArray) -> Line:
    """Return value at q = 0 and slope of the chord of kappa over the range of q: above kappa inside it."""
    width = farthest - nearest
    thin = width <= _THIN * farthest
    top = kappa(kernel, nearest)
    slope = (kappa(kernel, farthest) - top) / np.where(thin, 1.0, width)
    slope[thin] = 0.0
    return top - slope * nearest, slope


def weighted_line(weights: FloatArray, tangent: Line, chord: Line) -> Line:
    """Return values at q = 0 and slopes of lines below weights * kappa: the tangent if the weight is >= 0."""
    positive = weights >= 0.0
    constant = weights * np.where(positive, tangent[0], chord[0])
    return constant, weights * np.where(positive, tangent[1], chord[1])


def distance_sum(form: OperatorForm, centre: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return curvature [B] and gradient [B, d] at the centre of sum_i slope_i q_i(x), slope [B, n].

    The sum exceeds its value at the centre by sum_j gradient_j t_j + curvature t_j^2 at t lengthscales from the
    centre. The gradient is a difference of sums of the size of |U|.
    """
    total = slope.sum(axis=1)
    return total, -2.0 * (slope @ form.U - total[:, None] * form.scale(centre))


def lowest_point(form: OperatorForm, centre: FloatArray, radius: FloatArray, slope: FloatArray) -> FloatArray:
    """Return the points [B, d] of the boxes at which sum_i slope_i q_i(x) is smallest, slope [B, n]."""
    total, gradient = distance_sum(form, centre, slope)
    convex = total[:, None] > 0.0
    vertex = -0.5 * gradient / np.where(convex, total[:, None], 1.0)
    end = -np.copysign(radius, gradient)
    return np.asarray(centre + form.lengthscales * np.where(convex, np.clip(vertex, -radius, radius), end))


def _lines(kernel: str, nearest: FloatArray, farthest: FloatArray) -> tuple[Line, Line]:
    return tangent_line(kernel, nearest, farthest), chord_line(kernel, nearest, farthest)


def _minimum(
    geometry: tuple[OperatorForm, FloatArray, FloatArray, FloatArray, FloatArray],
    alpha: FloatArray,
    tangent: Line,
    chord: Line,
) -> FloatArray:
    """Minimise sum_i alpha_i line_i(q_i(x)) over the boxes, with outward slack."""
    form, centre, radius, q, farthest = geometry
    constant, slope = weighted_line(alpha, tangent, chord)
    total, gradient = distance_sum(form, centre, slope)
    bent = total[:, None] * radius
    steep = np.abs(gradient)
    inside = (bent > 0.0) & (steep <= 2.0 * bent)
    corner = bent * radius - steep * radius
    # the ratio first, at most 2: the square of a tiny slope would underflow
    vertex = -0.25 * steep * radius * (steep / np.where(inside, bent, 1.0))
    size = np.abs(slope)
    terms = np.abs(constant) + size * farthest + np.abs(alpha)
    size *= form.slack.unit
    reach = 2.0 * (size @ np.abs(form.U)) + 2.0 * size.sum(axis=1)[:, None] * np.abs(form.scale(centre))
    slack = terms @ form.slack.unit + np.einsum("bj,bj->b", reach, radius)
    low = (constant + slope * q).sum(axis=1) + np.where(inside, vertex, corner).sum(axis=1)
    # weights and products that underflow still count
    return np.asarray(low - 2.0 * slack - SHORT_SUM * np.abs(low) - len(form.alpha) * UNDERFLOW)

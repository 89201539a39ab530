"""Class probability by cells of the latent line, for any monotone link.

A checked baseline: with more cells it approaches the exact closed forms of `class_probability`. The printed Prop. 2
leaves the cells that reach to infinity open: there the best mean is the one farthest into the cell (for a maximum) or
out of it (for a minimum), and the best variance outside the cell is the largest.

Equation: Blaas et al. 2020, Prop. 1, Prop. 2
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.links import Link

# Cells reach this many standard deviations beyond the means; the rest of the line is two cells more.
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
    a: FloatArray,
    b: FloatArray,
    mean: tuple[FloatArray, FloatArray],
    variance: tuple[FloatArray, FloatArray],
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
    """Return the variance of the largest mass in [a, b] for a mean outside it; infinite for unbounded cells."""
    square = (mean - a) ** 2 - (mean - b) ** 2
    value = square / (2.0 * np.log((mean - a) / (mean - b)))
    return np.where(np.isinf(a) | np.isinf(b) | np.isnan(value), np.inf, value)


def _mass(a: FloatArray, b: FloatArray, mean: FloatArray, variance: FloatArray, closed: bool) -> FloatArray:
    """Return P(a <= f <= b); a point mass counts on the cell's edge if `closed`."""
    width = np.sqrt(variance)
    left, right = (a - mean) / width, (b - mean) / width
    # The same tail on both sides keeps small masses accurate.
    mass = np.where(left > 0.0, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))
    inside = (a <= mean) & (mean <= b) if closed else (a < mean) & (mean < b)
    return np.where(variance > 0.0, mass, np.where(inside, 1.0, 0.0))

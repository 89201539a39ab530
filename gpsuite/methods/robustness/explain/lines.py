"""A posterior along many lines at once, each through a point in the direction of one input.

Every line is a slice with a single free input. The slices share the posterior's products, so that boxes of all of them
are expanded by one product with the reduction.

Equation: derived, operator form of a posterior
Equation: derived, rounding of the level bound
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.level_bound.posterior_products import (
    PosteriorProducts,
    posterior_products,
)
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice, gram_error, mean_sizes
from gpsuite.methods.robustness.profiles import PROFILES
from gpsuite.methods.robustness.rounding import dot_product_unit
from gpsuite.models.latent import LatentPosterior


@dataclass(frozen=True)
class LineSlices(PosteriorSlice):
    """L slices with one free input each; row b of points, boxes and of these arrays belongs to line b.

    Attributes:
        dims: the free input of each line, [L].
        lengthscales: of the free inputs, [L, 1].
        X: data of the free inputs, [L, 1, n].
        fixed: squared distances over the fixed inputs, [L, n]; zero where they are folded.
        weight: folds, [L, n].
        floor: as the following, [L].
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
    folds = PROFILES.get(posterior.kernel).folds
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

    Sums of what comes before and of what comes behind: nothing is subtracted, so no far input drowns the others.
    """
    square = ((posterior.X - point).T / posterior.lengthscales[:, None]) ** 2
    before, behind = np.zeros_like(square), np.zeros_like(square)
    np.cumsum(square[:-1], axis=0, out=before[1:])
    np.cumsum(square[:0:-1], axis=0, out=behind[1:])
    return np.asarray(before + behind[::-1])

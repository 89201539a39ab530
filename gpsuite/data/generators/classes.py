"""Two-class data with labels -1 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.regression import Size, as_shape

SYNTHETIC2D_SHIFT = 5.0


@dataclass(frozen=True, eq=False)
class Classes:
    """Points of two classes, first those of label 1. Arrays have the same leading axes for repetitions.

    Attributes:
        X: inputs [..., N, D].
        y: labels [..., N], -1 or 1.
    """

    X: FloatArray
    y: FloatArray


def synthetic2d(rng: np.random.Generator, size: Size = 1200, *, standardise: bool = True) -> Classes:
    """Return the Synthetic2D data: two standard normals in the plane, shifted by 5 along one axis each.

    Class 1 (label 1) is N((5, 0), I), class 2 (label -1) is N((0, 5), I), with half of the points each. Then every
    column is standardised by its mean and sample standard deviation (divisor N - 1) over all points of a repetition.
    See Blaas et al. 2020, section 6 and appendix F.1.

    Args:
        rng: source of randomness.
        size: n or (..., n), n even.
        standardise: whether to centre and scale the points.

    Raises:
        ValueError: if n is odd.
    """
    shape = as_shape(size)
    if shape[-1] % 2:
        raise ValueError(f"size={size}: the number of points must be even")
    return standardised_classes(rng.standard_normal((*shape, 2)), standardise)


def standardised_classes(points: FloatArray, standardise: bool = True) -> Classes:
    """Return standard normal points [..., n, 2], n even, as the two classes of `synthetic2d`."""
    labels = _labels(points.shape[:-1])
    points = points + SYNTHETIC2D_SHIFT * np.stack([labels > 0, labels < 0], axis=-1)
    if standardise:
        points = points - points.mean(axis=-2, keepdims=True)
        points = points / points.std(axis=-2, keepdims=True, ddof=1)
    return Classes(points, labels)


def lssvm_classes(
    rng: np.random.Generator, size: Size = 100, *, location: Sequence[float] = (1.0, 0.5), scale: float = 1.0
) -> Classes:
    """Return two Laplace classes: x = y * location + scale * e, e with independent coordinates of density exp(-|e|)/2.

    They are for the linear LS-SVM of Csaji and Kis (poster, figures 1 and 2: n = 100), who do not state the
    distributions. By symmetry the best line goes through the origin, so no bias is needed. For odd n one more point has
    label 1.

    Args:
        rng: source of randomness.
        size: n or (..., n).
        location: centre of the class of label 1, D numbers. The other class has its negative.
        scale: Laplace scale of each coordinate.

    Raises:
        ValueError: if `scale` is not positive.
    """
    if not scale > 0:
        raise ValueError(f"scale={scale}: must be positive")
    centre = np.array(location, dtype=np.float64)
    labels = _labels(as_shape(size))
    return Classes(labels[..., None] * centre + rng.laplace(0.0, scale, (*labels.shape, centre.size)), labels)


def _labels(shape: tuple[int, ...]) -> FloatArray:
    labels = np.ones(shape)
    labels[..., (shape[-1] + 1) // 2 :] = -1.0
    return labels

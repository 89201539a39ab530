"""LIME for tables of numbers: a weighted linear model of the class probability around a point.

The settings are those of Blaas et al. 2020: 30 samples per input from a unit normal around the point, weights
max(sqrt(exp(-c^2 / .25^2)), .01) of the cosine distance c, least squares with an intercept, no selection of inputs.

Equation: Ribeiro et al. 2016, Eq. (2)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpsuite.arrays import FloatArray

SAMPLES_PER_INPUT = 30
KERNEL_WIDTH = 0.25
LEAST_WEIGHT = 0.01


def lime_weights(
    probability: Callable[[FloatArray], FloatArray],
    point: FloatArray,
    rng: np.random.Generator,
    samples_per_input: int = SAMPLES_PER_INPUT,
) -> FloatArray:
    """Return the slopes [D] of the local linear model at a point.

    Args:
        probability: inputs [S, D] -> class probability [S].
        point: [D], in inputs of comparable scale: samples have unit variance along each.
        rng: draws the samples.
        samples_per_input: S / D.
    """
    samples = point + rng.standard_normal((samples_per_input * len(point), len(point)))
    return weighted_slopes(samples, probability(samples), proximity(samples, point))


def proximity(samples: FloatArray, point: FloatArray) -> FloatArray:
    """Return the weights of samples [S, D] by their cosine distance from a point [D]; 1 apart where one is zero."""
    norms = np.linalg.norm(samples, axis=1) * np.linalg.norm(point)
    cosine = np.divide(samples @ point, norms, out=np.zeros(len(samples)), where=norms > 0.0)
    distance = 1.0 - cosine
    return np.asarray(np.maximum(np.sqrt(np.exp(-((distance / KERNEL_WIDTH) ** 2))), LEAST_WEIGHT))


def weighted_slopes(samples: FloatArray, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the slopes [D] of the least squares fit of values [S] with an intercept; the smallest if many fit."""
    root = np.sqrt(weights)
    design = np.column_stack([np.ones(len(samples)), samples]) * root[:, None]
    return np.asarray(np.linalg.lstsq(design, values * root, rcond=None)[0][1:])

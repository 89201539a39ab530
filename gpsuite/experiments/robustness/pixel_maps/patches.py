"""Connected patches of an image's pixels."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import label

from gpsuite.arrays import BoolArray, FloatArray


def largest_patch(chosen: BoolArray) -> BoolArray:
    """Return the largest 4-connected part of the chosen pixels [h, w]; the first of equals, empty if there is none."""
    numbers, count = label(chosen)
    if not count:
        return np.zeros_like(chosen)
    sizes = np.bincount(numbers.ravel())[1:]
    return np.asarray(numbers == 1 + int(np.argmax(sizes)))


def random_patch(shape: tuple[int, int], size: int, rng: np.random.Generator) -> BoolArray:
    """Return a 4-connected patch of so many pixels that grows from a random one by random neighbours."""
    patch = np.zeros(shape, dtype=bool)
    patch[rng.integers(shape[0]), rng.integers(shape[1])] = True
    while patch.sum() < size:
        rim = np.zeros_like(patch)
        rim[1:] |= patch[:-1]
        rim[:-1] |= patch[1:]
        rim[:, 1:] |= patch[:, :-1]
        rim[:, :-1] |= patch[:, 1:]
        places = np.argwhere(rim & ~patch)
        patch[tuple(places[rng.integers(len(places))])] = True
    return patch


def middle(patch: BoolArray) -> FloatArray:
    """Return mean row and column of a patch, as shares of the image's from 0 to 1; NaN if it is empty."""
    places = np.argwhere(patch)
    if not len(places):
        return np.full(2, np.nan)
    return np.asarray(places.mean(axis=0) / (np.array(patch.shape) - 1.0))

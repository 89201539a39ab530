"""Initial inducing inputs. No TensorFlow."""

from __future__ import annotations

import hashlib

import numpy as np

from gpsuite.arrays import FloatArray, IntArray

_ITERATIONS = 300  # scikit-learn's limit
# Seconds per row, centre and input of an iteration, and the multiple of this for the first centres (greedy k-means++).
_PER_TERM, _FIRST = 1e-10, 30.0


def different_rows(X: FloatArray) -> IntArray:
    """Return the first row number of each different row of X [N, D], increasing.

    It does not sort: sorting 60,000 images takes a minute.
    """
    plain = np.ascontiguousarray(X + 0.0)  # turns -0.0 into 0.0, which has other bytes
    first: dict[bytes, int] = {}
    for place, row in enumerate(plain):
        first.setdefault(hashlib.blake2b(row.tobytes(), digest_size=16).digest(), place)
    return np.fromiter(first.values(), dtype=np.int64)


def kmeans_inducing(X: FloatArray, M: int, rng: np.random.Generator) -> FloatArray:
    """Return M inducing inputs [M, D]: the centres of a k-means clustering of the inputs X [N, D].

    Raises:
        ValueError: if X has fewer than M different rows.
    """
    return limited_inducing(X, M, rng, None)[0]


def limited_inducing(X: FloatArray, M: int, rng: np.random.Generator, seconds: float | None) -> tuple[FloatArray, bool]:
    """Return M inducing inputs [M, D] within about `seconds`, and whether the limit changed them.

    They are by k-means with as many iterations as fit. If not even the first centres fit, they are M different rows of
    X.

    Raises:
        ValueError: if X has fewer than M different rows.
    """
    from sklearn.cluster import KMeans

    different = different_rows(X)
    if not 1 <= M <= len(different):
        raise ValueError(f"M={M} inducing inputs requested, but X has {len(different)} different rows")
    seed = int(rng.integers(2**31))
    step = _PER_TERM * X.shape[0] * M * (X.shape[1] + 4)
    fit = _ITERATIONS if seconds is None else int(min(seconds / step - _FIRST, _ITERATIONS))
    if fit < 1:
        return np.asarray(X[np.random.default_rng(seed).choice(different, M, replace=False)], dtype=np.float64), True
    found = KMeans(n_clusters=M, n_init=1, random_state=seed, max_iter=fit).fit(X)
    cut = fit < _ITERATIONS and found.n_iter_ >= fit
    return np.asarray(found.cluster_centers_, dtype=np.float64), cut

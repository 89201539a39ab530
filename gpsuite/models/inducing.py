"""Inducing inputs to start from; no TensorFlow."""

from __future__ import annotations

import numpy as np

from gpsuite.models.linalg import Array


def kmeans_inducing(X: Array, M: int, rng: np.random.Generator) -> Array:
    """Return M inducing inputs [M, D]: the centres of a k-means clustering of the inputs X [N, D].

    Raises:
        ValueError: if X has fewer than M different rows.
    """
    from sklearn.cluster import KMeans

    different = len(np.unique(X, axis=0))
    if not 1 <= M <= different:
        raise ValueError(f"M={M} inducing inputs asked for, but X has {different} different rows")
    seed = int(rng.integers(2**31))
    centres = KMeans(n_clusters=M, n_init=1, random_state=seed).fit(X).cluster_centers_
    return np.asarray(centres, dtype=np.float64)

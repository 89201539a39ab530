"""How much memory the full GP's certificate takes."""

from __future__ import annotations

import tracemalloc

import numpy as np

from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior
from gpsuite.models.config import Hyperparameters


def test_a_full_posterior_takes_two_matrices_at_most() -> None:
    """The factor and its inverse; the kernel becomes the factor in place."""
    n = 400
    X = np.random.default_rng(0).standard_normal((n, 2))
    FullGPPosterior.fit(Hyperparameters(1.0, (1.0,), 0.1), X[:5], X[:5, 0])  # what is imported only when used
    tracemalloc.start()
    try:
        FullGPPosterior.fit(Hyperparameters(1.0, (1.0,), 0.1), X, X[:, 0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.2 * 8 * n * n

"""Made-up slices of posteriors for tests of the level bound's parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gpsuite.methods.robustness.level_bound.cubic import Cubic
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice, posterior_slice
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS

Array = npt.NDArray[np.float64]


def one_datum(kernel: str, datum: Array, weight: float = 0.0) -> PosteriorSlice:
    """Return mu = kappa(x - datum), s = 1, and the variance of a datum with precision `weight`, without rounding."""
    root = np.array([[np.sqrt(weight / (1.0 + weight))]])
    posterior = GPCPosterior(
        datum[None], kernel, 1.0, np.ones(len(datum)), np.ones(1), root, -np.ones(1), 1.0, LINKS.get("probit")
    )
    form = posterior_slice(posterior, np.zeros(len(datum)), np.arange(len(datum)))
    return replace(form, mean_error=0.0, gram_error=0.0, norm2=1.0)


def value(model: Cubic, x: Array, box: int = 0) -> Array:
    """Return the polynomial of one box at points [K, d]."""
    found = model.constant[box] + x @ model.linear[box]
    found = found + np.einsum("kj,ji,ki->k", x, model.quadratic[box], x)
    if model.cubic is not None:
        found = found + np.einsum("kj,ki,kl,jil->k", x, x, x, model.cubic[box])
    return np.asarray(found)


def random_cubic(rng: np.random.Generator, boxes: int, d: int, bent: float = 1.0) -> Cubic:
    """Return polynomials with normal coefficients; `bent` scales the cubic parts."""
    M, C = rng.standard_normal((boxes, d, d)), rng.standard_normal((boxes, d, d, d))
    C = sum(  # type: ignore[assignment]
        C.transpose(0, *axes) for axes in ((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1))
    )
    return Cubic(rng.standard_normal(boxes), rng.standard_normal((boxes, d)), M + M.transpose(0, 2, 1), bent * C / 6.0)

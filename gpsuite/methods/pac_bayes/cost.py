"""Estimated time of an evaluation and a certificate before the first one: operations over this machine's speed.

Equation: none, counts of floating point operations
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gpsuite.methods.pac_bayes.sparse.algebra import stores

# Share of a matrix product's speed, measured over n = 404 to 8000 and M = 100 to 1000.
_EFFICIENCY = 0.65
_SIZE, _REPEATS = 400, 7
# Seconds per entry of a kernel matrix: its exponential, and memory.
_PER_ENTRY = 1.5e-8
# Multiples of n^3 multiplications and additions: for an evaluation of bound or likelihood, and for a certificate.
_FULL, _FULL_CERTIFICATE = 2.0, 1.0
# Multiples of n M^2 operations per evaluation, by objective.
_SPARSE = {"bound": 9.5, "free_form": 5.5, "fitc": 6.5, "vfe": 5.0}
_SPARSE_CERTIFICATE, _PER_LOSS = 13.0, 6.5
_RECOMPUTED = 1.4  # factor if the n x M arrays are not stored


@dataclass(frozen=True)
class Cost:
    """Seconds of one evaluation, and of the certificate with its test metrics."""

    evaluation: float
    certificate: float

    @property
    def after(self) -> float:
        return self.certificate / self.evaluation

    @property
    def least(self) -> float:
        return self.evaluation + self.certificate


def full_gp_cost(n: int, n_test: int, losses: int = 1) -> Cost:
    cube, speed = float(n) ** 3, flops_per_second()
    evaluation = _FULL * cube / speed + 2.0 * _PER_ENTRY * n * n
    predicted = losses * float(n) ** 2 * n_test / speed
    return Cost(evaluation + 1e-4, _FULL_CERTIFICATE * cube / speed + predicted + 2.0 * _PER_ENTRY * n * n)


def sparse_gp_cost(n: int, n_test: int, inducing: int, dimension: int, kind: str, losses: int = 1) -> Cost:
    M, speed = float(inducing), flops_per_second()
    sweep = n * M * (_PER_ENTRY + 4.0 * dimension / speed)
    again = 1.0 if stores(n, inducing, 2) else _RECOMPUTED
    evaluation = again * (_SPARSE[kind] * n + 10.0 * M) * M * M / speed + 2.0 * sweep
    products = _SPARSE_CERTIFICATE * n + _PER_LOSS * losses * n + 2.0 * losses * n_test + 10.0 * M
    return Cost(evaluation + 1e-4, products * M * M / speed + (5.0 + 2.0 * losses) * sweep)


@lru_cache(maxsize=1)
def flops_per_second() -> float:
    """Return the multiplications and additions per second that the large parts of an evaluation reach here and now."""
    matrix = np.random.default_rng(0).normal(size=(_SIZE, _SIZE))
    out = np.empty_like(matrix)
    np.matmul(matrix, matrix, out=out)  # the first product is slower
    start = time.perf_counter()
    for _ in range(_REPEATS):
        np.matmul(matrix, matrix, out=out)
    # take the mean: on a busy machine waiting is part of the speed
    return _EFFICIENCY * 2.0 * _SIZE**3 * _REPEATS / (time.perf_counter() - start)

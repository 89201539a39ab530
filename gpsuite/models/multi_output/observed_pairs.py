"""Covariances between observed values, packed by the outputs they belong to, and what LAPACK makes of them in batches.

With K the covariance of the N observed values and alpha = K^-1 y: log p(y) = -(y' alpha + log det K + N log 2 pi) / 2
and d log p / dK = -(K^-1 - alpha alpha') / 2 (Rasmussen and Williams 2006, equations 2.30 and 5.9).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import dsymv, dsyr
from scipy.linalg.lapack import dpotrf, dpotri

from gpsuite.arrays import FloatArray
from gpsuite.models.multi_output.latent_kernels import squared_distances
from gpsuite.models.multi_output.observations import Observations


class ObservedPairs:
    """The pairs i > j of observed values, sorted by their outputs (p, q), p >= q.

    Attributes:
        y: values, sorted by output [N].
        p: their outputs, ascending [N].
        r2: squared distances of the pairs [M], M = N (N - 1) / 2.
        position: where each pair lies in a matrix [N, N] stored by columns, [M].
        classes: (p, q, slice of the pairs of these outputs).
        member: 1 where a value belongs to an output, else 0, [N, P].
    """

    def __init__(self, observations: Observations, n_outputs: int) -> None:
        """Take the observations and P."""
        order = np.argsort(observations.p, kind="stable")
        X, p = observations.X[order], observations.p[order]
        self.y, self.p = observations.y[order], p
        self.member: FloatArray = (p[:, None] == np.arange(n_outputs)).astype(np.float64)
        row, column = np.tril_indices(len(p), -1)
        by_class = np.lexsort((row, column, p[column], p[row]))
        row, column = row[by_class], column[by_class]
        self.position = column * len(p) + row
        self.r2 = squared_distances(X, X)[row, column]
        code = p[row] * n_outputs + p[column]
        found, starts = np.unique(code, return_index=True)
        edges = [*starts.tolist(), len(code)]
        self.classes = [
            (int(each) // n_outputs, int(each) % n_outputs, slice(start, end))
            for each, start, end in zip(found, edges[:-1], edges[1:], strict=True)
        ]


class CovarianceBatch:
    """Arrays for the covariances of one batch of parameter vectors, used again: fresh ones cost page faults.

    Attributes:
        packed: covariances of the pairs, or after `adjoints` the entries of K^-1 - alpha alpha' there, [size, M].
        diagonal: the same on the diagonal, [size, N].
    """

    def __init__(self, size: int, pairs: ObservedPairs) -> None:
        """Take the largest number of parameter vectors and the pairs."""
        n = len(pairs.y)
        self._pairs = pairs
        self.packed = np.empty((size, len(pairs.r2)))
        square = np.empty((size, n, n))
        self._flat = square.reshape(size, n * n)
        self.diagonal = self._flat[:, :: n + 1]
        # Fortran-ordered, so that LAPACK works in place: the lower triangle of each view
        self._views = [each.T for each in square]
        self._alpha = np.empty((size, n))

    def __len__(self) -> int:
        return len(self.packed)

    def likelihoods(self, count: int) -> FloatArray:
        """Return the log marginal likelihoods [count] of the first covariances; -inf where one cannot be factorised.

        By the inverses, which `adjoints` needs, too: a likelihood has the same bits with and without its gradient.
        """
        pairs, y = self._pairs, self._pairs.y
        self._flat[:count, pairs.position] = self.packed[:count]
        failed = [dpotrf(view, 1, 0, 1)[1] for view in self._views[:count]]
        half_log_det = np.log(self.diagonal[:count]).sum(axis=1)
        for view, alpha in zip(self._views[:count], self._alpha, strict=False):
            dpotri(view, 1, 1)
            dsymv(1.0, view, y, 0.0, alpha, lower=1, overwrite_y=1)
        value = -0.5 * (self._alpha[:count] @ y) - half_log_det - 0.5 * len(y) * math.log(2.0 * math.pi)
        return np.where(failed, -np.inf, value)

    def adjoints(self, count: int) -> None:
        """Replace the first covariances, of which `likelihoods` was asked, by K^-1 - alpha alpha'."""
        for view, alpha in zip(self._views[:count], self._alpha, strict=False):
            dsyr(-1.0, alpha, lower=1, a=view, overwrite_a=1)
        np.take(self._flat[:count], self._pairs.position, axis=1, out=self.packed[:count], mode="clip")

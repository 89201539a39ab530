"""Memory of the sweeps over the data in blocks, and the sums over blocks that the sparse objectives share.

Equation: derived, sweeps over the data
Equation: derived, rounding of the sparse posterior
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.sparse.algebra import (
    InducingKernel,
    WhitenedPosterior,
    block_of,
    blocks,
    longest_block,
    squared_norms,
    symmetric,
)

# Bytes of n x M arrays up to which an objective keeps its blocks instead of computing them again.
STORED_BYTES = 512 * 2**20
# Rows of a weighted gram matrix formed at once: only panels up to the diagonal are needed.
_PANEL = 64


def stores(n: int, n_inducing: int, arrays: int) -> bool:
    """Return whether so many n x M arrays stay below `STORED_BYTES`."""
    return 8 * n * n_inducing * arrays <= STORED_BYTES


class BlockArray:
    """Blocks [M, rows] in C order: each has its own place, or all share one and are computed again when needed.

    Args:
        n: number of points.
        n_inducing: M.
        stored: whether each block has its own place.
    """

    def __init__(self, n: int, n_inducing: int, stored: bool) -> None:
        self.stored = stored
        self._n_inducing = n_inducing
        self._memory = np.zeros(n_inducing * (n if stored else longest_block(n)))

    def block(self, rows: slice) -> FloatArray:
        """Return the place of a block, with whatever it holds."""
        place = rows if self.stored else slice(0, rows.stop - rows.start)
        return block_of(self._memory, self._n_inducing, place)


class WeightedGram:
    """Sum over blocks of V diag(weights) V', for weights of either sign.

    Args:
        n_inducing: M.
    """

    def __init__(self, n_inducing: int) -> None:
        self._panels = np.zeros((n_inducing, n_inducing))

    def add(self, V: FloatArray, weights: FloatArray) -> None:
        """Add a block V [M, rows] with weights [rows]."""
        for first in range(0, len(V), _PANEL):
            panel = slice(first, first + _PANEL)
            self._panels[panel, : panel.stop] += (V[panel] * weights) @ V[: panel.stop].T

    def total(self) -> FloatArray:
        """Return the sum [M, M], symmetric."""
        return symmetric(self._panels, _PANEL)


@dataclass(frozen=True)
class RiskSums:
    """Losses and their derivatives at every point, with the sums over V that the gradient needs; see `sum_risk`.

    Attributes:
        mean: of the posterior [N].
        loss: expected loss [N].
        d_mean: its derivative in the mean [N].
        d_variance: its derivative in the variance [N].
        C: V diag(d_variance) V' [M, M].
        V_d_mean: V d_mean [M].
    """

    mean: FloatArray
    loss: FloatArray
    d_mean: FloatArray
    d_variance: FloatArray
    C: FloatArray
    V_d_mean: FloatArray

    def scaled(self, factor: float) -> RiskSums:
        """Return this with every derivative times a factor."""
        return replace(
            self, d_mean=self.d_mean * factor, d_variance=self.d_variance * factor, C=self.C * factor,
            V_d_mean=self.V_d_mean * factor,
        )  # fmt: skip


def sum_risk(
    loss: Loss,
    y: FloatArray,
    n_inducing: int,
    block_at: Callable[[slice], FloatArray],
    moments: Callable[[FloatArray, slice], tuple[FloatArray, FloatArray]],
) -> RiskSums:
    """Evaluate the losses block by block; not yet weighted by the bound's derivative, which needs their mean.

    Args:
        loss: whose expectation under the posterior is summed.
        y: targets [N].
        n_inducing: M.
        block_at: gives the block of V [M, rows].
        moments: gives mean and variance [rows] of the posterior from a block and its rows.
    """
    n = len(y)
    mean, losses, d_mean, d_variance = (np.empty(n) for _ in range(4))
    gram, V_d_mean = WeightedGram(n_inducing), np.zeros(n_inducing)
    for rows in blocks(n):
        V = block_at(rows)
        mean[rows], variance = moments(V, rows)
        parts = loss.expected_with_gradient(y[rows], mean[rows], variance)
        losses[rows], d_mean[rows], d_variance[rows] = parts
        gram.add(V, d_variance[rows])
        V_d_mean += V @ d_mean[rows]
    return RiskSums(mean, losses, d_mean, d_variance, gram.total(), V_d_mean)


# How far rounding of K_ZZ can have moved what a sparse certificate rests on: outward slack for its risk and KL.
#
# What float64 factorises is K_ZZ + E with |E_ij| of a few ulps of sigma_f^2. A number that is computed from the
# factor
# then differs from the exact one by at most sum |G_ij| |E_ij| to first order, G being its derivative in K_ZZ. Where
# K_ZZ
# is nearly singular G is large along directions that the data fix, and only along these: the condition number of
# K_ZZ,
# which knows nothing of the data, would say far too much.


# A slack above this multiple of 1 + KL is no longer a first-order effect: a jitter then costs less.
LARGEST_SLACK = 1e-3


@dataclass(frozen=True)
class Slopes:
    """The derivatives of a number, a risk or the KL, in what it is computed from.

    Attributes:
        d_mean: in the posterior means at the training inputs [N].
        d_variance: in their variances [N].
        d_kl: in the KL.
        size: how large it may be: 1 for a risk. Everything but K_ZZ costs a few ulps of it.
    """

    d_mean: FloatArray
    d_variance: FloatArray
    d_kl: float = 0.0
    size: float = 1.0

    @classmethod
    def of_risk(cls, loss: Loss, y: FloatArray, mean: FloatArray, variance: FloatArray) -> Slopes:
        """Return the slopes of the Gibbs risk at training points with these moments, [N] each."""
        _, d_mean, d_variance = loss.expected_with_gradient(y, mean, variance)
        return cls(d_mean / len(y), d_variance / len(y))

    @classmethod
    def of_kl(cls, n: int, kl: float) -> Slopes:
        """Return the slopes of the KL itself."""
        return cls(np.zeros(n), np.zeros(n), 1.0, 1.0 + kl)


def sparse_slack(
    inducing: InducingKernel, posterior: WhitenedPosterior, X: FloatArray, y: FloatArray, noise: float, alpha: float,
    slopes: Slopes,
) -> float:  # fmt: skip
    """Return by how much rounding of K_ZZ can move a number of the posterior between FITC and VFE.

    With P = S (F V Lambda^-1 V'/2 - C) S, C = V diag(gv) V', u = S (V gm + F b) and E = V diag(d/d Lambda) V' the
    derivative in K_ZZ is -L^-T Y L^-1 / 2, Y = F (I - S - b b') - 2 C - 2 P + u b' + b u' - 2 alpha E, as in
    `SparseGPObjective`.

    Args:
        inducing: K_ZZ and its factor.
        posterior: N(b, S).
        X: training inputs [N, D].
        y: training targets [N].
        noise: s.
        alpha: of the posterior.
        slopes: gm, gv and F of the number.
    """
    b, F, M = posterior.mean, slopes.d_kl, len(posterior.mean)
    S = posterior.inverse_factor.T @ posterior.inverse_factor
    C, gram, V_d_mean = WeightedGram(M), WeightedGram(M), np.zeros(M)
    for rows, V, spare in _whitened_blocks(inducing, X):
        if slopes.d_kl == 0.0:
            C.add(V, slopes.d_variance[rows])
        else:
            gram.add(V, 1.0 / (noise + alpha * spare))
        V_d_mean += V @ slopes.d_mean[rows]
    P = S @ (0.5 * F * gram.total() - C.total()) @ S
    u = S @ (V_d_mean + F * b)
    Y = F * (np.eye(M) - S - np.outer(b, b)) - 2.0 * C.total() - P - P.T + np.outer(u, b) + np.outer(b, u)
    if alpha > 0.0:
        E = WeightedGram(M)
        for rows, V, spare in _whitened_blocks(inducing, X):
            slope = (u @ V) * (b @ V - y[rows]) - np.einsum("ij,ij->j", V, P @ V)
            E.add(V, slope / (noise + alpha * spare) ** 2)
        Y -= 2.0 * alpha * E.total()
    G = 0.5 * inducing.variance * np.abs(inducing.unwhitened_matrix(Y)).sum()
    G *= 1.0 + inducing.whitening_error  # the derivative is itself taken at a rounded factor
    # sigma_f^2 - |V_i|^2 is a difference, too, beside the noise
    return inducing.entry_error * float(G + slopes.size * (1.0 + alpha * inducing.variance / noise))


def free_form_slack(
    inducing: InducingKernel, mean: FloatArray, factor: FloatArray, X: FloatArray, slopes: Slopes
) -> float:
    """Return by how much rounding of K_ZZ can move a risk of the whitened posterior N(m, T T').

    Its KL does not depend on K_ZZ. The derivative in K_ZZ is L^-T (Phi + Phi') L^-1 / 2, as in `FreeFormObjective`.

    Args:
        inducing: K_ZZ and its factor.
        mean: m [M].
        factor: T [M, M].
        X: training inputs [N, D].
        slopes: gm and gv of the risk.
    """
    M = len(mean)
    C, V_d_mean = WeightedGram(M), np.zeros(M)
    for rows, V, _ in _whitened_blocks(inducing, X):
        C.add(V, slopes.d_variance[rows])
        V_d_mean += V @ slopes.d_mean[rows]
    phi = -np.tril(np.outer(mean, V_d_mean) + 2.0 * ((factor @ factor.T - np.eye(M)) @ C.total()))
    phi[np.diag_indices_from(phi)] *= 0.5
    G = 0.5 * inducing.variance * np.abs(inducing.unwhitened_matrix(phi + phi.T)).sum()
    return inducing.entry_error * float(G + slopes.size)


def _whitened_blocks(
    inducing: InducingKernel, X: FloatArray
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield the rows of every block, V [M, rows] and sigma_f^2 - |V_i|^2 [rows]."""
    for rows in blocks(len(X)):
        V = np.empty((len(inducing.scaled), rows.stop - rows.start))
        inducing.whitened(inducing.features(X[rows]), V)
        yield rows, V, np.maximum(inducing.variance - squared_norms(V), 0.0)

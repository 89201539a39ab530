"""Memory of the sweeps over the data in blocks, and the sums over blocks that the sparse objectives share.

Equation: derived, sweeps over the data
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.sparse.algebra import block_of, blocks, longest_block, symmetric

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

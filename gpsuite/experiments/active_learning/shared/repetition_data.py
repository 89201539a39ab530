"""What one repetition works on: a pool to query from, starting data, and test data it never sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.active_learning.safety import SafetyLimit

PAIRS, ONE_OUTPUT = "pairs", "one_output"


OFFERS = (PAIRS, ONE_OUTPUT)


@dataclass(frozen=True, eq=False)
class Table:
    """Measured rows, with the truth behind them where it is known.

    Attributes:
        X: inputs [n, D].
        Y: measured outputs [n, P].
        z: measured safety values [n].
        F: noise-free outputs [n, P], or None.
        h: noise-free safety values [n], or None.
    """

    X: FloatArray
    Y: FloatArray
    z: FloatArray
    F: FloatArray | None = None
    h: FloatArray | None = None

    def rows(self, rows: IntArray) -> Table:
        """Return some of the rows."""
        F = None if self.F is None else self.F[rows]
        h = None if self.h is None else self.h[rows]
        return Table(self.X[rows], self.Y[rows], self.z[rows], F, h)


@dataclass(frozen=True, eq=False)
class Repetition:
    """One repetition, the same for every pipeline.

    Attributes:
        pool: what can be queried.
        available: which output of which pool row may be queried at the beginning [n, P].
        start: the starting inputs, every output measured.
        start_outputs: which outputs of the starting inputs are given at the beginning [M, P].
        test: rows to evaluate predictions on.
        test_safe: which test rows count as safe [n_test].
        targets: what predictions are held against in the published curves: `true` (noise-free) or `noisy`.
        limit: which safety values are safe.
    """

    pool: Table
    available: BoolArray
    start: Table
    start_outputs: BoolArray
    test: Table
    test_safe: BoolArray
    targets: Literal["true", "noisy"]
    limit: SafetyLimit

    @property
    def n_outputs(self) -> int:
        """Number P of outputs."""
        return self.pool.Y.shape[1]


def started_outputs(initial: int, n_outputs: int, queries: str) -> BoolArray:
    """Return which outputs of which starting inputs are given, `initial` values altogether, [M, P].

    Partial queries: M = initial inputs, of input k output k mod P. Full ones: M = initial / P inputs, every output.
    Li et al. 2022, appendix J.
    """
    if queries == "full":
        return np.ones((initial // n_outputs, n_outputs), dtype=np.bool_)
    found: BoolArray = np.arange(initial)[:, None] % n_outputs == np.arange(n_outputs)
    return found


def offered(rows: int, n_outputs: int, offers: str) -> BoolArray:
    """Return which outputs each pool row offers [n, P]: all of them, or of row n the output n mod P only.

    The second is the authors' code: a row leaves its pool once queried, with whichever output it offered.
    """
    if offers == PAIRS:
        return np.ones((rows, n_outputs), dtype=np.bool_)
    found: BoolArray = np.arange(rows)[:, None] % n_outputs == np.arange(n_outputs)
    return found


def without_started(available: BoolArray, pool_rows: IntArray, started: BoolArray, offers: str) -> BoolArray:
    """Return what is still available after the start.

    Args:
        available: what the pool offers [n, P].
        pool_rows: pool row of each starting input, -1 where it is not in the pool [M].
        started: which outputs of the starting inputs are given [M, P].
        offers: `pairs`, or `one_output`, where the whole row leaves.
    """
    left = available.copy()
    inside = pool_rows >= 0
    used = started[inside] if offers == PAIRS else np.ones_like(started[inside])
    left[pool_rows[inside]] &= ~used
    return left


def positions(wanted: IntArray, pool: IntArray) -> IntArray:
    """Return where each of the wanted numbers stands in `pool` (distinct numbers), -1 where it does not."""
    order = np.argsort(pool)
    place = np.searchsorted(pool, wanted, sorter=order)
    candidate = order[np.minimum(place, len(pool) - 1)]
    return np.where(pool[candidate] == wanted, candidate, -1)


@dataclass(frozen=True, kw_only=True)
class RepetitionData:
    """What the data of one repetition depend on, wherever they come from.

    Attributes:
        seed: of all that is drawn.
        initial: values measured at the beginning, all outputs together.
        offers: what a pool row can be asked for, of `OFFERS`.
    """

    seed: int
    initial: int
    offers: str

    def generators(self, count: int) -> list[np.random.Generator]:
        """Return independent Generators, one per part of the data."""
        return np.random.default_rng(self.seed).spawn(count)

    def offers_to(self, queries: str) -> str:
        """Return what pool rows offer to a kind of queries: full ones measure everything, and a row leaves."""
        return PAIRS if queries == "full" else self.offers

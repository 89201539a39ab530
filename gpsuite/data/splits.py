"""Random splits and scaling as in the papers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.errors import UserError, unknown_name

SCALINGS = ("all", "train")
LEAST_TEST_GROUPS = 5


def train_test_indices(n: int, test_share: float, random_state: int) -> tuple[IntArray, IntArray]:
    """Return the row indices (train, test) of scikit-learn's `train_test_split`, in its order.

    Splitting the rows themselves with the same `random_state`, as the public code of Reeb et al. 2018 does, gives
    the same sets.

    Args:
        n: number of rows N.
        test_share: share of test rows, between 0 and 1 exclusively.
        random_state: scikit-learn's seed, from 0 to 2**32 - 1.

    Raises:
        UserError: if the share is outside (0, 1), or leaves one side without a row.
    """
    if not 0.0 < test_share < 1.0:
        raise UserError(f"test_share={test_share}: must lie between 0 and 1", key="test_share")
    n_test = int(np.ceil(n * test_share))  # scikit-learn's rounding
    if n_test >= n:
        raise UserError(f"test_share={test_share}: leaves no training row of {n}", key="test_share")
    order = np.random.RandomState(random_state).permutation(n)  # the generator of scikit-learn
    return order[n_test:], order[:n_test]


def set_aside(data: Dataset, rows: IntArray, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the positions of test and training rows among some rows of a table.

    They are random. If the rows are in order of time, the last rows are the test rows. If rows belong to groups, some
    groups are drawn, with the same share of all groups. One random row of each is a test row. No training row belongs
    to these groups.

    Args:
        data: the table.
        rows: row numbers, increasing.
        count: number of test rows.
        rng: source of randomness.
    """
    order = rng.permutation(len(rows))
    if data.clusters is None:
        if data.order != "time":
            return order[:count], order[count:]
        last = len(rows) - count
        return np.arange(last, len(rows)), order[order < last]
    own = data.clusters[rows[order]]
    kinds, first = np.unique(own, return_index=True)
    number = min(max(-(-count * len(kinds) // len(rows)), LEAST_TEST_GROUPS), len(kinds) - 1) if count else 0
    chosen = rng.permutation(len(kinds))[:number]
    return order[first[chosen]], order[~np.isin(own, kinds[chosen])]


def without_copies(train: IntArray, test: IntArray, groups: IntArray | None) -> IntArray:
    """Return the training rows without those that are copies of a test row.

    Args:
        train: row numbers of the training set.
        test: row numbers of the test set.
        groups: `Dataset.groups`, the number of the first row that equals each row, [N], or None.
    """
    return train if groups is None else train[~np.isin(groups[train], groups[test])]


@dataclass(frozen=True, eq=False)
class DifferentRows:
    """The rows of a selection that repeat no earlier row of the table.

    Whether a row's first copy is in the selection does not depend on its number of copies. So if a row is one draw
    stored several times, these rows are a random part of all draws.

    Attributes:
        places: positions of these rows in the selection, [m].
        seen: whether the other rows, which the model learnt from, contain a copy, [m].
    """

    places: IntArray
    seen: BoolArray

    @classmethod
    def of(cls, rows: IntArray, others: IntArray, groups: IntArray | None) -> DifferentRows | None:
        """Return the different rows. None if every row is different and none is among the others.

        Args:
            rows: row numbers.
            others: numbers of the rows that must not contain a copy.
            groups: `Dataset.groups`, the number of the first row that equals each row, [N], or None.
        """
        if groups is None:
            return None
        places = np.flatnonzero(groups[rows] == rows)
        seen = np.isin(rows[places], groups[others])
        return None if len(places) == len(rows) and not seen.any() else cls(places, seen)

    @classmethod
    def every(cls, count: int) -> DifferentRows:
        """Return all rows, for the case that `of` returns None."""
        return cls(np.arange(count), np.zeros(count, dtype=bool))


@dataclass(frozen=True, eq=False)
class Standardiser:
    """The affine map of each column to mean 0 and standard deviation 1.

    Attributes:
        mean: column means, [D].
        scale: column standard deviations with divisor N (ddof 0), [D], 1 for a constant column.
    """

    mean: FloatArray
    scale: FloatArray

    @classmethod
    def fit(cls, rows: FloatArray) -> Standardiser:
        """Return the map that standardises `rows` [N, D].

        Raises:
            ValueError: if there are no rows, or they are not a matrix.
        """
        if rows.ndim != 2 or rows.shape[0] == 0:
            raise ValueError(f"rows must be a matrix with at least one row. Its shape is {rows.shape}")
        scale = rows.std(axis=0)
        # rounding may leave a constant column with a tiny deviation. Dividing by it would turn rounding into data
        constant = (rows.max(axis=0) == rows.min(axis=0)) | (scale == 0.0)
        return cls(mean=rows.mean(axis=0), scale=np.where(constant, 1.0, scale))

    def transform(self, rows: FloatArray) -> FloatArray:
        """Return (rows - mean) / scale, [N, D]."""
        return (rows - self.mean) / self.scale

    def inverse(self, rows: FloatArray) -> FloatArray:
        """Return rows * scale + mean, [N, D]: standardised values in their original units."""
        return rows * self.scale + self.mean


def fit_standardiser(rows: FloatArray, train: IntArray, scaling: str) -> Standardiser:
    """Return the Standardiser fitted on all rows or only on the training rows.

    Reeb et al. 2018 scale with all rows before the split (`all`). With `train` nothing leaks from the test rows.

    Args:
        rows: inputs or targets, [N, D].
        train: row numbers of the training set.
        scaling: `all` or `train`.

    Raises:
        UserError: if `scaling` is neither.
    """
    if scaling not in SCALINGS:
        raise unknown_name("scaling", scaling, SCALINGS)
    return Standardiser.fit(rows if scaling == "all" else rows[train])

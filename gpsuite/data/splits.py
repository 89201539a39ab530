"""Random splits and scaling as in the papers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.errors import UserError, unknown_name

SCALINGS = ("all", "train")


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


def copies_together(train: IntArray, test: IntArray, groups: IntArray | None) -> tuple[IntArray, IntArray]:
    """Return the split with all copies of a row on the side of the first of them; the same where none are.

    Args:
        train: row numbers of the training set.
        test: row numbers of the test set.
        groups: `Dataset.groups`, the number of the first row that equals each row, [N], or None.

    Raises:
        UserError: if one side would be left without rows.
    """
    if groups is None:
        return train, test
    order, tests = np.concatenate([train, test]), np.zeros(len(groups), dtype=bool)
    tests[test] = True
    aside = tests[groups[order]]
    if aside.all() or not aside.any():
        raise UserError("test_share: the copies of few different rows are all on one side", key="test_share")
    return order[~aside], order[aside]


def without_copies(train: IntArray, test: IntArray, groups: IntArray | None) -> IntArray:
    """Return the training rows without those that are copies of a test row; see `copies_together`."""
    return train if groups is None else train[~np.isin(groups[train], groups[test])]


def first_copies(rows: IntArray, groups: IntArray | None) -> IntArray | None:
    """Return the positions in `rows` of the first of each row's copies; None where all are different."""
    if groups is None:
        return None
    first = np.sort(np.unique(groups[rows], return_index=True)[1])
    return None if len(first) == len(rows) else first


@dataclass(frozen=True, eq=False)
class Standardiser:
    """The affine map of each column to mean 0 and standard deviation 1.

    Attributes:
        mean: column means, [D].
        scale: column standard deviations with divisor N (ddof 0), [D]; 1 for a constant column.
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
            raise ValueError(f"rows must be a matrix with at least one row; its shape is {rows.shape}")
        scale = rows.std(axis=0)
        # rounding may leave a constant column with a tiny deviation; dividing by it would make data of it
        constant = (rows.max(axis=0) == rows.min(axis=0)) | (scale == 0.0)
        return cls(mean=rows.mean(axis=0), scale=np.where(constant, 1.0, scale))

    def transform(self, rows: FloatArray) -> FloatArray:
        """Return (rows - mean) / scale, [N, D]."""
        return (rows - self.mean) / self.scale

    def inverse(self, rows: FloatArray) -> FloatArray:
        """Return rows * scale + mean, [N, D]: standardised values in their original units."""
        return rows * self.scale + self.mean


def fit_standardiser(rows: FloatArray, train: IntArray, scaling: str) -> Standardiser:
    """Return the Standardiser fitted on all rows or on the training rows only.

    Reeb et al. 2018 scale with all rows before the split (`all`); `train` lets nothing of the test rows leak.

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

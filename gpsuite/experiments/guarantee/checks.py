"""What the guarantees assume, each held against the data where that is possible.

A check that finds nothing proves nothing; one that finds something says "violated".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import binom, ks_2samp

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.errors import UserError

Metrics = dict[str, float | int | str | bool | None]

LEVEL = 0.001  # of a check: a table has about ten, and a false alarm is told to everybody
PERMUTATIONS = 1999
MOST_ROWS = 2000  # that a permutation check looks at
FEW_VALUES = 10  # of a column, which cannot tell rows apart
PARTS = 3  # the first third of the rows is compared with the last

HOLDS, VIOLATED, UNCHECKED = "no sign against it", "violated", "not checked"


@dataclass(frozen=True)
class Check:
    """One assumption.

    Attributes:
        assumption: in words.
        needed_by: the guarantees that need it.
        finding: what was looked at and found.
        verdict: `HOLDS`, `VIOLATED` or `UNCHECKED`.
    """

    assumption: str
    needed_by: str
    finding: str
    verdict: str

    @classmethod
    def of(cls, assumption: str, needed_by: str, finding: str, violated: bool) -> Check:
        """Return the check with its verdict."""
        return cls(assumption, needed_by, finding, VIOLATED if violated else HOLDS)


def duplicates(X: FloatArray, y: FloatArray) -> tuple[int, bool]:
    """Return how many rows repeat an earlier one in inputs [N, D] and target [N], and whether that is a sign.

    Rows of few whole numbers repeat by chance. More than a hundredth of them does not where the target has many values
    or some column tells most of the different rows apart.
    """
    table = np.unique(np.column_stack([X, y]), axis=0)
    repeated = len(X) - len(table)
    telling = max(len(np.unique(column)) for column in table.T)
    unlikely = len(np.unique(y)) > FEW_VALUES or telling > max(0.5 * len(table), FEW_VALUES)
    return repeated, repeated > 0.01 * len(X) and unlikely


def few_different(name: str, groups: IntArray) -> UserError:
    """Return the refusal of a table of which no test rows can be set aside with all their copies.

    Args:
        name: of the dataset.
        groups: `Dataset.groups`, the number of the first row that equals each row, [N].
    """
    different = len(np.unique(groups))
    return UserError(
        f"dataset={name}: {len(groups)} rows are only {different} different ones: no test rows can be set aside of "
        "which a model sees no copy\n"
        "give a file with the columns that tell its rows apart; so few different rows need no model: count them",
        key="dataset",
    )


def drift(columns: FloatArray, names: Sequence[str]) -> tuple[str, float]:
    """Return the column of [N, K] that differs most between the first and last rows, and its corrected p-value."""
    size = max(len(columns) // PARTS, 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful", RuntimeWarning)
        p = [float(ks_2samp(column[:size], column[-size:]).pvalue) for column in columns.T]
    least = int(np.argmin(p))
    return names[least], min(1.0, len(p) * p[least])


def order_pattern(residuals: FloatArray, rng: np.random.Generator) -> float:
    """Return the p-value that residuals [N], in the file's order, have no correlation with their successor."""
    centred = residuals - residuals.mean()
    return _permutation_p(centred, lambda values: float(values[:-1] @ values[1:]), rng)


def input_pattern(
    X: FloatArray, residuals: FloatArray, rng: np.random.Generator, neighbours: int = 5
) -> float:
    """Return the p-value that residuals [N] have no correlation with those of the rows of nearest inputs [N, D]."""
    if len(X) > MOST_ROWS:
        chosen = rng.choice(len(X), MOST_ROWS, replace=False)
        X, residuals = X[chosen], residuals[chosen]
    if len(X) < 2:
        return 1.0  # a single row has no neighbour
    count = min(neighbours, len(X) - 1)
    near = np.asarray(cKDTree(X).query(X, count + 1)[1])
    centred = residuals - residuals.mean()
    return _permutation_p(centred, lambda values: float(values @ values[near[:, 1:]].mean(axis=1)), rng)


def row_metrics(data: Dataset, y: FloatArray, in_order: FloatArray, rng: np.random.Generator) -> Metrics:
    """Return what the rows say about being independent draws from one distribution.

    Args:
        data: the table.
        y: what makes rows with equal inputs different ones: a regression's target, or an input again, [N].
        in_order: residuals of rows that a model did not see, in the file's order.
        rng: of the permutations.
    """
    names = (data.target_names[0], *data.input_names)
    column, drift_p = drift(np.column_stack([data.y[:, 0], data.X]), names)
    repeated, sign = duplicates(data.X, y)
    return {
        "repeated_rows": repeated,
        "repeated": sign,
        "drift_column": column,
        "drift_p": drift_p,
        "order_p": order_pattern(in_order, rng),
    }


def coverage_p(inside: int, count: int, coverage: float) -> float:
    """Return the probability that so few of `count` targets lie inside intervals of this coverage."""
    return float(binom.cdf(inside, count, coverage))


def _permutation_p(
    values: FloatArray, statistic: Callable[[FloatArray], float], rng: np.random.Generator
) -> float:
    """Return the one-sided p-value of a statistic under random orders of the values."""
    observed = statistic(values)
    reached = sum(statistic(rng.permutation(values)) >= observed for _ in range(PERMUTATIONS))
    return (1 + reached) / (1 + PERMUTATIONS)

"""What the guarantees assume, each held against the data where that is possible.

A check that finds nothing proves nothing; one that finds something says "violated".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import binom, ks_2samp

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.dataset import Dataset
from gpsuite.errors import UserError
from gpsuite.experiments.base import BUDGET, DONE, Record, SharedWork, Task

Metrics = dict[str, float | int | str | bool | None]

LEVEL = 0.001  # of a check: a table has about ten, and a false alarm is told to everybody
PERMUTATIONS = 1999
MOST_ROWS = 2000  # that a permutation check looks at
FEW_VALUES = 10  # of a column, which cannot tell rows apart
PARTS = 3  # the first third of the rows is compared with the last
HOLDS, VIOLATED, UNCHECKED = "no sign against it", "violated", "not checked"
SAMPLES = "test rows, PAC-Bayes, conformal, jackknife+"
OF_CLASSES = "test rows, certified"


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


def input_pattern(X: FloatArray, residuals: FloatArray, rng: np.random.Generator, neighbours: int = 5) -> float:
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


def _permutation_p(values: FloatArray, statistic: Callable[[FloatArray], float], rng: np.random.Generator) -> float:
    """Return the one-sided p-value of a statistic under random orders of the values."""
    observed = statistic(values)
    reached = sum(statistic(rng.permutation(values)) >= observed for _ in range(PERMUTATIONS))
    return (1 + reached) / (1 + PERMUTATIONS)


@dataclass
class Searches:
    """The searches of one task: each has its boxes, all together have the seconds.

    The models are trained whole, whatever the seconds: the answers of several tasks are about the same ones.

    Attributes:
        clock: of the task.
        boxes: limit for each search.
        observer: told after every step; see `SharedWork`.
        cut: how many the seconds ended, or did not let begin: what these did not reach is not proved.
    """

    clock: Budget
    boxes: int
    observer: Callable[[Budget], None] | None = None
    cut: int = 0

    @classmethod
    def of(cls, task: Task[Any], shared: SharedWork) -> Searches:
        """Return those of a task that begins now."""
        return cls(shared.budget(task.budget_seconds), task.params.boxes, shared.observer)

    def may_begin(self) -> bool:
        """Return whether there are seconds left for another search; one that may not begin is counted."""
        ended = self.clock.exhausted
        self.cut += ended
        return not ended

    def budget(self, times: int = 1) -> Budget:
        """Return the next search's budget, of so many times the boxes."""
        return self.clock.rest(boxes=times * self.boxes, observer=self.observer)

    def ended(self, *reasons: str) -> bool:
        """Return whether the seconds ended a search, by the reasons of its parts; it is counted then."""
        cut = any(reason.endswith("seconds used up") for reason in reasons)
        self.cut += cut
        return cut

    @property
    def outcome(self) -> tuple[str, str]:
        """Status and reason of the task, as far as its searches go."""
        if not self.cut:
            return DONE, ""
        return BUDGET, f"{self.clock.seconds:g} seconds used up, {self.cut} searches did not end"


def nested(ranges: FloatArray, tolerances: Sequence[float]) -> FloatArray:
    """Return proved ranges [B, K, 2], each with what is proved of the larger tolerances [K]; NaN where nothing is."""
    order = np.argsort(tolerances)[::-1]
    found = ranges.copy()
    found[:, order, 0] = np.fmax.accumulate(ranges[:, order, 0], axis=1)
    found[:, order, 1] = np.fmin.accumulate(ranges[:, order, 1], axis=1)
    return found


def row_checks(
    record: Record, samples: str = OF_CLASSES, copies: str = OF_CLASSES, order: str = OF_CLASSES
) -> list[Check]:
    """Return the checks of rows as independent draws from one distribution.

    Args:
        record: of the judged model.
        samples: guarantees that need draws from one distribution.
        copies: those that copies hurt.
        order: those that an order in time hurts.
    """
    repeated = int(record.number("repeated_rows"))
    drift_p, order_p = record.number("drift_p"), record.number("order_p")
    moved = f"first against last third of the file: {record.metrics['drift_column']} differs most, p = {drift_p:.2g}"
    return [
        Check(
            "rows are independent: no copies",
            copies,
            f"{repeated} rows repeat an earlier one; the bounds are the worse of those with and without them"
            if repeated
            else "no row repeats another",
            VIOLATED if record.metrics["repeated"] else UNCHECKED if repeated else HOLDS,
        ),
        Check.of("rows come from one distribution: no drift", samples, moved, drift_p < LEVEL),
        Check.of(
            "rows are independent: no order in time",
            order,
            f"correlation of residuals with the next row's, p = {order_p:.2g}",
            order_p < LEVEL,
        ),
        Check("new rows come from the same distribution", samples, "cannot be seen from the table", UNCHECKED),
    ]


def regression_checks(record: Record, bands: Sequence[Record], excluded: int) -> list[Check]:
    """Return the checks of a regression."""
    found = row_checks(record, SAMPLES, "jackknife+", f"{SAMPLES}, band")
    pattern, inside = record.number("pattern_p"), int(record.number("gp_inside"))
    n, spread_p = int(record.number("n_test")), record.number("gp_inside_p")
    found.append(
        Check.of(
            "the model's own spread is not too small",
            "the model's own intervals",
            f"they held {inside} of {n} test targets, p = {spread_p:.2g}",
            spread_p < LEVEL,
        )
    )
    found.append(
        Check.of(
            "the model leaves no pattern in the residuals",
            "the model's own intervals",
            f"correlation of residuals of neighbouring test rows, p = {pattern:.2g}",
            pattern < LEVEL,
        )
    )
    if bands:
        found += band_checks(bands, excluded)
    return found


def band_checks(bands: Sequence[Record], excluded: int) -> list[Check]:
    """Return the checks of the bands: their models' residuals, and whether the models contradict each other."""
    found = []
    if len(bands) == 2:
        first, second = (
            (each.arrays[f"pointwise_lower_{excluded}"], each.arrays[f"pointwise_upper_{excluded}"]) for each in bands
        )
        apart = int(np.count_nonzero((first[0] > second[1]) | (second[0] > first[1])))
        found.append(
            Check.of(
                "the function is in the span of the band's model",
                "band",
                f"the two models' bands exclude each other at {apart} of {len(first[0])} places",
                apart > 0,
            )
        )
    found.append(
        Check(
            "the noise is symmetric about 0, and independent of the inputs (none is an earlier target)",
            "band",
            "not seen apart from the model's own error",
            UNCHECKED,
        )
    )
    return found

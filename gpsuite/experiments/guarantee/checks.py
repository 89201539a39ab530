"""Assumptions of the guarantees, each compared with the data if possible.

A check that finds nothing proves nothing. A finding is *contradicted* only if it is significant among all checks
of the table and the statement truly needs the assumption. Other signs are *doubtful*.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import binom, ks_2samp

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.dataset import Dataset
from gpsuite.data.table.order import counts_rows, sorted_by
from gpsuite.errors import UserError
from gpsuite.experiments.base import BUDGET, DONE, Record, SharedWork, Task
from gpsuite.experiments.guarantee.tasks import GuaranteeSettings
from gpsuite.statistics.significance import holm

Metrics = dict[str, float | int | str | bool | None]

LEVEL = 0.01  # of all checks of a table together for a contradiction, of each on its own for a doubt
PERMUTATIONS = 1999
MOST_ROWS = 2000  # that a permutation check looks at
PARTS = 3  # the first third of the rows is compared with the last
NOTHING, DOUBTFUL, CONTRADICTED, UNCHECKED = "nothing found", "doubtful", "contradicted", "not checked"
SAMPLES = "test rows, PAC-Bayes, conformal, jackknife+"
OF_CLASSES = "test rows, PAC-Bayes, certified"
OWN_INTERVALS = "the model's own intervals"
TRUSTED = "scale=paper  # conformal_low to conformal_high need no such assumption"
NEWEST = "test_share=0.1  # judged by the newest tenth of the rows"
UNSETTLED = "dataset.order=time  # or none, if the order of the rows says nothing"
PAST = "if rows came in this order over time, the guarantees hold for the past mixture, not for the next row"


@dataclass(frozen=True)
class Check:
    """One assumption.

    Attributes:
        assumption: in words.
        needed_by: the statements that need it.
        finding: what was looked at and found.
        p: of the finding. None if there is none.
        needed: whether the statements are false without it.
        advice: further words of the command to run next.
        verdict: `NOTHING`, `DOUBTFUL`, `CONTRADICTED` or `UNCHECKED`.
    """

    assumption: str
    needed_by: str
    finding: str
    p: float | None = None
    needed: bool = False
    advice: str = ""
    verdict: str = UNCHECKED


def with_verdicts(checks: Sequence[Check]) -> list[Check]:
    """Return the checks of one table with verdicts for checks that have a p-value."""
    tested = [check for check in checks if check.p is not None]
    rejected = iter(holm([float(check.p or 0.0) for check in tested], LEVEL))
    return [check if check.p is None else replace(check, verdict=_verdict(check, next(rejected))) for check in checks]


def _verdict(check: Check, rejected: bool) -> str:
    if rejected and check.needed:
        return CONTRADICTED
    return DOUBTFUL if check.p is not None and check.p < LEVEL else NOTHING


def few_different(name: str, groups: IntArray) -> UserError:
    """Return the refusal of a table from which no test rows can be set aside with all their copies.

    Args:
        name: of the dataset.
        groups: `Dataset.groups`, the number of the first row that equals each row, [N].
    """
    different = len(np.unique(groups))
    return UserError(
        f"dataset={name}: {len(groups)} rows are only {different} different ones. No test rows can be set aside "
        "without a copy in training\n"
        "give a file with the columns that distinguish its rows. So few different rows need no model: count them",
        key="dataset",
    )


def drift(columns: FloatArray, names: Sequence[str]) -> tuple[str, float] | None:
    """Return the column of [N, K] that differs most between the first and last rows, and its corrected p-value."""
    if not names:
        return None
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

    The models are trained whole, regardless of the seconds: the answers of several tasks are about the same ones.

    Attributes:
        clock: of the task.
        boxes: limit for each search.
        observer: told after every step. See `SharedWork`.
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
        """Return whether there are seconds left for another search. One that may not begin is counted."""
        ended = self.clock.exhausted
        self.cut += ended
        return not ended

    def budget(self, times: int = 1, among: int = 1) -> Budget:
        """Return the next search's budget: so many times the boxes, its share of the seconds among so many searches."""
        rest = self.clock.rest(boxes=times * self.boxes, observer=self.observer)
        rest.seconds = None if rest.seconds is None else rest.seconds / among
        return rest

    def ended(self, *reasons: str) -> bool:
        """Return whether the seconds ended a search, by the reasons of its parts. It is counted then."""
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
    """Return proved ranges [B, K, 2], each with what is proved of the larger tolerances [K]. NaN if nothing is."""
    order = np.argsort(tolerances)[::-1]
    found = ranges.copy()
    found[:, order, 0] = np.fmax.accumulate(ranges[:, order, 0], axis=1)
    found[:, order, 1] = np.fmin.accumulate(ranges[:, order, 1], axis=1)
    return found


def row_checks(data: Dataset, record: Record, samples: str = OF_CLASSES, order: str = OF_CLASSES) -> list[Check]:
    """Return the checks of rows as independent draws from one distribution.

    Args:
        data: the table.
        record: of the judged model.
        samples: guarantees that need draws from one distribution.
        order: those that an order in time hurts.
    """
    return [
        _copies(data),
        *_order_checks(data, record, samples, order),
        Check("new rows come from the same distribution", samples, "cannot be seen from the table"),
    ]


def _copies(data: Dataset) -> Check:
    """Return the sentences on copies: each bound holds with them."""
    count = 0 if data.groups is None else int(np.count_nonzero(data.groups != np.arange(len(data.X))))
    both = "each bound is the worse of counting them as draws and of counting them once"
    finding = f"{count} of {len(data.X)} rows are copies of others, target included; {both}" if count else "none"
    return Check("no copies among the rows", OWN_INTERVALS, finding, verdict=NOTHING)


def _order_checks(data: Dataset, record: Record, samples: str, order: str) -> list[Check]:
    """Return the checks of the order of the rows, which may be one in time."""
    drifting, following = "rows come from one distribution: no drift", "rows are independent: no order in time"
    if why := order_says_nothing(data):
        return [Check(name, needed, why) for name, needed in ((drifting, samples), (following, order))]
    known = in_time_order(data)
    advice = NEWEST if data.order else f"dataset.time={shlex.quote(_sorted_by(data))}" if known else UNSETTLED
    found = []
    if (moved := drift(*_drifting_columns(data))) is not None:
        words = f"first against last third of the file: {moved[0]} differs most, p = {moved[1]:.2g}"
        found.append(Check(drifting, samples, _with_meaning(words, moved[1]), moved[1], known, advice))
    p = record.number("order_p")
    words = f"correlation of residuals with the next row's, p = {p:.2g}"
    return [*found, Check(following, order, _with_meaning(words, p), p, known, advice)]


def _with_meaning(words: str, p: float) -> str:
    return f"{words}; {PAST}" if p < LEVEL else words


def order_says_nothing(data: Dataset) -> str:
    """Return why the order of the rows is not tested, or an empty string if it may be one in time."""
    if data.order == "none":
        return "the order of the file says nothing: dataset.order=none"
    if data.order == "time":
        return ""
    name = _sorted_by(data)
    return f"the file is sorted by {name}: its order says nothing" if name and not _is_date(data, name) else ""


def in_time_order(data: Dataset) -> bool:
    """Return whether the rows are known to be in order of time: by `dataset.order`, or sorted by a date."""
    return data.order == "time" or (data.order != "none" and _is_date(data, _sorted_by(data)))


def _is_date(data: Dataset, name: str) -> bool:
    return data.reading.get(f"written {name}") == "date"


def _sorted_by(data: Dataset) -> str:
    """Return the column that the file is sorted or blocked by, or an empty string."""
    dates = [name for name in data.input_names if _is_date(data, name)]
    names = (*data.target_names, *data.input_names)
    name = sorted_by(np.column_stack([data.y, data.X]), names, dates) or data.sorted_by
    return next((column for column in data.categories if name.startswith(f"{column}=")), name)


def _drifting_columns(data: Dataset) -> tuple[FloatArray, list[str]]:
    """Return columns [N, K] and names of what may drift: no row number or date that the rows follow."""
    columns, names = np.column_stack([data.y[:, :1], data.X]), (data.target_names[0], *data.input_names)
    order = (_sorted_by(data), data.time)
    kept = [place for place, column in enumerate(columns.T) if names[place] not in order and not counts_rows(column)]
    return columns[:, kept], [names[place] for place in kept]


def regression_checks(
    data: Dataset, record: Record, held: tuple[int, int] | None, bands: Sequence[Record], settings: GuaranteeSettings
) -> list[Check]:
    """Return the checks of a regression.

    Args:
        data: the table.
        record: of the judged model.
        held: how many targets the kept model's own intervals held, and of how many rows. None if it did not train.
        bands: of the function.
        settings: of the run.
    """
    found = row_checks(data, record, SAMPLES, f"{SAMPLES}, band")
    if held is not None:
        p = coverage_p(*held, settings.coverage)
        words = f"they held {held[0]} of {held[1]} targets, p = {p:.2g}"
        found.append(Check("the model's own spread is not too small", OWN_INTERVALS, words, p, advice=TRUSTED))
    p = record.number("pattern_p")
    words = f"correlation of residuals of neighbouring test rows, p = {p:.2g}"
    found.append(Check("the model leaves no pattern in the residuals", OWN_INTERVALS, words, p, advice="scale=paper"))
    return with_verdicts([*found, *(band_checks(bands, settings.excluded) if bands else [])])


def bands_apart(bands: Sequence[Record], excluded: int) -> tuple[int, int]:
    """Return at how many places the bands of two models exclude each other, and of how many places."""
    if len(bands) < 2:
        return 0, 0
    first, second = (
        (each.arrays[f"pointwise_lower_{excluded}"], each.arrays[f"pointwise_upper_{excluded}"]) for each in bands
    )
    return int(np.count_nonzero((first[0] > second[1]) | (second[0] > first[1]))), len(first[0])


def band_checks(bands: Sequence[Record], excluded: int) -> list[Check]:
    """Return the checks of the bands: their models' residuals, and whether the models contradict each other."""
    found, (apart, places) = [], bands_apart(bands, excluded)
    if places:
        words = f"the two models' bands exclude each other at {apart} of {places} places"
        verdict = DOUBTFUL if apart else NOTHING  # one of the functions is not true, or a band missed by chance
        found.append(Check("the function is in the span of the band's model", "band", words, verdict=verdict))
    noise = "the noise is symmetric about 0, and independent of the inputs (none is an earlier target)"
    return [*found, Check(noise, "band", "not seen apart from the model's own error")]

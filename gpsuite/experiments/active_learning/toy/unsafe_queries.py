"""How many queries were truly unsafe, repetition by repetition; there is no guarantee for a function that is given.

That the share is at most delta on average holds only where the safety value is drawn from the model's own prior: with
learned hyperparameters and a query that depends on all before, a given function may have more unsafe queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.toy.settings import ToySettings
from gpsuite.experiments.base import Report
from gpsuite.statistics.estimates import mean, proportion

if TYPE_CHECKING:
    import pandas as pd


MEASURE = "safe_true"


LABELS = {
    "counted": "first queries",
    "delta": "δ",
    "low_percent": "from",
    "high_percent": "to",
    "any_low_percent": "at least",
    "any_high_percent": "at most",
}


def report_unsafe(report: Report[ToySettings], sets: Mapping[str, Curves], name: str) -> None:
    """Write `name`, one row per inference and pipeline, and `name`_by_seed, one row per repetition; none without h.

    Args:
        report: what is written on.
        sets: label of the inference -> its repetitions.
        name: of the file.
    """
    by_seed = unsafe_by_seed(sets)
    if by_seed.empty:
        return
    by_seed["method"] = [report.titles[method] for method in by_seed["method"]]
    each = (
        "Truly unsafe queries of each repetition, in percent; exact binomial 95 % intervals, as if a repetition's "
        "queries were independent"
    )
    report.table(by_seed, f"{name}_by_seed", each, LABELS)
    overall = (
        "Truly unsafe queries, in percent: mean over the repetitions with its 95 % t interval; repetitions with at "
        "least one, and the exact binomial 95 % interval of their share; those whose own binomial interval lies "
        "above δ"
    )
    report.table(unsafe_table(by_seed, report.settings.delta), name, overall, LABELS)


def unsafe_by_seed(sets: Mapping[str, Curves]) -> pd.DataFrame:
    """Return one row per number of first queries counted, inference, method and repetition.

    All queries of each kind of inference are counted, and of the longer ones also as many as the shorter ones have:
    shares are comparable among rows with equal `counted` only.
    """
    import pandas as pd

    lengths = sorted({_longest(curves, method) for curves in sets.values() for method in _methods(curves)})
    rows = [
        row
        for counted in lengths
        for inference, curves in sets.items()
        for method in _methods(curves)
        if _longest(curves, method) >= counted
        for row in _repetitions(curves, method, counted, inference)
    ]
    return pd.DataFrame(rows)


def _methods(curves: Curves) -> list[str]:
    return [method for method in curves.methods if curves.has(method, MEASURE)]


def _longest(curves: Curves, method: str) -> int:
    return max(len(run.arrays[MEASURE]) for run in curves.runs[method].values())


def _repetitions(
    curves: Curves, method: str, counted: int, inference: str
) -> Iterator[dict[str, str | int | float]]:
    for repetition, run in curves.runs[method].items():
        safe = run.arrays[MEASURE][:counted]
        unsafe = int(np.count_nonzero(safe == 0.0))
        share = proportion(unsafe, len(safe))
        yield {
            "counted": counted,
            "inference": inference,
            "method": method,
            "repetition": repetition,
            "queries": len(safe),
            "unsafe": unsafe,
            "share_percent": 100.0 * unsafe / len(safe),
            "low_percent": 100.0 * share.low,
            "high_percent": 100.0 * share.high,
        }


def unsafe_table(by_seed: pd.DataFrame, delta: float) -> pd.DataFrame:
    """Return one row per number of queries counted, inference and method of `unsafe_by_seed`'s rows.

    The interval of the mean is over repetitions, which are independent; queries of one repetition are not, so that no
    binomial interval is given for all queries together. A t interval says nothing where no query was unsafe: the
    binomial interval of the share of repetitions with one does.
    """
    import pandas as pd

    rows = []
    keys = ["counted", "inference", "method"]
    for key, group in by_seed.groupby(keys, sort=False):
        whole = mean(group["share_percent"]).within(0.0, 100.0)
        some = int((group["unsafe"] > 0).sum())
        concerned = proportion(some, len(group))
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                "delta": delta,
                "share_percent": whole.value,
                "low_percent": whole.low,
                "high_percent": whole.high,
                "queries": int(group["queries"].sum()),
                "unsafe": int(group["unsafe"].sum()),
                "any_percent": 100.0 * some / len(group),
                "any_low_percent": 100.0 * concerned.low,
                "any_high_percent": 100.0 * concerned.high,
                "surely_above": int((group["low_percent"] > 100.0 * delta).sum()),
                "repetitions": len(group),
            }
        )
    return pd.DataFrame(rows)

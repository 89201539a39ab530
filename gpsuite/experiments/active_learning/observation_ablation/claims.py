"""What appendix J of Li et al. 2022 states about partial queries, as statistics."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.active_learning.shared.claims import AL, extreme, wilcoxon_claim
from gpsuite.experiments.active_learning.shared.curves import VALUE, Curves
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import mean
from gpsuite.statistics.significance import LEVEL


def common_areas(curves: Curves) -> dict[str, FloatArray]:
    """Return each method's mean RMSE between the largest first and the smallest last N_sum of all [R]."""
    lines = {method: curves.curve(method, "rmse") for method in curves.methods}
    first = max(int(curve.n_sum[0]) for curve in lines.values())
    last = min(int(curve.n_sum[-1]) for curve in lines.values())
    return {method: curve.area(first, last) for method, curve in lines.items()}


def ablation_statistics(
    sets: Mapping[str, Curves], partial: Mapping[str, bool], unequal: Mapping[str, Curves]
) -> list[Statistic]:
    """Return on how many datasets AL_MOGP with single outputs has the smallest area, and how one-sided it gets.

    Args:
        sets: dataset -> curves of all pipelines.
        partial: method -> whether it measures one output per query.
        unequal: which inequality -> curves of AL_MOGP.
    """
    found, cells, undecided = [], [], ""
    for curves in sets.values():
        others = [method for method in curves.methods if method != AL]
        if AL in curves.methods and any(not partial[method] for method in others):
            areas = curves.paired(common_areas(curves))
            smaller = wilcoxon_claim("", [areas.pair(VALUE, AL, other) for other in others], LEVEL)
            undecided = undecided or (smaller.note if np.isnan(smaller.value) else "")
            cells.append(smaller.value == 1.0)
    if undecided:
        found.append(Statistic("share_partial_most_efficient", float("nan"), n=0, note=undecided))
    elif cells:
        found.append(claim("share_partial_most_efficient", cells))
    if unequal:
        shares = {which: [mean(output) for output in query_shares(each).T] for which, each in unequal.items()}
        shown = ", ".join(
            f"{which} {max(one.value, other.value):.2f}" for which, (one, other) in shares.items()
        )
        outputs = [output for both in shares.values() for output in both]
        found.append(extreme("max_query_share_of_one_output", outputs, max, shown))
    return found


def query_shares(curves: Curves) -> FloatArray:
    """Return the share of AL_MOGP's queries that went to each of the two outputs, [R, 2]."""
    shares = [
        np.bincount(run.arrays["p"].astype(np.int64), minlength=2) / len(run.arrays["p"])
        for run in curves.runs[AL].values()
    ]
    return np.array(shares)

"""Posterior quality and robustness over datasets: what Sec. 6.2 of Blaas et al. 2020 says across its three."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.shared.probability_change_claims import (
    EP,
    LAPLACE,
    by_classifier,
    log_ratios,
)
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.statistics.estimates import corrected_mean
from gpsuite.statistics.paired import Paired
from gpsuite.statistics.significance import LEVEL, corrected_t_p
from gpsuite.statistics.significance import rank_correlation as spearman

if TYPE_CHECKING:
    import pandas as pd


def converged(records: Sequence[Record], trained_by: str) -> list[Quality]:
    """Return the distances of the records whose chains converged, at one method's hyperparameters."""
    return [
        Quality(str(record.axes["dataset"]), int(record.axes["draw"]), dict(record.arrays))
        for record in records
        if record.axes["method"] == trained_by and record.metrics.get("hmc_converged")
    ]


SPAM, MNIST = "spam", "mnist38"


PAIRED = ("wasserstein", "probability_error")  # the metrics in which EP is held against Laplace


NAMES = {"wasserstein": "hmc_distance", "kl": "hmc_kl", "probability_error": "hmc_probability_error"}


@dataclass(frozen=True, eq=False)
class Quality:
    """Distances to HMC at the test points of one dataset and draw, where the chains converged.

    Attributes:
        dataset: the study's title.
        draw: number of the draw of rows.
        at_points: `distance_method` -> values at the test points, [B].
    """

    dataset: str
    draw: int
    at_points: Mapping[str, FloatArray]


def quality_claims(
    by_training: Sequence[Sequence[Quality]],
    deltas: Mapping[str, pd.DataFrame],
    at: int,
    test_over_training: float,
) -> list[Statistic]:
    """Return the statistics of conf/paper/blaas2020.yaml over datasets.

    Args:
        by_training: distances to HMC, of converged chains, by the method that learned the hyperparameters.
        deltas: dataset's title -> records of delta; per dataset the radii in their order of importance.
        at: evaluations in training of the classifiers that HMC was run for.
        test_over_training: test rows over training rows of a draw.
    """
    found = by_training[0]
    main = {title: by_classifier(frame[frame["rank"] == 0]) for title, frame in deltas.items()}
    return [
        *distance_statistics(found, test_over_training),
        ep_closer(by_training, list(deltas), test_over_training),
        smallest_difference(main, SPAM, test_over_training),
        smallest_delta(deltas, MNIST),
        same_order(found, main, at),
        rank_correlation(found, main, at),
    ]


def distance_statistics(found: Sequence[Quality], test_over_training: float) -> list[Statistic]:
    """Return the mean distances per dataset and method, each draw's mean over its test points being one value."""
    statistics = []
    for dataset in dict.fromkeys(each.dataset for each in found):
        for distance, name in NAMES.items():
            for method in (LAPLACE, EP):
                values = _draw_means(found, dataset, f"{distance}_{method}")
                if len(values):
                    named = statistic_name(name, dataset=dataset, method=method)
                    found_mean = corrected_mean(values, test_over_training).within(0.0, math.inf)
                    note = "means over the test points of a draw"
                    statistics.append(Statistic.of(named, found_mean, note=note))
    return statistics


def ep_closer(
    by_training: Sequence[Sequence[Quality]], datasets: Sequence[str], test_over_training: float
) -> Statistic:
    """Return the share of trainings, datasets and metrics in which EP is surely closer to HMC, draw by draw.

    One draw proves nothing: its test points share the classifiers and the chains. NaN where a dataset has no two.
    """
    cells, name = [], "share_ep_closer_to_hmc"
    for found, dataset, distance in product(by_training, datasets, PAIRED):
        laplace, ep = (_draw_means(found, dataset, f"{distance}_{method}") for method in (LAPLACE, EP))
        if len(ep) < 2 or len(laplace) != len(ep):
            return Statistic(
                name, float("nan"), note=f"{dataset} has fewer than two draws whose chains converged"
            )
        cells.append(corrected_t_p(laplace - ep, test_over_training) < LEVEL / 2.0)
    return claim(name, cells)


def _draw_means(found: Sequence[Quality], dataset: str, name: str) -> FloatArray:
    own = [each.at_points[name] for each in found if each.dataset == dataset and name in each.at_points]
    return np.array([values.mean() for values in own])


def smallest_difference(deltas: Mapping[str, Paired], dataset: str, test_over_training: float) -> Statistic:
    """Return with which confidence Laplace's and EP's median deltas differ least on a dataset, by their ratio.

    At the largest number of evaluations: 1 less the largest p-value of the one-sided tests of the ratio's mean absolute
    logarithm over training draws against each other dataset's; NaN unless each has two draws.
    """
    name = statistic_name("smallest_difference_confidence", dataset=dataset)
    if dataset not in deltas or len(deltas) < 2:
        return Statistic(name, float("nan"), n=0)
    logs = {title: np.abs(log_ratios(each, each.levels("evaluations")[-1])) for title, each in deltas.items()}
    draws = min(len(values) for values in logs.values())
    if draws < 2:
        return Statistic(name, float("nan"), n=draws, note="two training draws or more are needed")
    # draws are numbered alike, so that the first ones of two datasets can be subtracted
    own = logs.pop(dataset)[:draws]
    p_values = [corrected_t_p(values[:draws] - own, test_over_training) for values in logs.values()]
    return Statistic(name, 1.0 - max(p_values), n=draws, note="training draws")


def smallest_delta(deltas: Mapping[str, pd.DataFrame], dataset: str, ranks: int = 2) -> Statistic:
    """Return the share of methods, evaluations and radii in which a dataset's median delta is below all others'."""
    cells = []
    if dataset in deltas and len(deltas) > 1:
        for rank in range(ranks):
            tables = {title: by_classifier(frame[frame["rank"] == rank]) for title, frame in deltas.items()}
            for method in (LAPLACE, EP):
                for evaluations in tables[dataset].levels("evaluations"):
                    medians = {
                        title: _median(each("delta", method, evaluations)) for title, each in tables.items()
                    }
                    if np.isfinite(list(medians.values())).all():
                        own = medians.pop(dataset)
                        cells.append(own < min(medians.values()))
    return claim("share_delta_smallest_on_mnist38", cells)


def same_order(found: Sequence[Quality], deltas: Mapping[str, Paired], at: int) -> Statistic:
    """Return 1 if (Laplace / EP distance to HMC) and (Laplace / EP delta) order the datasets the same way."""
    name = "same_order_of_quality_and_robustness"
    pairs = []
    for title, each in deltas.items():
        laplace, ep = (_draw_means(found, title, f"wasserstein_{method}") for method in (LAPLACE, EP))
        if len(laplace) and len(ep):
            pairs.append(
                (float(laplace.mean() / ep.mean()), _ratio(each("delta", LAPLACE, at), each("delta", EP, at)))
            )
    if len(pairs) < 2 or not np.isfinite(pairs).all():
        return Statistic(name, float("nan"), n=0)
    quality, robustness = np.array(pairs).T
    same = bool((np.argsort(quality) == np.argsort(robustness)).all())
    return Statistic(name, float(same), n=1, note=f"{len(pairs)} datasets")


def quality_pairs(
    found: Sequence[Quality], deltas: Mapping[str, Paired], at: int
) -> list[tuple[str, float, float]]:
    """Return, per dataset and draw, its title and the ratios Laplace / EP of distance to HMC and of median delta."""
    pairs = []
    for each in found:
        table = deltas.get(each.dataset)
        both = [each.at_points.get(f"wasserstein_{name}") for name in (LAPLACE, EP)]
        if table is None or each.draw not in table.levels("draw") or both[0] is None or both[1] is None:
            continue
        row, distance = table.levels("draw").index(each.draw), float(both[0].mean() / both[1].mean())
        deltas_of = (table("delta", method, at)[row] for method in (LAPLACE, EP))
        pairs.append((each.dataset, distance, _ratio(*deltas_of)))
    return [pair for pair in pairs if np.isfinite(pair[1:]).all()]


def rank_correlation(found: Sequence[Quality], deltas: Mapping[str, Paired], at: int) -> Statistic:
    """Return Spearman's correlation of the two ratios over datasets and draws; NaN with fewer than three pairs."""
    pairs = quality_pairs(found, deltas, at)
    name = "quality_robustness_spearman"
    quality, robustness = [pair[1] for pair in pairs], [pair[2] for pair in pairs]
    correlation = spearman(quality, robustness)
    return Statistic(
        name, correlation, n=len(pairs), note="" if np.isnan(correlation) else "dataset and draw"
    )


def _median(values: FloatArray) -> float:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else float("nan")


def _ratio(laplace: FloatArray, ep: FloatArray) -> float:
    below = _median(ep)
    return _median(laplace) / below if below > 0.0 else float("nan")

"""Statistics of robustness/explain_synthetic2d and explain_spam: what LIME and the effects say of all points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.experiments.base import Record
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.statistics.estimates import corrected_mean
from gpsuite.statistics.significance import rank_correlation

DRAWS = "means over the points; one value per training draw"


def global_claims(
    records: Sequence[Record], gammas: Sequence[float], test_over_training: float
) -> list[Statistic]:
    """Return the statistics of conf/paper/blaas2020.yaml on Fig. 6.

    Args:
        records: of one method, one per draw.
        gammas: lengths of the intervals.
        test_over_training: test rows over training rows of a draw.
    """
    lime = [record.arrays["lime"].mean(axis=0) for record in records]
    truth = [record.arrays["direction"] for record in records]
    wrong = [bool((np.sign(own) == -np.sign(true)).all()) for own, true in zip(lime, truth, strict=True)]
    found = [claim("share_lime_signs_wrong", wrong, "training draws; all inputs' signs are wrong")]
    found.append(_over_draws("cosine_lime_with_truth", cosine, lime, truth, test_over_training))
    agree: list[bool] = []
    decided: list[bool] = []
    lime_signs = decided_signs(lime, test_over_training)
    for number, gamma in enumerate(gammas):
        delta = [record.arrays["delta"][number].mean(axis=0) for record in records]
        for name, measure, other in (
            ("cosine_delta_with_lime", cosine, lime),
            ("cosine_delta_with_truth", cosine, truth),
            ("spearman_delta_with_lime", _spearman, lime),
        ):
            named = statistic_name(name, gamma=gamma)
            found.append(_over_draws(named, measure, delta, other, test_over_training))
        for own, theirs in zip(delta, lime, strict=True):
            agree.extend((np.sign(own) == np.sign(theirs)).tolist())
        signs = decided_signs(delta, test_over_training)
        decided.extend((signs == lime_signs)[(signs != 0) & (lime_signs != 0)].tolist())
    shown = f"{sum(decided)} of {len(decided)} signs that the draws show in both pictures"
    return [*found, claim("share_signs_as_lime", agree, f"input, gamma and training draw; {shown}")]


def decided_signs(effects: Sequence[FloatArray], test_over_training: float) -> IntArray:
    """Return each input's sign over the training draws: of the mean if its 95 % interval leaves 0 out, otherwise 0.

    Args:
        effects: of every input, [D], one per draw.
        test_over_training: as in `corrected_mean`.
    """
    means = [corrected_mean(column, test_over_training) for column in np.transpose(effects)]
    return np.array([int(each.low > 0.0) - int(each.high < 0.0) for each in means])


def cosine(first: FloatArray, second: FloatArray) -> float:
    """Return the cosine of the angle between two vectors; NaN if one is zero."""
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if norms > 0.0 else float("nan")


def _spearman(first: FloatArray, second: FloatArray) -> float:
    return rank_correlation(first.tolist(), second.tolist())


def _over_draws(
    name: str,
    measure: Callable[[FloatArray, FloatArray], float],
    first: Sequence[FloatArray],
    second: Sequence[FloatArray],
    test_over_training: float,
) -> Statistic:
    values = [measure(own, other) for own, other in zip(first, second, strict=True)]
    found = corrected_mean(values, test_over_training).within(-1.0, 1.0)
    return Statistic.of(name, found, note=DRAWS)

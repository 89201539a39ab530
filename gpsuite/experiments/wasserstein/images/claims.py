"""What the notes on Wild et al. 2022 say in words, as statistics of the image experiments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.wasserstein.images.tables import COMPARED, DETECTION, detection_rows
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.rows import Statistic as Row
from gpsuite.statistics.estimates import Estimate, corrected_mean
from gpsuite.statistics.significance import corrected_t_p

if TYPE_CHECKING:
    import pandas as pd

Estimator = Callable[[FloatArray], Estimate]

ROBUST_MAX, SOFTMAX = "gwi", "gwi_softmax"
LEVEL = 0.05
CHANCE = 0.5  # the AUROC of a number that tells nothing
_ERRORS = {
    "max_expected_log_likelihood_error": "expected_log_likelihood_error",
    "max_class_probability_error": "class_probability_error",
    "max_probability_sum_error": "probability_sum_error",
    "max_class_probability_sum_error": "class_probability_sum_error",
}


def claims(clean: pd.DataFrame, every: pd.DataFrame, test_over_training: float) -> list[Statistic]:
    """Return the statistics of the claims that these records can decide.

    Args:
        clean: records of clean labels.
        every: those of noisy ones too.
        test_over_training: test rows over training rows of a split; 0 where repetitions do not split the same rows.
    """
    estimate = partial(corrected_mean, test_over_training=test_over_training)
    found = [
        *_formulas(clean),
        *_ensemble(clean, estimate),
        *_knowledge(clean, estimate),
        _all_measures(clean),
    ]
    if every["label_noise"].max() > 0.0:
        found.append(_label_noise(every, test_over_training))
    return found


def _formulas(frame: pd.DataFrame) -> list[Statistic]:
    ours = frame[frame["method"] == ROBUST_MAX]
    if ours.empty or "prediction_is_argmax" not in ours:
        return []
    largest = [
        Row.of(name, Estimate(float(ours[column].max()), n=len(ours))) for name, column in _ERRORS.items()
    ]
    share = float(ours["prediction_is_argmax"].min())
    return [*largest, Row.of("share_prediction_is_argmax", Estimate(share, n=len(ours)))]


def _ensemble(frame: pd.DataFrame, estimate: Estimator) -> list[Statistic]:
    """Return whether an ensemble is better than a network trained alone: than its own members its NLL always is."""
    own = frame.set_index("repetition")
    ensemble, single = (own[own["method"] == name] for name in ("ensemble", "map"))
    shared = ensemble.index.intersection(single.index)
    if shared.empty:
        return []
    gained = ensemble.loc[shared, "accuracy"] - single.loc[shared, "accuracy"]
    saved = single.loc[shared, "nll"] - ensemble.loc[shared, "nll"]
    better = [estimate(gain.to_numpy(dtype=np.float64)).above(0.0) for gain in (gained, saved)]
    return [claim("share_ensemble_better_than_one", better)]


def _knowledge(frame: pd.DataFrame, estimate: Estimator) -> list[Statistic]:
    rows = detection_rows(frame)
    found = []
    ours = rows[rows["method"] == ROBUST_MAX]
    if not ours.empty:
        gap = float(np.abs(ours["auroc_knowledge"] - ours["auroc"]).max())
        found.append(Row.of("max_auroc_difference[method=gwi]", Estimate(gap, n=len(ours))))
    cells, notes = [], []
    for name in ("ensemble", "mc_dropout"):
        own = rows[rows["method"] == name]
        if own.empty:
            continue
        means = own.groupby("repetition")[["auroc_knowledge", "auroc"]].mean().to_numpy(dtype=np.float64)
        own_auroc, gain = estimate(means[:, 0]), estimate(means[:, 0] - means[:, 1])
        # one repetition has no interval: nothing is shown then
        cells.append(own_auroc.low > CHANCE and (gain.low >= 0.0 or gain.contains(0.0)))
        notes.append(
            f"{name}: {own_auroc.value:.3f}, against entropy {gain.value:+.4f} from {gain.low:.4f} to {gain.high:.4f}"
        )
    if not cells:
        return found
    return [*found, claim("share_mutual_information_useful", cells, note="; ".join(notes))]


def _all_measures(frame: pd.DataFrame) -> Statistic:
    """Return the share of methods with calibration, scores, detection and shifted-input curves."""
    names = [
        name
        for name in frame.columns
        if name in ("ece", "brier", "nll") or name.split(" ")[0] in (*DETECTION, *COMPARED)
    ]
    shifted = any("shift" in name for name in names)
    cells = [shifted and bool(rows[names].notna().all(axis=None)) for _, rows in frame.groupby("method")]
    return claim("share_methods_with_all_measures", cells)


def _label_noise(frame: pd.DataFrame, test_over_training: float) -> Statistic:
    """Return the share of noise levels at which robust max loses significantly less accuracy than softmax."""
    cells, notes = [], []
    pivot = frame.pivot_table(index="repetition", columns=["method", "label_noise"], values="accuracy")
    for level in sorted(set(frame["label_noise"]) - {0.0}):
        columns = [(name, at) for name in (ROBUST_MAX, SOFTMAX) for at in (0.0, level)]
        if not set(columns) <= set(pivot.columns):
            continue
        drops = {name: pivot[name, 0.0] - pivot[name, level] for name in (ROBUST_MAX, SOFTMAX)}
        saved = (drops[SOFTMAX] - drops[ROBUST_MAX]).dropna().to_numpy(dtype=np.float64)
        p = corrected_t_p(saved, test_over_training) if len(saved) > 1 else float("nan")
        cells.append(bool(saved.size and saved.mean() > 0.0 and p < LEVEL))
        notes.append(f"{100 * level:g} %: {saved.mean():+.4f}, p = {p:.2g}")
    return claim("share_robust_max_loses_less", cells, note="; ".join(notes))
